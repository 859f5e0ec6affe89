"""A byte stream becomes the same frames however it is cut, and a length that may not be takes no memory."""

from __future__ import annotations

import random

import pytest

from dtfctl.launcher.rpc.connection import (
    BUFFER_BYTES,
    CALL,
    HEAD,
    LARGEST,
    LARGEST_PATH,
    LAZY_BYTES,
    MESSAGE,
    PING,
    MessageReader,
    NoFrame,
)

SIZES = (0, 1, BUFFER_BYTES - HEAD.size, BUFFER_BYTES - HEAD.size + 1, 3 * BUFFER_BYTES, LAZY_BYTES, LAZY_BYTES + 1)


def pieces(data: bytes, rng: random.Random) -> list[bytes]:
    """`data`, cut anywhere."""
    found, at = [], 0
    while at < len(data):
        size = rng.choice((1, 2, 5, 100, BUFFER_BYTES, LAZY_BYTES))
        found.append(data[at : at + size])
        at += size
    return found


@pytest.mark.parametrize("seed", range(8))
def test_frames_come_back_however_the_stream_is_cut(seed: int) -> None:
    rng = random.Random(seed)
    sent = [(MESSAGE, rng.randbytes(rng.choice(SIZES))) for _ in range(6)]
    reader = MessageReader()
    for piece in pieces(b"".join(HEAD.pack(PING, 0) + HEAD.pack(k, len(b)) + b for k, b in sent), rng):
        reader.feed(piece)
        assert len(reader.space()) > 0
    assert list(reader.frames) == sent
    assert reader.is_empty


def test_half_a_frame_is_told_from_none() -> None:
    reader = MessageReader()
    assert reader.is_empty
    reader.feed(HEAD.pack(MESSAGE, 2 * BUFFER_BYTES))
    assert not reader.is_empty  # it is long, and nothing of it has come
    reader.feed(bytes(2 * BUFFER_BYTES))
    assert reader.is_empty
    reader.feed(HEAD.pack(MESSAGE, 1))
    assert not reader.is_empty


@pytest.mark.parametrize(
    "head", [(MESSAGE, LARGEST + 1), (CALL, LARGEST_PATH + 1), (0, 1), (PING + 1, 1)], ids=lambda head: f"{head}"
)
def test_what_is_no_frame_is_refused_by_its_head(head: tuple[int, int]) -> None:
    reader = MessageReader()
    reader.feed(HEAD.pack(MESSAGE, 1) + b"x")
    with pytest.raises(NoFrame):
        reader.feed(HEAD.pack(*head))
    assert list(reader.frames) == [(MESSAGE, b"x")]
