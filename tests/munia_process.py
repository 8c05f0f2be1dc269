"""Runs the munia program for the tests, and finds models and goldens.

The program is MUNIA_BIN, else build/munia. Real models are named by
MUNIA_TEST_QWEN_GGUF and MUNIA_TEST_SMOLLM2_GGUF; tests that need one skip where it is unset.
MUNIA_TEST_ISA names the instruction set where a test names none ("amx-emulated" puts whole models
through emulated AMX tiles).
"""

import hashlib
import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parent.parent
MODELS = ROOT / "tests" / "models"
GOLDENS = ROOT / "tests" / "goldens"
REAL_MODELS = {  # golden directory → variable that names the file
    "qwen2.5-coder-0.5b": "MUNIA_TEST_QWEN_GGUF",
    "smollm2": "MUNIA_TEST_SMOLLM2_GGUF",
}


def program():
    path = os.environ.get("MUNIA_BIN") or ROOT / "build" / "munia"
    path = Path(path).resolve()
    assert path.exists(), f"{path} does not exist: build it (make build) or set MUNIA_BIN"
    return str(path)


def run(command, *flags, model, lines, isa=None):
    """Feeds `lines` (JSON values) to `munia COMMAND --model MODEL FLAGS…`; returns the JSON values
    that it printed, one a line."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MUNIA_")}
    isa = isa or os.environ.get("MUNIA_TEST_ISA")
    if isa:
        environment["MUNIA_ISA"] = isa
    done = subprocess.run(
        [program(), command, "--model", str(model), *flags],
        input="".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines),
        capture_output=True, encoding="utf-8", env=environment,
    )
    assert done.returncode == 0, f"exit status {done.returncode}: {done.stderr[-2000:]}"
    # Not splitlines(): texts may hold other line ends, such as U+2028.
    return [json.loads(line) for line in done.stdout.split("\n") if line]


def logits(model, prompts, *flags, isa=None):
    """Per prompt of ids {"argmax", "top", "hash"}."""
    out = run("logits", "--jsonl", *flags, model=model, lines=[{"ids": ids} for ids in prompts], isa=isa)
    assert len(out) == len(prompts)
    return out


def all_logits(model, ids, path, *flags, isa=None, last_only=False):
    """([n_tokens, vocab_size] float32, or its last row; the printed line). The file is removed."""
    (line,) = run("logits", "--jsonl", "--all", str(path), *flags, model=model, lines=[{"ids": ids}],
                  isa=isa)
    x = np.load(path, mmap_mode="r" if last_only else None)
    assert x.dtype == np.dtype("<f4") and len(x) == len(ids)
    if last_only:
        x = np.array(x[-1])
    Path(path).unlink()
    return x, line


def generate(model, requests, *flags, isa=None):
    out = run("generate", "--jsonl", *flags, model=model, lines=requests, isa=isa)
    assert len(out) == len(requests)
    return out


def score(model, requests, *flags, isa=None):
    out = run("score", "--jsonl", *flags, model=model, lines=requests, isa=isa)
    assert len(out) == len(requests)
    return out


def hash_of(row):
    """munia's "hash": SHA-256 of the little-endian float32 logits."""
    return hashlib.sha256(np.ascontiguousarray(row, "<f4").tobytes()).hexdigest()


class TinyGolden:
    """golden.json and the arrays of golden.bin (see tests/goldens/tiny/SOURCE.md)."""

    def __init__(self, directory):
        self.name = directory.name
        self.json = json.loads((directory / "golden.json").read_text(encoding="utf-8"))
        self.data = (directory / "golden.bin").read_bytes()

    def array(self, name):
        about = self.json["arrays"][name]
        dtype = {"f32": "<f4", "f64": "<f8"}[about["dtype"]]
        n = int(np.prod(about["shape"]))
        return np.frombuffer(self.data, dtype, n, about["offset"]).reshape(about["shape"])


def tiny_goldens():
    return [TinyGolden(path.parent) for path in sorted((GOLDENS / "tiny").glob("*/golden.json"))]


def tiny_models():
    """(golden, model name) for every model of tests/models."""
    return [(golden, name) for golden in tiny_goldens() for name in golden.json["models"]]


def real_model(name):
    """The path of a real model; skips the test where its variable is unset."""
    path = os.environ.get(REAL_MODELS[name])
    if not path:
        pytest.skip(f"{REAL_MODELS[name]} is not set")
    return Path(path)


def reviews_file(reviews):
    """The labelled reviews "shop", "waimai" or "hotel"; skips the test where they are absent."""
    shared = Path(os.environ.get("MUNIA_TEST_SHARED") or ROOT.parent / "shared")
    path = shared / "data" / f"{reviews}-dev.csv"
    if not path.exists():
        pytest.skip(f"{path} is absent")
    return path


def real_golden(name, part):
    """Skips where this part was never made (minutes of work on an idle machine)."""
    path = GOLDENS / name / f"{part}.json"
    if not path.exists():
        pytest.skip(f"tests/goldens/{name}/{part}.json is not there: tools/make_model_goldens.py makes it")
    return json.loads(path.read_text(encoding="utf-8"))
