"""The process at the other end of a link, which may look at what it was lent for as long as it lives."""

from __future__ import annotations

import logging
import os
import socket
import threading
from typing import Protocol

from dtfctl.net.owner import credentials_of
from dtfctl.runtime.memory.shared_memory import Loans

log = logging.getLogger(__name__)


class Watcher(Protocol):
    """Tells things with a descriptor when something is to be read there, and that time goes by."""

    def add(self, thing: Borrower, /) -> None: ...

    def remove(self, thing: Borrower, /) -> None: ...


class Borrower:
    """A process at the other end of a unix socket, which may still look at what it was lent.

    Args:
        pidfd: of the process; -1 where the kernel has none, or it is this process.
        watcher: tells when the process has ended.
    """

    def __init__(self, pidfd: int, watcher: Watcher) -> None:
        self._pidfd = pidfd
        self._watcher = watcher
        self._loans: Loans | None = None
        self._lock = threading.Lock()
        self._has_stopped = False

    @staticmethod
    def of(sock: socket.socket, watcher: Watcher) -> Borrower:
        """Find the process at the other end of a unix socket."""
        pid, _ = credentials_of(sock)
        try:
            return Borrower(os.pidfd_open(pid) if pid not in (0, os.getpid()) else -1, watcher)
        except OSError as e:
            log.info("the process %d cannot be watched: %s", pid, e.strerror)
            return Borrower(-1, watcher)

    def outlive(self, loans: Loans) -> None:
        """Go on without the link, and so without who would say what the process still looks at.

        All of it stays until the process has ended, or says over another link that it looks at nothing of it any more
        (remains.py).
        """
        if self._pidfd < 0:
            return
        if not loans:
            os.close(self._pidfd)
            return
        self._loans = loans
        self._watcher.add(self)

    def fileno(self) -> int:
        return self._pidfd

    def readable(self) -> None:
        """Note that the process has ended."""
        assert self._loans is not None
        self._stop()
        self._loans.end()

    def writable(self) -> None:
        """Do nothing: it is never waited for."""

    def tick(self, now: float) -> None:
        if not self._loans:
            # All of it was returned over another link.
            self._stop()

    def _stop(self) -> None:
        """Watch the process no longer; ticks come in any thread."""
        with self._lock:
            if not self._has_stopped:
                self._has_stopped = True
                self._watcher.remove(self)
                os.close(self._pidfd)
