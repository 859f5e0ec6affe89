"""Sends the files of jobs to one host, in a thread of its own: orders and leases do not wait for large ones."""

from __future__ import annotations

import logging
import threading
import time

from dtfctl import guard
from dtfctl.launcher.errors import LauncherError
from dtfctl.launcher.messages.agent_calls import PUT_BLOB
from dtfctl.launcher.messages.orders import HostOrders
from dtfctl.launcher.rpc.client import Channel
from dtfctl.launcher.transfer.blobs import Blobs, deliver

log = logging.getLogger(__name__)

PIECE_S = 60.0
AGAIN_S = 1.0


class FileSender:
    """The files that one host is sent; `ship` and `forget` come from any thread.

    A host is asked what it has once for every job: it may have deleted what an earlier one needed.
    """

    def __init__(self, host: str, blobs: Blobs) -> None:
        self._host = host
        self._blobs = blobs
        self._lock = threading.Lock()
        self._wanted: dict[tuple[str, str], Channel] = {}
        self._sent: set[tuple[str, str]] = set()
        self._works = False

    def forget(self) -> None:
        """Forget what the host has: another agent may be there."""
        with self._lock:
            self._wanted.clear()
            self._sent.clear()

    def ship(self, channel: Channel, orders: HostOrders) -> None:
        """Send what the orders need, soon."""
        wanted = {(c.job_id, name): channel for c in orders.clients if c.run for name in c.needs.files}
        with self._lock:
            self._wanted = {key: to for key, to in wanted.items() if key not in self._sent}
            if not self._wanted or self._works:
                return
            self._works = True
        guard.once(self._run, name=f"ship-{self._host}").start()

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._wanted:
                    self._works = False
                    return
                key, channel = next(iter(self._wanted.items()))
            _, name = key
            try:
                path = self._blobs.path(name)
                deliver(path, name, lambda piece, to=channel: to.call(PUT_BLOB, piece, timeout_s=PIECE_S))  # type: ignore[misc]
            except LauncherError as error:
                log.warning("%s: a file of job %s is not sent: %s", self._host, key[0], error)
                time.sleep(AGAIN_S)
                continue
            except Exception:
                log.exception("%s: a file of job %s is not sent", self._host, key[0])
                time.sleep(AGAIN_S)
                continue
            with self._lock:
                if self._wanted.pop(key, None) is not None:
                    self._sent.add(key)
