"""Find whether the host's GPUs do anything, for processes that seem idle. Nobody asks for it otherwise."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dtfctl import guard
from dtfctl.launcher.agent.start.gpus import read_use
from dtfctl.values import value

LOOK_S = 10.0
"""How long a process is idle before its GPUs are looked at, and how often they are."""
BUSY_PERCENT = 1.0


@value
class Look:
    """What a look has found."""

    at: float
    """The time at which the look was begun."""
    use: Mapping[int, float]
    """How busy each GPU was, in percent, by its number; empty where none says so."""


class GpuWatch:
    """Looks at the GPUs for the agent's loop. `nvidia-smi` may take seconds: a thread waits for it."""

    def __init__(self, read: Callable[[], Mapping[int, float]] = read_use) -> None:
        self._read = read
        self._newest: Look | None = None
        self._looks_since: float | None = None
        """When the look was begun that is on its way."""

    def look(self, now: float, every_s: float) -> Look | None:
        """Begin another look when the newest is old; the newest that is through."""
        newest = self._newest
        if self._looks_since is None and (newest is None or now - newest.at >= every_s):
            self._looks_since = now
            guard.once(self._look, (now,), name="gpu-look").start()
        return newest

    def _look(self, at: float) -> None:
        use: Mapping[int, float] = {}
        try:
            use = self._read()
        finally:
            self._newest = Look(at, use)
            self._looks_since = None
