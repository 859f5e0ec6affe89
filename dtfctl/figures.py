"""What a task's runtime counts about itself, as its server gathers it and the metrics page shows it."""

from __future__ import annotations

from collections.abc import Mapping

from dtfctl.values import field, value

STEP_BOUNDS_S = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
"""The upper ends of the intervals in which a step's part in a task may end, but for the last, which has none."""
MOST_QUEUES = 32
"""What is told of: the names of queues are a program's, and all of this is to fit into a datagram."""
LONGEST_NAME = 100


@value
class TaskFigures:
    """Counts since the task started, and what it holds now."""

    step_counts: tuple[int, ...] = ()
    """How many parts of steps ended in each interval of `STEP_BOUNDS_S`; empty before the first."""
    steps_s: float = 0.0
    """What all of them took together."""
    waited_s: float = 0.0
    """Counts of that what passed until something came from another task."""
    input_s: float = 0.0
    """What kernels took until a dataset or queue had something for them; those of several threads together."""
    copied_s: float = 0.0
    """What copies between the memory of the host and that of devices took."""
    updates: int = 0
    """How many steps have updated variables here."""
    overtaken: int = 0
    """How many of them after others had, since they began."""
    behind: int = 0
    """How often others had, in all."""
    sent: Mapping[str, int] = field(default_factory=dict)
    """Bytes of tensors and messages to other tasks, by transport, before encryption."""
    received: Mapping[str, int] = field(default_factory=dict)
    queues: Mapping[str, int] = field(default_factory=dict)
    """Elements in each queue of its programs; queues of the same name are one."""
    open_steps: int = 0
    """Steps begun here that have not ended."""
    variables_bytes: int = 0
    """Memory of the variables that it holds."""
    threads: int = 0
