#!/usr/bin/env python3
"""What the Python package costs beside the command line: the same predictions by `munia predict` and by
munia.Model.predict, in turns.

    PYTHONPATH=build/python build/venv-python/bin/python bench/python_cost.py MODEL [ROUNDS]

The program's figure is its own total_ms of each text; Python's is the time around the call, so that it
holds all that the binding adds. Prints the medians over the rounds, their ratio, and the part of a call
that is spent outside of the engine.
"""

import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

import munia

MUNIA = Path(__file__).resolve().parent.parent / "build" / "munia"
TEXTS = ["今天的实验终于成功了，太棒了！", "糟糕，又失败了，真让人难过。", "房间干净，老板热情，下次还来。",
         "等了两个小时还没送到，再也不买了。"]
MAX_TOKENS = 24


def program_round(model):
    """(sum of total_ms, replies) of the command line."""
    done = subprocess.run(
        [MUNIA, "predict", "--model", model, "--json", "--max-tokens", str(MAX_TOKENS), "--", *TEXTS],
        check=True, capture_output=True, text=True)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return sum(line["timings"]["total_ms"] for line in lines), [line["reply"] for line in lines]


def python_round(path):
    """(sum of the times around the calls, of the engine's own total_ms, replies) of a fresh model."""
    with munia.Model(path) as model:
        model.classify("好")  # the program has prepared its task, too, before it counts
        around = inside = 0.0
        replies = []
        for text in TEXTS:
            begin = time.perf_counter()
            result = model.predict(text, max_tokens=MAX_TOKENS)
            around += (time.perf_counter() - begin) * 1e3
            inside += result.total_ms
            replies.append(result.reply)
    return around, inside, replies


def main():
    model = sys.argv[1]
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    program, python, outside = [], [], []
    for _ in range(rounds):
        total, wanted = program_round(model)
        around, inside, replies = python_round(model)
        assert replies == wanted, "the replies differ"
        program.append(total)
        python.append(around)
        outside.append(around - inside)
    a, b = statistics.median(program), statistics.median(python)
    print(json.dumps({
        "rounds": rounds, "texts": len(TEXTS), "program_ms": round(a, 2), "python_ms": round(b, 2),
        "ratio": round(b / a, 4),
        "outside_engine_us_per_call": round(statistics.median(outside) / len(TEXTS) * 1e3, 1),
        "outside_engine_share": round(statistics.median(outside) / b, 6)}))


if __name__ == "__main__":
    main()
