"""Files that are whole or absent, whatever is killed, and on the disk when the call returns.

Everything that replaces a file of ours does it here. What is written first has a name that no other thread or process
has, and is locked as long as somebody writes it: what is not locked was left by a process that was killed.
"""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

MARK = ".tempstate"
"""What stands in every name of a file that is not whole yet."""
_NAME_BYTES = 255


def temporary_of(path: Path) -> Path:
    """Make a name beside `path` that nobody else has."""
    ending = f"{MARK}{os.getpid()}-{os.urandom(8).hex()}"
    # A long name is cut by bytes: what is left need not be readable.
    name = os.fsdecode(os.fsencode(path.name)[: _NAME_BYTES - len(ending) - 1])
    return path.with_name(f".{name}{ending}")


def open_temporary(path: Path, mode: int = 0o600) -> int:
    """Open a new file beside `path` that is locked while somebody writes it; the descriptor of it.

    Raises:
        OSError: the file system refuses.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    while True:
        fd = os.open(path, flags, mode)
        try:
            _lock(fd)
            if os.fstat(fd).st_nlink:
                return fd
        except BaseException:
            os.close(fd)
            path.unlink(missing_ok=True)
            raise
        os.close(fd)  # somebody took it for one that was left, before it was locked


def sync_folder(folder: Path) -> None:
    """Make the names in a folder survive a power cut."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


@contextmanager
def whole_file(path: Path, mode: int = 0o600) -> Iterator[BinaryIO]:
    """Write a file that replaces `path` when the block ends without an error.

    Raises:
        OSError: the file system refuses.
    """
    temporary = temporary_of(path)
    file = os.fdopen(open_temporary(temporary, mode), "w+b")
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def remove_left(folder: Path) -> list[Path]:
    """Remove what killed processes have left half written in a folder; what was removed."""
    removed = []
    try:
        names = [entry.name for entry in os.scandir(folder) if _is_ours(entry.name)]
    except OSError:
        return []  # whoever writes there will see why
    for name in names:
        path = folder / name
        try:
            fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            continue  # gone already, or not ours
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()
            removed.append(path)
        except OSError:
            continue  # it is being written, or locks cannot tell here
        finally:
            os.close(fd)
    return removed


def _is_ours(name: str) -> bool:
    """Tell whether `temporary_of` made it: a stock TensorFlow's `.tempstate` and number has no lock that would tell."""
    head, mark, ending = name.rpartition(MARK)
    pid, dash, random = ending.partition("-")
    return head.startswith(".") and bool(mark and dash) and pid.isdigit() and len(random) == 16


def _lock(fd: int) -> None:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        fcntl.flock(fd, fcntl.LOCK_EX)  # somebody looks whether it was left
    except OSError:
        return  # a file system without locks: nobody will take it for one that was left


def not_private(folder: Path) -> str:
    """Say why others may have written in a folder; empty: nobody else can. It is closed to readers meanwhile.

    Raises:
        OSError: it cannot be looked at.
    """
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode):
        return "is no folder"
    if found.st_uid != os.geteuid():
        return "belongs to another user"
    if stat.S_IMODE(found.st_mode) & 0o022:
        return f"can be written by others (mode {stat.S_IMODE(found.st_mode):04o}): remove it"
    if stat.S_IMODE(found.st_mode) & 0o055:
        folder.chmod(0o700)
    return ""
