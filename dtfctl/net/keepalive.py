"""Have the kernel find out that the other end of a connection is gone: its machine, or the way to it.

It takes as long as pings take (`pings.py`), for those that send none: stock clients, who may be in a group that others
wait for, and connections that wait for their next call.
"""

from __future__ import annotations

import socket

from dtfctl.net.pings import SILENT_S

EVERY_S = 4
MISSES = 3
IDLE_S = SILENT_S - EVERY_S * MISSES
"""A quiet connection breaks `SILENT_S` after its other end was lost."""
_OPTIONS = (
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, IDLE_S),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, EVERY_S),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, MISSES),
    # What is on its way and not taken is sent again for a quarter of an hour, and meanwhile nothing is asked.
    (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, SILENT_S * 1000),
)


def prepare(connection: socket.socket) -> None:
    """Set a connection to send at once, and to notice when nobody is at the other end; nothing for a unix socket."""
    if connection.family == socket.AF_UNIX:
        return
    for level, option, number in _OPTIONS:
        connection.setsockopt(level, option, number)
