"""What bench measures beyond single speeds, and the thread counts that tune finds and keeps. Nothing
here depends on how fast the machine is."""

import json
import os
import re
import xml.etree.ElementTree as ElementTree

import pytest

from munia_cli import LLAMA_GGUF, QWEN, QWEN_GGUF, Munia

FAST = ("-n", "3", "-r", "2", "--json")


def texts_of(svg):
    return [element.text for element in ElementTree.parse(svg).iter() if element.text]


# --- bench ------------------------------------------------------------------------------------


def test_positions(munia, tmp_path):
    plot = tmp_path / "positions.svg"
    rows = munia.lines("bench", "--positions", "96,32,64", *FAST, "--plot", plot)
    assert [row["test"] for row in rows] == ["limits", *3 * ["position"], "summary"]
    config = json.loads((QWEN / "config.json").read_text())
    head_dim = config["hidden_size"] // config["num_attention_heads"]
    per_token = 2 * 4 * config["num_hidden_layers"] * config["num_key_value_heads"] * head_dim
    assert rows[-1]["kv_bytes_per_token"] == per_token
    for row, position in zip(rows[1:4], (32, 64, 96)):
        assert row["position"] == position
        assert row["kv_bytes"] == row["kv_bytes_in_use"] == position * per_token
        assert row["prefill_ms_per_token"] > 0 and row["decode_ms_per_token"] > 0
        assert row["bytes_per_token"] > rows[1]["bytes_per_token"] or position == 32
    assert all(row["time_against_bytes"] > 0 for row in rows[1:-1])
    assert {"prefill time per token", "decode time per token", "KV cache"} <= set(texts_of(plot))


def test_positions_beyond_the_model_are_left_out(munia):
    result = munia.run("bench", "--positions", "32,900000", *FAST)
    assert result.returncode == 0 and "left out" in result.err
    rows = [json.loads(line) for line in result.out.splitlines()]
    assert [row["position"] for row in rows if row["test"] == "position"] == [32]
    end = json.loads((QWEN / "config.json").read_text())["max_position_embeddings"]
    rows = munia.lines("bench", "--positions", f"32,{end}", *FAST)
    assert [row["position"] for row in rows if row["test"] == "position"] == [32, end - 3]


def test_sequences(munia, tmp_path):
    plot = tmp_path / "sequences.svg"
    rows = munia.lines("bench", "--sequences", "1,4,20", *FAST, "--plot", plot)
    found = [row for row in rows if row["test"] == "sequences"]
    assert [row["sequences"] for row in found] == [1, 4, 20]
    assert all(row["tokens_per_second_each"] * row["sequences"]
               == pytest.approx(row["tokens_per_second"]) for row in found)
    assert "total decode speed" in texts_of(plot)


def test_ladder(munia, tmp_path):
    plot = tmp_path / "ladder.svg"
    rows = munia.lines("bench", "--ladder", *FAST, "--threads", "2", "--plot", plot)
    steps = [row for row in rows if row["test"] == "ladder"]
    assert [(s["kv_cache"], s["warm"], s["streaming"], s["threads"]) for s in steps] == [
        (False, False, False, 1), (True, False, False, 1), (True, True, False, 1),
        (True, True, True, 1), (True, True, True, 2)]
    for step in steps[:3]:  # nothing is seen before the whole reply is there
        assert step["first_text_ms"] == step["latency_ms"]
    for step in steps[3:]:
        assert step["first_text_ms"] < step["latency_ms"]
    assert "+ KV cache" in texts_of(plot)


def test_bench_refuses_what_it_cannot_do(munia, tmp_path):
    for flags, word in [(("--positions", "64,x"), "64,x"), (("--sequences", "0"), "from 1 to"),
                        (("--sequences", "33"), "33"), (("-p", "8,"), "8,")]:
        assert word in munia.fails(2, "bench", *flags)
    missing = tmp_path / "none" / "plot.svg"
    assert str(missing) in munia.fails(1, "bench", "--plot", missing)


# --- tune -------------------------------------------------------------------------------------


def threads_of(munia, *flags, **options):
    rows = munia.lines("config", "--json", *flags, **options)
    return {row["key"]: row for row in rows}


def test_tune_measures_and_keeps(munia, tmp_path):
    plot = tmp_path / "tune.svg"
    rows = munia.lines("tune", "-p", "16", *FAST, "--plot", plot)
    table, best = rows[:-1], rows[-1]
    counts = [row["threads"] for row in table]
    assert counts[0] == 1 and counts == sorted(set(counts))
    assert counts[-1] <= len(os.sched_getaffinity(0))
    for row in table:
        for key in ("mean_latency_ms", "mean_first_token_ms", "prefill_tokens_per_second",
                    "decode_tokens_per_second", "gbyte_per_second", "peak_memory_bytes",
                    "cpus_busy"):
            assert row[key] > 0, key
    assert best["threads"] in counts and 1 <= best["decode_threads"] <= best["threads"]
    assert {"mean latency", "prefill", "decode"} <= set(texts_of(plot))
    assert os.path.dirname(best["stored"]) == str(tmp_path / ".cache" / "munia")
    found = threads_of(munia)
    for key in ("threads", "decode_threads"):
        assert (found[key]["value"], found[key]["origin"], found[key]["from"]) == (
            str(best[key]), "tuned", best["stored"])


def store_other_count(munia):
    """Counts that no other rule would give, so that their use shows."""
    path = munia.lines("tune", "-p", "8", "-n", "1", "-r", "1", "--counts", "3,5", "--json")[-1][
        "stored"]
    with open(path, encoding="utf-8") as file:
        content = json.load(file)
    content["entries"][0] |= {"threads": 5, "decode_threads": 3}
    with open(path, "w", encoding="utf-8") as file:
        json.dump(content, file)
    return path, content


def summary(munia, *flags, **options):
    row = munia.lines("bench", "-p", "4", "-n", "0", "-r", "1", "--json", *flags, **options)[-1]
    return row["threads"], row["decode_threads"]


def test_tuned_counts_are_used_for_this_case_alone(munia, tmp_path):
    path, content = store_other_count(munia)
    assert summary(munia) == (5, 3)
    assert "measured by `munia tune`" in munia.run("doctor").out
    # Whatever was said comes first: flag, environment, config file.
    assert summary(munia, "--threads", "2") == (2, 2)
    assert summary(munia, "--decode-threads", "1") == (5, 1)
    assert summary(munia, env={"MUNIA_THREADS": "4"}) == (4, 4)
    config = tmp_path / "c.toml"
    config.write_text("threads = 2\n")
    assert summary(munia, "--config", config) == (2, 2)
    found = threads_of(munia, "--config", config)
    assert found["threads"]["origin"] == "config file"
    # Another model, rung, affinity or machine was not measured.
    other = Munia(tmp_path, LLAMA_GGUF)
    assert threads_of(other)["threads"]["origin"] == "default"
    assert threads_of(munia, "--isa", "scalar")["threads"]["origin"] == "default"
    cpu = min(os.sched_getaffinity(0))
    assert threads_of(munia, "--cpus", cpu)["threads"]["origin"] == "default"
    if len(os.sched_getaffinity(0)) > 1:
        found = threads_of(munia, preexec_fn=lambda: os.sched_setaffinity(0, {cpu}))
        assert found["threads"]["origin"] == "default"
    for key in ("machine", "quota", "stamp"):
        changed = json.loads(json.dumps(content))
        changed["entries"][0][key] = "other"
        with open(path, "w", encoding="utf-8") as file:
            json.dump(changed, file)
        assert threads_of(munia)["threads"]["origin"] == "default", key
    with open(path, "w", encoding="utf-8") as file:
        file.write("{")  # damaged: as if it were not there
    assert threads_of(munia)["threads"]["origin"] == "default"


def test_a_changed_model_is_not_the_tuned_one(munia, tmp_path):
    copy = tmp_path / "copy.gguf"
    copy.write_bytes(QWEN_GGUF.read_bytes())
    mine = Munia(tmp_path, copy)
    mine.lines("tune", "-p", "8", "-n", "1", "-r", "1", "--counts", "1", "--json")
    assert threads_of(mine)["threads"]["origin"] == "tuned"
    os.utime(copy, (1, 1))
    assert threads_of(mine)["threads"]["origin"] == "default"


def test_threads_give_the_same_logits_in_both_phases(munia):
    lines = json.dumps({"text": "今天", "max_tokens": 12}) + "\n"
    texts = {munia.run("generate", "--jsonl", "--threads", threads, "--decode-threads", decode,
                       stdin=lines).out for threads, decode in (("1", "1"), ("4", "1"), ("4", "3"))}
    assert len(texts) == 1


def test_tune_keeps_nothing_when_told(munia, tmp_path):
    best = munia.lines("tune", "-p", "8", "-n", "1", "-r", "1", "--counts", "1", "--no-store",
                       "--json")[-1]
    assert best["stored"] is None and not (tmp_path / ".cache").exists()
    assert re.search("positions", munia.fails(2, "tune", "-p", "900000"))
