"""On a host: an archive of a layer (`packing.py`) becomes a folder, as it comes.

As `host_side.py` it is read by any Python >= 3.11, so it imports nothing of dtfctl but `host_base.py`.
"""

from __future__ import annotations

import json
import os

from dtfctl.launcher.providers.host_base import Trouble, write_mark

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

LISTING = ".files.json"
LARGEST_HEADER = 64 << 20
BLOCK = 1 << 18
"""What of an archive is unpacked at a time; three times as much comes of it, which caches still hold."""


def unpack(read: Callable[[], bytes], folder: str, sha256: str) -> None:
    """Write the files of an archive into a new folder, and their listing last.

    Args:
        read: the archive's next bytes, not many of them; empty at its end.
    """
    archive = _Archive(read)
    os.makedirs(folder, mode=0o700)
    made = {folder}
    length = int.from_bytes(archive.take(8), "big")
    if length > LARGEST_HEADER:
        raise Trouble("install", "what was sent is not a layer")
    files: list[list[Any]] = json.loads(archive.take(length))
    for name, size in files:
        if os.path.isabs(name) or ".." in name.split("/"):
            raise Trouble("install", f"what was sent has a file with the name {name}")
        path = os.path.join(folder, name)
        parent = os.path.dirname(path)
        if parent not in made:
            os.makedirs(parent, mode=0o700, exist_ok=True)
            made.add(parent)
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            archive.copy(fd, size)
        finally:
            os.close(fd)
    if archive.finish() != sha256:
        raise Trouble("install", "what was sent is not what arrived: its checksum is another one")
    write_mark(os.path.join(folder, LISTING), json.dumps(files))


class _Archive:
    """A zlib stream that is read once, from its begin to its end."""

    def __init__(self, read: Callable[[], bytes]) -> None:
        import hashlib
        import zlib

        self._read = read
        self._digest = hashlib.sha256()
        self._unpack = zlib.decompressobj()
        self._bad = zlib.error
        self._ready = memoryview(b"")

    def take(self, size: int) -> bytes:
        """Take the next bytes that are unpacked."""
        found = bytearray()
        while len(found) < size:
            found += self._some(size - len(found))
        return bytes(found)

    def copy(self, fd: int, size: int) -> None:
        """Write the next bytes that are unpacked to a file."""
        while size:
            some = self._some(size)
            size -= len(some)
            while some:
                some = some[os.write(fd, some) :]

    def _some(self, most: int) -> memoryview:
        while not self._ready:
            self._ready = memoryview(self._next())
        some, self._ready = self._ready[:most], self._ready[most:]
        return some

    def _next(self) -> bytes:
        block = self._read()
        if not block:
            raise Trouble("install", "what was sent ends in its middle")
        self._digest.update(block)
        try:
            return self._unpack.decompress(block)
        except self._bad as error:
            raise Trouble("install", f"what was sent is not what arrived: {error}") from None

    def finish(self) -> str:
        """Read what is left; return the checksum of all of it."""
        while block := self._read():
            self._digest.update(block)
        return self._digest.hexdigest()
