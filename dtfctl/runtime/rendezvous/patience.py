"""Looking out for a moment before going to sleep.

A thread that sleeps takes tens of microseconds to be woken up, another process has had its core meanwhile, and its
caches are cold: a message that comes at once is served twice as fast by a thread that stayed awake. Where cores are
taken by other work looking only delays that work, which may be what the message comes from. So a look-out that was in
vain, or during which somebody else had the core for long, makes the next ones rarer.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

LOOK_S = 0.0005
# Somebody who keeps the core for longer than this works; those who look out themselves give it back at once.
CROWDED_S = 0.0002
# After how many waits without a look-out, at most, the next one is tried.
_MOST_SKIPPED = 512


class Patience:
    """How long one waiter looks out before it sleeps, or several that wait in turns.

    Args:
        look_s: how long to look out at most.
    """

    __slots__ = ("_look_s", "_penalty", "_skip")

    def __init__(self, look_s: float = LOOK_S) -> None:
        self._look_s = look_s
        self._penalty = 0
        self._skip = 0

    def look(self, found: Callable[[int], list[T]]) -> list[T]:
        """Return what `found(0)` gives as soon as that is something; nothing when it is time to sleep."""
        if self._skip:
            self._skip -= 1
            return []
        clock, pause = time.perf_counter, os.sched_yield
        now = clock()
        until = now + self._look_s
        while now < until:
            what = found(0)
            if what:
                self._penalty >>= 1
                return what
            before = now
            pause()
            now = clock()
            if now - before > CROWDED_S:
                break
        self._penalty = min(self._penalty * 2 + 1, _MOST_SKIPPED)
        self._skip = self._penalty
        return []
