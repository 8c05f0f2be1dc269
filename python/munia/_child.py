"""A `munia serve` that belongs to this process: started, watched, and never left behind.

A thread of its own starts the program, passes on what it logs and waits for its end; the program ends
with that thread (_end_with_parent.py), so with this process.
"""

from __future__ import annotations

import collections
import http.client
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

HOST = "127.0.0.1"
_LOG_LINES = 20
_POLL_SECONDS = 0.05


class Child:
    """A running `munia serve`, ready when this is made.

    command: the program and its arguments, with --json, so that the first line of its standard output
    is {"address": "http://HOST:PORT", …}. on_death: called by the watching thread, with a sentence, when
    the program ends later though nobody asked it to.

    Raises RuntimeError when the program ends before it is ready, with what it said.
    """

    def __init__(self, command: Sequence[str], on_death: Callable[[str], None]) -> None:
        self._command = list(command)
        self._on_death = on_death
        self._said: collections.deque[str] = collections.deque(maxlen=_LOG_LINES)
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._ready = self._stopping = False
        self._status: int | None = None
        self._announced = threading.Event()
        self._ended = threading.Event()
        self.port = 0
        # A daemon: an interpreter that ends does not wait for it, and its end ends the program.
        threading.Thread(target=self._watch, name="munia serve", daemon=True).start()
        self._wait_until_ready()

    def stop(self, seconds: float) -> None:
        """Lets what has begun finish, for at most so many seconds. Any number of times."""
        with self._lock:
            self._stopping = True
            process = self._process
        if process is None or self._ended.is_set():
            return
        process.terminate()
        if not self._ended.wait(seconds):
            process.kill()
            self._ended.wait()

    def _watch(self) -> None:
        try:
            self._status = self._run()
        except (OSError, ValueError) as error:
            self._said.append(str(error))
        with self._lock:
            self._ended.set()
            self._announced.set()
            surprising = self._ready and not self._stopping
        if surprising:
            self._on_death(self._sentence("munia serve ended"))

    def _run(self) -> int:
        """The exit status of the program."""
        script = str(Path(__file__).with_name("_end_with_parent.py"))
        launcher = [sys.executable, "-I", script, str(os.getpid())]
        with subprocess.Popen(
            launcher + self._command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process:
            assert process.stdout is not None and process.stderr is not None
            with self._lock:
                self._process = process
            try:
                first = process.stdout.readline()
                if first:
                    self.port = _port_of(first)
                    self._announced.set()
                for line in process.stderr:
                    self._said.append(line.decode("utf-8", "replace").rstrip("\n"))
                    print(self._said[-1], file=sys.stderr, flush=True)
            except BaseException:
                process.kill()
                raise
            return process.wait()

    def _wait_until_ready(self) -> None:
        self._announced.wait()
        while not self._ended.is_set():
            if self._answers_ready():
                with self._lock:
                    self._ready = not self._ended.is_set()
                if self._ready:
                    return
            self._ended.wait(_POLL_SECONDS)
        raise RuntimeError(self._sentence("munia serve ended before it was ready"))

    def _answers_ready(self) -> bool:
        connection = http.client.HTTPConnection(HOST, self.port, timeout=10)
        try:
            connection.request("GET", "/ready")
            return connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()

    def _sentence(self, what: str) -> str:
        said = "; ".join(self._said) or "it said nothing"
        return what + ("" if self._status is None else f", exit status {self._status}") + ": " + said


def _port_of(line: bytes) -> int:
    try:
        return int(json.loads(line)["address"].rsplit(":", 1)[1])
    except (ValueError, LookupError, TypeError):
        shown = line[:100].decode("utf-8", "replace").rstrip()
        raise ValueError(
            f"it said {shown!r} where `munia serve --json` says its address"
        ) from None
