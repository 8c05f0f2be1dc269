#!/usr/bin/env python3
"""Writes the copyright notices of what is compiled into the program, as its licences ask for:

    tools/notices.py > NOTICES

Debian packages whose headers it contains, and the npm packages of the page where the page was built.
Boost is not among them: its licence asks for no notice in programs.
"""

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HEADERS = ("libcli11-dev", "libfmt-dev", "libspdlog-dev", "libtoml11-dev")


def header_notices():
    for package in HEADERS:
        path = Path("/usr/share/doc") / package / "copyright"
        if not path.exists():
            sys.exit(f"notices: {path} is not there; tools/bootstrap.sh build installs {package}")
        yield package, path.read_text(encoding="utf-8", errors="replace")


def page_notices():
    if not (ROOT / "web/dist/index.html.gz").exists():
        return  # no page in the program
    lock = json.loads((ROOT / "web/package-lock.json").read_text(encoding="utf-8"))
    for path, entry in sorted(lock["packages"].items()):
        if not path or entry.get("dev") or entry.get("devOptional") or entry.get("optional"):
            continue
        folder = ROOT / "web" / path
        texts = [file for file in sorted(folder.glob("*")) if file.name in ("LICENSE", "LICENSE.md")]
        if not texts:
            sys.exit(f"notices: {folder} has no licence; `make web` fetches the page's packages")
        yield f"{path.rsplit('node_modules/', 1)[1]} {entry['version']}", texts[0].read_text(encoding="utf-8")


def main():
    print("munia contains parts of these works.\n")
    for name, text in [*header_notices(), *page_notices()]:
        print(f"==== {name} ====\n\n{text.strip()}\n")


if __name__ == "__main__":
    main()
