"""What all codecs share, and how one is named: "topk:ratio=0.01,momentum=0.9"."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any, ClassVar, Protocol

import numpy as np

from dtfctl.runtime.framework.errors import DataLossError, InvalidArgumentError

Floats = np.ndarray[Any, np.dtype[np.float32]]
Bytes = np.ndarray[Any, np.dtype[np.uint8]]
Shape = tuple[int, ...]

_RAW, _ENCODED = 0, 1
# What comes first: how it is encoded, and room that keeps floats aligned.
_HEAD = 8


class Codec(Protocol):
    """A way to make tensors smaller. Parameters are the fields of a frozen dataclass, with defaults.

    Attributes:
        name: what it is called in a text.
    """

    name: ClassVar[str]

    def state_size(self, shape: Shape) -> int:
        """Count the floats that are kept from one tensor of this shape to the next; they begin as zeros."""

    def encode(self, values: Floats, shape: Shape, before: Floats, after: Floats) -> list[Any] | None:
        """Encode one tensor.

        Args:
            values: the tensor, flat and finite; not changed.
            before, after: the state, and where the next one is to be written; they may be one array.

        Returns:
            Contiguous arrays whose bytes, one after the other, are what is sent; None where the tensor as it is would
            be no longer. The state is then as it was.
        """

    def whole(self, values: Floats, shape: Shape, before: Floats, after: Floats) -> Floats:
        """Return what is sent where nothing is to be left out: the tensor, and all that is still owed of earlier ones.

        Args: as those of `encode`. The result may be `values`.
        """

    def decode(self, payload: Bytes, shape: Shape) -> Floats:
        """Decode what `encode` gave of a tensor of that shape; flat.

        Raises:
            DataLossError: it is no encoded tensor of that shape.
        """


_KINDS: dict[str, type] = {}


def register_codec(kind: type) -> type:
    """Make a codec known by its name."""
    _KINDS[kind.name] = kind  # type: ignore[attr-defined]
    return kind


def codec_names() -> list[str]:
    """List the names of all codecs."""
    return sorted(_KINDS)


def parse_codec(text: str) -> Codec:
    """Make the codec that a text names ("int8", "powersgd:rank=2").

    Raises:
        InvalidArgumentError: there is none of that name, or it has no such parameter, or not that value.
    """
    name, _, rest = text.partition(":")
    kind: Callable[..., Codec] | None = _KINDS.get(name.strip())
    if kind is None:
        raise InvalidArgumentError(f"There is no codec '{name}': there are {', '.join(codec_names())}")
    fields: dict[str, Any] = {f.name: f.default for f in dataclasses.fields(kind)}  # type: ignore[arg-type]
    given: dict[str, Any] = {}
    for part in filter(None, (part.strip() for part in rest.split(","))):
        key, equals, value = part.partition("=")
        default = fields.get(key.strip())
        if default is None or not equals:
            has = f"the parameters {', '.join(fields)}" if fields else "no parameters"
            raise InvalidArgumentError(f"'{part}' in '{text}': {name} has {has}")
        try:
            given[key.strip()] = type(default)(value)
        except ValueError:
            raise InvalidArgumentError(f"'{part}' in '{text}' is not {_A[type(default)]}") from None
    return kind(**given)


_A = {int: "a whole number", float: "a number"}


def require(condition: bool, text: str) -> None:
    """Refuse a parameter.

    Raises:
        InvalidArgumentError: the condition does not hold.
    """
    if not condition:
        raise InvalidArgumentError(text)


def encode(codec: Codec, tensor: Any, before: Floats, after: Floats, is_on: bool = True) -> Bytes:
    """Encode a tensor of 32-bit floats; as it is where it has values that are not finite, or would not be shorter.

    Args:
        before, after: the codec's state, and where the next one is written; they may be one array.
        is_on: False: send all of it, with what earlier ones still owe.
    """
    values = np.ascontiguousarray(tensor, np.float32).reshape(-1)
    pieces = None
    # A sum is finite only if all are; one that is not may have overflowed.
    if values.size and (math.isfinite(float(values.sum())) or bool(np.isfinite(values).all())):
        if not is_on:
            return _joined(_RAW, [codec.whole(values, tensor.shape, before, after)])
        pieces = codec.encode(values, tensor.shape, before, after)
    if pieces is None:
        if before is not after:
            np.copyto(after, before)
        return _joined(_RAW, [values])
    return _joined(_ENCODED, pieces)


def _joined(how: int, pieces: list[Any]) -> Bytes:
    out = np.empty(_HEAD + sum(piece.nbytes for piece in pieces), np.uint8)
    out[:_HEAD] = 0
    out[0] = how
    at = _HEAD
    for piece in pieces:
        out[at : at + piece.nbytes] = piece.reshape(-1).view(np.uint8)
        at += piece.nbytes
    return out


def is_encoded(message: Any) -> bool:
    """Tell whether what `encode` made is shorter than the tensor was, and not the tensor as it is."""
    return len(message) > 0 and int(message[0]) == _ENCODED


def decode(codec: Codec, message: Any, shape: Shape) -> Floats:
    """Decode a tensor of that shape.

    Raises:
        DataLossError: it is none.
    """
    count = math.prod(shape)
    if message.ndim != 1 or message.dtype != np.uint8 or len(message) < _HEAD or message[0] > _ENCODED:
        raise DataLossError(f"What came is no tensor encoded by {codec.name}")
    payload = np.ascontiguousarray(message[_HEAD:])
    if message[0] == _ENCODED:
        return codec.decode(payload, shape).reshape(shape)
    if payload.nbytes != 4 * count:
        raise DataLossError(f"{payload.nbytes} bytes came for a tensor of {count} floats")
    return payload.view(np.float32).reshape(shape)


def split(payload: Bytes, *parts: tuple[int, Any]) -> list[Any]:
    """Take arrays out of encoded bytes, one after the other: so many elements of a type each.

    Raises:
        DataLossError: there are fewer bytes, or more.
    """
    found, at = [], 0
    for count, dtype in parts:
        size = count * np.dtype(dtype).itemsize
        if count < 0 or at + size > payload.nbytes:
            raise DataLossError(f"An encoded tensor was cut short: {payload.nbytes} bytes")
        found.append(np.frombuffer(payload.data[at : at + size], dtype))
        at += size
    if at != payload.nbytes:
        raise DataLossError(f"An encoded tensor has {payload.nbytes - at} bytes too many")
    return found
