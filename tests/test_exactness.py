"""munia against the reference: logits against float64 and torch float32, greedy text, penalties,
label scores, and the sentiment of labelled rows. Goldens: tests/goldens/*/SOURCE.md."""

import csv
import hashlib

import numpy as np
import pytest

import munia_process as munia
from compare import ErrorRatio, check_close, check_greedy, wilson_interval

PROMPT_A = (
    '你是一个冷酷的情感分析师，只输出"正面"或"负面"，不加解释、不加标点、不加空格，且必须以中文输出。'
)
TINY = munia.tiny_models()
tiny = pytest.mark.parametrize("golden, model", TINY, ids=[name for _, name in TINY])
real = pytest.mark.parametrize("name", munia.REAL_MODELS)


@pytest.fixture
def say(capsys):
    """Prints a figure so that it is seen also when the test passes."""

    def line(text):
        with capsys.disabled():
            print(f"\n  {text}", flush=True)

    return line


@pytest.fixture(scope="module")
def tiny_logits(tmp_path_factory):
    """model name → per prompt ([n_tokens, vocab_size], the printed line); computed once."""
    known, path = {}, tmp_path_factory.mktemp("logits") / "all.npy"

    def of(golden, model):
        if model not in known:
            known[model] = [munia.all_logits(munia.MODELS / model, ids, path)
                            for ids in golden.json["prompts"]]
        return known[model]

    return of


def add_tiny(ratio, golden, results):
    ratio.add(results[0][0], golden.array("logits_f32"), golden.array("logits_f64"))
    rows = zip(results, golden.array("last_logits_f32"), golden.array("last_logits_f64"), strict=True)
    for (x, _), reference, truth in list(rows)[1:]:
        ratio.add(x[-1], reference, truth)


@tiny
def test_tiny_logits(golden, model, tiny_logits):
    results = tiny_logits(golden, model)
    ratio = ErrorRatio()
    add_tiny(ratio, golden, results)
    # Eleven prompts know the ratio to 15% or so; the sharp bound is on all models together below.
    geometric, _, _ = ratio.figures()
    assert geometric <= 2, f"munia's error is {geometric:.2f} × torch float32's"
    assert (results[0][0].argmax(axis=-1) == golden.array("logits_f32").argmax(axis=-1)).all()
    for (x, line), reference in zip(results, golden.array("last_logits_f32"), strict=True):
        assert line["argmax"] == x[-1].argmax() == reference.argmax()


def test_tiny_error_ratio(tiny_logits, say):
    ratio = ErrorRatio()
    for golden in munia.tiny_goldens():  # one model a golden: twins would count twice
        add_tiny(ratio, golden, tiny_logits(golden, golden.json["models"][0]))
    ratio.check("tiny models", say)


@tiny
def test_tiny_logits_line(golden, model, tiny_logits):
    """argmax, top and hash of the printed line are those of the last row of --all."""
    lines = munia.logits(munia.MODELS / model, golden.json["prompts"])
    for line, (x, line_of_all) in zip(lines, tiny_logits(golden, model), strict=True):
        top = np.argsort(-x[-1], kind="stable")[:20]
        assert [i for i, _ in line["top"]] == top.tolist()
        assert [np.float32(v) for _, v in line["top"]] == x[-1][top].tolist()
        assert line["argmax"] == top[0]
        assert line["hash"] == line_of_all["hash"] == munia.hash_of(x[-1])


@pytest.mark.parametrize("golden", [g for g in munia.tiny_goldens() if len(g.json["models"]) > 1],
                         ids=lambda golden: golden.name)
def test_same_weights_in_two_formats_give_the_same_bytes(golden, tiny_logits):
    first, *others = [[line["hash"] for _, line in tiny_logits(golden, model)]
                      for model in golden.json["models"]]
    assert others and all(hashes == first for hashes in others)


def without_golden_end(golden, model, ids, end_id, n_expected):
    """A GGUF names one end token, the directory with the same weights two. Where the reference was
    ended by the other one, munia on the GGUF must say it as an ordinary token and go on."""
    if model.endswith(".gguf") and end_id in golden.json["end_ids"][1:] and len(ids) > n_expected:
        assert ids[n_expected] == end_id
        return ids[:n_expected], True
    return ids, False


@tiny
def test_tiny_greedy(golden, model):
    cases = golden.json["greedy"]
    requests = [{"ids": case["prompt"], "max_tokens": 40} for case in cases]
    for case, result in zip(cases, munia.generate(munia.MODELS / model, requests), strict=True):
        ids, went_on = without_golden_end(golden, model, result["ids"], case["end_id"], len(case["ids"]))
        if check_greedy(ids, case["ids"], case["gaps"]) and not went_on:
            assert result["finish_reason"] == ("length" if case["end_id"] is None else "stop")


@tiny
@pytest.mark.parametrize("kind", ["repetition_penalty", "num_beams"])
def test_tiny_generate_options(golden, model, kind):
    cases = [case for case in golden.json["generate"]
             if ("num_beams" in case["options"]) == (kind == "num_beams")]
    results = munia.generate(munia.MODELS / model,
                             [{"ids": case["prompt"], **case["options"]} for case in cases])
    for case, result in zip(cases, results, strict=True):
        if kind == "num_beams" and model.endswith(".gguf") and len(golden.json["end_ids"]) > 1:
            if case["end_id"] is not None:
                continue  # beams end elsewhere with another set of end tokens
        ids, _ = without_golden_end(golden, model, result["ids"], case["end_id"], len(case["ids"]))
        assert ids == case["ids"], case["options"]


@tiny
def test_tiny_scores(golden, model):
    cases = golden.json["scores"]
    for key in ("messages", "ids"):  # by the model's own template and tokenizer, and by ids
        requests = [{key: case[key], "continuations": case["continuations"]} for case in cases]
        for case, result in zip(cases, munia.score(munia.MODELS / model, requests), strict=True):
            check_close(result["logprobs"], case["logprobs_f64"], 1e-3, key)
            assert result["tokens"] == [len(ids) for ids in case["continuation_ids"]]


@real
def test_real_logits(name, tmp_path, say):
    model, golden = munia.real_model(name), munia.real_golden(name, "logits")
    rows, sampled = golden["prompts"], golden["sampled_ids"]
    lines = munia.logits(model, [row["ids"] for row in rows])
    ratio = ErrorRatio()
    for row, line in zip(rows, lines, strict=True):
        if row["top"][0][1] - row["top"][1][1] > 0.001:
            assert line["argmax"] == row["argmax"]
        limit = 1e-4 * row["max_abs_f64"]
        ours = dict(map(tuple, line["top"]))
        for i, value in row["top"][:10]:
            assert abs(ours[i] - value) <= limit, f"{len(row['ids'])} ids: logit {i}"
        if len(row["ids"]) <= 256:  # longer matrices would be gigabytes
            x, again = munia.all_logits(model, row["ids"], tmp_path / "all.npy", last_only=True)
            assert again["hash"] == line["hash"] == munia.hash_of(x)
            ratio.add(x[sampled], row["f32"], np.array(row["f64"]))
            assert np.linalg.norm(x.astype(np.float64)) == pytest.approx(row["norm_f64"], rel=1e-5)
        else:
            ids = [i for i, _ in row["top"] if i in ours]
            top, top_f32 = dict(map(tuple, row["top"])), row["top_f32"]
            f32 = {i: v for (i, _), v in zip(row["top"], top_f32, strict=True)}
            ratio.add([ours[i] for i in ids], [f32[i] for i in ids], np.array([top[i] for i in ids]))
    ratio.check(name, say)


@real
def test_real_greedy(name, say):
    model, golden = munia.real_model(name), munia.real_golden(name, "greedy")
    requests = [{"ids": case["prompt_ids"], "max_tokens": golden["max_tokens"]}
                for case in golden["cases"]]
    n_equal = 0
    for case, result in zip(golden["cases"], munia.generate(model, requests), strict=True):
        n_equal += check_greedy(result["ids"], case["ids"], case["gaps"])
    say(f"{name}: {n_equal} of {len(requests)} greedy texts equal to the last id")


@real
def test_real_chat_prompts(name):
    """The same replies by messages: template and tokenizer of the GGUF give the reference's ids."""
    model, cases = munia.real_model(name), munia.real_golden(name, "greedy")["cases"]
    requests = [{"messages": case["messages"], "max_tokens": 2} for case in cases]
    for case, result in zip(cases, munia.generate(model, requests), strict=True):
        assert result["usage"]["prompt_tokens"] == len(case["prompt_ids"])
        check_greedy(result["ids"], case["ids"][:2], case["gaps"][:2])


@real
def test_real_scores(name, say):
    model, cases = munia.real_model(name), munia.real_golden(name, "scores")["cases"]
    requests = [{"messages": case["messages"], "continuations": case["continuations"]} for case in cases]
    worst = 0
    for case, result in zip(cases, munia.score(model, requests), strict=True):
        worst = max(worst, check_close(result["logprobs"], case["logprobs_f64"], 0.01, name))
        assert result["tokens"] == [len(ids) for ids in case["continuation_ids"]]
    say(f"{name}: label scores differ from float64 by at most {worst:.2g} nats")


@pytest.mark.parametrize("reviews, n_rows", [
    ("shop", 200), *(pytest.param(name, 800, marks=pytest.mark.long) for name in ("shop", "waimai", "hotel"))])
def test_sentiment_of_reviews(reviews, n_rows, say):
    """Prompt A on labelled reviews: the reference's labels on 99.5% of the rows."""
    name = "qwen2.5-coder-0.5b"
    model, golden = munia.real_model(name), munia.real_golden(name, reviews)
    path = munia.reviews_file(reviews)
    assert hashlib.sha256(path.read_bytes()).hexdigest() == golden["file_sha256"]
    with open(path, encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))[:n_rows]
    labels, expected = golden["labels"], golden["rows"][:n_rows]
    requests = [{"messages": [{"role": "system", "content": PROMPT_A},
                              {"role": "user", "content": "用户输入：" + row["review"]}],
                 "continuations": labels} for row in rows]
    results = [result["logprobs"] for result in munia.score(model, requests)]
    ours = [int(np.argmax(logprobs)) for logprobs in results]
    n_equal = sum(a == b[0] for a, b in zip(ours, expected, strict=True))
    n_right = sum(labels[a] == row["label"] for a, row in zip(ours, rows, strict=True))
    low, high = wilson_interval(n_right, n_rows)
    say(f"{reviews}: {n_equal} of {n_rows} labels equal the reference's; accuracy "
        f"{n_right / n_rows:.3f}, 95% interval {low:.3f} to {high:.3f}")
    assert n_equal >= 0.995 * n_rows
    for a, b in zip(results, expected, strict=True):
        check_close(a, b[1:], 0.01, "log-probabilities of a row")
