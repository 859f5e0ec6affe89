"""The process at the other end of a link, which may look at what it was lent for as long as it lives."""

from __future__ import annotations

import logging
import os
import socket
import struct

from dtfctl.runtime.platform.shared_memory import Loans
from dtfctl.runtime.rendezvous.reactor import REACTOR

log = logging.getLogger(__name__)
_CREDENTIALS = struct.Struct("3i")


class Borrower:
    """Args:
    pidfd: of the process; -1 where the kernel has none, or it is this process.
    """

    def __init__(self, pidfd: int) -> None:
        self._pidfd = pidfd
        self._loans: Loans | None = None

    @staticmethod
    def of(sock: socket.socket) -> Borrower:
        """The process at the other end of a unix socket."""
        pid = _CREDENTIALS.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))[0]
        try:
            return Borrower(os.pidfd_open(pid) if pid not in (0, os.getpid()) else -1)
        except OSError as e:
            log.info("the process %d cannot be watched: %s", pid, e.strerror)
            return Borrower(-1)

    def outlive(self, loans: Loans) -> None:
        """The link is gone. Nobody will say any more what the process still looks at, so all of it stays until the
        process has ended."""
        if self._pidfd < 0:
            return
        if not loans:
            os.close(self._pidfd)
            return
        self._loans = loans
        REACTOR.add(self)

    def fileno(self) -> int:
        return self._pidfd

    def readable(self) -> None:
        """It has ended."""
        assert self._loans is not None
        REACTOR.remove(self)
        os.close(self._pidfd)
        self._loans.end()

    def writable(self) -> None:
        """Never."""

    def tick(self, now: float) -> None:
        """Nothing to see to."""
