"""What the agent's loop publishes and the threads of its server read: the newest report, and what happened."""

from __future__ import annotations

import time
from collections import deque
from threading import Condition

from dtfctl.launcher.messages.reports import ClientReport, Happening, Report, TaskReport
from dtfctl.launcher.system.host_facts import HostFacts
from dtfctl.values import replace

KEPT_HAPPENINGS = 10_000
"""The happenings kept for a controller that comes back; only a host in serious trouble has more meanwhile."""


class Reports:
    """One writer, many waiting readers."""

    def __init__(self, first: Report) -> None:
        self._changed = Condition()
        self._report = first
        self._version = 0
        self._happenings: deque[Happening] = deque(maxlen=KEPT_HAPPENINGS)
        self._count = 0
        self._closed = False

    def happened(self, kind: str, subject: str, reason: str, incarnation: int, failure: bool = False) -> None:
        """Note what happened; it is told with the next report."""
        with self._changed:
            self._count += 1
            self._happenings.append(Happening(self._count, time.time(), kind, subject, reason, incarnation, failure))

    def tell(self, kind: str, subject: str, reason: str) -> None:
        """Tell as `happened` does, of what is no process."""
        self.happened(kind, subject, reason, 0)

    def publish(self, report: Report) -> None:
        with self._changed:
            self._report = report
            self._version += 1
            self._changed.notify_all()

    @property
    def newest_happening(self) -> int:
        """The number of the last thing that happened."""
        with self._changed:
            return self._count

    def close(self) -> None:
        """Wake all that wait: the loop has ended."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def newest(self) -> Report:
        with self._changed:
            return self._report

    def wait(self, version: int, timeout_s: float, seen: int = 0) -> tuple[int, Report]:
        """Wait for a newer report than `version`, or for `timeout_s`; return (version, report).

        The report has what happened after number `seen`.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._version > version or self._closed, timeout_s)
            news = tuple(item for item in self._happenings if item.number > seen)
            return self._version, replace(self._report, happenings=news)


def compose(
    head: Report,
    facts: HostFacts,
    tasks: tuple[TaskReport, ...],
    clients: tuple[ClientReport, ...],
) -> Report:
    """Add the host's numbers and the state of all its processes to `head`."""
    return replace(
        head,
        tasks=tasks,
        clients=clients,
        cores=facts.cores,
        load=facts.load,
        memory_bytes=facts.memory_bytes,
        memory_free_bytes=facts.memory_free_bytes,
        disk_free_bytes=facts.disk_free_bytes,
        gpus=facts.gpus,
    )
