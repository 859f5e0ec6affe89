"""Place events on a timeline: a process a task, a row a thread, on which bars lie beside or within each other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from dtfctl.runtime.profiler.capture import TaskRecord
from dtfctl.runtime.steps.recording import Event, Kind

_WORDS = {Kind.COPY: "copy", Kind.RUN: "run"}


@dataclass(frozen=True)
class Bar:
    """An event where it is drawn.

    Attributes:
        process: the task's number, from 1.
        row: the row's number in the process, from 1.
        label: what is written on it.
    """

    process: int
    row: int
    label: str
    event: Event


def short_task(task: str) -> str:
    """Shorten a task's name.

    >>> short_task("/job:worker/replica:0/task:1")
    'worker/1'
    """
    return task.replace("/job:", "").replace("/replica:0", "").replace("/task:", "/")


def label(event: Event) -> str:
    """Write what an event is, for a person."""
    match event.kind:
        case Kind.SEND:
            return f"send {event.name} to {short_task(event.about)}"
        case Kind.ARRIVAL:
            return f"{event.name} from {short_task(event.about)}"
        case Kind.WAIT:
            return f"wait for {event.name} from {short_task(event.about)}"
        case Kind.COLLECTION:
            return f"garbage collection, {event.name}"
        case Kind.INPUT | Kind.QUEUE | Kind.CHECKPOINT | Kind.COLLECTIVE | Kind.COPY | Kind.RUN:
            return f"{_WORDS.get(event.kind, event.kind.name.lower())} {event.name}"
        case _:
            return event.name


def bars(records: Iterable[TaskRecord]) -> Iterator[Bar]:
    """Place the events of all tasks, those of a row in order: what begins first, and of these what is longest, first.

    What overlaps another event of its thread without being within it has a row of its own.
    """
    for process, record in enumerate(records, 1):
        rows = 0
        for thread in dict.fromkeys(event.thread for event in record.events):
            own = sorted((e for e in record.events if e.thread == thread), key=lambda e: (e.start, -e.end))
            # The ends of what is open on each row, outermost first.
            lanes: list[list[int]] = []
            for event in own:
                lane = next((n for n, ends in enumerate(lanes) if _has_room(ends, event)), len(lanes))
                if lane == len(lanes):
                    lanes.append([])
                lanes[lane].append(event.end)
                yield Bar(process, rows + lane + 1, label(event), event)
            rows += len(lanes)


def _has_room(ends: list[int], event: Event) -> bool:
    while ends and ends[-1] <= event.start:
        ends.pop()
    return not ends or event.end <= ends[-1]
