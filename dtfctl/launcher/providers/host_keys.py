"""On a host: who may log in to it; see `host_side.py`."""

from __future__ import annotations

import fcntl
import os

from dtfctl.launcher.providers.host_base import BASE, facts, private, read_mark, write_whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def key_of(cluster: str) -> str:
    """Name the key with which a controller on a host logs in to the others."""
    return f"dtfctl-{cluster}"


def authorized_keys() -> str:
    folder = os.path.expanduser("~/.ssh")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    return os.path.realpath(os.path.join(folder, "authorized_keys"))


def of_this_home(line: str) -> str:
    """Name this folder, too: an account may have two clusters of one name, each with a home of its own."""
    return f"{line} {BASE}"


def authorize(cluster: str, line: str, **_: Any) -> dict[str, Any]:
    """Let the holder of a key in as this user, and of the cluster's keys no other: it is of a time that is over."""
    private("tmp")
    line = of_this_home(line)
    forget_key(key_of(cluster), but=line)
    path = authorized_keys()
    with open(os.path.join(BASE, "authorized.lock"), "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        text = read_mark(path)
        if line not in text.splitlines():
            with open(path, "a", encoding="utf-8") as file:
                file.write(("" if not text or text.endswith("\n") else "\n") + line + "\n")
    return {"facts": facts()}


def forbid(line: str, **_: Any) -> dict[str, Any]:
    """Remove a key's line, so that it lets nobody in any longer."""
    remove_line(of_this_home(line))
    return {}


def remove_line(line: str) -> None:
    path = authorized_keys()
    with open(os.path.join(private(), "authorized.lock"), "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lines = read_mark(path).splitlines()
        if line in lines:
            mode = os.stat(path).st_mode & 0o777
            write_whole(path, "".join(f"{kept}\n" for kept in lines if kept != line).encode(), mode)


def forget_key(comment: str, but: str = "") -> None:
    """Lock out the key of a controller that ran on a host, unless it is that of the line `but`."""
    path = authorized_keys()
    for line in read_mark(path).splitlines():
        if line.endswith(of_this_home(f" {comment}")) and line != but:
            remove_line(line)
