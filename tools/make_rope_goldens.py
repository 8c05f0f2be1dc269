"""Writes tests/goldens/rope/inv_freq.json: the inverse frequencies that transformers computes for rope
parameters of models in use, and of some made to meet every branch.

    python tools/make_rope_goldens.py
"""

import json
from pathlib import Path

import torch
import transformers
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding


def llama3(factor, original, low=1.0, high=4.0):
    return {"rope_type": "llama3", "factor": factor, "low_freq_factor": low,
            "high_freq_factor": high, "original_max_position_embeddings": original}


CASES = [  # (head_dim, rope_theta, the other parameters)
    (64, 10000.0, {"rope_type": "default"}),
    (64, 1000000.0, {"rope_type": "default"}),
    (128, 1000000.0, {"rope_type": "default"}),  # Qwen3
    (64, 500000.0, llama3(32.0, 8192)),  # the smallest Llama 3.2
    (128, 500000.0, llama3(8.0, 8192)),  # Llama 3.1
    (32, 10000.0, llama3(8.0, 64)),
    (80, 10000.0, llama3(3.7, 300, 0.9, 2.5)),
    (128, 10000.0, {"rope_type": "linear", "factor": 4.0}),
    (64, 10000.0, {"rope_type": "linear", "factor": 2.7}),
]


def main():
    rows = []
    for head_dim, theta, parameters in CASES:
        config = LlamaConfig(hidden_size=2 * head_dim, num_attention_heads=2, head_dim=head_dim,
                             max_position_embeddings=131072,
                             rope_parameters={**parameters, "rope_theta": theta})
        inv_freq = LlamaRotaryEmbedding(config).inv_freq
        rows.append({"head_dim": head_dim, "rope_theta": theta, **parameters,
                     "inv_freq": inv_freq.to(torch.float64).tolist()})
    directory = Path(__file__).parent.parent / "tests" / "goldens" / "rope"
    directory.mkdir(parents=True, exist_ok=True)
    lines = ",\n ".join(json.dumps(row) for row in rows)
    (directory / "inv_freq.json").write_text(f"[{lines}]\n", encoding="utf-8")
    (directory / "SOURCE.md").write_text(
        "# tests/goldens/rope\n\nInverse frequencies of rotary positions, as transformers "
        f"{transformers.__version__} on torch {torch.__version__.split('+')[0]}\ncomputes them in "
        "float32 (written exactly): made by `tools/make_rope_goldens.py`.\n", encoding="utf-8")


if __name__ == "__main__":
    main()
