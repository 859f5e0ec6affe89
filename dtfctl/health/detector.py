"""Phi-accrual failure detector (Hayashibara et al., "The phi accrual failure detector", 2004).

The time between beats is taken as normally distributed with the mean and deviation of the newest beats. Phi is
-log10 of the chance that a live sender would be silent for this long: phi 1 is wrong one time in ten, phi 8 one time
in a hundred million.

>>> detector = PhiDetector(expected_s=0.5)
>>> for beat in range(20): detector.beat(beat * 0.5)
>>> round(detector.phi(9.5 + 0.5), 1), detector.phi(9.5 + 3.0) > 8
(0.3, True)
"""

from __future__ import annotations

import math
from collections import deque

LEAST_DEVIATION_S = 0.3
"""Beats on a busy host jitter by scheduling; less than this would take a loaded machine for a dead one."""
WINDOW = 100
MAX_PHI = 300.0


class PhiDetector:
    """Suspicion of one sender. Times are seconds of one monotonic clock."""

    def __init__(self, expected_s: float, least_deviation_s: float = LEAST_DEVIATION_S) -> None:
        self._intervals: deque[float] = deque([expected_s], maxlen=WINDOW)
        self._least_deviation_s = least_deviation_s
        self._last: float | None = None

    @property
    def last_beat(self) -> float | None:
        return self._last

    def beat(self, now: float) -> None:
        """Take a beat. One that is older than the newest is ignored."""
        if self._last is not None:
            if now <= self._last:
                return
            self._intervals.append(now - self._last)
        self._last = now

    def forgive(self, pause_s: float) -> None:
        """Forgive silence while the observer itself did not run, for `pause_s`: it says nothing about the sender."""
        if self._last is not None:
            self._last += pause_s

    def silence_s(self, now: float) -> float:
        """Seconds since the newest beat; 0 before the first."""
        return 0.0 if self._last is None else max(0.0, now - self._last)

    def phi(self, now: float, pause_s: float = 0.0) -> float:
        """Suspicion at `now`, with `pause_s` of the silence forgiven."""
        mean = sum(self._intervals) / len(self._intervals)
        variance = sum((x - mean) ** 2 for x in self._intervals) / len(self._intervals)
        deviation = max(math.sqrt(variance), self._least_deviation_s)
        late = (self.silence_s(now) - pause_s - mean) / deviation
        chance = 0.5 * math.erfc(late / math.sqrt(2.0))
        return MAX_PHI if chance <= 0.0 else min(MAX_PHI, -math.log10(chance))
