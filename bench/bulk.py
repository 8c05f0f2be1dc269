#!/usr/bin/env python3
"""Labels in bulk beside transformers float32 on the same weights, the same prompt and real texts.

  bench/bulk.py MODEL.gguf FILE.csv… [--column review] [--rows 5000] [--peer-rows 600] [--pieces 4]
                [--munia build/munia] [--out bench/results/bulk.md]

transformers and munia label the first --peer-rows rows in turns, piece by piece, so that a machine that
changes its speed changes it for both: transformers with the batch size that was best for it on a
sample, texts sorted by length so that it pads least; munia by `munia classify -i`, the whole process with
loading. Then munia labels all rows in one run. Rows are the files' distinct texts, shuffled; where they
are fewer than --rows, texts are taken again with a number behind. Needs the environment of `make
compare`. Nothing else should run."""

import argparse
import csv
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COMPARE = ROOT / "bench" / "compare"
sys.path[:0] = [str(COMPARE), str(COMPARE / "peers")]
from child import Child  # noqa: E402
from environments import Environments  # noqa: E402
from texts import BATCH_SIZES, LABELS  # noqa: E402

WORK = ROOT / "build" / "compare"
SAMPLE = 32  # texts for choosing the batch size


def distinct_texts(files, column, n):
    texts = []
    for file in files:
        with open(file, encoding="utf-8-sig", newline="") as rows:
            texts += [row[column].strip() for row in csv.DictReader(rows)]
    texts = list(dict.fromkeys(text for text in texts if text))
    random.Random(1).shuffle(texts)
    first = list(texts)
    for number in range(2, 2 + n // len(first) + 1):
        texts += [f"{text} {number}" for text in first]
    return texts[:n]


def run_munia(program, model, texts, threads):
    """Labels, and seconds of the whole process."""
    with tempfile.TemporaryDirectory() as home:
        source, out = Path(home) / "in.csv", Path(home) / "out.csv"
        with source.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([["review"], *([text] for text in texts)])
        begin = time.perf_counter()
        subprocess.run([program, "classify", "--model", model, "--threads", str(threads), "-i",
                        source, "--column", "review", "-o", out, "--task", "sentiment"], check=True)
        seconds = time.perf_counter() - begin
        with out.open(encoding="utf-8", newline="") as file:
            return [row["label"] for row in csv.DictReader(file)], seconds


def best_batch_size(peer, texts):
    speeds = {}
    for size in BATCH_SIZES:
        used = texts[:max(size, SAMPLE)]
        speeds[size] = len(used) / peer.ask("labels", texts=used, labels=LABELS, size=size)["seconds"]
    return max(speeds, key=speeds.get), speeds


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("files", nargs="+")
    parser.add_argument("--column", default="review")
    parser.add_argument("--rows", type=int, default=5000)
    parser.add_argument("--peer-rows", type=int, default=600)
    parser.add_argument("--pieces", type=int, default=4)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--munia", default=str(ROOT / "build" / "munia"))
    parser.add_argument("--out")
    options = parser.parse_args()
    texts = distinct_texts(options.files, options.column, options.rows)
    peer_texts = texts[:options.peer_rows]
    weights = WORK / "models" / "real-f32"
    python = Environments(options.threads).python("reference")
    peer = Child([python, COMPARE / "peers" / "transformers_peer.py"], WORK / "logs" / "bulk.log",
                 options.threads)
    peer.ask("load", model=str(weights), threads=options.threads, dtype="float32")
    size, speeds = best_batch_size(peer, peer_texts)
    print(f"transformers: batch size {size} is best of {json.dumps(speeds)}", file=sys.stderr)
    ours, theirs, our_speeds, their_speeds = [], [], [], []
    for i in range(options.pieces):
        piece = peer_texts[i * len(peer_texts) // options.pieces:
                           (i + 1) * len(peer_texts) // options.pieces]
        labels, seconds = run_munia(options.munia, options.model, piece, options.threads)
        ours += labels
        our_speeds.append(len(piece) / seconds)
        answer = peer.ask("labels", timeout_s=7200, texts=piece, labels=LABELS, size=size)
        theirs += answer["labels"]
        their_speeds.append(len(piece) / answer["seconds"])
        print(f"piece {i + 1} of {options.pieces}: {our_speeds[-1]:.2f} and {their_speeds[-1]:.2f} texts/s",
              file=sys.stderr, flush=True)
    labels, seconds = run_munia(options.munia, options.model, texts, options.threads)
    n_equal = sum(a == b for a, b in zip(ours, theirs))
    ratios = [a / b for a, b in zip(our_speeds, their_speeds)]
    lines = [
        f"{len(texts)} distinct rows, {sum(map(len, texts)) / len(texts):.0f} characters each on average, "
        f"{options.threads} threads; {len(peer_texts)} of them in turns in {options.pieces} pieces "
        "(median [least, most]):",
        "",
        "| | rows | texts/s |", "|---|---|---|",
        f"| munia classify, whole process | {len(peer_texts)} | {spread(our_speeds)} |",
        f"| transformers float32, batches of {size} | {len(peer_texts)} | {spread(their_speeds)} |",
        f"| munia classify, all rows | {len(labels)} | {len(labels) / seconds:.2f} |",
        "",
        f"munia is {spread(ratios)} × as fast; {n_equal} of {len(peer_texts)} labels are equal.",
    ]
    print("\n".join(lines))
    if options.out:
        Path(options.out).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return 0 if n_equal >= 0.995 * len(peer_texts) else 1


def spread(speeds):
    return f"{statistics.median(speeds):.2f} [{min(speeds):.2f}, {max(speeds):.2f}]"


if __name__ == "__main__":
    sys.exit(main())
