#!/usr/bin/env python3
"""What `make lint` checks over the files that git tracks (or would: new files count too):

format (clang-format 14 with .clang-format), layers (check_layers.py), words (no paths of one
machine, no host names of package registries), sizes (700 lines a source file, 1 MB any file),
syntax of Python, shell and JSON. Prints each violation as file:line: what; exits 1 when there is any.
A line that ends with the comment `lint: allow` is not read for words.
"""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import check_layers

ROOT = Path(__file__).resolve().parent.parent
CPP = {".h", ".cpp", ".cc", ".hpp", ".inc"}
SOURCE = CPP | {".py", ".pyi", ".sh", ".ts", ".tsx", ".js", ".jsx", ".mjs", ".css", ".cmake"}
TEXT = SOURCE | {".md", ".txt", ".toml", ".json", ".yml", ".yaml", ".html", ".jinja", ".service", ""}
MAX_LINES = 700
MAX_BYTES = 1_000_000
GENERATED = re.compile(r"generated (?:by|from|with)\b", re.IGNORECASE)
TEST_DATA = ("tests/golden", "tests/data", "tests/corpus", "tests/fixtures", "tests/models")

# Spelt in pieces, so that this file passes its own check.
WORDS = [
    (re.compile(r"(?<![\w./$}-])/(?:work|root|tmp)" + r"/"), "a path of one machine"),
    (re.compile(r"(?<![\w./$}-])/home" + r"/\w"), "a path of one machine"),
    (re.compile(r"pypi" + r"\.org|pythonhosted" + r"\.org|registry\.npmjs" + r"\.org"),
     "the host name of a package registry"),
]


def tracked_files():
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, check=True, capture_output=True).stdout
    names = sorted(set(listed.decode("utf-8").split("\0")) - {""})
    return [name for name in names if (ROOT / name).is_file()]


def is_data(name):
    return name.startswith(TEST_DATA)


def check_format(names):
    program = shutil.which("clang-format-14") or shutil.which("clang-format")
    if program is None:
        yield "clang-format: not installed; tools/bootstrap.sh lint installs it"
        return
    version = subprocess.run([program, "--version"], check=True, capture_output=True, text=True)
    if not re.search(r"version 14\.", version.stdout):
        yield f"clang-format: version 14 is needed, this is {version.stdout.strip()}"
        return
    files = [name for name in names if Path(name).suffix in CPP and not is_data(name)]
    for begin in range(0, len(files), 64):
        result = subprocess.run(
            [program, "--dry-run", "-Werror", "--style=file", *files[begin:begin + 64]],
            cwd=ROOT, capture_output=True, text=True)
        if result.returncode != 0:
            bad = sorted(set(re.findall(r"^(\S+?):(\d+):\d+: error", result.stderr, re.MULTILINE)))
            first = {}
            for name, line in bad:
                first[name] = min(int(line), first.get(name, int(line)))
            for name, line in first.items():
                yield f"{name}:{line}: not as clang-format writes it (clang-format -i {name})"
            if not bad:
                yield f"clang-format: {result.stderr.strip()}"


def check_sizes(name, data):
    if len(data) > MAX_BYTES:
        yield f"{name}: {len(data)} bytes; at most {MAX_BYTES} may stand in the repository"
    if Path(name).suffix in SOURCE and not is_data(name):
        lines = data.count(b"\n")
        head = b"\n".join(data.split(b"\n", 10)[:10]).decode("utf-8", "replace")
        if lines > MAX_LINES and not GENERATED.search(head):
            yield f"{name}: {lines} lines; at most {MAX_LINES} (split it by what it does)"


def check_words(name, data):
    if Path(name).suffix not in TEXT or is_data(name):
        return
    for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), start=1):
        if line.rstrip().endswith("lint: allow"):
            continue
        for pattern, what in WORDS:
            found = pattern.search(line)
            if found:
                yield f"{name}:{number}: \"{found.group()}\" is {what}"


def check_syntax(name, data):
    suffix = Path(name).suffix
    if suffix in {".py", ".pyi"}:
        try:
            compile(data, name, "exec")
        except (SyntaxError, ValueError) as error:
            yield f"{name}:{getattr(error, 'lineno', 0)}: {error}"
    elif suffix == ".json" and not is_data(name) and not name.endswith("tsconfig.json"):
        try:
            json.loads(data)
        except ValueError as error:
            yield f"{name}: {error}"
    elif suffix == ".sh" or data.startswith(b"#!/bin/sh") or data.startswith(b"#!/bin/bash"):
        shell = "bash" if data.startswith(b"#!/bin/bash") else "sh"
        result = subprocess.run([shell, "-n", name], cwd=ROOT, capture_output=True, text=True)
        if result.returncode != 0:
            yield f"{name}: {result.stderr.strip()}"


def main():
    names = tracked_files()
    violations = list(check_format(names))
    violations += [line.replace(f"{ROOT}/", "") for line in check_layers.check_project(ROOT)]
    for name in names:
        data = (ROOT / name).read_bytes()
        violations += check_sizes(name, data)
        violations += check_words(name, data)
        violations += check_syntax(name, data)
    for violation in violations:
        print(violation)
    print(f"lint: {len(names)} files, {len(violations)} violations", file=sys.stderr)
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
