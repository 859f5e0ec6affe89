"""What the parts of the launcher's hands on a host share; imports nothing of dtfctl, see `host_side.py`."""

from __future__ import annotations

import _imp
import contextlib
import json
import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def _base() -> str:
    """Find where all that is dtfctl's own lies.

    As the shell's command says (`conversation.py`), else where this Python is one of its runtimes, else in the home
    folder.
    """
    said = os.environ.pop("DTFCTL_BASE", "")
    if not said and os.path.exists(os.path.join(sys.prefix, "layers.json")):
        said = os.path.dirname(os.path.dirname(sys.prefix))
    return said or os.path.expanduser("~/.dtfctl")


BASE = _base()
POLL_S = 0.01


class Trouble(Exception):
    """Cannot be done: (cause, message) or (cause, message, hint)."""


class Needs(Exception):
    """What has to be sent first."""


def say(**values: Any) -> None:
    sys.stdout.write("dtfctl:" + json.dumps(values) + "\n")
    sys.stdout.flush()


def private(*parts: str) -> str:
    path = os.path.join(BASE, *parts)
    os.makedirs(path, mode=0o700, exist_ok=True)
    return path


def entries(path: str) -> list[str]:
    """List what is in a folder; nothing where it is gone, as another host with the same home may remove it."""
    try:
        return os.listdir(path)
    except FileNotFoundError:
        return []


def remove(path: str) -> None:
    """Delete a file, unless another host with the same home has."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def read_mark(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return ""


def write_mark(path: str, text: str) -> None:
    write_whole(path, text.encode())


def write_whole(path: str, data: bytes, mode: int = 0o600) -> None:
    """Write as `dtfctl.durable.whole_file`, which this program cannot import: it comes to a host before the package."""
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


def facts() -> dict[str, Any]:
    said = os.environ.get("DTFCTL_CONNECTION") or os.environ.get("SSH_CONNECTION") or "   22"
    came_from, _, address, port = said.split(" ")[:4]
    there = BASE
    while not os.path.isdir(there):
        there = os.path.dirname(there)
    disk = os.statvfs(there)
    names = {"cpython": "CPython", "pypy": "PyPy"}
    runtimes, gpus = os.path.join(BASE, "runtime"), "/proc/driver/nvidia/gpus"
    return {
        "runtimes": os.listdir(runtimes) if os.path.isdir(runtimes) else [],
        "python": sys.version.split()[0],
        "implementation": names.get(sys.implementation.name, sys.implementation.name),
        "machine": os.uname().machine,
        "libc": libc(),
        "abi": _imp.extension_suffixes()[0],
        "executable": os.path.realpath(getattr(sys, "_base_executable", "") or sys.executable),
        "base": BASE,
        "came_from": came_from,
        "address": address,
        "port": int(port),
        "free_bytes": disk.f_bavail * disk.f_frsize,
        "hostname": os.uname().nodename,
        "cores": os.cpu_count() or 1,
        "gpus": len(os.listdir(gpus)) if os.path.isdir(gpus) else 0,
        "clock": time.time(),
    }


def libc() -> list[str]:
    """Name and version; empty where it is not GNU's."""
    try:
        return (os.confstr("CS_GNU_LIBC_VERSION") or " ").split(" ")[:2]
    except (ValueError, OSError):
        return ["", ""]
