"""Dataclasses to protobuf messages and back: fields of the same name, an absent optional field is None.

A message type has every field that its dataclass has; `tests/unit/launcher` checks the pairs.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar, Union, get_args, get_origin

from google.protobuf.message import Message

from dtfctl.launcher.codec import hints

T = TypeVar("T")
M = TypeVar("M", bound=Message)


def to_message(value: object, message_class: type[M]) -> M:
    message = message_class()
    fill(message, value)
    return message


def fill(message: Message, value: object) -> None:
    assert is_dataclass(value)
    for f in fields(value):
        item = getattr(value, f.name)
        if item is None:
            continue
        if isinstance(item, Mapping):
            getattr(message, f.name).update(item)
        elif isinstance(item, (tuple, list)):
            target = getattr(message, f.name)
            if item and is_dataclass(item[0]):
                for element in item:
                    fill(target.add(), element)
            else:
                target.extend(item)
        elif is_dataclass(item):
            child = getattr(message, f.name)
            child.SetInParent()
            fill(child, item)
        else:
            setattr(message, f.name, item)


def from_message(cls: type[T], message: Message) -> T:
    known = hints(cls)  # type: ignore[arg-type]
    names = [f.name for f in fields(cls)]  # type: ignore[arg-type]
    return cls(**{name: _read(known[name], message, name) for name in names})


def _read(hint: Any, message: Message, name: str) -> Any:
    if get_origin(hint) in (Union, types.UnionType) and type(None) in get_args(hint):
        if not message.HasField(name):
            return None
        hint = next(arg for arg in get_args(hint) if arg is not type(None))
    value = getattr(message, name)
    origin = get_origin(hint)
    if origin is tuple:
        item = get_args(hint)[0]
        if isinstance(item, type) and is_dataclass(item):
            return tuple(from_message(item, element) for element in value)
        return tuple(value)
    if origin in (dict, Mapping):
        return dict(value)
    if isinstance(hint, type) and is_dataclass(hint):
        return from_message(hint, value)
    return value
