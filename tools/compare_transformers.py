"""munia against transformers float32 on the same GGUF, on this machine, in one interleaved run.

    build/venv-reference/bin/python tools/compare_transformers.py MODEL.gguf [--rounds 5] [--check]

Each round measures munia (`munia bench --json`, a new process) and then transformers (a process that
stays loaded and sleeps meanwhile): prefill of 64 and 512 tokens, decode of 32. Printed are medians
with their spread, the ratio of each round's pair (median), load time and peak memory as the kernel
counts it. With --check the exit status is 1 unless munia is at least as fast in prefill and decode
and uses less memory.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PREFILLS = (64, 512)
N_DECODE = 32
N_DECODE_PROMPT = 16  # as munia bench


def measure_munia(options):
    """{metric: value} of one fresh process: tokens/s, load_s, peak_mb; and its summary line."""
    command = [options.munia, "bench", "--json", "--model", options.model, "--threads",
               str(options.threads), "-p", ",".join(map(str, PREFILLS)), "-n", str(N_DECODE), "-r", "1"]
    with tempfile.TemporaryFile("w+") as out:
        process = subprocess.Popen(command, stdout=out)
        _, status, usage = os.wait4(process.pid, 0)
        if status:
            sys.exit(f"{' '.join(command)}: exit status {os.waitstatus_to_exitcode(status)}")
        out.seek(0)
        lines = [json.loads(line) for line in out]
    result = {f"{line['test']} {line['n_tokens']}": line["tokens_per_second"]
              for line in lines if line["test"] in ("prefill", "decode")}
    (summary,) = [line for line in lines if line["test"] == "summary"]
    result["load_s"] = summary["load_seconds"]
    result["peak_mb"] = usage.ru_maxrss / 1024
    return result, summary


class Transformers:
    """The process that holds the transformers model; one measurement on each line it reads."""

    def __init__(self, options):
        command = [sys.executable, __file__, options.model, "--worker", "--threads", str(options.threads)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.load_s = json.loads(self.process.stdout.readline())["load_s"]

    def measure(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            sys.exit("the transformers process died")
        return {**json.loads(line), "load_s": self.load_s}

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def run_worker(options):
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # libraries may print; our lines go out on the first standard output
    import torch

    from reference_torch import model_from_gguf

    torch.set_num_threads(options.threads)
    start = time.perf_counter()
    model = model_from_gguf(Path(options.model))
    load_s = time.perf_counter() - start
    generator = torch.Generator().manual_seed(1)

    def random_ids(n):
        return torch.randint(0, model.config.vocab_size, (1, n), generator=generator)

    @torch.inference_mode()
    def prefill(n):
        ids = random_ids(n)
        start = time.perf_counter()
        model(ids, use_cache=True, logits_to_keep=1)
        return n / (time.perf_counter() - start)

    @torch.inference_mode()
    def decode():
        result = model(random_ids(N_DECODE_PROMPT), use_cache=True, logits_to_keep=1)
        start = time.perf_counter()
        for _ in range(N_DECODE):
            token = result.logits[:, -1:].argmax(dim=-1)
            result = model(token, cache=result.cache, use_cache=True, logits_to_keep=1)
        return N_DECODE / (time.perf_counter() - start)

    def say(value):
        print(json.dumps(value), file=out, flush=True)

    say({"load_s": load_s})
    for _ in sys.stdin:
        result = {}
        for n in PREFILLS:
            prefill(n)  # warms up, as munia bench does in each process
            result[f"prefill {n}"] = prefill(n)
        decode()
        result[f"decode {N_DECODE}"] = decode()
        result["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        say(result)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--munia", default=str(ROOT / "build" / "munia"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")
    parser.add_argument("--check", action="store_true", help="exit 1 unless munia wins")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        run_worker(options)
        return 0

    peer, rounds, summary = Transformers(options), [], {}
    for i in range(options.rounds):
        ours, summary = measure_munia(options)
        theirs = peer.measure()
        rounds.append((ours, theirs))
        print(f"round {i + 1} of {options.rounds}", file=sys.stderr)
    peer.close()

    table = {}
    for metric in rounds[0][0]:
        ours, theirs = ([pair[side][metric] for pair in rounds] for side in (0, 1))
        less_is_better = metric in ("load_s", "peak_mb")
        ratios = [b / a if less_is_better else a / b for a, b in zip(ours, theirs, strict=True)]
        table[metric] = {
            "munia": statistics.median(ours), "munia_range": [min(ours), max(ours)],
            "transformers": statistics.median(theirs), "transformers_range": [min(theirs), max(theirs)],
            "times_better": statistics.median(ratios),
        }
    cpu = next((line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if "model name" in line), "?")
    report = {"cpu": cpu, "threads": options.threads, "rounds": options.rounds, "munia_summary": summary,
              "metrics": table}
    if options.json:
        print(json.dumps(report, ensure_ascii=False))
    else:
        print(f"{cpu}, {options.threads} threads, {summary.get('isa')}, logits {summary.get('logits_hash')}")
        print(f"{'':14s}{'munia':>10s}{'(range)':>20s}{'transformers':>14s}{'(range)':>20s}{'better':>9s}")
        for metric, row in table.items():
            unit = metric if metric in ("load_s", "peak_mb") else metric + " t/s"
            print(f"{unit:14s}{row['munia']:10.1f}{'%.1f to %.1f' % tuple(row['munia_range']):>20s}"
                  f"{row['transformers']:14.1f}{'%.1f to %.1f' % tuple(row['transformers_range']):>20s}"
                  f"{row['times_better']:8.2f}x")
    worse = [metric for metric, row in table.items() if metric != "load_s" and row["times_better"] < 1]
    if worse:
        print(f"transformers is ahead in: {', '.join(worse)}", file=sys.stderr)
    return 1 if options.check and worse else 0


if __name__ == "__main__":
    sys.exit(main())
