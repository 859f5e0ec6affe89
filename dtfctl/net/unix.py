"""Bind and connect unix sockets wherever their files are: the kernel takes paths of 107 bytes only."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

LONGEST_PATH = 107


@contextlib.contextmanager
def short(path: Path) -> Iterator[str]:
    """Give a socket's file a name that the kernel takes, for as long as the context lasts."""
    if len(os.fsencode(path)) <= LONGEST_PATH:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)
