"""What the parts of the launcher's hands on a host share; imports nothing of dtfctl, see `host_side.py`."""

from __future__ import annotations

import json
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

BASE = os.path.expanduser("~/.dtfctl")


class Trouble(Exception):
    """Cannot be done: (cause, message) or (cause, message, hint)."""


def say(**values: Any) -> None:
    sys.stdout.write("dtfctl:" + json.dumps(values) + "\n")
    sys.stdout.flush()


def private(*parts: str) -> str:
    path = os.path.join(BASE, *parts)
    os.makedirs(path, mode=0o700, exist_ok=True)
    return path


def read_mark(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return ""


def write_mark(path: str, text: str) -> None:
    write_whole(path, text.encode())


def write_whole(path: str, data: bytes, mode: int = 0o600) -> None:
    """As `dtfctl.durable.whole_file`, which this program cannot import: it comes to a host before the package."""
    fresh = f"{path}.{os.getpid()}-{os.urandom(8).hex()}"
    try:
        fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(fd)
        os.rename(fresh, path)
    except OSError:
        if os.path.exists(fresh):
            os.unlink(fresh)
        raise
    fd = os.open(os.path.dirname(path) or ".", os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
