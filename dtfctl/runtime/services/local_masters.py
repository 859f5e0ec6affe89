"""Masters of servers in this process, by the address they listen at, so that sessions need not go through gRPC."""

from __future__ import annotations

import threading

from dtfctl.runtime.services.master import Master

_lock = threading.Lock()
_masters: dict[str, Master] = {}


def register_local_master(address: str, master: Master) -> None:
    with _lock:
        _masters[_normal(address)] = master


def forget_local_master(address: str) -> None:
    with _lock:
        _masters.pop(_normal(address), None)


def find_local_master(address: str) -> Master | None:
    return _masters.get(_normal(address))


def _normal(address: str) -> str:
    host, _, port = address.rpartition(":")
    return f"127.0.0.1:{port}" if host in ("localhost", "[::1]", "0.0.0.0", "[::]") else address
