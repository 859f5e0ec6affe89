"""Count what the steps of this process take, and what its links carry."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Sequence

from dtfctl.figures import STEP_BOUNDS_S
from dtfctl.runtime.rendezvous.frames import Frame, Message

_MOST_JOBS = 10_000


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


class UpdateTally:
    """Counts updates of variables, and those that came in between since a step began: their values were not what the
    step has read. From any thread.

    Attributes:
        updates: how many steps have updated variables here; overtaken: how many of them after others had meanwhile.
        between: how many updates of others there were meanwhile, all of them together.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[str, int] = {}
        self.updates = self.overtaken = self.between = 0

    def begin(self, job: str) -> int:
        """Note that a step of a job begins which will update variables; what `end` is to be given."""
        return self._counts.get(job, 0)

    def end(self, job: str, began: int) -> int:
        """Note that it has updated them; how many others have since it began."""
        with self._lock:
            if job not in self._counts and len(self._counts) >= _MOST_JOBS:
                self._counts.clear()
            count = self._counts.get(job, 0)
            between = max(count - began, 0)
            self._counts[job] = count + 1
            self.updates += 1
            self.overtaken += between > 0
            self.between += between
        return between


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
UPDATES = UpdateTally()
"""Counts updates of variables by the steps of this process."""
CARRIED = CarriedTally()
"""Counts what the links of this process carry."""
