"""Time limits of cases: what hangs is interrupted wherever it waits, and so is the cleaning up after it."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

# How long each thing that waits while a case that ran late is cleaned up may take.
CLEANUP_S = 15.0


class Overdue(Exception):
    """A case took longer than it may."""


@contextmanager
def deadline(seconds: float) -> Iterator[None]:
    """Raise `Overdue` in the block once it has taken so long, and again every `CLEANUP_S` until it has ended.

    For the main thread, and not inside another one.
    """

    def expired(number: int, frame: FrameType | None) -> None:
        raise Overdue(f"not done within {seconds:.0f} s")

    before = signal.signal(signal.SIGALRM, expired)
    signal.setitimer(signal.ITIMER_REAL, seconds, CLEANUP_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
