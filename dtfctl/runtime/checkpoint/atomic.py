"""Files that appear whole or not at all."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from dtfctl.durable import MARK, whole_file
from dtfctl.runtime.framework.errors import (
    AlreadyExistsError,
    FailedPreconditionError,
    NotFoundError,
    OpError,
    PermissionDeniedError,
    ResourceExhaustedError,
    UnknownError,
)

READABLE = 0o666
"""What others may do with a checkpoint is the umask's to say."""
# As in TensorFlow's `errors::ErrnoToCode`.
_EXHAUSTED = (errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM)


def os_error(error: OSError, path: str | None = None) -> OpError:
    """Return the runtime's error for a failed system call, in TensorFlow's words."""
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
    try:
        with whole_file(Path(path), READABLE) as file:
            yield file
    except OSError as e:
        raise os_error(e, path if e.filename is None or MARK in str(e.filename) else None) from e
