"""Dataclasses to protobuf messages and back: fields of the same name, an absent optional field is None.

A message type has every field that its dataclass has; `tests/unit/launcher` checks the pairs.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from typing import Any, TypeVar, Union, get_args, get_origin

from google.protobuf.message import Message

from dtfctl.launcher.messages.json_codec import hints
from dtfctl.values import names_of

T = TypeVar("T")
M = TypeVar("M", bound=Message)


def to_message(value: object, message_class: type[M]) -> M:
    message = message_class()
    fill(message, value)
    return message


def fill(message: Message, value: object) -> None:
    names = names_of(type(value))
    assert names is not None
    for name in names:
        item = getattr(value, name)
        if item is None:
            continue
        if isinstance(item, Mapping):
            getattr(message, name).update(item)
        elif isinstance(item, (tuple, list)):
            target = getattr(message, name)
            if item and names_of(type(item[0])) is not None:
                for element in item:
                    fill(target.add(), element)
            else:
                target.extend(item)
        elif names_of(type(item)) is not None:
            child = getattr(message, name)
            child.SetInParent()
            fill(child, item)
        else:
            setattr(message, name, item)


def from_message(cls: type[T], message: Message) -> T:
    known = hints(cls)  # type: ignore[arg-type]
    return cls(**{name: _read(known[name], message, name) for name in names_of(cls) or ()})


def _read(hint: Any, message: Message, name: str) -> Any:
    if get_origin(hint) in (Union, types.UnionType) and type(None) in get_args(hint):
        if not message.HasField(name):
            return None
        hint = next(arg for arg in get_args(hint) if arg is not type(None))
    value = getattr(message, name)
    origin = get_origin(hint)
    if origin is tuple:
        item = get_args(hint)[0]
        if names_of(item) is not None:
            return tuple(from_message(item, element) for element in value)
        return tuple(value)
    if origin in (dict, Mapping):
        return dict(value)
    if names_of(hint) is not None:
        return from_message(hint, value)
    return value
