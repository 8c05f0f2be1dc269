"""munia as its users run it. Speed comes from `munia bench`, one process for each load: it warms up
and measures as the common protocol does. Greedy ids, sampling and the end-to-end rows come from
`generate`, `predict` and `classify` fed through a pipe; reading and writing JSON is in their time.
"""

import json
import os
import subprocess
import time
from pathlib import Path

from protocol import Peer, peak_memory_mb, random_ids, serve
from texts import LABELS

ROOT = Path(__file__).resolve().parents[3]
TASK = ("--task", "sentiment")  # the articles' prompt, as the peers are asked


class Pipe:
    """A command that answers each line on standard input with a line on standard output."""

    def __init__(self, command, environment):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        env=environment, encoding="utf-8")

    def send(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def receive(self):
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"munia ended with exit status {self.process.wait()}; "
                               "see its line on standard error")
        return json.loads(line)

    def ask(self, line):
        """(answer, seconds)"""
        begin = time.perf_counter()
        self.send(line)
        answer = self.receive()
        return answer, time.perf_counter() - begin

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Munia(Peer):
    def __init__(self):
        self.program = os.environ.get("MUNIA_BIN") or str(ROOT / "build" / "munia")
        self.peak = 0.0
        self.results = None

    def version(self):
        return subprocess.run([self.program, "--version"], capture_output=True, text=True,
                              check=True).stdout.split("\n")[0]

    def do_load(self, model, threads, isa=None, weights=None):
        """Nothing is loaded here: each call starts the command that it needs, and `bench` tells its
        load time when it has run."""
        self.flags = ["--model", model, "--threads", str(threads)]
        self.flags += ["--weights", weights] if weights else []
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("MUNIA_")}
        if isa:
            self.environment["MUNIA_ISA"] = isa
        return {"seconds": None}

    def command(self, name, *flags):
        return [self.program, name, *self.flags, *flags]

    def do_speed(self, prefills, n_decode, seed):
        """All of one round, by one `munia bench`: seconds as in the other peers, its load time, its
        peak memory, and what it says of itself."""
        command = self.command("bench", "--json", "-p", ",".join(map(str, prefills)),
                               "-n", str(n_decode), "-r", "1", "--seed", str(seed))
        done = subprocess.run(command, capture_output=True, text=True, env=self.environment)
        if done.returncode != 0:
            raise RuntimeError(done.stderr.strip().split("\n")[-1])
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        result = {}
        for line in lines:
            if line["test"] == "prefill":
                result[f"prefill {line['n_tokens']}"] = line["n_tokens"] / line["tokens_per_second"]
            elif line["test"] == "decode":
                result["decode"] = line["n_tokens"] / line["tokens_per_second"]
            # Its own share of what this machine can do, measured in the same process.
            for key, value in line.items():
                if key.startswith("percent_of_") and value is not None:
                    what = line["test"] if line["test"] == "decode" else f"prefill {line.get('n_tokens')}"
                    if line["test"] in ("prefill", "decode"):
                        result[f"share {what}"] = value / 100
        summary = next(line for line in lines if line["test"] == "summary")
        result |= {"load": summary["load_seconds"],
                   "peak_mb": summary["peak_memory_bytes"] / 1e6 if summary["peak_memory_bytes"]
                   else None,
                   "about": {key: summary.get(key) for key in
                             ("isa", "weights", "weight_bytes", "logits_hash")}}
        return result

    def do_sampled(self, n_prompt, n, seed):
        """Decode with all logits: drawn at temperature 1 from the whole vocabulary. Seconds of n
        tokens, as the difference of two requests, so pipe and prompt cancel."""
        pipe = Pipe(self.command("generate", "--jsonl"), self.environment)

        def request(offset, n_new):
            line = json.dumps({"ids": random_ids(n_prompt, seed + offset), "max_tokens": n_new,
                               "temperature": 1.0, "top_p": 1.0, "seed": seed})
            answer, seconds = pipe.ask(line)
            if len(answer["ids"]) != n_new:
                raise RuntimeError(f"the text ended after {len(answer['ids'])} tokens")
            return seconds

        request(500, 1 + n)
        short, full = request(1, 1), request(2, 1 + n)
        pipe.close()
        return {"seconds": full - short}

    def do_greedy(self, ids, n):
        pipe = Pipe(self.command("generate", "--jsonl"), self.environment)
        answer, _ = pipe.ask(json.dumps({"ids": ids, "max_tokens": n, "temperature": 0}))
        pipe.close()
        return {"ids": answer["ids"]}

    def do_predict(self, texts, max_tokens):
        pipe = Pipe(self.command("predict", *TASK, "--json", "-i", "-", "--max-tokens", str(max_tokens)),
                    self.environment)
        pipe.ask("你好。")
        rows = []
        for text in texts:
            answer, seconds = pipe.ask(text)
            rows.append({"seconds": seconds, "reply": answer["reply"],
                         "reply_tokens": answer["usage"]["completion_tokens"],
                         "emotion_seconds": answer["timings"]["emotion_ms"] / 1e3,
                         "emotion": answer["emotion"]})
        self.peak = peak_memory_mb(pipe.process.pid)
        pipe.close()
        return {"rows": rows}

    def do_emotion(self, texts):
        pipe = Pipe(self.command("classify", *TASK, "--json", "-i", "-"), self.environment)
        pipe.ask(texts[0])
        seconds = [pipe.ask(text)[1] for text in texts[1:]]
        pipe.close()
        return {"seconds": seconds}

    def do_bulk(self, texts, labels):
        if labels != LABELS:
            raise ValueError("munia's task `sentiment` has its own labels")
        pipe = Pipe(self.command("classify", *TASK, "--json", "-i", "-"), self.environment)
        pipe.ask("你好。")
        begin = time.perf_counter()
        for text in texts:  # far less than a pipe holds
            pipe.send(text)
        found = [pipe.receive()["label"] for _ in texts]
        seconds = time.perf_counter() - begin
        pipe.close()
        return {"texts_per_second": len(texts) / seconds, "labels": found}

    def do_memory(self):
        return {"peak_mb": self.peak}


if __name__ == "__main__":
    serve(Munia)
