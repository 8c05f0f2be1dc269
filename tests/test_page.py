"""The web page: its units in Node.js, the page in a real browser against the stand-in server of
web/mock, and against `munia serve` on a real model. The tests themselves are in web/tests.
"""

import json
import os
import re
import shutil
import subprocess
import threading

import munia_process
import pytest

WEB = munia_process.ROOT / "web"


def node():
    path = shutil.which("node")
    if not path:
        pytest.skip("node is not installed: make web installs it")
    if not (WEB / "node_modules" / "playwright-core").is_dir():
        pytest.skip("web/node_modules is not there: make web fetches it")
    return path


def browser_environment():
    chromium = os.environ.get("MUNIA_CHROMIUM") or shutil.which("chromium")
    if not chromium:
        pytest.skip("chromium is not installed (MUNIA_CHROMIUM names another browser)")
    if not (WEB / "dist" / "index.html").is_file():
        pytest.skip("web/dist is not there: make web builds it")
    return {**os.environ, "MUNIA_CHROMIUM": chromium}


def run_node_tests(pattern, environment=None, timeout_s=600):
    """Runs node's test runner; a failure shows its whole report."""
    files = sorted(str(path.relative_to(WEB)) for path in (WEB / "tests").glob(pattern))
    assert files, f"no tests match {pattern}"
    done = subprocess.run([node(), "--test", *files], cwd=WEB, capture_output=True, text=True,
                          env=environment, timeout=timeout_s)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    counts = dict(re.findall(r"^\D? ?(pass|fail|skipped) (\d+)$", done.stdout, re.MULTILINE))
    assert int(counts.get("pass", 0)) > 0, done.stdout[-2000:]
    print(f"{counts['pass']} tests of {', '.join(files)}")


def test_units():
    run_node_tests("unit/*.test.mjs")


def test_page_in_a_browser():
    run_node_tests("browser/page.test.mjs", browser_environment())


def test_bundle_is_small():
    browser_environment()
    files = list((WEB / "dist").rglob("*.gz"))
    assert sum(path.stat().st_size for path in files) < 200_000


@pytest.fixture
def service():
    """The address of `munia serve` on a free port, on the smallest real model."""
    if "serve" not in subprocess.run([munia_process.program(), "--help"], capture_output=True,
                                     text=True).stdout:
        pytest.skip("this program has no serve command")
    model = munia_process.real_model("smollm2")
    server = subprocess.Popen(
        [munia_process.program(), "serve", "--json", "--model", str(model), "--port", "0"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    log = []
    reader = threading.Thread(target=lambda: log.extend(server.stderr), daemon=True)
    reader.start()
    try:
        line = server.stdout.readline()
        assert line, "munia serve ended: " + "".join(log)
        address = json.loads(line)["address"]
        yield address if address.endswith("/") else address + "/"
    finally:
        server.terminate()
        assert server.wait(60) == 0, "".join(log)


def test_page_of_the_real_service(service):
    environment = {**browser_environment(), "MUNIA_TEST_URL": service}
    run_node_tests("browser/service.test.mjs", environment)
