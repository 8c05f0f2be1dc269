"""munia.ray.classify_dataset on a real Ray of this machine: the rows of a data set get what the command
line gives them, whatever dies meanwhile."""

import json

import pytest
from http_front import wait_until
from munia_cli import Munia, json_lines
from munia_process import real_model
from ray_cluster import Cluster, kill, maps, pack, run

TASK = """
name = "mood"
system = "判断心情，只回答一个词。"
template = "{text}"
labels = [ { name = "好", texts = ["高兴", "开心"] }, { name = "坏", texts = ["难过"] } ]
"""
LABELS = ("label", "confidence", "p_正面", "p_负面")

# Reads what write_rows wrote, in the files' order, and tells it with every digit.
DUMP = """
import glob, pyarrow.parquet
def dump(directory, path):
    with open(path, "w") as out:
        for name in sorted(glob.glob(directory + "/*.parquet")):
            for row in pyarrow.parquet.read_table(name).to_pylist():
                out.write(json.dumps(row, ensure_ascii=False) + "\\n")
"""


def read_lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]


def by_command_line(munia, path, out, *flags):
    done = munia.run("classify", "-i", path, "-o", out, *flags, timeout=600)
    assert done.returncode == 0, done.err
    return read_lines(out)


def test_what_is_refused_before_anything_starts(tmp_path):
    said = run(tmp_path, """
        import munia.ray
        def told(call, *arguments, **named):
            try:
                call(*arguments, **named)
            except Exception as error:
                return type(error).__name__ + ": " + str(error)
            return "nothing"
        classify, read, serve = munia.ray.classify_dataset, munia.ray.read_rows, munia.ray.serve_app
        say(told=[
            told(classify, "a.csv", "m", errors="ignore"),
            told(classify, "a.csv", "m", long_texts="cut"),
            told(classify, "a.csv", "m", cpus=0),
            told(classify, "a.csv", "m", retries=-1),
            told(classify, "a.csv", "m", task="no-such-task"),
            told(read, "rows.xlsx"),
            told(read, ["a.csv", "b.parquet"]),
            told(read, "rows", format="orc"),
            told(serve, "m", flags=["--port=1"]),
            told(serve, "m", cpus=0),
        ])
    """)
    for told, wanted in zip(said[0]["told"], (
            'ValueError: errors is \'ignore\'; it must be "raise" or "column"',
            "ValueError: long_texts is 'cut'; it must be",
            "ValueError: cpus is 0; it must be at least 1",
            "ValueError: retries is -1; it must be at least 0",
            "ValueError: ",
            "ValueError: rows.xlsx: its ending is none of .parquet",
            "ValueError: 2 formats in one data set: a.csv, b.parquet",
            "ValueError: format is 'orc'",
            "ValueError: flags holds --port=1, which serve_app sets itself",
            "ValueError: cpus is 0; it must be at least 1"), strict=True):
        assert told.startswith(wanted), told
    assert "no-such-task" in said[0]["told"][4]


@pytest.mark.long
def test_20000_rows_with_a_killed_actor(tmp_path, munia):
    """Parquet in, Parquet out; one of two actors is killed when the first rows are written."""
    rows = [{"id": i, "text": f"第{i}号客人：{'很好，' * (20 + i % 15)}{'糟糕。' * (i % 13)}{i * 7919 % 1000}",
             "stars": i % 5} for i in range(20_000)]
    (tmp_path / "rows.jsonl").write_text(json_lines(*rows), encoding="utf-8")
    packed, out = pack(munia, tmp_path / "tiny.munia"), tmp_path / "out"
    code = DUMP + f"""
import pyarrow, pyarrow.parquet, munia.ray
home = {str(tmp_path)!r}
rows = [json.loads(line) for line in open(home + "/rows.jsonl")]
pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), home + "/rows.parquet")
labelled = munia.ray.classify_dataset(home + "/rows.parquet", {str(packed)!r}, actors=2,
                                      rows_per_task=250)
munia.ray.write_rows(labelled, home + "/out")
dump(home + "/out", home + "/labelled.jsonl")
"""
    with Cluster(tmp_path, code) as cluster:
        def actors():
            return {pid for pid in cluster.processes() if maps(pid, packed)}

        wait_until(lambda: any(out.glob("*.parquet")))
        before = actors()
        assert len(before) == 2, cluster.processes()
        kill(min(before))
        n_written = len(list(out.glob("*.parquet")))
        wait_until(lambda: actors() - before)  # another takes its place
        assert cluster.open_to_others() == []
    assert n_written < 40 and len(list(out.glob("*.parquet"))) == 80  # it was in the middle
    labelled = read_lines(tmp_path / "labelled.jsonl")
    assert [row["id"] for row in labelled] == list(range(20_000))
    wanted = by_command_line(munia, tmp_path / "rows.jsonl", tmp_path / "wanted.jsonl")
    assert list(labelled[0]) == list(wanted[0]) == ["id", "text", "stars", *LABELS]
    assert labelled == wanted


@pytest.mark.long
def test_forms_tasks_and_wrong_rows(tmp_path, munia):
    """CSV and JSON Lines in and out, a task file, rows that cannot be labelled."""
    texts = [f"第{i}间{'很好，真的' * (i % 4)}" for i in range(60)]
    texts[7] = "两行\n和\"引号\""
    rows = [{"id": f"{i:03}", "text": text} for i, text in enumerate(texts)]
    wrong = [{"id": i, "text": text} for i, text in enumerate(["好", "", " ", "很好。" * 2000, "坏"])]
    (tmp_path / "rows.jsonl").write_text(json_lines(*rows), encoding="utf-8")
    (tmp_path / "rows.csv").write_text(
        "id,text\r\n" + "".join('{},"{}"\r\n'.format(row["id"], row["text"].replace('"', '""'))
                                for row in rows), encoding="utf-8")
    (tmp_path / "wrong.jsonl").write_text(json_lines(*wrong), encoding="utf-8")
    (tmp_path / "mood.toml").write_text(TASK, encoding="utf-8")
    packed = pack(munia, tmp_path / "tiny.munia")
    code = DUMP + f"""
import csv, munia.ray, ray.data
home, model = {str(tmp_path)!r}, {str(packed)!r}
classify, write = munia.ray.classify_dataset, munia.ray.write_rows
def lines(directory):
    return [json.loads(line) for name in sorted(glob.glob(home + "/" + directory + "/*"))
            for line in open(name)]
write(classify(home + "/rows.csv", model, task=home + "/mood.toml", rows_per_task=16),
      home + "/csv", "csv")
say(csv=[row for name in sorted(glob.glob(home + "/csv/*"))
         for row in csv.DictReader(open(name, newline=""))])
write(classify(home + "/rows.jsonl", model, labels=["喜", "怒"], system="选一个。", prefix="m_"),
      home + "/jsonl", "jsonl")
say(jsonl=lines("jsonl"))
write(classify(home + "/wrong.jsonl", model, errors="column"), home + "/kept", "jsonl")
say(kept=lines("kept"))
write(classify(home + "/wrong.jsonl", model, errors="column", long_texts="truncate"),
      home + "/cut", "jsonl")
say(cut=lines("cut"))
told = []
for call in (
    lambda: classify(home + "/wrong.jsonl", model).take_all(),
    lambda: classify(home + "/rows.csv", home + "/none.munia").take_all(),
    lambda: classify(home + "/rows.csv", model, column="review"),
    lambda: classify(ray.data.from_items([{{"a": "x", "b": "y"}}]), model),
    lambda: classify(ray.data.from_items([{{"text": 5}}]), model),
    lambda: classify(ray.data.from_items([{{"text": "x", "label": "y"}}]), model),
    lambda: classify(home + "/rows.csv", model, actors=3),
):
    try:
        call()
        told.append("nothing")
    except Exception as error:
        told.append(type(error).__name__ + ": " + str(error))
say(told=told)
"""
    with Cluster(tmp_path, code) as cluster:
        by_task = by_command_line(munia, tmp_path / "rows.jsonl", tmp_path / "by_task.jsonl",
                                  "--task", tmp_path / "mood.toml")
        from_csv = cluster.read()["csv"]
        for row in from_csv:
            for name in ("confidence", "p_好", "p_坏"):
                row[name] = float(row[name])
        assert from_csv == by_task
        by_labels = by_command_line(munia, tmp_path / "rows.jsonl", tmp_path / "by_labels.jsonl",
                                    "--labels", "喜,怒", "--system", "选一个。", "--prefix", "m_")
        assert cluster.read()["jsonl"] == by_labels
        kept = cluster.read()["kept"]
        assert [row["label"] is None for row in kept] == [False, True, True, True, False]
        assert kept[0]["error"] is None and kept[0]["p_正面"] > 0
        assert kept[1]["error"] == kept[2]["error"] == "the text is empty"
        assert "context holds 1024" in kept[3]["error"] and kept[3]["p_正面"] is None
        cut = cluster.read()["cut"]
        assert [row["long"] for row in cut] == [None, None, None, "truncated", None]
        assert cut[3]["label"] and cut[3]["error"] is None and cut[1]["error"]
        told = cluster.read()["told"]
        assert 'with errors="column" such rows are kept' in told[0] and "empty" in told[0], told[0]
        assert "none.munia" in told[1], told[1]
        assert told[2] == "ValueError: there are 0 columns 'review'; there are 'id', 'text'"
        assert told[3] == ("ValueError: name the column of the texts with column=; "
                           "there are 'a', 'b'")
        assert told[4] == "TypeError: column 'text' holds int64, and must hold strings"
        assert told[5].startswith("ValueError: the data set has a column 'label' already")
        assert told[6].startswith("ValueError: 3 actors with 1 CPUs each need 3 of the cluster's 3")


@pytest.mark.long
def test_a_real_model_as_everywhere_else(tmp_path):
    """Forty reviews by the command line and by Ray, byte for byte."""
    model = real_model("qwen2.5-coder-0.5b")
    munia = Munia(tmp_path, model)
    texts = [f"{thing}{word}，{i}" for word in ("很好", "太差了", "一般", "出乎意料")
             for i, thing in enumerate("房间 早餐 服务 位置 价格 电梯 床 前台 网络 停车".split())]
    rows = [{"review": text} for text in texts]
    (tmp_path / "rows.jsonl").write_text(json_lines(*rows), encoding="utf-8")
    packed = pack(munia, tmp_path / "real.munia", model)
    code = DUMP + f"""
import munia.ray
home = {str(tmp_path)!r}
labelled = munia.ray.classify_dataset(home + "/rows.jsonl", {str(packed)!r}, rows_per_task=20)
munia.ray.write_rows(labelled, home + "/out")
dump(home + "/out", home + "/labelled.jsonl")
"""
    with Cluster(tmp_path, code, cpus=2):
        pass
    wanted = by_command_line(munia, tmp_path / "rows.jsonl", tmp_path / "wanted.jsonl",
                             "--column", "review")
    assert len(wanted) == 40 and read_lines(tmp_path / "labelled.jsonl") == wanted
