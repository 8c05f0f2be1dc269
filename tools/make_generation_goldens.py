"""Writes generation.json of tests/goldens/tiny and of a real model's goldens: beam searches and
penalties of transformers float32, each with the margin by which its decisions were made.

    python tools/make_generation_goldens.py                       # the tiny models: some seconds
    python tools/make_generation_goldens.py --real MODEL.gguf tests/goldens/NAME [--parts beams]

A real model takes minutes: the file is written after each case, and a run goes on behind the cases
that it finds there (remove the file to begin anew). Repetition penalty, beams and lengths
are transformers' own; presence and frequency penalty, which it lacks, are a processor of this file
by OpenAI's definition: logit − presence·[count > 0] − frequency·count, of generated tokens only.

Margins. Float32 forwards of two programs differ in the last digits, so where two candidates are
nearly equal either may win. For greedy texts the margin is the smallest gap between the two best
processed logits. For beams it is the smallest of: the gap between the last beam that went on and the
best that did not; between a candidate that ended and the edge of the first num_beams; between the
worst text kept and the best dropped; between returned neighbours (and the next one); between the
best running beam and the worst kept text where that comparison decides about the end.
"""

import argparse
import json
import platform
from pathlib import Path

import numpy as np
import torch
import transformers
from transformers import GenerationConfig, LogitsProcessor

import reference_torch as ref
from golden_texts import CHATS
from reference_weights import gguf_chat_template, gguf_tokenizer, load_model
from tiny_tokenizers import TinyTokenizer

BEAMS = [  # options by munia's names
    {"num_beams": 2},
    {"num_beams": 3},
    {"num_beams": 4},
    {"num_beams": 5},
    {"num_beams": 2, "length_penalty": 0.0},
    {"num_beams": 3, "length_penalty": 2.0},
    {"num_beams": 4, "length_penalty": -1.0},
    {"num_beams": 5, "length_penalty": 0.5, "n": 2},
    {"num_beams": 3, "early_stopping": True},
    {"num_beams": 4, "early_stopping": True, "length_penalty": 2.0},
    {"num_beams": 3, "early_stopping": "never"},
    {"num_beams": 4, "early_stopping": "never", "length_penalty": 2.0},
    {"num_beams": 5, "early_stopping": "never", "length_penalty": -0.5},
    {"num_beams": 4, "repetition_penalty": 1.1},
    {"num_beams": 3, "repetition_penalty": 1.05, "early_stopping": True},
    {"num_beams": 5, "repetition_penalty": 1.3, "n": 3},
    {"num_beams": 4, "early_stopping": "never", "n": 4},
    {"num_beams": 4, "min_tokens": 10, "n": 2},
    {"num_beams": 2, "max_tokens": 1, "n": 2},
    {"num_beams": 3, "max_tokens": 48, "length_penalty": 1.5, "early_stopping": "never", "n": 3},
]
PENALTIES = [
    {"repetition_penalty": 1.05},
    {"repetition_penalty": 1.1},
    {"repetition_penalty": 1.3},
    {"repetition_penalty": 2.0},
    {"repetition_penalty": 0.9},
    {"presence_penalty": 0.5},
    {"presence_penalty": 1.0},
    {"presence_penalty": 2.0},
    {"presence_penalty": -0.5},
    {"frequency_penalty": 0.3},
    {"frequency_penalty": 1.0},
    {"frequency_penalty": 2.0},
    {"frequency_penalty": -0.2},
    {"presence_penalty": 0.7, "frequency_penalty": 0.4},
    {"presence_penalty": -1.0, "frequency_penalty": 1.5},
    {"repetition_penalty": 1.1, "presence_penalty": 0.6},
    {"repetition_penalty": 1.05, "frequency_penalty": 0.5},
    {"repetition_penalty": 1.2, "presence_penalty": 0.3, "frequency_penalty": 0.2},
    {"repetition_penalty": 1.1, "min_tokens": 12},
    {"frequency_penalty": 0.8, "min_tokens": 20},
]
MAX_TOKENS, MAX_TOKENS_REAL = 24, 16
TINY_TEXTS = [  # as the tiny tokenizers' sentences: Chinese, English, both
    "今天的实验终于成功了", "质量太差了，我很失望。", "The tea is warm", "the bird sings", "天气很好，",
    "我很 happy today", "好", "Where is the", "实验 12 次", "The service was slow and",
]
TINY = [  # model, how many more end tokens a copy of it has (so that texts of random models end)
    ("qwen2-tied-bf16", 0),
    ("qwen2-untied-f32", 12),
    ("llama-tied-bf16", 24),
]
REAL_END_TOKENS = ["<|im_end|>", "<|endoftext|>"]  # munia's, of a GGUF
NOT_YET = -1e8  # transformers marks beams that do not count by −1e9


class CountPenalties(LogitsProcessor):
    """OpenAI's presence and frequency penalty."""

    def __init__(self, n_prompt, presence, frequency):
        self.n_prompt, self.presence, self.frequency = n_prompt, presence, frequency

    def __call__(self, input_ids, scores):
        scores = scores.clone()
        for row, ids in zip(scores, input_ids[:, self.n_prompt:], strict=True):
            counts = torch.bincount(ids, minlength=len(row))
            row -= self.presence * (counts > 0) + self.frequency * counts
        return scores


class Watch:
    """Looks over the shoulder of a beam search: its margin. The watched methods are transformers'
    own and decide as ever."""

    NAMES = ["_get_top_k_continuations", "_get_running_beams_for_next_iteration",
             "_update_finished_beams", "_check_early_stop_heuristic"]

    def __init__(self, model):
        self.model, self.gaps, self.best, self.finals = model, [], None, []

    def __enter__(self):
        self.own = {name: getattr(self.model, name) for name in self.NAMES}
        for name in self.NAMES:
            object.__setattr__(self.model, name, getattr(self, name))
        return self

    def __exit__(self, *_):
        for name in self.NAMES:
            object.__delattr__(self.model, name)

    def margin(self, n_returned):
        finals = self.finals[: n_returned + 1]
        self.gaps += [a - b for a, b in zip(finals, finals[1:])]
        return min((gap for gap in self.gaps), default=float("inf"))

    def _get_top_k_continuations(self, **arguments):
        n = arguments["beams_to_keep"] + 1
        self.best = torch.topk(arguments["accumulated_log_probs"][0], n).values.tolist()
        return self.own["_get_top_k_continuations"](**arguments)

    def _get_running_beams_for_next_iteration(self, **arguments):
        ends = [*arguments["next_token_hits_stopping_criteria"][0].tolist(), False]
        n, best = arguments["num_beams"], self.best
        going = [score for score, end in zip(best, ends, strict=True) if not end]
        if len(going) > n:
            self.gaps.append(going[n - 1] - going[n])
        for rank, end in enumerate(ends):
            if end:
                self.gaps.append(best[rank] - best[n] if rank < n else best[n - 1] - best[rank])
        return self.own["_get_running_beams_for_next_iteration"](**arguments)

    def _update_finished_beams(self, **arguments):
        length = arguments["cur_len"] + 1 - arguments["decoder_prompt_len"]
        counts = arguments["next_token_hits_stopping_criteria"] & arguments["top_num_beam_mask"][None, :]
        new = arguments["topk_log_probs"][counts] / length ** arguments["length_penalty"]
        merged = [*arguments["beam_scores"][0].tolist(), *new.tolist()]
        self.finals = sorted((score for score in merged if score > NOT_YET), reverse=True)
        n = arguments["num_beams"]
        if len(self.finals) > n and len(new) > 0:
            self.gaps.append(self.finals[n - 1] - self.finals[n])
        return self.own["_update_finished_beams"](**arguments)

    def _check_early_stop_heuristic(self, **arguments):
        if arguments["is_sent_finished"].all() and arguments["early_stopping"] is not True:
            never = arguments["early_stopping"] == "never" and arguments["length_penalty"] > 0
            length = arguments["max_length" if never else "cur_len"] - arguments["decoder_prompt_len"]
            best = float(arguments["running_beam_scores"][0, 0]) / length ** arguments["length_penalty"]
            self.gaps.append(abs(best - float(arguments["beam_scores"].min())))
        return self.own["_check_early_stop_heuristic"](**arguments)


def config_of(options, end_ids):
    """transformers' names for munia's options."""
    options = dict(options)
    return GenerationConfig(
        do_sample=False, eos_token_id=list(end_ids), pad_token_id=end_ids[-1],
        return_dict_in_generate=True, output_scores=True,
        max_new_tokens=options.pop("max_tokens", MAX_TOKENS),
        min_new_tokens=options.pop("min_tokens", None),
        num_return_sequences=options.pop("n", 1),
        **options,
    )


@torch.inference_mode()
def beam_case(model, ids, options, end_ids):
    tokens = torch.tensor([ids])
    with Watch(model) as watch:
        out = model.generate(tokens, attention_mask=torch.ones_like(tokens),
                             generation_config=config_of(options, end_ids))
    texts = []
    for sequence, indices, score in zip(out.sequences, out.beam_indices, out.sequences_scores,
                                        strict=True):
        n_new = int((indices >= 0).sum())
        new, end_id = ref.split_end(sequence[len(ids):][:n_new].tolist(), end_ids)
        texts.append({"ids": new, "end_id": end_id, "score": round(float(score), 6)})
    return {"ids": ids, "options": {"max_tokens": MAX_TOKENS} | options, "texts": texts,
            "margin": round(watch.margin(len(texts)), 7)}


@torch.inference_mode()
def penalty_case(model, ids, options, end_ids):
    options = dict(options)
    own = CountPenalties(len(ids), options.pop("presence_penalty", 0.0),
                         options.pop("frequency_penalty", 0.0))
    tokens = torch.tensor([ids])
    out = model.generate(tokens, attention_mask=torch.ones_like(tokens), logits_processor=[own],
                         generation_config=config_of(options, end_ids))
    best = [torch.topk(scores[0], 2).values for scores in out.scores]
    new, end_id = ref.split_end(out.sequences[0, len(ids):].tolist(), end_ids)
    return {"ids": new, "end_id": end_id, "gaps": [round(float(b[0] - b[1]), 6) for b in best]}


def tiny_model(models_dir, name, n_more_ends, seed):
    config, weights = load_model(models_dir / name)
    tokenizer = TinyTokenizer("qwen2" if config.arch == "qwen2" else "smollm")
    ordinary = sorted(set(range(tokenizer.n_tokens())) - {tokenizer.eos_id, tokenizer.bos_id})
    more = np.random.RandomState(seed).choice(ordinary, n_more_ends, replace=False).tolist()
    return ref.model_from_weights(config, weights), tokenizer, [tokenizer.eos_id, tokenizer.bos_id, *more]


def make_tiny(models_dir):
    groups = []
    for g, (name, n_more_ends) in enumerate(TINY):
        model, tokenizer, end_ids = tiny_model(models_dir, name, n_more_ends, 50 + g)
        prompts = [tokenizer.encode(text) for text in TINY_TEXTS]
        beams = [beam_case(model, prompts[(i + 3 * g) % len(prompts)], options, end_ids)
                 for i, options in enumerate(BEAMS)]
        penalties = []
        for i, options in enumerate(PENALTIES):
            ids = prompts[(i + 5 * g) % len(prompts)]
            penalties.append({"prompt": ids, "options": {"max_tokens": MAX_TOKENS} | options,
                              **penalty_case(model, ids, options, end_ids)})
        groups.append({"model": name, "end_ids": end_ids, "beams": beams, "penalties": penalties})
        report(name, beams, penalties)
    return {"groups": groups}


def make_real(path, parts, golden, save):
    tokenizer, template, model = gguf_tokenizer(path), gguf_chat_template(path), ref.model_from_gguf(path)
    end_ids = [tokenizer.token_to_id(token) for token in REAL_END_TOKENS]
    golden["end_ids"] = end_ids
    for part in parts:
        cases = golden.setdefault(part, [])
        all_options = BEAMS if part == "beams" else PENALTIES
        for i, options in list(enumerate(all_options))[len(cases):]:
            longest = max(MAX_TOKENS_REAL, options.get("min_tokens", 0) + 4)
            options = {"max_tokens": longest} | options
            messages = [{"role": "user", "content": CHATS[i % len(CHATS)]}]
            ids = tokenizer.encode(ref.render(template, messages), add_special_tokens=False).ids
            if part == "beams":
                cases.append({"messages": messages, **beam_case(model, ids, options, end_ids)})
                print(i, options, cases[-1]["margin"], [len(t["ids"]) for t in cases[-1]["texts"]],
                      flush=True)
            else:
                cases.append({"messages": messages, "prompt": ids, "options": options,
                              **penalty_case(model, ids, options, end_ids)})
                print(i, options, min(cases[-1]["gaps"]), len(cases[-1]["ids"]), flush=True)
            save(golden)
    report(path.name, golden.get("beams", []), golden.get("penalties", []))


def report(name, beams, penalties):
    texts = [text for case in beams for text in case["texts"]]
    print(f"{name}: {len(beams)} beam cases, {sum(t['end_id'] is not None for t in texts)} of "
          f"{len(texts)} texts ended by a token, margins "
          f"{sorted(case['margin'] for case in beams)[:5]} …; {len(penalties)} penalty cases, "
          f"margins {sorted(min(case['gaps']) for case in penalties)[:5]} …", flush=True)


def main():
    root = Path(__file__).parent.parent / "tests"
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--real", nargs=2, type=Path, metavar=("MODEL.gguf", "DIRECTORY"))
    parser.add_argument("--parts", default="beams,penalties")
    args = parser.parse_args()
    versions = {"transformers": transformers.__version__, "torch": torch.__version__,
                "machine": platform.machine()}
    out = (args.real[1] if args.real else root / "goldens" / "tiny") / "generation.json"

    def save(golden):
        text = json.dumps(golden | {"versions": versions}, ensure_ascii=False) + "\n"
        part = out.with_suffix(".part")
        part.write_text(text, encoding="utf-8")
        part.replace(out)

    if args.real:
        torch.set_num_threads(2)
        golden = json.loads(out.read_text(encoding="utf-8")) if out.exists() else {}
        make_real(args.real[0], args.parts.split(","), golden, save)
    else:
        torch.set_num_threads(1)
        save(make_tiny(root / "models"))


if __name__ == "__main__":
    main()
