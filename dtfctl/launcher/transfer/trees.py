"""Files and folders as a stream of parts, with a checksum for each file; both ends of `get` and `put`.

The receiver trusts nothing: no part can name a place outside the destination, nothing is written through a link that
was sent, and a file appears under its name only when all of it has come and its checksum is right.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import posixpath
import secrets
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from dtfctl.launcher.errors import NotFound, TransferFailed
from dtfctl.launcher.messages.files import (
    Checksum,
    Content,
    Done,
    FileHead,
    FilePart,
    Skipped,
    TotalBytes,
)
from dtfctl.launcher.system.files import OUT_OF_SPACE, no_space
from dtfctl.values import value

CHUNK_BYTES = 2**20


@dataclass(slots=True)
class Received:
    """What has come."""

    path: Path
    files: int = 0
    bytes: int = 0
    skipped: tuple[str, ...] = ()


def send(root: Path, entries: Sequence[Entry] | None = None, mtime: float | None = None) -> Iterator[FilePart]:
    """Yield the parts of a file, or of a folder with all below it. A link that `root` itself is, is followed.

    `entries`: what of `root` is sent, found by `walk` before; `mtime`: what all files are said to be changed at.

    Raises:
        NotFound: there is no such file. TransferFailed: one cannot be read, or changes while it is read.
    """
    try:
        root = root.resolve(strict=True)
        entries = list(walk(root)) if entries is None else entries
        yield FilePart(TotalBytes(sum(e.info.st_size for e in entries if stat.S_ISREG(e.info.st_mode))))
        for entry in entries:
            yield from _send_one(root, entry, mtime)
    except FileNotFoundError as error:
        raise NotFound(f"there is no file {error.filename or root}", "check the path; it may begin with ~") from None
    except OSError as error:
        raise TransferFailed(f"cannot read {error.filename or root}: {error.strerror}") from None
    yield FilePart(Done())


@value
class Entry:
    """A file or folder that `walk` has found."""

    path: str
    """Relative to the root, "" for the root itself."""
    info: os.stat_result


def walk(root: Path, wanted: Callable[[str, bool], bool] = lambda _path, _is_folder: True) -> Iterator[Entry]:
    """Walk `root` and yield what is `wanted` by path and whether it is a folder; folders come before their content."""
    info = root.lstat()
    yield Entry("", info)
    if not stat.S_ISDIR(info.st_mode):
        return
    todo = [""]
    while todo:
        folder = todo.pop()
        with os.scandir(root / folder) as found:
            for item in sorted(found, key=lambda item: item.name):
                path, is_folder = posixpath.join(folder, item.name), item.is_dir(follow_symlinks=False)
                if not wanted(path, is_folder):
                    continue
                yield Entry(path, item.stat(follow_symlinks=False))
                if is_folder:
                    todo.append(path)


def _send_one(root: Path, entry: Entry, mtime: float | None) -> Iterator[FilePart]:
    path, mode = root / entry.path if entry.path else root, entry.info.st_mode
    changed = entry.info.st_mtime if mtime is None else mtime
    permissions = stat.S_IMODE(mode) & 0o777
    if stat.S_ISDIR(mode):
        yield FilePart(FileHead(entry.path, "folder", permissions, mtime=changed))
    elif stat.S_ISLNK(mode):
        link = str(path.readlink())
        if _leads_outside(entry.path, link):
            yield FilePart(Skipped(f"{entry.path} (a link to {link})"))
        else:
            yield FilePart(FileHead(entry.path, "link", permissions, mtime=changed, link=link))
    elif stat.S_ISREG(mode):
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            yield FilePart(FileHead(entry.path, "file", permissions, size, changed))
            digest, left = hashlib.sha256(), size
            while left:
                data = file.read(min(CHUNK_BYTES, left))
                if not data:
                    raise TransferFailed(f"{path} became shorter while it was read", "try again")
                digest.update(data)
                left -= len(data)
                yield FilePart(Content(data))
        yield FilePart(Checksum(digest.hexdigest()))
    else:
        yield FilePart(Skipped(f"{entry.path or root.name} (no file or folder)"))


def _leads_outside(path: str, link: str) -> bool:
    """Tell whether a link at `path` leads out of the tree. Links are read without following others on their way."""
    if posixpath.isabs(link) or not path:
        return True
    target = posixpath.normpath(posixpath.join(posixpath.dirname(path), link))
    return target == ".." or target.startswith("../")


def place(path: Path, name: str, *, as_folder: bool) -> Path:
    """Decide where something called `name` goes that is sent to `path`: into a folder that is there, or `path` itself.

    Raises:
        NotFound: the folder that it should go into is not there.
    """
    if path.is_dir():
        return path / name
    if as_folder:
        raise NotFound(f"there is no folder {path}", "make it first, or leave the last / out to give a new name")
    if not path.parent.is_dir():
        raise NotFound(f"there is no folder {path.parent}", "make it first")
    return path


def receive(parts: Iterable[FilePart], destination: Path) -> Received:
    """Write what comes to `destination`, which is a new name or is replaced; a folder that is there is merged into.

    Raises:
        TransferFailed: damaged, incomplete, not allowed here, or it names a place outside; NoSpace.
    """
    writer = _Writer(destination)
    try:
        for part in parts:
            writer.take(part)
        return writer.finish()
    except OSError as error:
        if error.errno in OUT_OF_SPACE:
            raise no_space(destination) from error
        raise TransferFailed(f"cannot write {destination / writer.path}: {error.strerror}") from None
    finally:
        writer.close()


class _Writer:
    def __init__(self, destination: Path) -> None:
        self._destination = destination
        self._received = Received(destination)
        self._skipped: list[str] = []
        self._root_fd = -1
        """Of the destination, once it is known to be a folder."""
        self._head: FileHead | None = None
        self._folder_fd = -1
        self._file_fd = -1
        self._temporary = ""
        self._digest = hashlib.sha256()
        self._size = 0
        self._done = False
        self._modes: list[tuple[str, int]] = []
        self.path = ""

    def take(self, part: FilePart) -> None:
        match part.what:
            case FileHead():
                self._begin(part.what)
            case Content(data):
                self._write(data)
            case Checksum(sha256):
                self._end(sha256)
            case Skipped(path):
                self._skipped.append(path)
            case Done():
                self._done = True

    def finish(self) -> Received:
        if not self._done or self._file_fd >= 0:
            raise TransferFailed(f"the rest of {self._destination} did not come", "try again")
        for path, mode in reversed(self._modes):  # a folder that may not be written to is so only now
            folder, name = self._parent_of(path)
            try:
                os.chmod(name, mode, dir_fd=folder)
            finally:
                os.close(folder)
        self._received.skipped = tuple(self._skipped)
        return self._received

    def close(self) -> None:
        """Give up what is not complete."""
        if self._file_fd >= 0:
            os.close(self._file_fd)
            with contextlib.suppress(OSError):
                os.unlink(self._temporary, dir_fd=self._folder_fd)
        for fd in (self._folder_fd, self._root_fd):
            if fd >= 0:
                os.close(fd)
        self._file_fd = self._folder_fd = self._root_fd = -1

    # ------------------------------------------------------------------ parts

    def _begin(self, head: FileHead) -> None:
        if self._file_fd >= 0:
            raise TransferFailed(f"the rest of {self.path} did not come", "try again")
        self.path = head.path
        _refuse_traversal(head)
        if head.kind == "folder" and not head.path:
            self._destination.mkdir(mode=0o700, exist_ok=True)
            self._root_fd = os.open(self._destination, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            return
        folder, name = self._parent_of(head.path)
        if head.kind == "folder":
            try:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name, 0o700, dir_fd=folder)
                os.close(os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder))
            finally:
                os.close(folder)
            self._modes.append((head.path, head.mode & 0o777))
            return
        temporary = f".{name[:200]}.{secrets.token_hex(4)}"
        if head.kind == "link":
            try:
                os.symlink(head.link, temporary, dir_fd=folder)
                os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
            finally:
                os.close(folder)
            self._received.files += 1
            return
        self._folder_fd, self._temporary, self._head = folder, temporary, head
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            self._file_fd = os.open(temporary, flags, 0o600, dir_fd=folder)
        except OSError:
            os.close(folder)
            self._folder_fd = -1
            raise
        self._digest, self._size = hashlib.sha256(), 0

    def _write(self, data: bytes) -> None:
        if self._file_fd < 0 or self._head is None:
            raise TransferFailed("data came before the name of its file")
        self._size += len(data)
        if self._size > self._head.size:
            raise TransferFailed(f"{self.path} is larger than it was said to be")
        self._digest.update(data)
        view = memoryview(data)
        while view:
            view = view[os.write(self._file_fd, view) :]

    def _end(self, sha256: str) -> None:
        head = self._head
        if self._file_fd < 0 or head is None:
            raise TransferFailed("a checksum came before the name of its file")
        if self._size != head.size or self._digest.hexdigest() != sha256:
            raise TransferFailed(f"{self.path or self._destination.name} was damaged on its way", "try again")
        os.fchmod(self._file_fd, head.mode & 0o777)
        os.utime(self._file_fd, (head.mtime, head.mtime))
        os.close(self._file_fd)
        self._file_fd = -1
        name = posixpath.basename(head.path) if head.path else self._destination.name
        try:
            os.replace(self._temporary, name, src_dir_fd=self._folder_fd, dst_dir_fd=self._folder_fd)
        finally:
            os.close(self._folder_fd)
            self._folder_fd = -1
        self._received.files += 1
        self._received.bytes += self._size

    def _parent_of(self, path: str) -> tuple[int, str]:
        """Open the folder that holds `path` without following any link; return it and the name in it."""
        if not path:
            return os.open(self._destination.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC), (
                self._destination.name
            )
        if self._root_fd < 0:
            raise TransferFailed(f"{path} came before its folder")
        *folders, name = path.split("/")
        fd = os.dup(self._root_fd)
        for folder in folders:
            try:
                inner = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=fd)
            finally:
                os.close(fd)
            fd = inner
        return fd, name


def _refuse_traversal(head: FileHead) -> None:
    """Raise TransferFailed for a name or a link that leads outside."""
    parts = head.path.split("/") if head.path else []
    if any(part in ("", ".", "..") or "\0" in part for part in parts):
        raise TransferFailed(f"refused: {head.path!r} leads outside of the folder that is sent")
    if head.kind == "link" and _leads_outside(head.path, head.link):
        raise TransferFailed(f"refused: the link {head.path!r} leads outside, to {head.link!r}")
