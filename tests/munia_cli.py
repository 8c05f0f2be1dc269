"""Runs the munia program for tests of its command line, with the user's own environment (settings,
models, language) out of the way."""

import json
import os
import subprocess
from pathlib import Path

from munia_process import MODELS, ROOT, program

BIN = Path(program())
QWEN = MODELS / "qwen2-tied-bf16"
QWEN_GGUF = MODELS / "qwen2-tied-bf16.gguf"
LLAMA_GGUF = MODELS / "llama-tied-q4_1.gguf"


def environment(home, **variables):
    """A clean environment whose home is `home`."""
    kept = {key: value for key, value in os.environ.items()
            if not key.startswith(("MUNIA_", "LC_", "XDG_")) and key != "LANG"}
    return kept | {"HOME": str(home), "LANG": "C.UTF-8"} | variables


class Munia:
    """Runs commands with `model` unless they name another."""

    def __init__(self, home, model=QWEN):
        self.home = home
        self.model = model

    def command(self, *arguments, model=True):
        named = ["--model", str(self.model)] if model and self.model else []
        return [str(BIN), arguments[0], *named, *map(str, arguments[1:])]

    def run(self, *arguments, stdin="", model=True, env=None, timeout=120, **options):
        data = stdin if isinstance(stdin, bytes) else stdin.encode()
        result = subprocess.run(self.command(*arguments, model=model), input=data,
                                capture_output=True, timeout=timeout,
                                env=environment(self.home, **(env or {})), **options)
        result.out = result.stdout.decode("utf-8", "strict")
        result.err = result.stderr.decode("utf-8", "replace")
        return result

    def lines(self, *arguments, **options):
        """The JSON lines of a command that must succeed; every line must be JSON."""
        result = self.run(*arguments, **options)
        assert result.returncode == 0, result.err
        # Not splitlines(): texts may hold other line ends, such as U+2028.
        return [json.loads(line) for line in result.out.split("\n") if line]

    def fails(self, status, *arguments, **options):
        """The one sentence of a command that must fail with `status`."""
        result = self.run(*arguments, **options)
        assert result.returncode == status, (result.returncode, result.out, result.err)
        assert result.err.startswith("munia: "), result.err
        return result.err


def json_lines(*objects):
    return "".join(json.dumps(item, ensure_ascii=False) + "\n" for item in objects)
