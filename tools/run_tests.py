#!/usr/bin/env python3
"""Runs CTest and pytest, shows their output as it comes, and closes with one line that sums both:

    N passed, N failed, N skipped

Counts come from the JUnit files that both write; a suite that fails without naming a failed test (a
crash, a time-out of the whole, nothing collected) counts as one failure. The reason of every skipped
test is printed. Models named by --model are fetched with `MUNIA pull NAME`, whose standard output is
the model's path; tests find them in MUNIA_TEST_QWEN_GGUF and MUNIA_TEST_SMOLLM2_GGUF. Arguments after
`--` go to pytest. Exits 1 when anything failed.
"""

import argparse
import collections
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE_TESTS = "test_python*.py"
MODEL_VARIABLES = {
    "qwen2.5-coder-0.5b-packaged": "MUNIA_TEST_QWEN_GGUF",
    "smollm2-135m-instruct": "MUNIA_TEST_SMOLLM2_GGUF",
}


class Tally:
    def __init__(self):
        self.passed = 0
        self.failures = []  # names
        self.skips = collections.defaultdict(list)  # reason -> names

    def summary(self):
        n_skipped = sum(len(names) for names in self.skips.values())
        return f"{self.passed} passed, {len(self.failures)} failed, {n_skipped} skipped"


def skip_reason(case, skipped):
    """Why a test was skipped: pytest says so in the message, GoogleTest in its output."""
    output = case.findtext("system-out") or ""
    # GoogleTest prints "file:line: Skipped", then the reason, then "[  SKIPPED ] name".
    found = re.search(r": Skipped\n(.*?)\n?\[  SKIPPED", output, re.DOTALL)
    if found:
        return " ".join(found.group(1).split()) or "no reason given"
    text = skipped.get("message") or ""
    return text.strip() or (skipped.text or "").strip() or "no reason given"


def add_junit(tally, path, label):
    """Adds the cases of a JUnit file; False when there is no readable one."""
    try:
        tree = ElementTree.parse(path)
    except (OSError, ElementTree.ParseError):
        return False
    for case in tree.getroot().iter("testcase"):
        name = case.get("name", "?")
        group = case.get("classname", "")
        if group and group != name:
            name = f"{group}.{name}"
        skipped = case.find("skipped")
        if case.find("failure") is not None or case.find("error") is not None:
            tally.failures.append(f"{label}: {name}")
        elif skipped is not None:
            tally.skips[skip_reason(case, skipped)].append(f"{label}: {name}")
        else:
            tally.passed += 1
    return True


def run_suite(tally, label, command, junit, environment):
    """Runs one suite with its output on ours and adds its counts."""
    junit.unlink(missing_ok=True)
    n_failures = len(tally.failures)
    print(f"== {label}", flush=True)
    try:
        status = subprocess.run(command, cwd=ROOT, env=environment).returncode
    except OSError as error:
        tally.failures.append(f"{label}: cannot run {command[0]}: {error.strerror}")
        return
    read = add_junit(tally, junit, label)
    if len(tally.failures) == n_failures and (status != 0 or not read):
        tally.failures.append(f"{label}: exit status {status} without a failed test")


def fetch_models(tally, munia, names, environment):
    """Exports the path of each model; one that cannot be had is a failure."""
    for name in names:
        variable = MODEL_VARIABLES[name]
        if environment.get(variable):
            continue
        try:
            result = subprocess.run([munia, "pull", name], cwd=ROOT, stdout=subprocess.PIPE, text=True)
        except OSError as error:
            sys.exit(f"run_tests: cannot run {munia}: {error.strerror}")
        lines = result.stdout.strip().splitlines()
        if result.returncode == 0 and lines and Path(lines[-1]).exists():
            environment[variable] = lines[-1]
        else:
            tally.failures.append(f"model {name}: pull ended with exit status {result.returncode}")


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ctest", action="append", default=[], metavar="DIR")
    parser.add_argument("--pytest", metavar="PYTHON", help="the interpreter that has pytest")
    parser.add_argument("--tests", default="tests", help="what pytest collects")
    parser.add_argument("--package", metavar="PYTHON=DIR",
                        help="the interpreter for the tests of the Python package "
                             "(test_python*.py, which pytest then leaves out), and where the package is")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--junit-dir", default="build", help="where pytest's JUnit file goes")
    parser.add_argument("--munia", metavar="PROGRAM")
    parser.add_argument("--model", action="append", default=[], choices=sorted(MODEL_VARIABLES))
    parser.add_argument("pytest_arguments", nargs="*")
    return parser.parse_args(arguments)


def main():
    options = parse_arguments(sys.argv[1:])
    environment = dict(os.environ)
    environment.setdefault("TSAN_OPTIONS", "halt_on_error=1")
    tally = Tally()
    if options.munia:
        environment["MUNIA_BIN"] = str((ROOT / options.munia).resolve())
        fetch_models(tally, str(ROOT / options.munia), options.model, environment)

    for directory in options.ctest:
        junit = (ROOT / directory / "junit-ctest.xml").resolve()
        command = ["ctest", "--test-dir", directory, "--output-on-failure", "--no-tests=error",
                   "--progress", "-j", str(options.jobs), "--output-junit", str(junit)]
        run_suite(tally, f"ctest {directory}", command, junit, environment)
    if options.pytest:
        junit = (ROOT / options.junit_dir / "junit-pytest.xml").resolve()
        junit.parent.mkdir(parents=True, exist_ok=True)
        command = [options.pytest, "-m", "pytest", options.tests, "-q", f"--junitxml={junit}",
                   "-o", "junit_family=xunit2", *options.pytest_arguments]
        if options.package:
            command.append(f"--ignore-glob={(ROOT / options.tests).resolve() / PACKAGE_TESTS}")
        run_suite(tally, "pytest", command, junit, environment)
    if options.package:
        python, _, directory = options.package.partition("=")
        junit = (ROOT / options.junit_dir / "junit-package.xml").resolve()
        tests = sorted(map(str, (ROOT / options.tests).glob(PACKAGE_TESTS)))
        command = [python, "-m", "pytest", *tests, "-q", f"--junitxml={junit}",
                   "-o", "junit_family=xunit2", *options.pytest_arguments]
        run_suite(tally, "pytest of the Python package", command, junit,
                  environment | {"PYTHONPATH": str((ROOT / directory).resolve())})

    for reason, names in sorted(tally.skips.items()):
        print(f"skipped: {reason}: {', '.join(names[:4])}"
              + (f" and {len(names) - 4} more" if len(names) > 4 else ""))
    for name in tally.failures:
        print(f"failed: {name}")
    print(tally.summary(), flush=True)
    return 1 if tally.failures else 0


if __name__ == "__main__":
    sys.exit(main())
