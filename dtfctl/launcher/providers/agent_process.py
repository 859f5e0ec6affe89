"""On a host: a process that has imported what an agent needs goes on as one.

It is one that has stood by (`stand_by.py`), or a fork of the one that serves the launcher (`host_agent.py`).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import NoReturn


def become_agent(words: Sequence[str], fds: Sequence[int]) -> NoReturn:
    """Go on as a host's agent. `fds`: see `providers/host_python.py`."""
    from dtfctl import later
    from dtfctl.launcher.agent import fork

    lock, ready, log, nothing = fds
    os.setsid()
    os.chdir("/")
    for at, fd in enumerate((nothing, log, log)):
        os.dup2(fd, at)
    os.close(log)
    os.close(nothing)
    for name in [name for name in os.environ if name.startswith(("SSH_", "DTFCTL_CONNECTION"))]:
        del os.environ[name]
    later.install()  # its runtime was not finished when it started
    command = [sys.executable, "-m", "dtfctl.launcher.agent", *words]
    fork.become_agent([*command, "--lock-fd", str(lock), "--ready-fd", str(ready)])
