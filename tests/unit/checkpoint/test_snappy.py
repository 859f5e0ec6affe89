"""Snappy: what was compressed comes back, and malformed data is refused."""

from __future__ import annotations

import io

import numpy as np
import pytest
from hypothesis import given, strategies as st

from dtfctl.runtime.checkpoint.snappy import snappy_compress, snappy_decompress
from dtfctl.runtime.checkpoint.snappy_file import SnappyReader, SnappyWriter
from dtfctl.runtime.framework.errors import DataLossError


@given(st.lists(st.tuples(st.binary(max_size=40), st.integers(1, 200)), max_size=8))
def test_repetitive_data_comes_back(parts: list[tuple[bytes, int]]) -> None:
    data = b"".join(part * count for part, count in parts)
    assert snappy_decompress(snappy_compress(data)) == data


@pytest.mark.parametrize("size", [0, 1, 59, 60, 61, 65535, 65536, 65537, 300_000])
def test_data_without_repetition_grows_little(size: int) -> None:
    data = np.random.default_rng(size).bytes(size)
    packed = snappy_compress(data)
    assert snappy_decompress(packed) == data
    assert len(packed) <= size + size // 10_000 + 16


def test_what_repeats_is_stored_once() -> None:
    assert len(snappy_compress(bytes(1 << 20))) < 60_000
    assert len(snappy_compress(np.random.default_rng(0).bytes(1000) * 60)) < 5_000


@given(st.binary(max_size=60))
def test_arbitrary_bytes_are_refused_or_read(data: bytes) -> None:
    try:
        snappy_decompress(data)
    except DataLossError as e:
        assert e.message


def test_a_stream_of_blocks() -> None:
    whole = io.BytesIO()
    writer = SnappyWriter(whole)
    pieces = [b"abc" * n for n in (0, 1, 100_000, 7, 200_000)]
    for piece in pieces:
        writer.write(piece)
    writer.close()
    assert io.BufferedReader(SnappyReader(io.BytesIO(whole.getvalue()))).read() == b"".join(pieces)
    for cut in (2, 10, len(whole.getvalue()) - 1):
        with pytest.raises(DataLossError):
            SnappyReader(io.BytesIO(whole.getvalue()[:cut])).readall()
