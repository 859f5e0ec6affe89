"""From beats to a verdict on one sender: healthy, suspect or down.

- Silence of up to `pause_s` is always forgiven. It is below 2 s, so that a sender is suspect 2 s after its end, and
  `down_phi` is the higher for it: what restarts a process has to be as improbable as with a longer pause.
- Then, once phi reaches `suspect_phi`, the sender is suspect: shown, nothing done.
- It is down when phi, with the pause taken off, reaches `down_phi`, or after `down_after_s` whatever phi says.
- A sender whose process demonstrably works (its CPU time grows) while its beats are late, is never down before
  `busy_limit_s`: one long call that holds Python's interpreter lock silences the beats but is no hang.
- When the observer itself was not running (stopped, starved, suspended), the gap is no evidence and is taken off.
"""

from __future__ import annotations

import math
from typing import Literal, TypeAlias

from dtfctl.health.detector import PhiDetector
from dtfctl.values import value

Verdict: TypeAlias = Literal["unknown", "healthy", "suspect", "down"]


LOOK_S = 0.05
"""How often a sender is looked at that has been silent for `pause_s`, until it is suspect."""
WORKED_S = 4.0
"""CPU time that was used no longer ago is a sign of life, however short `pause_s` is."""


@value
class HealthLimits:
    """Seconds and phi values; the spec's `health` block."""

    beat_s: float = 0.5
    suspect_phi: float = 5.0
    down_phi: float = 11.0
    pause_s: float = 1.75
    down_after_s: float = 5.0
    busy_limit_s: float = 60.0
    startup_s: float = 300.0
    """A task that is not ready after this hangs."""
    progress_s: float = 60.0
    """A process that has work to do and gets no further in this time hangs."""
    idle_s: float = 600.0
    """A group whose processes all do nothing for so long hangs, where they report no progress."""


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
        """Note that the process used CPU time since the last look."""
        self._last_work = now

    def tick(self, now: float) -> Verdict:
        """Return the verdict at `now`. To be called about every `beat_s`, after the beats that have come were fed."""
        limits = self._limits
        if self._last_tick is not None:
            gap = now - self._last_tick
            if gap > 2 * limits.beat_s:
                self._detector.forgive(gap - limits.beat_s)
        self._last_tick = now
        if self._detector.last_beat is None:
            return "unknown"
        silence = self._detector.silence_s(now)
        if not self._is_suspect(now):
            return "healthy" if silence < limits.down_after_s else self._down_or_busy(silence, now)
        if silence >= limits.down_after_s or self._detector.phi(now, limits.pause_s) >= limits.down_phi:
            return self._down_or_busy(silence, now)
        return "suspect"

    def look_at(self, now: float) -> float:
        """Return when silence that goes on may make it suspect: a tick is due then, if none comes before.

        Nobody is told to look for who is down: a beat that comes before the next tick still saves the process.
        """
        limits, last = self._limits, self._detector.last_beat
        if last is None or self._is_suspect(now):
            return math.inf
        look_at = max(last + limits.pause_s, now + LOOK_S)
        return look_at if look_at < last + limits.down_after_s else math.inf

    def _is_suspect(self, now: float) -> bool:
        limits = self._limits
        return self._detector.silence_s(now) >= limits.pause_s and self._detector.phi(now) >= limits.suspect_phi

    def _down_or_busy(self, silence: float, now: float) -> Verdict:
        recent_s = max(WORKED_S, 2 * self._limits.pause_s)
        worked = self._last_work is not None and now - self._last_work <= recent_s
        return "suspect" if worked and silence < self._limits.busy_limit_s else "down"

    def silence_s(self, now: float) -> float:
        return self._detector.silence_s(now)
