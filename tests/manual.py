"""Reads the manual's pages and runs what they show, for test_manual.py and test_python_manual.py.

A block of a page, fenced as `sh`, `bash`, `console` or `python`, is run in the page's order in a directory
that has docs/examples and a tiny model in it. `console` shows commands behind "$ " (a line that ends with
"\\" goes on) and what they print: `…` stands for anything within a line, a line of it alone for any lines.
What a command prints is its standard output, and its errors where it fails. Lines of `make` are run as
`make -n`: that the targets exist is checked here, what they do elsewhere.

A comment before a block says what else is to be known of it, one before any block (`run page:`) what holds
for the page:
    <!-- run: skip: REASON -->   not run; names of files and flags in it are checked all the same
    <!-- run: serve -->          a service: it is started, and later blocks speak to it
    <!-- run: file: NAME -->     the block is a file's content (any language)
    <!-- run: client -->         Python that speaks to the service and needs no munia package
    <!-- run: real -->           run with the real model; `tiny` with a tiny one, which is usual
"""

import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

from munia_cli import BIN, QWEN, QWEN_GGUF, environment
from munia_process import ROOT

DOCS = ROOT / "docs"
NOT_PAGES = {"plan.md"}
RUN = {"sh", "bash", "console", "python"}
SHOWN = {"json", "jsonl", "toml", "text", "csv", "jinja", "cpp", "nginx", "haproxy", "yaml", "ini"}
BLOCK = re.compile(
    r"(?:^<!-- run: (?P<options>[^\n]*?) -->\n)?^(?P<fence>`{3,})(?P<language>[^\s`]*)[^\n]*\n"
    r"(?P<code>.*?)^(?P=fence)$", re.DOTALL | re.MULTILINE)
PAGE = re.compile(r"^<!-- run page: ([^\n]*?) -->$", re.MULTILINE)
PATIENCE = 120  # seconds until a command counts as hung


@dataclass
class Block:
    page: Path
    line: int
    language: str
    code: str
    options: dict = field(default_factory=dict)

    @property
    def place(self):
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def is_run(self):
        return self.language in RUN and "skip" not in self.options and "file" not in self.options


def read_options(text):
    """"real; file: a.toml" as {"real": "", "file": "a.toml"}."""
    parts = (part.partition(":") for part in text.split(";")) if text else ()
    return {key.strip(): value.strip() for key, _, value in parts}


def english_pages():
    return sorted(path for path in DOCS.glob("*.md") if path.name not in NOT_PAGES)


def blocks_of(page):
    text = page.read_text(encoding="utf-8")
    for_page = PAGE.search(text)
    common = read_options(for_page.group(1)) if for_page else {}
    return [Block(page, text.count("\n", 0, match.start("fence")) + 1, match["language"], match["code"],
                  common | read_options(match["options"]))
            for match in BLOCK.finditer(text)]


def without_comments(block):
    """The code without comments, which each language writes in its own words."""
    code = re.sub(r"(^|\s+)#\s[^\n\"']*$", "", block.code, flags=re.MULTILINE)
    return re.sub(r"\n{2,}", "\n", code).strip()


def commands_of(block):
    """[(command, [expected line, …] or None)] of a console block."""
    found = []
    lines = iter(block.code.splitlines())
    for line in lines:
        if line.startswith("$ "):
            command = line[2:]
            while command.endswith("\\"):
                command += "\n" + next(lines).removeprefix("> ")
            found.append((command, []))
        else:
            assert found, f"{block.place}: a console block begins with \"$ \""
            found[-1][1].append(line)
    return [(command, expected or None) for command, expected in found]


def pattern_of(expected):
    lines = [r"(?:[^\n]*\n)*?" if line.strip() == "…" else
             re.escape(line).replace("…", "[^\n]*?") + r"\n" for line in expected]
    return re.compile("".join(lines))


class Session:
    """One page's run: its directory, its home, its service."""

    def __init__(self, directory, real_model=None):
        self.home = directory
        self.real_model = real_model
        self.work = directory / "page"
        shutil.copytree(DOCS / "examples", self.work)
        shutil.copyfile(QWEN_GGUF, self.work / "model.gguf")
        shutil.copytree(QWEN, self.work / "directory")
        (directory / "bin").mkdir()
        (directory / "bin" / "munia").symlink_to(BIN)
        self.service = None
        self.ports = {}  # as written → as used
        self.log = (directory / "serve.log").open("w+b")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end_service()
        self.log.close()

    def environment(self, block):
        model = {}
        if "real" in block.options and "tiny" not in block.options:
            assert self.real_model, "the caller skips pages of a real model that is not there"
            model = {"MUNIA_MODEL": str(self.real_model), "MUNIA_LOAD": "map"}
        else:
            model = {"MUNIA_MODEL": str(QWEN)}
        return environment(self.home, **model, PATH=f"{self.home / 'bin'}:{os.environ['PATH']}")

    def with_ports(self, text):
        for written, used in self.ports.items():
            text = text.replace(f"127.0.0.1:{written}", f"127.0.0.1:{used}")
        return text

    def shell(self, block, script, directory=None, flags="-uo"):
        """(exit status, output, errors)"""
        script = self.with_ports(script)
        done = subprocess.run(["bash", flags, "pipefail", "-c", script], cwd=directory or self.work,
                              env=self.environment(block), stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=PATIENCE)
        return (done.returncode, done.stdout.decode("utf-8", "replace"),
                done.stderr.decode("utf-8", "replace"))

    def run(self, block):
        if "file" in block.options:
            (self.work / block.options["file"]).write_text(block.code, encoding="utf-8")
            return
        if "serve" in block.options:
            return self.start_service(block, block.code)
        if "127.0.0.1:8080" in block.code and not self.service:
            self.start_service(block, "munia serve")
        if block.language == "python":
            return self.run_client(block)
        if block.language == "console":
            for command, expected in commands_of(block):
                self.check(block, command, expected)
            return
        if re.match(r"make\b", block.code):
            return self.run_make(block)
        status, out, err = self.shell(block, block.code, flags="-euo")
        assert status == 0, f"{block.place}: exit status {status}\n{out}{err}"

    def check(self, block, command, expected):
        status, out, err = self.shell(block, command)
        shown = out if status == 0 else out + err
        what = f"{block.place}: $ {command}\nexit status {status}\n{shown}"
        if expected is None:
            assert status == 0, what
            return
        shown += "" if shown.endswith("\n") or not shown else "\n"
        assert pattern_of(expected).fullmatch(shown), what + "\nis not what the page shows:\n" + "\n".join(expected)

    def run_make(self, block):
        for line in block.code.splitlines():
            command = re.match(r"(make\b[^#]*)", line)
            assert command, f"{block.place}: not a line of make: {line}"
            status, out, err = self.shell(block, command[1].replace("make", "make -n", 1), ROOT)
            assert status == 0, f"{block.place}: {line}: {out}{err}"

    def run_client(self, block):
        assert "client" in block.options, f"{block.place}: Python without `client` is run elsewhere"
        done = subprocess.run([sys.executable, "-c", self.with_ports(block.code)], cwd=self.work,
                              env=self.environment(block), capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == 0, f"{block.place}: {done.stdout}{done.stderr}"
        assert done.stdout.strip(), f"{block.place}: it printed nothing"

    def start_service(self, block, command):
        self.end_service()
        command = " ".join(line.rstrip("\\ ") for line in command.splitlines()).rstrip("& ")
        written = re.search(r"--port (\d+)", command)
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.ports = {written[1] if written else "8080": port}
        command = re.sub(r"\s*--port \d+", "", command) + f" --port {port}"
        self.service = subprocess.Popen(["bash", "-c", "exec " + command], cwd=self.work,
                                        env=self.environment(block), stdout=self.log, stderr=self.log)
        end = time.monotonic() + PATIENCE
        while not self.is_ready(port):
            assert self.service.poll() is None and time.monotonic() < end, self.read_log(block)
            time.sleep(0.05)

    @staticmethod
    def is_ready(port):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/ready", timeout=5) as answer:
                return answer.status == 200
        except (urllib.error.URLError, OSError):
            return False

    def read_log(self, block):
        self.log.seek(0)
        return f"{block.place}: {self.log.read().decode('utf-8', 'replace')}"

    def end_service(self):
        if self.service:
            self.service.terminate()
            self.service.wait(PATIENCE)
            self.service = None
