"""Run steps with the tasks of a session, from one thread of a client.

A step that only the master's task has a part in, or that must go through it, is one CALL to the master. A step over
several tasks of this host the client starts in all of them itself, and does what a coordinator says of it: the master
has planned it, and has no share in it but that of its own task (services/client_plans.py, services/client_parts.py).
"""

from __future__ import annotations

import itertools
import random
import secrets
import select
import time
from collections.abc import Callable, Sequence
from typing import Any

from dtfctl.net import reasons
from dtfctl.net.pings import SILENT_S, SILENT_TICKS, TICK_S
from dtfctl.protocol import worker_pb2
from dtfctl.runtime.client import records
from dtfctl.runtime.client.backend import as_host
from dtfctl.runtime.client.connection import Connection
from dtfctl.runtime.executor.keys import DEAD
from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.errors import (
    InternalError,
    InvalidArgumentError,
    OpError,
    UnavailableError,
    error_from_code,
)
from dtfctl.runtime.rendezvous.frames import Frame, Kind, Message
from dtfctl.runtime.rendezvous.patience import Patience
from dtfctl.runtime.rendezvous.transports.handshake import this_place
from dtfctl.runtime.services.client_parts import NUMBER
from dtfctl.runtime.services.compiled_step import check_feeds
from dtfctl.runtime.steps.coordinator import Coordinator, Do, Instructions, Parts
from dtfctl.runtime.steps.path import PathChoice, StepPath
from dtfctl.runtime.steps.reports import dead_fetch, error_of, located

Ask = Callable[[worker_pb2.OpenClientRequest], worker_pb2.OpenLinkResponse]
# Step ids leave the top seven bits clear, as those of masters.
_STEP_BITS = 56
_TENSOR, _DONE, _RUN = Kind.TENSOR, Kind.DONE, Kind.RUN


class Part:
    """A task's part of a signature.

    Attributes:
        definition: payload of a PARTITION frame.
        feeds, fetches: which of the signature's.
    """

    __slots__ = ("definition", "feeds", "fetches", "number", "payload", "task")

    def __init__(self, signature: Signature, number: int, proto: worker_pb2.ClientPart) -> None:
        self.task = proto.task
        self.number = number
        self.feeds, self.fetches = list(proto.feed), list(proto.fetch)
        self.payload = number.to_bytes(NUMBER, "little")
        self.definition = worker_pb2.ClientPartition(
            session=signature.session,
            number=number,
            handle=proto.handle,
            feed=[signature.feeds[i] for i in proto.feed],
            fetch=[signature.fetches[i] for i in proto.fetch],
            quiet=proto.quiet,
        ).SerializeToString()


class Plan:
    """How to run a signature.

    Attributes:
        parts: of all tasks, by task; none where the master is to be called.
        order: how they are started.
        path: which way steps go, and why.
    """

    def __init__(self, signature: Signature, proto: worker_pb2.ClientPlan, numbers: itertools.count[int]) -> None:
        self.master = proto.master
        self.parts = {part.task: Part(signature, next(numbers), part) for part in proto.part}
        self.order = Parts(list(self.parts), [part.task for part in proto.part if part.quiet])
        self.path = PathChoice(StepPath.CLIENT if self.parts else StepPath.CALL, proto.reason)
        self._signature = signature
        self._types = {n: dtypes.as_dtype(number) for n, number in zip(signature.feeds, proto.feed_type) if number}

    def check(self, values: Sequence[Any]) -> None:
        """Refuse values that do not fit the feeds.

        Raises:
            InvalidArgumentError.
        """
        feeds = self._signature.feeds
        if len(values) != len(feeds):
            raise InvalidArgumentError(f"Expected {len(feeds)} feed tensors, but got {len(values)}")
        check_feeds(zip(feeds, values), self._types)


class Signature:
    """What is run again and again.

    Attributes:
        number: its name in CALL frames.
        plan: None until the master has been asked.
    """

    def __init__(
        self,
        session: str,
        number: int,
        feeds: Sequence[str],
        fetches: Sequence[str],
        targets: Sequence[str],
        graph_key: int = 0,
    ) -> None:
        self.session = session
        self.number = number
        self.feeds, self.fetches, self.targets = list(feeds), list(fetches), list(targets)
        self.payload = number.to_bytes(NUMBER, "little")
        self.definition = worker_pb2.ClientSignature(
            session=session, number=number, feed=feeds, fetch=fetches, target=targets, graph_key=graph_key
        ).SerializeToString()
        self.plan: Plan | None = None


class StepRunner:
    """Connections to the master and to other tasks, used by one thread at a time.

    Args:
        session: its handle.
        ask: asks the master for a connection, over gRPC.

    Raises:
        OSError, OpError: the master cannot be reached in this way.
    """

    def __init__(self, session: str, ask: Ask) -> None:
        self._session = session
        self._calls = itertools.count(1)
        self._random = random.Random(secrets.randbits(64))
        self._patience = Patience()
        # The step or call that runs, and what has come of it.
        self._id = 0
        self._answer: Frame | None = None
        self._reply = b""
        self._coordinator: Coordinator | None = None
        self._values: dict[Connection, list[Any]] = {}
        # For how many ticks nothing has been heard of a task.
        self._silent: dict[Connection, int] = {}
        self._by_fd: dict[int, Connection] = {}
        # The master's too, once a plan has told which task that is.
        self._by_task: dict[str, Connection] = {}
        self._master_task = ""
        self._epoll = select.epoll()
        try:
            life = _new_life()
            self.master = self._connected(
                ask(worker_pb2.OpenClientRequest(place=this_place(), incarnation=life)), life, ""
            )
        except BaseException:
            self._epoll.close()
            raise

    # Connections ------------------------------------------------------------------------------------------------------

    @property
    def is_spoilt(self) -> bool:
        """True when the runner must be closed."""
        return any(connection.is_spoilt for connection in self._by_fd.values())

    def _connected(self, offer: worker_pb2.OpenLinkResponse, life: int, task: str) -> Connection:
        if not offer.unix_name:
            raise UnavailableError(f"{task or 'The master'} takes no connection but gRPC")
        connection = Connection(offer, life, task, self._received)
        self._by_fd[connection.fileno()] = connection
        self._epoll.register(connection.fileno(), select.EPOLLIN)
        return connection

    def _connect(self, task: str) -> None:
        """Connect to a task.

        Raises:
            OpError: it cannot be reached, or is not the one the session knows any more. OSError: see `call`.
        """
        life = _new_life()
        request = worker_pb2.OpenClientRequest(place=this_place(), incarnation=life, session=self._session, task=task)
        try:
            self._exchange([Message(Kind.OPEN, self._next_call(), "", request.SerializeToString())])
            offer = worker_pb2.OpenLinkResponse.FromString(self._reply)
            try:
                self._by_task[task] = self._connected(offer, life, task)
            except OSError as e:
                raise UnavailableError(f"{task} cannot be reached: {reasons.problem(e)}") from None
        except OpError as e:
            raise located(task, e) from None

    def _drop(self, connection: Connection) -> None:
        if self._by_task.get(connection.task) is connection:
            del self._by_task[connection.task]
        if self._by_fd.pop(connection.fileno(), None) is not None:
            self._epoll.unregister(connection.fileno())
            connection.close()

    def close(self) -> None:
        """Close all connections; what runs at their other ends is cancelled there."""
        for connection in self._by_fd.values():
            connection.close()
        self._by_fd.clear()
        self._epoll.close()

    # Through the master -----------------------------------------------------------------------------------------------

    def plan(self, signature: Signature, numbers: itertools.count[int]) -> Plan:
        """Ask the master how to run a signature.

        Raises:
            OpError: it cannot be run. OSError: see `call`.
        """
        self._exchange([Message(Kind.PLAN, self._next_call(), "", signature.definition)])
        return Plan(signature, worker_pb2.ClientPlan.FromString(self._reply), numbers)

    def call(self, signature: Signature, values: Sequence[Any]) -> list[Any]:
        """Have the master run a step.

        Raises:
            OpError: the step failed.
            OSError: the connection to the master did; the runner must be closed.
        """
        if records.OPEN is not None:
            records.hand_over(self.master)
        call = self._next_call()
        messages = []
        if signature.number not in self.master.known:
            self.master.known.add(signature.number)
            messages.append(Message(Kind.DEFINE, 0, "", signature.definition))
        for i, value in enumerate(values):
            messages.append(Message(_TENSOR, call, f"{i};0:0", value))
        messages.append(Message(Kind.CALL, call, "", signature.payload))
        fetched = self._exchange(messages)
        if len(fetched) != len(signature.fetches):
            raise InternalError("The master's answer lacks fetched tensors")
        return [as_host(value) for value in fetched]

    def _next_call(self) -> int:
        self._id = next(self._calls)
        return self._id

    def _exchange(self, messages: list[Message]) -> list[Any]:
        """Send to the master and wait for its answer: the values that came with it."""
        master, by_fd = self.master, self._by_fd
        self._answer = None
        fetched = self._values[master] = []
        try:
            master.send(messages)
            look, poll = self._patience.look, self._epoll.poll
            silent_s = 0.0
            while self._answer is None:
                # In ticks, as a signal that comes just before `poll` is handled only after it.
                events = look(poll) or poll(TICK_S)
                silent_s = 0.0 if events else silent_s + TICK_S
                if silent_s >= SILENT_S:
                    raise BlockingIOError
                for fd, _ in events:
                    if fd in by_fd:
                        self._receive(by_fd[fd])
        finally:
            self._values.clear()
        answer: Frame = self._answer
        if answer.payload:
            report = worker_pb2.StepReport.FromString(answer.payload)
            raise error_from_code(report.code, report.message)
        return fetched

    # Everywhere -------------------------------------------------------------------------------------------------------

    def run(self, signature: Signature, plan: Plan, values: Sequence[Any]) -> list[Any]:
        """Run a step by starting its part in each task; returns when all have ended.

        Raises:
            OpError: the step failed.
            OSError: the connection to the master did; the runner must be closed.
        """
        plan.check(values)
        if records.OPEN is not None:
            records.hand_over(self.master)
        by_fd, by_task = self._by_fd, self._by_task
        # What has happened since the last step, so that a task that is gone gets no part of this one.
        for fd, _ in self._epoll.poll(0):
            if fd in by_fd:
                self._receive(by_fd[fd])
        if self._master_task != plan.master:
            self._master_task = plan.master
            by_task[plan.master] = self.master
        for task in plan.parts:
            if task not in by_task:
                self._connect(task)
        self._id = self._random.getrandbits(_STEP_BITS) or 1
        coordinator = self._coordinator = Coordinator(plan.order)
        try:
            told = coordinator.begin()
            while told:
                do, task = told[0]
                if do is not Do.RUN:
                    task = self._obey(told)
                    if not task:
                        break
                if not self._start(plan.parts[task], values):
                    gone = UnavailableError(f"{task} {reasons.CLOSED}")
                    self._obey(coordinator.lost(task, located(task, gone), time.monotonic()))
                told = coordinator.started(task)
            self._wait(coordinator)
            error = coordinator.error
            if error is not None:
                error.add_note(f"The step over {len(plan.parts)} tasks: {coordinator.story()}")
                raise error
        finally:
            self._coordinator = None
            self._values.clear()
            self._silent.clear()
        results: list[Any] = [None] * len(signature.fetches)
        for task, part in plan.parts.items():
            # A quiet part fetches nothing, and says nothing.
            fetched = coordinator.results.get(task) or ()
            if len(fetched) != len(part.fetches):
                raise InternalError(f"The answer of {task} lacks fetched tensors")
            for i, value in zip(part.fetches, fetched):
                if value is DEAD:
                    raise dead_fetch(signature.fetches[i], signature.fetches)
                results[i] = as_host(value)
        return results

    def _start(self, part: Part, values: Sequence[Any]) -> bool:
        """Start a part; False where the task turns out to be gone."""
        connection, step = self._by_task.get(part.task), self._id
        if connection is None:
            return False
        messages = []
        if part.number not in connection.known:
            connection.known.add(part.number)
            messages.append(Message(Kind.PARTITION, 0, "", part.definition))
        for i, feed in enumerate(part.feeds):
            messages.append(Message(_TENSOR, step, f"{i};0:0", values[feed]))
        messages.append(Message(_RUN, step, "", part.payload))
        self._values[connection] = []
        try:
            connection.send(messages)
        except OSError:
            if connection is self.master:
                raise
            self._drop(connection)
            return False
        return True

    def _obey(self, instructions: Instructions) -> str:
        """Do what the coordinator says; gives the task whose part it wants to be run, if any."""
        to_run = ""
        for do, task in instructions:
            if do is Do.RUN:
                to_run = task
            elif do is not Do.FINISHED:
                self._tell(task, Kind.CANCEL if do is Do.CANCEL else Kind.CLEANUP)
        return to_run

    def _wait(self, coordinator: Coordinator) -> None:
        """Wait until the step has finished."""
        by_fd = self._by_fd
        look, poll, clock = self._patience.look, self._epoll.poll, time.monotonic
        next_tick = 0.0
        while not coordinator.is_finished:
            wait_s = TICK_S
            if coordinator.is_ending and coordinator.ends_by is not None:
                wait_s = min(max(coordinator.ends_by - clock(), 0.0), TICK_S)
            for fd, _ in look(poll) or poll(wait_s):
                if fd in by_fd:
                    self._receive(by_fd[fd])
            if coordinator.is_finished:
                return
            now = clock()
            if now >= next_tick:
                if next_tick:
                    self._tick(coordinator)
                next_tick = now + TICK_S
            if coordinator.is_ending:
                self._obey(coordinator.tick(now))

    def _tick(self, coordinator: Coordinator) -> None:
        """Give up those that have been silent for too long. Counted, as a client that was held up has not listened."""
        for task in coordinator.pending:
            connection = self._by_task.get(task)
            if connection is None:
                continue
            ticks = self._silent[connection] = self._silent.get(connection, 0) + 1
            if ticks > SILENT_TICKS:
                if connection is self.master:
                    raise BlockingIOError
                self._lose(connection, UnavailableError(f"{task} {reasons.silent(SILENT_S)} in a step"))

    def _tell(self, task: str, kind: Kind) -> None:
        connection = self._by_task.get(task)
        if connection is None:
            return
        try:
            connection.send([Message(kind, self._id)])
        except OSError as e:
            if connection is self.master:
                raise
            self._lose(connection, UnavailableError(f"{task} cannot be told: {reasons.problem(e)}"))

    # What comes -------------------------------------------------------------------------------------------------------

    def _receive(self, connection: Connection) -> None:
        if self._silent:
            self._silent.pop(connection, None)
        try:
            connection.receive()
        except (OSError, OpError) as e:
            if connection is self.master:
                if isinstance(e, OpError):
                    raise ConnectionError(e.message) from None
                raise
            reason = e.message if isinstance(e, OpError) else reasons.problem(e)
            self._lose(connection, UnavailableError(f"The connection to {connection.task} is lost: {reason}"))

    def _received(self, connection: Connection, frame: Frame) -> None:
        kind = frame.kind
        if kind is Kind.RECORD:
            if connection is self.master:
                records.told(connection, frame.payload)
        elif kind is Kind.LOST:
            lost = worker_pb2.LostTask.FromString(frame.payload)
            found = self._by_task.get(lost.task)
            if found is not None and found is not self.master and found.incarnation == lost.incarnation:
                self._lose(found, error_from_code(lost.code, lost.message))
        elif frame.step != self._id:
            # Of a step that was given up.
            return
        elif kind is _DONE:
            self._ended(connection, frame.payload)
        elif kind is _TENSOR:
            if connection in self._values:
                self._values[connection].append(DEAD if frame.dead else frame.value)
        elif kind is Kind.ANSWER:
            self._answer = frame
        else:
            self._reply = frame.payload

    def _ended(self, connection: Connection, payload: bytes) -> None:
        """Take in how a part has ended."""
        coordinator = self._coordinator
        if coordinator is None:
            return
        task = connection.task or self._master_task
        error = error_of(task, worker_pb2.StepReport.FromString(payload)) if payload else None
        if error is None:
            told = coordinator.done(task, self._values.get(connection))
            if told:
                self._obey(told)
        else:
            self._obey(coordinator.failed(task, error, time.monotonic()))

    def _lose(self, connection: Connection, error: OpError) -> None:
        """Go on without a task that cannot answer any more."""
        self._drop(connection)
        if self._coordinator is not None:
            task = connection.task
            self._obey(self._coordinator.lost(task, located(task, error), time.monotonic()))


def _new_life() -> int:
    return secrets.randbits(63) | 1
