"""Reads a model (Hugging Face directory or GGUF) into plain numpy: a configuration with munia's
field names and a dict of float32 weights with Hugging Face's tensor names.

Only for making and checking goldens. GGUF blocks are decoded by the gguf package, which forms
fl32(d·sc·q − dmin·m) as docs of the formats say; the llama architecture's permuted Q and K rows are
put back; a model without output weights is tied.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

GGUF_TO_HF = {
    "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj", "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm", "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
}
GGUF_TOP_TO_HF = {
    "token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head",
}


@dataclass
class Config:
    arch: str  # "qwen2", "qwen3", "llama" or "mistral"
    n_layers: int
    hidden_dim: int
    n_heads: int
    n_kv_heads: int
    head_dim: int
    ffn_dim: int
    vocab_size: int
    context: int
    rope_theta: float
    rms_eps: float
    tied: bool
    # Hugging Face's rope_parameters beside the base; of a GGUF with factors {"factors": [...]}.
    rope_scaling: dict = field(default_factory=lambda: {"rope_type": "default"})
    window: int | None = None  # positions of sliding attention


def load_model(path):
    """(Config, {Hugging Face tensor name: float32 array}) of a directory or a .gguf file."""
    path = Path(path)
    return _load_directory(path) if path.is_dir() else _load_gguf(path)


def _load_directory(path):
    raw = json.loads((path / "config.json").read_text(encoding="utf-8"))
    index = path / "model.safetensors.index.json"
    if index.exists():
        files = sorted(set(json.loads(index.read_text())["weight_map"].values()))
    else:
        files = ["model.safetensors"]
    weights = {}
    for file in files:
        weights |= _read_safetensors(path / file)
    n_heads = raw["num_attention_heads"]
    return Config(
        arch=raw["model_type"],
        n_layers=raw["num_hidden_layers"],
        hidden_dim=raw["hidden_size"],
        n_heads=n_heads,
        n_kv_heads=raw.get("num_key_value_heads", n_heads),
        head_dim=raw.get("head_dim") or raw["hidden_size"] // n_heads,
        ffn_dim=raw["intermediate_size"],
        vocab_size=raw["vocab_size"],
        context=raw["max_position_embeddings"],
        rope_theta=float(raw["rope_theta"]),
        rms_eps=float(raw["rms_norm_eps"]),
        tied=bool(raw["tie_word_embeddings"]),
        rope_scaling=_rope_scaling(raw.get("rope_scaling")),
        window=raw.get("sliding_window") if raw["model_type"] == "mistral" else None,
    ), weights


def _rope_scaling(raw):
    """With the type under its new name."""
    raw = dict(raw or {"rope_type": "default"})
    return {"rope_type": raw.pop("rope_type", raw.pop("type", None)), **raw}


def _read_safetensors(path):
    data = path.read_bytes()
    n_header_bytes = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + n_header_bytes])
    weights = {}
    for name, info in header.items():
        if name == "__metadata__":
            continue
        begin, end = (8 + n_header_bytes + offset for offset in info["data_offsets"])
        if info["dtype"] == "BF16":
            x = (np.frombuffer(data[begin:end], "<u2").astype(np.uint32) << 16).view(np.float32)
        else:
            x = np.frombuffer(data[begin:end], {"F32": "<f4", "F16": "<f2"}[info["dtype"]])
        weights[name] = x.astype(np.float32).reshape(info["shape"])
    return weights


def _load_gguf(path):
    import gguf

    reader = gguf.GGUFReader(str(path))
    arch = reader.get_field("general.architecture").contents()

    def field(key, fallback=None):
        found = reader.get_field(f"{arch}.{key}")
        return fallback if found is None else found.contents()

    names = {tensor.name for tensor in reader.tensors}
    n_heads, hidden_dim = field("attention.head_count"), field("embedding_length")
    config = Config(
        arch=arch,
        n_layers=field("block_count"),
        hidden_dim=hidden_dim,
        n_heads=n_heads,
        n_kv_heads=field("attention.head_count_kv", n_heads),
        head_dim=field("attention.key_length", hidden_dim // n_heads),
        ffn_dim=field("feed_forward_length"),
        vocab_size=len(reader.get_field("tokenizer.ggml.tokens").data),
        context=field("context_length"),
        rope_theta=float(field("rope.freq_base")),
        rms_eps=float(field("attention.layer_norm_rms_epsilon")),
        tied="output.weight" not in names,
    )
    if field("rope.scaling.type") == "linear":
        config.rope_scaling = {"rope_type": "linear", "factor": field("rope.scaling.factor")}
    weights = {}
    for tensor in reader.tensors:
        if tensor.name == "rope_freqs.weight":
            config.rope_scaling = {"factors": tensor.data.tolist()}
            continue
        x = np.ascontiguousarray(gguf.dequantize(tensor.data, tensor.tensor_type), dtype=np.float32)
        stem, suffix = tensor.name.rsplit(".", 1)
        if stem in GGUF_TOP_TO_HF:
            weights[f"{GGUF_TOP_TO_HF[stem]}.{suffix}"] = x
            continue
        _, layer, kind = stem.split(".")
        if arch == "llama" and kind in ("attn_q", "attn_k"):
            x = _unpermute(x, n_heads if kind == "attn_q" else config.n_kv_heads)
        weights[f"model.layers.{layer}.{GGUF_TO_HF[kind]}.{suffix}"] = x
    return config, weights


def _unpermute(x, n_heads):
    """Interleaved halves of each head, as llama.cpp's converter wrote them, back to halves."""
    half = x.shape[0] // n_heads // 2
    return np.ascontiguousarray(
        x.reshape(n_heads, half, 2, *x.shape[1:]).swapaxes(1, 2).reshape(x.shape)
    )


def gguf_tokenizer(path):
    """The tokenizer of a GGUF file as a Hugging Face `tokenizers` object, built from its own lists:
    Qwen2's pipeline (with NFC) or SmolLM2's, by tokenizer.ggml.pre. Special tokens are parsed."""
    import gguf
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

    from tiny_tokenizers import QWEN2_PATTERN

    reader = gguf.GGUFReader(str(path))
    tokens = reader.get_field("tokenizer.ggml.tokens").contents()
    types = reader.get_field("tokenizer.ggml.token_type").contents()
    merges = [tuple(m.split(" ")) for m in reader.get_field("tokenizer.ggml.merges").contents()]
    pre = reader.get_field("tokenizer.ggml.pre").contents()
    tokenizer = Tokenizer(models.BPE({t: i for i, t in enumerate(tokens)}, merges))
    if pre == "qwen2":
        tokenizer.normalizer = normalizers.NFC()
        split = pre_tokenizers.Split(Regex(QWEN2_PATTERN), behavior="isolated", invert=False)
        byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    elif pre == "smollm":
        split = pre_tokenizers.Digits(individual_digits=True)
        byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    else:
        raise ValueError(f"tokenizer.ggml.pre is {pre!r}; qwen2 and smollm are known")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, byte_level])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False)
                                  for t, k in zip(tokens, types, strict=True) if k == 3])
    tokenizer.add_tokens([AddedToken(t, special=False, normalized=False)
                          for t, k in zip(tokens, types, strict=True) if k == 4])
    return tokenizer


def gguf_chat_template(path):
    import gguf

    return gguf.GGUFReader(str(path)).get_field("tokenizer.chat_template").contents()
