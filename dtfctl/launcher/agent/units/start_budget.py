"""How fast a host may start processes: after a disaster the survivors must not drown in starts.

>>> budget = StartBudget(per_s=10)
>>> sum(budget.take(0.0) for _ in range(50)), budget.next_at(), budget.take(0.9), budget.take(1.0)
(10, 1.0, False, True)
>>> budget = StartBudget(per_s=10)
>>> budget.take(0.0, PROGRAM), sum(budget.take(0.5, FORK) for _ in range(200)), budget.take(0.9, FORK)
(True, 90, False)
"""

from __future__ import annotations

from collections import deque

STARTS_PER_S = 10
PROGRAM, FORK = 1.0, 0.1
"""What a start costs, as a share of one that imports the runtime: a fork of what has it imported takes a tenth."""


class StartBudget:
    """A limit to the starts in any second; the first ones are made at once."""

    def __init__(self, per_s: int = STARTS_PER_S) -> None:
        self._per_s = per_s
        self._newest: deque[tuple[float, float]] = deque()

    def take(self, now: float, cost: float = PROGRAM) -> bool:
        """Use one start, if there is one."""
        while self._newest and now - self._newest[0][0] >= 1.0:
            self._newest.popleft()
        if round(sum(used for _, used in self._newest) + cost, 6) > self._per_s:
            return False
        self._newest.append((now, cost))
        return True

    def next_at(self) -> float:
        """Tell when there will be more, after one was refused."""
        return self._newest[0][0] + 1.0
