"""Values to bytes and back, by their type hints: JSON for files and database columns, msgpack for what crosses.

>>> from dtfctl.health.restart import RestartHistory
>>> text = encode(RestartHistory(failures=(1.0, 2.5), since_healthy=2)); text
'{"failures":[1.0,2.5],"since_healthy":2}'
>>> decode(RestartHistory, text)
RestartHistory(failures=(1.0, 2.5), since_healthy=2)
>>> pack(RestartHistory(since_healthy=2)), unpack(RestartHistory, pack(RestartHistory(since_healthy=2)), "request")
(b'\\x81\\xadsince_healthy\\x02', RestartHistory(failures=(), since_healthy=2))

A message is a map of its fields by name, without those that have their default. So both ends may be of versions that
know different fields:

    missing    has its default
    unknown    in a file or a reply it is left out: it only tells. In a request it is refused: it asks for something,
               and who does not know it must not do half of what was asked

What comes is believed nothing: a type that is not the hint's, a word that is not of its Literal, a whole number of
more than 64 bits or a number that is not finite is refused by name, and so are containers of more than `MOST_ITEMS`,
before there is memory for them. A field of several classes carries the name of the one that it has.
"""

from __future__ import annotations

import json
import math
import types
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar, Union, get_args, get_origin, get_type_hints

import msgpack

from dtfctl.values import default_of, names_of

T = TypeVar("T")

Source: TypeAlias = Literal["file", "request", "reply"]
"""Where a value comes from, which decides what is done with fields that are not known."""
Reader: TypeAlias = Callable[[Any], Any]

MOST_ITEMS = 2**16
"""The most items of a list or map in a message. Hostile bytes nest up to 1024 deep, which msgpack refuses to exceed."""
LOWEST, HIGHEST = -(2**63), 2**63 - 1


# ---------------------------------------------------------------- files: JSON


def encode(value: object) -> str:
    """Write a value as JSON, with all of its fields."""
    return json.dumps(to_plain(value), separators=(",", ":"))


def decode(cls: type[T], text: str | bytes) -> T:
    """Read what `encode` wrote, here or in another version. Raises ValueError when it is not JSON of this shape."""
    return from_plain(cls, json.loads(text))


def to_plain(value: object) -> Any:
    """Make what `json.dumps` takes."""
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
    """Make a value of what `json.loads` gave. Raises ValueError."""
    hint: Any = cls
    value: T = _reader(hint, "file")(data)
    return value


# ---------------------------------------------------------------- messages: msgpack


def pack(value: object) -> bytes:
    """Write a message.

    Raises:
        ValueError: a text that is not Unicode, or a whole number that is too long. TypeError: no part of a message.
    """
    data: bytes = msgpack.packb(value, default=_contents)
    return data


def unpack(cls: type[T], data: bytes | bytearray, source: Source) -> T:
    """Read a message. Raises ValueError when it is none of this class."""
    try:
        # Nothing is longer than what there is: an item takes a byte at least. Texts and bytes are held to that anyway.
        most = min(MOST_ITEMS, len(data))
        plain = msgpack.unpackb(data, ext_hook=_refuse_type, max_array_len=most, max_map_len=most)
    except (ValueError, msgpack.UnpackException) as error:
        raise ValueError(f"no message: {error or type(error).__name__}") from None
    hint: Any = cls
    value: T = _reader(hint, source)(plain)
    return value


def _contents(value: object) -> Any:
    """Turn what is not msgpack's into what the packer can go on with."""
    known = _FIELDS.get(type(value)) or _fields_of(type(value))
    if known is None:
        if isinstance(value, int):
            raise ValueError("a number longer than 64 bits cannot be part of a message")
        if isinstance(value, Mapping):
            return dict(value)
        if isinstance(value, Path):
            return str(value)
        raise TypeError(f"a {type(value).__name__} cannot be part of a message")
    said = {}
    for name, default, tagged in known:
        item = getattr(value, name)
        if item is not default and item != default:
            said[name] = {type(item).__name__: item} if tagged and item is not None else item
    return said


_FIELDS: dict[type, tuple[tuple[str, Any, bool], ...]] = {}
_REQUIRED: Any = object()


def _fields_of(cls: type) -> tuple[tuple[str, Any, bool], ...] | None:
    """Find each field's name, default, and whether it says of which class it is; None where there are none."""
    names = names_of(cls)
    if names is None:
        return None
    known = hints(cls)
    found = _FIELDS[cls] = tuple((name, default_of(cls, name, _REQUIRED), _is_tagged(known[name])) for name in names)
    return found


def _refuse_type(code: int, _data: bytes) -> Any:
    raise ValueError(f"an extension of type {code}")


# ---------------------------------------------------------------- from plain data to values


@cache
def hints(cls: type) -> dict[str, Any]:
    """Read the types of a class's fields, by name."""
    return get_type_hints(cls)


def _is_tagged(hint: Any) -> bool:
    return _is_union(hint) and sum(names_of(choice) is not None for choice in get_args(hint)) > 1


def _is_union(hint: Any) -> bool:
    return get_origin(hint) in (Union, types.UnionType)


@cache
def _reader(hint: Any, source: Source) -> Reader:
    """Make what turns plain data into a value of type `hint`, or raises ValueError."""
    if hint in _SIMPLE:
        return _SIMPLE[hint] if hint is not float or source == "file" else _finite
    origin, args = get_origin(hint), get_args(hint)
    if _is_union(hint):
        return _reader_of_tagged(args, source) if _is_tagged(hint) and source != "file" else _reader_of(args, source)
    if origin is Literal:
        return _reader_of_words(args)
    if origin is tuple:
        if len(args) == 2 and args[1] is Ellipsis:
            item = _reader(args[0], source)
            return lambda data: tuple([item(one) for one in _expect(list, data)])
        items = [_reader(arg, source) for arg in args]
        return lambda data: tuple([read(one) for read, one in zip(items, _expect(list, data), strict=True)])
    if origin in (dict, Mapping):
        key, item = (_number_of if args[0] is int else _reader(args[0], source)), _reader(args[1], source)
        return lambda data: {key(name): item(one) for name, one in _expect(dict, data).items()}
    if names_of(hint) is not None:
        return _reader_of_class(hint, source)
    raise TypeError(f"{hint} cannot be part of a value that is written")


def _reader_of_class(cls: type, source: Source) -> Reader:
    known = {name: _reader(hints(cls)[name], source) for name in names_of(cls) or ()}

    def read(data: Any) -> Any:
        if type(data) is not dict:
            raise ValueError(f"expected the fields of {cls.__name__}, got {_shown(data)}")
        given = {}
        for name, item in data.items():
            reader = known.get(name)
            if reader is None:
                if source == "request":
                    raise ValueError(f"{cls.__name__} has no field {_shown(name)}")
                continue
            try:
                given[name] = reader(item)
            except ValueError as error:
                raise ValueError(f"{cls.__name__}.{name}: {error}") from None
        try:
            return cls(**given)
        except TypeError as error:
            raise ValueError(f"{cls.__name__}: {error}") from None

    return read


def _reader_of_tagged(choices: tuple[Any, ...], source: Source) -> Reader:
    by_name = {choice.__name__: _reader(choice, source) for choice in choices if choice is not types.NoneType}

    def read(data: Any) -> Any:
        if data is None and types.NoneType in choices:
            return None
        if type(data) is not dict or len(data) != 1:
            raise ValueError(f"expected one of {', '.join(by_name)}, got {_shown(data)}")
        ((name, fields),) = data.items()
        if name not in by_name:
            raise ValueError(f"{_shown(name)} is not one of {', '.join(by_name)}")
        return by_name[name](fields)

    return read


def _reader_of(choices: tuple[Any, ...], source: Source) -> Reader:
    """Make a reader that takes the first of several types that fits."""
    readers = [_reader(choice, source) for choice in choices if choice is not types.NoneType]

    def read(data: Any) -> Any:
        if data is None and types.NoneType in choices:
            return None
        failure = ValueError(f"{_shown(data)} fits none of {choices}")
        for reader in readers:
            try:
                return reader(data)
            except ValueError as error:
                failure = error
        raise failure

    return read


def _reader_of_words(words: tuple[Any, ...]) -> Reader:
    def read(data: Any) -> Any:
        if not isinstance(data, (str, int)) or data not in words:
            raise ValueError(f"{_shown(data)} is not one of {words}")
        return data

    return read


def _expect(cls: Any, data: Any) -> Any:
    if type(data) is not cls:
        raise ValueError(f"expected {cls.__name__}, got {_shown(data)}")
    return data


def _whole(data: Any) -> int:
    if type(data) is not int:
        raise ValueError(f"expected int, got {_shown(data)}")
    if not LOWEST <= data <= HIGHEST:
        raise ValueError(f"{data} is longer than 64 bits" if abs(data) < 2**80 else "a number longer than 64 bits")
    return data


def _float(data: Any) -> float:
    if type(data) is float:
        return data
    if type(data) is not int:
        raise ValueError(f"expected float, got {_shown(data)}")
    return float(_whole(data))


def _finite(data: Any) -> float:
    number = _float(data)
    if not math.isfinite(number):
        raise ValueError(f"{number} is not finite")
    return number


def _number_of(data: Any) -> int:
    """Read a key that is a whole number; in JSON it is text."""
    return _whole(int(data) if type(data) is str and len(data) <= 20 else data)


def _shown(data: Any) -> str:
    """Show data in an error: short, and not what nests."""
    return repr(data)[:80] if data is None or isinstance(data, (str, int, float, bool)) else f"a {type(data).__name__}"


_SIMPLE: dict[Any, Reader] = {
    str: lambda data: _expect(str, data),
    bytes: lambda data: _expect(bytes, data),
    bool: lambda data: _expect(bool, data),
    int: _whole,
    float: _float,
    Path: lambda data: Path(_expect(str, data)),
}
