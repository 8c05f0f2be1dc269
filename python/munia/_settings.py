"""Checks the kinds of what a caller sets, and hands it to the extension; ranges are checked where the
values are used."""

from __future__ import annotations

import json
import operator
from collections.abc import Mapping
from typing import Any

from munia import _munia

_INT64 = (-(2**63), 2**63 - 1)


def _integer(name: str, value: Any, low: int = _INT64[0], high: int = _INT64[1]) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer, not {type(value).__name__}") from None
    if not low <= number <= high:
        raise ValueError(f"{name} is {number}; it must be {low} to {high}")
    return number


def _number(name: str, value: Any) -> float:
    if isinstance(value, str):
        raise TypeError(f"{name} must be a number, not str")
    try:
        return float(value)
    except TypeError:
        raise TypeError(f"{name} must be a number, not {type(value).__name__}") from None


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} must be str, not {type(value).__name__}")
    value.encode()  # a lone surrogate is a UnicodeEncodeError
    return value


def load_settings(
    weights: str | None,
    threads: int | None,
    context: int | None,
    cpus: list[int] | None,
    isa: str | None,
    max_sequences: int,
    kv_cache: bool,
    map_packed: bool,
    verify: bool,
) -> _munia.LoadSettings:
    settings = _munia.LoadSettings()
    if weights is not None:
        settings.weights = _text("weights", weights)
        if not weights:
            raise ValueError('weights is empty; it must be "exact", "int8" or "int4", or None')
    if threads is not None:
        settings.threads = _integer("threads", threads, 1, 1024)
    if context is not None:
        settings.context = _integer("context", context, 1)
    if cpus is not None:
        settings.cpus = [_integer("cpus", cpu, 0, 2**20) for cpu in cpus]
    if isa is not None:
        settings.isa = _text("isa", isa)
    settings.max_sequences = _integer("max_sequences", max_sequences)
    settings.kv_cache = bool(kv_cache)
    settings.map_packed = bool(map_packed)
    settings.verify = bool(verify)
    return settings


_NUMBERS = (
    "temperature",
    "top_p",
    "min_p",
    "repetition_penalty",
    "presence_penalty",
    "frequency_penalty",
)
_ONE_TEXT = (
    "max_tokens",
    "min_tokens",
    "top_k",
    "seed",
    "stop",
    "logit_bias",
    *_NUMBERS,
    "num_beams",
    "length_penalty",
    "early_stopping",
)
_FORMS = ("json_schema", "regex", "choice")
_ALL = (*_ONE_TEXT, "num_return_sequences", *_FORMS)


def predict_settings(values: Mapping[str, Any]) -> _munia.ReplySettings:
    """Of the reply beside an emotion: one text, of no given form. Raises as reply_settings()."""
    return _settings(values, _ONE_TEXT)


def reply_settings(values: Mapping[str, Any], stream: bool = False) -> _munia.ReplySettings:
    """Raises TypeError for a setting that there is not and for a wrong kind of value, ValueError for
    a form that cannot be, and for beams that are to be streamed."""
    settings = _settings(values, _ALL)
    if stream and settings.num_beams != 1:
        raise ValueError(
            f"num_beams {settings.num_beams} cannot be streamed: the best text is known at the end; "
            "leave stream out, or use 1"
        )
    _set_form(settings, values)
    return settings


def _set_beams(settings: _munia.ReplySettings, values: Mapping[str, Any]) -> None:
    for name in ("num_beams", "num_return_sequences"):
        if name in values:
            setattr(settings, name, _integer(name, values[name]))
    if "length_penalty" in values:
        settings.length_penalty = _number("length_penalty", values["length_penalty"])
    early = values.get("early_stopping")
    if early is not None:
        settings.set_early_stopping(str(early).lower() if isinstance(early, bool) else str(early))


def _set_form(settings: _munia.ReplySettings, values: Mapping[str, Any]) -> None:
    given = [name for name in _FORMS if values.get(name) is not None]
    if len(given) > 1:
        raise ValueError(f"{given[0]} and {given[1]} are given; a reply has one form")
    for name in given:
        value = values[name]
        if name == "json_schema":
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            settings.set_json_schema(_text(name, text))
        elif name == "regex":
            settings.set_regex(_text(name, value))
        elif isinstance(value, str):
            raise TypeError("choice must be a list of str, not str")
        else:
            settings.set_choice([_text(name, one) for one in value])


def _settings(values: Mapping[str, Any], known: tuple[str, ...]) -> _munia.ReplySettings:
    for name in values:
        if name not in known:
            raise TypeError(f"there is no setting {name!r}; known are {', '.join(known)}")
    settings = _munia.ReplySettings()
    settings.max_tokens = _integer("max_tokens", values["max_tokens"])
    if "min_tokens" in values:
        settings.min_tokens = _integer("min_tokens", values["min_tokens"])
    _set_beams(settings, values)
    for name in _NUMBERS:
        if name in values:
            setattr(settings, name, _number(name, values[name]))
    if "top_k" in values:
        settings.top_k = _integer("top_k", values["top_k"])
    seed = values.get("seed")
    if seed is not None:
        settings.seed = _integer("seed", seed, 0, 2**64 - 1)
    elif settings.temperature > 0:
        settings.seed = _munia.random_seed()
    stop = values.get("stop")
    if stop is not None:
        stops = [stop] if isinstance(stop, str) else list(stop)
        settings.stops = [_text("stop", text) for text in stops]
    bias = values.get("logit_bias")
    if bias is not None:
        settings.logit_bias = [
            (_integer("logit_bias", token, 0, 2**31 - 1), _number("logit_bias", amount))
            for token, amount in dict(bias).items()
        ]
    return settings
