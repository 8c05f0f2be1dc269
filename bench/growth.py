#!/usr/bin/env python3
"""How munia grows: with the length of a conversation, with the number of sequences, step by step, and
with threads. Runs `munia bench --positions`, `--sequences`, `--ladder` and `munia tune --no-store` one
after the other and writes NAME-{positions,sequences,ladder,threads}.jsonl and .svg.

  bench/growth.py MODEL [--name NAME] [--munia build/munia] [--out bench/results] [--only PART]
                  [-- more flags for munia, such as --threads 2 --isa avx512]

At the end it says whether time follows the bytes read within 15% and memory the arithmetic of the KV
cache within 5%; exit status 1 when not. For a quiet machine: nothing else should run."""

import argparse
import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PARTS = {
    "positions": ("bench", "--positions", "64,128,256,512,1024,2048,4096,8192", "-n", "16", "-r", "3"),
    "sequences": ("bench", "--sequences", "1,2,4,8,16", "-n", "64", "-r", "5"),
    "ladder": ("bench", "--ladder", "-n", "32", "-r", "5"),
    "threads": ("tune", "--no-store", "-r", "7"),
}


def measure(munia, model, part, flags, stem):
    command = [munia, *PARTS[part][:1], "--model", model, *PARTS[part][1:], "--json",
               "--plot", f"{stem}.svg", *flags]
    print("+", *command, file=sys.stderr, flush=True)
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"growth: munia ended with status {done.returncode}")
    Path(f"{stem}.jsonl").write_text(done.stdout, encoding="utf-8")
    return [json.loads(line) for line in done.stdout.splitlines()]


def check_positions(rows):
    """Lines to print, and whether both promises hold."""
    rows = [row for row in rows if row["test"] == "position"]
    ratios = [row["time_against_bytes"] for row in rows]
    memory = [row["kv_bytes_resident"] / row["kv_bytes"] for row in rows]
    # A few pages are lost among the process's other memory: judged from the size where they are not.
    large = [ratio for ratio, row in zip(memory, rows) if row["kv_bytes"] >= 32 << 20] or memory[-1:]
    time_holds = all(0.85 <= ratio <= 1.15 for ratio in ratios)
    memory_holds = all(0.95 <= ratio <= 1.05 for ratio in large)
    last = rows[-1]["position"]
    return [
        f"time against bytes read, to position {last}: {min(ratios):.2f} to {max(ratios):.2f}; "
        f"within 15%: {'yes' if time_holds else 'NO'}",
        f"resident KV memory against pages x page bytes: {min(large):.3f} to {max(large):.3f}; "
        f"within 5%: {'yes' if memory_holds else 'NO'}",
    ], time_holds and memory_holds


def main():
    own, flags = sys.argv[1:], []
    if "--" in own:
        flags = own[own.index("--") + 1:]
        own = own[:own.index("--")]
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model")
    parser.add_argument("--name")
    parser.add_argument("--munia", default=str(ROOT / "build" / "munia"))
    parser.add_argument("--out", type=Path, default=ROOT / "bench" / "results")
    parser.add_argument("--only", choices=PARTS)
    options = parser.parse_args(own)
    name = options.name or Path(options.model).name.removesuffix(".gguf")
    options.out.mkdir(parents=True, exist_ok=True)
    holds = True
    for part in [options.only] if options.only else PARTS:
        rows = measure(options.munia, options.model, part, flags, options.out / f"{name}-{part}")
        if part == "positions":
            lines, holds = check_positions(rows)
            print(*lines, sep="\n", flush=True)
    sys.exit(0 if holds else 1)


if __name__ == "__main__":
    main()
