"""The extension that munia/*.py stand on; not for users."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

__version__: str

# text, ids, finish_reason, score
BeamTuple: TypeAlias = tuple[str, list[int], str, float]
# text, ids, finish_reason, prompt, cached, completion tokens, first_token_ms, total_ms, beams
GeneratedTuple: TypeAlias = tuple[
    str, list[int], str, int, int, int, float, float, list[BeamTuple]
]
# label, confidence, probabilities, raw, emoji, prompt, cached, completion tokens, n_pieces, truncated
LabelledTuple: TypeAlias = tuple[
    str | None, float, Mapping[str, float] | None, str, str, int, int, int, int, bool
]
# of the emotion; reply, finish_reason, prompt, cached, completion tokens, emotion_ms,
# first_token_ms, total_ms
PredictedTuple: TypeAlias = tuple[
    LabelledTuple, str | None, str, int, int, int, float, float, float
]

class ModelError(RuntimeError): ...

class LoadSettings:
    def __init__(self) -> None: ...
    weights: str
    threads: int
    cpus: list[int]
    context: int
    isa: str
    kv_cache: bool
    map_packed: bool
    verify: bool
    max_sequences: int

class ReplySettings:
    def __init__(self) -> None: ...
    max_tokens: int
    min_tokens: int
    stops: list[str]
    num_beams: int
    num_return_sequences: int
    length_penalty: float
    temperature: float
    top_k: int
    top_p: float
    min_p: float
    seed: int
    repetition_penalty: float
    presence_penalty: float
    frequency_penalty: float
    logit_bias: list[tuple[int, float]]
    def set_early_stopping(self, name: str) -> None: ...
    def set_json_schema(self, schema: str) -> None: ...
    def set_regex(self, pattern: str) -> None: ...
    def set_choice(self, choices: list[str]) -> None: ...

class Task:
    @staticmethod
    def find(name: str) -> Task: ...
    @staticmethod
    def from_labels(labels: Iterable[str], system: str | None) -> Task: ...
    @property
    def name(self) -> str: ...
    @property
    def labels(self) -> list[str]: ...
    @property
    def method(self) -> str: ...
    @property
    def head_layers(self) -> list[int]: ...
    def save(self, path: str, name: str | None) -> None: ...

class Stream:
    def next(self, wait: bool) -> str | None: ...
    def descriptor(self) -> int: ...
    def cancel(self) -> None: ...
    @property
    def ended(self) -> bool: ...
    @property
    def result(self) -> GeneratedTuple | None: ...

class Model:
    def __init__(self, path: bytes, settings: LoadSettings) -> None: ...
    def close(self) -> None: ...
    @property
    def closed(self) -> bool: ...
    def info(self) -> dict[str, Any]: ...
    def tokenize(self, text: str, special: bool) -> list[int]: ...
    def detokenize(
        self, ids: Sequence[int] | npt.NDArray[np.integer[Any]], skip_special: bool
    ) -> str: ...
    def render(self, context: str) -> tuple[str, list[int]]: ...
    def generate(
        self,
        prompt: str | Sequence[int] | npt.NDArray[np.integer[Any]],
        settings: ReplySettings,
        special: bool,
    ) -> GeneratedTuple: ...
    def stream(
        self,
        prompt: str | Sequence[int] | npt.NDArray[np.integer[Any]],
        settings: ReplySettings,
        special: bool,
    ) -> Stream: ...
    def score(
        self,
        prompt: str | Sequence[int] | npt.NDArray[np.integer[Any]],
        continuations: Iterable[str | Sequence[int] | npt.NDArray[np.integer[Any]]],
        special: bool,
    ) -> npt.NDArray[np.float64]: ...
    def logits(
        self, prompt: str | Sequence[int] | npt.NDArray[np.integer[Any]], special: bool
    ) -> npt.NDArray[np.float32]: ...
    def all_logits(
        self, prompt: str | Sequence[int] | npt.NDArray[np.integer[Any]], special: bool
    ) -> npt.NDArray[np.float32]: ...
    def hidden(
        self,
        prompt: str | Sequence[int] | npt.NDArray[np.integer[Any]],
        layers: list[int],
        special: bool,
    ) -> list[npt.NDArray[np.float32]]: ...
    def classify(
        self, texts: Iterable[str], task: Task, long_texts: str, keep_errors: bool
    ) -> list[LabelledTuple | str]: ...
    def predict(
        self, text: str, task: Task, settings: ReplySettings, reply: bool, prompt: str
    ) -> PredictedTuple: ...
    def learn(
        self, texts: Iterable[str], labels: list[int], task: Task, recipe: str
    ) -> Task: ...

def random_seed() -> int: ...
