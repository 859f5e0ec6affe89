"""Record what this task's steps do, with times, while somebody asks for it.

Nothing is recorded, and next to nothing is spent, while `ACTIVE` is None: each step looks at it once, when it begins
here. A step that begins while something is recorded gets a table that notes when tensors leave, arrive and are waited
for, and its parts are timed. In some steps each node is timed too, by a trace, as that takes the place of the compiled
plan: as many as keep what that costs below `_NODES_SHARE`.
"""

from __future__ import annotations

import contextlib
import enum
import gc
import math
import threading
import time
import weakref
import zlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from dtfctl.runtime.executor.trace import StepTrace
from dtfctl.runtime.framework import spans
from dtfctl.runtime.framework.cancellation import CancellationToken
from dtfctl.runtime.framework.errors import FailedPreconditionError
from dtfctl.runtime.framework.node_graph import Node
from dtfctl.runtime.framework.spans import Span
from dtfctl.runtime.rendezvous.local import LocalRendezvous
from dtfctl.runtime.rendezvous.routing import Routes, RoutingRendezvous
from dtfctl.runtime.rendezvous.transports.base import Transport

if TYPE_CHECKING:
    from dtfctl.runtime.steps.worker_session import Partition

MOST_EVENTS = 200_000
"""What is kept; of more it is told how many there were. Some 60 MB."""
MOST_S = 600.0
"""How long a recording may last."""
# What part of the time of a part's runs the timing of its nodes may take, and the most runs from one to the next.
_NODES_SHARE, _FARTHEST = 0.02, 1000
# How often two clocks are compared; the shortest time counts.
_LOOKS = 5

T = TypeVar("T")
clock = time.monotonic_ns


class Kind(enum.IntEnum):
    """What an event tells of."""

    PART = 1
    """A step's share in this task; `about` is the session."""
    NODE = 2
    """A node; `about` is its op, `bytes` those of its outputs."""
    SEND = 3
    """A tensor was handed over to go to another task; `about` is that task."""
    ARRIVAL = 4
    """A tensor has come from another task; `about` is that task. It takes no time."""
    WAIT = 5
    """A thread has waited for a tensor; `about` is where it comes from."""
    COLLECTION = 6
    """Python's collector has run; `name` is the generation."""
    INPUT = 7
    """A kernel got the next element of a dataset or reader."""
    QUEUE = 8
    """A kernel put something into a queue (`about` is "enqueue"), or took it out, and may have waited for that."""
    CHECKPOINT = 9
    COLLECTIVE = 10
    """A kernel in a function computed something together with other tasks; what is outside of functions is a WAIT."""
    COPY = 11
    """Between the memory of the host and a device's."""
    RUN = 12
    """A call of `Session.run`, in the process that calls it; `name` is what it fetches.

    `about` is "enqueue" where it fills a queue.
    """
    TRACE = 13
    """A block of a script that it has named (`tf.profiler.experimental.Trace`)."""


_OF_SPAN = {
    Span.INPUT: Kind.INPUT,
    Span.READ: Kind.INPUT,
    Span.QUEUE: Kind.QUEUE,
    Span.ENQUEUE: Kind.QUEUE,
    Span.STAGE: Kind.QUEUE,
    Span.CHECKPOINT: Kind.CHECKPOINT,
    Span.COLLECTIVE: Kind.COLLECTIVE,
    Span.COPY: Kind.COPY,
}


class Event(NamedTuple):
    """Something that took from `start` for `spent` ns, in a thread; `start` is of `clock` until it leaves the task."""

    kind: Kind
    name: str
    about: str
    start: int
    spent: int
    thread: int
    step: int = 0
    bytes: int = 0
    flow: int = 0

    @property
    def end(self) -> int:
        return self.start + self.spent


class _Key(NamedTuple):
    """What a rendezvous key says: whether its tensor comes from another task, what it is called, and from which task.

    `number` is alike in both tasks.
    """

    comes: bool
    name: str
    source: str
    number: int


class NodeTimes(StepTrace):
    """Notes a step's nodes in a recording."""

    def __init__(self, recorder: Recorder, step: int) -> None:
        super().__init__()
        self._recorder = recorder
        self._step = step

    def add(self, device: str, node: Node, started: int, ended: int, outputs: Sequence[Any]) -> None:
        size = sum(getattr(value, "nbytes", 0) for value in outputs)
        self._recorder.add(Kind.NODE, node.name, node.op, started, ended, self._step, size)


class _Pace:
    """How often a part's nodes are timed: by what that costs."""

    __slots__ = ("_next", "plain", "traced")

    def __init__(self) -> None:
        self._next = 0
        self.plain = self.traced = math.inf

    def is_due(self) -> bool:
        if self._next:
            self._next -= 1
            return False
        # The first runs with and without tell what it costs.
        more = self.traced / self.plain - 1 if self.traced < math.inf and self.plain < math.inf else 4.0
        self._next = min(math.ceil(max(more, 0.0) / _NODES_SHARE), _FARTHEST)
        return True

    def took(self, spent: int, is_traced: bool) -> None:
        # Least times: a run that had to wait says nothing of what it costs.
        if is_traced:
            self.traced = min(self.traced, spent)
        else:
            self.plain = min(self.plain, spent)


def _epoch() -> int:
    """Find how far the wall clock is ahead of `clock`; another process may run between two looks."""
    looks = [(clock(), time.time_ns(), clock()) for _ in range(_LOOKS)]
    before, wall, after = min(looks, key=lambda look: look[2] - look[0])
    return wall - (before + after) // 2


class Recorder:
    """What is recorded in this process from `start` to its end. Methods may be called from any thread.

    Args:
        id: whose it is.
        task: this one's full name.
        seconds: ends after so long, `MOST_S` at the most.
        job: record only what steps of this job do; "": of all.
        every: record only steps whose number this divides, which is the same in all tasks.

    Attributes:
        steps: of how many steps parts have ended here.
        traced: in how many of them nodes were timed.
        runs: calls of `Session.run` that have ended.
        updates, overtaken, between: see `UpdateTally`.
        lost: events there was no room for.
        epoch: ns to be added to an event's start for the wall clock's time.
    """

    def __init__(self, id: str, task: str, seconds: float = MOST_S, job: str = "", every: int = 1) -> None:
        self.id = id
        self.every = max(every, 1)
        self.job = job
        self.steps = 0
        self.traced = 0
        self.runs = 0
        self.updates = self.overtaken = self.between = 0
        self.lost = 0
        self._events: list[tuple[Any, ...]] = []
        self._keys: dict[str, _Key] = {}
        self.epoch = _epoch()
        self.prefix = task + "/"
        self.is_ended = False
        self._until = clock() + int(min(seconds, MOST_S) * 1e9)
        self._lock = threading.Lock()
        self._paces: weakref.WeakKeyDictionary[Partition, _Pace] = weakref.WeakKeyDictionary()
        # Steps of the job whose steps are wanted.
        self._of_job: set[int] = set()
        self._collecting = 0

    def add(
        self, kind: Kind, name: str, about: str, start: int, end: int, step: int = 0, bytes: int = 0, flow: int = 0
    ) -> bool:
        """Note an event that took from `start` to `end`; False where the recording has ended."""
        if self.is_ended:
            return False
        if len(self._events) >= MOST_EVENTS:
            self.lost += 1
            return True
        # A tuple takes a third of the time of an Event.
        self._events.append((kind, name, about, start, end - start, threading.get_ident(), step, bytes, flow))
        return True

    @property
    def noted(self) -> int:
        """How many events there are, those of other jobs among them."""
        return len(self._events)

    def key(self, key: str) -> _Key:
        """Find what is known of a rendezvous key; all steps have the same, except in loops."""
        found = self._keys.get(key)
        if found is None:
            source, name = "", key
            parts = key.split(";")
            # What the client gives and gets has another form, and a peer may send what has none.
            if len(parts) > 3 and parts[0] != "client":
                source, name = parts[0], parts[3]
            comes = bool(source) and not source.startswith(self.prefix)
            found = _Key(comes, name, source.rpartition("/device:")[0], zlib.crc32(key.encode()))
            if len(self._keys) < MOST_EVENTS:
                self._keys[key] = found
        return found

    def takes(self, step: int) -> bool:
        """Tell whether a step is one that is recorded."""
        return step % self.every == 0

    def trace_of(self, partition: Partition, step: int) -> NodeTimes | None:
        """Give what times the nodes of a part that begins now; None where they are not to be timed in this step."""
        with self._lock:
            if not self._is_wanted(partition):
                return None
            if self.job and len(self._of_job) < MOST_EVENTS:
                self._of_job.add(step)
            pace = self._paces.setdefault(partition, _Pace())
            if not pace.is_due():
                return None
            self.traced += 1
        return NodeTimes(self, step)

    def ended(self, partition: Partition, step: int, taken_s: float, trace: StepTrace | None) -> None:
        """Note that a part has ended just now, and how long it has taken."""
        # Who began it may be gone: then nobody else asks.
        if self.is_over():
            return
        end = clock()
        start = end - int(taken_s * 1e9)
        with self._lock:
            if not self._is_wanted(partition):
                return
            pace = self._paces.setdefault(partition, _Pace())
        pace.took(end - start, trace is not None)
        name = "step" if trace is None else "step, nodes timed"
        if not self.add(Kind.PART, name, partition.session.handle, start, end, step):
            return
        with self._lock:
            self.steps += 1

    def updated(self, partition: Partition, between: int) -> None:
        """Note that a part has updated variables, and how many others had since it began."""
        with self._lock:
            if not self.is_ended and self._is_wanted(partition):
                self.updates += 1
                self.overtaken += between > 0
                self.between += between

    def spent(self, kind: Span, name: str, began: int, ended: int, step: int, size: int) -> None:
        """Note a span; `framework.spans` calls this."""
        if step % self.every == 0:
            self.add(_OF_SPAN[kind], name, kind if kind is Span.ENQUEUE else "", began, ended, step, size)

    def run(self, name: str, call: Callable[[], T], about: str = "") -> T:
        """Note a call of `Session.run`, which is made here."""
        began = clock()
        _INSIDE.run = True
        try:
            return call()
        finally:
            _INSIDE.run = False
            if not self.is_over() and self.add(Kind.RUN, name, about, began, clock()):
                with self._lock:
                    self.runs += 1

    @property
    def is_inside(self) -> bool:
        """Whether this thread is in a call that `run` notes."""
        return getattr(_INSIDE, "run", False)

    def _is_wanted(self, partition: Partition) -> bool:
        return not self.job or partition.session.job == self.job

    def is_over(self) -> bool:
        """Tell whether nothing is recorded any more; ends it when its time is over."""
        if not self.is_ended and clock() >= self._until:
            self.end()
        return self.is_ended

    def end(self) -> None:
        """Record nothing more."""
        global ACTIVE
        with _LOCK:
            self.is_ended = True
            if ACTIVE is self:
                ACTIVE = None
                spans.watch(None)
                with contextlib.suppress(ValueError):
                    gc.callbacks.remove(self.collected)

    def wanted(self, after: int = 0) -> list[Event]:
        """Give what was recorded, without what steps of other jobs did; `after` so many events of all."""
        found = map(Event._make, self._events[after:])
        return [event for event in found if not self.job or not event.step or event.step in self._of_job]

    def collected(self, phase: str, info: dict[str, int]) -> None:
        """Note a run of Python's collector; it calls this."""
        if phase == "start":
            self._collecting = clock()
        elif self._collecting:
            self.add(Kind.COLLECTION, f"generation {info['generation']}", "", self._collecting, clock())


ACTIVE: Recorder | None = None
"""What is recorded now."""
_LOCK = threading.RLock()
_INSIDE = threading.local()


def start(recorder: Recorder) -> None:
    """Record from now on.

    Raises:
        FailedPreconditionError: another recording has not ended.
    """
    global ACTIVE
    with _LOCK:
        if ACTIVE is not None and not ACTIVE.is_over():
            raise FailedPreconditionError("Another profile is being made of this task; wait for its end")
        ACTIVE = recorder
        spans.watch(recorder.spent)
        gc.callbacks.append(recorder.collected)


def rendezvous_of(
    recorder: Recorder, step: int, routes: Routes, transport: Transport | None
) -> tuple[LocalRendezvous, LocalRendezvous | RoutingRendezvous]:
    """Make the table of a step that begins while something is recorded, and what kernels use: see `Step`."""
    table = _RecordedTable(recorder, step)
    return table, table if transport is None else _RecordedRouting(recorder, table, step, routes, transport)


class _RecordedTable(LocalRendezvous):
    """A table that notes what arrives and what is waited for."""

    __slots__ = ("_recorder", "_step")

    def __init__(self, recorder: Recorder, step: int) -> None:
        super().__init__()
        self._recorder = recorder
        self._step = step

    def send(self, key: str, value: Any, dead: bool) -> None:
        known = self._recorder.key(key)
        if known.comes:
            now, size = clock(), getattr(value, "nbytes", 0)
            flow = _flow(self._step, known)
            self._recorder.add(Kind.ARRIVAL, known.name, known.source, now, now, self._step, size, flow)
        super().send(key, value, dead)

    def recv(self, key: str, cancellation: CancellationToken) -> tuple[Any, bool]:
        found = self.take(key)
        if found is not None:
            return found
        began = clock()
        try:
            return super().recv(key, cancellation)
        finally:
            self._waited(key, began)

    def first(self, keys: Sequence[str], cancellation: CancellationToken) -> int:
        found = self.found(keys)
        if found is not None:
            return found
        began, found = clock(), 0
        try:
            found = super().first(keys, cancellation)
            return found
        finally:
            self._waited(keys[found], began)

    def wait(self, came: Callable[[], str]) -> None:
        began, key = clock(), ""

        def noted() -> str:
            nonlocal key
            key = came()
            return key

        super().wait(noted)
        if key:
            self._waited(key, began)

    def _waited(self, key: str, began: int) -> None:
        known = self._recorder.key(key)
        flow = _flow(self._step, known)
        self._recorder.add(Kind.WAIT, known.name, known.source, began, clock(), self._step, 0, flow)


class _RecordedRouting(RoutingRendezvous):
    """The way to other tasks, with a note of what leaves."""

    __slots__ = ("_recorder",)

    def __init__(
        self, recorder: Recorder, table: LocalRendezvous, step: int, routes: Routes, transport: Transport
    ) -> None:
        super().__init__(table, step, routes, transport)
        self._recorder = recorder

    def send(self, key: str, value: Any, dead: bool) -> None:
        task = self._routes.task_of(key)
        if not task:
            self._table.send(key, value, dead)
            return
        began = clock()
        super().send(key, value, dead)
        known, size = self._recorder.key(key), getattr(value, "nbytes", 0)
        self._recorder.add(Kind.SEND, known.name, task, began, clock(), self._step, size, _flow(self._step, known))


def _flow(step: int, key: _Key) -> int:
    """Number a tensor of a step, alike in both tasks; never 0."""
    return (step << 32 ^ key.number) & 0x7FFF_FFFF_FFFF_FFFF or 1
