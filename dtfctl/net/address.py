"""Connect to where a process says that it is called: `HOST:PORT`, or `unix:PATH`."""

from __future__ import annotations

import socket
from pathlib import Path

from dtfctl.net.unix import short

UNIX = "unix:"
"""What stands before the path of a socket on this machine."""


def connect(address: str, within_s: float) -> socket.socket:
    """Make a connection.

    Raises:
        OSError: nobody answers there in time.
    """
    if not address.startswith(UNIX):
        host, _, port = address.rpartition(":")
        return socket.create_connection((host.strip("[]"), int(port)), within_s)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.settimeout(within_s)
        with short(Path(address.removeprefix(UNIX))) as name:
            sock.connect(name)
    except BaseException:
        sock.close()
        raise
    return sock


def answers(address: str, within_s: float) -> bool:
    """Tell whether anybody listens there; whether it is the right one, its certificate says."""
    try:
        connect(address, within_s).close()
    except OSError:
        return False
    return True
