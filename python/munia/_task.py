"""Tasks: a label set and the way to ask the model for it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any

from munia import _munia

_FILE = "task.toml"
_BUILT_IN = ("sentiment", "sentiment-best", "sentiment-raw", "sentiment-3")


class Task:
    """A label set and the way to ask the model for it. Immutable.

    Task.find gives the built-in tasks and reads task files, Task.from_labels makes one of labels,
    Model.learn makes one from labelled texts. `munia classify --task` takes what save() writes.
    """

    __slots__ = ("_core",)

    def __init__(self, core: _munia.Task) -> None:
        self._core = core

    @staticmethod
    def find(name: str | os.PathLike[str]) -> Task:
        """A built-in task ("sentiment", "sentiment-best", "sentiment-raw", "sentiment-3") or a task
        file (.toml).

        Raises FileNotFoundError when there is no such file, ValueError when there is no such task
        or the file is wrong: its line and key.
        """
        if isinstance(name, str) and name in _BUILT_IN:
            return _built_in(name)
        return Task(_munia.Task.find(os.fspath(name)))

    @staticmethod
    def from_labels(labels: Iterable[str], system: str | None = None) -> Task:
        """A task of at least two different labels; `system` is the question, without it the usual
        one with these labels. Raises ValueError."""
        if isinstance(labels, str):
            raise TypeError("labels must be a list of str, not one str")
        return _of_labels(tuple(labels), system)

    @property
    def name(self) -> str:
        return self._core.name

    @property
    def labels(self) -> list[str]:
        return self._core.labels

    @property
    def method(self) -> str:
        """"score" (probabilities of the labels' texts), "generate" (the label that the model writes)
        or "head" (a linear head on hidden states)."""
        return self._core.method

    @property
    def head_layers(self) -> list[int]:
        """The layers whose hidden states a head reads; empty without a head."""
        return self._core.head_layers

    def save(self, path: str | os.PathLike[str], name: str | None = None) -> None:
        """Writes a task file (.toml), and its head, where it has one, beside it. `name` replaces
        the task's own. Raises ValueError for another ending, OSError when it cannot be written."""
        self._core.save(os.fspath(path), name)

    # Immutable: a copy is the same one. Pickled as the files that save() writes.
    def __copy__(self) -> Task:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Task:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        with tempfile.TemporaryDirectory(prefix="munia-") as directory:
            self.save(Path(directory) / _FILE)
            files = {path.name: path.read_bytes() for path in Path(directory).iterdir()}
        return _from_files, (files,)

    def __repr__(self) -> str:
        return f"Task({self.name!r}, labels={self.labels!r}, method={self.method!r})"


def _from_files(files: dict[str, bytes]) -> Task:
    with tempfile.TemporaryDirectory(prefix="munia-") as directory:
        for name, content in files.items():
            (Path(directory) / name).write_bytes(content)
        return Task.find(Path(directory) / _FILE)


# The same object for the same task, so that a model prepares it once.
@lru_cache(maxsize=None)
def _built_in(name: str) -> Task:
    return Task(_munia.Task.find(name))


@lru_cache(maxsize=16)
def _of_labels(labels: tuple[str, ...], system: str | None) -> Task:
    return Task(_munia.Task.from_labels(list(labels), system))


def task_of(
    task: Task | str | os.PathLike[str] | None, labels: Iterable[str] | None, system: str | None
) -> Task:
    """The task that arguments of Model.classify name; "sentiment" when they name none."""
    if labels is not None:
        if task is not None:
            raise ValueError("give either task or labels, not both")
        return Task.from_labels(labels, system)
    if system is not None:
        raise ValueError("system needs labels")
    if isinstance(task, Task):
        return task
    return Task.find("sentiment" if task is None else task)
