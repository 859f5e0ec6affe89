"""How much was made smaller."""

from __future__ import annotations

import threading


class Tally:
    """Counts what this process has encoded, from any thread.

    Attributes:
        tensors: how many.
        bytes_before, bytes_after: of these.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.tensors = self.bytes_before = self.bytes_after = 0

    def add(self, before: int, after: int) -> None:
        with self._lock:
            self.tensors += 1
            self.bytes_before += before
            self.bytes_after += after


ENCODED = Tally()
"""What this process has encoded."""
