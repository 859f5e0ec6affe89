"""Files that appear whole or not at all."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from dtfctl.runtime.framework.errors import (
    AlreadyExistsError,
    FailedPreconditionError,
    NotFoundError,
    OpError,
    PermissionDeniedError,
    ResourceExhaustedError,
    UnknownError,
)

# As in TensorFlow's `errors::ErrnoToCode`.
_EXHAUSTED = (errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM)


def temporary_name(path: str) -> str:
    return f"{path}.tempstate{secrets.randbits(64)}"


def os_error(error: OSError, path: str | None = None) -> OpError:
    """The runtime's error for a failed system call, in TensorFlow's words."""
    text = f"{path or error.filename}; {os.strerror(error.errno) if error.errno else error}"
    if isinstance(error, FileNotFoundError):
        return NotFoundError(text)
    if isinstance(error, PermissionError):
        return PermissionDeniedError(text)
    if isinstance(error, FileExistsError):
        # A file where a folder should be is a wrong path, not a taken name.
        wrong_path = path is not None and str(error.filename) != path
        return FailedPreconditionError(text) if wrong_path else AlreadyExistsError(text)
    if isinstance(error, (IsADirectoryError, NotADirectoryError)):
        return FailedPreconditionError(text)
    if error.errno in _EXHAUSTED:
        return ResourceExhaustedError(text)
    return UnknownError(text)


@contextmanager
def atomic_file(path: str) -> Iterator[BinaryIO]:
    """Write to a temporary file beside `path` that replaces it when the block ends without an error.

    Raises:
        OpError: the file system refuses.
    """
    temporary = temporary_name(path)
    try:
        with open(temporary, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
        sync_directory(path)
    except OSError as e:
        Path(temporary).unlink(missing_ok=True)
        raise os_error(e, path if e.filename in (None, temporary) else None) from e
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def sync_directory(path: str) -> None:
    """Make a rename in the folder of `path` survive a power cut."""
    handle = os.open(Path(path).parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
