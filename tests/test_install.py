"""`cmake --install` gives a program, headers and a CMake package with which another project builds
and runs (examples/)."""

import os
import shutil
import subprocess

import pytest

from munia_cli import BIN, QWEN, ROOT, environment

BUILD = BIN.parent


def run(*command, **options):
    result = subprocess.run(list(map(str, command)), capture_output=True, text=True, **options)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    if not (BUILD / "cmake_install.cmake").exists():
        pytest.skip(f"{BUILD} is no build directory, so there is nothing to install from")
    path = tmp_path_factory.mktemp("prefix")
    run("cmake", "--install", BUILD, "--prefix", path)
    return path


def test_installed_files(prefix):
    assert run(prefix / "bin" / "munia", "--version").startswith("munia ")
    headers = {path.name for path in (prefix / "include" / "munia").iterdir()}
    assert headers == {"munia.h", "model.h", "types.h", "errors.h"}
    for header in (prefix / "include" / "munia").iterdir():
        for line in header.read_text().splitlines():
            if line.startswith("#include \""):
                assert line.startswith("#include \"munia/"), line


def test_example_builds_against_the_package_and_runs(prefix, tmp_path):
    # A copy outside the repository: it can only find what is installed.
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    flags = os.environ.get("MUNIA_TEST_CXX_FLAGS", "")
    run("cmake", "-S", tmp_path / "examples", "-B", tmp_path / "build",
        f"-DCMAKE_PREFIX_PATH={prefix}", f"-DCMAKE_CXX_FLAGS={flags}")
    run("cmake", "--build", tmp_path / "build")
    out = run(tmp_path / "build" / "munia_example", QWEN, "今天真好",
              env=environment(tmp_path))
    assert "back to the same text: yes" in out
    assert "label: 正面" in out and "label: 负面" in out
    assert "streamed as one: yes" in out
    assert "cancelled: " in out
    missing = subprocess.run([tmp_path / "build" / "munia_example", tmp_path / "none"],
                             capture_output=True, text=True)
    assert missing.returncode == 3 and "cannot load" in missing.stderr
