"""Count what the steps of this process take, and what its links carry."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Sequence

from dtfctl.figures import STEP_BOUNDS_S
from dtfctl.runtime.rendezvous.frames import Frame, Message


class StepTally:
    """Sorts how long steps took into the intervals of `STEP_BOUNDS_S`; from any thread.

    Attributes:
        counts: one an interval, and one for what took longer.
        seconds: all of them together; waited: of that, until something came from another task.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.counts = [0] * (len(STEP_BOUNDS_S) + 1)
        self.seconds = self.waited = 0.0

    def add(self, taken_s: float, waited_s: float = 0.0) -> None:
        place = bisect_left(STEP_BOUNDS_S, taken_s)
        with self._lock:
            self.counts[place] += 1
            self.seconds += taken_s
            self.waited += waited_s


class CarriedTally:
    """Counts bytes by transport, in both directions; from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.sent: dict[str, int] = {}
        self.received: dict[str, int] = {}

    def sends(self, transport: str, messages: Sequence[Message]) -> None:
        """Count messages that go out."""
        count = 0
        for message in messages:
            value = message.value
            count += getattr(value, "nbytes", 0) or (len(value) if isinstance(value, bytes) else 0)
        with self._lock:
            self.sent[transport] = self.sent.get(transport, 0) + count

    def receives(self, transport: str, frame: Frame) -> None:
        """Count a frame that came."""
        count = getattr(frame.value, "nbytes", 0) or len(frame.payload)
        with self._lock:
            self.received[transport] = self.received.get(transport, 0) + count


STEPS = StepTally()
"""Counts the parts of steps that this process has run."""
CARRIED = CarriedTally()
"""Counts what the links of this process carry."""
