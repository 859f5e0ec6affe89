"""How many files a process may have open."""

from __future__ import annotations

import resource

_was: int | None = None


def raise_limit() -> None:
    """Raise this process's limit to the most that it may have: what the shell of a user has is for short commands."""
    global _was
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        _was = soft
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def usual_limit() -> int:
    """What the soft limit was before `raise_limit`."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0] if _was is None else _was


def restore_limit() -> None:
    """Before a program of the user's: many still use `select`, which knows 1,024 files."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(usual_limit(), hard), hard))
