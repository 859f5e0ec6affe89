"""Judge the figures of a timeline: what is too much, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

SYNC_MUCH = WAITS_MUCH = WIRE_MUCH = BETWEEN_MUCH = 0.2
"""Shares of a step, and of a client's time, from which on there is something to say."""
INPUT_MUCH = 0.1
COLLECTS_MUCH = 0.05
COPIES_MUCH_MS = 5.0
"""Bounds the copies between host and device in a step."""
BEHIND_MUCH = 4.0
"""Bounds how many updates of others come between the beginning of an asynchronous step and its own."""
LAGS_MUCH = 1.5
"""Bounds how many times as long as the fastest worker's step one may take."""


@dataclass(frozen=True)
class Facts:
    """What is judged of a task or client; see `summary.TaskSummary`."""

    task: str
    is_client: bool
    step_ms: float
    sync: float
    waits: Mapping[str, float]
    input: float
    between: float
    collecting: float
    copied_ms: float
    updates: int
    behind: float
    lost: int


@dataclass(frozen=True)
class Finding:
    """Something that was looked at.

    Attributes:
        kind: "sync", "wait", "input", "script", "copies", "conflicts", "straggler", "wire", "collector", "lost".
        task: whose.
        value, threshold: in `unit`, which is "share", "ms", "updates", "times" or "events".
        is_crossed: the value is as large as the threshold, or larger.
        advice: a sentence that says what is too much and what to do; "" where nothing is.
    """

    kind: str
    task: str
    value: float
    threshold: float
    unit: str
    is_crossed: bool
    advice: str


def find(tasks: Sequence[Facts], transfers: Sequence[Mapping[str, Any]]) -> list[Finding]:
    """Judge tasks and clients, and the pairs of tasks between which tensors travel (see `summary`)."""
    found = [finding for task in tasks if task.step_ms for finding in _of_task(task)]
    found += _of_workers([task for task in tasks if task.task.startswith("worker/") and task.step_ms])
    found += [_of_pair(pair) for pair in transfers]
    return found


def _judged(kind: str, task: str, value: float, threshold: float, unit: str, advice: str) -> Finding:
    crossed = value >= threshold
    return Finding(kind, task, value, threshold, unit, crossed, advice if crossed else "")


def _of_task(task: Facts) -> Iterator[Finding]:
    name = task.task
    if task.is_client:
        text = (
            f"{name}: {task.between:.0%} of the time passes between its steps, in the script itself: have data read "
            "in the graph (tf.data), and report, log or save less often"
        )
        yield _judged("script", name, task.between, BETWEEN_MUCH, "share", text)
    elif name.startswith("ps/"):
        # A ps has little else to do than to wait for workers.
        if task.updates:
            text = (
                f"{name}: {task.behind:.1f} updates of others come between the beginning of a step and its own, so "
                "gradients are of old values: fewer workers, a smaller learning rate, BoundedStalenessHook, or "
                "SyncReplicasOptimizer"
            )
            yield _judged("conflicts", name, task.behind, BEHIND_MUCH, "updates", text)
    else:
        yield from _of_worker(task)
    text = f"{name} spends {task.collecting:.0%} of the time in Python's garbage collector"
    yield _judged("collector", name, task.collecting, COLLECTS_MUCH, "share", text)
    if task.lost:
        text = f"{name} had no room for {task.lost} events: record fewer steps"
        yield _judged("lost", name, task.lost, 1, "events", text)


def _of_worker(task: Facts) -> Iterator[Finding]:
    name, waits = task.task, task.waits
    ps = sorted((other for other in waits if other.startswith("ps/")), key=lambda other: -waits[other])
    whom = "its group" if not ps else ps[0] if len(ps) == 1 else f"{ps[0]} ({waits[ps[0]]:.0%}) and {len(ps) - 1} more"
    text = (
        f"{name} waits {task.sync:.0%} of the step for {whom}: send less (runtime.compression), spread variables over "
        "more ps, or give steps more to compute (a larger batch)"
    )
    yield _judged("sync", name, task.sync, SYNC_MUCH, "share", text)
    for other, share in waits.items():
        if other not in (name, "clients") and not other.startswith("ps/"):
            text = (
                f"{name} waits {share:.0%} of the step for {other}: give it less of the work, or both something to do "
                "at the same time (more micro-batches)"
            )
            yield _judged("wait", name, share, WAITS_MUCH, "share", text)
    text = (
        f"{name} waits {task.input:.0%} of the step for input: prefetch() at the end of the data set, "
        "num_parallel_calls in its map(), cache() where it fits into memory"
    )
    yield _judged("input", name, task.input, INPUT_MUCH, "share", text)
    text = (
        f"{name} copies {task.copied_ms:.1f} ms in a step between host and device: keep variables and what follows "
        "on one device, feed less, and fetch only what is looked at"
    )
    yield _judged("copies", name, task.copied_ms, COPIES_MUCH_MS, "ms", text)


def _of_workers(workers: Sequence[Facts]) -> Iterator[Finding]:
    if len(workers) > 1:
        slow, fast = (choose(workers, key=lambda task: task.step_ms) for choose in (max, min))
        times = slow.step_ms / fast.step_ms
        text = (
            f"{slow.task} takes {times:.1f} times as long for a step as {fast.task}, the fastest: dtfctl top says "
            "whether its host has less to give, or is busy"
        )
        yield _judged("straggler", slow.task, times, LAGS_MUCH, "times", text)


def _of_pair(pair: Mapping[str, Any]) -> Finding:
    share, source, target = pair["wire_share"], pair["from"], pair["to"]
    link = f" ({pair['link']})" if pair["link"] else ""
    text = (
        f"{source} sends to {target}{link} in {share:.0%} of its step: with runtime.compression it is fewer bytes; "
        "dtfctl doctor --links says what the network can do"
    )
    # A ps is sent to while others compute.
    return _judged("wire", target, 0.0 if target.startswith("ps/") else share, WIRE_MUCH, "share", text)
