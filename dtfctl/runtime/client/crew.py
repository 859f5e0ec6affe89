"""The tasks of a session as one thread of a client runs steps with them.

A step that only the master's task has a part in, or that must go through it, is one CALL to the master. A step over
several tasks of this host the client starts in all of them at once, and collects how their parts ended: the master has
planned it, and has no share in it but that of its own task (services/client_plans.py, services/client_parts.py).
"""

from __future__ import annotations

import itertools
import random
import secrets
import select
import time
from collections.abc import Callable, Sequence
from typing import Any

from dtfctl.protocol import worker_pb2
from dtfctl.runtime.client.backend import as_host
from dtfctl.runtime.client.connection import SILENCE_S, Connection
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
from dtfctl.runtime.services.direct import dead_fetch
from dtfctl.runtime.steps.coordinator import first_error
from dtfctl.runtime.steps.grace import grace_s

Ask = Callable[[worker_pb2.OpenClientRequest], worker_pb2.OpenLinkResponse]
_TICK_S = 1.0
# Step ids leave the top seven bits clear, as those of masters.
_STEP_BITS = 56
_TENSOR, _DONE, _RUN = Kind.TENSOR, Kind.DONE, Kind.RUN


class Part:
    """A task's part of a signature.

    Attributes:
        definition: payload of a PARTITION frame.
        feeds, fetches: which of the signature's.
        is_quiet: its end is told by others; see `services.client_plans`.
    """

    __slots__ = ("definition", "feeds", "fetches", "is_quiet", "number", "payload", "task")

    def __init__(self, signature: Signature, number: int, proto: worker_pb2.ClientPart) -> None:
        self.task = proto.task
        self.number = number
        self.feeds, self.fetches = list(proto.feed), list(proto.fetch)
        self.payload = number.to_bytes(NUMBER, "little")
        self.is_quiet = proto.quiet
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
        parts: of all tasks; none where the master is to be called.
        reason: why it is to be called.
    """

    def __init__(self, signature: Signature, proto: worker_pb2.ClientPlan, numbers: itertools.count[int]) -> None:
        self.master = proto.master
        self.parts = [Part(signature, next(numbers), part) for part in proto.part]
        self.reason = proto.reason
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

    def __init__(self, session: str, number: int, feeds: Sequence[str], fetches: Sequence[str], targets: Sequence[str]):
        self.session = session
        self.number = number
        self.feeds, self.fetches = list(feeds), list(fetches)
        self.payload = number.to_bytes(NUMBER, "little")
        self.definition = worker_pb2.ClientSignature(
            session=session, number=number, feed=feeds, fetch=fetches, target=targets
        ).SerializeToString()
        self.plan: Plan | None = None


class Crew:
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
        self._pending: dict[Connection, Part] = {}
        # Parts that are heard of only if something fails.
        self._quiet: dict[Connection, Part] = {}
        self._values: dict[Connection, list[Any]] = {}
        self._errors: list[OpError] = []
        self._give_up_at = 0.0
        # For how many ticks nothing has been heard of a task.
        self._silent: dict[Connection, int] = {}
        self._by_fd: dict[int, Connection] = {}
        self._by_task: dict[str, Connection] = {}
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
        """True when the crew must be closed."""
        return any(connection.is_spoilt for connection in self._by_fd.values())

    def _connected(self, offer: worker_pb2.OpenLinkResponse, life: int, task: str) -> Connection:
        if not offer.unix_name:
            raise UnavailableError(f"{task or 'The master'} takes no connection but gRPC")
        connection = Connection(offer, life, task, self._received)
        self._by_fd[connection.fileno()] = connection
        self._epoll.register(connection.fileno(), select.EPOLLIN)
        return connection

    def _connect(self, task: str) -> None:
        """Be connected to a task.

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
                raise UnavailableError(f"{task} cannot be reached: {e.strerror or e}") from None
        except OpError as e:
            raise _from(task, e) from None

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
            OSError: the connection to the master did; the crew must be closed.
        """
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
                events = look(poll) or poll(_TICK_S)
                silent_s = 0.0 if events else silent_s + _TICK_S
                if silent_s >= SILENCE_S:
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
            OSError: the connection to the master did; the crew must be closed.
        """
        plan.check(values)
        by_fd, by_task = self._by_fd, self._by_task
        # What has happened since the last step, so that a task that is gone gets no part of this one.
        for fd, _ in self._epoll.poll(0):
            if fd in by_fd:
                self._receive(by_fd[fd])
        for part in plan.parts:
            if part.task not in by_task and part.task != plan.master:
                self._connect(part.task)
        step = self._id = self._random.getrandbits(_STEP_BITS) or 1
        started: list[tuple[Connection, Part, list[Any]]] = []
        try:
            for part in plan.parts:
                connection = self.master if part.task == plan.master else by_task.get(part.task)
                fetched: list[Any] = []
                if connection is None or not self._start(connection, step, part, values, fetched):
                    self._failed(_from(part.task, UnavailableError(f"{part.task} closed the connection")))
                    break
                started.append((connection, part, fetched))
            self._wait()
            error = first_error(self._errors)
            if error is not None:
                for connection, _, _ in started:
                    self._tell(connection, Kind.CLEANUP)
                raise error
        finally:
            self._pending.clear()
            self._quiet.clear()
            self._values.clear()
            self._silent.clear()
            self._errors.clear()
            self._give_up_at = 0.0
        results: list[Any] = [None] * len(signature.fetches)
        for _, part, fetched in started:
            if len(fetched) != len(part.fetches):
                raise InternalError(f"The answer of {part.task} lacks fetched tensors")
            for i, value in zip(part.fetches, fetched):
                if value is DEAD:
                    raise dead_fetch(signature.fetches[i], signature.fetches)
                results[i] = as_host(value)
        return results

    def _start(self, connection: Connection, step: int, part: Part, values: Sequence[Any], fetched: list[Any]) -> bool:
        """Start a part; False where the task turns out to be gone."""
        messages = []
        if part.number not in connection.known:
            connection.known.add(part.number)
            messages.append(Message(Kind.PARTITION, 0, "", part.definition))
        for i, feed in enumerate(part.feeds):
            messages.append(Message(_TENSOR, step, f"{i};0:0", values[feed]))
        messages.append(Message(_RUN, step, "", part.payload))
        waiting = self._quiet if part.is_quiet else self._pending
        waiting[connection] = part
        self._values[connection] = fetched
        try:
            connection.send(messages)
        except OSError:
            if connection is self.master:
                raise
            del waiting[connection]
            self._drop(connection)
            return False
        return True

    def _wait(self) -> None:
        """Until all parts have ended; once one has failed, at most its grace longer."""
        pending, by_fd = self._pending, self._by_fd
        look, poll, clock = self._patience.look, self._epoll.poll, time.monotonic
        next_tick = 0.0
        while pending:
            for fd, _ in look(poll) or poll(_TICK_S):
                if fd in by_fd:
                    self._receive(by_fd[fd])
            if not pending:
                return
            now = clock()
            if now >= next_tick:
                if next_tick:
                    self._tick()
                next_tick = now + _TICK_S
            if self._give_up_at and now > self._give_up_at:
                for part in pending.values():
                    late = f"{part.task} did not end its part in time after cancelling"
                    self._errors.append(UnavailableError(late, derived=True))
                pending.clear()

    def _tick(self) -> None:
        """Give up those that have been silent for too long. Counted, as a client that was held up has not listened."""
        for connection, part in list(self._pending.items()):
            ticks = self._silent[connection] = self._silent.get(connection, 0) + 1
            if ticks > SILENCE_S:
                if connection is self.master:
                    raise BlockingIOError
                self._lose(connection, UnavailableError(f"{part.task} has been silent for {ticks} s in a step"))

    def _tell(self, connection: Connection, kind: Kind) -> None:
        if connection.fileno() not in self._by_fd:
            return
        try:
            connection.send([Message(kind, self._id)])
        except OSError as e:
            if connection is self.master:
                raise
            self._lose(connection, UnavailableError(f"{connection.task} cannot be told: {e.strerror or e}"))

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
            reason = e.message if isinstance(e, OpError) else str(e.strerror or e)
            self._lose(connection, UnavailableError(f"The connection to {connection.task} is lost: {reason}"))

    def _received(self, connection: Connection, frame: Frame) -> None:
        kind = frame.kind
        if kind is Kind.LOST:
            lost = worker_pb2.LostTask.FromString(frame.payload)
            found = self._by_task.get(lost.task)
            if found is not None and found.incarnation == lost.incarnation:
                self._lose(found, error_from_code(lost.code, lost.message))
        elif frame.step != self._id:
            # Of a step that was given up.
            return
        elif kind is _DONE:
            part = self._take(connection)
            if part is not None and frame.payload:
                report = worker_pb2.StepReport.FromString(frame.payload)
                text = f"From {part.task}:\n{report.message}"
                self._failed(error_from_code(report.code, text, derived=report.derived))
        elif kind is _TENSOR:
            if connection in self._values:
                self._values[connection].append(DEAD if frame.dead else frame.value)
        elif kind is Kind.ANSWER:
            self._answer = frame
        else:
            self._reply = frame.payload

    def _take(self, connection: Connection) -> Part | None:
        """The part that has not ended there; it has now."""
        return self._pending.pop(connection, None) or self._quiet.pop(connection, None)

    def _lose(self, connection: Connection, error: OpError) -> None:
        """A task cannot answer any more."""
        self._drop(connection)
        part = self._take(connection)
        if part is not None:
            self._failed(_from(part.task, error))

    def _failed(self, error: OpError) -> None:
        """A part has failed: unless that only follows from something else, the others are to end."""
        self._errors.append(error)
        told = list(self._quiet)
        # Cancelled, these say how they have ended.
        self._pending.update(self._quiet)
        self._quiet.clear()
        if not error.derived and not self._give_up_at:
            self._give_up_at = time.monotonic() + grace_s(error)
            told = list(self._pending)
        for connection in told:
            self._tell(connection, Kind.CANCEL)


def _new_life() -> int:
    return secrets.randbits(63) | 1


def _from(task: str, error: OpError) -> OpError:
    return error_from_code(error.error_code, f"From {task}:\n{error.message}")
