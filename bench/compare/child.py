"""The driver's end of peers/protocol.py: one child process, questions with a time limit, and an end
that leaves nothing behind."""

import json
import os
import select
import signal
import subprocess
import time
from pathlib import Path

from environments import Failed

PEERS = Path(__file__).resolve().parent / "peers"
SETTLE_SECONDS = 5
EVERY_LIBRARY = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def worker_environment(threads):
    """No library may ask the network, or take more threads than are compared."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("OPENBLAS_", "PYTHON"))}
    return kept | {name: str(threads) for name in EVERY_LIBRARY} | {
        "HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error", "TOKENIZERS_PARALLELISM": "false"}


class Child:
    def __init__(self, command, log, threads):
        log.parent.mkdir(parents=True, exist_ok=True)
        self.log = log
        self.errors = open(log, "wb")
        # A process group of its own: a Ctrl-C reaches the driver only, which ends the children.
        self.process = subprocess.Popen(
            [str(part) for part in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=self.errors, env=worker_environment(threads), start_new_session=True)
        self.pending = b""

    def ask(self, do, timeout_s=900, **arguments):
        """The answer; Failed when there is none, or it is an error."""
        line = json.dumps({"do": do, **arguments}, ensure_ascii=False) + "\n"
        try:
            self.process.stdin.write(line.encode())
            self.process.stdin.flush()
        except OSError:
            raise Failed(self.epitaph(do)) from None
        answer = json.loads(self.read_line(do, timeout_s))
        if "error" in answer:
            raise Failed(f"{do}: {answer['error']}")
        return answer

    def read_line(self, do, timeout_s):
        end = time.monotonic() + timeout_s
        while b"\n" not in self.pending:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.process.stdout], [], [], left)[0]:
                raise Failed(f"{do}: no answer after {timeout_s} s")
            data = os.read(self.process.stdout.fileno(), 1 << 16)
            if not data:
                raise Failed(self.epitaph(do))
            self.pending += data
        line, self.pending = self.pending.split(b"\n", 1)
        return line

    def epitaph(self, do):
        status = self.process.wait()
        how = f"signal {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"
        lines = self.log.read_text(errors="replace").strip().splitlines()
        return f"{do}: the process ended with {how}" + (f": {lines[-1][:300]}" if lines else "")

    def close(self):
        try:
            self.process.stdin.close()
            self.process.wait(SETTLE_SECONDS)
        except (OSError, subprocess.TimeoutExpired):
            pass
        finally:
            self.kill()
            self.errors.close()

    def kill(self):
        """The process and what it started."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
