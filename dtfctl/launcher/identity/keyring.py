"""What the processes of a host prove themselves with: a certificate for the agent and one for each of its tasks.

The agent's own comes over SSH with the agent; all else, and what replaces it before it ends, from the controller. A
task has a key of its own, which no other task of the host is given. Running processes read their files again when
these change (`net.tls.Identity`).
"""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Iterable
from pathlib import Path

from dtfctl.launcher.errors import UsageError
from dtfctl.launcher.identity.certificates import Issued, TlsFiles, expiry, file_name
from dtfctl.launcher.system.files import private_folder, write_whole

AUTHORITY = "ca"
_TASK = re.compile(r"task-[A-Za-z0-9_]+-[0-9]+")


class Keyring:
    """Any thread.

    Args:
        certificates: the folder with the authority's certificate and the agent's.
        folder: the agent's own, in which those of tasks are kept: hosts may share a home.
    """

    def __init__(self, host: str, certificates: Path, folder: Path) -> None:
        self._agent = file_name("agent", host)
        self._shared = certificates
        self._own = folder / "certificates"
        self._lock = threading.Lock()

    def of_task(self, task: str) -> TlsFiles:
        """Find the files of the task called `worker/1` or the like."""
        return TlsFiles.of(self._own, file_name("task", task))

    def of_agent(self) -> TlsFiles:
        """Find the agent's own files, with which it asks the agents of other hosts."""
        return TlsFiles.of(self._shared, self._agent)

    def held(self) -> dict[str, float]:
        """Read when each certificate ends, by its name, in seconds since the epoch."""
        paths = [self._shared / f"{AUTHORITY}.pem", self._shared / f"{self._agent}.pem", *self._own.glob("task-*.pem")]
        found = {}
        for path in paths:
            with contextlib.suppress(OSError, ValueError):
                if path.stem == AUTHORITY or path.with_suffix(".key").exists():
                    found[path.stem] = expiry(path)
        return found

    def take(self, authority: bytes, certificates: Iterable[Issued], keep: Iterable[str], former: bytes = b"") -> None:
        """Put certificates in the place of those of the same names; of other tasks than `keep` none is left.

        Args:
            former: authorities that tasks trust, too.

        Raises:
            UsageError: one is not for this host's agent or a task. NoSpace.
        """
        certificates = list(certificates)
        for issued in certificates:
            if issued.name != self._agent and not _TASK.fullmatch(issued.name):
                raise UsageError(f"{issued.name!r} is not a certificate of this host's processes")
        with self._lock:
            private_folder(self._own)
            for folder, trusted in ((self._shared, authority), (self._own, authority + former)):
                if authority and _content(folder / f"{AUTHORITY}.pem") != trusted:
                    write_whole(folder / f"{AUTHORITY}.pem", trusted)
            for issued in certificates:
                issued.save(self._shared if issued.name == self._agent else self._own)
            kept = {file_name("task", task) for task in keep}
            for path in self._own.glob("task-*.*"):
                if path.stem not in kept:
                    path.unlink(missing_ok=True)


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""
