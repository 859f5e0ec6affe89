"""Say that the loop of this process turns, and find out whether another one's does.

A process is replaced because it has stopped, never because somebody could not reach its port: that may be a stranger's
doing, or the network's. So it writes the time into memory of its own at every turn of its loop, and who wants to end it
looks there, through /proc: no disk, port or other process has a part in that.
"""

from __future__ import annotations

import os
import struct
import time

from dtfctl.launcher.system.procfs import ProcessId, is_alive, read_stat

HANGS_S = 8.0
"""A controller whose loop has not turned for so long hangs. One that is stopped (SIGSTOP) does so at once."""
AGENT_HANGS_S = 2.0
"""The same for an agent, whose host counts as lost a little later."""
OFTEN_S = 0.2
_TIME = struct.Struct("=d")


class Pulse:
    """The pulse of this process, which others can read.

    Attributes:
        fd: of the memory it is in, for others to look at.
    """

    def __init__(self) -> None:
        self.fd = os.memfd_create("dtfctl-pulse")
        self._said = 0.0
        self.beat()

    def beat(self) -> None:
        """Note that the loop turns."""
        now = time.monotonic()
        if now - self._said >= OFTEN_S:
            self._said = now
            os.pwrite(self.fd, _TIME.pack(now), 0)


def silence_of(process: ProcessId, fd: int) -> float | None:
    """Measure for how many seconds a process's loop has not turned; None where nobody can tell, or it is gone."""
    try:
        with open(f"/proc/{process.pid}/fd/{fd}", "rb", buffering=0) as memory:
            data = memory.read(_TIME.size) or b""
    except OSError:
        return None
    if len(data) != _TIME.size or not is_alive(process):
        return None
    return time.monotonic() - float(_TIME.unpack(data)[0])


def hangs(process: ProcessId, fd: int | None, limit_s: float) -> bool:
    """Tell whether the process itself shows that it does nothing any more."""
    stat = read_stat(process.pid)
    if stat is None or stat.id != process or stat.is_dead:
        return False
    if stat.state in "Tt":
        return True
    silence = None if fd is None else silence_of(process, fd)
    return silence is not None and silence > limit_s
