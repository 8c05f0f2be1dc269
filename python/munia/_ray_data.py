"""munia.ray for data sets: rows in, the same rows with labels out, by actors of Ray Data.

An actor is a process with a model of its own; a packed file (.munia) is mapped, so that all actors of
a node share one copy of the weights in memory. A row's label depends on nothing but its text, so rows
that are computed again, because an actor or a node died, are the same bytes.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from typing import Any, Literal, TypeAlias

import pyarrow as pa
import ray.data
from ray.data.datasource import BlockBasedFileDatasink

from munia._model import Model, TaskLike
from munia._results import Labelled
from munia._task import Task, task_of

Dataset: TypeAlias = Any  # ray.data.Dataset
Format: TypeAlias = Literal["parquet", "csv", "jsonl"]
LongTexts: TypeAlias = Literal["error", "truncate", "window"]

_ENDINGS: dict[str, Format] = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".csv.gz": "csv",
    ".jsonl": "jsonl",
    ".jsonl.gz": "jsonl",
    ".json": "jsonl",
}
_USUAL_COLUMNS = ("text", "review")


def classify_dataset(
    data: Dataset | str | os.PathLike[str] | Sequence[str],
    model: str | os.PathLike[str],
    *,
    labels: Iterable[str] | None = None,
    task: TaskLike | None = None,
    system: str | None = None,
    column: str | None = None,
    prefix: str = "",
    long_texts: LongTexts = "error",
    errors: Literal["raise", "column"] = "raise",
    actors: int | tuple[int, int] = 1,
    cpus: int = 1,
    rows_per_task: int = 1024,
    retries: int = 3,
    keep_order: bool = True,
    **model_options: Any,
) -> Dataset:
    """The rows of a data set with labels and probabilities, as `munia classify` gives them.

    data: a ray.data.Dataset, or what read_rows() takes. The result is a Dataset as well, computed when
        it is used: written, iterated over.
    model: a path on every node. A packed file is mapped, and shared by the actors of a node.
    labels, task, system, long_texts: as in Model.classify. A task file is read here, once, and sent to
        the actors.
    column: where the texts are; None: "text", "review" or the only column.
    prefix: of the new columns' names: label, confidence, p_LABEL (or raw, with a task that decodes its
        answer), and "long" where long_texts is not "error".
    errors: "column" keeps rows that have no text, an empty or a too long one: their label is null, and a
        column "error" tells why. "raise" ends the run at the first.
    actors: how many, or the least and the most. cpus: of each; also the threads it computes with.
    rows_per_task: what one actor labels at a time, and what is done again when it dies in it.
    retries: how often an actor is started again, and a task repeated, after a process or node died.
    keep_order: False lets rows come in the order in which they get done.
    model_options: weights, context, isa, … of munia.Model.

    Raises ValueError: no such column, a new column's name that is taken, actors that leave no CPU for
    reading and writing; TypeError: a column that does not hold strings; and what finding a task raises.
    An actor that cannot load the model, or (errors="raise") meets a wrong text, ends the run.
    """
    if errors not in ("raise", "column"):
        raise ValueError(f'errors is {errors!r}; it must be "raise" or "column"')
    if long_texts not in ("error", "truncate", "window"):
        raise ValueError(
            f'long_texts is {long_texts!r}; it must be "error", "truncate" or "window"'
        )
    for name, number, least in (
        ("cpus", cpus, 1),
        ("rows_per_task", rows_per_task, 1),
        ("retries", retries, 0),
    ):
        if number < least:
            raise ValueError(f"{name} is {number}; it must be at least {least}")
    asked = task_of(task, labels, system)
    rows = data if isinstance(data, ray.data.Dataset) else read_rows(data)
    new_names = _Names(asked, prefix, long_texts, errors)
    text_column = _text_column(rows.schema(), column, new_names.all())
    _check_room(actors, cpus)
    labelled = rows.repartition(target_num_rows_per_block=rows_per_task).map_batches(
        _Labeller,
        fn_constructor_kwargs={
            "model": os.fspath(model),
            "model_options": {"threads": cpus, "map_packed": True, **model_options},
            "task": asked,
            "column": text_column,
            "names": new_names,
            "long_texts": long_texts,
        },
        batch_format="pyarrow",
        batch_size=None,
        concurrency=actors,
        num_cpus=cpus,
        max_restarts=retries,
        max_task_retries=retries,
        udf_modifying_row_count=False,
    )
    labelled.context.execution_options.preserve_order = keep_order
    return labelled


def read_rows(
    paths: str | os.PathLike[str] | Sequence[str], format: Format | None = None
) -> Dataset:
    """A Dataset of Parquet, CSV or JSON Lines: files, directories, or addresses that Ray reads.

    format: None: by the ending; a directory without one is Parquet. The fields of CSV stay the strings
    that they are, as in `munia classify`, and may hold line ends. Raises ValueError: endings that are
    not known, or not the same.
    """
    if isinstance(paths, (str, os.PathLike)):
        paths = [os.fspath(paths)]
    names = [os.fspath(path) for path in paths]
    if format is None:
        formats = {_format_of(name) for name in names}
        if len(formats) != 1:
            raise ValueError(f"{len(formats)} formats in one data set: {', '.join(names[:5])}")
        (format,) = formats
    if format == "parquet":
        return ray.data.read_parquet(names)
    if format == "jsonl":
        return ray.data.read_json(names)
    if format != "csv":
        raise ValueError(f'format is {format!r}; it must be "parquet", "csv" or "jsonl"')
    import pyarrow.csv

    parse = pyarrow.csv.ParseOptions(newlines_in_values=True)
    columns = ray.data.read_csv(names, parse_options=parse).schema().names
    strings = pyarrow.csv.ConvertOptions(column_types={name: pa.string() for name in columns})
    return ray.data.read_csv(names, parse_options=parse, convert_options=strings)


def write_rows(rows: Dataset, directory: str | os.PathLike[str], format: Format = "parquet") -> None:
    """Computes a Dataset and writes it as files of a new or empty directory, in the rows' order by
    their names.

    Numbers are written whole, so that they read back as the same bytes (Ray's own write_json rounds
    to ten places). Raises ValueError for another format.
    """
    path = os.fspath(directory)
    if format == "parquet":
        rows.write_parquet(path)
    elif format == "csv":
        rows.write_csv(path)
    elif format == "jsonl":
        rows.write_datasink(_JsonLines(path, file_format="jsonl"))
    else:
        raise ValueError(f'format is {format!r}; it must be "parquet", "csv" or "jsonl"')


def _format_of(name: str) -> Format:
    base = name.rstrip("/").rsplit("/", 1)[-1].lower()
    for ending, format in _ENDINGS.items():
        if base.endswith(ending):
            return format
    if "." in base:
        raise ValueError(
            f'{name}: its ending is none of {", ".join(_ENDINGS)}; name the format with format='
        )
    return "parquet"


def _text_column(schema: Any, column: str | None, new_names: Sequence[str]) -> str:
    if schema is None:
        raise ValueError("the data set has no rows, so its columns are not known")
    names = list(schema.names)
    shown = ", ".join(map(repr, names))
    if column is None:
        usual = [name for name in _USUAL_COLUMNS if name in names]
        if not usual and len(names) > 1:
            raise ValueError(f"name the column of the texts with column=; there are {shown}")
        column = usual[0] if usual else names[0]
    if names.count(column) != 1:
        raise ValueError(f"there are {names.count(column)} columns {column!r}; there are {shown}")
    kind = schema.types[names.index(column)]
    if isinstance(kind, pa.DataType) and not _holds_strings(kind):
        raise TypeError(f"column {column!r} holds {kind}, and must hold strings")
    for name in new_names:
        if name in names:
            raise ValueError(
                f"the data set has a column {name!r} already; give the new ones another beginning "
                "with prefix="
            )
    return column


def _holds_strings(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_null(kind)
    )


def _check_room(actors: int | tuple[int, int], cpus: int) -> None:
    """Actors that took every CPU would wait for rows which nobody can read."""
    least = actors if isinstance(actors, int) else actors[0]
    if least < 1:
        raise ValueError(f"actors is {actors}; there must be at least 1")
    there = int(ray.cluster_resources().get("CPU", 0))
    if least * cpus >= there:
        raise ValueError(
            f"{least} actors with {cpus} CPUs each need {least * cpus} of the cluster's {there} CPUs, "
            "and reading and writing rows needs one more; lower actors= or cpus="
        )


class _Names:
    """The new columns, and a batch's values for them."""

    def __init__(self, task: Task, prefix: str, long_texts: str, errors: str) -> None:
        self.labels = task.labels
        self.scores = task.method != "generate"
        self.prefix = prefix
        self.tells_long = long_texts != "error"
        self.tells_errors = errors == "column"

    def all(self) -> list[str]:
        names = ["label"]
        names += ["confidence", *(f"p_{label}" for label in self.labels)] if self.scores else ["raw"]
        names += ["long"] * self.tells_long + ["error"] * self.tells_errors
        return [self.prefix + name for name in names]

    def columns(self, outcomes: Sequence[Labelled | ValueError]) -> list[Any]:
        """Arrays in the order of all()."""
        done = [one if isinstance(one, Labelled) else None for one in outcomes]
        columns: list[Any] = [pa.array([one and one.label for one in done], pa.string())]
        if self.scores:
            columns.append(pa.array([one and one.confidence for one in done], pa.float64()))
            for label in self.labels:
                column = [one and one.probabilities and one.probabilities[label] for one in done]
                columns.append(pa.array(column, pa.float64()))
        else:
            columns.append(pa.array([one and one.raw for one in done], pa.string()))
        if self.tells_long:
            columns.append(pa.array([one and _length_note(one) for one in done], pa.string()))
        if self.tells_errors:
            wrong = [str(one) if isinstance(one, ValueError) else None for one in outcomes]
            columns.append(pa.array(wrong, pa.string()))
        return columns


def _length_note(one: Labelled) -> str | None:
    if one.n_pieces > 1:
        return f"{one.n_pieces} windows"
    return "truncated" if one.truncated else None


class _Labeller:
    """What an actor is: a model, and tables through it."""

    def __init__(
        self,
        model: str,
        model_options: dict[str, Any],
        task: Task,
        column: str,
        names: _Names,
        long_texts: LongTexts,
    ) -> None:
        self._model = Model(model, **model_options)
        self._task = task
        self._column = column
        self._names = names
        self._long_texts: LongTexts = long_texts

    def __call__(self, batch: pa.Table) -> pa.Table:
        texts = batch.column(self._column).to_pylist()
        for text in texts:
            if text is not None and not isinstance(text, str):
                raise TypeError(
                    f"column {self._column!r} holds {type(text).__name__}, and must hold strings"
                )
        # No text is an empty one: both cannot be labelled.
        outcomes = self._model.classify(
            (text or "" for text in texts),
            task=self._task,
            long_texts=self._long_texts,
            errors="return",
        )
        if not self._names.tells_errors:
            for outcome in outcomes:
                if isinstance(outcome, ValueError):
                    raise ValueError(
                        f"a text of column {self._column!r} cannot be labelled: {outcome}; with "
                        'errors="column" such rows are kept and told of'
                    )
        for name, values in zip(self._names.all(), self._names.columns(outcomes), strict=True):
            batch = batch.append_column(name, values)
        return batch


class _JsonLines(BlockBasedFileDatasink):  # type: ignore[misc]
    """A row a line, with every digit of its numbers."""

    def write_block_to_file(self, block: Any, file: Any) -> None:
        for row in block.to_arrow().to_pylist():
            file.write((json.dumps(row, ensure_ascii=False, default=str) + "\n").encode())
