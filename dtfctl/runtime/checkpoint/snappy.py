"""Snappy, the compression of tables and record files that TensorFlow may write."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfctl.runtime.framework.errors import DataLossError
from dtfctl.runtime.framework.varints import read_varint, varint

_BLOCK = 65536
_SHORTEST, _LONGEST_COPY = 8, 64


def snappy_compress(data: bytes) -> bytes:
    """`data`, compressed; what repeats within 64 KiB is stored once."""
    out = [varint(len(data))]
    for start in range(0, len(data), _BLOCK):
        _compress_block(data[start : start + _BLOCK], out)
    return b"".join(out)


def _compress_block(block: bytes, out: list[bytes]) -> None:
    earlier = _earlier_occurrences(block)
    if earlier is None:
        out.append(_literal(block))
        return
    candidates = np.flatnonzero(earlier >= 0)
    at = 0
    while True:
        i = int(np.searchsorted(candidates, at))
        if i == len(candidates):
            break
        found = int(candidates[i])
        source = int(earlier[found])
        size = _match(block, source, found)
        if found > at:
            out.append(_literal(block[at:found]))
        out.append(_copies(found - source, size))
        at = found + size
    if at < len(block):
        out.append(_literal(block[at:]))


def _earlier_occurrences(block: bytes) -> Any:
    """Return for each position one before it where the same `_SHORTEST` bytes stand, or -1;
    None where nothing repeats."""
    if len(block) < 2 * _SHORTEST:
        return None
    raw = np.frombuffer(block, np.uint8)
    count = len(raw) - _SHORTEST + 1
    words = np.zeros(count, np.uint64)
    for i in range(_SHORTEST):
        words |= raw[i : i + count].astype(np.uint64) << np.uint64(8 * i)
    order = np.argsort(words, kind="stable")
    same = words[order[1:]] == words[order[:-1]]
    if not same.any():
        return None
    earlier = np.full(count, -1)
    earlier[order[1:][same]] = order[:-1][same]
    return earlier


def _match(block: bytes, source: int, at: int) -> int:
    """Count how many bytes from `source` on are those from `at` on; they may overlap."""
    raw = np.frombuffer(block, np.uint8)
    size, step = _SHORTEST, 64
    while at + size < len(block):
        width = min(step, len(block) - at - size)
        differ = np.flatnonzero(raw[source + size : source + size + width] != raw[at + size : at + size + width])
        if len(differ):
            return size + int(differ[0])
        size += width
        step *= 2
    return size


def _literal(data: bytes) -> bytes:
    size = len(data) - 1
    if size < 60:
        return bytes((size << 2,)) + data
    width = (size.bit_length() + 7) // 8
    return bytes(((59 + width) << 2,)) + size.to_bytes(width, "little") + data


def _copies(offset: int, size: int) -> bytes:
    whole, rest = divmod(size, _LONGEST_COPY)
    distance = offset.to_bytes(2, "little")
    out = (bytes((((_LONGEST_COPY - 1) << 2) | 2,)) + distance) * whole
    return out + bytes((((rest - 1) << 2) | 2,)) + distance if rest else out


def snappy_decompress(data: bytes) -> bytes:
    """Decompress a block of Snappy's format.

    Raises:
        DataLossError: the data is malformed.
    """
    try:
        return _decompress(data)
    except IndexError:
        raise DataLossError("corrupted compressed block contents") from None


def _decompress(data: bytes) -> bytes:
    length, at = read_varint(data, 0)
    out = bytearray()
    while at < len(data):
        tag = data[at]
        at += 1
        kind = tag & 3
        if kind == 0:
            size = (tag >> 2) + 1
            if size > 60:
                extra = size - 60
                size = int.from_bytes(data[at : at + extra], "little") + 1
                at += extra
            if at + size > len(data):
                raise DataLossError("corrupted compressed block contents")
            out += data[at : at + size]
            at += size
            continue
        if kind == 1:
            size, offset = ((tag >> 2) & 7) + 4, ((tag >> 5) << 8) | data[at]
            at += 1
        else:
            width = 2 if kind == 2 else 4
            size, offset = (tag >> 2) + 1, int.from_bytes(data[at : at + width], "little")
            at += width
        if offset == 0 or offset > len(out) or len(out) + size > length:
            raise DataLossError("corrupted compressed block contents")
        piece = out[len(out) - offset : len(out) - offset + size]
        while len(piece) < size:
            piece += piece[: size - len(piece)]
        out += piece
    if len(out) != length:
        raise DataLossError("corrupted compressed block contents")
    return bytes(out)
