#!/usr/bin/env python3
"""One `munia serve` or several beside each other, on one machine: memory and throughput.

  bench/scale.py MODEL.munia [--processes 2] [--texts 48] [--rounds 3] [--munia build/munia]

Memory: what N processes take, copying the packed file (--load copy) and mapping it (--load map), each
after an answer. Rss counts a shared page in every process, Pss gives each its part of it: the sum of Pss
is what the machine spends. Throughput: labels of distinct texts, sent as requests of 8 texts by 8 clients, by one process with all
threads and by N processes with an N-th of the threads each, in turns. Prints medians and their ratio.
Nothing else should run."""

import argparse
import http.client
import json
import os
import statistics
import subprocess
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TEXTS_OF_A_REQUEST = 8
CLIENTS = 8


class Service:
    def __init__(self, program, model, load, threads, cpus=None):
        bound = ["--cpus", ",".join(map(str, cpus))] if cpus else []
        self.process = subprocess.Popen(
            [program, "serve", "--model", model, "--load", load, "--threads", str(threads), *bound,
             "--port", "0", "--json", "--no-request-log"], stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL)
        self.port = int(json.loads(self.process.stdout.readline())["address"].rsplit(":", 1)[1])
        while self.request("GET", "/ready")[0] != 200:
            time.sleep(0.05)

    def request(self, method, path, content=None):
        client = http.client.HTTPConnection("127.0.0.1", self.port)
        body = None if content is None else json.dumps(content)
        client.request(method, path, body, {"Content-Type": "application/json"})
        response = client.getresponse()
        answer = response.status, response.read()
        client.close()
        return answer

    def memory(self):
        """(Rss, Pss) in bytes."""
        lines = Path(f"/proc/{self.process.pid}/smaps_rollup").read_text().splitlines()
        kib = {line.split(":")[0]: int(line.split()[1]) for line in lines[1:]}
        return kib["Rss"] * 1024, kib["Pss"] * 1024

    def stop(self):
        self.process.terminate()
        self.process.wait()
        self.process.stdout.close()


def with_services(services, body):
    try:
        return body(services)
    finally:
        for service in services:
            service.stop()


def use_all(services):
    for service in services:
        status, _ = service.request("POST", "/predict", {"text": "今天真好", "max_tokens": 4})
        assert status == 200
    return [service.memory() for service in services]


def label_all(services, texts):
    """Texts per second, and {text: its answer}."""
    groups = [texts[i:i + TEXTS_OF_A_REQUEST] for i in range(0, len(texts), TEXTS_OF_A_REQUEST)]
    answers, lock = {}, threading.Lock()

    def client(n):
        while True:
            with lock:
                if not groups:
                    return
                group = groups.pop()
            status, body = services[n % len(services)].request("POST", "/classify", {"texts": group})
            assert status == 200, body
            with lock:
                answers.update(zip(group, json.loads(body), strict=True))

    for service in services:  # the task is prepared
        service.request("POST", "/classify", {"texts": ["好"]})
    clients = [threading.Thread(target=client, args=(n,)) for n in range(CLIENTS)]
    begin = time.perf_counter()
    for thread in clients:
        thread.start()
    for thread in clients:
        thread.join()
    return len(texts) / (time.perf_counter() - begin), answers


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--texts", type=int, default=48)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--munia", default=str(ROOT / "build" / "munia"))
    options = parser.parse_args()
    cpus = sorted(os.sched_getaffinity(0))
    n, share = options.processes, len(cpus) // options.processes
    assert share >= 1, f"{len(cpus)} CPUs for {n} processes"
    parts = [cpus[i * share:(i + 1) * share] for i in range(n)]

    mib = 1 << 20
    print(f"| {Path(options.model).name}, {os.path.getsize(options.model) / mib:.0f} MiB | Rss of each, MiB "
          "| sum of Pss, MiB |\n|---|---|---|")
    for load in ("copy", "map"):
        for count in (1, n):
            memory = with_services([Service(options.munia, options.model, load, share)
                                    for _ in range(count)], use_all)
            rss = " ".join(f"{one[0] / mib:.0f}" for one in memory)
            print(f"| {count} × --load {load} | {rss} | {sum(one[1] for one in memory) / mib:.0f} |",
                  flush=True)

    speeds = {"one": [], "several": []}
    for number in range(options.rounds):
        texts = [f"第{number}轮第{i}条评论：房间干净，老板热情，早餐种类不多，但味道都不错，下次还会再来。{i * 7919}"
                 for i in range(options.texts)]
        one, said = with_services([Service(options.munia, options.model, "map", len(cpus))],
                                  lambda services: label_all(services, texts))
        several, same = with_services(
            [Service(options.munia, options.model, "map", share, part) for part in parts],
            lambda services: label_all(services, texts))
        assert said == same, "the answers differ"
        speeds["one"].append(one)
        speeds["several"].append(several)
    one, several = (statistics.median(speeds[key]) for key in ("one", "several"))
    ratios = [b / a for a, b in zip(speeds["one"], speeds["several"], strict=True)]
    print(f"\n1 process of {len(cpus)} threads: {one:.2f} texts/s; {n} processes of {share}: "
          f"{several:.2f} texts/s; ratio {statistics.median(ratios):.2f} "
          f"[{min(ratios):.2f}, {max(ratios):.2f}]; {options.rounds} pairs, equal answers")


if __name__ == "__main__":
    main()
