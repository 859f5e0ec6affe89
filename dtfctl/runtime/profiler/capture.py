"""Have tasks record what their steps do for a while, and bring that to one clock."""

from __future__ import annotations

import contextlib
import math
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import grpc

from dtfctl.net.tls import Identity
from dtfctl.protocol import profile_pb2
from dtfctl.runtime.services.grpc_tools import channel_to
from dtfctl.runtime.services.profile_service import NAME
from dtfctl.runtime.steps.recording import Event, Kind

ANSWER_S = 10.0
CONNECT_S = 3.0
# How often tasks are asked how far they are: at first, and after a while, as each answer takes them a millisecond.
LOOK_S, LOOKS_SHARE, SELDOM_S = 0.1, 0.25, 1.0
# A task gets so many times the steps that were asked for, when others get fewer.
_MOST_TIMES = 4
_FEW_STEPS = 3
# What recording a step costs (some fifty tensors, waits and parts, in all its tasks), which share of all steps' time it
# may take, and how many steps may lie between two that are recorded.
_COST_US, _COSTS_SHARE, _FARTHEST = 360.0, 0.02, 500
# Exchanges to find out how far a task's clock is from this one's, before and after.
_CLOCK_ROUNDS = 8


@dataclass(frozen=True)
class Target:
    """A task to be recorded.

    Attributes:
        name: "worker/0".
        address: "host:port", or "unix:PATH" of what leads there.
        server_name: the name its certificate is valid for.
        host: where it runs; tasks of one host have one clock. "": on one of its own.
    """

    name: str
    address: str
    server_name: str = ""
    host: str = ""


@dataclass
class TaskRecord:
    """What one task has recorded.

    Attributes:
        ahead_ns: by how much its clock is ahead of this process's.
        error_ns: how wrong that may be.
        steps: how many parts of steps have ended; traced: of how many the nodes were timed.
        updates: how many steps have updated variables here; overtaken: before how many of them others had, since the
            step began; between: how often others had, in all.
        is_client: it is a process that calls `Session.run`, and these are its calls.
        lost: events there was no room for.
        problem: why there is nothing of it, or not all.
        events: by when they began, in ns of this process's wall clock.
    """

    name: str
    ahead_ns: int = 0
    error_ns: int = 0
    steps: int = 0
    traced: int = 0
    updates: int = 0
    overtaken: int = 0
    between: int = 0
    is_client: bool = False
    lost: int = 0
    problem: str = ""
    events: list[Event] = field(default_factory=list)


class _Task:
    """The calls of one task."""

    def __init__(self, target: Target, identity: Identity | None, ways: contextlib.ExitStack) -> None:
        self.record = TaskRecord(target.name)
        self.host = target.host or target.name
        channel = channel_to(target.address, identity, target.server_name, ways)
        ways.callback(channel.close)
        p = profile_pb2
        self.start, self.look, self.stop = (
            self._method(channel, name, p.ProfileState) for name in ("Start", "Look", "Stop")
        )
        self.take = self._method(channel, "Take", p.ProfilePart)
        self._least_ns = 0
        self.step_us = 0.0
        self.is_running = False

    def _method(self, channel: grpc.Channel, name: str, answer: Any) -> Callable[..., Any]:
        call = channel.unary_unary(
            f"/{NAME}/{name}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=answer.FromString,
        )

        def called(request: Any, connects: bool = False) -> Any:
            """Call; None where that fails, which is noted."""
            try:
                return call(request, timeout=CONNECT_S if connects else ANSWER_S, wait_for_ready=connects)
            except grpc.RpcError as e:
                late = e.code() is grpc.StatusCode.DEADLINE_EXCEEDED
                problem = "it does not answer" if late else e.details() or e.code().name
                self.record.problem = self.record.problem or problem
                self.is_running = False
                return None

        return called

    @property
    def is_compared(self) -> bool:
        """Whether anything is known of its clock."""
        return self._least_ns > 0

    def compare_clocks(self) -> None:
        """Find out how far its clock is ahead, by the shortest of some exchanges: it was read in the middle of one."""
        record = self.record
        for _ in range(_CLOCK_ROUNDS):
            before = time.time_ns()
            state = self.look(profile_pb2.ProfileQuestion(), connects=not self._least_ns)
            after = time.time_ns()
            if state is None:
                return
            if not self._least_ns or after - before < self._least_ns:
                self._least_ns = after - before
                record.ahead_ns = state.now_ns - (before + after) // 2
                record.error_ns = (after - before + 1) // 2
            self.step_us = state.step_us


def capture(
    targets: Sequence[Target],
    identity: Identity | None,
    steps: int,
    seconds: float,
    job: str = "",
    told: Callable[[dict[str, int]], None] = lambda _: None,
) -> list[TaskRecord]:
    """Record until each task that runs steps has run so many, one has run far more and each a few, or the time is over.

    Args:
        identity: of a certificate of the cluster; None where tasks serve plaintext.
        job: only its steps; "": all.
        told: is told now and then how many parts of steps have ended, by task.

    Returns:
        What each task has recorded; of one that failed, why.
    """
    question = profile_pb2.ProfileQuestion(id=secrets.token_hex(8))
    with contextlib.ExitStack() as ways:
        tasks = [_Task(target, identity, ways) for target in targets]
        for task in tasks:
            task.compare_clocks()
        every = _every([task.step_us for task in tasks if task.step_us])
        begin = profile_pb2.ProfileStart(id=question.id, seconds=seconds, job=job, every=every)
        for task in tasks:
            task.is_running = not task.record.problem and task.start(begin) is not None
        try:
            began = time.monotonic()
            until = began + seconds
            paces = {task.record.name: task.step_us * every / 1e6 for task in tasks}
            while time.monotonic() < until and any(task.is_running for task in tasks):
                passed = time.monotonic() - began
                pause = min(max(LOOK_S, passed * LOOKS_SHARE), SELDOM_S)
                time.sleep(max(min(pause, seconds - passed), 0))
                counts = dict(_looked(tasks, question))
                told(counts)
                if _is_enough(counts, paces, steps, time.monotonic() - began):
                    break
        finally:
            for task in tasks:
                if task.is_running:
                    task.stop(question)
        clients = []
        for task in tasks:
            if not task.record.problem:
                names = _take(task, task.record, question.id)
                own = [TaskRecord(name, is_client=True) for name in names]
                for record in own:
                    _take(task, record, question.id)
                task.compare_clocks()
                clients += [(task, record) for record in own]
        _share_clocks(tasks)
        for task in tasks:
            _align(task.record)
        for task, record in clients:
            # On the task's host.
            record.ahead_ns, record.error_ns = task.record.ahead_ns, task.record.error_ns
            _align(record)
        return [*(task.record for task in tasks), *_joined([record for _, record in clients])]


def _is_enough(counts: Mapping[str, int], paces: Mapping[str, float], steps: int, passed_s: float) -> bool:
    """Tell whether a recording has what it is for. Who is slow is given the time for some steps: it is of interest.

    Args:
        counts: how many steps each task has recorded.
        paces: how long each takes for one, in seconds; 0: it has run none.

    >>> slow = {"worker/0": 0.01, "worker/1": 0.5}
    >>> [_is_enough({"worker/0": 90, "worker/1": count}, slow, 20, 1.6) for count in (0, 2, 3)]
    [False, False, True]
    >>> _is_enough({"worker/0": 20, "worker/1": 0}, slow, 20, 2.1), _is_enough({"worker/0": 19}, slow, 20, 2.1)
    (True, False)
    """
    few = min(_FEW_STEPS, steps)
    late = (name for name, count in counts.items() if count < few and passed_s < paces[name] * (_FEW_STEPS + 1))
    busy = [count for count in counts.values() if count]
    return bool(busy) and (min(busy) >= steps or max(busy) >= steps * _MOST_TIMES) and next(late, None) is None


def _share_clocks(tasks: Sequence[_Task]) -> None:
    """Give tasks of a host the best of what was found out about its clock; of a single host nothing may be wrong."""
    hosts: dict[str, list[TaskRecord]] = {task.host: [] for task in tasks}
    for task in tasks:
        if task.is_compared:
            hosts[task.host].append(task.record)
    for records in filter(None, hosts.values()):
        best = min(records, key=lambda record: record.error_ns)
        for record in records:
            record.ahead_ns, record.error_ns = best.ahead_ns, best.error_ns if len(hosts) > 1 else 0


def _every(steps_us: Sequence[float]) -> int:
    """Choose how many steps lie between two that are recorded, so that they take little longer on average.

    Args:
        steps_us: how long a step takes in each task that runs any.

    >>> _every([200.0, 5000.0]), _every([5000.0]), _every([18000.0]), _every([])
    (90, 4, 1, 1)
    """
    return min(math.ceil(_COST_US / (_COSTS_SHARE * min(steps_us))), _FARTHEST) if steps_us else 1


def _joined(clients: Sequence[TaskRecord]) -> Iterator[TaskRecord]:
    """Yield each client once: one that has sessions with several tasks hands something over to each of them."""
    by_name: dict[str, TaskRecord] = {}
    for client in clients:
        first = by_name.setdefault(client.name, client)
        if first is not client:
            first.events = sorted([*first.events, *client.events], key=lambda event: event.start)
            first.steps, first.lost = max(first.steps, client.steps), max(first.lost, client.lost)
    yield from by_name.values()


def _looked(tasks: Sequence[_Task], question: profile_pb2.ProfileQuestion) -> Iterator[tuple[str, int]]:
    for task in tasks:
        if task.is_running:
            state = task.look(question)
            if state is not None:
                task.is_running = state.running
                yield task.record.name, int(state.steps)


def _take(task: _Task, record: TaskRecord, id: str) -> Sequence[str]:
    """Fetch what a task, or one of its clients, has recorded; the names of its clients."""
    start, client = 0, record.name if record.is_client else ""
    while True:
        part = task.take(profile_pb2.ProfileQuestion(id=id, start=start, client=client))
        if part is None:
            return ()
        record.lost, record.traced, record.steps = int(part.lost), int(part.traced), int(part.steps)
        record.updates, record.overtaken, record.between = int(part.updates), int(part.overtaken), int(part.between)
        try:
            record.events.extend(unpacked(part.events))
        except (ValueError, IndexError):
            record.problem = "what it has recorded makes no sense"
            return ()
        start += 1 if client else len(part.events.kind)
        if part.last:
            return list(part.client)
        if not part.events.kind:
            record.problem = "what it has recorded has no end"
            return ()


def unpacked(columns: profile_pb2.ProfileEvents) -> Iterator[Event]:
    """Read events from their columns; kinds that are not known are left out.

    Raises:
        ValueError, IndexError: they make no sense.
    """
    known, texts = set(Kind), list(columns.text)
    places = columns.kind, columns.name, columns.about
    numbers = columns.start_ns, columns.spent_ns, columns.thread, columns.step, columns.bytes, columns.flow
    for (kind, name, about), values in zip(zip(*places, strict=True), zip(*numbers, strict=True), strict=True):
        if kind in known:
            yield Event(Kind(kind), texts[name], texts[about], *values)


def _align(record: TaskRecord) -> None:
    record.events = [event._replace(start=event.start - record.ahead_ns) for event in record.events]
    record.events.sort(key=lambda event: event.start)
