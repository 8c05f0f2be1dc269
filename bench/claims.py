#!/usr/bin/env python3
"""The articles' claims about accuracy, measured again with intervals: 89.3% on 200 shop reviews, 89.2% on
Weibo texts, and 91% by a fine-tuned BERT.

  bench/claims.py MODEL [--shop FILE.csv] [--weibo FILE.csv] [--munia build/munia] [--out FILE.md]

The files have the columns `label` and `review`. Asked with the articles' prompt (task sentiment), with
munia's own (sentiment-best), and with a head that munia fit learns from 400 rows (the others judge it).
A claim whose figure lies outside the 95% interval does not hold on these rows with this model."""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
N_ARTICLE_ROWS = 200
N_LEARNED = 400
CLAIMS = {"shop": ("200 shop reviews", 0.893), "weibo": ("Weibo texts", 0.892)}
BERT = 0.91


def munia_lines(program, *arguments):
    done = subprocess.run([program, *map(str, arguments), "--json"], stdout=subprocess.PIPE, text=True,
                          check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def measured(line):
    low, high = line["interval_95"]
    return line["accuracy"], low, high, line["rows"]


def row(name, claim, figures):
    accuracy, low, high, n = figures
    holds = "yes" if low <= claim <= high else "no, less" if high < claim else "no, more"
    return f"| {name} | {claim:.1%} | {accuracy:.1%} [{low:.1%}, {high:.1%}] | {n} | {holds} |"


def judge(program, model, name, file):
    words, claim = CLAIMS[name]
    for task in ("sentiment", "sentiment-best"):
        line = munia_lines(program, "eval", file, "--model", model, "--task", task, "--limit",
                           N_ARTICLE_ROWS)[0]
        yield row(f"{words}, task {task}", claim, measured(line))
    with tempfile.TemporaryDirectory() as home:
        lines = munia_lines(program, "fit", file, "--model", model, "-o", Path(home) / "t.toml",
                            "--train", N_LEARNED, "--recipe", "head", "--no-few-shot")
    line = next(line for line in lines
                if line["recipe"] == "head" and line["learned_from"] == N_LEARNED)
    yield row(f"{words.removeprefix('200 ')}, head from {N_LEARNED} rows (claim: BERT)", BERT,
              measured(line))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--shop", default=str(ROOT.parent / "shared" / "data" / "shop-dev.csv"))
    parser.add_argument("--weibo")
    parser.add_argument("--munia", default=str(ROOT / "build" / "munia"))
    parser.add_argument("--out")
    options = parser.parse_args()
    lines = ["| on | claimed | measured, 95% interval | rows | holds |", "|---|---|---|---|---|"]
    for name, file in (("shop", options.shop), ("weibo", options.weibo)):
        if file and Path(file).exists():
            lines += judge(options.munia, options.model, name, file)
        else:
            lines.append(f"| {CLAIMS[name][0]} | {CLAIMS[name][1]:.1%} | no such file here | 0 | not judged |")
    print("\n".join(lines))
    if options.out:
        Path(options.out).write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
