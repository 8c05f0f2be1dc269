"""Writes the goldens of a real model: what transformers float32 (loaded by its own GGUF loader) and
the float64 forward make of it. Heavy: run it once, on an idle machine.

    python tools/make_model_goldens.py MODEL.gguf tests/goldens/NAME [--parts logits,greedy,scores]
    python tools/make_model_goldens.py MODEL.gguf tests/goldens/NAME --parts reviews --reviews *-dev.csv

Writes logits.json, greedy.json, scores.json and NAME.json (a label and two log-probs per row number,
never the rows' texts). Each names the versions and the model file's sha256.
"""

import argparse
import csv
import hashlib
import json
import platform
from pathlib import Path

import gguf
import numpy as np
import torch
import transformers

import reference_torch as ref
from float64_forward import forward
from golden_texts import CHATS, PASSAGES, REVIEWS
from reference_weights import gguf_chat_template, gguf_tokenizer, load_model

PROMPT_A = (
    '你是一个冷酷的情感分析师，只输出"正面"或"负面"，不加解释、不加标点、不加空格，且必须以中文输出。'
)
PROMPT_B = (
    "你是一个冷酷的情感分析师，只做二分类：\n- 输入含明显积极词汇（如'棒''赞''开心'）→ 输出'Positive'\n"
    "- 输入含明显消极词汇（如'糟''差''讨厌'）→ 输出'Negative'\n- 其他情况一律输出'Neutral'\n"
    "不解释，不扩展，只输出一个单词。\n用户输入：{text}"
)
LABELS_2 = ["正面", "负面"]
LENGTHS = [1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 20, 24, 31, 32, 33, 40, 48, 63, 64, 65, 90, 127,
           128, 129, 200, 256, 511, 1000]
N_SAMPLED_IDS = 512
N_GREEDY = 100


class Reference:
    """Both forwards, the tokenizer and the template of one GGUF file."""

    def __init__(self, path):
        self.tokenizer = gguf_tokenizer(path)
        self.template = gguf_chat_template(path)
        self.config, self.weights = load_model(path)
        self.model = ref.model_from_gguf(path)
        self.end_ids = [int(gguf.GGUFReader(str(path)).get_field("tokenizer.ggml.eos_token_id").contents())]
        state = self.model.state_dict()
        differing = [n for n, x in self.weights.items() if not np.array_equal(state[n].numpy(), x)]
        print(f"transformers' loader against the gguf package: {len(self.weights)} tensors, "
              f"{len(differing)} differ {differing[:5]}", flush=True)
        with open(path, "rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        self.about = {
            "model_file_sha256": digest,
            "loader_weights_equal_gguf_package": not differing,
            "versions": {"transformers": transformers.__version__, "torch": torch.__version__,
                         "gguf": gguf.__version__ if hasattr(gguf, "__version__") else "0.19.0",
                         "numpy": np.__version__, "machine": platform.machine()},
        }

    def encode(self, text):
        return self.tokenizer.encode(text, add_special_tokens=False).ids

    def chat_ids(self, messages):
        return self.encode(ref.render(self.template, messages))


def numbers(x, digits):
    return [float(f"{v:.{digits}g}") for v in x]


def make_logits(r):
    """Last position of 30 prompts: 512 fixed ids, the 20 best, the norm, and the errors of torch
    float32 over the whole vocabulary."""
    rng = np.random.RandomState(2024)
    sampled = np.sort(rng.choice(r.config.vocab_size, N_SAMPLED_IDS, replace=False))
    prompts = []
    for i, length in enumerate(LENGTHS):
        passages = PASSAGES[i:] + PASSAGES[:i]  # another text first in each prompt
        prompts.append(r.encode("\n".join(passages))[:length])
    exact, _ = forward(r.config, r.weights, prompts, n_last=1, keep_hidden=False)
    rows = []
    for ids, logits64 in zip(prompts, exact, strict=True):
        logits64, logits32 = logits64[0], ref.last_logits(r.model, ids)
        error = logits32 - logits64
        top = np.argsort(-logits64, kind="stable")[:20]
        rows.append({
            "ids": ids,
            "argmax": int(top[0]),
            "top": [[int(i), float(f"{logits64[i]:.12g}")] for i in top],
            "top_f32": numbers(logits32[top], 9),
            "norm_f64": float(np.linalg.norm(logits64)),
            "norm_f32": float(np.linalg.norm(logits32.astype(np.float64))),
            "max_abs_f64": float(np.abs(logits64).max()),
            "torch_rms_error": float(np.sqrt((error**2).mean())),
            "torch_max_error": float(np.abs(error).max()),
            "f64": numbers(logits64[sampled], 12),
            "f32": numbers(logits32[sampled], 9),
        })
    rms = np.array([row["torch_rms_error"] for row in rows])
    print(f"torch float32 against float64 over {len(rows)} prompts: rms {np.sqrt((rms**2).mean()):.3g} "
          f"(median {np.median(rms):.3g}), max {max(row['torch_max_error'] for row in rows):.3g}, "
          f"max |logit| {max(row['max_abs_f64'] for row in rows):.3g}", flush=True)
    return {"sampled_ids": sampled.tolist(), "prompts": rows}


def make_greedy(r):
    messages = [[{"role": "user", "content": text}] for text in CHATS]
    prompts = [r.chat_ids(m) for m in messages]
    rows = []
    results = ref.greedy_many(r.model, prompts, N_GREEDY, r.end_ids)
    for m, ids, (new, gaps) in zip(messages, prompts, results, strict=True):
        new, _ = ref.split_end(new, r.end_ids)
        rows.append({"messages": m, "prompt_ids": ids, "ids": new,
                     "text": r.tokenizer.decode(new, skip_special_tokens=True),
                     "gaps": [round(gap, 5) for gap in gaps]})
        print(f"greedy: {len(new):3d} ids, smallest gap {min(gaps):.4f}  {rows[-1]['text'][:50]!r}",
              flush=True)
    return {"end_ids": r.end_ids, "max_tokens": N_GREEDY, "cases": rows}


def count_shared(sequences):
    """Length of the beginning that all sequences share."""
    return next(i for i, tokens in enumerate(zip(*sequences)) if len(set(tokens)) > 1)


def make_scores(r):
    """40 cases: prompt A with two and with three labels, prompt B with three."""
    cases = []
    for i, review in enumerate(REVIEWS):
        labels = LABELS_2 if i % 2 == 0 else [*LABELS_2, "中性"]
        cases.append(([{"role": "system", "content": PROMPT_A},
                       {"role": "user", "content": f"用户输入：{review}"}], labels))
        labels = ["Positive", "Neutral", "Negative"] if i % 3 else ["正面", "负面", "中性"]
        cases.append(([{"role": "user", "content": PROMPT_B.format(text=review)}], labels))
    # Every case as prompt + continuation without its last token, which is only predicted; equal
    # sequences run once, and the instruction that cases share runs once for torch too.
    sequences, plans = {}, []
    for messages, labels in cases:
        ids = r.chat_ids(messages)
        continuations = [r.encode(label) for label in labels]
        places = [sequences.setdefault(tuple(ids + c[:-1]), len(sequences)) for c in continuations]
        plans.append((messages, labels, ids, continuations, places))
    sequences = [list(sequence) for sequence in sequences]
    n_last = max(len(c) for plan in plans for c in plan[3])
    exact, _ = forward(r.config, r.weights, sequences, n_last=n_last, keep_hidden=False)
    torch_rows = [None] * len(sequences)
    for kind in (0, 1):  # prompt A, prompt B
        places = sorted({place for plan in plans[kind::2] for place in plan[4]})
        n_shared = count_shared([sequences[place] for place in places])
        prefix = ref.Prefix(r.model, sequences[places[0]][:n_shared])
        for place in places:
            torch_rows[place] = prefix.tail_logits(sequences[place][n_shared:], n_last)

    def logprob(rows, continuation):
        p = ref.log_softmax(rows[len(rows) - len(continuation) :])
        return float(p[np.arange(len(continuation)), continuation].sum())

    out = []
    for messages, labels, ids, continuations, places in plans:
        logprobs32, logprobs64 = (
            [logprob(rows[place], c) for place, c in zip(places, continuations, strict=True)]
            for rows in (torch_rows, exact))
        out.append({"messages": messages, "ids": ids, "continuations": labels,
                    "continuation_ids": continuations, "logprobs_f32": numbers(logprobs32, 10),
                    "logprobs_f64": numbers(logprobs64, 12)})
    worst = max(abs(a - b) for case in out
                for a, b in zip(case["logprobs_f32"], case["logprobs_f64"], strict=True))
    print(f"scores: {len(out)} cases, torch float32 against float64 at most {worst:.3g} nats", flush=True)
    return {"cases": out}


def make_reviews(r, path):
    """Sentiment by prompt A of every row; the part of the prompt that all rows share runs once."""
    with open(path, encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    all_ids = [r.chat_ids([{"role": "system", "content": PROMPT_A},
                           {"role": "user", "content": f"用户输入：{row['review']}"}]) for row in rows]
    n_shared = count_shared(all_ids)
    labels = [r.encode(label) for label in LABELS_2]
    assert all(len(label) == 1 for label in labels), "this part wants labels of one token"
    n_right, out = 0, []
    prefix = ref.Prefix(r.model, all_ids[0][:n_shared])
    for i, (row, ids) in enumerate(zip(rows, all_ids, strict=True)):
        p = ref.log_softmax(prefix.tail_logits(ids[n_shared:], 1)[-1])
        logprobs = [float(p[label[0]]) for label in labels]
        out.append([int(np.argmax(logprobs)), *numbers(logprobs, 8)])
        n_right += LABELS_2[out[-1][0]] == row["label"]
        if (i + 1) % 100 == 0:
            print(f"{path.stem}: {i + 1} rows, accuracy {n_right / (i + 1):.4f}", flush=True)
    close = sum(abs(a - b) < 0.01 for _, a, b in out)
    print(f"{path.stem}: accuracy {n_right / len(rows):.4f}; {close} rows with less than 0.01 nats between", flush=True)
    digest = hashlib.sha256(Path(path).read_bytes()).hexdigest()
    return {"file_sha256": digest, "labels": LABELS_2, "n_right": n_right, "n_shared_tokens": n_shared,
            "columns": ["index of the label", "log p of label 0", "log p of label 1"], "rows": out}


def write(path, r, content):
    path.write_text(json.dumps({**r.about, **content}, ensure_ascii=False) + "\n", encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--parts", default="logits,greedy,scores")
    parser.add_argument("--reviews", type=Path, nargs="+", default=[],
                        help="CSV files NAME-dev.csv with the columns label and review: NAME.json each")
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    args.out.mkdir(parents=True, exist_ok=True)
    r = Reference(args.model)
    if not {"logits", "scores"} & set(args.parts.split(",")):
        r.weights = None  # gigabytes that only the float64 forward reads
    for part in args.parts.split(","):
        if part == "reviews":
            for path in args.reviews:
                write(args.out / f"{path.stem.removesuffix('-dev')}.json", r, make_reviews(r, path))
            continue
        make = {"logits": make_logits, "greedy": make_greedy, "scores": make_scores}[part]
        write(args.out / f"{part}.json", r, make(r))


if __name__ == "__main__":
    main()
