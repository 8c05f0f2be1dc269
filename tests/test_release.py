"""`make release`: the files, their checksums, and an SBOM that says what ldd, the lock file and
pyproject.toml say."""

import base64
import hashlib
import json
import re
import shutil
import subprocess
import tarfile
import tomllib
from pathlib import Path

import pytest

from munia_cli import BIN, ROOT
from package_root import BUILD, checked

SBOM = ROOT / "tools" / "sbom.py"


@pytest.fixture(scope="module")
def bill():
    for need in ("dpkg-query", "ldd", "objdump"):
        if shutil.which(need) is None:
            pytest.skip(f"{need} is not installed")
    return json.loads(checked(SBOM, "--program", BIN))


def by_kind(bill, kind):
    return {c["name"]: c for c in bill["components"] if c["purl"].startswith(f"pkg:{kind}/")}


def test_form_of_the_sbom(bill):
    assert (bill["bomFormat"], bill["specVersion"], bill["version"]) == ("CycloneDX", "1.5", 1)
    assert re.fullmatch(r"urn:uuid:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", bill["serialNumber"])
    subject = bill["metadata"]["component"]
    assert subject["version"] == checked(BIN, "--version").split()[1]
    references = [component["bom-ref"] for component in bill["components"]]
    assert len(set(references)) == len(references)
    for component in bill["components"]:
        assert component["type"] == "library" and component["scope"] in ("required", "excluded")
        assert component["version"] and component["purl"].startswith("pkg:")
        for licence in component["licenses"]:
            assert set(licence) in ({"license"}, {"expression"})
            assert licence.get("expression") or set(licence["license"]) & {"id", "name"}
    (dependency,) = bill["dependencies"]
    assert dependency["ref"] == subject["bom-ref"] and set(dependency["dependsOn"]) <= set(references)


def test_every_mapped_library_is_in_the_sbom(bill):
    debian = by_kind(bill, "deb")
    direct = set(re.findall(r"NEEDED\s+(\S+)", checked("objdump", "-p", BIN)))
    paths = dict(re.findall(r"^\s*(\S+) => (/\S+)", checked("ldd", BIN), re.M))
    owners = {}
    for name, path in paths.items():
        spellings = {path, str(Path(path).resolve())}
        spellings |= {spelling.removeprefix("/usr") for spelling in spellings}
        found = subprocess.run(["dpkg-query", "-S", *spellings], capture_output=True, text=True)
        owners[name] = found.stdout.split(":")[0]
        assert owners[name] in debian, name
    names = sorted(set(owners.values()))
    versions = dict(line.split() for line in
                    checked("dpkg-query", "-W", "-f", "${Package} ${Version}\n", *names).splitlines())
    for name, package in owners.items():
        component = debian[package]
        assert component["version"] == versions[package]
        if name in direct:
            assert component["properties"][0]["value"] == "linked"
            assert component["bom-ref"] in bill["dependencies"][0]["dependsOn"]
    linked = {name for name, c in debian.items() if c["properties"][0]["value"].startswith("linked")}
    assert linked == set(owners.values())


def test_every_library_package_of_the_build_is_accounted_for(bill):
    debian = by_kind(bill, "deb")
    lines = (ROOT / "tools" / "packages-build.txt").read_text(encoding="utf-8").splitlines()
    # Of the tests and benches, not of the program.
    others = {"libgtest-dev", "libbenchmark-dev"}
    for package in {line for line in lines if line.endswith("-dev")} - others:
        if package in debian:
            assert debian[package]["properties"][0]["value"] == "headers compiled in"
            continue
        depends = checked("dpkg-query", "-W", "-f", "${Depends}", package)
        names = {re.split(r"[ :(]", entry.strip())[0] for entry in re.split(r"[,|]", depends)}
        assert names & set(debian), f"{package}: none of {names} is in the SBOM"


def test_the_page_is_in_the_sbom_as_the_lock_file_has_it(bill):
    lock = json.loads((ROOT / "web" / "package-lock.json").read_text(encoding="utf-8"))["packages"]
    npm = by_kind(bill, "npm")
    assert len(npm) == len(lock) - 1
    for path, entry in lock.items():
        if not path:
            continue
        component = npm[path.rsplit("node_modules/", 1)[1]]
        assert component["version"] == entry["version"]
        (digest,) = component["hashes"]
        assert digest["alg"] == "SHA-512"
        assert bytes.fromhex(digest["content"]) == base64.b64decode(entry["integrity"].split("-", 1)[1])
    content = json.loads((ROOT / "web" / "package.json").read_text(encoding="utf-8"))
    for name in content["dependencies"]:
        assert npm[name]["scope"] == "required"
    for name in content["devDependencies"]:
        assert npm[name]["scope"] == "excluded"


def test_the_wheel_is_in_the_sbom(bill):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wanted = project["build-system"]["requires"] + project["project"]["dependencies"]
    names = {re.match(r"[\w.-]+", requirement).group().replace("-", "_") for requirement in wanted}
    python = by_kind(bill, "pypi")
    assert set(python) == names
    for name, component in python.items():
        installed = list((ROOT / "build" / "venv-python").glob(
            f"lib/python*/site-packages/{name}-{component['version']}.dist-info/METADATA"))
        if installed:  # there, the licence that it gives itself
            text = installed[0].read_text(encoding="utf-8")
            licence = component["licenses"][0]["license"]["id"]
            assert licence in text or licence.split("-")[0] in text


def test_notices_of_what_is_compiled_in(bill):
    text = checked(ROOT / "tools" / "notices.py")
    headers = {name for name, c in by_kind(bill, "deb").items()
               if c["properties"][0]["value"] == "headers compiled in"} - {"libboost1.81-dev"}
    for package in headers:
        assert f"==== {package} ====" in text
    if (ROOT / "web" / "dist" / "index.html.gz").exists():
        for name, component in by_kind(bill, "npm").items():
            if component["scope"] == "required" and not name.startswith("@types/"):
                assert f"==== {name} {component['version']} ====" in text
    assert text.count("opyright") > 6


def test_same_commit_same_sbom():
    assert checked(SBOM, "--program", BIN) == checked(SBOM, "--program", BIN)


def test_release(tmp_path):
    if not (BUILD / "CPackConfig.cmake").exists() or BUILD != ROOT / "build":
        pytest.skip("a release is gathered from build/ only")
    checked(ROOT / "tools" / "release.sh", "--dirty")
    out = BUILD / "release"
    names = {path.name for path in out.iterdir()}
    version = checked(BIN, "--version").split()[1]
    architecture = checked("dpkg", "--print-architecture").strip()
    assert {f"munia_{version}-1_{architecture}.deb", f"munia-{version}.tar.gz", f"munia-{version}.cdx.json",
            "SHA256SUMS"} <= names
    if (BUILD / "arm64" / "munia").exists():
        assert f"munia_{version}-1_arm64.deb" in names
    sums = dict(reversed(line.split("  ")) for line in (out / "SHA256SUMS").read_text().splitlines())
    assert set(sums) == names - {"SHA256SUMS"}
    for name, digest in sums.items():
        assert hashlib.sha256((out / name).read_bytes()).hexdigest() == digest
    with tarfile.open(out / f"munia-{version}.tar.gz") as archive:
        members = set(archive.getnames())
    tracked = checked("git", "ls-tree", "-r", "--name-only", "-z", "HEAD", cwd=ROOT).split("\0")[:-1]
    assert {f"munia-{version}/{name}" for name in tracked} <= members
    checked(ROOT / "tools" / "release.sh", "--dirty")
    again = dict(reversed(line.split("  ")) for line in (out / "SHA256SUMS").read_text().splitlines())
    assert again == sums


def test_release_refuses_changes(tmp_path):
    copy = tmp_path / "copy"
    checked("git", "clone", "-q", "--depth", "1", f"file://{ROOT}", copy)
    shutil.copy(ROOT / "tools" / "release.sh", copy / "tools" / "release.sh")
    (copy / "README.md").write_text("changed\n", encoding="utf-8")
    refused = subprocess.run([copy / "tools" / "release.sh"], capture_output=True, text=True)
    assert refused.returncode == 1 and "README.md" in refused.stderr
    assert subprocess.run([copy / "tools" / "release.sh", "--x"], capture_output=True).returncode == 2
