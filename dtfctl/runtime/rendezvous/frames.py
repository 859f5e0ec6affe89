"""The byte stream between two tasks: frames with a fixed binary header.

A frame is a header, perhaps a name, dimensions (int64 each) and a payload: a tensor's raw little-endian bytes, where to
find them in shared memory, a TensorProto for strings, handles and variants, or a few bytes of a control message. Names
are interned: the first frame that uses a key carries it with the number it has from then on in this direction of this
link. Both ends' incarnations are in every header, so that nothing from or for a former life of a task is ever taken.
Every length is checked before memory is reserved.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from typing import Any, NamedTuple, Protocol

import numpy as np

from dtfctl.net.frames import FrameAssembler
from dtfctl.protocol import tensor_pb2
from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.dtypes import DType
from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.framework.tensor_codec import decode_tensor, encode_tensor
from dtfctl.runtime.memory import kept_memory
from dtfctl.runtime.memory.shared_memory import Place

MAGIC = 0xD7F1
VERSION = 3
# magic, version, kind, flags, dtype, rank, key, step, sender incarnation, receiver incarnation, payload length
_HEADER = struct.Struct("<HBBHBBIQQQQ")
HEADER_SIZE = _HEADER.size
_LENGTH = struct.Struct("<H")
# Where a payload lies in the sender's arena, or the receiver's: offset, length.
SHARED = struct.Struct("<QQ")

MAX_KEY = 4096
MAX_RANK = 254
MAX_PAYLOAD = 1 << 36
MAX_OBJECT_PAYLOAD = (1 << 31) - 1
# Keys a direction of a link remembers; then both ends forget them all and begin again.
MAX_KEYS = 1 << 16
# Payloads that are read together with their headers and copied out; longer ones are read to where they stay.
BUFFER = 1 << 16
# Rendezvous keys outside loops end like this; those of iterations are used once and not worth remembering.
_ROOT = ";0:0"


class Kind(IntEnum):
    """What a frame is. RUN starts a registered partition, DONE answers it; the rest is as named."""

    TENSOR = 1
    RUN = 2
    DONE = 3
    CANCEL = 4
    CLEANUP = 5
    PING = 6
    # Blocks of the receiver's arena that are not needed any more: the payload is their offsets.
    RELEASE = 7
    # Between a client and its master (services/client_service.py): what a number means, a step, how it ended.
    DEFINE = 8
    CALL = 9
    ANSWER = 10
    # Nothing of what was lent over a link that has ended is looked at any more: the step is the link's name.
    RETURNED = 11
    # How a client starts steps itself: it asks the master for a PLAN, and how to connect to other tasks (OPEN), says
    # what a number in a RUN means (PARTITION), and is told of tasks that are LOST.
    PLAN = 12
    OPEN = 13
    PARTITION = 14
    LOST = 15
    # How long tensors encoded by the codec that the payload names take the sender to decode (compression/payoff.py).
    DECODED = 16
    # What tasks say of groups that compute something together (runtime/collective).
    COLLECTIVE = 17
    # A client is to record what it does (a ProfileStart; without an id: no more), and hands that over (a ClientRecord).
    RECORD = 18


class Flag(IntFlag):
    DEAD = 1
    OBJECTS = 2
    NAMED = 4
    FORGET = 8
    SHARED = 16
    # In the receiver's arena, where the sender was lent it.
    RETURNED = 32


# The flags stand as numbers where every frame passes: arithmetic with members of an enumeration is slow.
_TENSOR = Kind.TENSOR


class Message(NamedTuple):
    """What is to be sent. `key` names a TENSOR; `value` is its array, or the payload of any other kind.

    Attributes:
        urgency: of a TENSOR whose key does not say it (framework/transfer_names.py).
    """

    kind: Kind
    step: int
    key: str = ""
    value: Any = b""
    dead: bool = False
    urgency: int = 0


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


class SharedMemory(Protocol):
    """The sender's arena as its receiver sees it."""

    def array(self, offset: int, length: int) -> np.ndarray[Any, Any]:
        """Return bytes of the arena, which the sender leaves alone until nobody holds the array any more.

        Raises:
            InvalidArgumentError: that is not inside the arena.
        """


class LentMemory(Protocol):
    """The receiver's arena."""

    def array(self, offset: int, length: int) -> np.ndarray[Any, Any] | None:
        """Return bytes of a tensor that the sender was lent; None if it was not."""


_NUMBERS: dict[Any, int] = {}


def _number_of(dtype: Any) -> int:
    number = _NUMBERS.get(dtype)
    if number is None:
        number = _NUMBERS[dtype] = dtypes.as_dtype(dtype).as_datatype_enum
    return number


def host_array(value: Any) -> np.ndarray[Any, Any] | np.generic:
    """Return a tensor as a numpy array or scalar, from a GPU if it is there."""
    if isinstance(value, (np.ndarray, np.generic)):
        return value
    return value.get() if hasattr(value, "get") else np.asarray(value)


class FrameWriter:
    """One direction's frames as bytes. Calls must be in the order in which the bytes are sent."""

    def __init__(self, sender: int, receiver: int) -> None:
        self._sender = sender
        self._receiver = receiver
        self._keys: dict[str, int] = {}
        self._forget = False

    def write(self, message: Message, out: list[bytes | memoryview], shared: Place | None = None) -> None:
        """Append a frame's buffers to `out`.

        Args:
            shared: where a tensor's bytes are, when they are in shared memory.

        Raises:
            InvalidArgumentError: the value cannot leave its task (a variant that knows no encoding), or the key is
                too long. Nothing was appended.
        """
        kind, step, key, value, dead, _ = message
        if kind is not _TENSOR:
            head = _HEADER.pack(MAGIC, VERSION, kind, 0, 0, 0, 0, step, self._sender, self._receiver, len(value))
            out.append(head + value if value else head)
            return
        flags = 0
        dims: tuple[int, ...] = ()
        payload: bytes | memoryview = b""
        number = 0
        if dead or value is None:
            flags = 1 if dead else 0
        else:
            array = host_array(value)
            dims = array.shape
            dtype = array.dtype
            if dtype.hasobject:
                number, payload = _objects(np.asarray(array))
                flags = 2
            else:
                number = _number_of(dtype)
                if shared is not None:
                    payload, flags = SHARED.pack(shared[0], shared[1]), 32 if shared[2] else 16
                elif array.nbytes <= BUFFER:
                    payload = array.tobytes()
                else:
                    payload = _raw(np.asarray(array))
        name = b""
        known = self._keys.get(key)
        if known is None:
            known, name = self._name(key)
            flags |= 4
            if self._forget:
                self._forget = False
                flags |= 8
        head = _HEADER.pack(
            MAGIC, VERSION, 1, flags, number, len(dims), known, step, self._sender, self._receiver, len(payload)
        )
        if name:
            head += name
        if dims:
            head += struct.pack(f"<{len(dims)}q", *dims)
        if payload.__class__ is bytes:
            out.append(head + payload)
        else:
            out.append(head)
            out.append(payload)

    def _name(self, key: str) -> tuple[int, bytes]:
        """Return the number of a key that is not known yet, 0 when it will not be; and how its frame names it."""
        text = key.encode()
        if len(text) > MAX_KEY:
            raise InvalidArgumentError(f"A rendezvous key of {len(text)} bytes is too long; at most {MAX_KEY} fit")
        number = 0
        if key.endswith(_ROOT):
            if len(self._keys) >= MAX_KEYS - 1:
                self._keys.clear()
                self._forget = True
            number = self._keys[key] = len(self._keys) + 1
        return number, _LENGTH.pack(len(text)) + text


def _raw(array: np.ndarray[Any, Any]) -> memoryview:
    """Return the bytes of an array, without a copy where it is contiguous."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def _objects(array: np.ndarray[Any, Any]) -> tuple[int, bytes]:
    proto = encode_tensor(array, _object_dtype(array))
    payload = proto.SerializeToString()
    if len(payload) > MAX_OBJECT_PAYLOAD:
        raise InvalidArgumentError(f"A tensor of objects of {len(payload)} bytes is too long to be sent")
    return int(proto.dtype), payload


def _object_dtype(array: np.ndarray[Any, Any]) -> DType:
    """Return what an object array holds; an empty one is taken for strings."""
    first = array.reshape(-1)[0] if array.size else b""
    if isinstance(first, (bytes, str)):
        return dtypes.string
    return dtypes.resource if type(first).__name__ == "ResourceHandle" else dtypes.variant


class FrameReader(FrameAssembler):
    """Turns the bytes of one direction back into frames.

    Args:
        sender, receiver: the lives every frame must be from and for.
        on_frame: called with each frame. It must not call the reader.
        shared: the sender's arena.
        lent: the receiver's.
        buffer: the longest frame that is read together with others and copied out.

    Raises (from `filled` and `feed`):
        InvalidArgumentError: the bytes are no valid stream, or from or for another life; the connection must be
            dropped.
    """

    def __init__(
        self,
        sender: int,
        receiver: int,
        on_frame: Callable[[Frame], None],
        shared: SharedMemory | None = None,
        lent: LentMemory | None = None,
        max_payload: int = MAX_PAYLOAD,
        buffer: int = BUFFER,
    ) -> None:
        super().__init__(HEADER_SIZE, buffer + HEADER_SIZE + _LENGTH.size + MAX_KEY + 8 * MAX_RANK)
        self._most_buffered = buffer
        self._sender = sender
        self._receiver = receiver
        self._on_frame = on_frame
        self._shared = shared
        self._lent = lent
        self._max_payload = max_payload
        self._keys: list[str] = [""]
        # A frame whose payload is read to where it stays.
        self._long: Frame | None = None
        self._long_type: DType | None = None

    def _frame(self, at: int, end: int) -> int:
        """Handle the frame at `at`, if enough of it is there; how many bytes of the buffer that took."""
        (magic, version, kind, flags, number, rank, key, step, sender, receiver, length) = _HEADER.unpack_from(
            self._buffer, at
        )
        if magic != MAGIC or version != VERSION:
            raise InvalidArgumentError("Not a tensor stream of this version: wrong first bytes of a frame")
        if sender != self._sender or receiver != self._receiver:
            raise InvalidArgumentError(
                f"A frame from incarnation {sender} to {receiver} on a stream from {self._sender} to {self._receiver}"
            )
        found = _KINDS.get(kind)
        if found is None:
            raise InvalidArgumentError(f"Unknown kind of frame {kind}")
        if rank > MAX_RANK or length > self._max_payload:
            raise InvalidArgumentError(f"A frame's lengths are out of range: {rank}, {length}")
        body = at + HEADER_SIZE
        name = ""
        if flags & 4:
            if end - body < 2:
                return 0
            (size,) = _LENGTH.unpack_from(self._buffer, body)
            if size > MAX_KEY:
                raise InvalidArgumentError(f"A frame's lengths are out of range: a key of {size} bytes")
            text = body + 2
            body = text + size
            if end < body + 8 * rank:
                return 0
            try:
                name = str(self._view[text:body], "utf-8")
            except UnicodeDecodeError:
                raise InvalidArgumentError("A frame's key is not UTF-8") from None
        elif end < body + 8 * rank:
            return 0
        dims: tuple[int, ...] = ()
        if rank:
            dims = struct.unpack_from(f"<{rank}q", self._buffer, body)
            body += 8 * rank
        dtype = None
        if kind == 1 and number:
            dtype = _checked(number, flags, dims, length)
        elif length > MAX_OBJECT_PAYLOAD:
            raise InvalidArgumentError(f"A control message of {length} bytes is too long")
        stop: int = body + length
        is_long = stop - at > self._most_buffered and stop > end
        if stop > end and not is_long:
            return 0
        # From here on the frame is taken.
        if kind == 1:
            if name:
                self._learn(key, name, flags)
            elif not 0 < key < len(self._keys):
                raise InvalidArgumentError(f"A frame uses a key nobody has named: {key}")
            else:
                name = self._keys[key]
        frame = Frame(found, step, sender, receiver, name, bool(flags & 1))
        if is_long:
            self._begin_long(self._long_place(frame, dtype, dims, length), self._view[body:end])
            return end - at
        if dtype is not None:
            frame.value = self._small(dtype, dims, flags, body, stop)
        elif kind != 1 and length:
            frame.payload = bytes(self._view[body:stop])
        self._on_frame(frame)
        return stop - at

    def _learn(self, key: int, name: str, flags: int) -> None:
        if flags & 8:
            del self._keys[1:]
        if key:
            if key != len(self._keys) or key >= MAX_KEYS:
                raise InvalidArgumentError(f"A frame names key {key}, the next is {len(self._keys)}")
            self._keys.append(name)

    def _small(self, dtype: DType, dims: tuple[int, ...], flags: int, body: int, stop: int) -> Any:
        if flags & 2:
            return _decode_objects(bytes(self._view[body:stop]))
        if flags & 48:
            offset, size = SHARED.unpack_from(self._buffer, body)
            return self._in_memory(flags, offset, size, dtype, dims)
        if not dims:
            return np.frombuffer(self._buffer, dtype.np, 1, body)[0]
        if stop == body:
            return np.empty(dims, dtype.np)
        return np.frombuffer(self._buffer, dtype.np, (stop - body) // dtype.np.itemsize, body).reshape(dims).copy()

    def _in_memory(self, flags: int, offset: int, size: int, dtype: DType, dims: tuple[int, ...]) -> Any:
        if size != _bytes_of(dtype, dims):
            raise InvalidArgumentError(f"A frame's tensor {dtype.name}{list(dims)} does not take {size} bytes")
        if flags & 32:
            held = None if self._lent is None else self._lent.array(offset, size)
            if held is None:
                raise InvalidArgumentError("A frame returns memory that was not lent")
        elif self._shared is None:
            raise InvalidArgumentError("A frame refers to shared memory, which this link has none of")
        else:
            held = self._shared.array(offset, size)
        return held.view(dtype.np).reshape(dims)

    def _long_place(
        self, frame: Frame, dtype: DType | None, dims: tuple[int, ...], length: int
    ) -> np.ndarray[Any, Any]:
        """Return where the payload of a long frame, which is kept until then, goes."""
        self._long, self._long_type = frame, dtype
        try:
            if dtype is None or dtype.is_object:
                return np.empty(length, np.uint8)
            frame.value = kept_memory.empty(dims, dtype.np)
        except MemoryError:
            raise InvalidArgumentError(f"No memory for a tensor of {length} bytes") from None
        content: np.ndarray[Any, Any] = frame.value.reshape(-1).view(np.uint8)
        return content

    def _finish_long(self) -> None:
        frame, dtype, place = self._long, self._long_type, self._place
        assert frame is not None
        self._long = self._place = None
        if frame.value is not None:
            # A view of it must not outlive this: who holds the array last may write into it.
            del place
        elif dtype is not None:
            frame.value = _decode_objects(place.tobytes())
        else:
            frame.payload = place.tobytes()
        self._on_frame(frame)


_KINDS = {int(k): k for k in Kind}
_TYPES: dict[int, DType] = {}


def _checked(number: int, flags: int, dims: tuple[int, ...], length: int) -> DType:
    """Return the type of a frame's tensor, when its lengths fit together."""
    dtype = _TYPES.get(number)
    if dtype is None:
        try:
            dtype = dtypes.as_dtype(number)
        except TypeError:
            raise InvalidArgumentError(f"A frame holds a tensor of unknown type {number}") from None
        if dtype.is_ref:
            raise InvalidArgumentError(f"A frame holds a tensor of type {dtype.name} in the wrong form")
        _TYPES[number] = dtype
    if dtype.is_object != bool(flags & 2):
        raise InvalidArgumentError(f"A frame holds a tensor of type {dtype.name} in the wrong form")
    if flags & 50:
        in_memory = flags & 48
        most = SHARED.size if in_memory else MAX_OBJECT_PAYLOAD
        if length > most or (in_memory and (length != most or dtype.is_object)):
            raise InvalidArgumentError(f"A frame's tensor of {length} bytes is in the wrong form")
        return dtype
    needed = _bytes_of(dtype, dims)
    if needed != length:
        raise InvalidArgumentError(f"A frame's tensor {dtype.name}{list(dims)} needs {needed} bytes, not {length}")
    return dtype


def _bytes_of(dtype: DType, dims: tuple[int, ...]) -> int:
    count = 1
    for size in dims:
        if size < 0:
            raise InvalidArgumentError(f"A frame's tensor has a negative dimension: {list(dims)}")
        count *= size
    each: int = dtype.np.itemsize
    return count * each


def _decode_objects(payload: bytes) -> Any:
    try:
        return decode_tensor(tensor_pb2.TensorProto.FromString(payload))
    except Exception as e:
        raise InvalidArgumentError(f"A frame's tensor of objects cannot be decoded: {e}") from e
