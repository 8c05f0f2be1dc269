"""munia.Model: a loaded model and all that can be asked of it."""

from __future__ import annotations

import atexit
import json
import os
import weakref
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias, overload

import numpy as np
import numpy.typing as npt

from munia import _munia
from munia._results import Generated, Labelled, ModelInfo, Predicted, Rendered, Usage
from munia._home import model_path
from munia._settings import load_settings, predict_settings, reply_settings
from munia._stream import Stream, generated
from munia._task import Task, task_of

Ids: TypeAlias = Sequence[int] | npt.NDArray[np.integer[Any]]
Prompt: TypeAlias = str | Ids
Messages: TypeAlias = str | Sequence[Mapping[str, Any]]
TaskLike: TypeAlias = Task | str | os.PathLike[str]
Recipe: TypeAlias = Literal["head", "prior", "threshold", "zero-shot"]

_open_models: weakref.WeakSet[_munia.Model] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """The engine's threads end before the interpreter does, also where models or streams live."""
    for core in list(_open_models):
        core.close()


def _labelled(values: _munia.LabelledTuple | str) -> Labelled:
    assert not isinstance(values, str)
    label, confidence, probabilities, raw, emoji, prompt, cached, completion, pieces, cut = values
    return Labelled(
        label, confidence, probabilities, raw, emoji, Usage(prompt, cached, completion), pieces, cut
    )


def _conversation(messages: Messages, system: str | None = None) -> list[dict[str, Any]]:
    if isinstance(messages, str):
        messages = [{"role": "user", "content": messages}]
    if system is not None:
        messages = [{"role": "system", "content": system}, *messages]
    try:
        return [dict(message) for message in messages]
    except (TypeError, ValueError):
        raise TypeError("messages must be a str, or a list of {'role': …, 'content': …}") from None


def _context(
    messages: list[dict[str, Any]], add_generation_prompt: bool, variables: Mapping[str, Any]
) -> str:
    values = {
        **variables,
        "messages": messages,
        "add_generation_prompt": bool(add_generation_prompt),
    }
    return json.dumps(values, ensure_ascii=False, allow_nan=False)


class Model:
    """A loaded model.

    path: a Hugging Face directory, a .gguf or a packed .munia file, or the name of a model that
        `munia pull NAME` has fetched.
    weights: "exact" (what the files hold), "int8" or "int4"; None: exact, or what a packed file
        holds.
    threads: None: as many as CPU affinity and the container's quota allow.
    context: positions; None: the model's own, at most 4,096.
    cpus: CPUs to bind the threads to. isa: an instruction set ("avx2", …) instead of the best.
    max_sequences: requests that are computed at the same time.
    kv_cache=False computes every token's past again: slow, for comparisons.
    map_packed: maps a packed file instead of copying it; verify compares its checksums first.

    Any thread may call any method. Calls block without the GIL, and Ctrl-C ends the call it meets
    (KeyboardInterrupt). After a fork the child cannot use the model: it raises ModelError. A pickled
    model is its path and options, and is loaded again where it is unpickled.

    Raises FileNotFoundError, ModelError (a broken file, or a kind that munia does not compute),
    ValueError, MemoryError.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        weights: Literal["exact", "int8", "int4"] | None = None,
        threads: int | None = None,
        *,
        context: int | None = None,
        cpus: Iterable[int] | None = None,
        isa: str | None = None,
        max_sequences: int = 16,
        kv_cache: bool = True,
        map_packed: bool = False,
        verify: bool = False,
    ) -> None:
        self._arguments: dict[str, Any] = {
            "weights": weights,
            "threads": threads,
            "context": context,
            "cpus": None if cpus is None else list(cpus),
            "isa": isa,
            "max_sequences": max_sequences,
            "kv_cache": kv_cache,
            "map_packed": map_packed,
            "verify": verify,
        }
        typed = os.fspath(path)
        if not isinstance(typed, str):
            raise TypeError("path must be str or a path of str, not bytes")
        if "\0" in typed:
            raise ValueError(f"path {typed!r} holds a null character")
        self._path = model_path(typed)
        self._core = _munia.Model(os.fsencode(self._path), load_settings(**self._arguments))
        _open_models.add(self._core)
        self._info = ModelInfo(**self._core.info())

    @property
    def path(self) -> str:
        return self._path

    @property
    def info(self) -> ModelInfo:
        """Name, sizes, kernels, threads."""
        return self._info

    def close(self) -> None:
        """Ends what is running (its callers get ModelError) and frees the model's memory, which
        otherwise goes with the last reference. Any number of times."""
        self._core.close()

    @property
    def closed(self) -> bool:
        return self._core.closed

    def tokenize(self, text: str, special: bool = False) -> list[int]:
        """The ids of a text, as prompts have them (with the begin token where the model's files ask
        for one). Special tokens in the text are plain characters unless `special`."""
        return self._core.tokenize(text, special)

    def detokenize(self, ids: Ids, skip_special: bool = False) -> str:
        """The text of ids; bytes that are not UTF-8 become U+FFFD. Raises ValueError for an id
        outside the vocabulary."""
        return self._core.detokenize(ids, skip_special)

    def render(
        self, messages: Messages, add_generation_prompt: bool = True, **variables: Any
    ) -> Rendered:
        """A conversation by the model's own chat template. `variables` are the template's others
        (tools, enable_thinking, …), of the kinds that JSON has. Special tokens in the messages are
        plain characters. Raises ValueError where the model has no template, or the template refuses.
        """
        context = _context(_conversation(messages), add_generation_prompt, variables)
        return Rendered(*self._core.render(context))

    @overload
    def generate(
        self, prompt: Prompt, *, special: bool = ..., stream: Literal[False] = ..., **settings: Any
    ) -> Generated: ...
    @overload
    def generate(
        self, prompt: Prompt, *, special: bool = ..., stream: Literal[True], **settings: Any
    ) -> Stream: ...
    def generate(
        self, prompt: Prompt, *, special: bool = False, stream: bool = False, **settings: Any
    ) -> Generated | Stream:
        """Continues a text or ids, without a template. Greedy unless asked otherwise.

        settings: max_tokens (128), temperature (0), top_k (0: off), top_p (1), min_p (0), seed (None:
        drawn anew), repetition_penalty (1; as in transformers), presence_penalty and
        frequency_penalty (0; as OpenAI's), logit_bias ({id: number added to its logit}), stop (a str
        or several: the text ends before it), min_tokens (0: no end token before so many).
        The form of the reply, one of: json_schema (a dict, or JSON in a str), regex (the whole reply
        matches it), choice (a list of str). What they may hold: docs/constraints.md.
        Beam search as in transformers: num_beams (1; at most 32, and greedy), length_penalty (1),
        early_stopping (False, True or "never"), num_return_sequences (1; see Generated.beams).
        stream=True returns at once with a Stream of the pieces; not with beams.

        Raises ValueError: an empty prompt, one that the context cannot hold, a setting out of range.
        """
        checked = reply_settings({"max_tokens": 128, **settings}, stream)
        if stream:
            return Stream(self._core.stream(prompt, checked, special))
        return generated(self._core.generate(prompt, checked, special))

    @overload
    def chat(
        self,
        messages: Messages,
        *,
        system: str | None = ...,
        stream: Literal[False] = ...,
        **settings: Any,
    ) -> Generated: ...
    @overload
    def chat(
        self, messages: Messages, *, system: str | None = ..., stream: Literal[True], **settings: Any
    ) -> Stream: ...
    def chat(
        self,
        messages: Messages,
        *,
        system: str | None = None,
        stream: bool = False,
        **settings: Any,
    ) -> Generated | Stream:
        """Answers a conversation: messages {"role", "content"}, or a str as the user's only one.

        Settings as of generate(), with max_tokens 256 and repetition_penalty 1.05, as `munia chat`.
        `system` stands before the messages.
        """
        checked = reply_settings({"max_tokens": 256, "repetition_penalty": 1.05, **settings}, stream)
        _, ids = self._core.render(_context(_conversation(messages, system), True, {}))
        if stream:
            return Stream(self._core.stream(ids, checked, False))
        return generated(self._core.generate(ids, checked, False))

    def predict(
        self,
        text: str,
        task: TaskLike = "sentiment",
        *,
        reply: bool = True,
        prompt: Literal["separate", "shared"] = "separate",
        **settings: Any,
    ) -> Predicted:
        """The feeling of a text and a reply to it, computed together, as `munia predict`.

        Settings as of generate(), for one text of no given form. prompt="shared" asks for the feeling
        behind the reply's prompt, so that the text is computed once. Raises ValueError: an empty or too long text.
        """
        checked = predict_settings({"max_tokens": 128, **settings})
        core = task_of(task, None, None)._core
        values = self._core.predict(text, core, checked, reply, prompt)
        emotion, said, finish_reason, n_prompt, cached, completion = values[:6]
        emotion_ms, first_ms, total_ms = values[6:]
        labelled = _labelled(emotion)
        return Predicted(
            emotion=labelled.label,
            probabilities=labelled.probabilities,
            confidence=labelled.confidence,
            emoji=labelled.emoji,
            raw=labelled.raw,
            reply=said,
            finish_reason=finish_reason,
            usage=Usage(n_prompt, cached, completion),
            emotion_ms=emotion_ms,
            first_token_ms=first_ms,
            total_ms=total_ms,
        )

    @overload
    def classify(  # type: ignore[overload-overlap]  # a str is an iterable of str, too
        self,
        texts: str,
        labels: Iterable[str] | None = ...,
        task: TaskLike | None = ...,
        *,
        system: str | None = ...,
        long_texts: Literal["error", "truncate", "window"] = ...,
    ) -> Labelled: ...
    @overload
    def classify(
        self,
        texts: Iterable[str],
        labels: Iterable[str] | None = ...,
        task: TaskLike | None = ...,
        *,
        system: str | None = ...,
        long_texts: Literal["error", "truncate", "window"] = ...,
        errors: Literal["raise"] = ...,
    ) -> list[Labelled]: ...
    @overload
    def classify(
        self,
        texts: Iterable[str],
        labels: Iterable[str] | None = ...,
        task: TaskLike | None = ...,
        *,
        system: str | None = ...,
        long_texts: Literal["error", "truncate", "window"] = ...,
        errors: Literal["return"],
    ) -> list[Labelled | ValueError]: ...
    def classify(
        self,
        texts: str | Iterable[str],
        labels: Iterable[str] | None = None,
        task: TaskLike | None = None,
        *,
        system: str | None = None,
        long_texts: Literal["error", "truncate", "window"] = "error",
        errors: Literal["raise", "return"] = "raise",
    ) -> Labelled | list[Labelled] | list[Labelled | ValueError]:
        """The labels of texts (a list, a pandas Series, …), in their order; of one str, its label.

        The labels to choose from are those of `task` (default "sentiment"; a name, a task file, a
        Task) or `labels`, asked for by `system` where it is given. Texts are computed together,
        equal ones once, and give way to what other threads ask.
        long_texts: what happens to a text that the context cannot hold: "error", "truncate" (its
        beginning is labelled) or "window" (pieces are, and a probability is their weighted mean).
        errors: "return" puts a ValueError in the place of a text that is empty or too long, and
        labels the others (not of one str).

        Raises ValueError with the number of the first text that is empty or too long, TypeError
        with that of one that is no str.
        """
        if errors not in ("raise", "return"):
            raise ValueError(f'errors is {errors!r}; it must be "raise" or "return"')
        core = task_of(task, labels, system)._core
        if isinstance(texts, str):
            return _labelled(self._core.classify([texts], core, long_texts, False)[0])
        if errors == "raise":
            return [_labelled(one) for one in self._core.classify(texts, core, long_texts, False)]
        return [
            ValueError(one) if isinstance(one, str) else _labelled(one)
            for one in self._core.classify(texts, core, long_texts, True)
        ]

    def learn(
        self,
        texts: Iterable[str],
        labels: Iterable[str],
        task: TaskLike | None = None,
        recipe: Recipe = "head",
    ) -> Task:
        """A task learned from labelled texts, as `munia fit --recipe` does from all rows of a file.

        labels: one for each text. task: whose prompt and labels are used; None: the usual question
        with the labels found, sorted. recipe: "head" (a linear head on hidden states; at least 8
        texts of each label), "prior" or "threshold" (a correction of the model's own probabilities;
        at least 5).

        The same texts in the same order give the same task. Ctrl-C ends it while the model reads the
        texts, not while the head is computed from what was read. Raises ValueError: too few texts, one
        that is empty or too long, a label that the task does not have.
        """
        wanted = list(labels)
        base = Task.from_labels(sorted(set(wanted))) if task is None else task_of(task, None, None)
        places = {name: i for i, name in enumerate(base.labels)}
        for i, label in enumerate(wanted):
            if label not in places:
                raise ValueError(
                    f"label {label!r} of text {i + 1} is none of the task's: {', '.join(places)}"
                )
        core = self._core.learn(texts, [places[label] for label in wanted], base._core, recipe)
        return Task(core)

    def score(
        self, prompt: Prompt, continuations: Iterable[Prompt], *, special: bool = False
    ) -> npt.NDArray[np.float64]:
        """[n_continuations] float64: the sum of the natural-log probabilities of each continuation's
        tokens behind the prompt. A text is tokenized on its own."""
        return self._core.score(prompt, continuations, special)

    def logits(
        self, prompt: Prompt, *, all: bool = False, special: bool = False
    ) -> npt.NDArray[np.float32]:
        """The raw logits behind the prompt's last token, [vocab_size] float32; with `all` behind
        every token, [n_tokens, vocab_size]."""
        if all:
            return self._core.all_logits(prompt, special)
        return self._core.logits(prompt, special)

    def hidden(
        self, prompt: Prompt, layer: int = -1, *, special: bool = False
    ) -> npt.NDArray[np.float32]:
        """Hidden states of the prompt's tokens, [n_tokens, hidden_dim] float32.

        layer 0 is the embedding, layer l the output of block l; negative ones count from the last
        block, which is taken before the final norm.
        """
        return self.hidden_layers(prompt, [layer], special=special)[0]

    def hidden_layers(
        self, prompt: Prompt, layers: Iterable[int], *, special: bool = False
    ) -> list[npt.NDArray[np.float32]]:
        """hidden() of several layers, computed in one pass; an array for each."""
        n_layers = self._info.n_layers
        wanted = list(layers)
        if not wanted:
            raise ValueError("layers is empty; name at least one")
        for layer in wanted:
            if not -n_layers - 1 <= layer <= n_layers:
                raise ValueError(f"layer {layer} is outside {-n_layers - 1} to {n_layers}")
        counted = [layer if layer >= 0 else layer + n_layers + 1 for layer in wanted]
        places = sorted(set(counted))
        arrays = dict(zip(places, self._core.hidden(prompt, places, special), strict=True))
        return [arrays[layer] for layer in counted]

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        info = self._info
        state = ", closed" if self.closed else ""
        return f"Model({self._path!r}, {info.weights}, {info.threads} threads{state})"

    # A model is immutable, so a copy is the same one (scikit-learn clones estimators that hold one).
    def __copy__(self) -> Model:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Model:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _load_again, (os.path.abspath(self._path), self._arguments)


def _load_again(path: str, arguments: dict[str, Any]) -> Model:
    return Model(path, **arguments)
