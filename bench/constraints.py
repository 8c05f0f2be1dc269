#!/usr/bin/env python3
"""The time of a token with a constraint beside the same number of tokens without, by the running service.

  bench/constraints.py MODEL [--rounds 8] [--munia build/munia] [--threads N]

Each case is asked with and without its constraint in turns, so that a machine that changes its speed
changes it for both. The reply without may have as many tokens as the one with; pairs where it has less
than half of them are left out. The time of a token is that of the service, (total - first token) / (tokens - 1); median, and the median of
the pairs' ratios. Greedy and sampled."""

import argparse
import json
import statistics
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TWO_FIELDS = {"type": "object", "additionalProperties": False, "required": ["emotion", "reason"], "properties": {
    "emotion": {"enum": ["愤怒", "喜悦", "悲伤", "平静"]}, "reason": {"type": "string", "minLength": 40}}}
RECORD = {"type": "object", "required": ["name", "age", "tags", "note"], "properties": {
    "name": {"type": "string", "maxLength": 20}, "age": {"type": "integer", "minimum": 0, "maximum": 150},
    "tags": {"type": "array", "items": {"type": "string", "maxLength": 20}, "minItems": 3, "maxItems": 5},
    "note": {"type": "string", "minLength": 30, "maxLength": 100}}}
CASES = {
    "two fields": {"guided_json": TWO_FIELDS},
    "record of bounded strings": {"guided_json": RECORD},
    "json_object": {"response_format": {"type": "json_object"}},
    "regex of free text": {"guided_regex": ".{60,200}"},
}
PROMPT = "今天的实验终于成功了，太棒了！Describe this as JSON with the reason in a long sentence."


class Service:
    def __init__(self, program, model, threads):
        flags = ["--threads", str(threads)] if threads else []
        self.home = tempfile.TemporaryDirectory()
        self.process = subprocess.Popen(
            [program, "serve", "--model", model, "--json", "--port", "0", "--host", "127.0.0.1", *flags],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.address = json.loads(self.process.stdout.readline())["address"]
        while not self.is_ready():
            time.sleep(0.1)

    def is_ready(self):
        """False while the model is loaded."""
        try:
            urllib.request.urlopen(self.address + "/ready", timeout=10).close()
        except urllib.error.HTTPError as error:
            if error.code != 503:
                raise
            return False
        return True

    def ask(self, **fields):
        body = {"messages": [{"role": "user", "content": PROMPT}]} | fields
        request = urllib.request.Request(self.address + "/v1/chat/completions", json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=600) as response:
            return json.loads(response.read())

    def close(self):
        self.process.terminate()
        self.process.wait()


def token_ms(reply):
    n = reply["usage"]["completion_tokens"]
    return (reply["timings"]["total_ms"] - reply["timings"]["first_token_ms"]) / max(1, n - 1)


def measure(service, name, constraint, sampling, rounds):
    pairs, n = [], 0
    for seed in range(rounds + 1):
        fields = sampling | {"seed": seed}
        bound = service.ask(**fields, **constraint, max_tokens=80)
        n = bound["usage"]["completion_tokens"]
        free = service.ask(**fields, max_tokens=n)
        if seed and 2 * free["usage"]["completion_tokens"] >= n:  # the first round warms up
            pairs.append((token_ms(bound), token_ms(free)))
    if not pairs:
        print(f"{name}: the free replies ended before the bound ones")
        return
    bound, free = (statistics.median(side) for side in zip(*pairs))
    ratios = sorted(b / f for b, f in pairs)
    print(f"{name:28} {'greedy' if not sampling['temperature'] else 'sampled':8} {n:3} tokens: "
          f"with {bound:6.2f} ms, without {free:6.2f} ms, ratio {statistics.median(ratios):.3f} "
          f"({ratios[0]:.3f} to {ratios[-1]:.3f}, {len(pairs)} pairs)")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--munia", default=str(ROOT / "build" / "munia"))
    parser.add_argument("--threads", type=int)
    options = parser.parse_args()
    service = Service(options.munia, options.model, options.threads)
    try:
        for name, constraint in CASES.items():
            for temperature in (0, 1):
                measure(service, name, constraint, {"temperature": temperature}, options.rounds)
    finally:
        service.close()


if __name__ == "__main__":
    main()
