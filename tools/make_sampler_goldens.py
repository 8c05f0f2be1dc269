#!/usr/bin/env python3
"""Writes tests/data/sampler/cases.json: what transformers makes of seeded rows of logits.

transformers itself decides which processors run and in which order: a tiny Qwen2 model is asked by
the method that generate() uses. The OpenAI penalties, which transformers lacks, and the bias go in
as custom processors, which it places behind the repetition penalty and before the sampling filters.

Usage: python tools/make_sampler_goldens.py   (versions: tests/data/sampler/SOURCE.md)
"""
import json
import random
from pathlib import Path

import torch
from transformers import GenerationConfig, LogitsProcessorList, Qwen2Config, Qwen2ForCausalLM
from transformers.generation import LogitsProcessor, SequenceBiasLogitsProcessor

OUT = Path(__file__).resolve().parent.parent / "tests" / "data" / "sampler" / "cases.json"
N_CASES = 40


class OpenAiPenalties(LogitsProcessor):
    """logit[j] -= presence * (count[j] > 0) + frequency * count[j], over generated tokens only:
    the formula of the OpenAI API reference ("Frequency and presence penalties")."""

    def __init__(self, n_prompt, presence, frequency):
        self.n_prompt, self.presence, self.frequency = n_prompt, presence, frequency

    def __call__(self, input_ids, scores):
        counts = torch.zeros_like(scores)
        generated = input_ids[:, self.n_prompt:]
        counts.scatter_add_(1, generated, torch.ones_like(generated, dtype=scores.dtype))
        return scores - (self.presence * (counts > 0) + self.frequency * counts)


def tiny_model():
    return Qwen2ForCausalLM(Qwen2Config(
        vocab_size=64, hidden_size=8, intermediate_size=8, num_hidden_layers=1,
        num_attention_heads=1, num_key_value_heads=1))


def make_case(model, index):
    rng = random.Random(1000 + index)
    torch.manual_seed(1000 + index)
    vocab = rng.choice([5, 8, 17, 40, 64])
    logits = torch.randn(1, vocab) * rng.choice([0.5, 1.0, 2.0, 4.0]) + rng.choice([-3.0, 0.0, 4.0])
    if index % 5 == 1:  # whole numbers: many ties, for the edge of top_k
        logits = logits.round()
    if index % 7 == 3:  # masked tokens
        logits[0, rng.randrange(vocab)] = -float("inf")
    prompt = [rng.randrange(vocab) for _ in range(rng.randrange(1, 8))]
    generated = [rng.choice(prompt + [0, vocab - 1]) for _ in range(rng.randrange(0, 7))]

    def sometimes(off, values):
        return off if rng.random() < 0.45 else rng.choice(values)

    params = {
        "temperature": sometimes(1.0, [0.3, 0.7, 1.5, 3.0]),
        "top_k": sometimes(0, [1, 3, 7, 12, 30, 100]),
        # The reference leaves open which of equal logits top_p keeps.
        "top_p": 1.0 if index % 5 == 1 else sometimes(1.0, [0.05, 0.7, 0.9, 0.95, 0.999]),
        "min_p": sometimes(0.0, [0.001, 0.03, 0.1, 0.5]),
        "repetition_penalty": sometimes(1.0, [0.8, 1.05, 1.3, 2.0]),
        "presence_penalty": sometimes(0.0, [-1.0, 0.5, 2.0]),
        "frequency_penalty": sometimes(0.0, [-0.5, 0.25, 1.5]),
        "logit_bias": sometimes([], [
            [[0, 2.5]], [[vocab - 1, -100.0], [1, 1.25]], [[prompt[0], 3.0]]]),
    }
    custom = LogitsProcessorList()
    if params["presence_penalty"] or params["frequency_penalty"]:
        custom.append(OpenAiPenalties(
            len(prompt), params["presence_penalty"], params["frequency_penalty"]))
    if params["logit_bias"]:
        custom.append(SequenceBiasLogitsProcessor([[[i], b] for i, b in params["logit_bias"]]))
    config = GenerationConfig(
        do_sample=True, temperature=params["temperature"], top_k=params["top_k"],
        top_p=params["top_p"], min_p=params["min_p"] or None,
        repetition_penalty=params["repetition_penalty"])
    processors = model._get_logits_processor(
        config, input_ids_seq_length=len(prompt), logits_processor=custom, device="cpu")
    scores = processors(torch.tensor([prompt + generated]), logits.clone())
    return {
        "prompt": prompt,
        "generated": generated,
        "params": params,
        "processors": [type(p).__name__ for p in processors],
        # null stands for -inf
        "logits": [None if x == -float("inf") else x for x in logits[0].tolist()],
        "probabilities": torch.softmax(scores, dim=-1)[0].tolist(),
    }


def main():
    model = tiny_model()
    cases = [make_case(model, index) for index in range(N_CASES)]
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text("[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]\n")
    print(f"{len(cases)} cases, {OUT.stat().st_size} bytes")


if __name__ == "__main__":
    main()
