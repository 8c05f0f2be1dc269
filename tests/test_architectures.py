"""Architectures at the program's edge: what is not computed is one sentence and exit status 3, a window
of attention ends the context, and a packed file keeps what a configuration scales. (The numbers are in
test_exactness.py, test_pack.py and test_weight_modes.py, which take every model of tests/models.)"""

import json
import shutil

import pytest

from munia_cli import MODELS, json_lines

TEXT = json_lines({"text": "Hello"})


def changed(tmp_path, name, **changes):
    """A copy of a model's directory with another config.json."""
    path = tmp_path / "model"
    shutil.copytree(MODELS / name, path)
    config = json.loads((path / "config.json").read_text(encoding="utf-8"))
    (path / "config.json").write_text(json.dumps(config | changes), encoding="utf-8")
    return path


def refused(munia, path, *flags):
    error = munia.fails(3, "logits", *flags, "--model", path, model=False, stdin=TEXT)
    assert error.count("\n") == 1, error
    return error


@pytest.mark.parametrize("changes, words", [
    ({"architectures": ["GemmaForCausalLM"]},
     ["GemmaForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM", "LlamaForCausalLM",
      "MistralForCausalLM"]),
    ({"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}, ["yarn", "linear", "llama3"]),
    ({"architectures": ["Qwen3ForCausalLM"], "head_dim": 16},
     ["model.layers.0.self_attn.q_norm.weight", "missing"]),
    ({"attention_bias": True}, ["model.layers.0.self_attn.q_proj.bias", "missing"]),
    ({"mlp_bias": True}, ["model.layers.0.mlp.gate_proj.bias", "missing"]),
], ids=["architecture", "rope", "norms", "attention", "mlp"])
def test_what_is_not_computed_is_named(munia, tmp_path, changes, words):
    error = refused(munia, changed(tmp_path, "llama-tied-bf16", **changes))
    for word in words:
        assert word in error, error


def test_an_end_token_that_the_model_does_not_have(munia, tmp_path):
    path = changed(tmp_path, "llama-tied-bf16", eos_token_id=[2, 999999])
    line = json.dumps({"text": "Hello", "max_tokens": 12, "regex": "[ab]{2,4}", "min_tokens": 1})
    row = munia.lines("generate", "--jsonl", "--model", path, model=False, stdin=line + "\n")[0]
    assert set(row["text"]) <= {"a", "b"} and row["finish_reason"] == "stop"


def test_an_unknown_gguf_is_named(munia, tmp_path):
    path = tmp_path / "m.gguf"
    content = (MODELS / "llama-tied-q4_1.gguf").read_bytes()
    path.write_bytes(content.replace(b"llama", b"gemma"))
    error = refused(munia, path)
    assert '"gemma"' in error and "qwen3" in error


def test_the_window_of_attention_ends_the_context(munia, tmp_path):
    mistral = MODELS / "mistral-untied-bf16"  # a window of 300, 1024 positions
    assert "1 to 300" in refused(munia, mistral, "--context", "301")
    assert munia.lines("logits", "--jsonl", "--context", "300", "--model", mistral, model=False,
                       stdin=TEXT)
    path = changed(tmp_path, "mistral-untied-bf16", sliding_window=None)
    assert munia.lines("logits", "--jsonl", "--context", "1024", "--model", path, model=False,
                       stdin=TEXT)


def test_positions_are_scaled_beyond_the_original_context(munia, tmp_path):
    """The same ids without the scaling give other logits, also within the original context."""
    scaled = MODELS / "llama3-rope-bf16"
    plain = changed(tmp_path, "llama3-rope-bf16", rope_scaling=None)
    for n in (40, 200):
        stdin = json_lines({"ids": list(range(5, 5 + n))})
        rows = [munia.lines("logits", "--jsonl", "--model", path, model=False, stdin=stdin)[0]
                for path in (scaled, plain)]
        assert rows[0]["hash"] != rows[1]["hash"]


def test_a_packed_file_keeps_scaled_frequencies(munia, tmp_path):
    """Without "rope_theta", so that a program that knows no scaling refuses the file."""
    path = tmp_path / "m.munia"
    for name, scaled in (("llama3-rope-bf16", True), ("llama-linear-biases.gguf", True),
                         ("llama-tied-bf16", False)):
        munia.lines("pack", "--json", "--force", "--model", MODELS / name, "-o", path, model=False)
        content = path.read_bytes()
        assert (b'"rope_inv_freq"' in content) == scaled
        assert (b'"rope_theta"' in content) != scaled
