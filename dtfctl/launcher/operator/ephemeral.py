"""A cluster that ends with the command that brought it up, however that ends: a process of its own sees to it.

python -m dtfctl.launcher.operator.ephemeral --lock-fd N NAME PID START_TICKS
"""

from __future__ import annotations

import contextlib
import os
import select
import sys

from dtfctl.launcher.errors import LauncherError
from dtfctl.launcher.operator import bringup
from dtfctl.launcher.paths import home
from dtfctl.launcher.system.daemon import own_lock, start_daemon
from dtfctl.launcher.system.files import private_folder
from dtfctl.launcher.system.procfs import ProcessId, read_stat

MODULE = "dtfctl.launcher.operator.ephemeral"
GRACE_S = 10.0


def take_down_after_me(cluster: str) -> None:
    """See to it that the cluster is taken down when this process has ended."""
    me = read_stat(os.getpid())
    assert me is not None
    folder = private_folder(home() / "ephemeral")
    words = (cluster, str(me.id.pid), str(me.id.start_ticks))
    start_daemon(MODULE, words, log=folder / f"{cluster}.log", lock=folder / f"{cluster}.{me.id.pid}.lock")


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
    (home() / "ephemeral" / f"{name}.{pid}.lock").unlink(missing_ok=True)


if __name__ == "__main__":
    main()
