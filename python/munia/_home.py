"""Where `munia pull` keeps its models."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")


def _home(environment: Mapping[str, str]) -> str | None:
    """As the program finds it (model_home() of src/hub)."""
    if environment.get("MUNIA_HOME"):
        return environment["MUNIA_HOME"]
    if environment.get("XDG_CACHE_HOME", "").startswith("/"):
        return os.path.join(environment["XDG_CACHE_HOME"], "munia")
    if environment.get("HOME"):
        return os.path.join(environment["HOME"], ".cache", "munia")
    return None


def _loaded_file(place: str) -> str:
    """The one weights file of a fetched model; its directory where it is a Hugging Face one."""
    with open(os.path.join(place, "munia-model.json"), encoding="utf-8") as file:
        names = [one["name"] for one in json.load(file)["files"]]
    weights = [name for name in names if name.endswith((".gguf", ".munia"))]
    if "config.json" in names or len(weights) != 1:
        return place
    return os.path.join(place, weights[0])


def model_path(typed: str) -> str:
    """A path that exists, as it is; what is loaded of a fetched model, for its name; of another path
    what was typed, for the loader to refuse. Raises FileNotFoundError for a name of no fetched model,
    ValueError where the model's record is damaged."""
    is_name = _NAME.fullmatch(typed) and not typed.endswith((".gguf", ".munia"))
    if os.path.exists(typed) or not is_name:
        return typed
    home = _home(os.environ)
    place = None if home is None else os.path.join(home, typed)
    if place is None or not os.path.isfile(os.path.join(place, "munia-model.json")):
        raise FileNotFoundError(
            f"there is no model {typed!r}: it is no path, and no model in {home}; `munia pull {typed}` "
            "fetches it where the name is known, `munia models` lists what is here"
        )
    try:
        return _loaded_file(place)
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"the record of model {typed!r} in {place} is damaged ({error}); pull it again"
        ) from None
