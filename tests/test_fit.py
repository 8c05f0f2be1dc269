"""`munia fit`: learns from a labelled file and writes a task file that every command takes."""

import csv
import json
import os
import random

import pytest
from munia_cli import Munia
from munia_process import MODELS, ROOT
from munia_server import Server

GOOD = ["很好", "喜欢"]
BAD = ["糟糕", "讨厌"]
THINGS = ["味道", "房间", "屏幕", "服务", "包装", "价格", "早餐", "书", "送货", "位置"]


def reviews(n, seed=1):
    """Rows that are told apart by one word, which stands three times: the model is tiny and random."""
    rng = random.Random(seed)
    rows = set()
    while len(rows) < n:
        label = len(rows) % 2
        word = rng.choice((GOOD, BAD)[label]) * 3
        rows.add((("正面", "负面")[label], f"{rng.choice(THINGS)}{word}，编号{rng.randrange(100)}"))
    return sorted(rows, key=lambda row: row[1])


def write(path, rows):
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("label", "review"), *rows])
    return path


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    """A head learned by the tiny model from 60 rows and judged on 60 others."""
    home = tmp_path_factory.mktemp("learned")
    munia = Munia(home)
    source = write(home / "rows.csv", reviews(120))
    task = home / "mine.toml"
    lines = munia.lines("fit", source, "-o", task, "--train", 60, "--recipe", "head", "--json")
    return munia, task, lines


def test_recipes_stand_side_by_side(learned):
    _, _, lines = learned
    by_size = {}
    for line in lines:
        by_size.setdefault(line["learned_from"], []).append(line["recipe"])
    recipes = ["zero-shot", "prior", "threshold", "head", "few-shot"]
    assert by_size == {20: recipes, 60: recipes}
    for line in lines:
        assert line["rows"] == 60
        low, high = line["interval_95"]
        assert low <= line["accuracy"] <= high
        low, high = line["gain_interval_95"]
        assert low <= line["gain"] <= high
    head = next(line for line in lines if line["recipe"] == "head" and line["learned_from"] == 60)
    zero = next(line for line in lines if line["recipe"] == "zero-shot" and line["learned_from"] == 60)
    # One word tells the labels apart, and the states of even a random model know the words.
    assert head["accuracy"] > 0.85
    assert head["gain_interval_95"][0] > 0
    assert zero["gain"] == 0
    assert head["gain"] == pytest.approx(head["accuracy"] - zero["accuracy"])


def test_the_task_file_works_in_every_command(learned, tmp_path):
    munia, task, _ = learned
    assert task.with_suffix(".head.safetensors").exists()
    text = task.read_text(encoding="utf-8")
    assert 'name = "mine"' in text and "[fit]" in text and 'recipe = "head"' in text
    texts = ["房间讨厌讨厌讨厌，编号1", "房间喜欢喜欢喜欢，编号1"]
    alone = munia.lines("classify", "--task", task, "--json", "--", *texts)
    assert [line["label"] for line in alone] == ["负面", "正面"]
    for line in alone:
        assert sum(line["probabilities"].values()) == pytest.approx(1)
    prediction = munia.lines("predict", "--task", task, "--json", "--", texts[0])[0]
    assert prediction["emotion"] == "负面"
    rows = write(tmp_path / "fresh.csv", reviews(40, seed=9))
    judged = munia.lines("eval", rows, "--task", task, "--json")[0]
    assert judged["accuracy"] > 0.8
    with Server(tmp_path, "--task", task) as server:
        served = server.post("/classify", {"texts": texts}).json
    assert [line["label"] for line in served] == ["负面", "正面"]
    assert [line["probabilities"] for line in served] == [line["probabilities"] for line in alone]
    out = tmp_path / "out.csv"
    done = munia.run("classify", "-i", rows, "-o", out, "--task", task, "--column", "review",
                     "--prefix", "found_")
    assert done.returncode == 0, done.err
    with out.open(encoding="utf-8", newline="") as file:
        found = list(csv.DictReader(file))
    assert len(found) == 40
    right = sum(row["label"] == row["found_label"] for row in found)
    assert right / 40 == judged["accuracy"]


@pytest.mark.parametrize("recipe, has", [("prior", "prior = {"), ("threshold", "threshold = {"),
                                         ("few-shot", "[[examples]]")])
def test_other_recipes_are_written(munia, tmp_path, recipe, has):
    source = write(tmp_path / "rows.csv", reviews(60))
    task = tmp_path / "t.toml"
    result = munia.run("fit", source, "-o", task, "--recipe", recipe, "--no-few-shot")
    assert result.returncode == 0, result.err
    assert has in task.read_text(encoding="utf-8")
    assert not task.with_suffix(".head.safetensors").exists()
    assert munia.lines("classify", "--task", task, "--json", "--", "很好")[0]["label"]
    # The figures are the same in the file and on the screen.
    for line in result.out.splitlines()[1:]:
        assert line.strip() in task.read_text(encoding="utf-8")


def test_nothing_to_learn_writes_nothing(munia, tmp_path):
    """Labels by chance: no recipe beats the model by cross-validation, or its gain is not certain."""
    rng = random.Random(5)
    rows = [(rng.choice(["正面", "负面"]), text) for _, text in reviews(60)]
    task = tmp_path / "t.toml"
    result = munia.run("fit", write(tmp_path / "rows.csv", rows), "-o", task, "--no-few-shot")
    if result.returncode == 0:
        assert "not certain" in result.err
    else:
        assert result.returncode == 1 and "no task file is written" in result.err
        assert not task.exists()


def test_the_same_rows_give_the_same_task(munia, tmp_path):
    source = write(tmp_path / "rows.csv", reviews(40))
    files = []
    for name in ("a", "b"):
        task = tmp_path / name / "t.toml"
        task.parent.mkdir()
        munia.lines("fit", source, "-o", task, "--recipe", "head", "--no-few-shot", "--json")
        files.append(task.read_bytes() + task.with_suffix(".head.safetensors").read_bytes())
    assert files[0] == files[1]


def test_faults(munia, tmp_path):
    source = write(tmp_path / "rows.csv", reviews(40))
    task = tmp_path / "t.toml"
    assert "-o TASK.toml" in munia.fails(2, "fit", source)
    assert ".toml" in munia.fails(2, "fit", source, "-o", tmp_path / "t.txt")
    assert "no directory" in munia.fails(1, "fit", source, "-o", tmp_path / "no" / "t.toml")
    assert "--recipe magic" in munia.fails(2, "fit", source, "-o", task, "--recipe", "magic")
    assert "held out" in munia.fails(2, "fit", source, "-o", task, "--train", 40)
    few = write(tmp_path / "few.csv", reviews(6))
    result = munia.run("fit", few, "-o", task, "--recipe", "head")
    assert result.returncode == 4 and "at least 8" in result.err
    odd = write(tmp_path / "odd.csv", [*reviews(40), ("无聊", "还行")])
    assert "无聊" in munia.fails(4, "fit", odd, "-o", task)
    assert "stars" in munia.fails(4, "fit", source, "-o", task, "--label-column", "stars")
    assert not task.exists()


def test_texts_that_do_not_fit_or_repeat_are_left_out(munia, tmp_path):
    rows = reviews(40)
    source = write(tmp_path / "rows.csv", [*rows, rows[0], ("正面", "好" * 5000), ("负面", " ")])
    result = munia.run("fit", source, "-o", tmp_path / "t.toml", "--recipe", "prior", "--no-few-shot")
    assert result.returncode == 0, result.err
    assert "line 43" in result.err and "line 44" in result.err
    assert "stands above already: 1" in result.err
    assert "rows = 40" in (tmp_path / "t.toml").read_text(encoding="utf-8")


def test_a_head_of_another_model_is_refused(learned):
    munia, task, _ = learned
    other = Munia(munia.home, MODELS / "llama-untied-f16.gguf")
    assert "another model" in other.fails(1, "classify", "--task", task, "--", "很好")


def test_labels_in_other_spellings(munia, tmp_path):
    """A file with 1 and 0, as many are: learned from, and judged by the task that came of it."""
    source = write(tmp_path / "rows.csv",
                   [(label.replace("正面", "1").replace("负面", "0"), text) for label, text in reviews(40)])
    task = tmp_path / "t.toml"
    munia.lines("fit", source, "-o", task, "--recipe", "head", "--no-few-shot", "--json")
    assert munia.lines("eval", source, "--task", task, "--json")[0]["accuracy"] > 0.9
    odd = write(tmp_path / "odd.csv", [("1", "很好"), ("0", "很差")])
    assert 'label "1"' in munia.fails(4, "eval", odd, "--labels", "愤怒,喜悦")


def test_examples_need_a_chat_template(munia, tmp_path):
    source = write(tmp_path / "rows.csv", reviews(40))
    task = tmp_path / "t.toml"
    result = munia.run("fit", source, "-o", task, "--task", "sentiment-raw", "--recipe", "few-shot")
    assert result.returncode == 4 and "no chat template" in result.err
    assert not task.exists()


# ---- On a real model ---------------------------------------------------------------------------------

SHARED = ROOT.parent / "shared" / "data"
REAL = os.environ.get("MUNIA_TEST_QWEN_GGUF")


@pytest.mark.long
@pytest.mark.skipif(not REAL, reason="the real model was not fetched")
@pytest.mark.skipif(not SHARED.is_dir(), reason="there is no ../shared/data beside the project")
def test_fit_beats_zero_shot_over_three_sets(tmp_path):
    """300 rows of each set to learn from, 200 held out; pooled over the three sets."""
    munia = Munia(tmp_path, REAL)
    only_first = only_second = n_rows = 0
    for name in ("waimai", "hotel", "shop"):
        lines = munia.lines("fit", SHARED / f"{name}-dev.csv", "-o", tmp_path / f"{name}.toml",
                            "--limit", 500, "--train", 300, "--recipe", "head", "--no-few-shot",
                            "--json", timeout=3000)
        head = next(line for line in lines
                    if line["recipe"] == "head" and line["learned_from"] == 300)
        print(name, json.dumps(head, ensure_ascii=False))
        only_first += head["only_zero_shot_right"]
        only_second += head["only_learned_right"]
        n_rows += head["rows"]
    difference = (only_second - only_first) / n_rows
    spread = (only_first + only_second - (only_second - only_first) ** 2 / n_rows) ** 0.5 / n_rows
    print(f"pooled: {n_rows} rows, gain {difference:.4f} ± {1.96 * spread:.4f}")
    assert difference - 1.96 * spread > 0
