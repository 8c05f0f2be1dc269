#!/usr/bin/env python3
"""Writes what munia consists of as a CycloneDX 1.5 SBOM (JSON):

    tools/sbom.py --program build/munia > munia.cdx.json

- Debian packages: those whose libraries the loader maps for the program (linked directly or by another
  library), and those whose headers are compiled in.
- npm packages of web/package-lock.json: in the page ("required") or used to build and test it
  ("excluded").
- Python: what the wheel needs, and what builds it (pyproject.toml, with the pins of
  tools/requirements-python.txt).

Time and serial number come from the commit, so the same commit on the same packages gives the same
bytes.
"""

import argparse
import base64
import datetime
import json
import re
import subprocess
import sys
import tomllib
import urllib.parse
import uuid
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Packages of tools/packages-build.txt of which the program takes headers only.
HEADERS_ONLY = ("libboost1.81-dev", "libcli11-dev", "libtoml11-dev")
# Debian's short names of licences → SPDX; anything else is given as Debian spells it.
SPDX = {
    "Apache-2.0": "Apache-2.0", "BSD-2-clause": "BSD-2-Clause", "BSD-3-clause": "BSD-3-Clause",
    "BSD-2-Clause": "BSD-2-Clause", "BSD-3-Clause": "BSD-3-Clause", "BSL-1.0": "BSL-1.0", "curl": "curl",
    "Expat": "MIT", "MIT": "MIT", "ISC": "ISC", "Zlib": "Zlib", "zlib": "Zlib", "OLDAP-2.8": "OLDAP-2.8",
    "LGPL-2.1+": "LGPL-2.1-or-later", "LGPL-2+": "LGPL-2.0-or-later", "LGPL-3+": "LGPL-3.0-or-later",
    "GPL-2+": "GPL-2.0-or-later", "GPL-3+": "GPL-3.0-or-later",
}
# By source package, where the copyright file has no form that a program reads, or where its first
# paragraph is not the library's.
LICENCES = {
    "fmtlib": "MIT", "gcc-12": "GPL-3.0-or-later WITH GCC-exception-3.1", "glibc": "LGPL-2.1-or-later",
    "openssl": "Apache-2.0", "zlib": "Zlib",
}
PYTHON_LICENCES = {"nanobind": "BSD-3-Clause", "numpy": "BSD-3-Clause", "scikit_build_core": "Apache-2.0"}


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout


def project_version():
    text = (ROOT / "CMakeLists.txt").read_text(encoding="utf-8")
    return re.search(r"project\(munia VERSION ([0-9.]+)", text).group(1)


def licences(text):
    """CycloneDX's list for one licence: an SPDX id, an expression, or a name."""
    if re.search(r" (?:OR|AND|WITH) ", text):
        return [{"expression": text.strip("()")}]
    return [{"license": {"id": text} if text in SPDX.values() or text == "MPL-2.0" else {"name": text}}]


# ---- Debian -------------------------------------------------------------------------------------

def linked_libraries(program):
    """{path of a library: whether the program itself names it}, as the loader finds them."""
    direct = set(re.findall(r"NEEDED\s+(\S+)", run("objdump", "-p", str(program))))
    found = {}
    for name, path in re.findall(r"^\s*(\S+) => (/\S+)", run("ldd", str(program)), re.M):
        found[path] = name in direct
    return found


def owners_of(paths):
    """{library: its Debian package}; dpkg may know a file with or without /usr."""
    spellings = {}
    for path in paths:
        for name in (path, str(Path(path).resolve())):
            spellings |= {name: path, name.removeprefix("/usr"): path, "/usr" + name: path}
    # The status is 1 when one spelling is unknown, which is usual.
    found = subprocess.run(["dpkg-query", "-S", *spellings], capture_output=True, text=True).stdout
    owners = {}
    for package, name in re.findall(r"^([^:,\s]+)(?::\S+)?: (/\S+)$", found, re.M):
        owners[spellings[name]] = package
    for path in paths:
        if path not in owners:
            sys.exit(f"sbom: no Debian package owns {path}")
    return owners


def copyright_licence(package, source):
    if source in LICENCES:
        return LICENCES[source]
    path = Path("/usr/share/doc") / package / "copyright"
    text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
    if not text.startswith("Format:"):
        return f"see the copyright file of {package}"
    for paragraph in re.split(r"\n\s*\n", text):
        if re.search(r"^Files:\s*\*", paragraph, re.M):
            name = re.search(r"^License:[ \t]*(.+)$", paragraph, re.M)
            if name:
                return SPDX.get(name.group(1).strip(), name.group(1).strip())
    return f"see the copyright file of {package}"


def debian_component(package, fields, how):
    version, source, architecture = fields
    purl = (f"pkg:deb/debian/{urllib.parse.quote(package)}@{urllib.parse.quote(version)}"
            f"?arch={architecture}&distro=debian-12")
    return {"type": "library", "bom-ref": purl, "name": package, "version": version, "purl": purl,
            "scope": "required", "licenses": licences(copyright_licence(package, source)),
            "properties": [{"name": "munia:how", "value": how}]}


def debian_components(program):
    libraries = linked_libraries(program)
    how = {}
    for path, package in owners_of(libraries).items():
        if how.get(package) != "linked":
            how[package] = "linked" if libraries[path] else "linked by another library"
    for package in HEADERS_ONLY:
        how[package] = "headers compiled in"
    form = "${Package} ${Version} ${source:Package} ${Architecture}\n"
    # A machine that builds for arm64 too has some packages twice: those of its own kind count.
    own = run("dpkg", "--print-architecture").strip()
    fields = {}
    for line in run("dpkg-query", "-W", "-f", form, *how).splitlines():
        package, *rest = line.split()
        if rest[-1] in (own, "all"):
            fields[package] = rest
    return [debian_component(package, fields[package], how[package]) for package in sorted(how)]


# ---- npm ----------------------------------------------------------------------------------------

def npm_components():
    lock = json.loads((ROOT / "web/package-lock.json").read_text(encoding="utf-8"))
    components = []
    for path, entry in sorted(lock["packages"].items()):
        if not path:
            continue
        name = path.rsplit("node_modules/", 1)[1]
        purl = f"pkg:npm/{urllib.parse.quote(name, safe='/')}@{entry['version']}"
        algorithm, _, digest = entry["integrity"].partition("-")
        build_only = entry.get("dev") or entry.get("devOptional")
        components.append({
            "type": "library", "bom-ref": purl, "name": name, "version": entry["version"], "purl": purl,
            "scope": "excluded" if build_only else "required",
            "licenses": licences(entry["license"]),
            "hashes": [{"alg": algorithm.upper().replace("SHA", "SHA-"),
                        "content": base64.b64decode(digest).hex()}],
            "properties": [{"name": "munia:how",
                            "value": "builds or tests the page" if build_only else "in the page"}]})
    return components


# ---- Python -------------------------------------------------------------------------------------

def python_components():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    pins = dict(re.findall(r"^([\w.-]+)==(\S+)$",
                           (ROOT / "tools/requirements-python.txt").read_text(encoding="utf-8"), re.M))
    how = {name: "builds the wheel" for name in project["build-system"]["requires"]}
    how |= {name: "the wheel needs it" for name in project["project"]["dependencies"]}
    components = []
    for requirement, reason in how.items():
        name = re.match(r"[\w.-]+", requirement).group().replace("-", "_")
        purl = f"pkg:pypi/{name.lower().replace('_', '-')}@{pins[name]}"
        # nanobind's own sources are compiled into the extension.
        required = reason == "the wheel needs it" or name == "nanobind"
        components.append({
            "type": "library", "bom-ref": purl, "name": name, "version": pins[name], "purl": purl,
            "scope": "required" if required else "excluded",
            "licenses": licences(PYTHON_LICENCES[name]),
            "properties": [{"name": "munia:how", "value": reason},
                           {"name": "munia:requirement", "value": requirement}]})
    return components


# ---- The whole ----------------------------------------------------------------------------------

def bill(program):
    version = project_version()
    seconds = int(run("tools/source_date.sh"))
    components = debian_components(program) + npm_components() + python_components()
    direct = [c["bom-ref"] for c in components
              if c["scope"] == "required" and c["properties"][0]["value"] != "linked by another library"]
    when = datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)
    identity = json.dumps([version, seconds, [c["bom-ref"] for c in components]])
    return {
        "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, identity)}",
        "metadata": {
            "timestamp": when.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": {"type": "application", "bom-ref": f"pkg:generic/munia@{version}", "name": "munia",
                          "version": version, "purl": f"pkg:generic/munia@{version}",
                          "licenses": licences("Apache-2.0")}},
        "components": components,
        "dependencies": [{"ref": f"pkg:generic/munia@{version}", "dependsOn": direct}],
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", type=Path, required=True, metavar="build/munia")
    options = parser.parse_args()
    if not options.program.exists():
        sys.exit(f"sbom: there is no {options.program}; build it first")
    json.dump(bill(options.program.resolve()), sys.stdout, ensure_ascii=False, indent=1)
    print()


if __name__ == "__main__":
    main()
