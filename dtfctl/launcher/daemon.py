"""Start a process that outlives its starter and leaves it no zombie to reap."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from dtfctl.launcher.files import explained


def start_daemon(command: Sequence[str], *, log: Path, env: Mapping[str, str] | None = None) -> int:
    """Run `command` in a session of its own, output appended to `log`; its pid.

    A shell in between forks and ends, so that the process is a child of init and not of the caller.
    """
    with explained(log):
        fd = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        result = subprocess.run(
            ["/bin/sh", "-c", '"$@" >&2 & echo $!', "dtfctl", *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=fd,
            start_new_session=True,
            env=None if env is None else dict(env),
            check=True,
            cwd="/",
        )
    finally:
        os.close(fd)
    return int(result.stdout)
