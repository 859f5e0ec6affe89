"""Start a process that outlives its starter and leaves it no zombie to reap, at most one for each lock file.

The starter takes the lock and the process inherits it, so from before the start to its end there is no moment at
which a second one could be started, whoever is killed when. A free lock means: no such process, none on its way.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from dtfctl.launcher.system.files import explained, try_lock, unlock
from dtfctl.net.descriptors import usual_limit

ONCE = '"$@" >&2 &'
KEPT = '(until "$@"; do sleep 1; done) >&2 &'
LIMIT = "ulimit -S -n {limit}; "


def start_daemon(
    module: str, arguments: Sequence[str], *, log: Path, lock: Path, kept: bool = False, hand_on: Sequence[int] = ()
) -> bool:
    """Run `python -m module --lock-fd N arguments` in a session of its own, its output appended to `log`.

    A shell in between forks and ends, so that the process is a child of init and not of the caller; with `kept` it
    stays and starts the process again until it ends with 0. It gets the descriptors in `hand_on`, too. False when the
    lock is held: one runs already, or is on its way.
    """
    held = try_lock(lock)
    if held is None:
        return False
    try:
        with explained(log):
            fd = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            subprocess.run(
                [
                    *("/bin/sh", "-c", _usual_files() + (KEPT if kept else ONCE), "dtfctl"),
                    *(sys.executable, "-m", module, "--lock-fd", str(held), *arguments),
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=fd,
                start_new_session=True,
                pass_fds=(held, *hand_on),
                check=True,
                cwd="/",
            )
        finally:
            os.close(fd)
    finally:
        unlock(held)
    return True


def _usual_files() -> str:
    """Write the command that sets the file limit of a user's programs, whatever this process has raised its own to."""
    limit = usual_limit()
    return LIMIT.format(limit="unlimited" if limit < 0 else limit)


def is_locked(lock: Path) -> bool:
    """Tell whether the lock's process runs or is on its way."""
    if not lock.exists():
        return False
    held = try_lock(lock)
    if held is None:
        return True
    unlock(held)
    return False


def own_lock(fd: int) -> None:
    """Keep the lock that a daemon has inherited from the daemon's own children."""
    os.set_inheritable(fd, False)
