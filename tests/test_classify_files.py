"""`munia classify -i FILE`: formats, encodings, faults of files, and runs that are killed and go on."""

import csv
import gzip
import io
import json
import os
import random
import re
import resource
import signal
import subprocess
import time

import pytest
from munia_cli import QWEN, Munia, environment

REVIEWS = ["很好", "太差了，再也不买", 'he said "好",\nand left', "一般", "很好", "x" * 300, " 好 "]


def write_csv(path, rows, encoding="utf-8", newline="\r\n"):
    text = io.StringIO()
    csv.writer(text, lineterminator=newline).writerows(rows)
    data = text.getvalue().encode(encoding)
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def read_csv(path, delimiter=","):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter=delimiter))


def alone(munia, texts):
    """Label and probabilities of texts given as arguments, one process for all."""
    return munia.lines("classify", "--json", "--", *texts)


def check(rows, expected):
    assert len(rows) == len(expected)
    for row, wanted in zip(rows, expected):
        assert row["label"] == wanted["label"]
        assert float(row["confidence"]) == wanted["confidence"]
        for label, p in wanted["probabilities"].items():
            assert float(row[f"p_{label}"]) == p


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    return alone(Munia(tmp_path_factory.mktemp("expected")), REVIEWS)


# ---- Formats ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name, encoding, flags", [
    ("in.csv", "utf-8", ()), ("in.csv", "utf-8-sig", ()), ("in.csv.gz", "utf-8", ()),
    ("in.csv", "gb18030", ("--encoding", "gb18030")),
    ("in.csv.gz", "gb18030", ("--encoding", "gb18030")),
])
def test_csv(munia, tmp_path, expected, name, encoding, flags):
    rows = [["id", "review", "stars"]] + [[i, text, 5 - i] for i, text in enumerate(REVIEWS)]
    source = write_csv(tmp_path / name, rows, encoding)
    out = tmp_path / "out.csv"
    result = munia.run("classify", "-i", source, "-o", out, *flags)
    assert result.returncode == 0, result.err
    assert result.out == "" and f"{len(REVIEWS)} rows" in result.err
    assert "1 equal to earlier ones" in result.err
    found = read_csv(out)
    assert list(found[0]) == ["id", "review", "stars", "label", "confidence", "p_正面", "p_负面"]
    assert [row["review"] for row in found] == REVIEWS
    assert [row["stars"] for row in found] == [str(5 - i) for i in range(len(REVIEWS))]
    check(found, expected)
    assert sorted(path.name for path in tmp_path.glob("out*")) == ["out.csv"]


def test_text_lines_and_standard_input(munia, tmp_path, expected):
    lines = [text for text in REVIEWS if "\n" not in text]
    wanted = [row for row in expected if "\n" not in row["text"]]
    source = tmp_path / "in.txt"
    source.write_text("\n".join(lines), encoding="utf-8")
    done = munia.run("classify", "-i", source)
    assert done.returncode == 0, done.err
    rows = list(csv.DictReader(io.StringIO(done.out), delimiter="\t"))
    assert [row["text"] for row in rows] == lines
    check(rows, wanted)
    check(munia.lines("classify", "-i", source, "--json"), wanted)
    piped = munia.run("classify", "-i", "-", "--format", "txt", "-o", tmp_path / "out.tsv",
                      stdin="\n".join(lines))
    assert piped.returncode == 0, piped.err
    assert read_csv(tmp_path / "out.tsv", "\t") == rows


def test_json_lines_keep_their_objects(munia, tmp_path, expected):
    source = tmp_path / "in.jsonl"
    objects = [{"id": i, "body": text, "tags": [1, {"a": None}]} for i, text in enumerate(REVIEWS)]
    source.write_text("\n".join(json.dumps(item) for item in objects), encoding="utf-8")
    out = tmp_path / "out.jsonl"
    assert munia.run("classify", "-i", source, "-o", out, "--field", "body").returncode == 0
    found = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    check(found, expected)
    for row, item in zip(found, objects):
        assert {key: row[key] for key in item} == item


def test_columns_are_found_or_named(munia, tmp_path):
    only = write_csv(tmp_path / "only.csv", [["whatever"], ["好"]])
    assert munia.run("classify", "-i", only).returncode == 0
    several = write_csv(tmp_path / "several.csv", [["a", "b"], ["1", "好"]])
    message = munia.fails(4, "classify", "-i", several)
    assert "--column" in message and '"a", "b"' in message
    assert munia.run("classify", "-i", several, "--column", "b").returncode == 0
    twice = write_csv(tmp_path / "twice.csv", [["review", "review"], ["1", "好"]])
    assert "more than once" in munia.fails(4, "classify", "-i", twice)
    assert '"c"' in munia.fails(4, "classify", "-i", several, "--column", "c")


def test_a_name_that_is_taken_needs_a_prefix(munia, tmp_path):
    source = write_csv(tmp_path / "in.csv", [["review", "label"], ["好", "1"]])
    assert "--prefix" in munia.fails(4, "classify", "-i", source, "-o", tmp_path / "out.csv")
    assert list(tmp_path.glob("out*")) == []
    out = tmp_path / "out.csv"
    assert munia.run("classify", "-i", source, "-o", out, "--prefix", "munia_").returncode == 0
    (row,) = read_csv(out)
    assert row["label"] == "1" and row["munia_label"] in ("正面", "负面")
    objects = tmp_path / "in.jsonl"
    objects.write_text('{"text":"好"}\n{"text":"坏","label":1}\n', encoding="utf-8")
    assert "line 2" in munia.fails(4, "classify", "-i", objects, "-o", tmp_path / "out.jsonl")


def test_long_texts(munia, tmp_path):
    source = write_csv(tmp_path / "in.csv", [["review"], ["好"], ["今天很好。" * 400]])
    flags = ("classify", "-i", source, "--context", "256", "-o")
    refused = munia.run(*flags, tmp_path / "a.csv")
    assert refused.returncode == 4 and "256" in refused.err and "line 3" in refused.err
    assert munia.run(*flags, tmp_path / "b.csv", "--long", "truncate").returncode == 0
    assert [row["long"] for row in read_csv(tmp_path / "b.csv")] == ["", "truncated"]
    assert munia.run(*flags, tmp_path / "c.csv", "--long", "window").returncode == 0
    first, second = read_csv(tmp_path / "c.csv")
    assert first["long"] == "" and second["long"].endswith(" windows")
    assert abs(float(second["p_正面"]) + float(second["p_负面"]) - 1) < 1e-9


def test_method_generate_has_no_probabilities(munia, tmp_path):
    task = tmp_path / "task.toml"
    task.write_text('name="t"\nlabels=["好","坏"]\nsystem="s"\ntemplate="{text}"\nmethod="generate"\n',
                    encoding="utf-8")
    out = tmp_path / "out.csv"
    source = write_csv(tmp_path / "in.csv", [["review"], ["好"]])
    result = munia.run("classify", "-i", source, "-o", out, "--task", task)
    assert result.returncode == 0, result.err
    (row,) = read_csv(out)
    assert list(row) == ["review", "label", "raw"]


# ---- Faults of files -------------------------------------------------------------------------------

BAD_FILES = {  # bytes, what the message must name, rows that are good
    "unbalanced quote": (b'review\n"never closed,\n\xe5\xa5\xbd\n', ["line 2", "column 1", "closed"], 0),
    "NUL": (b"review\n\xe5\xa5\xbd\nb\0c\n", ["line 3", "column 2", "NUL"], 1),
    "mixed encodings": (b"review\n\xe5\xa5\xbd\n\xba\xc3\n\xe5\xa5\xbd\n", ["line 3", "UTF-8"], 2),
    "too many fields": (b"review,n\n\xe5\xa5\xbd,1\nb,2,3\n", ["line 3", "3 fields"], 1),
    "blank text": (b"review,n\n\xe5\xa5\xbd,1\n  ,2\n", ["line 3", "empty"], 1),
    "40 MB field": (b"review\n\xe5\xa5\xbd\n" + b"x" * (40 << 20) + b"\n\xe5\xa5\xbd\n",
                    ["line 3", "bytes allowed"], 2),
}


@pytest.mark.parametrize("kind", BAD_FILES)
def test_bad_rows(munia, tmp_path, kind):
    data, words, n_good = BAD_FILES[kind]
    source = tmp_path / "in.csv"
    source.write_bytes(data)
    out = tmp_path / "out.csv"
    message = munia.fails(4, "classify", "-i", source, "-o", out)
    assert all(word in message for word in words), message
    assert len(read_csv(out)) == n_good
    rejects = tmp_path / "bad.csv"
    result = munia.run("classify", "-i", source, "-o", out, "--rejects", rejects)
    assert result.returncode == 0 and "1 rejected" in result.err, result.err
    assert len(read_csv(out)) == n_good
    bad = rejects.read_bytes()
    header, rest = bad.split(b"\n", 1)
    assert header == data.split(b"\n", 1)[0] and rest and rest.strip(b"\n")[:1000] in data


@pytest.mark.parametrize("data, word", [
    (b"", "empty"), (b"\xff\xfer\x00", "UTF-16"), (b'"review\n', "closed"),
    (b"\x1f\x8b\x08nonsense", "UTF-8"),
])
def test_bad_beginnings(munia, tmp_path, data, word):
    source = tmp_path / "in.csv"
    source.write_bytes(data)
    assert word in munia.fails(4, "classify", "-i", source, "-o", tmp_path / "out.csv")
    assert list(tmp_path.glob("out*")) == []


def test_header_only(munia, tmp_path):
    source = write_csv(tmp_path / "in.csv", [["id", "review"]])
    out = tmp_path / "out.csv"
    assert munia.run("classify", "-i", source, "-o", out).returncode == 0
    assert out.read_text(encoding="utf-8") == "id,review,label,confidence,p_正面,p_负面\n"


def test_damaged_gzip(munia, tmp_path):
    random.seed(1)
    rows = [["review"]] + [[f"{random.random()}"] for _ in range(2000)]
    source = write_csv(tmp_path / "in.csv.gz", rows)
    source.write_bytes(source.read_bytes()[:-100])
    message = munia.fails(4, "classify", "-i", source, "-o", tmp_path / "out.csv")
    assert "cut off" in message
    assert not (tmp_path / "out.csv").exists()


def test_files_that_cannot_be_opened(munia, tmp_path):
    assert "nowhere.csv" in munia.fails(3, "classify", "-i", tmp_path / "nowhere.csv")
    source = write_csv(tmp_path / "in.csv", [["review"], ["好"]])
    missing = tmp_path / "none" / "out.csv"
    assert str(missing) in munia.fails(1, "classify", "-i", source, "-o", missing)


# ---- Killed and resumed ----------------------------------------------------------------------------

N_ROWS = 4000


def many_rows(tmp_path, n_rows=N_ROWS):
    rows = [["id", "review"]] + [[i, f"第 {i} 条评论，{'好' * (i % 9)}"] for i in range(n_rows)]
    rows[n_rows // 2][1] = " "  # one that is rejected
    return write_csv(tmp_path / "in.csv", rows)


def start(munia, *arguments):
    return subprocess.Popen(munia.command("classify", *arguments), stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, env=environment(munia.home))


def committed(out):
    """Rows that the journal tells of as done."""
    journal = out.with_name(out.name + ".journal")
    if not journal.exists():
        return 0
    found = re.findall(rb'"read":(\d+),.*\}\n', journal.read_bytes())
    return int(found[-1]) if found else 0


def kill_after_a_commit(process, out, number=signal.SIGKILL):
    """Waits until rows are committed, then sends the signal; False when the run ended before."""
    while process.poll() is None:
        if committed(out):
            process.send_signal(number)
            process.wait(60)
            return True
        time.sleep(0.005)
    return False


def test_kill_and_resume(munia, tmp_path):
    source = many_rows(tmp_path)
    whole, out, bad = tmp_path / "whole.csv", tmp_path / "out.csv", tmp_path / "bad.csv"
    assert munia.run("classify", "-i", source, "-o", whole, "--rejects", tmp_path / "b").returncode == 0
    arguments = ("-i", source, "-o", out, "--rejects", bad)
    process = start(munia, *arguments)
    assert kill_after_a_commit(process, out), "the run was too quick to be killed"
    process.communicate()
    partial = tmp_path / "out.csv.partial"
    assert not out.exists() and partial.exists()
    # What a kill in the middle of a write leaves behind.
    with partial.open("ab") as file:
        file.write("17,half a r".encode())
    with (tmp_path / "out.csv.journal").open("ab") as file:
        file.write(b'{"read":39')
    assert "--resume" in munia.fails(2, "classify", *arguments)
    result = munia.run("classify", *arguments, "--resume")
    assert result.returncode == 0, result.err
    assert out.read_bytes() == whole.read_bytes()
    assert bad.read_bytes() == (tmp_path / "b").read_bytes()
    assert int(result.err.split(" rows in ")[0].split()[-1]) < N_ROWS, "it began anew"
    assert not partial.exists() and not (tmp_path / "out.csv.journal").exists()


def test_resume_refuses_another_run(munia, tmp_path):
    source = many_rows(tmp_path)
    out = tmp_path / "out.csv"
    task = tmp_path / "mine.toml"
    written = 'name = "mine"\nlabels = ["正面", "负面"]\n'
    task.write_text(written, encoding="utf-8")
    process = start(munia, "-i", source, "-o", out, "--task", task)
    assert kill_after_a_commit(process, out)
    process.communicate()
    untasked = ("classify", "-i", source, "-o", out, "--resume")
    resume = (*untasked, "--task", task)
    assert "another task" in munia.fails(2, *untasked, "--task", "sentiment-3")
    task.write_text(written + "temperature = 2\n", encoding="utf-8")
    assert "another task" in munia.fails(2, *resume)
    task.write_text(written, encoding="utf-8")
    assert "another set of options" in munia.fails(2, *resume, "--prefix", "x_")
    assert "another set of options" in munia.fails(2, *resume, "--weights", "int8")
    assert "another model" in munia.fails(2, *resume, "--model", QWEN.parent / "llama-tied-q4_1.gguf",
                                          model=False)
    source.write_bytes(source.read_bytes() + b"1,more\r\n")
    assert "another input" in munia.fails(2, *resume)


def test_ctrl_c_keeps_what_was_done(munia, tmp_path):
    source = many_rows(tmp_path)
    out = tmp_path / "out.csv"
    process = start(munia, "-i", source, "-o", out)
    assert kill_after_a_commit(process, out, signal.SIGINT)
    _, err = process.communicate()
    assert process.returncode == 130 and "--resume" in err.decode()
    assert munia.run("classify", "-i", source, "-o", out, "--resume").returncode == 4  # one rejected
    assert len(read_csv(out)) == N_ROWS - 1


def test_resume_without_an_earlier_run_begins(munia, tmp_path):
    source = write_csv(tmp_path / "in.csv", [["review"], ["好"]])
    out = tmp_path / "out.csv"
    assert munia.run("classify", "-i", source, "-o", out, "--resume").returncode == 0
    assert len(read_csv(out)) == 1


def test_full_disk(munia, tmp_path):
    source = many_rows(tmp_path)
    out = tmp_path / "out.csv"

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    result = munia.run("classify", "-i", source, "-o", out, preexec_fn=limit)
    assert result.returncode == 1 and "cannot write" in result.err, result.err
    assert not out.exists()
    assert munia.run("classify", "-i", source, "-o", out, "--resume").returncode == 4
    assert len(read_csv(out)) == N_ROWS - 1


def test_only_one_run_writes_a_file(munia, tmp_path):
    source = many_rows(tmp_path, 40 * N_ROWS)
    out = tmp_path / "out.csv"
    process = start(munia, "-i", source, "-o", out)
    try:
        while not (tmp_path / "out.csv.journal").exists():
            assert process.poll() is None
            time.sleep(0.005)
        assert "another run" in munia.fails(2, "classify", "-i", source, "-o", out, "--resume")
        assert process.poll() is None, "it ended too early to say"
    finally:
        process.kill()
        process.communicate()


def test_files_must_differ(munia, tmp_path):
    source = write_csv(tmp_path / "in.csv", [["review"], ["好"]])
    before = source.read_bytes()
    out = tmp_path / "out.csv"
    for arguments in ((source, "-o", source), (source, "-o", out, "--rejects", source),
                      (source, "-o", out, "--rejects", out),
                      (source, "-o", out, "--rejects", tmp_path / "x" / ".." / "out.csv.journal")):
        assert "named twice" in munia.fails(2, "classify", "-i", *arguments)
    assert source.read_bytes() == before and list(tmp_path.glob("out*")) == []


def test_resume_needs_a_file(munia, tmp_path):
    pipe = tmp_path / "pipe.csv"
    os.mkfifo(pipe)
    message = munia.fails(2, "classify", "-i", pipe, "-o", tmp_path / "out.csv", "--resume")
    assert "input file" in message


def test_rejects_have_one_header_after_a_resume(munia, tmp_path):
    rows = [["id", "review"]] + [[i, " "] for i in range(3 * 1024)] + [
        [i, f"好 {i}"] for i in range(N_ROWS)]
    source = write_csv(tmp_path / "in.csv", rows)
    out, bad = tmp_path / "out.jsonl", tmp_path / "bad.csv"
    process = start(munia, "-i", source, "-o", out, "--rejects", bad)
    killed = kill_after_a_commit(process, out)
    process.communicate()
    assert killed
    result = munia.run("classify", "-i", source, "-o", out, "--rejects", bad, "--resume")
    assert result.returncode == 0, result.err
    lines = bad.read_text(encoding="utf-8").splitlines()
    assert lines[0] == "id,review" and lines[1:] == [f"{i}, " for i in range(3 * 1024)]
    assert len(out.read_text(encoding="utf-8").splitlines()) == N_ROWS


def test_ctrl_c_ends_a_run_that_waits_for_input(munia):
    process = subprocess.Popen(munia.command("classify", "-i", "-", "--format", "csv"),
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, env=environment(munia.home))
    process.stdin.write("review\n好\n".encode())
    process.stdin.flush()
    while process.poll() is None:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(0.2)
        except subprocess.TimeoutExpired:
            continue
    assert process.returncode in (130, -signal.SIGINT)
    process.stdin.close()
    process.stdout.close()
    process.stderr.close()


@pytest.mark.long
def test_a_million_rows_killed_three_times(munia, tmp_path):
    n_rows = 1_000_000
    source = tmp_path / "in.csv"
    with source.open("w", encoding="utf-8", newline="") as file:
        file.write("id,review\n")
        for i in range(n_rows):
            file.write(f"{i},评论 {i}\n")
    out = tmp_path / "out.csv"
    arguments = ("-i", source, "-o", out, "--resume")
    peaks = []
    for part in range(4):
        process = start(munia, *arguments)
        while process.poll() is None:
            if part < 3 and committed(out) > n_rows * (part + 1) // 4:
                with open(f"/proc/{process.pid}/status", encoding="ascii") as status:
                    peaks.append(int(next(line.split()[1] for line in status if "VmHWM" in line)))
                process.kill()
            time.sleep(0.2)
        _, err = process.communicate()
    assert process.returncode == 0, err
    assert len(peaks) == 3 and max(peaks) < 1.1 * min(peaks), peaks
    with out.open(encoding="utf-8") as file:
        assert next(file).startswith("id,review,label")
        for i, line in enumerate(file):
            assert line.startswith(f"{i},评论 {i},")
    assert i == n_rows - 1
