"""The byte stream between tasks: what goes in comes out, however it is cut; what is malformed is refused."""

from __future__ import annotations

import queue
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
from dtfctl.runtime.memory.shared_memory import Place
from dtfctl.runtime.rendezvous.frames import (
    BUFFER,
    HEADER_SIZE,
    MAX_KEY,
    MAX_KEYS,
    Frame,
    FrameReader,
    FrameWriter,
    Kind,
    Message,
)
from dtfctl.runtime.rendezvous.transports.grpc_stream import Outbox
from dtfctl.runtime.rendezvous.transports.lanes import CHUNK, LONG, SHORT, Lanes
from dtfctl.runtime.rendezvous.transports.meter import Meter
from tests.support.examples import examples

KEY = "/job:ps/replica:0/task:0/device:CPU:0;0000000000000001;/job:worker/replica:0/task:0/device:CPU:0;edge_1_x;0:0"


def encode(*messages: Message, writer: FrameWriter | None = None) -> bytes:
    writer = writer or FrameWriter(1, 2)
    out: list[bytes | memoryview] = []
    for message in messages:
        writer.write(message, out)
    return b"".join(out)


def tensor(value: Any, key: str = KEY, dead: bool = False) -> Message:
    return Message(Kind.TENSOR, 7, key, value, dead)


def decode(data: bytes, cuts: Iterator[int] | None = None, max_payload: int = 1 << 36) -> list[Frame]:
    frames: list[Frame] = []
    reader, at = FrameReader(1, 2, frames.append, max_payload=max_payload), 0
    while at < len(data):
        step = next(cuts) if cuts is not None else len(data)
        reader.feed(data[at : at + step])
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
    (frame,) = decode(encode(tensor(value)))
    assert (frame.kind, frame.step, frame.sender, frame.receiver, frame.key) == (Kind.TENSOR, 7, 1, 2, KEY)
    assert frame.value.dtype == np.asarray(value).dtype
    assert frame.value.shape == np.shape(value)
    assert frame.value.tolist() == np.asarray(value).tolist()


def test_dead_tensors_carry_no_value() -> None:
    (frame,) = decode(encode(tensor(np.ones(1000), dead=True)))
    assert frame.dead
    assert frame.value is None


@pytest.mark.parametrize("count", [BUFFER // 8 - 100, BUFFER // 8, BUFFER // 8 + 1, 100_000])
def test_long_tensors_own_their_memory(count: int) -> None:
    value = np.arange(count, dtype=np.float64).reshape(count, 1)
    (frame,) = decode(encode(tensor(value)), iter([50, 7, 60_000, *[40_001] * 50]))
    assert (frame.value == value).all()
    assert frame.value.flags.owndata
    assert frame.value.flags.writeable


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.integers(1, 400), min_size=1, max_size=40), st.sampled_from([100, 9000]))
def test_cuts_do_not_matter(sizes: list[int], count: int) -> None:
    run = Message(Kind.RUN, 3, "", b"xyz")
    data = encode(tensor(np.arange(float(count))), run, tensor(np.int32(4)), tensor(np.int32(5), "loop;1:2"))

    def cuts() -> Iterator[int]:
        while True:
            yield from sizes

    first, middle, third, last = decode(data, cuts())
    assert first.value.tolist() == list(range(count))
    assert (middle.kind, middle.payload) == (Kind.RUN, b"xyz")
    assert (third.key, third.value, last.key, last.value) == (KEY, 4, "loop;1:2", 5)


def test_a_key_travels_once() -> None:
    writer = FrameWriter(1, 2)
    first, second = encode(tensor(np.int32(4)), writer=writer), encode(tensor(np.int32(5)), writer=writer)
    assert KEY.encode() in first
    assert KEY.encode() not in second
    assert [(f.key, int(f.value)) for f in decode(first + second)] == [(KEY, 4), (KEY, 5)]
    loop = [encode(tensor(np.int32(4), "a;frame:7"), writer=writer) for _ in range(2)]
    assert loop[0] == loop[1], "what is used once is not remembered"
    with pytest.raises(InvalidArgumentError, match="nobody has named"):
        decode(second)


def test_both_ends_forget_keys_together_when_there_are_too_many() -> None:
    writer = FrameWriter(1, 2)
    names = [f"{i};0:0" for i in range(MAX_KEYS + 10)]
    data = encode(*(tensor(None, name) for name in (*names, names[0], names[-1])), writer=writer)
    assert [f.key for f in decode(data)] == [*names, names[0], names[-1]]


def test_frames_of_another_life_are_refused() -> None:
    for writer in (FrameWriter(3, 2), FrameWriter(1, 3)):
        with pytest.raises(InvalidArgumentError, match="incarnation"):
            decode(encode(tensor(np.int32(1)), writer=writer))


@settings(max_examples=examples(300), deadline=None)
@given(st.binary(max_size=300))
def test_random_bytes_are_refused_or_wait_for_more(data: bytes) -> None:
    try:
        frames = decode(data)
    except OpError as e:
        assert isinstance(e, InvalidArgumentError)
    else:
        assert not frames


@settings(max_examples=examples(300), deadline=None)
@given(st.integers(0, 2 * HEADER_SIZE + 40), st.integers(0, 255))
def test_a_changed_byte_never_breaks_the_decoder(at: int, byte: int) -> None:
    data = bytearray(encode(tensor(np.arange(4, dtype=np.float32), "key"), Message(Kind.DONE, 1)))
    data[at % len(data)] = byte
    try:
        decode(bytes(data))
    except OpError as e:
        assert isinstance(e, InvalidArgumentError)


def test_lengths_out_of_range_are_refused_before_memory_is_taken() -> None:
    good = encode(tensor(np.float32(1)))
    for offset, form, value in ((HEADER_SIZE, "<H", MAX_KEY + 1), (7, "<B", 255), (HEADER_SIZE - 8, "<Q", 1 << 60)):
        bad = bytearray(good)
        struct.pack_into(form, bad, offset, value)
        with pytest.raises(InvalidArgumentError, match="out of range"):
            decode(bytes(bad))
    with pytest.raises(InvalidArgumentError, match="control message"):
        bad = bytearray(encode(Message(Kind.RUN, 1)))
        struct.pack_into("<Q", bad, HEADER_SIZE - 8, 1 << 32)
        decode(bytes(bad))


def test_dimensions_must_fit_the_payload() -> None:
    data = bytearray(encode(tensor(np.zeros(4, np.float32), "k")))
    at = HEADER_SIZE + 3
    struct.pack_into("<q", data, at, 5)
    with pytest.raises(InvalidArgumentError, match="needs 20 bytes"):
        decode(bytes(data))
    struct.pack_into("<q", data, at, -4)
    with pytest.raises(InvalidArgumentError, match="negative"):
        decode(bytes(data))


def test_shared_memory_needs_a_link_that_has_it() -> None:
    out: list[bytes | memoryview] = []
    FrameWriter(1, 2).write(tensor(np.zeros(4, np.float32)), out, Place(0, 16))
    with pytest.raises(InvalidArgumentError, match="shared memory"):
        decode(b"".join(out))


def test_keys_too_long_are_refused_by_the_sender() -> None:
    with pytest.raises(InvalidArgumentError, match="too long"):
        encode(tensor(np.float32(1), "k" * (MAX_KEY + 1)))


def outbox() -> Outbox:
    return Outbox(Lanes(FrameWriter(1, 2), lambda: FrameWriter(1, 2)), Meter())


def test_what_is_ready_together_goes_together_and_chunks_are_bounded() -> None:
    box = outbox()
    big = np.random.default_rng(0).integers(0, 255, 3 * CHUNK + 12345).astype(np.uint8)
    with pytest.raises(InvalidArgumentError, match="too long"):
        box.put([tensor(np.float32(1)), tensor(np.float32(1), "k" * (MAX_KEY + 1)), tensor(np.float32(2)), tensor(big)])
    made = box.chunks()
    chunks = [next(made) for _ in range(5)]
    assert [chunk[0] for chunk in chunks] == [SHORT] + [LONG] * 4
    assert max(map(len, chunks)) <= CHUNK + BUFFER
    short = decode(chunks[0][1:])
    assert [f.value for f in short] == [1, 2]
    long = decode(b"".join(chunk[1:] for chunk in chunks[1:]))
    assert [np.size(f.value) for f in long] == [big.size]
    assert (long[0].value == big).all()


def test_the_outbox_waits_for_more_and_ends() -> None:
    box = outbox()
    got: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    thread = threading.Thread(target=lambda: [got.put(chunk) for chunk in box.chunks()])
    thread.start()
    box.put([tensor(np.float32(1))])
    first = got.get(timeout=60.0)
    box.put([tensor(np.float32(2))])
    assert [f.value for f in decode(first[1:] + got.get(timeout=60.0)[1:])] == [1, 2]
    box.end()
    thread.join(60.0)
    assert not thread.is_alive()
