"""Who is at the other end of a connection within this machine."""

from __future__ import annotations

import os
import socket
import threading
import time
from pathlib import Path
from urllib.parse import unquote

KNOWN_S = 1.0
"""How long an answer holds: reading the kernel's table for every call would cost more than the call."""
MOST_KNOWN = 1024


class Neighbours:
    """Tells connections of this user's (and root's) processes from those of other users."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, tuple[float, bool]] = {}

    def admits(self, peer: str) -> bool:
        """Whether the client behind gRPC's name for it, `ipv4:127.0.0.1:4711`, belongs to this user or to root."""
        now = time.monotonic()
        with self._lock:
            known = self._known.get(peer)
            if known is not None and now - known[0] < KNOWN_S:
                return known[1]
        owner = owner_of(peer)
        answer = owner is not None and owner in (0, os.geteuid())
        with self._lock:
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            self._known[peer] = (now, answer)
        return answer


def owner_of(peer: str) -> int | None:
    """The user id that has the socket `ipv4:127.0.0.1:4711`; None where this machine has no such connection."""
    kind, _, rest = unquote(peer).partition(":")
    host, _, port = rest.rpartition(":")
    if kind != "ipv4" or not port.isdigit():
        return None
    packed = socket.inet_aton(host)[::-1].hex().upper()
    # A socket of both families, as gRPC's clients have, stands in the other table with a mapped address.
    tables = {"/proc/net/tcp": packed, "/proc/net/tcp6": f"0000000000000000FFFF0000{packed}"}
    for table, address in tables.items():
        wanted = f"{address}:{int(port):04X}"
        try:
            lines = Path(table).read_text().splitlines()[1:]
        except FileNotFoundError:  # no IPv6 here
            continue
        for line in lines:
            fields = line.split()
            if fields[1] == wanted and fields[3] == "01":  # established
                return int(fields[7])
    return None
