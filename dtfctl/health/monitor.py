"""From beats to a verdict on one sender: healthy, suspect or down.

- Silence of up to `pause_s` is always forgiven.
- Then, once phi reaches `suspect_phi`, the sender is suspect: shown, nothing done.
- It is down when phi, with the pause taken off, reaches `down_phi`, or after `down_after_s` whatever phi says.
- A sender whose process demonstrably works (its CPU time grows) while its beats are late, is never down before
  `busy_limit_s`: one long call that holds Python's interpreter lock silences the beats but is no hang.
- When the observer itself was not running (stopped, starved, suspended), the gap is no evidence and is taken off.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from dtfctl.health.detector import PhiDetector
from dtfctl.values import value

Verdict: TypeAlias = Literal["unknown", "healthy", "suspect", "down"]


@value
class HealthLimits:
    """Seconds and phi values; the spec's `health` block."""

    beat_s: float = 0.5
    suspect_phi: float = 5.0
    down_phi: float = 8.0
    pause_s: float = 2.0
    down_after_s: float = 5.0
    busy_limit_s: float = 60.0
    startup_s: float = 300.0
    """A task that is not ready after this hangs."""
    progress_s: float = 60.0
    """A process that has work to do and gets no further in this time hangs."""


class Monitor:
    """Watches one sender; feed it beats and ticks of one monotonic clock."""

    def __init__(self, limits: HealthLimits) -> None:
        self._limits = limits
        self._detector = PhiDetector(limits.beat_s)
        self._last_tick: float | None = None
        self._last_work: float | None = None

    def beat(self, now: float) -> None:
        self._detector.beat(now)

    def working(self, now: float) -> None:
        """The process used CPU time since the last look."""
        self._last_work = now

    def tick(self, now: float) -> Verdict:
        """The verdict at `now`. To be called about every `beat_s`, after the beats that have come were fed."""
        limits = self._limits
        if self._last_tick is not None:
            gap = now - self._last_tick
            if gap > 2 * limits.beat_s:
                self._detector.forgive(gap - limits.beat_s)
        self._last_tick = now
        if self._detector.last_beat is None:
            return "unknown"
        silence = self._detector.silence_s(now)
        if silence < limits.pause_s or self._detector.phi(now) < limits.suspect_phi:
            return "healthy" if silence < limits.down_after_s else self._down_or_busy(silence, now)
        if silence >= limits.down_after_s or self._detector.phi(now, limits.pause_s) >= limits.down_phi:
            return self._down_or_busy(silence, now)
        return "suspect"

    def _down_or_busy(self, silence: float, now: float) -> Verdict:
        worked = self._last_work is not None and now - self._last_work <= 2 * self._limits.pause_s
        return "suspect" if worked and silence < self._limits.busy_limit_s else "down"

    def silence_s(self, now: float) -> float:
        return self._detector.silence_s(now)
