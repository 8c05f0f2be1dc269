"""What a Model gives back. Plain immutable values; each knows how to become a dict (asdict of
dataclasses), and prints as what it holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Usage:
    """Counts of tokens."""

    prompt_tokens: int
    cached_tokens: int
    """Of prompt_tokens: known from an earlier prompt, so not computed again."""
    completion_tokens: int


@dataclass(frozen=True)
class Rendered:
    """A conversation written out by the model's chat template."""

    text: str
    ids: list[int]


@dataclass(frozen=True)
class Beam:
    """A text that a beam search found."""

    text: str
    ids: list[int]
    finish_reason: str
    score: float
    """(sum of its tokens' natural-log probabilities) / length**length_penalty"""


@dataclass(frozen=True)
class Generated:
    """A whole reply."""

    text: str
    """Without special tokens, cut before a stop text."""
    ids: list[int]
    """Without the end token."""
    finish_reason: str
    """"stop" or "length"."""
    usage: Usage
    first_token_ms: float
    """Milliseconds from the call to the first token."""
    total_ms: float
    beams: list[Beam] = field(default_factory=list)
    """Of a beam search: num_return_sequences texts, the best first (it is `text`)."""

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Labelled:
    """A text's label."""

    label: str | None
    """None: a task that decodes its answer found no label in it."""
    confidence: float
    """The label's probability; 0 where a task has none."""
    probabilities: Mapping[str, float] | None
    """Of every label, in the task's order; None with a task that decodes its answer."""
    raw: str
    """What such a task decoded; else empty."""
    emoji: str
    usage: Usage
    n_pieces: int = 1
    """Above 1: a long text was labelled in so many pieces."""
    truncated: bool = False
    """True: only the beginning of a long text was labelled."""


@dataclass(frozen=True)
class Predicted:
    """The feeling of a text and a reply to it."""

    emotion: str | None
    probabilities: Mapping[str, float] | None
    confidence: float
    emoji: str
    raw: str
    reply: str | None
    """None where none was asked for."""
    finish_reason: str
    usage: Usage
    """Of both prompts."""
    emotion_ms: float
    first_token_ms: float
    total_ms: float


@dataclass(frozen=True)
class ModelInfo:
    """What is known of a loaded model."""

    name: str
    architecture: str
    """"qwen2", "llama", …"""
    weights: str
    """Types of the weights: "BF16", "Q4_K+Q6_K", …"""
    isa: str
    """Kernels in use."""
    n_layers: int
    hidden_dim: int
    vocab_size: int
    context: int
    """Positions."""
    threads: int
    weight_bytes: int
    load_seconds: float
