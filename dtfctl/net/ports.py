"""Find free ports for servers that are told later where to listen.

Not from the range out of which the kernel gives ports to outgoing connections: one of those could get the port before
its server has started.
"""

from __future__ import annotations

import errno
import itertools
import os
import socket
from collections.abc import Collection, Iterator
from pathlib import Path

LOWEST = 10_000
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


def fixed_range() -> tuple[int, int]:
    """Return the lowest and the highest port that the kernel gives to nobody."""
    try:
        lowest = int(EPHEMERAL_RANGE.read_text().split(maxsplit=1)[0])
    except (OSError, ValueError, IndexError):
        lowest = DEFAULT_EPHEMERAL
    return LOWEST, (lowest if lowest > LOWEST + 1000 else DEFAULT_EPHEMERAL) - 1


def free_ports(low: int, high: int, taken: Collection[int] = (), address: str = "") -> Iterator[int]:
    """Yield the free ports of a range that are not in `taken`, from anywhere in it on."""
    start = low + int.from_bytes(os.urandom(4)) % (high - low + 1)
    for port in itertools.chain(range(start, high + 1), range(low, start)):
        if port not in taken and is_free(port, address):
            yield port
