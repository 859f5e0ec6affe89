"""A tree as one compressed file, known by its hash: the parts of `trees.py`, one after the other.

The same files make the same bytes. Who unpacks one trusts it no more than a tree that comes over a connection.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from dtfctl.launcher.errors import TransferFailed
from dtfctl.launcher.transfer.trees import CHUNK_BYTES
from dtfctl.protocol import agent_pb2 as pb

LEVEL = 1
"""Most of a tree is text, and a slow link is not the usual case."""
READ_BYTES = 2**18
LARGEST_PART = CHUNK_BYTES + 2**16
HEAD = struct.Struct(">I")


def write(parts: Iterable[pb.FilePart], path: Path) -> None:
    """Write an archive."""
    packer = zlib.compressobj(LEVEL)
    with path.open("wb") as file:
        for part in parts:
            data = part.SerializeToString(deterministic=True)
            file.write(packer.compress(HEAD.pack(len(data)) + data))
        file.write(packer.flush())


def read(path: Path) -> Iterator[pb.FilePart]:
    """The parts of an archive.

    Raises:
        TransferFailed: it is not whole, or no archive.
    """
    unpacker = zlib.decompressobj()
    held = bytearray()
    with path.open("rb") as file:
        try:
            while not unpacker.eof:
                data = unpacker.unconsumed_tail or file.read(READ_BYTES)
                if not data:
                    raise TransferFailed(f"{path.name} is not a whole archive")
                held += unpacker.decompress(data, LARGEST_PART)
                yield from _cut(held, path)
        except (zlib.error, ValueError) as error:
            raise TransferFailed(f"{path.name} is no archive: {error}") from None


def _cut(held: bytearray, path: Path) -> Iterator[pb.FilePart]:
    """Take the whole parts off the front."""
    at = 0
    while len(held) - at >= HEAD.size:
        (size,) = HEAD.unpack_from(held, at)
        if size > LARGEST_PART:
            raise TransferFailed(f"{path.name} is no archive: a part of {size} bytes")
        if len(held) - at < HEAD.size + size:
            break
        yield pb.FilePart.FromString(bytes(held[at + HEAD.size : at + HEAD.size + size]))
        at += HEAD.size + size
    del held[:at]
