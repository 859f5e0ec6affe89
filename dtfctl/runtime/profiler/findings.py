"""Judge the figures of a timeline: what is too much, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from dtfctl import thresholds
from dtfctl.thresholds import Threshold

_LOST = Threshold(1.0, "events", "")


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
class TaskLinkFacts:
    """How a task sends to another one.

    Attributes:
        words: what people are told of it.
        crosses_hosts: only what does is compressed.
        compression: "on", "off" where codecs were tried and do not pay, "" where none is in use.
    """

    words: str
    crosses_hosts: bool = True
    compression: Literal["on", "off", ""] = ""


Links: TypeAlias = Mapping[tuple[str, str], TaskLinkFacts]
"""How each task sends to others, by both their names; not all need be known."""


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


def find(tasks: Sequence[Facts], transfers: Sequence[Mapping[str, Any]], links: Links) -> list[Finding]:
    """Judge tasks and clients, and the pairs of tasks between which tensors travel (see `summary`)."""
    found = [finding for task in tasks if task.step_ms for finding in _of_task(task, links)]
    found += _of_workers([task for task in tasks if task.task.startswith("worker/") and task.step_ms])
    found += [_of_pair(pair, links) for pair in transfers]
    return found


def _judged(kind: str, task: str, value: float, threshold: Threshold, text: str) -> Finding:
    crossed = value >= threshold.much
    return Finding(kind, task, value, threshold.much, threshold.unit, crossed, text if crossed else "")


def _of_task(task: Facts, links: Links) -> Iterator[Finding]:
    name = task.task
    if task.is_client:
        text = (
            f"{name}: {task.between:.0%} of the time passes between its steps, in the script itself: "
            f"{thresholds.SCRIPT.advice}"
        )
        yield _judged("script", name, task.between, thresholds.SCRIPT, text)
    elif name.startswith("ps/"):
        # A ps has little else to do than to wait for workers.
        if task.updates:
            text = (
                f"{name}: {task.behind:.1f} updates of others come between the beginning of a step and its own, so "
                f"gradients are of old values: {thresholds.CONFLICTS.advice}"
            )
            yield _judged("conflicts", name, task.behind, thresholds.CONFLICTS, text)
    else:
        yield from _of_worker(task, links)
    text = (
        f"{name} spends {task.collecting:.0%} of the time in Python's garbage collector: {thresholds.COLLECTOR.advice}"
    )
    yield _judged("collector", name, task.collecting, thresholds.COLLECTOR, text)
    if task.lost:
        text = f"{name} had no room for {task.lost} events: record fewer steps"
        yield _judged("lost", name, task.lost, _LOST, text)


def _of_worker(task: Facts, links: Links) -> Iterator[Finding]:
    name, waits = task.task, task.waits
    ps = sorted((other for other in waits if other.startswith("ps/")), key=lambda other: -waits[other])
    whom = "its group" if not ps else ps[0] if len(ps) == 1 else f"{ps[0]} ({waits[ps[0]]:.0%}) and {len(ps) - 1} more"
    # Of a group only that its members are other workers is known.
    others = ps[:1] or sorted(other for source, other in links if source == name)[:1]
    fewer = _fewer_bytes(links.get((others[0], name)) if others else None)
    text = f"{name} waits {task.sync:.0%} of the step for {whom}: " + ", ".join(
        filter(None, [fewer, thresholds.SYNC.advice])
    )
    yield _judged("sync", name, task.sync, thresholds.SYNC, text)
    for other, share in waits.items():
        if other not in (name, "clients") and not other.startswith("ps/"):
            text = f"{name} waits {share:.0%} of the step for {other}: {thresholds.WAIT.advice}"
            yield _judged("wait", name, share, thresholds.WAIT, text)
    text = f"{name} waits {task.input:.0%} of the step for input: {thresholds.INPUT.advice}"
    yield _judged("input", name, task.input, thresholds.INPUT, text)
    text = f"{name} copies {task.copied_ms:.1f} ms in a step between host and device: {thresholds.COPIES.advice}"
    yield _judged("copies", name, task.copied_ms, thresholds.COPIES, text)


def _of_workers(workers: Sequence[Facts]) -> Iterator[Finding]:
    if len(workers) > 1:
        slow, fast = (choose(workers, key=lambda task: task.step_ms) for choose in (max, min))
        times = slow.step_ms / fast.step_ms
        text = (
            f"{slow.task} takes {times:.1f} times as long for a step as {fast.task}, the fastest: "
            f"{thresholds.STRAGGLER.advice}"
        )
        yield _judged("straggler", slow.task, times, thresholds.STRAGGLER, text)


def _of_pair(pair: Mapping[str, Any], links: Links) -> Finding:
    share, source, target = pair["wire_share"], pair["from"], pair["to"]
    link = links.get((source, target))
    how = f" ({link.words})" if link is not None and link.words else ""
    if link is not None and not link.crosses_hosts:
        what = "both are on one host, so give steps more to compute (a larger batch)"
    else:
        what = f"{_fewer_bytes(link)}; {thresholds.WIRE.advice}"
    text = f"{source} sends to {target}{how} in {share:.0%} of its step: {what}"
    # A ps is sent to while others compute.
    return _judged("wire", target, 0.0 if target.startswith("ps/") else share, thresholds.WIRE, text)


def _fewer_bytes(link: TaskLinkFacts | None) -> str:
    """Say what can be done for fewer bytes on a way; "" where nothing crosses a network."""
    if link is None or (link.crosses_hosts and not link.compression):
        return "send less (runtime.compression)"
    if not link.crosses_hosts:
        return ""
    if link.compression == "off":
        return "compression does not pay here"
    return "it is already sent smaller, a stronger codec may send less yet"
