"""Dataclasses to JSON and back, by their type hints: for state files and database columns.

>>> from dtfctl.health.restart import RestartHistory
>>> text = encode(RestartHistory(failures=(1.0, 2.5), since_healthy=2)); text
'{"failures":[1.0,2.5],"since_healthy":2}'
>>> decode(RestartHistory, text)
RestartHistory(failures=(1.0, 2.5), since_healthy=2)

Missing keys take the field's default and unknown keys are ignored, so a newer version reads an older one's files.
"""

from __future__ import annotations

import json
import types
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from dtfctl.values import names_of

T = TypeVar("T")


def encode(value: object) -> str:
    return json.dumps(to_plain(value), separators=(",", ":"))


def decode(cls: type[T], text: str | bytes) -> T:
    """Raises ValueError when the text is not JSON of this shape."""
    return from_plain(cls, json.loads(text))


def to_plain(value: object) -> Any:
    names = names_of(type(value))
    if names is not None:
        return {name: to_plain(getattr(value, name)) for name in names}
    if isinstance(value, Mapping):
        return {str(key): to_plain(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [to_plain(item) for item in value]
    if isinstance(value, Path):
        return str(value)
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    raise TypeError(f"cannot write {type(value).__name__} as JSON")


def from_plain(cls: type[T], data: Any) -> T:
    value: T = _build(cls, data)
    return value


@cache
def hints(cls: type) -> dict[str, Any]:
    return get_type_hints(cls)


def _build(hint: Any, data: Any) -> Any:
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return _build_union(get_args(hint), data)
    if origin is Literal:
        if data not in get_args(hint):
            raise ValueError(f"{data!r} is not one of {get_args(hint)}")
        return data
    if origin is tuple:
        args = get_args(hint)
        if len(args) == 2 and args[1] is Ellipsis:
            return tuple(_build(args[0], item) for item in data)
        return tuple(_build(arg, item) for arg, item in zip(args, data, strict=True))
    if origin in (dict, Mapping):
        key_hint, value_hint = get_args(hint)
        return {_build_key(key_hint, key): _build(value_hint, item) for key, item in data.items()}
    names = names_of(hint)
    if names is not None:
        if not isinstance(data, dict):
            raise ValueError(f"expected the fields of {hint.__name__}, got {data!r}")
        known = hints(hint)
        return hint(**{name: _build(known[name], data[name]) for name in names if name in data})
    if hint is float and isinstance(data, int) and not isinstance(data, bool):
        return float(data)
    if hint is Path:
        return Path(data)
    if isinstance(hint, type) and not isinstance(data, hint):
        raise ValueError(f"expected {hint.__name__}, got {data!r}")
    return data


def _build_key(hint: Any, key: str) -> Any:
    return int(key) if hint is int else key


def _build_union(choices: tuple[Any, ...], data: Any) -> Any:
    if data is None and type(None) in choices:
        return None
    failure: ValueError | None = None
    for choice in choices:
        if choice is type(None):
            continue
        try:
            return _build(choice, data)
        except ValueError as error:
            failure = error
    raise failure or ValueError(f"{data!r} fits none of {choices}")
