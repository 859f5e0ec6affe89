"""Have the kernel find out that the other end of a quiet connection is gone: its machine, or the way to it."""

from __future__ import annotations

import socket

IDLE_S = 30
EVERY_S = 10
MISSES = 3
"""A quiet connection breaks a minute after its other end was lost: `IDLE_S + EVERY_S * MISSES`."""
_OPTIONS = (
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, IDLE_S),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, EVERY_S),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, MISSES),
)


def prepare(connection: socket.socket) -> None:
    """Set a connection to send at once, and to notice when nobody is at the other end; nothing for a unix socket."""
    if connection.family == socket.AF_UNIX:
        return
    for level, option, number in _OPTIONS:
        connection.setsockopt(level, option, number)
