"""Pick the port of a task."""

from __future__ import annotations

import errno
import itertools
import os
import socket
from collections.abc import Collection
from pathlib import Path

from dtfctl.launcher.errors import PortTaken
from dtfctl.launcher.system.procfs import port_holder

TRIES = 50
LOWEST_FRESH = 10_000
DEFAULT_EPHEMERAL = 32_768
EPHEMERAL_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


def is_free(port: int, address: str = "") -> bool:
    """Tell whether a server could listen there now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
            probe.listen(1)
        except OSError as error:
            if error.errno in (errno.EADDRINUSE, errno.EACCES):
                return False
            raise
    return True


def choose(first: int, last: int, taken: Collection[int], before: int = 0) -> int:
    """Choose `before` if it is still free, else a free port of `first` to `last` (0: any) that is not in `taken`.

    Raises:
        PortTaken: every allowed port is in use; names the holder of the only one.
    """
    if before and before not in taken and is_free(before) and (first == 0 or first <= before <= last):
        return before
    if first:
        for port in range(first, last + 1):
            if port not in taken and is_free(port):
                return port
        raise PortTaken(_explain(first, last, taken), "choose other `ports`, or `ports: auto`")
    for _ in range(TRIES):
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.bind(("", 0))
            port = int(probe.getsockname()[1])
        if port not in taken:
            return port
    raise PortTaken("no free port on this host")


def fresh(first: int, last: int, taken: Collection[int]) -> int:
    """Choose a free port that is not in `taken`, of `first` to `last` or (0) below those the kernel hands out.

    It is bound only later, by a process that is told about it; from the kernel's own range another could get it
    meanwhile.

    Raises:
        PortTaken: every allowed port is in use.
    """
    low, high = (first, last) if first else (LOWEST_FRESH, _first_ephemeral() - 1)
    start = low + int.from_bytes(os.urandom(4)) % (high - low + 1)
    for port in itertools.chain(range(start, high + 1), range(low, start)):
        if port not in taken and is_free(port):
            return port
    raise PortTaken(_explain(low, high, taken), "give `ports` a larger range")


def _first_ephemeral() -> int:
    """Find the lowest port that the kernel gives to outgoing connections."""
    try:
        lowest = int(EPHEMERAL_RANGE.read_text().split(maxsplit=1)[0])
    except (OSError, ValueError, IndexError):
        return DEFAULT_EPHEMERAL
    return lowest if lowest > LOWEST_FRESH + 1000 else DEFAULT_EPHEMERAL


def _explain(first: int, last: int, taken: Collection[int]) -> str:
    if first != last:
        ours = sum(first <= port <= last for port in taken)
        return f"ports {first}-{last} are all taken ({ours} of them by this cluster's tasks)"
    if first in taken:
        return f"port {first} is taken by another task of this cluster on this host"
    holder = port_holder(first)
    if holder is None:
        return f"port {first} is taken by another process"
    return f"port {first} is taken by pid {holder[0]} ({holder[1] or 'command unknown'})"
