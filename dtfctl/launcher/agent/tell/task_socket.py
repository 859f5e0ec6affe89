"""Hear the beats of the host's tasks and tell them about peers, over datagram sockets; see health/beats.py."""

from __future__ import annotations

import logging
import socket
from collections import deque
from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path

from dtfctl.health import beats

log = logging.getLogger(__name__)

RECEIVE_BYTES = 2**20
LARGEST_SENT = 32768


class TaskSocket:
    """Takes the beats of all tasks of the host and tells them about their peers. Owned by the agent's loop."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        path = folder / "agent.sock"
        path.unlink(missing_ok=True)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES)
        self.socket.bind(str(path))
        self._outbox: dict[str, deque[bytes]] = {}
        """What each task is to hear yet, oldest first."""

    @property
    def beats_path(self) -> Path:
        return self.folder / "agent.sock"

    def control_path(self, task: str) -> Path:
        """Name where `task` (`worker/1`) listens."""
        return self.folder / f"{task.replace('/', '-')}.ctl"

    def client_path(self, task: str) -> Path:
        """Name the socket on which `task` serves clients of this host."""
        return self.folder / f"{task.replace('/', '-')}.sock"

    def take(self) -> list[beats.Beat]:
        """Take all beats that have come."""
        found: list[beats.Beat] = []
        while True:
            try:
                data = self.socket.recv(beats.LARGEST_DATAGRAM)
            except BlockingIOError:
                return found
            try:
                note = beats.unpack(data)
            except ValueError as error:
                log.warning("ignored a datagram: %s", error)
                continue
            if isinstance(note, beats.Beat):
                found.append(note)

    @property
    def has_unsent(self) -> bool:
        """Something waits for room in a task's queue."""
        return bool(self._outbox)

    def tell(self, tasks: Iterable[str], note: bytes) -> None:
        """Keep a packed note, to be sent with the next `flush`."""
        for task in tasks:
            self._outbox.setdefault(task, deque()).append(note)

    def flush(self, is_running: Callable[[str], bool]) -> None:
        """Send what waits, many notes at a time. A full queue is tried again next time; a task that is gone will ask
        when it is back."""
        for task in list(self._outbox):
            notes = self._outbox[task]
            while notes and is_running(task):
                count, size = 1, len(notes[0])
                while count < len(notes) and size + len(notes[count]) < LARGEST_SENT:
                    size, count = size + 1 + len(notes[count]), count + 1
                try:
                    self.socket.sendto(b"\n".join(islice(notes, count)), str(self.control_path(task)))
                except BlockingIOError:
                    break
                except (FileNotFoundError, ConnectionRefusedError) as error:
                    log.warning("cannot tell %s about a peer: %s", task, error)
                for _ in range(count):
                    notes.popleft()
            if not notes or not is_running(task):
                del self._outbox[task]

    def close(self) -> None:
        self.socket.close()
