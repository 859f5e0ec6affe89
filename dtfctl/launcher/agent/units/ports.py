"""Pick the port of a task."""

from __future__ import annotations

from collections.abc import Collection

from dtfctl.launcher.errors import PortTaken
from dtfctl.launcher.system.procfs import port_holder
from dtfctl.net.ports import fixed_range, free_ports, is_free


def choose(first: int, last: int, taken: Collection[int], before: int = 0) -> int:
    """Choose `before` if it is still free, else a free port of `first` to `last` (0: any) that is not in `taken`.

    Raises:
        PortTaken: every allowed port is in use; names the holder of the only one.
    """
    if before and before not in taken and is_free(before) and (first == 0 or first <= before <= last):
        return before
    if first == 0:
        return fresh(0, 0, taken)
    for port in range(first, last + 1):
        if port not in taken and is_free(port):
            return port
    raise PortTaken(_explain(first, last, taken), "choose other `ports`, or `ports: auto`")


def fresh(first: int, last: int, taken: Collection[int]) -> int:
    """Choose a free port that is not in `taken`, of `first` to `last` or (0) below those the kernel hands out.

    It is bound only later, by a process that is told about it; from the kernel's own range another could get it
    meanwhile.

    Raises:
        PortTaken: every allowed port is in use.
    """
    low, high = (first, last) if first else fixed_range()
    for port in free_ports(low, high, taken):
        return port
    raise PortTaken(_explain(low, high, taken), "give `ports` a larger range")


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
