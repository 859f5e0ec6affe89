"""On a host: the Python of a runtime is tried before it is used, and the one that has been tried becomes the agent.

Importing is most of what starting an agent costs, so it is done once (`stand_by.py`). As `host_side.py`
it is read by any Python >= 3.11, so it imports nothing of dtfctl.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket as sockets
    from collections.abc import Sequence

CHECK_S = 60.0
CODE = "from dtfctl.launcher.providers.stand_by import stand_by; stand_by()"
ROOM = 1000
"""Bytes of its command line: the agent puts its own there (`launcher/agent/fork.py`)."""


class Tried:
    """A process of a Python that can run dtfctl, and waits."""

    def __init__(self, python: str, pid: int, channel: sockets.socket) -> None:
        self.python = python
        self.pid = pid
        self._channel = channel

    def become_agent(self, words: Sequence[str], fds: Sequence[int]) -> int:
        """Let it go on as `python -m dtfctl.launcher.agent WORDS`, with copies of `fds`: its pid.

        Args:
            fds: the agent's lock, its pipe for when it can be called, its log, and what it is to read.
        """
        import json
        import socket

        socket.send_fds(self._channel, [json.dumps(list(words)).encode() + b"\n"], fds)
        self._channel.close()
        return self.pid

    def end(self) -> None:
        """End it, unless it has become something else."""
        if self._channel.fileno() >= 0:
            self._channel.close()
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)


def try_python(python: str, base: str) -> Tried | str:
    """Start a Python that imports what an agent needs; why it cannot where it does not.

    Args:
        base: the folder of all that is dtfctl's own.
    """
    import socket

    channel, theirs = socket.socketpair()
    said, stderr = os.pipe()
    to = [
        (os.POSIX_SPAWN_DUP2, theirs.fileno(), 0),
        (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
        (os.POSIX_SPAWN_DUP2, stderr, 2),
    ]
    words = [python, "-I", "-c", CODE.ljust(ROOM)]
    with open(said, "rb") as output, contextlib.ExitStack() as stack:
        stack.callback(channel.close)
        try:
            pid = os.posix_spawn(python, words, {**os.environ, "DTFCTL_BASE": base}, file_actions=to)
        except OSError as error:
            return str(error)[:500]
        finally:
            os.close(stderr)
            theirs.close()
        answers = bool(select.select([channel], [], [], CHECK_S)[0])
        if answers and channel.recv(1):
            stack.pop_all()
            return Tried(python, pid, channel)
        if not answers:
            os.kill(pid, signal.SIGKILL)
        lines = output.read().decode(errors="replace").strip().splitlines()
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        ended = f"it ended with {status}" if answers else f"it has not answered within {CHECK_S:.0f} s"
        return lines[-1][:500] if lines else ended
