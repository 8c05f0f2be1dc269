"""Runs Python programs that use munia.ray, each with a Ray of its own: on the loopback interface, with a
home and a directory that are removed, and with nothing left of it when it has ended. Ray has a venv of
its own (tools/venv.sh ray), so the programs are not the tests' process.
"""

import contextlib
import ctypes
import json
import os
import shutil
import subprocess
import tempfile
import textwrap
import time
from pathlib import Path

import pytest
from http_front import PATIENCE
from munia_cli import BIN, QWEN, environment
from munia_process import ROOT

PYTHON = ROOT / "build" / "venv-ray" / "bin" / "python"
PACKAGE = ROOT / "build" / "python"
CLONE_NEWNET = 0x40000000  # sched.h

# As the kernel writes 127.0.0.1, the same in IPv6, and ::1.
LOOPBACK = ("0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000")

PRELUDE = """
import json, os, sys
def say(**values):
    print("@", json.dumps(values), flush=True)
def wait():
    "Until the test says so, or has ended."
    sys.stdin.readline()
"""
INIT = """
import ray
ray.init(num_cpus={cpus}, include_dashboard=False, object_store_memory=200_000_000, _temp_dir={directory!r})
"""


def python():
    if not PYTHON.exists():
        pytest.skip("build/venv-ray is not there: tools/venv.sh ray makes it")
    if not list((PACKAGE / "munia").glob("_munia*.so")):
        pytest.skip("build/python has no extension: make python builds it")
    return str(PYTHON)


def ray_environment(home):
    """Ray takes the address of its node as it does on systems where it has no clusters: 127.0.0.1, to
    which everything then binds."""
    return environment(home) | {
        "PYTHONPATH": str(PACKAGE), "MUNIA_BIN": str(BIN), "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_DATA_DISABLE_PROGRESS_BARS": "1",
    }


def run(home, code):
    """What a program without a cluster says; it must end well."""
    done = subprocess.run([python(), "-c", PRELUDE + textwrap.dedent(code)], cwd=home, text=True,
                          capture_output=True, env=ray_environment(home), timeout=PATIENCE)
    assert done.returncode == 0, done.stdout + done.stderr
    return [json.loads(line[2:]) for line in done.stdout.splitlines() if line.startswith("@ ")]


class Cluster:
    """A program with a Ray of its own, which ends with the `with` block."""

    def __init__(self, home, code, cpus=3):
        self.directory = tempfile.mkdtemp(prefix="mray-")  # short: sockets lie in it
        self.log = home / "ray.log"
        self._log = self.log.open("wb")
        init = INIT.format(cpus=cpus, directory=self.directory)
        end = "\nray.shutdown()\nsay(ended=True)\n"
        self.process = subprocess.Popen(
            [python(), "-c", PRELUDE + init + textwrap.dedent(code) + end], cwd=home, bufsize=1,
            text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log,
            env=ray_environment(home))
        self.seen = {}  # pid -> when it began

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        try:
            if kind is None:
                self.finish()
        finally:
            left = self.left()
            for pid in [*left, self.process.pid]:
                if pid == self.process.pid or began(pid) == self.seen[pid]:
                    kill(pid)
            self.process.wait()
            for stream in (self.process.stdin, self.process.stdout, self._log):
                stream.close()
            shutil.rmtree(self.directory, ignore_errors=True)
            if kind is not None:
                print(self.log.read_text(errors="replace")[-6000:])
        assert kind is not None or not left, f"still running: {left}"

    def read(self):
        """The next thing that the program says."""
        for line in self.process.stdout:
            self.look()
            if line.startswith("@ "):
                return json.loads(line[2:])
        raise AssertionError("the program ended:\n" + self.log.read_text(errors="replace")[-6000:])

    def go_on(self):
        self.look()
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def finish(self):
        """To the program's end, which must be a good one, and that of all it started."""
        while "ended" not in self.read():
            pass
        assert self.process.wait(PATIENCE) == 0
        end = time.monotonic() + PATIENCE
        while self.left() and time.monotonic() < end:
            time.sleep(0.1)

    def processes(self):
        """{pid: command line} of all that runs now."""
        parents = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                parents[int(entry.name)] = parent_of(int(entry.name))
        found, more = set(), {self.process.pid}
        while more:
            found |= more
            more = {pid for pid, parent in parents.items() if parent in more} - found
        return {pid: command_line(pid) for pid in found}

    def look(self):
        """Remembers what runs now, so that its end can be checked."""
        for pid in self.processes():
            if pid != self.process.pid:
                self.seen[pid] = began(pid)

    def left(self):
        """{pid: command line} of what was seen and runs still."""
        return {pid: command_line(pid) for pid, when in self.seen.items()
                if when is not None and began(pid) == when}

    def open_to_others(self):
        """Addresses beyond loopback on which anything of this cluster listens."""
        return sorted({address for pid in self.processes() for address in listening(pid)
                       if address not in LOOPBACK})


@contextlib.contextmanager
def own_network():
    """A network with nothing but loopback for this process and what it starts: a replica of Ray Serve
    opens a port on all interfaces, whatever is set (Ray 2.60). Skips the test where that is not allowed."""
    libc = ctypes.CDLL(None, use_errno=True)
    usual = os.open("/proc/self/ns/net", os.O_RDONLY)
    try:
        if libc.unshare(CLONE_NEWNET) != 0:
            pytest.skip("Ray Serve listens on all interfaces, and only root may make a network for it")
        try:
            subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
            yield
        finally:
            assert libc.setns(usual, CLONE_NEWNET) == 0
    finally:
        os.close(usual)


def fields_of(pid):
    """Those of /proc/PID/stat behind the name, from the state on; None when it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else fields


def parent_of(pid):
    fields = fields_of(pid)
    return int(fields[1]) if fields else None


def began(pid):
    fields = fields_of(pid)
    return fields[19] if fields else None


def command_line(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
    except OSError:
        return ""


def maps(pid, path):
    """Whether the process has the file mapped."""
    try:
        return str(path) in Path(f"/proc/{pid}/maps").read_text()
    except OSError:
        return False


def listening(pid):
    """Hexadecimal addresses of the sockets on which a process listens."""
    inodes = {}
    for table in ("tcp", "tcp6"):
        try:
            lines = Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]
        except OSError:
            return
        for line in lines:
            fields = line.split()
            if fields[3] == "0A":
                inodes[f"socket:[{fields[9]}]"] = fields[1].split(":")[0]
    try:
        descriptors = list(Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return
    for descriptor in descriptors:
        try:
            target = os.readlink(descriptor)
        except OSError:
            continue
        if target in inodes:
            yield inodes[target]


def kill(pid):
    try:
        os.kill(pid, 9)
    except ProcessLookupError:
        pass


def pack(munia, path, model=QWEN):
    """The model as a packed file."""
    done = munia.run("pack", "--model", model, "-o", path, model=False)
    assert done.returncode == 0, done.err
    return path
