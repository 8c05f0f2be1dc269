"""munia.sklearn and Model.learn: as munia fit, and as scikit-learn expects of an estimator."""

import pickle
import re

import numpy as np
import pandas as pd
import pytest
from munia_cli import Munia
from python_package import QWEN
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import accuracy_score
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer
from test_fit import reviews, write

import munia
from munia.sklearn import MuniaClassifier

ROWS = reviews(60)
LABELS, TEXTS = [list(column) for column in zip(*ROWS)]
FRESH_LABELS, FRESH = [list(column) for column in zip(*reviews(40, seed=9))]


@pytest.fixture(scope="module")
def model():
    with munia.Model(QWEN) as loaded:
        yield loaded


@pytest.fixture(scope="module")
def fitted(model):
    return MuniaClassifier(model).fit(TEXTS, LABELS)


@pytest.mark.parametrize("recipe", ["head", "prior", "threshold"])
def test_learn_as_the_program(model, tmp_path, recipe):
    """The same rows give the same task file and the same head, byte for byte."""
    munia_program = Munia(tmp_path)
    source = write(tmp_path / "rows.csv", ROWS)
    theirs = tmp_path / "theirs.toml"
    munia_program.lines("fit", source, "-o", theirs, "--recipe", recipe, "--no-few-shot", "--json")
    task = model.learn(TEXTS, LABELS, task="sentiment", recipe=recipe)
    ours = tmp_path / "ours.toml"
    task.save(ours, name="theirs")
    without_record = theirs.read_text().split("\n[fit]\n")[0]
    assert ours.read_text() == without_record.replace("theirs.head", "ours.head")
    if recipe == "head":
        assert ours.with_suffix(".head.safetensors").read_bytes() == theirs.with_suffix(
            ".head.safetensors").read_bytes()
        assert task.head_layers and task.method == "head"
    labelled = munia_program.lines("classify", "--task", ours, "--json", "--", *FRESH[:5])
    for line, one in zip(labelled, model.classify(FRESH[:5], task=task), strict=True):
        assert line["label"] == one.label and line["probabilities"] == dict(one.probabilities)


def test_fit_and_predict(fitted):
    assert fitted.classes_.tolist() == sorted(set(LABELS))
    predicted = fitted.predict(FRESH)
    assert accuracy_score(FRESH_LABELS, predicted) == fitted.score(FRESH, FRESH_LABELS) > 0.8
    proba = fitted.predict_proba(FRESH)
    assert proba.shape == (40, 2) and proba.dtype == np.float64
    assert np.allclose(proba.sum(axis=1), 1)
    assert (fitted.classes_[proba.argmax(axis=1)] == predicted).all()


def test_kinds_of_input(fitted, model):
    wanted = fitted.predict(FRESH).tolist()
    for X in (np.array(FRESH), np.array(FRESH, dtype=object), pd.Series(FRESH), tuple(FRESH),
              pd.DataFrame({"text": FRESH}), np.array(FRESH, dtype=object)[:, None]):
        assert fitted.predict(X).tolist() == wanted
    numbers = MuniaClassifier(model).fit(pd.Series(TEXTS), pd.Series(LABELS).map({"正面": 1, "负面": 0}))
    assert numbers.classes_.tolist() == [0, 1]
    assert numbers.predict(FRESH[:3]).dtype.kind == "i"
    flags = MuniaClassifier(model, recipe="prior").fit(TEXTS, [label == "正面" for label in LABELS])
    assert flags.predict(FRESH[:2]).dtype == bool


def test_parameters_and_clones(fitted, model):
    assert MuniaClassifier(model).get_params() == {
        "model": model, "recipe": "head", "task": None, "long_texts": "error"}
    copied = clone(fitted.set_params(recipe="head"))
    assert copied.model is model and not hasattr(copied, "task_")
    with pytest.raises(NotFittedError):
        copied.predict(FRESH)
    assert clone(MuniaClassifier(model, task=munia.Task.find("sentiment"))).task is not None
    assert "MuniaClassifier" in repr(fitted)


def test_in_a_pipeline_and_cross_validated(model):
    strip = FunctionTransformer(lambda texts: [text.replace("，", " ") for text in texts])
    pipeline = Pipeline([("strip", strip), ("label", MuniaClassifier(model))])
    scores = cross_val_score(pipeline, np.array(TEXTS, dtype=object), LABELS, cv=3)
    assert scores.shape == (3,) and scores.mean() > 0.7
    search = GridSearchCV(MuniaClassifier(model), {"recipe": ["head", "prior"]}, cv=2)
    assert search.fit(TEXTS, LABELS).best_params_["recipe"] == "head"


def test_pickled_and_by_path(fitted):
    again = pickle.loads(pickle.dumps(fitted))
    assert (again.predict_proba(FRESH) == fitted.predict_proba(FRESH)).all()
    by_path = MuniaClassifier(str(QWEN)).fit(TEXTS, LABELS)
    assert (by_path.predict_proba(FRESH) == fitted.predict_proba(FRESH)).all()


def test_the_learned_task_serves_elsewhere(fitted, tmp_path):
    fitted.task_.save(tmp_path / "mine.toml")
    lines = Munia(tmp_path).lines("classify", "--task", tmp_path / "mine.toml", "--json", "--", *FRESH)
    assert [line["label"] for line in lines] == fitted.predict(FRESH).tolist()


@pytest.mark.parametrize("X, y, kind, words", [
    ("one text", ["a"], ValueError, "a list of texts"),
    (TEXTS, LABELS[:-1], ValueError, "one label for each of 60 texts"),
    ([5, 6], ["a", "b"], TypeError, "text 1 must be str, not int"),
    (["a", "b"], ["x", "x"], ValueError, "at least two"),
    (TEXTS, [1, "1"] * 30, ValueError, "same as text|at least two"),
    (["a", "b"], ["x", "y"], ValueError, "at least 8"),
    (pd.DataFrame({"a": TEXTS, "b": TEXTS}), LABELS, ValueError, "2 columns"),
    (["", *TEXTS[1:]], LABELS, ValueError, "text 1: the text is empty"),
])
def test_faults(model, X, y, kind, words):
    with pytest.raises(kind, match=re.compile(words)):
        MuniaClassifier(model).fit(X, y)


def test_labels_that_the_task_has_not(model):
    with pytest.raises(ValueError, match="none of the task's"):
        MuniaClassifier(model, task="sentiment").fit(TEXTS, ["a", "b"] * 30)
    with pytest.raises(ValueError, match="recipe is"):
        MuniaClassifier(model, recipe="best").fit(TEXTS, LABELS)
    with pytest.raises(ValueError, match="not the task's labels"):
        MuniaClassifier(model, task="sentiment-3", recipe="zero-shot").fit(
            TEXTS, ["Positive" if label == "正面" else "Negative" for label in LABELS])
