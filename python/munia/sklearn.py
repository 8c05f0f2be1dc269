"""A text classifier for scikit-learn that learns a small head on a munia model's hidden states.

    from munia.sklearn import MuniaClassifier

    classifier = MuniaClassifier(munia.Model(path)).fit(texts, labels)
    classifier.predict(["…"])

Needs scikit-learn, which the package itself does not.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from munia._model import Model, Recipe, TaskLike
from munia._task import Task

__all__ = ["MuniaClassifier"]


def _texts(X: Any) -> list[str]:
    """A list, Series, array of shape [n] or [n, 1], or a DataFrame of one column."""
    if isinstance(X, str):
        raise ValueError("X must be a list of texts, not one str")
    shape = getattr(X, "shape", None)
    if shape is not None and len(shape) == 2:
        if shape[1] != 1:
            raise ValueError(f"X has {shape[1]} columns; munia takes one column of texts")
        X = np.asarray(X, dtype=object)[:, 0]
    texts = list(X)
    for i, text in enumerate(texts):
        if not isinstance(text, str):
            raise TypeError(f"text {i + 1} must be str, not {type(text).__name__}")
    return [str(text) for text in texts]


class MuniaClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Labels texts by what is learned from labelled ones.

    model: a munia.Model (shared by clones, never copied), or a path to load when fit is called.
    recipe: "head" (a linear head on hidden states, at least 8 texts of each class), "prior" or
        "threshold" (a correction of the model's own probabilities, at least 5), or "zero-shot"
        (nothing is learned).
    task: whose prompt is used, by name, file or Task; its labels must be the classes as text. None:
        the usual question with the classes as labels.
    long_texts: as in Model.classify, when predicting.

    After fit: classes_ [n_classes], the sorted labels of y; task_, the munia.Task that was learned,
    which task_.save("mine.toml") writes for the command line and the service.
    """

    def __init__(
        self,
        model: Model | str | os.PathLike[str],
        *,
        recipe: Recipe = "head",
        task: TaskLike | None = None,
        long_texts: Literal["error", "truncate", "window"] = "error",
    ) -> None:
        self.model = model
        self.recipe = recipe
        self.task = task
        self.long_texts = long_texts

    def fit(self, X: Iterable[str], y: Iterable[Any]) -> MuniaClassifier:
        """X: [n] texts; y: [n] labels of any sortable kind. Raises ValueError: too few texts of a
        class, an empty or too long text, classes that are not the task's labels."""
        texts = _texts(X)
        wanted = np.asarray(y if hasattr(y, "__array__") else list(y))
        if wanted.ndim != 1 or len(wanted) != len(texts):
            raise ValueError(
                f"y has the shape {wanted.shape}; it needs one label for each of {len(texts)} texts"
            )
        classes, places = np.unique(wanted, return_inverse=True)
        names = [str(label) for label in classes.tolist()]
        if len(set(names)) < len(names):
            raise ValueError(f"the classes look the same as text: {names}")
        if len(names) < 2:
            raise ValueError(f"y holds {len(names)} class; a classifier needs at least two")
        base = Task.from_labels(names) if self.task is None else self.task
        model = self._loaded()
        task = model.learn(texts, [names[i] for i in places], base, self.recipe)
        if set(task.labels) != set(names):
            raise ValueError(f"the classes {names} are not the task's labels {task.labels}")
        self.classes_ = classes
        self.task_ = task
        self._columns = [task.labels.index(name) for name in names]
        return self

    def predict_proba(self, X: Iterable[str]) -> npt.NDArray[np.float64]:
        """[n, n_classes] float64, columns in the order of classes_."""
        return self._label(X)[0]

    def predict(self, X: Iterable[str]) -> npt.NDArray[Any]:
        """[n] classes. With a threshold learned, not always the likeliest ones."""
        chosen = self._label(X)[1]
        return np.asarray(self.classes_)[chosen]

    def _label(self, X: Iterable[str]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.intp]]:
        check_is_fitted(self)
        names = [self.task_.labels[column] for column in self._columns]
        places = {name: i for i, name in enumerate(names)}
        labelled = self._loaded().classify(
            _texts(X), task=self.task_, long_texts=self.long_texts
        )
        proba = np.empty((len(labelled), len(names)))
        chosen = np.empty(len(labelled), np.intp)
        for i, one in enumerate(labelled):
            assert one.probabilities is not None and one.label is not None
            proba[i] = [one.probabilities[name] for name in names]
            chosen[i] = places[one.label]
        return proba, chosen

    def _loaded(self) -> Model:
        if isinstance(self.model, Model):
            return self.model
        loaded: Model | None = getattr(self, "_model", None)
        if loaded is None or loaded.closed or loaded.path != os.fspath(self.model):
            loaded = self._model = Model(self.model)
        return loaded

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "task_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        return tags
