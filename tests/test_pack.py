"""`munia pack`: a packed file gives the same bytes as its source in every command, on every rung and
by both ways of loading; damage is one clear sentence; processes that map a file share it."""

import json
import os
import re
import signal
import struct
import subprocess
import time
from pathlib import Path

import pytest

from munia_cli import MODELS, QWEN, QWEN_GGUF, Munia, environment, json_lines
from munia_process import REAL_MODELS

TINY = sorted(path.name for path in MODELS.iterdir() if path.is_dir() or path.suffix == ".gguf")
TEXTS = json_lines({"text": "今天的实验终于成功了，太棒了！"}, {"text": "Hello  world\n <|im_end|> é"})
MESSAGES = json_lines({"messages": [{"role": "user", "content": "好"}],
                       "add_generation_prompt": True})
COMMANDS = [
    (("logits", "--jsonl"), TEXTS),
    (("logits", "--jsonl", "--special"), TEXTS),
    (("generate", "--jsonl"), json_lines({"text": "我很", "max_tokens": 12},
                                         {"text": "The", "max_tokens": 6, "num_beams": 2})),
    (("classify", "--json", "好", "坏", "it is fine"), ""),
    (("tokenize", "--jsonl"), TEXTS),
    (("tokenize", "--special", "--jsonl"), TEXTS),
    (("detokenize",), "[1, 2, 300]\n"),
    (("render",), MESSAGES),
]


def real_model(name):
    path = os.environ.get(REAL_MODELS[name])
    if not path:
        pytest.skip(f"{REAL_MODELS[name]} is not set")
    return Path(path)


def output(munia, model, arguments, stdin, *flags, env=None):
    """What a command says, whatever it is: a model without a template fails the same way too."""
    result = munia.run(arguments[0], "--model", model, *flags, *arguments[1:], stdin=stdin,
                       model=False, env=env)
    return result.returncode, result.out


def check_same(munia, source, tmp_path, commands, rungs):
    packed = tmp_path / "m.munia"
    done = munia.lines("pack", "--json", "--model", source, "-o", packed, model=False)[0]
    assert done["size_bytes"] == packed.stat().st_size > done["weight_bytes"]
    print(f"\n{source.name}: source loaded in {done['load_seconds']:.3f} s, "
          f"written in {done['write_seconds']:.3f} s")
    assert os.listdir(tmp_path).count("m.munia") == 1
    assert not [name for name in os.listdir(tmp_path) if "partial" in name]
    for arguments, stdin in commands:
        expected = output(munia, source, arguments, stdin)
        for flags in (["--load", "copy", "--verify"], ["--load", "map"]):
            assert output(munia, packed, arguments, stdin, *flags) == expected, (arguments, flags)
    logits, stdin = COMMANDS[0]
    for rung in rungs:
        env = {"MUNIA_ISA": rung}
        assert output(munia, packed, logits, stdin, env=env) == \
            output(munia, source, logits, stdin, env=env), rung


def rungs_here(munia):
    for row in munia.lines("doctor", "--json", model=False):
        if row["check"] == "kernels":
            return row["value"].split()
    raise AssertionError("doctor names no kernels")


@pytest.fixture
def munia(tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    return Munia(home)


@pytest.fixture
def packed(munia, tmp_path):
    path = tmp_path / "q.munia"
    assert munia.run("pack", "-o", path).returncode == 0
    return path


@pytest.mark.parametrize("name", TINY)
def test_tiny_models_give_the_same_bytes(munia, tmp_path, name):
    check_same(munia, MODELS / name, tmp_path, COMMANDS, rungs_here(munia))


@pytest.mark.parametrize("name", REAL_MODELS)
def test_real_models_give_the_same_bytes(munia, tmp_path, name):
    source = real_model(name)
    rungs = [rung for rung in rungs_here(munia) if rung != "scalar"]  # scalar: tiny models only
    check_same(munia, source, tmp_path, COMMANDS, rungs)


def test_a_packed_file_packs_to_itself(munia, tmp_path, packed):
    again = tmp_path / "again.munia"
    assert munia.run("pack", "--model", packed, "-o", again, model=False).returncode == 0
    assert again.read_bytes() == packed.read_bytes()
    # Over itself, while it is mapped.
    assert munia.run("pack", "--model", packed, "--load", "map", "--force", "-o", packed,
                     model=False).returncode == 0
    assert again.read_bytes() == packed.read_bytes()


def test_tied_weights_are_stored_once(munia, tmp_path):
    sizes = [munia.lines("pack", "--json", "--model", MODELS / name, "-o", tmp_path / f"{name}.munia",
                         model=False)[0]["weight_bytes"]
             for name in ("qwen2-tied-bf16", "qwen2-tied-bf16.gguf")]
    assert sizes[0] == sizes[1] < 2 * (QWEN / "model.safetensors").stat().st_size
    assert b"head.weight" not in (tmp_path / "qwen2-tied-bf16.munia").read_bytes()


def test_the_output_is_guarded(munia, tmp_path, packed):
    before = packed.read_bytes()
    assert "--force" in munia.fails(2, "pack", "--model", QWEN_GGUF, "-o", packed, model=False)
    assert packed.read_bytes() == before
    assert ".munia" in munia.fails(2, "pack", "-o", tmp_path / "x.bin")
    assert "-o" in munia.fails(2, "pack")
    (tmp_path / "d.munia").mkdir()
    munia.fails(2, "pack", "--force", "-o", tmp_path / "d.munia")
    assert "no" in munia.fails(1, "pack", "-o", tmp_path / "no" / "x.munia")


def refused(munia, path, *flags):
    error = munia.fails(3, "logits", *flags, "--model", path, model=False, stdin='{"text":"a"}\n')
    assert error.count("\n") == 1 and str(path) in error, error
    return error


def test_damage_is_named(munia, tmp_path, packed):
    good = packed.read_bytes()
    path = tmp_path / "bad.munia"

    def attempt(content, *flags):
        path.write_bytes(content)
        for way in ("map", "copy"):
            error = refused(munia, path, "--load", way, *flags)
        return error

    def flipped(offset):
        return good[:offset] + bytes([good[offset] ^ 16]) + good[offset + 1:]

    for size in (0, 7, 8, 63, 64, 500, len(good) // 2, len(good) - 1):
        error = attempt(good[:size])
        assert "cut off" in error if size else "not a packed" in error
    assert "not a packed" in attempt(b"GGUF" + good[4:])
    assert "version 2" in attempt(good[:8] + b"\2" + good[9:])
    header_bytes = struct.unpack_from("<Q", good, 16)[0]
    for offset in (40, 70, 100, header_bytes - 1):
        assert "SHA-256 differs" in attempt(flipped(offset)), offset
    assert '"config" is damaged' in attempt(flipped(good.index(b'{"architecture"') + 20))
    last = len(good) - 1
    assert "is damaged: its SHA-256 differs" in attempt(flipped(last), "--verify")
    path.write_bytes(flipped(last))
    doctor = munia.run("doctor", "--model", path, model=False)
    assert doctor.returncode == 1 and "SHA-256 differs" in doctor.out
    doctor = munia.run("doctor", "--model", packed, model=False)
    assert doctor.returncode == 0 and "all checksums right" in doctor.out


def test_a_kill_leaves_nothing_that_looks_whole(munia, tmp_path):
    source = real_model("smollm2")
    folder = tmp_path / "out"
    folder.mkdir()
    path = folder / "k.munia"
    for sig in (signal.SIGKILL, signal.SIGINT):
        process = subprocess.Popen(munia.command("pack", "--model", source, "-o", path, model=False),
                                   stderr=subprocess.PIPE, env=environment(munia.home))
        while not os.listdir(folder) and process.poll() is None:
            time.sleep(0.001)
        process.send_signal(sig)
        process.communicate()
        if process.returncode == 0:
            path.unlink()  # it was done before the signal came
            continue
        assert process.returncode in (-sig, 130)
        assert not path.exists()
        for name in os.listdir(folder):
            os.rename(folder / name, folder / "left.munia")  # as if it were the whole file
            refused(munia, folder / "left.munia")
            os.unlink(folder / "left.munia")


def memory(pid):
    """Rss and Pss of a process and of its mapping of packed files, in KiB."""
    pss = rss = 0
    inside = False
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        if re.match(r"^[0-9a-f]+-[0-9a-f]+ ", line):
            inside = line.endswith(".munia")
        elif inside and line.startswith("Pss:"):
            pss += int(line.split()[1])
        elif inside and line.startswith("Rss:"):
            rss += int(line.split()[1])
    return rss, pss


def test_processes_share_a_mapped_file(munia, tmp_path):
    source = real_model("smollm2")
    path = tmp_path / "s.munia"
    assert munia.run("pack", "--model", source, "-o", path, model=False).returncode == 0
    command = munia.command("logits", "--model", path, "--load", "map", model=False)
    processes = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                  env=environment(munia.home)) for _ in range(2)]
    try:
        answers = []
        for process in processes:  # each answers, so all its weights were read, and then waits
            process.stdin.write(json_lines({"text": "Hello"}))
            process.stdin.flush()
            answers.append(json.loads(process.stdout.readline())["hash"])
        assert answers[0] == answers[1]
        for process in processes:
            rss, pss = memory(process.pid)
            print(f"\nmapped: Rss {rss} KiB, Pss {pss} KiB")
            assert rss * 1024 > 0.5 * path.stat().st_size  # it does compute with the mapping
            assert pss <= 0.55 * rss  # and shares it with the other
    finally:
        for process in processes:
            process.stdin.close()
            process.wait()


def test_load_is_a_setting(munia, packed):
    assert "--load" in munia.fails(2, "logits", "--load", "fast")
    assert "MUNIA_LOAD" in munia.fails(2, "logits", env={"MUNIA_LOAD": "x"})
    lines = munia.lines("config", "--json", "--load", "map")
    assert any("map" in json.dumps(line) for line in lines)
