"""Streams of Snappy blocks, each after its length, as TensorFlow's compressed record files are."""

from __future__ import annotations

import io
import struct
from typing import Any, BinaryIO

from dtfctl.runtime.checkpoint.snappy import snappy_compress, snappy_decompress
from dtfctl.runtime.framework.errors import DataLossError

_LENGTH = struct.Struct(">I")
_BLOCK = 256 << 10
_LONGEST = 1 << 30


class SnappyReader(io.RawIOBase):
    """What the stream `file` holds, uncompressed; closes it.

    Raises:
        DataLossError: the file ends inside a block, or a block is malformed.
    """

    def __init__(self, file: BinaryIO) -> None:
        super().__init__()
        self._file = file
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready:
            head = self._file.read(_LENGTH.size)
            if not head:
                return 0
            size = _LENGTH.unpack(head)[0] if len(head) == _LENGTH.size else _LONGEST
            block = self._file.read(size) if size < _LONGEST else b""
            if len(block) < size:
                raise DataLossError("truncated block of a compressed file")
            self._ready = memoryview(snappy_decompress(block))
        count = min(len(buffer), len(self._ready))
        buffer[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count

    def close(self) -> None:
        self._file.close()
        super().close()


class SnappyWriter:
    """Compresses what is written to it into `file`; `close` ends the last block and leaves the file open."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._pending = bytearray()

    def write(self, data: bytes) -> None:
        self._pending += data
        if len(self._pending) >= _BLOCK:
            self.close()

    def close(self) -> None:
        if self._pending:
            block = snappy_compress(bytes(self._pending))
            self._file.write(_LENGTH.pack(len(block)) + block)
            self._pending.clear()
