"""Writes the seeded tiny models of tests/models: two layers each, for every architecture and file
format that munia reads. Running it again gives the same bytes.

    python tools/make_tiny_models.py [--out tests/models]

Weights are drawn so that the logits are lively (standard deviation near 3) and greedy text does not
repeat one token. Values come from numpy's frozen RandomState. GGUF names, metadata and the permuted
rows of the llama architecture are as llama.cpp's converter writes them.
"""

import argparse
import json
import shutil
from pathlib import Path

import gguf
import numpy as np

from tiny_tokenizers import CHAT_TEMPLATE, TinyTokenizer

VOCAB_SIZE = 400  # more rows than tokens, as in Qwen2
Q = gguf.GGMLQuantizationType


class Shape:
    """Sizes of a model; field names as in the C++ program."""

    def __init__(self, arch, hidden_dim, n_heads, n_kv_heads, ffn_dim, tied, rope_theta, rms_eps,
                 head_dim=None, rope_scaling=None, window=None, biases=False):
        self.arch, self.hidden_dim, self.n_heads, self.n_kv_heads = arch, hidden_dim, n_heads, n_kv_heads
        self.ffn_dim, self.tied, self.rope_theta, self.rms_eps = ffn_dim, tied, rope_theta, rms_eps
        self.n_layers, self.head_dim, self.context = 2, head_dim or hidden_dim // n_heads, 1024
        self.rope_scaling = rope_scaling  # Hugging Face's "rope_scaling"
        self.window = window  # positions of sliding attention
        self.biases = biases  # of attention and MLP, which the llama architecture leaves open


QWEN2_TIED = Shape("qwen2", 64, 4, 2, 96, True, 1000000.0, 1e-6)
QWEN2_UNTIED = Shape("qwen2", 32, 2, 1, 48, False, 10000.0, 1e-6)
QWEN2_K = Shape("qwen2", 256, 4, 1, 256, True, 1000000.0, 1e-6)  # K-quants: columns of 256
LLAMA_K = Shape("llama", 256, 4, 1, 256, True, 10000.0, 1e-5)
LLAMA_TIED = Shape("llama", 64, 4, 2, 96, True, 100000.0, 1e-5)
LLAMA_UNTIED = Shape("llama", 48, 3, 1, 80, False, 100000.0, 1e-5)
QWEN3_TIED = Shape("qwen3", 64, 4, 2, 96, True, 1000000.0, 1e-6, head_dim=32)
QWEN3_UNTIED = Shape("qwen3", 96, 2, 2, 80, False, 10000.0, 1e-6, head_dim=16)
# Frequencies that stay, are divided and lie between: short waves against 64 positions, long ones.
LLAMA3 = Shape("llama", 64, 2, 1, 96, True, 10000.0, 1e-5, rope_scaling={
    "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64})
LLAMA_LINEAR = Shape("llama", 64, 2, 2, 96, False, 10000.0, 1e-5, biases=True,
                     rope_scaling={"type": "linear", "factor": 2.5})
MISTRAL = Shape("mistral", 64, 4, 2, 96, False, 10000.0, 1e-5, head_dim=32, window=300)


def make_weights(shape, seed):
    """Hugging Face names → float32 arrays [n_rows, n_cols] or [n]."""
    rng = np.random.RandomState(seed)

    def normal(std, *dims):
        return (rng.standard_normal(dims) * std).astype(np.float32)

    hidden, ffn = shape.hidden_dim, shape.ffn_dim
    q_dim, kv_dim = shape.n_heads * shape.head_dim, shape.n_kv_heads * shape.head_dim
    weights = {"model.embed_tokens.weight": normal(2.2 / np.sqrt(hidden), VOCAB_SIZE, hidden)}
    for layer in range(shape.n_layers):
        p = f"model.layers.{layer}."
        for name, rows, cols, gain in [
            ("self_attn.q_proj", q_dim, hidden, 1.3),
            ("self_attn.k_proj", kv_dim, hidden, 1.3),
            ("self_attn.v_proj", kv_dim, hidden, 1.4),
            ("self_attn.o_proj", hidden, q_dim, 1.4),
            ("mlp.gate_proj", ffn, hidden, 1.5),
            ("mlp.up_proj", ffn, hidden, 1.5),
            ("mlp.down_proj", hidden, ffn, 1.3),
        ]:
            weights[p + name + ".weight"] = normal(gain / np.sqrt(cols), rows, cols)
            qkv = name in ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")
            if shape.biases or (shape.arch == "qwen2" and qkv):
                weights[p + name + ".bias"] = normal(0.3, rows)
        if shape.arch == "qwen3":
            for name in ("self_attn.q_norm", "self_attn.k_norm"):
                weights[p + name + ".weight"] = 1.2 + normal(0.2, shape.head_dim)
        for name in ("input_layernorm", "post_attention_layernorm"):
            weights[p + name + ".weight"] = 1 + normal(0.1, hidden)
    weights["model.norm.weight"] = 1.3 + normal(0.1, hidden)
    if not shape.tied:
        weights["lm_head.weight"] = normal(2.3 / np.sqrt(hidden), VOCAB_SIZE, hidden)
    return weights


def to_bf16_bits(x):
    """Round to nearest even; returns the upper halves as uint16 (inputs are finite)."""
    bits = np.ascontiguousarray(x, dtype=np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def round_to(x, kind):
    if kind == "BF16":
        return (to_bf16_bits(x).astype(np.uint32) << 16).view(np.float32)
    return x.astype(np.float16).astype(np.float32) if kind == "F16" else x


# ---- safetensors -------------------------------------------------------------------------------


def save_safetensors(path, weights, kind):
    """The format in full: header length as u64, JSON header padded to 8 bytes, the tensors' bytes.
    (Written by hand because numpy has no bfloat16.)"""
    encode = {
        "F32": lambda x: x.astype("<f4").tobytes(),
        "F16": lambda x: x.astype("<f2").tobytes(),
        "BF16": lambda x: to_bf16_bits(x).astype("<u2").tobytes(),
    }[kind]
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name in sorted(weights):
        encoded = encode(weights[name])
        header[name] = {"dtype": kind, "shape": list(weights[name].shape),
                        "data_offsets": [len(data), len(data) + len(encoded)]}
        data += encoded
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    Path(path).write_bytes(len(text).to_bytes(8, "little") + text + data)


def write_directory(out, shape, weights, kind, tokenizer, split_tokenizer=False, n_shards=1):
    if out.exists():
        shutil.rmtree(out)
    out.mkdir(parents=True)
    config = {
        "architectures": [shape.arch.capitalize() + "ForCausalLM"],
        "attention_dropout": 0.0,
        "bos_token_id": tokenizer.bos_id,
        "eos_token_id": tokenizer.eos_id,
        "hidden_act": "silu",
        "hidden_size": shape.hidden_dim,
        "initializer_range": 0.02,
        "intermediate_size": shape.ffn_dim,
        "max_position_embeddings": shape.context,
        "model_type": shape.arch,
        "num_attention_heads": shape.n_heads,
        "num_hidden_layers": shape.n_layers,
        "num_key_value_heads": shape.n_kv_heads,
        "rms_norm_eps": shape.rms_eps,
        "rope_theta": shape.rope_theta,
        "tie_word_embeddings": shape.tied,
        "torch_dtype": {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}[kind],
        "use_cache": True,
        "vocab_size": VOCAB_SIZE,
    }
    if shape.arch == "llama":
        config |= {"attention_bias": shape.biases, "mlp_bias": shape.biases,
                   "rope_scaling": shape.rope_scaling}
    elif shape.arch == "mistral":
        config |= {"sliding_window": shape.window}
    else:
        config |= {"use_sliding_window": False, "sliding_window": shape.context}
    if shape.arch == "qwen3":
        config |= {"attention_bias": False, "max_window_layers": shape.n_layers, "rope_scaling": None}
    if shape.head_dim != shape.hidden_dim // shape.n_heads:
        config |= {"head_dim": shape.head_dim}
    write_json(out / "config.json", config)
    write_json(out / "generation_config.json", {
        "bos_token_id": tokenizer.bos_id,
        "do_sample": True,
        "eos_token_id": [tokenizer.eos_id, tokenizer.bos_id],
        "pad_token_id": tokenizer.bos_id,
        "repetition_penalty": 1.1,
        "temperature": 0.7,
    })
    tokenizer.write(out, split_tokenizer)
    if n_shards == 1:
        save_safetensors(out / "model.safetensors", weights, kind)
        return
    # Shards by order of name, cut inside a layer, so that a layer's tensors lie in two files.
    names = sorted(weights)
    weight_map, total_bytes = {}, 0
    for shard in range(n_shards):
        file = f"model-{shard + 1:05d}-of-{n_shards:05d}.safetensors"
        part = names[shard * len(names) // n_shards : (shard + 1) * len(names) // n_shards]
        save_safetensors(out / file, {name: weights[name] for name in part}, kind)
        weight_map |= dict.fromkeys(part, file)
        total_bytes += sum(weights[name].size for name in part) * (4 if kind == "F32" else 2)
    write_json(out / "model.safetensors.index.json",
               {"metadata": {"total_size": total_bytes}, "weight_map": weight_map})


# ---- GGUF --------------------------------------------------------------------------------------


def random_k_blocks(qtype, rows, cols, std, rng):
    """Seeded valid K-quant blocks whose values are centred with about this standard deviation.
    (The gguf package can decode K-quants but not encode them.) Layouts: ggml's block_q4_K,
    block_q5_K, block_q6_K, block_q2_K, block_q3_K."""
    n = rows * cols // 256
    spread = std * (0.7 + 0.6 * rng.random_sample((n, 1)))
    codes = rng.randint(0, 256, (n, 192)).astype(np.uint8)  # random bits for the codes
    if qtype == Q.Q2_K:
        sc = rng.randint(4, 16, (n, 16))
        # d·sc·q − dmin·m is centred when dmin·m = 1.5·d·sc; dmin = 1.5·d.
        m = np.clip(sc + rng.randint(-1, 2, (n, 16)), 0, 15)
        d = (spread / (10 * 1.12)).astype("<f2")
        dmin = (d.astype(np.float32) * 1.5).astype("<f2")
        parts = [(sc | m << 4).astype(np.uint8), codes[:, :64], d.view(np.uint8), dmin.view(np.uint8)]
    elif qtype == Q.Q3_K:
        # 96 bytes of codes and 12 of scales, any bytes are valid; d·(sc − 32)·(q − 4).
        d = (spread / (18.5 * 2.35)).astype("<f2")
        parts = [codes[:, :108], d.view(np.uint8)]
    elif qtype == Q.Q6_K:
        scales = (rng.randint(40, 128, (n, 16)) * rng.choice([-1, 1], (n, 16))).astype(np.int8)
        d = (spread / (86 * 18.5)).astype("<f2")
        parts = [codes, scales.view(np.uint8), d.view(np.uint8)]
    else:
        levels = 16 if qtype == Q.Q4_K else 32
        sc = rng.randint(20, 64, (n, 8))
        # d·sc·q − dmin·m is centred when dmin·m = d·sc·(levels-1)/2; dmin = d·levels/2.
        m = np.clip(np.rint(sc * (levels - 1) / levels) + rng.randint(-2, 3, (n, 8)), 0, 63).astype(int)
        d = (spread / (43 * (4.6 if levels == 16 else 9.2))).astype("<f2")
        dmin = (d.astype(np.float32) * levels / 2).astype("<f2")
        packed = np.empty((n, 12), np.uint8)
        packed[:, 0:4] = (sc[:, :4] & 63) | ((sc[:, 4:] >> 4) << 6)
        packed[:, 4:8] = (m[:, :4] & 63) | ((m[:, 4:] >> 4) << 6)
        packed[:, 8:12] = (sc[:, 4:] & 15) | ((m[:, 4:] & 15) << 4)
        n_code_bytes = 128 if levels == 16 else 160
        parts = [d.view(np.uint8), dmin.view(np.uint8), packed, codes[:, :n_code_bytes]]
    return np.concatenate(parts, axis=1).reshape(rows, -1)


def permute_rows(x, n_heads):
    """The converter's order of Q and K rows for the llama architecture: the two halves of each head
    interleaved."""
    return x.reshape(n_heads, 2, x.shape[0] // n_heads // 2, *x.shape[1:]).swapaxes(1, 2).reshape(x.shape)


def llama3_factors(shape):
    """[head_dim/2] float32 that the frequencies are divided by, as llama.cpp's converter derives
    them from the four parameters."""
    s, factors = shape.rope_scaling, []
    original = s["original_max_position_embeddings"]
    for i in range(0, shape.head_dim, 2):
        wavelength = 2 * np.pi * shape.rope_theta ** (i / shape.head_dim)
        smooth = (original / wavelength - s["low_freq_factor"]) / (
            s["high_freq_factor"] - s["low_freq_factor"])
        smooth = min(max(smooth, 0.0), 1.0)
        factors.append(1 / ((1 - smooth) / s["factor"] + smooth))
    assert any(1 < f < s["factor"] for f in factors) and {1, s["factor"]} <= set(factors)
    return np.array(factors, np.float32)


GGUF_NAMES = {
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm", "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
}


def gguf_name(name):
    stem, suffix = name.rsplit(".", 1)
    top = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
    if stem in top:
        return f"{top[stem]}.{suffix}"
    _, _, layer, rest = stem.split(".", 3)
    return f"blk.{layer}.{GGUF_NAMES[rest]}.{suffix}"


def write_gguf(out, shape, weights, type_of, file_type, tokenizer, seed=0):
    """`type_of(gguf name)` → the type of a matrix; vectors are F32 always, as the converter does."""
    arch = "llama" if shape.arch == "mistral" else shape.arch
    writer = gguf.GGUFWriter(str(out), arch)
    writer.add_type("model")
    writer.add_name(f"Tiny {shape.arch} of the tests")
    writer.add_size_label("0.1M")
    writer.add_block_count(shape.n_layers)
    writer.add_context_length(shape.context)
    writer.add_embedding_length(shape.hidden_dim)
    writer.add_feed_forward_length(shape.ffn_dim)
    writer.add_head_count(shape.n_heads)
    writer.add_head_count_kv(shape.n_kv_heads)
    writer.add_rope_freq_base(shape.rope_theta)
    writer.add_layer_norm_rms_eps(shape.rms_eps)
    writer.add_file_type(file_type)
    if shape.head_dim != shape.hidden_dim // shape.n_heads:
        writer.add_key_length(shape.head_dim)
        writer.add_value_length(shape.head_dim)
    if shape.rope_scaling and shape.rope_scaling.get("type") == "linear":
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(shape.rope_scaling["factor"])
    if arch == "llama":
        writer.add_vocab_size(VOCAB_SIZE)
        writer.add_rope_dimension_count(shape.head_dim)
        writer.add_add_space_prefix(False)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2" if tokenizer.name == "qwen2" else "smollm")
    tokens, types, merges = tokenizer.gguf_lists(VOCAB_SIZE)
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    writer.add_token_merges(merges)
    writer.add_eos_token_id(tokenizer.eos_id)
    writer.add_pad_token_id(tokenizer.bos_id)
    if tokenizer.name == "qwen2":  # real Qwen2 files name a BOS that is never added
        writer.add_bos_token_id(tokenizer.bos_id)
        writer.add_add_bos_token(False)
    writer.add_chat_template(CHAT_TEMPLATE)
    writer.add_quantization_version(2)
    rng = np.random.RandomState(seed)
    if shape.rope_scaling and shape.rope_scaling.get("rope_type") == "llama3":
        writer.add_tensor("rope_freqs.weight", llama3_factors(shape))
    for name, x in weights.items():
        target = gguf_name(name)
        if arch == "llama" and (".attn_q." in target or ".attn_k." in target):
            x = permute_rows(x, shape.n_heads if ".attn_q." in target else shape.n_kv_heads)
        qtype = type_of(target) if x.ndim == 2 else Q.F32
        if qtype in (Q.Q2_K, Q.Q3_K, Q.Q4_K, Q.Q5_K, Q.Q6_K):
            data = random_k_blocks(qtype, *x.shape, x.std(), rng)
        else:
            data = gguf.quantize(np.ascontiguousarray(x), qtype)
        writer.add_tensor(target, data, raw_dtype=qtype)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def k_mix(name):
    """Each K type on each kind of matrix in one of the layers, as far as three types in two layers
    can; one Q5_0 and one Q8_0 tensor beside them, as in real Q4_K_M files."""
    if name == "token_embd.weight":
        return Q.Q6_K
    kinds = ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"]
    _, layer, kind, _ = name.split(".")
    if layer == "1" and kind in ("attn_k", "attn_v"):
        return Q.Q5_0 if kind == "attn_k" else Q.Q8_0
    return [Q.Q4_K, Q.Q5_K, Q.Q6_K][(kinds.index(kind) + int(layer)) % 3]


def small_k_mix(name):
    """As in real Q2_K files: Q2_K and Q3_K, each on each kind of matrix in one of the layers, the
    embedding in Q6_K."""
    if name == "token_embd.weight":
        return Q.Q6_K
    kinds = ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"]
    _, layer, kind, _ = name.split(".")
    return [Q.Q2_K, Q.Q3_K][(kinds.index(kind) + int(layer)) % 2]


def write_json(path, value):
    path.write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path(__file__).parent.parent / "tests" / "models")
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    qwen2, smollm = TinyTokenizer("qwen2"), TinyTokenizer("smollm")

    def rounded(shape, seed, kind):
        return {name: round_to(x, kind) for name, x in make_weights(shape, seed).items()}

    qwen2_tied = rounded(QWEN2_TIED, 11, "BF16")
    qwen2_untied = make_weights(QWEN2_UNTIED, 12)
    llama_tied = rounded(LLAMA_TIED, 13, "BF16")
    llama_untied = rounded(LLAMA_UNTIED, 14, "F16")
    write_directory(out / "qwen2-tied-bf16", QWEN2_TIED, qwen2_tied, "BF16", qwen2)
    write_directory(out / "qwen2-untied-f32", QWEN2_UNTIED, qwen2_untied, "F32", qwen2,
                    split_tokenizer=True)
    write_directory(out / "llama-tied-bf16", LLAMA_TIED, llama_tied, "BF16", smollm)
    write_directory(out / "llama-untied-f16-sharded", LLAMA_UNTIED, llama_untied, "F16", smollm,
                    n_shards=3)

    # The same weights as the directories above: the logits must be the same bytes.
    write_gguf(out / "qwen2-tied-bf16.gguf", QWEN2_TIED, qwen2_tied, lambda _: Q.BF16, 32, qwen2)
    write_gguf(out / "qwen2-untied-f32.gguf", QWEN2_UNTIED, qwen2_untied, lambda _: Q.F32, 0, qwen2)
    write_gguf(out / "llama-untied-f16.gguf", LLAMA_UNTIED, llama_untied, lambda _: Q.F16, 1, smollm)

    qwen3_tied = rounded(QWEN3_TIED, 17, "BF16")
    qwen3_untied = rounded(QWEN3_UNTIED, 18, "F16")
    llama3, linear = rounded(LLAMA3, 19, "BF16"), rounded(LLAMA_LINEAR, 20, "BF16")
    mistral = rounded(MISTRAL, 21, "BF16")
    write_directory(out / "qwen3-tied-bf16", QWEN3_TIED, qwen3_tied, "BF16", qwen2)
    write_gguf(out / "qwen3-tied-bf16.gguf", QWEN3_TIED, qwen3_tied, lambda _: Q.BF16, 32, qwen2)
    write_gguf(out / "qwen3-untied-f16.gguf", QWEN3_UNTIED, qwen3_untied, lambda _: Q.F16, 1, qwen2)
    write_directory(out / "llama3-rope-bf16", LLAMA3, llama3, "BF16", smollm)
    write_gguf(out / "llama3-rope-bf16.gguf", LLAMA3, llama3, lambda _: Q.BF16, 32, smollm)
    write_directory(out / "llama-linear-biases", LLAMA_LINEAR, linear, "BF16", smollm)
    write_gguf(out / "llama-linear-biases.gguf", LLAMA_LINEAR, linear, lambda _: Q.BF16, 32, smollm)
    write_directory(out / "mistral-untied-bf16", MISTRAL, mistral, "BF16", smollm)
    write_gguf(out / "mistral-untied-bf16.gguf", MISTRAL, mistral, lambda _: Q.BF16, 32, smollm)

    for qtype, file_type in [(Q.Q4_0, 2), (Q.Q4_1, 3), (Q.Q5_0, 8), (Q.Q5_1, 9), (Q.Q8_0, 7)]:
        write_gguf(out / f"qwen2-tied-{qtype.name.lower()}.gguf", QWEN2_TIED, qwen2_tied,
                   lambda _, qtype=qtype: qtype, file_type, qwen2)
    # SmolLM2's file: Q4_1 with the embedding in Q8_0.
    write_gguf(out / "llama-tied-q4_1.gguf", LLAMA_TIED, llama_tied,
               lambda name: Q.Q8_0 if name == "token_embd.weight" else Q.Q4_1, 3, smollm)
    write_gguf(out / "qwen2-tied-k-mix.gguf", QWEN2_K, make_weights(QWEN2_K, 15), k_mix, 15, qwen2,
               seed=16)
    write_gguf(out / "llama-tied-small-k.gguf", LLAMA_K, make_weights(LLAMA_K, 22), small_k_mix, 10,
               smollm, seed=23)

    sizes = {str(p.relative_to(out)): p.stat().st_size for p in sorted(out.rglob("*")) if p.is_file()}
    for name, size in sizes.items():
        print(f"{size:9,d}  {name}")
    print(f"{sum(sizes.values()):9,d}  in all")


if __name__ == "__main__":
    main()
