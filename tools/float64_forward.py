"""The yardstick: a plain float64 forward pass of the qwen2, qwen3, llama and mistral architectures in
numpy. Attention is full: prompts must not be longer than a model's window.

It shares nothing with the C++ program but the weights' values. RoPE angles are formed as the
reference forms them, float32 position × float32 inverse frequency, and only then taken to float64:
an angle of float64 would be another model. Several prompts go through a layer together, so that a
layer's weights are widened once, and beginnings that prompts share are computed once.

    python tools/float64_forward.py MODEL 1 2 3      # argmax and best logits after these ids
"""

import sys

import numpy as np

from reference_weights import load_model


def inverse_frequencies(config):
    """[head_dim/2] float32, as torch computes them: the power and the quotient in float32. Scaled
    ones are transformers' own; a GGUF's factors divide them, in float32 as in ggml."""
    import torch
    from transformers import LlamaConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    exponents = torch.arange(0, config.head_dim, 2, dtype=torch.float) / config.head_dim
    plain = 1.0 / (config.rope_theta ** exponents)
    scaling = config.rope_scaling
    if "factors" in scaling:
        return (plain / torch.tensor(scaling["factors"], dtype=torch.float)).numpy()
    if scaling["rope_type"] == "default":
        return plain.numpy()
    of_rope = LlamaConfig(hidden_size=config.hidden_dim, num_attention_heads=config.n_heads,
                          head_dim=config.head_dim, max_position_embeddings=config.context,
                          rope_parameters={**scaling, "rope_theta": config.rope_theta})
    scaled, attention_factor = ROPE_INIT_FUNCTIONS[scaling["rope_type"]](of_rope)
    assert attention_factor == 1
    return scaled.numpy()


def rms_norm(x, weight, eps):
    """x [n_tokens, dim]; eps as float32 holds it."""
    scale = 1 / np.sqrt((x * x).mean(axis=-1, keepdims=True) + np.float64(np.float32(eps)))
    return x * scale * weight


def rope(x, inv_freq):
    """x [n_tokens, n_heads, head_dim] of one sequence from position 0; halves rotated."""
    angle = (np.arange(len(x), dtype=np.float32)[:, None] * inv_freq).astype(np.float64)
    cos, sin = np.cos(angle)[:, None, :], np.sin(angle)[:, None, :]
    first, second = np.split(x, 2, axis=-1)
    return np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)


def attention(q, k, v):
    """Causal; q [n_tokens, n_heads, head_dim], k and v [n_tokens, n_kv_heads, head_dim]."""
    n_tokens, n_heads, head_dim = q.shape
    out = np.empty_like(q)
    causal = np.tril(np.ones((n_tokens, n_tokens), bool))
    for h in range(n_heads):
        kv = h // (n_heads // k.shape[1])
        scores = np.where(causal, q[:, h] @ k[:, kv].T / np.sqrt(head_dim), -np.inf)
        p = np.exp(scores - scores.max(axis=-1, keepdims=True))
        out[:, h] = (p / p.sum(axis=-1, keepdims=True)) @ v[:, kv]
    return out.reshape(n_tokens, n_heads * head_dim)


def unique_rows(prompts):
    """(ids of the rows to compute, per prompt the row of each position): positions whose beginnings
    are equal share a row."""
    known, ids, rows = {}, [], []
    for prompt in prompts:
        row, path = -1, []
        for token in prompt:
            row = known.setdefault((row, token), len(ids))
            if row == len(ids):
                ids.append(token)
            path.append(row)
        rows.append(np.array(path))
    return ids, rows


def forward(config, weights, prompts, n_last=None, keep_hidden=True):
    """Per prompt of `prompts` (lists of ids): logits [n_tokens, vocab_size], of the last `n_last`
    positions only where that is given; and the hidden states [n_layers + 2][n_tokens, hidden_dim]:
    the embedding, the residual stream after each layer, and the output of the last norm. All
    float64."""

    def w(name):
        return weights[name].astype(np.float64)

    assert config.window is None or max(map(len, prompts)) <= config.window
    inv_freq = inverse_frequencies(config)
    ids, rows = unique_rows(prompts)
    x = weights["model.embed_tokens.weight"][ids].astype(np.float64)
    hidden = [x.copy()] if keep_hidden else []
    for layer in range(config.n_layers):
        p = f"model.layers.{layer}."

        def linear(x, name, p=p):
            y = x @ w(p + name + ".weight").T
            return y + w(p + name + ".bias") if p + name + ".bias" in weights else y

        a = rms_norm(x, w(p + "input_layernorm.weight"), config.rms_eps)
        q = linear(a, "self_attn.q_proj").reshape(len(x), config.n_heads, -1)
        k = linear(a, "self_attn.k_proj").reshape(len(x), config.n_kv_heads, -1)
        v = linear(a, "self_attn.v_proj").reshape(len(x), config.n_kv_heads, -1)
        if p + "self_attn.q_norm.weight" in weights:  # each head by itself
            q = rms_norm(q, w(p + "self_attn.q_norm.weight"), config.rms_eps)
            k = rms_norm(k, w(p + "self_attn.k_norm.weight"), config.rms_eps)
        mixed = np.empty((len(x), config.n_heads * config.head_dim))
        for r in rows:
            mixed[r] = attention(rope(q[r], inv_freq), rope(k[r], inv_freq), v[r])
        x = x + linear(mixed, "self_attn.o_proj")
        a = rms_norm(x, w(p + "post_attention_layernorm.weight"), config.rms_eps)
        gate = linear(a, "mlp.gate_proj")
        x = x + linear(gate / (1 + np.exp(-gate)) * linear(a, "mlp.up_proj"), "mlp.down_proj")
        if keep_hidden:
            hidden.append(x.copy())
    x = rms_norm(x, w("model.norm.weight"), config.rms_eps)
    if keep_hidden:
        hidden.append(x)
    head = w("model.embed_tokens.weight" if config.tied else "lm_head.weight")
    logits = [x[r[-(n_last or len(r)) :]] @ head.T for r in rows]
    return logits, [[layer[r] for layer in hidden] for r in rows]


def main():
    config, weights = load_model(sys.argv[1])
    (logits,), _ = forward(config, weights, [[int(i) for i in sys.argv[2:]]], n_last=1)
    for i in np.argsort(-logits[0], kind="stable")[:10]:
        print(f"{i:7d} {logits[0, i]:.9f}")


if __name__ == "__main__":
    main()
