"""`--weights int8|int4` and `munia quantize`: the same bytes on every rung, alone or in a batch, in
chunks or at once, from a source, a packed file or a quantized one; near the exact weights; and what
`eval --compare` says of them."""

import hashlib
import os
import struct

import numpy as np
import pytest

import munia_process
from munia_cli import MODELS, QWEN, QWEN_GGUF, json_lines
from munia_process import REAL_MODELS
from test_invariance import RUNG_FLAGS, VARIANTS, hashes, rungs, tile_rungs

MODES = ("int8", "int4")
TEXTS = json_lines({"text": "今天的实验终于成功了，太棒了！"}, {"text": "Hello  world"})
modes = pytest.mark.parametrize("mode", MODES)
ODD = "llama-untied-f16-sharded"  # its rows are no multiple of 32 long
TINY = [(golden, name) for golden, name in munia_process.tiny_models() if not name.startswith("llama-untied-f16")]
tiny = pytest.mark.parametrize("golden, model", TINY, ids=[name for _, name in TINY])


@modes
@tiny
def test_the_same_bytes_whatever_is_around(golden, model, mode):
    path, prompts = MODELS / model, golden.json["prompts"]
    weights = ("--weights", mode)
    expected = hashes(path, prompts, *weights)
    assert expected != hashes(path, prompts)
    for isa in [*rungs(RUNG_FLAGS), *tile_rungs()]:
        assert hashes(path, prompts, *weights, isa=isa) == expected, isa
    for flags in VARIANTS:
        assert hashes(path, prompts, *weights, *flags) == expected, flags
    some = prompts[:5]
    assert [hashes(path, [ids], *weights)[0] for ids in some] == expected[:5]
    stem = prompts[8]  # 64 ids
    family = [stem, stem + [5], stem + [5, 6, 7], stem[:40] + [9], stem, stem[:1]]
    assert [hashes(path, [ids], *weights)[0] for ids in family] == hashes(path, family, *weights)


@modes
def test_rows_of_other_lengths_stay_as_they_are(munia, mode, tmp_path):
    done = munia.lines("pack", "--json", "--weights", mode, "--model", MODELS / ODD, "-o",
                       tmp_path / "odd.munia", model=False)[0]
    assert done["weight_types"] == "F16" and done["weights"] == mode
    assert hashes(MODELS / ODD, [[1, 2, 3]], "--weights", mode) == hashes(MODELS / ODD, [[1, 2, 3]])


@modes
@tiny
def test_near_the_exact_logits(golden, model, mode, tmp_path):
    path, ids = MODELS / model, golden.json["prompts"][0]
    exact, _ = munia_process.all_logits(path, ids, tmp_path / "exact.npy")
    found, _ = munia_process.all_logits(path, ids, tmp_path / "found.npy", "--weights", mode)
    error = np.sqrt(np.mean((found - exact) ** 2) / np.mean(exact ** 2))
    print(f"{model} {mode}: relative error of the logits {error:.4f}")
    assert 1e-4 < error < {"int8": 0.06, "int4": 0.4}[mode]


@modes
def test_greedy_and_drawn_replies_alone_or_in_a_batch(munia, mode):
    requests = [{"text": text, "max_tokens": 12, **more}
                for text in ("我很", "The", "今天") for more in ({}, {"temperature": 0.8, "seed": 3})]
    flags = ("--weights", mode, "--jsonl")
    together = munia.lines("generate", *flags, stdin=json_lines(*requests))
    alone = [munia.lines("generate", *flags, stdin=json_lines(request))[0] for request in requests]
    assert [row["ids"] for row in together] == [row["ids"] for row in alone]


def logits_of(munia, model, *flags, **options):
    return munia.run("logits", "--jsonl", "--model", model, *flags, model=False, stdin=TEXTS,
                     **options).out


@modes
@pytest.mark.parametrize("source", [QWEN, QWEN_GGUF, MODELS / "llama-tied-q4_1.gguf"],
                         ids=lambda path: path.name)
def test_a_quantized_file_gives_the_same_bytes(munia, tmp_path, source, mode):
    expected = logits_of(munia, source, "--weights", mode)
    assert expected and expected != logits_of(munia, source)
    file = tmp_path / "m.munia"
    done = munia.lines("quantize", "--json", "--weights", mode, "--texts", "none", "--model", source,
                       "-o", file, model=False)[0]
    assert done["weights"] == mode and "INT" in done["weight_types"]
    for flags in ((), ("--load", "map"), ("--verify",), ("--weights", mode)):
        assert logits_of(munia, file, *flags) == expected, flags
    again = tmp_path / "again.munia"
    munia.lines("quantize", "--json", "--weights", mode, "--texts", "none", "--threads", "1", "--model",
                source, "-o", again, model=False)
    assert again.read_bytes() == file.read_bytes()
    # By way of a packed file of exact weights.
    exact = tmp_path / "exact.munia"
    munia.lines("pack", "--json", "--model", source, "-o", exact, model=False)
    for flags in ((), ("--load", "map")):
        assert logits_of(munia, exact, "--weights", mode, *flags) == expected
    munia.lines("pack", "--json", "--force", "--weights", mode, "--model", exact, "-o", again,
                model=False)
    assert again.read_bytes() == file.read_bytes()
    assert munia.lines("pack", "--json", "--force", "--model", file, "-o", again,
                       model=False)[0]["weights"] == mode
    assert again.read_bytes() == file.read_bytes()


@pytest.mark.parametrize("source", [QWEN, QWEN_GGUF, MODELS / "llama-tied-q4_1.gguf", MODELS / ODD],
                         ids=lambda path: path.name)
def test_int4_rounded_with_texts(munia, tmp_path, source):
    texts = tmp_path / "texts.txt"
    texts.write_text("今天真好\n\nnot so good\n", encoding="utf-8")
    files = [tmp_path / f"{i}.munia" for i in range(3)]
    for file, flags in zip(files, ((), ("--threads", "1"), ("--texts", texts))):
        done = munia.lines("quantize", "--json", "--weights", "int4", "--model", source, "-o", file,
                           *flags, model=False)[0]
        assert done["weights"] == "int4" and (done["texts"] == 2) == ("--texts" in flags)
        assert done["text_tokens"] > 10
    assert files[0].read_bytes() == files[1].read_bytes()
    found = [logits_of(munia, file) for file in files]
    assert logits_of(munia, files[0], "--load", "map") == found[0]
    for isa in rungs(RUNG_FLAGS):
        file = tmp_path / f"{isa}.munia"
        munia.lines("quantize", "--json", "--weights", "int4", "--model", source, "-o", file, model=False,
                    env={"MUNIA_ISA": isa})
        assert logits_of(munia, file) == found[0], isa
    by_itself = logits_of(munia, source, "--weights", "int4")
    if "q4_1" not in source.name and source.name != ODD:  # else the codes are those of the file already
        assert by_itself not in found and found[0] != found[2]


def test_texts_that_cannot_be_rounded_with(munia, tmp_path):
    def fails(status, *flags):
        return munia.fails(status, "quantize", "-o", tmp_path / "x.munia", *flags)
    empty = tmp_path / "empty.txt"
    empty.write_text("\n \n")
    assert "--texts" in fails(2, "--weights", "int8", "--texts", empty)
    assert "no text" in fails(4, "--weights", "int4", "--texts", empty)
    assert "nothing.txt" in fails(3, "--weights", "int4", "--texts", tmp_path / "nothing.txt")
    (tmp_path / "bad.txt").write_bytes(b"\xff\xfe\n")
    assert "UTF-8" in fails(4, "--weights", "int4", "--texts", tmp_path / "bad.txt")
    assert not list(tmp_path.glob("*.munia*"))


def test_what_cannot_be_is_refused(munia, tmp_path):
    file = tmp_path / "m.munia"
    assert munia.lines("quantize", "--json", "-o", file)[0]["weights"] == "int8"  # the default
    for other in ("exact", "int4"):
        error = munia.fails(3, "logits", "--model", file, "--weights", other, model=False, stdin="{}\n")
        assert "holds int8 weights" in error and other in error
    assert "munia pack" in munia.fails(2, "quantize", "--weights", "exact", "-o", tmp_path / "x.munia")
    assert "-o" in munia.fails(2, "quantize")
    assert "--force" in munia.fails(2, "quantize", "-o", file)
    assert "int3" in munia.fails(2, "logits", "--weights", "int3", stdin="{}\n")
    assert "MUNIA_WEIGHTS" in munia.fails(2, "logits", env={"MUNIA_WEIGHTS": "x"}, stdin="{}\n")


def test_a_file_of_unknown_weights_is_named(munia, tmp_path):
    file = tmp_path / "m.munia"
    munia.lines("pack", "--json", "-o", file)
    content = bytearray(file.read_bytes())
    size = struct.unpack_from("<Q", content, 16)[0]
    at = content.index(b"exact", 64, size)
    content[at:at + 5] = b"int99"
    content[32:64] = hashlib.sha256(content[:32] + content[64:size]).digest()
    file.write_bytes(content)
    error = munia.fails(3, "logits", "--model", file, model=False, stdin="{}\n")
    assert "int99" in error and "int8" in error


def test_the_environment_and_the_config_file_choose(munia, tmp_path):
    config = tmp_path / "config.toml"
    config.write_text('weights = "int4"\n')
    expected = logits_of(munia, QWEN, "--weights", "int4")
    assert logits_of(munia, QWEN, "--config", config) == expected
    assert logits_of(munia, QWEN, env={"MUNIA_WEIGHTS": "int4"}) == expected


def write_rows(path):
    path.write_text("label,review\n1,很好\n0,太差了\n1,不错，下次再来\n0,难吃\n", encoding="utf-8")


def test_eval_compares_forms_of_the_weights(munia, tmp_path):
    write_rows(tmp_path / "r.csv")
    (tmp_path / "t.txt").write_text("今天天气很好，我们去公园散步。" * 30, encoding="utf-8")
    rows = munia.lines("eval", tmp_path / "r.csv", "--json", "--compare", "exact,int8,int4",
                       "--perplexity", tmp_path / "t.txt", "--report", tmp_path / "r.html")
    runs = [row for row in rows if "run" in row]
    assert [row["run"].split()[-1] for row in runs] == ["exact", "int8", "int4"]
    assert all(row["perplexity"] > 1 for row in runs)
    comparisons = [row for row in rows if "different" in row]
    assert [row["second"].split()[-1] for row in comparisons] == ["int8", "int4"]
    for row in comparisons:
        assert row["divergence"] > 0 and 0 <= row["agreement"] <= 1
        assert row["agreement"] == 1 - row["different"] / 4
    assert comparisons[0]["divergence"] < comparisons[1]["divergence"]
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert page.count("int8") > 2 and page.count("int4") > 2
    same = munia.lines("eval", tmp_path / "r.csv", "--json", "--compare", "exact,exact")
    assert same[-1]["divergence"] == 0 and same[-1]["agreement"] == 1
    # One run alone has the perplexity too; it is what the logits say.
    alone = munia.lines("eval", tmp_path / "r.csv", "--json", "--perplexity", tmp_path / "t.txt")
    assert alone[0]["perplexity"] == runs[0]["perplexity"]


def test_eval_refuses_what_it_cannot_compare(munia, tmp_path):
    write_rows(tmp_path / "r.csv")
    assert "int2" in munia.fails(2, "eval", tmp_path / "r.csv", "--compare", "exact,int2")
    assert "--compare" in munia.fails(2, "eval", tmp_path / "r.csv", "--compare", "exact,int8",
                                      "--compare-model", QWEN_GGUF)
    (tmp_path / "bad.txt").write_bytes(b"\xff\xfe\xfa")
    assert "UTF-8" in munia.fails(4, "eval", tmp_path / "r.csv", "--perplexity", tmp_path / "bad.txt")
    (tmp_path / "short.txt").write_text("")
    assert "two tokens" in munia.fails(4, "eval", tmp_path / "r.csv", "--perplexity",
                                       tmp_path / "short.txt")
    assert "nothere" in munia.fails(4, "eval", tmp_path / "r.csv", "--perplexity",
                                    tmp_path / "nothere.txt")


@modes
@pytest.mark.parametrize("name", REAL_MODELS)
def test_peak_memory_is_weights_and_kv(munia, name, mode):
    path = os.environ.get(REAL_MODELS[name])
    if not path:
        pytest.skip(f"{REAL_MODELS[name]} is not set")
    rows = munia.lines("bench", "--json", "--model", path, "--weights", mode, "-p", "64", "-n", "8",
                       "-r", "1", model=False)
    summary = next(row for row in rows if row["test"] == "summary")
    weights = summary["weight_bytes"] + summary["head_copy_bytes"]
    print(f"{name} {mode}: peak {summary['peak_memory_bytes'] / weights:.3f} of weights and copy")
    assert "INT8" in summary["weights"]
    # The tokenizer and the scratch of 512 rows weigh more beside a small model.
    assert summary["peak_memory_bytes"] < 1.25 * weights + (64 << 20)


@pytest.mark.long
@pytest.mark.parametrize("mode, least", [("int8", 0.99), ("int4", 0.96)])
def test_labels_are_those_of_the_reference(munia, tmp_path, mode, least):
    """Prompt A on the three sets of reviews: the share of rows with the float32 reference's label."""
    name = "qwen2.5-coder-0.5b"
    model = munia_process.real_model(name)
    goldens = {reviews: munia_process.real_golden(name, reviews) for reviews in ("waimai", "shop", "hotel")}
    files = {reviews: munia_process.reviews_file(reviews) for reviews in goldens}
    file = tmp_path / "m.munia"
    munia.lines("quantize", "--json", "--weights", mode, "--model", model, "-o", file, model=False,
                timeout=1200)
    n_rows = n_equal = 0
    for reviews, golden in goldens.items():
        found = munia.lines("classify", "--json", "-i", files[reviews], "--column", "review",
                            "--prefix", "munia_", "--model", file, model=False, timeout=1200)
        expected = [golden["labels"][row[0]] for row in golden["rows"]]
        equal = sum(row["munia_label"] == label for row, label in zip(found, expected, strict=True))
        print(f"{reviews} {mode}: {equal} of {len(expected)} labels are the reference's")
        n_rows, n_equal = n_rows + len(expected), n_equal + equal
    print(f"{mode}: {n_equal / n_rows:.2%} of {n_rows} rows")
    assert n_equal >= least * n_rows
