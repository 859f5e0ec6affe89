"""The byte stream between tasks: what goes in comes out, however it is cut; what is malformed is refused."""

from __future__ import annotations

import struct
import threading
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from dtfctl.runtime.framework.errors import InvalidArgumentError, OpError
from dtfctl.runtime.framework.resource_handle import ResourceHandle
from dtfctl.runtime.framework.tensor_codec import object_array
from dtfctl.runtime.rendezvous.frames import (
    CHUNK,
    HEADER_SIZE,
    MAX_KEY,
    Frame,
    FrameDecoder,
    Kind,
    encode_control,
    encode_tensor_frame,
)
from dtfctl.runtime.rendezvous.transports.grpc_stream import Outbox

KEY = "/job:ps/replica:0/task:0/device:CPU:0;0000000000000001;/job:worker/replica:0/task:0/device:CPU:0;edge_1_x;0:0"


def tensor_bytes(value: Any, key: str = KEY, dead: bool = False) -> bytes:
    head, payload = encode_tensor_frame(7, 1, 2, key, value, dead)
    return head + bytes(payload)


def decode(data: bytes, cuts: Iterator[int] | None = None) -> list[Frame]:
    decoder, frames, at = FrameDecoder(), [], 0
    while at < len(data):
        step = next(cuts) if cuts is not None else len(data)
        frames += decoder.feed(data[at : at + step])
        at += step
    return frames


VALUES: list[Any] = [
    np.float32(3.5),
    np.arange(12, dtype=np.int64).reshape(3, 4),
    np.arange(12, dtype=np.int64).reshape(3, 4).T,
    np.zeros((0, 5), np.float16),
    np.array([True, False]),
    np.array([1 + 2j], np.complex64),
    np.array([1.5, -2.0], ml_dtypes.bfloat16),
    object_array([b"", b"abc", bytes(300)], (3,)),
    object_array([ResourceHandle("/device:CPU:0", "c", "n", "Variable")], ()),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda v: f"{np.asarray(v).dtype}{np.shape(v)}")
def test_tensors_arrive_as_they_were(value: Any) -> None:
    (frame,) = decode(tensor_bytes(value))
    assert (frame.kind, frame.step, frame.sender, frame.receiver, frame.key) == (Kind.TENSOR, 7, 1, 2, KEY)
    assert frame.value.dtype == np.asarray(value).dtype
    assert frame.value.shape == np.shape(value)
    assert frame.value.tolist() == np.asarray(value).tolist()


def test_dead_tensors_carry_no_value() -> None:
    (frame,) = decode(tensor_bytes(np.ones(1000), dead=True))
    assert frame.dead
    assert frame.value is None


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 400), min_size=1, max_size=40))
def test_cuts_do_not_matter(sizes: list[int]) -> None:
    data = tensor_bytes(np.arange(100.0)) + encode_control(Kind.RUN, 3, 1, 2, "s", b"xyz") + tensor_bytes(np.int32(4))

    def cuts() -> Iterator[int]:
        while True:
            yield from sizes

    first, run, last = decode(data, cuts())
    assert first.value.tolist() == list(range(100))
    assert (run.kind, run.key, run.payload) == (Kind.RUN, "s", b"xyz")
    assert last.value == 4


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=300))
def test_random_bytes_are_refused_or_wait_for_more(data: bytes) -> None:
    try:
        frames = decode(data)
    except OpError as e:
        assert isinstance(e, InvalidArgumentError)
    else:
        assert not frames


@settings(max_examples=300, deadline=None)
@given(st.integers(0, HEADER_SIZE + 20), st.integers(0, 255))
def test_a_changed_byte_never_breaks_the_decoder(at: int, byte: int) -> None:
    data = bytearray(tensor_bytes(np.arange(4, dtype=np.float32), "key"))
    data[at % len(data)] = byte
    try:
        decode(bytes(data))
    except OpError as e:
        assert isinstance(e, InvalidArgumentError)


def test_lengths_out_of_range_are_refused_before_memory_is_taken() -> None:
    good = tensor_bytes(np.float32(1))
    for offset, form, value in ((6, "<H", MAX_KEY + 1), (10, "<H", 255), (HEADER_SIZE - 8, "<Q", 1 << 60)):
        bad = bytearray(good)
        struct.pack_into(form, bad, offset, value)
        with pytest.raises(InvalidArgumentError, match="out of range"):
            decode(bytes(bad))


def test_dimensions_must_fit_the_payload() -> None:
    data = bytearray(tensor_bytes(np.zeros(4, np.float32), "k"))
    struct.pack_into("<q", data, HEADER_SIZE + 1, 5)
    with pytest.raises(InvalidArgumentError, match="needs 20 bytes"):
        decode(bytes(data))
    struct.pack_into("<q", data, HEADER_SIZE + 1, -4)
    with pytest.raises(InvalidArgumentError, match="negative"):
        decode(bytes(data))


def test_keys_too_long_are_refused_by_the_sender() -> None:
    with pytest.raises(InvalidArgumentError, match="too long"):
        tensor_bytes(np.float32(1), "k" * (MAX_KEY + 1))


def test_what_is_ready_together_goes_together_and_chunks_are_bounded() -> None:
    outbox = Outbox()
    big = np.random.default_rng(0).integers(0, 255, 3 * CHUNK + 12345).astype(np.uint8)
    for value in (np.float32(1), np.float32(2), big, np.float32(3)):
        outbox.put(*encode_tensor_frame(1, 1, 2, "k", value, False))
    outbox.end()
    chunks = list(outbox.chunks())
    assert len(chunks) == 4
    assert max(map(len, chunks)) <= CHUNK
    frames = list(decode(b"".join(chunks)))
    assert [np.size(f.value) for f in frames] == [1, 1, big.size, 1]
    assert (frames[2].value == big).all()


def test_the_outbox_waits_for_more() -> None:
    outbox = Outbox()
    got: list[bytes] = []
    thread = threading.Thread(target=lambda: got.extend(outbox.chunks()))
    thread.start()
    outbox.put(b"one")
    outbox.put(b"two")
    outbox.end()
    thread.join(10.0)
    assert b"".join(got) == b"onetwo"
