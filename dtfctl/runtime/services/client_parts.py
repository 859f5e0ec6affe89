"""What a client runs in this task itself: parts of steps that it starts in several tasks at once, without their master.

The master has registered the partitions and has told the client of them (client_plans.py). On its connection to this
task the client says once what a number means (PARTITION), and then sends what is fed here and a RUN, and gets what is
fetched here and a DONE: empty, or a StepReport with an error. A quiet part, without which others of the step cannot
end, sends one only when it has failed, or is cancelled and has ended already. The client collects how the parts ended,
cancels those that go on after an error, and has them forgotten (CANCEL, CLEANUP), as a master does with the workers it
runs steps on.
"""

from __future__ import annotations

import contextlib
import logging
from functools import partial
from typing import Any

import numpy as np

from dtfctl.protocol import worker_pb2
from dtfctl.runtime.executor.keys import DEAD
from dtfctl.runtime.framework.errors import (
    AbortedError,
    CancelledError,
    InternalError,
    InvalidArgumentError,
    OpError,
)
from dtfctl.runtime.rendezvous.frames import Frame, Kind, Message
from dtfctl.runtime.rendezvous.reactor import REACTOR
from dtfctl.runtime.rendezvous.transports.base import Link
from dtfctl.runtime.services.worker import Worker
from dtfctl.runtime.steps.part import Part
from dtfctl.runtime.steps.reports import report_of
from dtfctl.runtime.steps.step import Step
from dtfctl.runtime.steps.threads import submit

log = logging.getLogger(__name__)
NUMBER = 8
# Partitions a client may define on one connection; then it must make another.
MAX_PARTITIONS = 1 << 16


class _Part:
    """A partition as a client runs it: with values in the client's order.

    Raises:
        OpError: it is not known, is not of that session, or has other feeds and fetches than the client thinks.
    """

    def __init__(self, worker: Worker, proto: worker_pb2.ClientPartition) -> None:
        self.partition = worker.partition(proto.handle)
        if self.partition.session.handle != proto.session:
            raise AbortedError(f"Graph handle is not found: {proto.handle}. It is not of session {proto.session}.")
        self.is_quiet = proto.quiet
        self._worker = worker
        self._feeds = len(proto.feed)
        self._part = Part(self.partition, list(proto.feed), list(proto.fetch))

    def run(self, step: Step, values: list[Any]) -> list[Any]:
        """Give the fetched values, `DEAD` for those on a branch not taken.

        Raises:
            OpError: what ended the step in this task, which is then cancelled.
        """
        if len(values) != self._feeds:
            raise InvalidArgumentError(f"Expected {self._feeds} feed tensors, but got {len(values)}")
        return self._worker.run(self._part, step, values)[0]


class ClientParts:
    """The parts that clients run, of one connection."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._known: dict[int, _Part | OpError] = {}
        # Steps that were started and are not forgotten.
        self._steps: dict[int, Step] = {}

    @property
    def is_busy(self) -> bool:
        return bool(self._steps)

    def define(self, frame: Frame) -> None:
        """Take a PARTITION frame: keep the part, or the error in it, under its number.

        Raises:
            InvalidArgumentError: it makes no sense.
        """
        try:
            proto = worker_pb2.ClientPartition.FromString(frame.payload)
        except Exception as e:
            raise InvalidArgumentError(f"A client's partition cannot be read: {e}") from None
        if len(self._known) >= MAX_PARTITIONS:
            raise InvalidArgumentError("A client defines too many partitions on one connection")
        try:
            self._known[proto.number] = _Part(self._worker, proto)
        except OpError as e:
            self._known[proto.number] = e

    def start(self, link: Link, frame: Frame, values: list[Any]) -> None:
        """Start the part that a RUN frame names, with what was fed before it.

        Raises:
            InvalidArgumentError: it makes no sense.
        """
        part = self._known.get(int.from_bytes(frame.payload, "little"))
        if part is None or len(frame.payload) != NUMBER:
            raise InvalidArgumentError("A client runs a partition that it has not defined")
        step_id = frame.step
        try:
            if isinstance(part, OpError):
                raise part
            step = self._worker.begin(step_id)
        except OpError as e:
            self._failed(link, step_id, e)
            return
        # Whose end is the step's, so it is no orphan.
        step.peers.add(link.peer_task)
        self._steps[step_id] = step
        step.late = partial(self._given_up, link, step_id)
        if part.partition.is_light:
            REACTOR.run_soon(lambda: self._run(link, part, step, values), submit)
        else:
            submit(self._run, link, part, step, values)

    def cancel(self, link: Link, step_id: int) -> None:
        if step_id in self._steps:
            self._worker.cancel(step_id)
        else:
            # The client waits for an answer of a part that may have ended quietly.
            with contextlib.suppress(OpError):
                link.send((Message(Kind.DONE, step_id),))

    def forget(self, step_id: int) -> None:
        if step_id in self._steps:
            del self._steps[step_id]
            self._worker.cleanup(step_id)

    def ended(self, error: OpError) -> None:
        """End and forget what the client runs, which is gone."""
        for step_id in list(self._steps):
            self._worker.cancel(step_id, error)
            self.forget(step_id)
        self._known.clear()

    def _given_up(self, link: Link, step_id: int) -> None:
        """Tell the client that it need not wait for a part that was told to end and goes on."""
        step = self._steps.get(step_id)
        if step is not None and step.late is not None:
            step.late = None
            self._failed(link, step_id, step.token.reason or CancelledError("Step was cancelled", derived=True))

    def _run(self, link: Link, part: _Part, step: Step, values: list[Any]) -> None:
        step_id, session = step.step_id, part.partition.session
        try:
            session.enter(step.token)
            try:
                fetched = part.run(step, values)
                if step.token.reason is not None:
                    raise step.token.reason
            finally:
                step.late = None
                session.leave(step.token)
            # A step that has ended for its client has left nothing behind.
            self._steps.pop(step_id, None)
            self._worker.finish(step, part.partition)
            if not part.is_quiet:
                send_fetched(link, step_id, fetched, Message(Kind.DONE, step_id))
        except OpError as e:
            self._failed(link, step_id, e)
        except Exception as e:
            log.exception("a part of a client's step failed")
            self._failed(link, step_id, InternalError(f"{type(e).__name__}: {e}"))

    def _failed(self, link: Link, step_id: int, error: OpError) -> None:
        try:
            link.send((Message(Kind.DONE, step_id, "", report_of(error).SerializeToString()),))
        except OpError:
            # The client is gone; `ended` cleans up after it.
            return


def send_fetched(link: Link, step: int, values: list[Any], last: Message) -> None:
    """Send fetched values to a client, and what ends the step.

    Raises:
        InvalidArgumentError: a value cannot leave its task; `last` is not sent then. UnavailableError: the client is
            gone.
    """
    if not values:
        link.send((last,))
        return
    messages = []
    is_sure = True
    for i, value in enumerate(values):
        if value is DEAD:
            messages.append(Message(Kind.TENSOR, step, f"{i};0:0", None, True))
            continue
        value = value if hasattr(value, "dtype") else np.asarray(value)
        is_sure = is_sure and not value.dtype.hasobject
        messages.append(Message(Kind.TENSOR, step, f"{i};0:0", value))
    if is_sure:
        link.send((*messages, last))
    else:
        # What cannot be encoded is left out, and the rest is sent all the same.
        link.send(messages)
        link.send((last,))
