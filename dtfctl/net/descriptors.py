"""How many files a process may have open, and what those that it starts may.

A shell gives 1,024, for the sake of programs that use `select`; sockets and checkpoints of a long life need more. What
the user's own programs get is what they would have got without us.
"""

from __future__ import annotations

import resource

MOST = 1 << 20
"""Some systems name a thousand million as their limit, and some libraries make room for as many as there may be."""
VARIABLE = "DTF_OPEN_FILES"
"""Environment variable of `agent/start/keeper.py` and `agent/access/command_guard.py`, which take it away: the limit
for what they start."""
_usual: int | None = None


def raise_limit() -> None:
    """Raise this process's limit to the hard one: for every process of ours that stays."""
    global _usual
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if _usual is None:
        _usual = soft
    most = MOST if hard == resource.RLIM_INFINITY else min(hard, MOST)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def usual_limit() -> int:
    """Return what the limit was before `raise_limit`; -1: none."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0] if _usual is None else _usual
