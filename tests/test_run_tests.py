"""tools/run_tests.py: the last line must be the true sum, whatever happened."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "tools" / "run_tests.py"
sys.path.insert(0, str(ROOT / "tools"))

import run_tests  # noqa: E402

CTEST_XML = """<?xml version="1.0"?>
<testsuite name="x" tests="4" failures="1" skipped="2">
  <testcase name="A.Good" classname="A.Good" status="run"/>
  <testcase name="A.Bad" classname="A.Bad" status="fail"><failure message=""/></testcase>
  <testcase name="A.Skips" classname="A.Skips" status="notrun">
    <skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/>
    <system-out>[ RUN      ] A.Skips
a_test.cpp:7: Skipped
MUNIA_TEST_QWEN_GGUF
is not set
[  SKIPPED ] A.Skips (0 ms)
</system-out>
  </testcase>
  <testcase name="A.Off" classname="A.Off" status="disabled"><skipped message="Disabled"/></testcase>
</testsuite>
"""


def run_on(tmp_path, text, *more):
    (tmp_path / "test_inner.py").write_text(text, encoding="utf-8")
    environment = {key: value for key, value in os.environ.items() if "PYTEST" not in key}
    result = subprocess.run(
        [sys.executable, SCRIPT, "--pytest", sys.executable, "--tests", str(tmp_path),
         "--junit-dir", str(tmp_path / "junit"), "--",
         "-p", "no:cacheprovider", *more],
        capture_output=True, text=True, env=environment)
    return result.returncode, result.stdout.splitlines()


def test_ctest_counts_and_reasons(tmp_path):
    path = tmp_path / "junit.xml"
    path.write_text(CTEST_XML, encoding="utf-8")
    tally = run_tests.Tally()
    assert run_tests.add_junit(tally, path, "ctest")
    assert tally.summary() == "1 passed, 1 failed, 2 skipped"
    assert tally.failures == ["ctest: A.Bad"]
    assert set(tally.skips) == {"MUNIA_TEST_QWEN_GGUF is not set", "Disabled"}


def test_failure_and_skip_are_counted(tmp_path):
    status, lines = run_on(tmp_path, "import pytest\n"
                                     "def test_a(): pass\n"
                                     "def test_b(): assert 0\n"
                                     "def test_c(): pytest.skip('no model here')\n")
    assert status == 1
    assert lines[-1] == "1 passed, 1 failed, 1 skipped"
    assert any("skipped: no model here" in line for line in lines)


def test_success_is_zero(tmp_path):
    status, lines = run_on(tmp_path, "def test_a(): pass\n")
    assert (status, lines[-1]) == (0, "1 passed, 0 failed, 0 skipped")


def test_a_suite_that_cannot_run_is_a_failure(tmp_path):
    status, lines = run_on(tmp_path, "import os\ndef test_a(): os._exit(0)\n")
    assert (status, lines[-1]) == (1, "0 passed, 1 failed, 0 skipped")
    status, lines = run_on(tmp_path, "def nothing_here(): pass\n")
    assert (status, lines[-1]) == (1, "0 passed, 1 failed, 0 skipped")


def test_the_packages_tests_run_by_their_own_interpreter(tmp_path):
    """Once each, with the package on the path, and counted in the one sum."""
    tests = tmp_path / "tests"
    tests.mkdir()
    (tests / "test_python_inner.py").write_text(
        "import os\ndef test_it():\n    assert os.environ['PYTHONPATH'].endswith('package')\n")
    (tests / "test_other.py").write_text("def test_it(): pass\ndef test_bad(): assert 0\n")
    result = subprocess.run(
        [sys.executable, SCRIPT, "--pytest", sys.executable, "--tests", str(tests), "--junit-dir",
         str(tmp_path / "junit"), "--package", f"{sys.executable}={tmp_path / 'package'}", "--",
         "-p", "no:cacheprovider"], capture_output=True, text=True)
    lines = result.stdout.splitlines()
    assert lines[-1] == "2 passed, 1 failed, 0 skipped" and result.returncode == 1, result.stdout
