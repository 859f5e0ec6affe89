"""Which tasks this one cannot reach, though everybody else says that they are up: a broken link between two hosts.

Nothing is asked while work goes on: an answer that comes is proof enough. Only when the task's counter stands still
are the tasks it works with asked whether they are there; idle tasks get slower and slower at it.
"""

from __future__ import annotations

from collections.abc import Callable

QUIET_S = 1.5
"""The counter stood still for so long: perhaps something waits for a peer."""
ANSWER_S = 2.0
MISSES = 2
"""How many questions in a row must stay without an answer; one may be lost on a busy machine."""
SLOWEST_S = 5.0


class Reach:
    """Fed with a clock by one thread; `unreachable` may be read by any.

    Args:
        progress: a counter that grows while work goes on.
        silent: asks all peers in use and says which do not answer within so many seconds; it may take that long.
    """

    def __init__(self, progress: Callable[[], int], silent: Callable[[float], set[str]]) -> None:
        self._progress = progress
        self._silent = silent
        self._seen = -1
        self._since = 0.0
        self._ask_at = 0.0
        self._pause_s = 1.0
        self._missed: dict[str, int] = {}
        self.unreachable: tuple[str, ...] = ()

    def look(self, now: float) -> None:
        """Ask the peers when nothing has gone on for a while; to be called about twice a second."""
        count = self._progress()
        if count != self._seen:
            self._seen, self._since, self._pause_s = count, now, 1.0
        if (not self._missed and now - self._since < QUIET_S) or now < self._ask_at:
            return
        silent = self._silent(ANSWER_S)
        self._missed = {task: self._missed.get(task, 0) + 1 for task in silent}
        self.unreachable = tuple(sorted(task for task, misses in self._missed.items() if misses >= MISSES))
        self._ask_at = now + self._pause_s
        self._pause_s = 1.0 if silent else min(SLOWEST_S, self._pause_s * 2.0)
