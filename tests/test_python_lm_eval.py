"""What needs many packages, and so a venv of its own (tools/venv.sh lmeval): the lm-eval harness on
`munia serve` gives the figures of `munia score`, and Hugging Face's datasets label their rows."""

import json
import math
import os
import subprocess
from pathlib import Path

import pytest
from munia_cli import Munia, json_lines
from munia_process import ROOT
from munia_server import Server
from python_package import QWEN

import munia

PYTHON = ROOT / "build" / "venv-lmeval" / "bin" / "python"
DATA = ROOT / "tests" / "data" / "lm_eval"


def python():
    if not PYTHON.exists():
        pytest.skip("build/venv-lmeval is not there: tools/venv.sh lmeval makes it")
    return str(PYTHON)


DATASETS = """
import sys
import datasets, munia
model = munia.Model(sys.argv[1])
texts = ["很好", "糟糕", "还行"] * 4
rows = datasets.Dataset.from_dict({"review": texts})
label = lambda rows: {"label": [one.label for one in model.classify(rows["review"])]}
labelled = rows.map(label, batched=True, batch_size=5)
assert labelled["label"][:] == [one.label for one in model.classify(texts)]
try:
    rows.map(label, batched=True, batch_size=5, num_proc=2)
except munia.ModelError as error:
    print("told:", error)
"""


@pytest.mark.long
def test_data_sets(tmp_path):
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "hf")}
    done = subprocess.run([python(), "-c", DATASETS, str(QWEN)], capture_output=True, text=True,
                          env=environment, timeout=120)
    assert done.returncode == 0 and "told: " in done.stdout, done.stdout + done.stderr


@pytest.mark.long
def test_the_harness_gives_the_figures_of_score(tmp_path):
    task = (DATA / "munia_feelings.yaml").read_text(encoding="utf-8")
    (tmp_path / "munia_feelings.yaml").write_text(task.replace("{directory}", str(DATA)))
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1",
                                "HF_HOME": str(tmp_path / "hf"), "TOKENIZERS_PARALLELISM": "false"}
    environment.pop("PYTHONPATH", None)
    with Server(tmp_path) as server:
        arguments = (f"model={QWEN.name},base_url={server.address}/v1/completions,tokenizer={QWEN},"
                     "tokenizer_backend=huggingface,num_concurrent=2,max_length=1024")
        done = subprocess.run(
            [python(), "-m", "lm_eval", "--model", "local-completions", "--model_args", arguments,
             "--tasks", "munia_feelings", "--include_path", str(tmp_path), "--log_samples",
             "--output_path", str(tmp_path / "out")],
            capture_output=True, text=True, env=environment, cwd=tmp_path)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    (samples,) = Path(tmp_path / "out").rglob("samples_munia_feelings_*.jsonl")
    (results,) = Path(tmp_path / "out").rglob("results_*.json")
    rows = [json.loads(line) for line in samples.read_text(encoding="utf-8").splitlines()]
    rows.sort(key=lambda row: row["doc_id"])
    assert len(rows) == len((DATA / "feelings.jsonl").read_text(encoding="utf-8").splitlines())

    model = munia.Model(QWEN)
    requests = []
    for row in rows:
        contexts = {arguments["arg_0"] for arguments in row["arguments"].values()}
        (context,) = contexts
        prompt = model.tokenize(context)
        # The harness tokenizes context and choice together.
        both = [model.tokenize(context + arguments["arg_1"])
                for arguments in row["arguments"].values()]
        assert all(ids[:len(prompt)] == prompt for ids in both)
        requests.append({"ids": prompt, "continuations": [ids[len(prompt):] for ids in both]})
    lines = Munia(tmp_path).lines("score", "--jsonl", stdin=json_lines(*requests))
    n_right = 0
    for row, line in zip(rows, lines, strict=True):
        theirs = [float(response[0][0]) for response in row["resps"]]
        for one, other in zip(theirs, line["logprobs"], strict=True):
            assert math.isclose(one, other, rel_tol=1e-6, abs_tol=1e-6), (theirs, line)
        n_right += line["logprobs"].index(max(line["logprobs"])) == row["doc"]["label"]
    figures = json.loads(results.read_text(encoding="utf-8"))["results"]["munia_feelings"]
    assert figures["acc,none"] == pytest.approx(n_right / len(rows))
