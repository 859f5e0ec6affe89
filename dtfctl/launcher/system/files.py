"""Files that are either whole or absent, and errors that say which path ran out of space."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dtfctl.durable import whole_file
from dtfctl.launcher.errors import NoSpace

LEAST_FREE_BYTES = 64 * 1024
"""A new state database with its log needs about this much."""
OUT_OF_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})


def private_folder(path: Path) -> Path:
    """Make `path` and its parents; `path` itself is for this user only (0700)."""
    with explained(path):
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.chmod(0o700)
    return path


def write_whole(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Replace `path` by `data`: a reader sees the old content or the new one, also after a crash or a full disk."""
    with explained(path), whole_file(path, mode) as file:
        file.write(data)


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn 'no space' into an error that names the path and what to do."""
    try:
        yield
    except OSError as error:
        if error.errno in OUT_OF_SPACE:
            raise no_space(path) from error
        raise


def is_full(folder: Path) -> bool:
    """Tell whether the disk of `folder` has no room for a daemon's files."""
    return free_bytes(folder) < LEAST_FREE_BYTES


def free_bytes(folder: Path) -> int:
    """Count the free bytes on the disk of `folder`, for this user."""
    disk = os.statvfs(folder)
    return disk.f_bavail * disk.f_frsize


def no_space(path: Path) -> NoSpace:
    return NoSpace(
        f"no space left on the disk that holds {path}",
        "free some space there, or set DTFCTL_HOME to a folder on another disk",
    )


def try_lock(path: Path) -> int | None:
    """Lock a file and return its descriptor, or None when another process holds the lock. It ends with the process."""
    with explained(path):
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return None
    return fd


def unlock(fd: int) -> None:
    os.close(fd)
