"""Files known by their content: sent once, in pieces, to who does not have them yet.

A piece says where it belongs, so a transfer that broke off goes on where it ended. A file has its name only when all
of it is there and its hash is right.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
import time
from collections.abc import Callable, Collection
from pathlib import Path

from dtfctl.launcher.errors import NotFound, TransferFailed, UsageError
from dtfctl.launcher.messages.files import BlobHeld, BlobPiece
from dtfctl.launcher.system.files import explained, private_folder

PIECE_BYTES = 4 * 2**20
LARGEST = 8 * 2**30
NAME = re.compile(r"[0-9a-f]{64}")
FRESH_S = 3600.0
"""A file that nobody needs yet may have been sent for what comes in a moment."""


class Blobs:
    """The files in one folder; any thread."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()

    def path(self, sha256: str) -> Path:
        """Find where a file lies that is here.

        Raises:
            NotFound: it is not.
        """
        path = self._folder / sha256
        if not NAME.fullmatch(sha256) or not path.is_file():
            raise NotFound(f"the file {sha256[:12]} of the job has not been sent", "submit it again")
        return path

    def has(self, sha256: str) -> bool:
        """Tell whether all of a file is here."""
        return bool(NAME.fullmatch(sha256)) and (self._folder / sha256).is_file()

    def piece(self, sha256: str, offset: int) -> BlobPiece:
        """Read the piece that follows `offset` of a file that is here. Raises NotFound."""
        path = self.path(sha256)
        with path.open("rb") as file:
            data = os.pread(file.fileno(), PIECE_BYTES, max(0, offset))
            return BlobPiece(sha256, os.fstat(file.fileno()).st_size, max(0, offset), data)

    def take(self, piece: BlobPiece) -> BlobHeld:
        """Add a piece; how much of the file there is. A piece that does not go on where it ends is not taken.

        Raises:
            UsageError: it cannot be a piece of a file. TransferFailed: the whole is not what it was said to be.
            NoSpace.
        """
        if not NAME.fullmatch(piece.sha256) or not 0 <= piece.size <= LARGEST:
            raise UsageError(f"no file of a job: {piece.sha256[:70]!r}, {piece.size} bytes")
        with self._lock:
            whole, part = self._folder / piece.sha256, self._folder / f"{piece.sha256}.part"
            if whole.is_file():
                return BlobHeld(bytes=piece.size)
            private_folder(self._folder)
            with explained(part):
                fd = os.open(part, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
                try:
                    held = self._add(fd, piece)
                finally:
                    os.close(fd)
            if held == piece.size:
                self._finish(part, whole, piece.sha256)
            return BlobHeld(bytes=held)

    @staticmethod
    def _add(fd: int, piece: BlobPiece) -> int:
        held = os.fstat(fd).st_size
        if held > piece.size:
            os.ftruncate(fd, 0)
            held = 0
        if piece.offset == held and held + len(piece.data) <= piece.size:
            view = memoryview(piece.data)
            while view:
                done = os.pwrite(fd, view, held)
                view, held = view[done:], held + done
        if held == piece.size:
            os.fsync(fd)
        return held

    @staticmethod
    def _finish(part: Path, whole: Path, sha256: str) -> None:
        if sha256_of(part) != sha256:
            part.unlink()
            raise TransferFailed(f"the file {sha256[:12]} of the job was damaged on its way", "submit it again")
        part.rename(whole)

    def prune(self, needed: Collection[str], limit_bytes: int) -> None:
        """Delete what nobody needs, the longest unused first, until the rest has no more than `limit_bytes`."""
        with self._lock:
            found = [(path, path.stat()) for path in self._folder.glob("*")] if self._folder.is_dir() else []
            total = sum(info.st_size for _, info in found)
            for path, info in sorted(found, key=lambda item: item[1].st_mtime):
                if total <= limit_bytes:
                    return
                if path.name.partition(".")[0] not in needed and time.time() - info.st_mtime > FRESH_S:
                    with contextlib.suppress(FileNotFoundError):
                        path.unlink()
                    total -= info.st_size

    def used(self, sha256: str) -> None:
        """Note that it is needed now."""
        with contextlib.suppress(FileNotFoundError):
            os.utime(self._folder / sha256)


def sha256_of(path: Path) -> str:
    """Name a file by the SHA-256 of its content, in hex."""
    import hashlib

    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def deliver(path: Path, sha256: str, put: Callable[[BlobPiece], BlobHeld]) -> None:
    """Send a file to who takes pieces by `put`; nothing, where it is there already."""
    size = path.stat().st_size
    held = put(BlobPiece(sha256=sha256, size=size, offset=-1)).bytes
    with path.open("rb") as file:
        while held < size:
            file.seek(held)
            data = file.read(PIECE_BYTES)
            if not data:
                raise TransferFailed(f"{path} became shorter while it was sent", "try again")
            before, held = held, put(BlobPiece(sha256=sha256, size=size, offset=held, data=data)).bytes
            if held <= before:
                raise TransferFailed(f"{path.name}: a piece at {before} was not taken", "try again")
