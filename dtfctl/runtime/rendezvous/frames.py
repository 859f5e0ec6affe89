"""The byte stream between two tasks: frames with a fixed binary header, cut into chunks by the transport.

A frame is a header, a key (UTF-8), dimensions (int64 each) and a payload: a tensor's raw little-endian bytes, a
TensorProto for strings, handles and variants, or a few bytes of a control message. Both ends' incarnations are in every
header, so that nothing from or for a former life of a task is ever taken. Every length is checked before memory is
reserved.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from typing import Any

import numpy as np

from dtfctl.protocol import tensor_pb2
from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.dtypes import DType
from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.framework.tensor_codec import decode_tensor, encode_tensor

MAGIC = 0xD7F1
VERSION = 1
# magic, version, kind, flags, key length, dtype, rank, step, sender incarnation, receiver incarnation, payload length
_HEADER = struct.Struct("<HBBHHHHQQQQ")
HEADER_SIZE = _HEADER.size

MAX_KEY = 4096
MAX_RANK = 254
MAX_PAYLOAD = 1 << 36
MAX_OBJECT_PAYLOAD = (1 << 31) - 1
CHUNK = 1 << 20


class Kind(IntEnum):
    """What a frame is. RUN starts a registered partition, DONE answers it; the rest is as named."""

    TENSOR = 1
    RUN = 2
    DONE = 3
    CANCEL = 4
    CLEANUP = 5


class Flag(IntFlag):
    DEAD = 1
    OBJECTS = 2


@dataclass(slots=True)
class Frame:
    """One decoded frame. `value` is a TENSOR's array; `payload` any other kind's bytes."""

    kind: Kind
    step: int
    sender: int
    receiver: int
    key: str = ""
    dead: bool = False
    value: Any = None
    payload: bytes = b""


def encode_control(kind: Kind, step: int, sender: int, receiver: int, key: str = "", payload: bytes = b"") -> bytes:
    text = key.encode()
    header = _HEADER.pack(MAGIC, VERSION, kind, 0, len(text), 0, 0, step, sender, receiver, len(payload))
    return b"".join((header, text, payload))


def encode_tensor_frame(
    step: int, sender: int, receiver: int, key: str, value: Any, dead: bool
) -> tuple[bytes, memoryview | bytes]:
    """Header (with key and dimensions) and payload of a TENSOR frame.

    Raises:
        InvalidArgumentError: the value cannot leave its task (a variant that knows no encoding), or the key is long.
    """
    text = key.encode()
    if len(text) > MAX_KEY:
        raise InvalidArgumentError(f"A rendezvous key of {len(text)} bytes is too long; at most {MAX_KEY} fit")
    flags = int(Flag.DEAD) if dead else 0
    payload: memoryview | bytes
    if value is None or dead:
        number, dims, payload = 0, (), b""
    else:
        array = value.get() if hasattr(value, "get") and not isinstance(value, np.ndarray) else np.asarray(value)
        dims = array.shape
        if array.dtype == object:
            proto = encode_tensor(array, _object_dtype(array))
            number, payload, flags = int(proto.dtype), proto.SerializeToString(), flags | Flag.OBJECTS
        else:
            number = dtypes.as_dtype(array.dtype).as_datatype_enum
            payload = _raw(array)
    header = _HEADER.pack(
        MAGIC, VERSION, Kind.TENSOR, flags, len(text), number, len(dims), step, sender, receiver, len(payload)
    )
    return b"".join((header, text, struct.pack(f"<{len(dims)}q", *dims))), payload


def _raw(array: np.ndarray[Any, Any]) -> memoryview:
    """The bytes of an array, without a copy where it is contiguous."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def _object_dtype(array: np.ndarray[Any, Any]) -> DType:
    """What an object array holds; an empty one is taken for strings."""
    first = array.reshape(-1)[0] if array.size else b""
    if isinstance(first, (bytes, str)):
        return dtypes.string
    return dtypes.resource if type(first).__name__ == "ResourceHandle" else dtypes.variant


class FrameDecoder:
    """Turns chunks of the byte stream back into frames.

    Raises (from `feed`):
        InvalidArgumentError: the bytes are no valid stream; the connection must be dropped.
    """

    def __init__(self, max_payload: int = MAX_PAYLOAD) -> None:
        self._max_payload = max_payload
        self._buffer = bytearray()
        self._big: _Pending | None = None

    def feed(self, chunk: bytes | memoryview) -> Iterator[Frame]:
        """The frames completed by `chunk`. Exhaust the iterator before feeding again."""
        view = memoryview(chunk)
        while True:
            if self._big is not None:
                view = self._big.take(view)
                if not self._big.complete:
                    return
                frame, self._big = self._big.finish(), None
                yield frame
            if self._buffer:
                self._buffer += view
                view = memoryview(bytes(self._buffer))
                self._buffer.clear()
            at = 0
            while self._big is None:
                pending = self._parse(view, at)
                if pending is None:
                    self._buffer += view[at:]
                    return
                at += pending.head
                rest = pending.take(view[at:])
                at = len(view) - len(rest)
                if pending.complete:
                    yield pending.finish()
                else:
                    self._big = pending
            view = view[len(view) :]
            if self._big is not None:
                return

    def _parse(self, view: memoryview, at: int) -> _Pending | None:
        """The frame whose header, key and dimensions are all at `at`, or None when they are not there yet."""
        if len(view) - at < HEADER_SIZE:
            return None
        fields = _HEADER.unpack_from(view, at)
        magic, version, kind, flags, key_length, number, rank, step, sender, receiver, length = fields
        if magic != MAGIC or version != VERSION:
            raise InvalidArgumentError("Not a tensor stream of this version: wrong first bytes of a frame")
        if kind not in _KINDS:
            raise InvalidArgumentError(f"Unknown kind of frame {kind}")
        if key_length > MAX_KEY or rank > MAX_RANK or length > self._max_payload:
            raise InvalidArgumentError(f"A frame's lengths are out of range: {key_length}, {rank}, {length}")
        head = HEADER_SIZE + key_length + 8 * rank
        if len(view) - at < head:
            return None
        try:
            key = str(view[at + HEADER_SIZE : at + HEADER_SIZE + key_length], "utf-8")
        except UnicodeDecodeError:
            raise InvalidArgumentError("A frame's key is not UTF-8") from None
        dims = struct.unpack_from(f"<{rank}q", view, at + HEADER_SIZE + key_length)
        frame = Frame(_KINDS[kind], step, sender, receiver, key, bool(flags & Flag.DEAD))
        return _Pending(frame, head, length, flags, number, dims)


_KINDS = {int(k): k for k in Kind}


class _Pending:
    """A frame whose payload is arriving."""

    __slots__ = ("_at", "_bytes", "_dims", "_dtype", "_flags", "_frame", "_length", "head")

    def __init__(self, frame: Frame, head: int, length: int, flags: int, number: int, dims: tuple[int, ...]) -> None:
        self._frame, self._length, self._flags, self._dims = frame, length, flags, dims
        self._dtype: DType | None = None
        self.head = head
        self._at = 0
        if frame.kind is Kind.TENSOR and number:
            self._check_tensor(number)
        elif length > MAX_OBJECT_PAYLOAD:
            raise InvalidArgumentError(f"A control message of {length} bytes is too long")
        try:
            self._bytes = np.empty(length, np.uint8)
        except MemoryError:
            raise InvalidArgumentError(f"No memory for a tensor of {length} bytes") from None

    def _check_tensor(self, number: int) -> None:
        try:
            dtype = self._dtype = dtypes.as_dtype(number)
        except TypeError:
            raise InvalidArgumentError(f"A frame holds a tensor of unknown type {number}") from None
        if dtype.is_ref or dtype.is_object != bool(self._flags & Flag.OBJECTS):
            raise InvalidArgumentError(f"A frame holds a tensor of type {dtype.name} in the wrong form")
        if dtype.is_object:
            if self._length > MAX_OBJECT_PAYLOAD:
                raise InvalidArgumentError(f"A tensor of objects of {self._length} bytes is too long")
            return
        count = 1
        for size in self._dims:
            if size < 0:
                raise InvalidArgumentError(f"A frame's tensor has a negative dimension: {list(self._dims)}")
            count *= size
        if count * dtype.np.itemsize != self._length:
            raise InvalidArgumentError(
                f"A frame's tensor {dtype.name}{list(self._dims)} needs {count * dtype.np.itemsize} bytes, "
                f"not {self._length}"
            )

    def take(self, view: memoryview) -> memoryview:
        """Copy what belongs to this payload; the rest of `view`."""
        count = min(len(view), self._length - self._at)
        if count:
            self._bytes[self._at : self._at + count] = view[:count]
            self._at += count
        return view[count:]

    @property
    def complete(self) -> bool:
        return self._at == self._length

    def finish(self) -> Frame:
        frame = self._frame
        if frame.kind is not Kind.TENSOR:
            frame.payload = self._bytes.tobytes()
        elif self._dtype is not None:
            if self._dtype.is_object:
                frame.value = _decode_objects(self._bytes.tobytes())
            else:
                frame.value = self._bytes.view(self._dtype.np).reshape(self._dims)
        return frame


def _decode_objects(payload: bytes) -> Any:
    try:
        return decode_tensor(tensor_pb2.TensorProto.FromString(payload))
    except Exception as e:
        raise InvalidArgumentError(f"A frame's tensor of objects cannot be decoded: {e}") from e
