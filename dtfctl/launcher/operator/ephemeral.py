"""A cluster that ends with the command that brought it up, however that ends: a process of its own sees to it.

python -m dtfctl.launcher.operator.ephemeral --lock-fd N NAME PID START_TICKS

There is one such process for a name, so of two commands that would bring up the same cluster one is refused, whichever
comes first; and none begins while the process of an earlier one may still take the name's cluster down.
"""

from __future__ import annotations

import contextlib
import os
import select
import sys
import time
from pathlib import Path

from dtfctl.launcher.errors import Conflict, LauncherError
from dtfctl.launcher.operator import bringup
from dtfctl.launcher.paths import home
from dtfctl.launcher.system.daemon import own_lock, start_daemon
from dtfctl.launcher.system.files import private_folder, write_whole
from dtfctl.launcher.system.procfs import ProcessId, read_stat

MODULE = "dtfctl.launcher.operator.ephemeral"
GRACE_S = 10.0
PATIENCE_S = 60.0
"""How long an earlier command may take to take its cluster down."""
POLL_S = 0.05


def take_down_after_me(cluster: str) -> None:
    """See to it that the cluster is taken down when this process has ended.

    Raises:
        Conflict: another command that runs has brought this cluster up for itself, or does so now.
    """
    me = read_stat(os.getpid())
    assert me is not None
    folder = private_folder(home() / "ephemeral")
    owner = folder / f"{cluster}.owner"
    words = (cluster, str(me.id.pid), str(me.id.start_ticks))
    deadline = time.monotonic() + PATIENCE_S
    while not start_daemon(MODULE, words, log=folder / f"{cluster}.log", lock=folder / f"{cluster}.lock"):
        other = _owner(owner)
        if other is not None or time.monotonic() > deadline:
            who = "another command" if other is None else f"another command (pid {other.pid})"
            raise Conflict(
                f"{who} has brought {cluster} up, and takes it down when it ends",
                "run this again when it has ended; or give this cluster another name: `cluster: NAME`",
            )
        time.sleep(POLL_S)
    write_whole(owner, " ".join(words[1:]).encode())


def _owner(path: Path) -> ProcessId | None:
    """Read which process the cluster is to end with; None: it has ended, or has not written that down yet."""
    try:
        pid, ticks = path.read_text().split()
        stat = read_stat(int(pid))
    except (FileNotFoundError, ValueError):
        return None
    found = ProcessId(int(pid), int(ticks))
    return found if stat is not None and stat.id == found else None


def wait_for(process: ProcessId) -> None:
    """Wait until a process of this machine has ended."""
    try:
        fd = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return
    try:
        stat = read_stat(process.pid)
        if stat is not None and stat.id == process:
            select.select([fd], [], [])
    finally:
        os.close(fd)


def main() -> None:
    """Wait for the process and take the cluster down."""
    _, fd, name, pid, ticks = sys.argv[1:]
    own_lock(int(fd))
    wait_for(ProcessId(int(pid), int(ticks)))
    with contextlib.suppress(LauncherError):  # it is down already, or what is left says so at the next `up`
        bringup.take_down(name, GRACE_S, False, True)


if __name__ == "__main__":
    main()
