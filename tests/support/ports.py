"""Ports for servers that are told where to listen."""

from __future__ import annotations

import contextlib
import socket
from collections import deque

from dtfctl.net import ports

_claims: deque[socket.socket] = deque(maxlen=100)
"""What tells tests in other processes that a port is given away: a name of a Unix socket, gone when its holder is."""


def free_ports(count: int) -> list[int]:
    """Ports nobody listens at now, and that no outgoing connection or other test gets before they are used."""
    found: list[int] = []
    for port in ports.free_ports(*ports.fixed_range(), address="127.0.0.1"):
        claim = socket.socket(socket.AF_UNIX)
        with contextlib.suppress(OSError):
            claim.bind(f"\0dtfctl-test-port-{port}")
            _claims.append(claim)
            found.append(port)
            if len(found) == count:
                return found
    raise AssertionError("no free ports on this machine")
