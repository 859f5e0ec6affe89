"""What comes over links from other tasks: tensors, steps to run, and how their parts of this task's own steps ended."""

from __future__ import annotations

import threading
from collections.abc import Callable

from dtfctl.protocol import worker_pb2
from dtfctl.runtime.executor.trace import StepTrace
from dtfctl.runtime.framework.errors import InvalidArgumentError, OpError
from dtfctl.runtime.rendezvous.frames import Frame, Kind, Message
from dtfctl.runtime.rendezvous.reactor import REACTOR
from dtfctl.runtime.rendezvous.transports.base import Link
from dtfctl.runtime.services.peers import Peers
from dtfctl.runtime.services.tasks import GRAPHS, RUN, TRACE
from dtfctl.runtime.services.worker import Worker, partition_graphs
from dtfctl.runtime.steps.part import Part
from dtfctl.runtime.steps.reports import report_of
from dtfctl.runtime.steps.step import Step
from dtfctl.runtime.steps.tally import CARRIED
from dtfctl.runtime.steps.threads import submit

# Looking a member up in its enumeration takes as long as much else here.
_TENSOR, _RUN, _DONE = Kind.TENSOR, Kind.RUN, Kind.DONE


class Exchange:
    """Owner of all links of a task.

    Args:
        done: called with a task's DONE frame.
    """

    def __init__(self, worker: Worker, peers: Peers, done: Callable[[str, Frame], None]) -> None:
        self._worker = worker
        self._peers = peers
        self._done = done
        self._lock = threading.Lock()
        # Steps the peer at the other end is the master of, by link; they end with it.
        self._steps: dict[Link, dict[int, None]] = {}

    def opened(self, link: Link) -> None:
        self._peers.opened(link)
        with self._lock:
            self._steps[link] = {}

    def received(self, link: Link, frame: Frame) -> None:
        kind = frame.kind
        CARRIED.receives(link.transport, frame)
        if kind is _TENSOR:
            self._worker.receive(frame)
        elif kind is _RUN:
            self._start(link, frame)
        elif kind is _DONE:
            self._done(link.peer_task, frame)
        elif kind is Kind.COLLECTIVE:
            self._worker.collectives.received(link.peer_task, frame.payload)
        elif kind is Kind.CANCEL:
            self._worker.cancel(frame.step)
        elif kind is Kind.CLEANUP:
            self._forget(link, frame.step)
            self._worker.cleanup(frame.step)
        elif kind is Kind.DECODED:
            self._peers.told(link.peer_task, frame)
        else:
            raise InvalidArgumentError(f"A frame {kind.name} came the wrong way")

    def ended(self, link: Link, error: OpError) -> None:
        """End and forget the steps that a peer started as their master, for it is gone."""
        with self._lock:
            steps = self._steps.pop(link, {})
        for step_id in list(steps):
            self._worker.cancel(step_id, error)
            self._worker.cleanup(step_id)
        self._peers.ended(link, error)

    def close(self) -> None:
        """Close all links."""
        with self._lock:
            links = list(self._steps)
        for link in links:
            link.close()

    # Steps of other tasks' masters ------------------------------------------------------------------------------------

    def _start(self, link: Link, frame: Frame) -> None:
        if len(frame.payload) != RUN.size:
            raise InvalidArgumentError(f"A RUN frame of {len(frame.payload)} bytes")
        handle, flags = RUN.unpack(frame.payload)
        steps = self._steps.get(link)
        if steps is None:
            return
        steps[frame.step] = None
        try:
            partition = self._worker.partition(handle)
            part = partition.unfed
            step = self._worker.begin(frame.step)
        except OpError as e:
            self._answer(link, frame.step, report_of(e))
            return
        step.peers.add(link.peer_task)
        if partition.is_light and not flags:
            REACTOR.run_soon(lambda: self._run(link, part, step, 0), submit)
        else:
            submit(self._run, link, part, step, flags)

    def _run(self, link: Link, part: Part, step: Step, flags: int) -> None:
        step_id = step.step_id
        trace = StepTrace() if flags & TRACE else None
        try:
            _, went = self._worker.run(
                part, step, (), trace, None if flags else (link.peer_task, Message(_DONE, step_id))
            )
        except OpError as e:
            self._answer(link, step_id, report_of(e))
            return
        if not flags:
            # All that was sent to this part has been received, so nothing is left of the step here.
            self._forget(link, step_id)
            self._worker.finish(step, part.partition)
            if not went:
                self._answer(link, step_id, None)
            return
        report = worker_pb2.StepReport()
        if trace is not None:
            report.step_stats.CopyFrom(trace.to_proto())
        if flags & GRAPHS:
            report.partition_graph.extend(partition_graphs(part.partition))
        self._answer(link, step_id, report)

    def _forget(self, link: Link, step_id: int) -> None:
        steps = self._steps.get(link)
        if steps is not None:
            steps.pop(step_id, None)

    def _answer(self, link: Link, step_id: int, report: worker_pb2.StepReport | None) -> None:
        payload = b"" if report is None else report.SerializeToString()
        try:
            link.send((Message(Kind.DONE, step_id, "", payload),))
        except OpError:
            # The master is gone; `ended` cleans up after it.
            return
