"""A tree as one compressed file, known by its hash: the parts of `trees.py`, one after the other.

The same files make the same bytes. Who unpacks one trusts it no more than a tree that comes over a connection.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from dtfctl.launcher.errors import TransferFailed
from dtfctl.launcher.messages import codec
from dtfctl.launcher.messages.files import FilePart
from dtfctl.launcher.transfer.trees import CHUNK_BYTES

LEVEL = 1
"""Most of a tree is text, and a slow link is not the usual case."""
READ_BYTES = 2**18
LARGEST_PART = CHUNK_BYTES + 2**16
HEAD = struct.Struct(">I")
MAGIC = b"dtfctl-tree-2\n"
OLDER = b"\x78"
"""How archives began when their parts were protobuf messages: with what they are compressed by."""


def write(parts: Iterable[FilePart], path: Path) -> None:
    """Write an archive."""
    packer = zlib.compressobj(LEVEL)
    with path.open("wb") as file:
        file.write(MAGIC)
        for part in parts:
            data = codec.pack(part)
            file.write(packer.compress(HEAD.pack(len(data)) + data))
        file.write(packer.flush())


def read(path: Path) -> Iterator[FilePart]:
    """Read the parts of an archive.

    Raises:
        TransferFailed: it is not whole, or no archive.
    """
    unpacker = zlib.decompressobj()
    held = bytearray()
    with path.open("rb") as file:
        begin = file.read(len(MAGIC))
        if begin.startswith(OLDER):
            raise TransferFailed(f"{path.name} was packed by an older dtfctl", "submit the job again")
        if begin != MAGIC:
            raise TransferFailed(f"{path.name} is no archive")
        try:
            while not unpacker.eof:
                data = unpacker.unconsumed_tail or file.read(READ_BYTES)
                if not data:
                    raise TransferFailed(f"{path.name} is not a whole archive")
                held += unpacker.decompress(data, LARGEST_PART)
                yield from _cut(held, path)
        except (zlib.error, ValueError) as error:
            raise TransferFailed(f"{path.name} is no archive: {error}") from None


def _cut(held: bytearray, path: Path) -> Iterator[FilePart]:
    """Take the whole parts off the front."""
    at = 0
    while len(held) - at >= HEAD.size:
        (size,) = HEAD.unpack_from(held, at)
        if size > LARGEST_PART:
            raise TransferFailed(f"{path.name} is no archive: a part of {size} bytes")
        if len(held) - at < HEAD.size + size:
            break
        yield codec.unpack(FilePart, held[at + HEAD.size : at + HEAD.size + size], "request")
        at += HEAD.size + size
    del held[:at]
