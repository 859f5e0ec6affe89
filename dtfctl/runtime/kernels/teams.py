"""Let go of the threads that libraries keep for a thread of ours.

OpenMP keeps a team for every thread that has computed by it, and once all teams together have more threads than there
are cores, none of them looks for work any more before it sleeps: each product then waits until its team is awake. So
a thread that has nothing to do gives its team back; the next product makes it anew, in some 50 us.
"""

from __future__ import annotations

from collections.abc import Callable

IDLE_S = 0.02
"""How long a thread is idle before it lets go."""
_LET_GO: list[Callable[[], object]] = []


def on_idle(let_go: Callable[[], object]) -> None:
    """Have this called in each thread that becomes idle; it lets go of the calling thread's team."""
    _LET_GO.append(let_go)


def let_go() -> None:
    """Let go of what libraries keep for the calling thread."""
    for release in _LET_GO:
        release()
