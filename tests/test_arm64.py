"""The program for 64-bit ARM (`make arm64`) under qemu: which rungs each CPU gets, and that logits,
packed files and replies are the bytes of x86 (its avx2 rung), for exact, int8 and int4 weights of
every file format. The unit tests that `make arm64` builds run there too (long). qemu says nothing of
speed, and little of memory order between threads."""

import json
import os
import shutil
import subprocess

import pytest

import munia_process as munia
from munia_process import MODELS, ROOT

BUILD = ROOT / "build" / "arm64"
RUN = ROOT / "tools" / "arm64_run.sh"
RUNGS = {  # CPU of qemu → its rungs, the best last
    "cortex-a72": ["scalar", "neon"],
    "cortex-a76": ["scalar", "neon", "neon_dotprod"],
    "max": ["scalar", "neon", "neon_dotprod"],
}
WEIGHTS = ((), ("--weights", "int8"), ("--weights", "int4"))
UNIT_TESTS = ("munia_base_test", "munia_kernels_test")
TINY = munia.tiny_models()
QWEN = MODELS / "qwen2-tied-bf16"
long = pytest.mark.long
tiny = pytest.mark.parametrize("golden, model", TINY, ids=[name for _, name in TINY])
each_cpu = pytest.mark.parametrize("cpu", RUNGS)
best_rung = pytest.mark.parametrize("cpu", ["cortex-a72", "cortex-a76"])


def missing():
    if not (BUILD / "munia").exists():
        return "build/arm64/munia is not there: make arm64 builds it"
    return "qemu-aarch64 is not installed" if shutil.which("qemu-aarch64") is None else ""


pytestmark = pytest.mark.skipif(bool(missing()), reason=missing() or "there")


def run(cpu, program, *arguments, lines=(), isa=None):
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("MUNIA_", "QEMU_"))}
    environment["QEMU_CPU"] = cpu
    if isa:
        environment["MUNIA_ISA"] = isa
    return subprocess.run([RUN, BUILD / program, *map(str, arguments)], capture_output=True,
                          input="".join(json.dumps(line) + "\n" for line in lines),
                          encoding="utf-8", env=environment)


def lines_of(cpu, command, model, *flags, lines=(), isa=None):
    done = run(cpu, "munia", command, "--model", model, *flags, lines=lines, isa=isa)
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.split("\n") if line]


def arm_hashes(cpu, model, prompts, *flags, isa=None):
    rows = lines_of(cpu, "logits", model, "--jsonl", *flags, lines=[{"ids": ids} for ids in prompts],
                    isa=isa)
    return [row["hash"] for row in rows]


def x86_hashes(model, prompts, *flags):
    return [row["hash"] for row in munia.logits(model, prompts, *flags, isa="avx2")]


@each_cpu
def test_each_cpu_gets_its_rungs_and_they_equal_scalar(cpu):
    rows = lines_of(cpu, "doctor", QWEN, "--json")
    found = {row["check"]: row["value"] for row in rows}
    assert found["kernels"].split() == RUNGS[cpu]
    assert found["kernel chosen"].startswith(RUNGS[cpu][-1] + ":")
    assert ("asimddp" in found["features"].split()) == ("neon_dotprod" in RUNGS[cpu])
    tests = [row["value"] for row in rows if row["check"] == "kernel test"]
    assert [test.split(":")[0] for test in tests] == RUNGS[cpu]
    assert all("equal to scalar byte for byte, 13 weight types" in test for test in tests)


@pytest.mark.parametrize("isa", ["neon_dotprod", "avx2", "amx"])
def test_a_rung_that_the_cpu_lacks_is_refused(isa):
    done = run("cortex-a72", "munia", "logits", "--model", QWEN, "--jsonl", isa=isa)
    assert done.returncode == 2 and isa in done.stderr and "scalar, neon" in done.stderr


def test_a_reply_is_that_of_x86():
    requests = [{"ids": [5, 6, 7], "max_tokens": 8},
                {"ids": [9, 8], "max_tokens": 8, "temperature": 0.8, "seed": 3}]
    keys = ("ids", "text", "finish_reason")
    here = munia.generate(QWEN, requests, isa="avx2")
    there = lines_of("max", "generate", QWEN, "--jsonl", lines=requests)
    assert [[row[key] for key in keys] for row in there] == [[row[key] for key in keys] for row in here]


@long
@best_rung
@tiny
def test_logits_are_the_bytes_of_x86(golden, model, cpu):
    path, prompts = MODELS / model, golden.json["prompts"]
    for flags in WEIGHTS:
        assert arm_hashes(cpu, path, prompts, *flags) == x86_hashes(path, prompts, *flags), flags


@long
@pytest.mark.parametrize("isa", RUNGS["max"])
def test_every_rung_gives_the_same_bytes(isa):
    golden, model = next((golden, name) for golden, name in TINY if name == QWEN.name)
    path, prompts = MODELS / model, golden.json["prompts"][:6]
    for flags in WEIGHTS:
        assert arm_hashes("max", path, prompts, *flags, isa=isa) == x86_hashes(path, prompts, *flags)


@long
@best_rung
@pytest.mark.parametrize("weights", ["exact", "int8", "int4"])
@pytest.mark.parametrize("model", ["qwen2-tied-bf16", "qwen2-tied-k-mix.gguf"])
def test_packed_files_are_the_same(model, weights, cpu, tmp_path):
    """Each machine packs the same file, and reads that of the other."""
    here, there = tmp_path / "x86.munia", tmp_path / "arm.munia"
    flags = () if weights == "exact" else ("--weights", weights)
    munia.run("pack", "--json", *flags, "-o", str(here), model=MODELS / model, lines=[])
    lines_of(cpu, "pack", MODELS / model, "--json", *flags, "-o", there)
    assert there.read_bytes() == here.read_bytes()
    for load in ("copy", "map"):
        assert arm_hashes(cpu, here, [[1, 2, 3]], "--load", load) == x86_hashes(there, [[1, 2, 3]])


@long
@each_cpu
@pytest.mark.parametrize("program", UNIT_TESTS)
def test_unit_tests_pass(program, cpu):
    if not (BUILD / program).exists():
        pytest.skip(f"build/arm64/{program} is not there: make arm64 builds it")
    # A death test starts its own file, which only qemu can run.
    done = run(cpu, program, "--gtest_filter=-*DeathTest.*")
    print(done.stdout[-3000:])
    assert done.returncode == 0
