"""What the tests of the Python package share: the tiny model, and a Python process of its own for what
ends, forks or is interrupted."""

import os
import signal
import subprocess
import sys
import textwrap
import time

from munia_process import MODELS, ROOT

import munia

QWEN = MODELS / "qwen2-tied-bf16"
# Every token computes its whole past again: many seconds on the tiny model, and as many steps.
SLOW = {"kv_cache": False, "threads": 1}
# 384 to 386 are the tiny model's special tokens, two of which would end a reply.
LONG = {"max_tokens": 900, "repetition_penalty": 1.0,
        "logit_bias": {384: -100, 385: -100, 386: -100}}
PROMPT = "今天"

PRELUDE = f"""
import os, sys, threading, time
import munia
QWEN = {str(QWEN)!r}
SLOW, LONG, PROMPT = {SLOW!r}, {LONG!r}, {PROMPT!r}
"""


def start(code):
    """A Python process that runs `code` behind PRELUDE."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("MUNIA_")}
    environment["PYTHONPATH"] = os.path.dirname(os.path.dirname(munia.__file__))
    return subprocess.Popen(
        [sys.executable, "-c", PRELUDE + textwrap.dedent(code)], cwd=ROOT, env=environment,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run(code, timeout=60):
    """(exit status, output, errors) of start(code)."""
    process = start(code)
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        raise AssertionError(f"it hung; output: {out!r}, errors: {err!r}") from None
    return process.returncode, out, err


def interrupt(code, timeout=60):
    """Runs code that prints a line and then blocks; sends SIGINT; (status, what else it printed,
    errors, seconds until it ended)."""
    process = start(code)
    assert process.stdout.readline() == "begin\n", process.communicate()
    time.sleep(0.2)
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise AssertionError("Ctrl-C did not end it") from None
    return process.returncode, out, err, time.monotonic() - began
