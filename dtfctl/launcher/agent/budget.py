"""How fast a host may start processes: after a disaster the survivors must not drown in starts.

>>> budget = StartBudget(per_s=10)
>>> sum(budget.take(0.0) for _ in range(50)), budget.next_at(0.5), budget.take(0.9), budget.take(1.0)
(10, 1.0, False, True)
"""

from __future__ import annotations

from collections import deque

STARTS_PER_S = 10


class StartBudget:
    """So many starts in any second, the first ones at once."""

    def __init__(self, per_s: int = STARTS_PER_S) -> None:
        self._newest: deque[float] = deque(maxlen=per_s)

    def take(self, now: float) -> bool:
        """Use one start, if there is one."""
        if now < self.next_at(now):
            return False
        self._newest.append(now)
        return True

    def next_at(self, now: float) -> float:
        """When there will be one; `now` when there is one."""
        is_full = len(self._newest) == self._newest.maxlen
        return max(now, self._newest[0] + 1.0) if is_full else now
