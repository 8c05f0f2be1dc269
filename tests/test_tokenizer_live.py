"""Compares `munia tokenize` with Hugging Face tokenizers built from the same GGUF, id by id: every
Unicode code point, the review files of ../shared/data, and 200,000 generated nasty strings.

  MUNIA_BIN                  the program (default build/munia)
  MUNIA_TEST_QWEN_GGUF       a Qwen2 family GGUF
  MUNIA_TEST_SMOLLM2_GGUF    a SmolLM2 GGUF
"""

import csv
import json
import os
import pathlib
import subprocess
import sys

import pytest

tokenizers = pytest.importorskip("tokenizers", reason="the reference, tokenizers, is not installed")
gguf = pytest.importorskip("gguf", reason="the gguf package is not installed")

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from nasty_text import look_alikes, nasty_strings

ROOT = pathlib.Path(__file__).resolve().parent.parent
MUNIA = os.environ.get("MUNIA_BIN", str(ROOT / "build/munia"))
QWEN2_REGEX = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
N_STRINGS = 200_000
CONTROL, USER_DEFINED, UNUSED = 3, 4, 5


def read_list(reader, key):
    return reader.fields[key].contents()


def reference(path, family):
    """The original tokenizer: the GGUF's tokens and merges in the pipeline of the model's family."""
    reader = gguf.GGUFReader(path)
    tokens = read_list(reader, "tokenizer.ggml.tokens")
    types = read_list(reader, "tokenizer.ggml.token_type")
    merges = [tuple(m.split(" ")) for m in read_list(reader, "tokenizer.ggml.merges")]
    # The fillers up to the embedding's size are no tokens of the original. In Qwen's original the
    # added tokens come after the vocabulary, in SmolLM2's they stand in it.
    vocab = {
        token: i
        for i, token in enumerate(tokens)
        if types[i] != UNUSED and (family == "smollm2" or types[i] not in (CONTROL, USER_DEFINED))
    }
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=merges))
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=family == "smollm2")
    if family == "qwen2":
        tokenizer.normalizer = normalizers.NFC()
        first = pre_tokenizers.Split(Regex(QWEN2_REGEX), "isolated")
    else:
        first = pre_tokenizers.Digits(individual_digits=True)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([first, byte_level])
    tokenizer.decoder = decoders.ByteLevel()
    added = [i for i, kind in enumerate(types) if kind in (CONTROL, USER_DEFINED)]
    tokenizer.add_tokens(
        [AddedToken(tokens[i], special=types[i] == CONTROL, normalized=False) for i in added]
    )
    assert all(tokenizer.token_to_id(tokens[i]) == i for i in added)
    return tokenizer


class Pair:
    """The reference and munia over the same GGUF."""

    def __init__(self, path, family):
        self.path = path
        self.reference = reference(path, family)

    def differences(self, texts, special):
        args = [MUNIA, "tokenize", "--model", self.path, "--jsonl"] + ["--special"] * special
        lines = "".join(json.dumps({"text": text}) + "\n" for text in texts)
        done = subprocess.run(args, input=lines, capture_output=True, text=True, check=True)
        ours = [json.loads(line) for line in done.stdout.splitlines()]
        assert len(ours) == len(texts)
        self.reference.encode_special_tokens = not special
        theirs = self.reference.encode_batch_fast(texts, add_special_tokens=False)
        wrong = [i for i in range(len(texts)) if ours[i] != theirs[i].ids]
        for i in wrong[:5]:
            print(f"{texts[i]!r}\n  munia     {ours[i]}\n  reference {theirs[i].ids}")
        print(f"{len(texts)} texts, special={special}: {len(wrong)} differ")
        return len(wrong)


@pytest.fixture(
    scope="module",
    params=[("qwen2", "MUNIA_TEST_QWEN_GGUF"), ("smollm2", "MUNIA_TEST_SMOLLM2_GGUF")],
    ids=["qwen2", "smollm2"],
)
def pair(request):
    family, variable = request.param
    path = os.environ.get(variable)
    if not path:
        pytest.skip(f"{variable} is not set: no {family} GGUF to compare with")
    if not pathlib.Path(MUNIA).exists():
        pytest.skip(f"{MUNIA} does not exist: build it or set MUNIA_BIN")
    return Pair(path, family)


def every_code_point():
    for c in range(0x110000):
        if not 0xD800 <= c < 0xE000:
            yield chr(c)


def test_every_code_point_alone(pair):
    texts = list(every_code_point())
    assert len(texts) == 1_112_064
    assert pair.differences(texts, special=False) == 0


def test_every_code_point_in_context(pair):
    """Between letters, after a digit, before a mark, as a contraction; 64 to a text."""
    pattern = "a{}b '{}1{}\u0301"
    each = [pattern.replace("{}", c) for c in every_code_point()]
    texts = ["\n".join(each[i : i + 64]) for i in range(0, len(each), 64)]
    assert pair.differences(texts, special=False) == 0


def test_reviews(pair):
    files = sorted((ROOT.parent / "shared/data").glob("*.csv"))
    if not files:
        pytest.skip("../shared/data has no reviews")
    texts = []
    for file in files:
        with open(file, encoding="utf-8", newline="") as rows:
            texts += [cell for row in csv.reader(rows) for cell in row]
    assert len(texts) > 1000
    assert pair.differences(texts, special=False) == 0
    assert pair.differences(texts, special=True) == 0


@pytest.mark.parametrize("special", [False, True], ids=["plain", "special"])
def test_nasty_strings(pair, special):
    specials = look_alikes(pair.reference)
    texts = list(nasty_strings(20261130 + special, N_STRINGS, specials))
    assert pair.differences(texts, special) == 0
