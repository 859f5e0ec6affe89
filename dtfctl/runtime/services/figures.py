"""What a task tells of itself in numbers."""

from __future__ import annotations

import re
import threading
from collections import Counter
from itertools import islice

from dtfctl.figures import LONGEST_NAME, MOST_QUEUES, TaskFigures
from dtfctl.runtime.framework.spans import Span, spent_s
from dtfctl.runtime.kernels.variable import Variable
from dtfctl.runtime.services.worker import Worker
from dtfctl.runtime.steps.tally import CARRIED, STEPS, UPDATES

# What tells queues of different sessions apart stands before their node's name.
_NUMBERED = re.compile(r"_\d+_")


def figures_of(worker: Worker) -> TaskFigures:
    """Gather what this process has counted and what a worker holds."""
    # Imported here: programs that ask no task for its numbers do not load the family's kernels.
    from dtfctl.runtime.kernels.data_flow.queue import QueueBase

    queues: Counter[str] = Counter()
    variables = 0
    for manager in worker.resources():
        for queue in manager.all_of(QueueBase):
            numbered = _NUMBERED.match(queue.name)
            queues[queue.name[numbered.end() if numbered else 0 :][:LONGEST_NAME]] += queue.size()
        variables += sum(variable.memory_bytes for variable in manager.all_of(Variable))
    return TaskFigures(
        step_counts=tuple(STEPS.counts) if any(STEPS.counts) else (),
        steps_s=STEPS.seconds,
        waited_s=STEPS.waited,
        input_s=spent_s(Span.INPUT) + spent_s(Span.QUEUE),
        copied_s=spent_s(Span.COPY),
        updates=UPDATES.updates,
        overtaken=UPDATES.overtaken,
        behind=UPDATES.between,
        sent=dict(CARRIED.sent),
        received=dict(CARRIED.received),
        queues=dict(islice(sorted(queues.items()), MOST_QUEUES)),
        open_steps=worker.open_steps,
        variables_bytes=variables,
        threads=threading.active_count(),
    )
