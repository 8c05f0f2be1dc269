"""Beam search and penalties against transformers float32 (tools/make_generation_goldens.py), and what
the command line says of them."""

import json
import shutil

import pytest

import munia_process as munia
from compare import check_beams, check_greedy
from munia_cli import Munia, json_lines

# Score differences that float32 forwards of two programs may turn round: of two layers, of 24.
CLOSE_TINY, CLOSE_REAL = 1e-4, 5e-3
TINY = json.loads((munia.GOLDENS / "tiny" / "generation.json").read_text(encoding="utf-8"))["groups"]
groups = pytest.mark.parametrize("group", TINY, ids=[group["model"] for group in TINY])
REAL = "qwen2.5-coder-0.5b"


@pytest.fixture
def cli(tmp_path):
    return Munia(tmp_path)


def texts_of(result):
    return result.get("choices", [result])


def with_ends(group, directory):
    """A copy of the group's model that ends at the group's end tokens."""
    model = directory / group["model"]
    shutil.copytree(munia.MODELS / group["model"], model)
    path = model / "generation_config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(config | {"eos_token_id": group["end_ids"]}), encoding="utf-8")
    return model


def run_beams(model, cases, close, tolerance):
    """How many are equal; the others must be near-ties."""
    requests = [{"ids": case["ids"], **case["options"]} for case in cases]
    results = munia.generate(model, requests)
    for case, result in zip(cases, results, strict=True):
        assert len(texts_of(result)) == case["options"].get("n", 1)
        assert texts_of(result)[0]["ids"] == result["ids"]
    return sum(check_beams(texts_of(result), case, close, tolerance)
               for case, result in zip(cases, results, strict=True))


def run_penalties(model, cases):
    requests = [{"ids": case["prompt"], **case["options"]} for case in cases]
    return sum(check_greedy(result["ids"], case["ids"], case["gaps"])
               for case, result in zip(cases, munia.generate(model, requests), strict=True))


def real_cases(part):
    cases = munia.real_golden(REAL, "generation").get(part)
    if not cases:
        pytest.skip(f"generation.json has no {part}: tools/make_generation_goldens.py makes them")
    return cases


@groups
def test_tiny_beams(group, tmp_path, capsys):
    n_equal = run_beams(with_ends(group, tmp_path), group["beams"], CLOSE_TINY, 1e-4)
    with capsys.disabled():
        print(f"\n  {group['model']}: {n_equal} of {len(group['beams'])} beam searches equal")
    assert n_equal >= sum(case["margin"] >= CLOSE_TINY for case in group["beams"]) >= 18


@groups
def test_tiny_penalties(group, tmp_path):
    assert run_penalties(with_ends(group, tmp_path), group["penalties"]) == len(group["penalties"])


@pytest.mark.long
def test_real_beams(capsys):
    cases = real_cases("beams")
    n_equal = run_beams(munia.real_model(REAL), cases, CLOSE_REAL, 1e-3)
    with capsys.disabled():
        print(f"\n  {REAL}: {n_equal} of {len(cases)} beam searches equal")


@pytest.mark.long
def test_real_penalties(capsys):
    cases = real_cases("penalties")
    n_equal = run_penalties(munia.real_model(REAL), cases)
    with capsys.disabled():
        print(f"\n  {REAL}: {n_equal} of {len(cases)} texts under penalties equal")


def test_beams_are_the_same_beside_other_requests():
    """One line after the other, and all at once with greedy, sampled and other beam requests."""
    requests = []
    for i, case in enumerate(TINY[0]["beams"]):
        requests += [{"ids": case["ids"], **case["options"]},
                     {"text": f"天气 {i}", "max_tokens": 30, "temperature": i % 3, "seed": i}]
    together = munia.generate(munia.MODELS / TINY[0]["model"], requests)
    for request, result in list(zip(requests, together, strict=True))[::2]:
        (alone,) = munia.generate(munia.MODELS / TINY[0]["model"], [request])
        for key in ("ids", "text", "finish_reason", "score"):
            assert alone[key] == result[key]


def test_flags_say_what_a_line_says(cli):
    line = {"text": "今天", "max_tokens": 9, "num_beams": 3, "length_penalty": 2, "min_tokens": 2,
            "early_stopping": "never", "n": 2}
    (from_line,) = cli.lines("generate", "--jsonl", stdin=json_lines(line))
    (from_flags,) = cli.lines("generate", "--json", "--max-tokens", 9, "--num-beams", 3,
                              "--length-penalty", 2, "--early-stopping", "never", "--min-tokens", 2,
                              "-n", 2, "今天")
    del from_line["usage"], from_flags["usage"]
    assert from_line == from_flags and len(from_line["choices"]) == 2
    scores = [choice["score"] for choice in from_line["choices"]]
    assert scores == sorted(scores, reverse=True)


def test_a_line_turns_the_flags_beams_off(cli):
    line = json_lines({"text": "今天", "max_tokens": 5, "num_beams": 1})
    (off,) = cli.lines("generate", "--jsonl", "--num-beams", 4, stdin=line)
    assert "score" not in off


@pytest.mark.parametrize("command", ["generate", "chat", "predict"])
def test_beams_of_a_reply_come_whole(cli, command):
    flags = ["--max-tokens", 8, "--num-beams", 3]
    shown = cli.run(command, *flags, "今天真开心").out
    (result,) = cli.lines(command, "--json", *flags, "今天真开心")
    text = result.get("reply", result.get("text"))
    assert shown.rstrip("\n").endswith(text.rstrip("\n"))
