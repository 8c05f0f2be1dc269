"""Writes tests/goldens/tiny: what transformers float32 and the float64 forward make of the tiny
models of tests/models.

    python tools/make_tiny_goldens.py            # a few seconds

Per set of weights a golden.json and a golden.bin. The .bin holds little-endian arrays one after the
other (8-byte aligned), the .json says {"dtype": "f32"|"f64", "shape", "offset"} of each. So a C++
test needs no numpy. Models that hold the same weights share one golden ("models" lists them).
"""

import argparse
import json
from pathlib import Path

import numpy as np
import torch

import reference_torch as ref
from float64_forward import forward, inverse_frequencies
from reference_weights import load_model
from tiny_tokenizers import CHAT_TEMPLATE, SPECIAL_TOKENS, TinyTokenizer

MODELS = [  # each row: models with the same weights
    ["qwen2-tied-bf16", "qwen2-tied-bf16.gguf"],
    ["qwen2-untied-f32", "qwen2-untied-f32.gguf"],
    ["llama-tied-bf16"],
    ["llama-untied-f16-sharded", "llama-untied-f16.gguf"],
    ["qwen2-tied-q4_0.gguf"],
    ["qwen2-tied-q4_1.gguf"],
    ["qwen2-tied-q5_0.gguf"],
    ["qwen2-tied-q5_1.gguf"],
    ["qwen2-tied-q8_0.gguf"],
    ["qwen2-tied-k-mix.gguf"],
    ["llama-tied-q4_1.gguf"],
    ["qwen3-tied-bf16", "qwen3-tied-bf16.gguf"],
    ["qwen3-untied-f16.gguf"],
    ["llama3-rope-bf16"],  # the GGUF's factors are rounded: other frequencies in the last bits
    ["llama3-rope-bf16.gguf"],
    ["llama-linear-biases", "llama-linear-biases.gguf"],
    ["mistral-untied-bf16", "mistral-untied-bf16.gguf"],
    ["llama-tied-small-k.gguf"],
]
PROMPT_LENGTHS = [17, 1, 2, 3, 7, 8, 31, 33, 64, 100, 257]  # the first gives all positions too
N_GREEDY = 40
CHATS = [
    ("今天的实验终于成功了，太棒了！", ["正面", "负面"]),
    ("质量太差了，我很失望。", ["正面", "负面", "一般"]),
    ("The tea is warm and the bird sings.", ["good", "bad", "I don't know"]),
]


class Blob:
    """Arrays for the .bin and their index for the .json."""

    def __init__(self):
        self.data, self.index = bytearray(), {}

    def add(self, name, x):
        x = np.ascontiguousarray(x)
        dtype = {np.float32: "f32", np.float64: "f64"}[x.dtype.type]
        self.data += b"\0" * (-len(self.data) % 8)
        self.index[name] = {"dtype": dtype, "shape": list(x.shape), "offset": len(self.data)}
        self.data += x.astype(x.dtype.newbyteorder("<")).tobytes()


def prompts_of(seed, n_tokens):
    """Seeded ids over the whole vocabulary, special tokens too (they are ids like any other)."""
    rng = np.random.RandomState(seed)
    return [rng.randint(0, n_tokens, n).tolist() for n in PROMPT_LENGTHS]


def make_golden(models_dir, names, seed):
    config, weights = load_model(models_dir / names[0])
    for other in names[1:]:
        _, same = load_model(models_dir / other)
        assert weights.keys() == same.keys() and all((weights[n] == same[n]).all() for n in weights)
    tokenizer = TinyTokenizer("qwen2" if config.arch.startswith("qwen") else "smollm")
    # generation_config.json of the directories names both. A GGUF names one; munia, as llama.cpp,
    # knows the other by its text.
    end_ids = [tokenizer.eos_id, tokenizer.bos_id]
    model = ref.model_from_weights(config, weights)
    prompts = prompts_of(seed, tokenizer.n_tokens())
    blob = Blob()
    blob.add("inv_freq", inverse_frequencies(config))

    exact, exact_hidden = forward(config, weights, prompts)
    blob.add("hidden_f32", np.stack(ref.hidden_states(model, prompts[0])))
    blob.add("hidden_f64", np.stack(exact_hidden[0]))
    logits = [ref.all_logits(model, ids) for ids in prompts]
    blob.add("logits_f32", logits[0])
    blob.add("logits_f64", exact[0])
    blob.add("last_logits_f32", np.stack([x[-1] for x in logits]))
    blob.add("last_logits_f64", np.stack([x[-1] for x in exact]))

    greedy = []
    for ids in prompts[:5] + prompts[8:9]:
        new, gaps = ref.greedy(model, ids, N_GREEDY, end_ids)
        new, end_id = ref.split_end(new, end_ids)
        greedy.append({"prompt": ids, "ids": new, "end_id": end_id,
                       "gaps": [round(gap, 6) for gap in gaps]})
    generated = []
    for ids in prompts[2:6]:
        for options in ({"repetition_penalty": 1.05}, {"repetition_penalty": 1.1},
                        {"num_beams": 3}, {"num_beams": 4, "repetition_penalty": 1.1}):
            new = ref.generate(model, ids, 24, end_ids, tokenizer.bos_id, **options)
            new, end_id = ref.split_end(new, end_ids)
            generated.append({"prompt": ids, "options": {**options, "max_tokens": 24}, "ids": new,
                              "end_id": end_id})

    scores = []
    for text, labels in CHATS:
        messages = [{"role": "user", "content": text}]
        rendered = ref.render(CHAT_TEMPLATE, messages)
        ids = tokenizer.encode(rendered)
        continuations = [tokenizer.encode(label) for label in labels]
        (exact_all, _) = forward(config, weights, [ids + c for c in continuations], keep_hidden=False)
        scores.append({
            "messages": messages, "text": rendered, "ids": ids,
            "continuations": labels, "continuation_ids": continuations,
            "logprobs_f32": [ref.continuation_logprob(ref.all_logits(model, ids + c), len(ids), c)
                             for c in continuations],
            "logprobs_f64": [ref.continuation_logprob(x, len(ids), c)
                             for x, c in zip(exact_all, continuations, strict=True)],
        })
    errors = np.concatenate([(a - b).ravel() for a, b in zip(logits, exact, strict=True)])
    print(f"{names[0]:26s} torch float32 against float64: rms {np.sqrt((errors**2).mean()):.3g}, "
          f"max {np.abs(errors).max():.3g}, max |logit| {max(np.abs(x).max() for x in exact):.3g}; "
          f"greedy lengths {[len(g['ids']) for g in greedy]}")
    return {
        "models": names,
        "config": {name: value for name, value in vars(config).items()
                   if value not in (None, {"rope_type": "default"})},
        "special_tokens": {t: tokenizer.tokenizer.token_to_id(t) for t in SPECIAL_TOKENS},
        "end_ids": end_ids,
        "prompts": prompts,
        "arrays": blob.index,
        "greedy": greedy,
        "generate": generated,
        "scores": scores,
    }, bytes(blob.data)


def main():
    root = Path(__file__).parent.parent / "tests"
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=Path, default=root / "models")
    parser.add_argument("--out", type=Path, default=root / "goldens" / "tiny")
    args = parser.parse_args()
    torch.set_num_threads(1)
    for i, names in enumerate(MODELS):
        golden, data = make_golden(args.models, names, 100 + i)
        directory = args.out / names[0].removesuffix(".gguf")
        if names[0].endswith(".gguf") and [names[0].removesuffix(".gguf")] in MODELS:
            directory = args.out / names[0].replace(".gguf", "-gguf")
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "golden.bin").write_bytes(data)
        (directory / "golden.json").write_text(json.dumps(golden, ensure_ascii=False) + "\n",
                                               encoding="utf-8")


if __name__ == "__main__":
    main()
