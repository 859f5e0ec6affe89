"""Sum up a timeline: what steps spend their time on, and what to do about it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from dtfctl.runtime.framework.structural_ops import RECVS
from dtfctl.runtime.profiler.capture import TaskRecord
from dtfctl.runtime.profiler.tracks import short_task
from dtfctl.runtime.steps.recording import Kind

MOST_OPS = 5
# Shares of a step from which on there is something to say.
WAITS_MUCH, COLLECTS_MUCH = 0.2, 0.05
# So many times the fastest worker's step.
LAGS_MUCH = 1.5
_MS = 1e6


@dataclass
class TaskSummary:
    """A task's steps; times are milliseconds, and sizes bytes, of an average step unless they say otherwise.

    Attributes:
        waits: what part of a step's time passes until something comes from each task.
        collecting: what part of the time Python's collector ran.
        ops: which ops took most, of the steps whose nodes were timed; receives are in `waits`.
        clock_error_ms: how wrong this task's times may be beside another's.
    """

    task: str
    steps: int
    traced: int
    step_ms: float
    waits: dict[str, float]
    collecting: float
    sent: float
    received: float
    ops: dict[str, float]
    clock_error_ms: float
    lost: int
    problem: str


def summarize(records: Sequence[TaskRecord]) -> dict[str, Any]:
    """Sum up what tasks have recorded: `tasks` (of each a `TaskSummary`), `transfers` between them, and `advice`."""
    tasks = [_task(record) for record in records]
    return {
        "tasks": [asdict(task) for task in tasks],
        "transfers": [*_transfers(records)],
        "advice": [*_advice(tasks)],
    }


def _task(record: TaskRecord) -> TaskSummary:
    spent: dict[Kind, int] = defaultdict(int)
    size: dict[Kind, int] = defaultdict(int)
    waits: dict[str, int] = defaultdict(int)
    ops: dict[str, int] = defaultdict(int)
    for event in record.events:
        spent[event.kind] += event.spent
        size[event.kind] += event.bytes
        if event.kind is Kind.WAIT:
            waits[short_task(event.about) or "clients"] += event.spent
        elif event.kind is Kind.NODE and event.about not in RECVS:
            ops[event.about] += event.spent
    steps, running = max(record.steps, 1), spent[Kind.PART]
    most = sorted(ops, key=lambda op: -ops[op])[:MOST_OPS]
    return TaskSummary(
        task=record.name,
        steps=record.steps,
        traced=record.traced,
        step_ms=spent[Kind.PART] / steps / _MS,
        waits={task: _share(waits[task], running) for task in sorted(waits, key=lambda t: -waits[t])},
        collecting=_share(spent[Kind.COLLECTION], running),
        sent=size[Kind.SEND] / steps,
        received=size[Kind.ARRIVAL] / steps,
        ops={op: ops[op] / max(record.traced, 1) / _MS for op in most},
        clock_error_ms=record.error_ns / _MS,
        lost=record.lost,
        problem=record.problem,
    )


def _share(part: int, whole: int) -> float:
    return min(part / whole, 1.0) if whole else 0.0


def _transfers(records: Sequence[TaskRecord]) -> Iterator[dict[str, Any]]:
    """Yield, for each pair of tasks, how many tensors went, their bytes, and how long they were on their way."""
    arrivals = {e.flow: (record.name, e.start) for record in records for e in record.events if e.kind is Kind.ARRIVAL}
    pairs: dict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
    for record in records:
        for event in record.events:
            if event.kind is Kind.SEND and event.flow in arrivals:
                task, arrived = arrivals[event.flow]
                pairs[record.name, task].append((event.bytes, max(arrived - event.start, 0)))
    for (source, target), found in sorted(pairs.items()):
        times = sorted(time for _, time in found)
        yield {
            "from": source,
            "to": target,
            "tensors": len(found),
            "bytes": sum(size for size, _ in found),
            "median_ms": times[len(times) // 2] / _MS,
            "longest_ms": times[-1] / _MS,
        }


def _advice(tasks: Sequence[TaskSummary]) -> Iterator[str]:
    for task in tasks:
        # A ps has little else to do than to wait for workers.
        if not task.task.startswith("ps/"):
            for other, share in task.waits.items():
                if share >= WAITS_MUCH and other != task.task:
                    yield (
                        f"{task.task} waits {share:.0%} of the step for {other}: send less (runtime.compression), "
                        "spread variables over more ps, or give steps more to compute (a larger batch)"
                    )
        if task.collecting >= COLLECTS_MUCH:
            yield f"{task.task} spends {task.collecting:.0%} of the time in Python's garbage collector"
        if task.lost:
            yield f"{task.task} had no room for {task.lost} events: record fewer steps"
    workers = [task for task in tasks if task.task.startswith("worker/") and task.step_ms]
    if len(workers) > 1:
        slow, fast = (choose(workers, key=lambda task: task.step_ms) for choose in (max, min))
        times = slow.step_ms / fast.step_ms
        if times > LAGS_MUCH:
            yield f"{slow.task} takes {times:.1f} times as long for a step as {fast.task}, the fastest"
