"""Sorted string tables, the file format of LevelDB that TensorFlow keeps checkpoint indexes in.

Blocks of prefix-compressed entries with restart points, each followed by a compression byte and a masked CRC-32C; an
index block that names the last key of every block; a footer with the places of both and a magic number.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Iterable, Iterator

import google_crc32c

from dtfctl.runtime.checkpoint.snappy import snappy_decompress
from dtfctl.runtime.framework.errors import DataLossError
from dtfctl.runtime.framework.varints import read_varint, varint

_MAGIC = 0xDB4775248B80FB57
_FOOTER_SIZE = 48
_TRAILER_SIZE = 5
_BLOCK_SIZE = 262144
_RESTART_INTERVAL = 16
_NO_COMPRESSION, _SNAPPY = 0, 1


def mask_crc(crc: int) -> int:
    """CRCs of data that itself holds CRCs are stored rotated and offset."""
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def unmask_crc(masked: int) -> int:
    rotated = (masked - 0xA282EAD8) & 0xFFFFFFFF
    return ((rotated >> 17) | (rotated << 15)) & 0xFFFFFFFF


class _BlockBuilder:
    def __init__(self) -> None:
        self.data = bytearray()
        self._restarts = [0]
        self._count = 0
        self._last = b""

    def add(self, key: bytes, value: bytes) -> None:
        shared = 0
        if self._count == _RESTART_INTERVAL:
            self._restarts.append(len(self.data))
            self._count = 0
        else:
            limit = min(len(key), len(self._last))
            while shared < limit and key[shared] == self._last[shared]:
                shared += 1
        self.data += varint(shared) + varint(len(key) - shared) + varint(len(value)) + key[shared:] + value
        self._last = key
        self._count += 1

    def finish(self) -> bytes:
        tail = struct.pack(f"<{len(self._restarts) + 1}I", *self._restarts, len(self._restarts))
        return bytes(self.data) + tail


def build_table(entries: Iterable[tuple[bytes, bytes]], block_size: int = _BLOCK_SIZE) -> bytes:
    """Build the bytes of a table holding `entries`, which must be sorted by key."""
    out = bytearray()

    def emit(block: bytes) -> bytes:
        handle = varint(len(out)) + varint(len(block))
        trailer = bytes([_NO_COMPRESSION])
        out.extend(block + trailer + struct.pack("<I", mask_crc(google_crc32c.value(block + trailer))))
        return handle

    index, block, last = _BlockBuilder(), _BlockBuilder(), b""
    empty = True
    for key, value in entries:
        if not empty and key <= last:
            raise ValueError(f"table entries are not sorted: {key!r} after {last!r}")
        block.add(key, value)
        last, empty = key, False
        if len(block.data) >= block_size:
            index.add(last, emit(block.finish()))
            block = _BlockBuilder()
    if block.data:
        index.add(last, emit(block.finish()))
    meta_handle = emit(_BlockBuilder().finish())
    index_handle = emit(index.finish())
    footer = (meta_handle + index_handle).ljust(_FOOTER_SIZE - 8, b"\x00")
    return bytes(out) + footer + struct.pack("<Q", _MAGIC)


class Table:
    """A table read from bytes. Blocks are checked and decoded when first needed.

    Raises (all methods):
        DataLossError: the bytes are no table, or one that was damaged.
    """

    def __init__(self, data: bytes) -> None:
        if len(data) < _FOOTER_SIZE:
            raise DataLossError("file is too short to be an sstable")
        footer = data[-_FOOTER_SIZE:]
        if struct.unpack("<Q", footer[-8:])[0] != _MAGIC:
            raise DataLossError("not an sstable (bad magic number)")
        self._data = data
        at = 0
        _, at = read_varint(footer, at)
        _, at = read_varint(footer, at)
        offset, at = read_varint(footer, at)
        size, at = read_varint(footer, at)
        index = list(_entries(self._block(offset, size)))
        self._last_keys = [key for key, _ in index]
        self._handles = [handle for _, handle in index]
        self._decoded: dict[int, dict[bytes, bytes]] = {}

    def _block(self, offset: int, size: int) -> bytes:
        end = offset + size + _TRAILER_SIZE
        if end > len(self._data):
            raise DataLossError("truncated block read")
        kind = self._data[offset + size]
        stored = struct.unpack("<I", self._data[end - 4 : end])[0]
        if unmask_crc(stored) != google_crc32c.value(self._data[offset : offset + size + 1]):
            raise DataLossError("block checksum mismatch")
        block = self._data[offset : offset + size]
        if kind == _SNAPPY:
            return snappy_decompress(block)
        if kind != _NO_COMPRESSION:
            raise DataLossError("bad block type")
        return block

    def _load(self, i: int) -> dict[bytes, bytes]:
        found = self._decoded.get(i)
        if found is None:
            offset, at = read_varint(self._handles[i], 0)
            size, _ = read_varint(self._handles[i], at)
            found = self._decoded[i] = dict(_entries(self._block(offset, size)))
        return found

    def get(self, key: bytes) -> bytes | None:
        i = bisect_left(self._last_keys, key)
        return None if i == len(self._handles) else self._load(i).get(key)

    def items(self) -> Iterator[tuple[bytes, bytes]]:
        for i in range(len(self._handles)):
            yield from self._load(i).items()


def _entries(block: bytes) -> Iterator[tuple[bytes, bytes]]:
    if len(block) < 4:
        raise DataLossError("bad block contents")
    restarts = struct.unpack("<I", block[-4:])[0]
    end = len(block) - 4 * (restarts + 1)
    if end < 0:
        raise DataLossError("bad block contents")
    at, key = 0, b""
    while at < end:
        shared, at = read_varint(block, at)
        fresh, at = read_varint(block, at)
        size, at = read_varint(block, at)
        if shared > len(key) or at + fresh + size > end:
            raise DataLossError("bad entry in block")
        key = key[:shared] + block[at : at + fresh]
        at += fresh
        yield key, block[at : at + size]
        at += size
