"""Ports for servers that are told where to listen."""

from __future__ import annotations

import contextlib
import secrets
import socket
from pathlib import Path


def free_ports(count: int) -> list[int]:
    """Ports nobody listens at now, and none that an outgoing connection is given before they are used."""
    lowest_given = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    found: list[int] = []
    with contextlib.ExitStack() as stack:
        while len(found) < count:
            port = lowest_given - 1 - secrets.randbelow(min(12_000, lowest_given - 1024))
            s = stack.enter_context(socket.socket())
            with contextlib.suppress(OSError):
                s.bind(("127.0.0.1", port))
                found.append(port)
    return found
