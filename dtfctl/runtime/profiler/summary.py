"""Sum up a timeline: what steps spend their time on, by task, and what travels between tasks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from dtfctl.runtime.framework.spans import Span
from dtfctl.runtime.framework.structural_ops import RECVS
from dtfctl.runtime.profiler.capture import TaskRecord
from dtfctl.runtime.profiler.findings import Facts, Links, find
from dtfctl.runtime.profiler.tracks import short_task
from dtfctl.runtime.steps.recording import Event, Kind

MOST_OPS = 5
GROUP = "its group"
"""Whom a task waits for that computes something together with others."""
_MS = 1e6

Interval = tuple[int, int]


@dataclass
class TaskSummary:
    """A task's steps, or a client's calls of `Session.run`.

    Times are milliseconds, and sizes bytes, of an average step unless they say otherwise. A share is of the time that
    steps took from beginning to end, however many threads did something at the same time.

    Attributes:
        is_client: it is a process that calls `Session.run`.
        waits: what share of a step passes until something comes from each task; clients wait for all of a step.
        sync: what share passes until variables or gradients come, or a group has summed something up.
        input: what share passes until there is input.
        between: a client's: what share of all the time is between its steps.
        collecting: what share of the recording's time Python's collector ran.
        copied_ms: copies between host and device. checkpoint_ms: of the whole recording, not of a step.
        updates, overtaken, behind: how many steps updated variables here; what share of them after others had, since
            they began; and how often others had, on average.
        ops: which ops took most, of the steps whose nodes were timed; receives are in `waits`.
        clock_error_ms: how wrong this task's times may be beside another's.
    """

    task: str
    is_client: bool
    steps: int
    traced: int
    step_ms: float
    waits: dict[str, float]
    sync: float
    input: float
    between: float
    collecting: float
    copied_ms: float
    checkpoint_ms: float
    updates: int
    overtaken: float
    behind: float
    sent: float
    received: float
    ops: dict[str, float]
    clock_error_ms: float
    lost: int
    problem: str


def summarize(records: Sequence[TaskRecord], links: Links | None = None) -> dict[str, Any]:
    """Sum up what tasks have recorded.

    Args:
        links: how tasks send to each other, as far as it is known.

    Returns:
        tasks: a `TaskSummary` of each. transfers: between them. findings: what was looked at, each with its value and
        threshold (`findings.Finding`). advice: what is worth saying, a sentence each.
    """
    events = [event for record in records for event in record.events]
    lasted = max(event.end for event in events) - min(event.start for event in events) if events else 0
    tasks = [_task(record, lasted) for record in records]
    transfers = [*_transfers(records, links or {})]
    findings = find([_facts(task) for task in tasks], transfers, links or {})
    return {
        "tasks": [asdict(task) for task in tasks],
        "transfers": transfers,
        "findings": [asdict(finding) for finding in findings],
        "advice": [finding.advice for finding in findings if finding.is_crossed],
    }


def _facts(task: TaskSummary) -> Facts:
    waits = {other: share for other, share in task.waits.items() if other != GROUP}
    return Facts(
        task.task,
        task.is_client,
        task.step_ms,
        task.sync,
        waits,
        task.input,
        task.between,
        task.collecting,
        task.copied_ms,
        task.updates,
        task.behind,
        task.lost,
    )


def _task(record: TaskRecord, lasted: int) -> TaskSummary:
    own = Kind.RUN if record.is_client else Kind.PART
    by_kind: dict[Kind, list[Event]] = defaultdict(list)
    for event in record.events:
        by_kind[event.kind].append(event)
    spent = {kind: sum(event.spent for event in events) for kind, events in by_kind.items()}
    size = {kind: sum(event.bytes for event in events) for kind, events in by_kind.items()}
    # Steps that fill queues run beside those that empty them, which are what is trained with.
    feeding = {event.step for event in by_kind[Kind.QUEUE] if event.about == Span.ENQUEUE}
    steps = {event.step: (event.start, event.end) for event in by_kind[Kind.PART] if event.step not in feeding}
    runs = [e for e in by_kind[Kind.RUN] if e.about != Span.ENQUEUE]
    counted = (runs if record.is_client else [e for e in by_kind[Kind.PART] if e.step not in feeding]) or by_kind[own]
    waits: dict[str, list[Event]] = defaultdict(list)
    for event in by_kind[Kind.WAIT]:
        source = short_task(event.about) or "clients"
        waits[GROUP if source == record.name else source].append(event)
    shares = {source: _within(steps, events) for source, events in waits.items()}
    synced = [e for source, events in waits.items() if source == GROUP or source.startswith("ps/") for e in events]
    ops: dict[str, int] = defaultdict(int)
    for event in by_kind[Kind.NODE]:
        if event.about not in RECVS:
            ops[event.about] += event.spent
    count = max(record.steps, 1)
    return TaskSummary(
        task=record.name,
        is_client=record.is_client,
        steps=record.steps,
        traced=record.traced,
        step_ms=sum(event.spent for event in counted) / max(len(counted), 1) / _MS,
        waits={source: shares[source] for source in sorted(shares, key=lambda s: -shares[s])},
        sync=_within(steps, [*synced, *by_kind[Kind.COLLECTIVE]]),
        input=_within(steps, [*by_kind[Kind.INPUT], *by_kind[Kind.QUEUE]]),
        between=_between(runs) if record.is_client else 0.0,
        collecting=_length((e.start, e.end) for e in by_kind[Kind.COLLECTION]) / lasted if lasted else 0.0,
        copied_ms=spent.get(Kind.COPY, 0) / count / _MS,
        checkpoint_ms=_length((e.start, e.end) for e in by_kind[Kind.CHECKPOINT]) / _MS,
        updates=record.updates,
        overtaken=record.overtaken / max(record.updates, 1),
        behind=record.between / max(record.updates, 1),
        sent=size.get(Kind.SEND, 0) / count,
        received=size.get(Kind.ARRIVAL, 0) / count,
        ops={op: ops[op] / max(record.traced, 1) / _MS for op in sorted(ops, key=lambda op: -ops[op])[:MOST_OPS]},
        clock_error_ms=record.error_ns / _MS,
        lost=record.lost,
        problem=record.problem,
    )


def _within(steps: Mapping[int, Interval], events: Iterable[Event]) -> float:
    """Give what share of the steps' time passes while there is one of these events of the same step at least."""
    whole = sum(end - start for start, end in steps.values())
    of_step: dict[int, list[Interval]] = defaultdict(list)
    for event in events:
        if event.step in steps:
            start, end = steps[event.step]
            of_step[event.step].append((max(event.start, start), min(event.end, end)))
    return sum(map(_length, of_step.values())) / whole if whole else 0.0


def _length(intervals: Iterable[Interval]) -> int:
    """Measure what some intervals cover together.

    >>> _length([(0, 10), (5, 12), (20, 21)])
    13
    """
    covered, upto = 0, None
    for start, end in sorted(intervals):
        begin = start if upto is None else max(start, upto)
        covered += max(end - begin, 0)
        upto = end if upto is None else max(end, upto)
    return covered


def _between(runs: Sequence[Event]) -> float:
    """Give what share of a client's time no thread of it is in one of these calls."""
    if len(runs) < 2:
        return 0.0
    whole = max(run.end for run in runs) - min(run.start for run in runs)
    return 1 - _length((run.start, run.end) for run in runs) / whole if whole else 0.0


def _transfers(records: Sequence[TaskRecord], links: Links) -> Iterator[dict[str, Any]]:
    """Yield, for each pair of tasks, how many tensors went, their bytes, and how long they were on their way."""
    arrivals = {e.flow: (record, e) for record in records for e in record.events if e.kind is Kind.ARRIVAL}
    steps = {
        record.name: {e.step: (e.start, e.end) for e in record.events if e.kind is Kind.PART} for record in records
    }
    waited = {(record.name, e.flow): e.spent for record in records for e in record.events if e.kind is Kind.WAIT}
    pairs: dict[tuple[str, str], list[Event]] = defaultdict(list)
    waits: dict[tuple[str, str], int] = defaultdict(int)
    for record in records:
        for event in record.events:
            if event.kind is Kind.SEND and event.flow in arrivals:
                receiver, arrival = arrivals[event.flow]
                pair = record.name, receiver.name
                pairs[pair].append(event._replace(spent=max(arrival.start - event.start, 0), step=arrival.step))
                waits[pair] += waited.get((receiver.name, event.flow), 0)
    for (source, target), found in sorted(pairs.items()):
        times = sorted(event.spent for event in found)
        yield {
            "from": source,
            "to": target,
            "tensors": len(found),
            "bytes": sum(event.bytes for event in found),
            "median_ms": times[len(times) // 2] / _MS,
            "longest_ms": times[-1] / _MS,
            "waited_ms": waits[source, target] / _MS,
            "wire_share": _within(steps[target], found),
            "link": links[source, target].words if (source, target) in links else "",
        }
