"""bench/compare: the plan, the goals' arithmetic, the table and plots, and how a peer that fails is
listed. No peer is needed: results are made up here, and the failing peers are small scripts."""

import copy
import json
import os
import re
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "bench" / "compare"), str(ROOT / "bench" / "compare" / "peers")]

import child  # noqa: E402
import environments  # noqa: E402
import goals  # noqa: E402
import plan  # noqa: E402
import render  # noqa: E402
import run_compare  # noqa: E402
import texts  # noqa: E402

SHAPE_BYTES = 928_000_000


def config(name, peer, group="shape", arithmetic="float32", **extra):
    return {"name": name, "peer": peer, "group": group, "arithmetic": arithmetic, "same_weights": True,
            "error": None, **extra}


@pytest.fixture
def raw():
    """Three rounds; the machine slows down by a factor in each, which ratios must not see."""
    seconds = {
        "munia exact": {"prefill 64": 0.2, "prefill 512": 1.5, "decode": 1.0, "decode sampled": 1.2,
                        "load": 0.8},
        "munia exact, real file": {"prefill 512": 1.0, "decode": 0.5},
        "transformers float32": {"prefill 64": 0.4, "prefill 512": 2.4, "decode": 4.0, "load": 3.0},
        "OpenVINO f32": {"prefill 64": 0.3, "prefill 512": 2.25, "decode": 3.0, "load": 20.0},
        "OpenVINO bf16": {"prefill 64": 0.2, "prefill 512": 1.0, "decode": 2.0, "load": 18.0},
        "llama.cpp Q4_K_M, real file": {"prefill 512": 2.0, "decode": 1.5},
        "munia predict": {"predict": 1.0, "emotion": 0.05},
        "article's script": {"predict": 4.5, "emotion": 0.6},
    }
    samples = [{"round": i, "config": name, "metric": metric, "value": value * slower}
               for i, slower in enumerate((1.0, 1.5, 3.0))
               for name, metrics in seconds.items() for metric, value in metrics.items()]
    samples += [{"round": i, "config": "munia exact", "metric": "peak_mb", "value": 1200.0}
                for i in range(3)]
    samples += [{"round": 0, "config": "munia predict", "metric": "bulk", "value": 30.0},
                {"round": 0, "config": "article's script", "metric": "bulk", "value": 10.0}]
    samples += [{"round": i, "config": "munia exact", "metric": "share prefill 512", "value": share}
                for i, share in enumerate((0.95, 0.9, 0.7))]
    ids = list(range(16))
    return {
        "format": 1, "date": "2026-01-02", "threads": 2, "file": "sample.json",
        "machine": {"cpu": "Test <CPU> & Co", "cores": 2, "features": ["avx2", "avx512f"],
                    "shape_bf16_bytes": SHAPE_BYTES},
        "samples": samples,
        "configs": [
            config("munia exact", "munia", isa="avx512", greedy=ids),
            config("munia exact, real file", "munia", "real"),
            config("transformers float32", "transformers", greedy=[*ids[:9], 99, *ids[10:]]),
            config("OpenVINO f32", "openvino", greedy=ids),
            config("OpenVINO bf16", "openvino", arithmetic="bfloat16", greedy=ids) | {
                "same_weights": False},
            config("CTranslate2 int8", "ctranslate2", arithmetic="int8") | {
                "error": "install or convert: no such `package`"},
            config("llama.cpp Q4_K_M, real file", "llamacpp", "real", "mixed"),
            config("munia predict", "munia", "e2e", labels=["正面", "负面", "正面"],
                   replies=[{"reply": "好", "tokens": 1}]),
            config("article's script", "transformers", "e2e", labels=["正面", "正面"],
                   replies=[{"reply": "好", "tokens": 1}]),
        ],
    }


# The plan.
def test_rounds_are_interleaved():
    assert plan.interleave("ABC", 2) == [(0, "A"), (0, "B"), (0, "C"), (1, "A"), (1, "B"), (1, "C")]


def test_a_resumed_run_does_only_what_is_missing():
    assert plan.interleave("ABC", 2, done=[(0, "A"), (0, "C"), (1, "B")]) == [
        (0, "B"), (1, "A"), (1, "C")]


def test_only_keeps_munia_and_the_peers_named():
    assert {c.peer for c in plan.select(plan.CONFIGS, ["llamacpp"], False)} == {"munia", "llamacpp"}
    assert {c.peer for c in plan.select(plan.CONFIGS, [], False)} == set(plan.PEERS)
    with pytest.raises(ValueError, match="unknown peer vllm: known are munia, transformers"):
        plan.select(plan.CONFIGS, ["vllm"], False)


def test_rows_without_amx_are_there_only_where_there_is_amx():
    assert not any(c.needs_amx for c in plan.select(plan.CONFIGS, [], False))
    assert any(c.options == {"isa": "avx512"} for c in plan.select(plan.CONFIGS, [], True))


def test_every_configuration_can_be_made_and_measured():
    names = [c.name for c in plan.CONFIGS]
    assert len(names) == len(set(names))
    assert set(plan.REFERENCE_OF_GROUP.values()) < set(names)
    for c in plan.CONFIGS:
        assert c.artifact in plan.ARTIFACTS
        assert (ROOT / "bench" / "compare" / "peers" / f"{c.peer}_peer.py").exists()
        assert all(hasattr(run_compare.Run, f"job_{job}") for job in c.jobs)
    for recipe in plan.ARTIFACTS.values():
        assert set(recipe.after) <= plan.ARTIFACTS.keys()


def test_peers_are_pinned():
    for file in (ROOT / "bench" / "compare" / "peers").glob("requirements-*.txt"):
        lines = [x for x in file.read_text().splitlines() if x and not x.startswith("#")]
        assert lines and all(re.fullmatch(r"[\w.-]+==[\w.]+", x) for x in lines), file.name


def test_bulk_texts_differ():
    found = texts.thirty_token_texts(plan.N_BULK_TEXTS)
    assert len(set(found)) == plan.N_BULK_TEXTS
    with pytest.raises(ValueError):
        texts.thirty_token_texts(10_000)


# The goals.
def verdict(raw, key):
    return next(v for v in goals.verdicts(raw) if v.key == key)


def test_a_ratio_pairs_the_rounds(raw):
    # 2.25/1.5 in every round; medians of unpaired rounds would agree here only by luck.
    prefill = verdict(raw, "prefill")
    assert prefill.value == pytest.approx(1.5) and prefill.against == "OpenVINO f32"
    assert prefill.state == "pass"
    # One round less on one side must not move it.
    raw["samples"] = [s for s in raw["samples"] if (s["config"], s["round"]) != ("munia exact", 2)]
    assert verdict(raw, "prefill").value == pytest.approx(1.5)


def test_the_best_peer_is_of_the_same_arithmetic(raw):
    decode = verdict(raw, "decode")
    assert decode.against == "OpenVINO f32" and decode.value == pytest.approx(3.0)
    assert decode.state == "pass"
    assert verdict(raw, "decode_sampled").value == pytest.approx(2.5)
    assert verdict(raw, "real_prefill").value == pytest.approx(2.0)
    assert verdict(raw, "real_prefill").state == "short"
    assert verdict(raw, "real_decode").state == "stretch"


def test_limits_that_may_not_be_exceeded(raw):
    assert verdict(raw, "load").value == pytest.approx(1.2)  # median of 0.8, 1.2, 2.4
    assert verdict(raw, "load").state == "short"
    memory = verdict(raw, "memory")
    assert memory.value == pytest.approx(1.2e9 / (SHAPE_BYTES + 513 * 196608))
    assert memory.state == "pass"
    raw["samples"] = [s | {"value": 1000.0} if s["metric"] == "peak_mb" else s for s in raw["samples"]]
    assert verdict(raw, "memory").state == "stretch"


def test_end_to_end_goals(raw):
    assert verdict(raw, "emotion_plain").value == pytest.approx(12)
    assert verdict(raw, "predict_plain").state == "stretch"
    assert verdict(raw, "bulk_plain").value == pytest.approx(3) and \
        verdict(raw, "bulk_plain").state == "short"


def test_shares_come_from_munia_bench(raw):
    assert verdict(raw, "prefill_share").value == pytest.approx(0.9)
    assert verdict(raw, "decode_share").state == "open"


def test_what_was_not_measured_is_open_and_never_passed():
    empty = {"machine": {}, "configs": [], "samples": []}
    assert {v.state for v in goals.verdicts(empty)} == {"open"}


def test_with_amx_both_rungs_have_their_goals(raw):
    raw["configs"][0]["isa"] = "amx"
    keys = {v.key for v in goals.verdicts(raw)}
    assert {"prefill_amx", "prefill_amx_bf16", "prefill", "emotion_amx", "emotion_plain"} <= keys
    assert verdict(raw, "prefill").state == "open"  # the avx512 row did not run
    assert verdict(raw, "prefill_amx").value == pytest.approx(1.5)


# Table and plots.
def test_rendering(raw, tmp_path, capsys):
    path = tmp_path / "sample.json"
    path.write_text(json.dumps(raw), encoding="utf-8")
    for name in ("README.md", "README.zh.md"):
        (tmp_path / name).write_text(f"before\n{render.BEGIN}\nold\n{render.END}\nafter\n")
    render.render_files(path, readme=True, root=tmp_path)
    text = (tmp_path / "sample.md").read_text(encoding="utf-8")
    assert capsys.readouterr().out.strip() == text.strip()
    # Medians: 512 tokens in 1.5 × 1.5 s.
    assert re.search(r"\| \*\*munia exact\*\* \| float32 \| 213 \| 228 \| 21.3 \| 1.20 \| 1,200 \|  \|", text)
    assert re.search(r"\| transformers float32 .*\| 9/16 \|", text)
    assert re.search(r"\| OpenVINO f32 .*\| 16/16 \|", text)
    assert re.search(r"\| OpenVINO bf16 .*\|  \|", text), "other weights are not compared"
    assert re.search(r"\| article's script .*\| 1/1; 1/2 \|", text)
    assert "Did not run:\n- CTranslate2 int8: `install or convert: no such 'package'`" in text
    for key in render.PLOTS:
        picture = (tmp_path / f"sample-{key}.svg").read_text(encoding="utf-8")
        root = ElementTree.fromstring(picture)
        assert len(root.findall("{*}rect")) == 4, "a bar each, and none for what did not run"
        assert "prefers-color-scheme:dark" in picture
        assert f"sample-{key}.svg" in text
    for name, word in (("README.md", "Did not run"), ("README.zh.md", "未能运行")):
        readme = (tmp_path / name).read_text(encoding="utf-8")
        assert readme.startswith(f"before\n{render.BEGIN}\n") and readme.endswith(f"{render.END}\nafter\n")
        assert "old" not in readme and word in readme
        assert "bench/results/sample-decode.svg" in readme
    again = (tmp_path / "README.md").read_text(encoding="utf-8")
    render.render_files(path, readme=True, root=tmp_path)
    assert (tmp_path / "README.md").read_text(encoding="utf-8") == again


@pytest.mark.parametrize("text", ["none", render.BEGIN, f"{render.END}{render.BEGIN}",
                                  f"{render.BEGIN}{render.END}{render.END}"])
def test_a_readme_without_its_markers_is_left_alone(text):
    with pytest.raises(ValueError, match="compare:begin"):
        render.replace_section(text, "body")


def test_other_formats_are_refused(tmp_path):
    path = tmp_path / "x.json"
    path.write_text('{"format": 7}')
    assert subprocess.run([sys.executable, ROOT / "bench/compare/render.py", path],
                          capture_output=True).returncode == 1


def test_the_readmes_have_their_markers():
    for name in ("README.md", "README.zh.md"):
        render.replace_section((ROOT / name).read_text(encoding="utf-8"), "body")


# Peers that fail.
def ask(tmp_path, code, timeout_s=20):
    script = tmp_path / "peer.py"
    script.write_text(code)
    worker = child.Child([sys.executable, script], tmp_path / "log", 1)
    try:
        return worker.ask("version", timeout_s=timeout_s)
    finally:
        worker.close()


PROTOCOL = f"import sys; sys.path.insert(0, {str(ROOT / 'bench/compare/peers')!r}); import protocol\n"


def test_a_peer_answers_by_the_protocol(tmp_path):
    code = PROTOCOL + "class P(protocol.Peer):\n  def version(self): print('noise'); return 'p 1'\n" \
        "protocol.serve(P)"
    assert ask(tmp_path, code) == {"version": "p 1"}


@pytest.mark.parametrize("code, message", [
    (PROTOCOL + "class P(protocol.Peer):\n  def version(self): raise OSError('no wheel')\nprotocol.serve(P)",
     "version: OSError: no wheel"),
    ("import no_such_library", "exit status 1: ModuleNotFoundError: No module named 'no_such_library'"),
    ("import os; os.kill(os.getpid(), 4)", "ended with signal SIGILL"),
    ("input(); input()", "no answer after 1 s"),
])
def test_a_failing_peer_says_why(tmp_path, code, message):
    with pytest.raises(environments.Failed, match=message):
        ask(tmp_path, code, timeout_s=1 if "no answer" in message else 20)


def test_a_command_that_fails_gives_its_last_error(tmp_path):
    with pytest.raises(environments.Failed, match="^ERROR: no matching version$"):
        environments.run_logged(["sh", "-c", "echo ERROR: no matching version; echo bye; exit 1"],
                                tmp_path / "log")
    with pytest.raises(environments.Failed, match="No such file"):
        environments.run_logged(["./no-such-program"], tmp_path / "log")


@pytest.fixture
def run(tmp_path, monkeypatch):
    """run_compare.Run whose models are there and whose children answer by the script in `peers`."""
    monkeypatch.setattr(run_compare, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(run_compare, "WORK", tmp_path)
    monkeypatch.setattr(sys, "argv", ["run_compare.py", "--only", "llamacpp", "--rounds", "2"])
    monkeypatch.setenv("MUNIA_BIN", "munia-is-not-needed")
    made = run_compare.Run(run_compare.parse_options())
    made.configs = [c for c in made.configs if c.name in ("munia exact", "llama.cpp F32", "llama.cpp BF16")]
    model = tmp_path / "model"
    model.write_text("x")
    monkeypatch.setattr(made, "artifact", lambda key: model)
    monkeypatch.setattr(made, "greedy_prompt", lambda group: [1, 2])
    monkeypatch.setattr(made.environments, "directory", lambda name: tmp_path)
    monkeypatch.setattr(made.environments, "python", lambda name: sys.executable)
    return made


def measured(self, number, config):
    if config.name == "llama.cpp BF16" and number == 1:
        raise environments.Failed("load: the process ended with signal SIGILL")
    self.raw["samples"].append({"round": number, "config": config.name, "metric": "decode", "value": 1.0})


def test_a_peer_that_fails_is_listed_and_the_others_go_on(run, monkeypatch):
    real = run.artifact

    def artifact(key):
        if key == "shape-F32":
            raise environments.Failed("ERROR: no wheel")
        return real(key)

    monkeypatch.setattr(run, "artifact", artifact)
    monkeypatch.setattr(run_compare.Run, "measure", measured)
    run.run()
    errors = {name: entry["error"] for name, entry in run.entries.items() if entry["error"]}
    assert errors == {"llama.cpp F32": "install or convert: ERROR: no wheel",
                      "llama.cpp BF16": "run: load: the process ended with signal SIGILL"}
    saved = json.loads(run.path.read_text(encoding="utf-8"))
    done = [(s["round"], s["config"]) for s in saved["samples"]]
    assert done == [(0, "munia exact"), (0, "llama.cpp BF16"), (1, "munia exact")]
    saved["file"] = run.path.name
    assert "- llama.cpp F32: `install or convert: ERROR: no wheel`" in render.section(
        copy.deepcopy(saved), "en", str, True)


def test_an_interrupt_keeps_the_samples_and_ends_the_child(tmp_path):
    """A driver with a child that never answers, interrupted as by Ctrl-C."""
    code = f"""
import sys; sys.path.insert(0, {str(ROOT / 'bench/compare')!r})
import run_compare, child
from pathlib import Path
run_compare.RESULTS = run_compare.WORK = Path({str(tmp_path)!r})
sys.argv = ["run_compare.py", "--only", "munia"]
def forever(self):
    self.raw["samples"].append({{"round": 0, "config": "munia exact", "metric": "load", "value": 1.0}})
    self.child = child.Child(["sleep", "1000"], Path({str(tmp_path / 'log')!r}), 1)
    print(self.child.process.pid, flush=True)
    self.child.ask("version", timeout_s=1000)
run_compare.Run.run = forever
sys.exit(run_compare.main())
"""
    driver = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, start_new_session=True)
    pid = int(driver.stdout.readline())
    driver.send_signal(signal.SIGINT)
    _, errors = driver.communicate(timeout=60)
    assert driver.returncode == 130 and "--resume" in errors
    for _ in range(100):
        if not Path(f"/proc/{pid}").exists():
            break
        time.sleep(0.05)
    else:
        os.kill(pid, signal.SIGKILL)
        pytest.fail("the child is still there")
    (saved,) = tmp_path.glob("*.json")
    assert json.loads(saved.read_text(encoding="utf-8"))["samples"]
