"""What is too much of a step's time and what to do about it: of a profile, and of what a cluster's tasks count."""

from __future__ import annotations

from typing import NamedTuple


class Threshold(NamedTuple):
    """Says from which value on there is something to say, in which unit, and what to do.

    Attributes:
        unit: "share", "ms", "updates" or "times".
        advice: what to do.
    """

    much: float
    unit: str
    advice: str

    @property
    def words(self) -> str:
        """The value as people read it, such as "20%" or "5 ms"."""
        if self.unit == "share":
            return f"{self.much:.0%}"
        return f"{self.much:g} ms" if self.unit == "ms" else f"{self.much:g}"


SYNC = Threshold(0.2, "share", "spread variables over more ps, or give steps more to compute (a larger batch)")
"""The part of a worker's step that waits for ps, or for its group's sum."""
WAIT = Threshold(
    0.2, "share", "give it less of the work, or both something to do at the same time (more micro-batches)"
)
"""The part that waits for another worker."""
INPUT = Threshold(
    0.1,
    "share",
    "prefetch() at the end of the data set, num_parallel_calls in its map(), cache() where it fits into memory",
)
"""The part that waits for input."""
COPIES = Threshold(
    5.0, "ms", "keep variables and what follows on one device, feed less, and fetch only what is looked at"
)
"""Copies between host and device in a step."""
CONFLICTS = Threshold(
    4.0, "updates", "fewer workers, a smaller learning rate, BoundedStalenessHook, or SyncReplicasOptimizer"
)
"""Updates of others between the beginning of an asynchronous step and its own."""
STRAGGLER = Threshold(1.5, "times", "dtfctl top says whether its host has less to give, or is busy")
"""How many times as long as the fastest worker's step one takes."""
WIRE = Threshold(0.2, "share", "dtfctl doctor --links says what the network can do")
"""The part of a worker's step in which something from another task is on its way."""
SCRIPT = Threshold(0.2, "share", "have data read in the graph (tf.data), and report, log or save less often")
"""The part of a job process's time between its steps."""
COLLECTOR = Threshold(0.05, "share", "keep fewer Python objects, or gc.freeze() before the first step")
"""The part of the time in Python's garbage collector."""
