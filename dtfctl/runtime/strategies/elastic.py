"""Training by workers that come and go: who is in the group, and what happens when that changes.

The first worker calls the roll. Workers ask it to be in the group, and it answers all who have asked with the same
list; each then builds a graph for that group and trains. When a step fails, or somebody new asks, everybody asks again,
and those who do are the next group. What a worker's task has in memory stays there in between, so the new group goes on
from whoever is furthest (see group_sessions).
"""

from __future__ import annotations

import contextlib
import json
import logging
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from dtfctl import guard
from dtfctl.errors import Signal
from dtfctl.protocol.config_pb2 import ConfigProto, RunOptions
from dtfctl.runtime.client.session import Session
from dtfctl.runtime.framework import context, dtypes
from dtfctl.runtime.framework.errors import (
    AbortedError,
    CancelledError,
    DeadlineExceededError,
    OpError,
    UnavailableError,
)
from dtfctl.runtime.framework.graph import Graph
from dtfctl.runtime.ops.array_ops import placeholder, placeholder_with_default
from dtfctl.runtime.ops.data_flow_ops.queues import FIFOQueue
from dtfctl.runtime.strategies.multi_worker import MultiWorkerExtended, MultiWorkerMirroredStrategy, workers_of
from dtfctl.runtime.strategies.strategy import Strategy
from dtfctl.runtime.train.cluster_resolver import SimpleClusterResolver, TFConfigClusterResolver
from dtfctl.runtime.train.server_lib import ClusterSpec
from dtfctl.runtime.train.session_run_hook import SessionRunArgs, SessionRunHook

log = logging.getLogger("dtfctl.train")

LOST = (AbortedError, UnavailableError, CancelledError, DeadlineExceededError)
_LOOK_S, _WAIT_S, _WATCH_S = 0.01, 0.5, 1.0


class GroupChangedError(Signal):
    """The group that a graph was built for is no more; `run_elastic` catches it and builds another."""


@dataclass(frozen=True)
class Group:
    """Who trains together.

    Attributes:
        number: another one for each group.
        members: the indices of their tasks, in order.
    """

    number: int
    members: tuple[int, ...]


class Roll:
    """Where workers ask to be in the group, and are answered: queues on the first worker's task.

    Args:
        resolver: knows the cluster and this process's task.
        name: of what trains; another job on the same tasks has another.
    """

    def __init__(self, resolver: Any, name: str) -> None:
        workers = workers_of(resolver)
        self.job, self.own = workers[0][0], resolver.task_id
        self._name, self._first = f"elastic_{name}", workers[0][1]
        self._master = resolver.master()
        self.is_caller = self.own == self._first

    def queue(self, name: str, dtype: Any = dtypes.string) -> FIFOQueue:
        """Make, in the default graph, a queue of scalars on the first worker's task."""
        with context.get_default_graph().container(""):
            return FIFOQueue(-1, [dtype], shapes=[[]], shared_name=f"{self._name}_{name}", name=name)

    @contextlib.contextmanager
    def session(self) -> Iterator[tuple[Graph, Session]]:
        """Open a session of a graph of its own, whose ops are on the first worker's task."""
        config = ConfigProto(isolate_session_state=False)
        for task in {self._first, self.own}:
            config.device_filters.append(f"/job:{self.job}/task:{task}")
        graph = Graph()
        with (
            graph.as_default(),
            graph.device(f"/job:{self.job}/task:{self._first}/device:CPU:0"),
            Session(self._master, graph=graph, config=config) as session,
        ):
            yield graph, session

    def ask(self) -> Group | None:
        """Ask to be in the next group and wait for the answer; None when training is over.

        Tries again while the first worker's task is away.
        """
        while True:
            try:
                return self._ask()
            except CancelledError:
                return None
            except LOST as e:
                log.info("The first worker is away; asking it again: %s", e.message)
                time.sleep(_WAIT_S)

    def _ask(self) -> Group | None:
        # An answer is for one question: a worker that died left none that its successor would take for its own.
        question = secrets.token_hex(8)
        with self.session() as (_, session):
            answers = self.queue(f"answer_{question}")
            answer, close = answers.dequeue(), answers.close()
            session.run(self.queue("asked").enqueue(json.dumps([self.own, question])))
            told = json.loads(session.run(answer))
            session.run(close)
        return Group(told["number"], tuple(told["members"])) if told else None

    def call(self, expected: set[int], fewest: int, patience_s: float) -> Group:
        """Answer those who have asked: all that are expected, or who did in time.

        Args:
            expected: the tasks that are waited for, at most so long.
            fewest: so many are waited for without end; this worker is one of them.
        """
        asked: dict[int, str] = {}
        until = time.monotonic() + patience_s
        with self.session() as (_, session):
            queue = self.queue("asked")
            size, some = queue.size(), queue.dequeue()
            while True:
                for _ in range(int(session.run(size))):
                    worker, question = json.loads(session.run(some))
                    asked[worker] = question
                waits = not expected - {self.own} <= asked.keys() and time.monotonic() < until
                if not waits and len(asked) + 1 >= fewest:
                    break
                time.sleep(_LOOK_S)
            group = Group(secrets.randbits(29), tuple(sorted({self.own, *asked})))
            self._answer(session, asked, {"number": group.number, "members": group.members})
        return group

    def close(self) -> None:
        """Say that training is over: to those who wait, and to all who ask later."""
        with self.session() as (_, session):
            queue = self.queue("asked")
            size, some = queue.size(), queue.dequeue()
            waiting = dict(json.loads(session.run(some)) for _ in range(int(session.run(size))))
            session.run(queue.close())
            self._answer(session, waiting, None)

    def _answer(self, session: Session, asked: dict[int, str], answer: Any) -> None:
        text = placeholder(dtypes.string, [])
        tell = [self.queue(f"answer_{question}").enqueue(text) for question in asked.values()]
        if tell:
            session.run(tell, {text: json.dumps(answer)})


class _Watch:
    """Ends the wait for the others where one of them is lost before it has come: nothing else tells that.

    Args:
        tasks: of the group's members, by name.
        patience_s: how long they are waited for.
    """

    def __init__(self, master: str, tasks: list[str], patience_s: float) -> None:
        self._master, self._tasks, self._patience_s = master, tasks, patience_s

    @contextlib.contextmanager
    def __call__(self, session: Session) -> Iterator[None]:
        met = threading.Event()
        watcher = guard.once(lambda: self._watch(session, met), name="elastic-watch")
        watcher.start()
        try:
            yield
        finally:
            met.set()
            watcher.join()

    def _watch(self, session: Session, met: threading.Event) -> None:
        until = time.monotonic() + self._patience_s
        while not met.wait(_WATCH_S):
            if time.monotonic() > until or not self._are_there():
                session.close()
                return

    def _are_there(self) -> bool:
        graph, config = Graph(), ConfigProto(device_filters=self._tasks)
        try:
            with graph.as_default(), Session(self._master, graph=graph, config=config) as session:
                there = []
                for task in self._tasks:
                    with graph.device(f"{task}/device:CPU:0"):
                        there.append(placeholder_with_default(0, []))
                session.run(there, options=RunOptions(timeout_in_ms=int(_WAIT_S * 4000)))
        except LOST as e:
            log.info("A worker was lost before the group has met: %s", e.message)
            return False
        return True


class _LookForOthers(SessionRunHook):
    """Ends the first worker's step, and so everybody's, when somebody asks to be in the group."""

    def __init__(self, roll: Roll) -> None:
        self._roll = roll

    def begin(self) -> None:
        self._size = self._roll.queue("asked").size()

    def before_run(self, run_context: Any) -> SessionRunArgs:
        return SessionRunArgs(self._size)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        if run_values.results:
            raise GroupChangedError("somebody asks to be in the group")


class _OneSession:
    """Makes one session: when that is lost, so is the group."""

    def __init__(self, creator: Any) -> None:
        self._creator, self._made = creator, False

    def create_session(self) -> Any:
        if self._made:
            raise GroupChangedError("a worker was lost")
        self._made = True
        try:
            return self._creator.create_session()
        except LOST as e:
            raise GroupChangedError(f"a worker was lost before the first step: {e.message}") from e


class ElasticStrategy(MultiWorkerMirroredStrategy):
    """A MultiWorkerMirroredStrategy of one group; `run_elastic` makes one for each."""

    def __init__(self, resolver: Any, group: Group, roll: Roll, options: Any, meet_s: float) -> None:
        cluster = resolver.cluster_spec().as_dict()[roll.job]
        addresses = dict(cluster.items() if isinstance(cluster, dict) else enumerate(cluster))
        members = SimpleClusterResolver(
            ClusterSpec({roll.job: {i: addresses.get(i, "") for i in group.members}}),
            master=resolver.master(),
            task_type=roll.job,
            task_id=roll.own,
        )
        Strategy.__init__(self, _ElasticExtended(self, members, group, roll, options, meet_s))


class _ElasticExtended(MultiWorkerExtended):
    def __init__(self, container: Any, resolver: Any, group: Group, roll: Roll, options: Any, meet_s: float) -> None:
        self._roll = roll
        self._watch = _Watch(resolver.master(), [f"/job:{roll.job}/task:{i}" for i in group.members], meet_s)
        super().__init__(container, resolver, options, first_key=2 * group.number + 1)

    def session_creator(self, *arguments: Any) -> Any:
        creator = self.group_session_creator(*arguments)
        creator.watching = self._watch
        return _OneSession(creator)

    def session_hooks(self) -> list[SessionRunHook]:
        return [_LookForOthers(self._roll)] if self._roll.is_caller else []


@contextlib.contextmanager
def _graph_of(group: Group) -> Iterator[None]:
    """Build a graph whose variables are those of the groups before; all else, as iterators, is the group's own."""
    graph = Graph()

    def shared(next_creator: Callable[..., Any], **arguments: Any) -> Any:
        with graph.container(""):
            return next_creator(**arguments)

    with graph.as_default(), graph.container(f"group_{group.number}"), graph.variable_creator_scope(shared):
        yield


def run_elastic(
    train: Callable[[Any], Any],
    cluster_resolver: Any = None,
    *,
    fewest: int = 1,
    begin_s: float = 30.0,
    patience_s: float = 1.0,
    meet_s: float = 120.0,
    name: str = "",
    communication_options: Any = None,
) -> Any:
    """Train by all workers that are there, again and again until `train` returns.

    `train(strategy)` is called in a new graph whenever the group changes: a worker was lost, or one has come. It builds
    the model in the strategy's scope and runs it in a `tf.train.MonitoredTrainingSession`, whose steps go on from what
    the group's members have in memory. What it keeps in Python it should keep outside.

    Every worker runs the same program. The first one must be there: while it is away the others wait for it.

    Args:
        cluster_resolver: knows the cluster, with all workers that may ever come, and this process's task; TF_CONFIG
            when None.
        fewest: how many workers there must be; fewer wait.
        begin_s: how long the first group waits for all workers of the cluster, in seconds.
        patience_s: how long a later group waits for those of the one before.
        meet_s: how long a group waits until all its members have built their graphs.
        name: of what trains, the same in all workers; another program on the same tasks has another.

    Returns:
        what `train` returned; None in a worker that came when training was over.

    Raises:
        ValueError: this process is no worker of a cluster.
    """
    resolver = cluster_resolver or TFConfigClusterResolver()
    workers = workers_of(resolver)
    if (resolver.task_type, resolver.task_id) not in workers or len({job for job, _ in workers}) != 1:
        raise ValueError(
            "run_elastic runs in a worker of a cluster without a chief: set TF_CONFIG, or give a cluster_resolver; "
            f"this is {resolver.task_type}/{resolver.task_id}"
        )
    roll = Roll(resolver, name)
    expected, patience = {index for _, index in workers}, begin_s
    while True:
        group = roll.call(expected, fewest, patience) if roll.is_caller else roll.ask()
        if group is None:
            return None
        log.info("Training goes on with workers %s", ", ".join(map(str, group.members)))
        try:
            with _graph_of(group):
                result = train(ElasticStrategy(resolver, group, roll, communication_options, meet_s))
        except GroupChangedError as e:
            log.info("The group of workers changes: %s", e)
            expected, patience = set(group.members), patience_s
            continue
        except OpError as e:
            if not isinstance(e, LOST):
                raise
            log.info("The group of workers changes: %s", e.message)
            expected, patience = set(group.members), patience_s
            continue
        if roll.is_caller:
            roll.close()
        return result
