"""One client session in its master: the graph, the steps compiled from it, and the steps that run."""

from __future__ import annotations

import logging
import random
import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from dtfctl.protocol import config_pb2, device_pb2, graph_pb2, graphs_pb2, stats_pb2, worker_pb2
from dtfctl.runtime.executor.trace import StepTrace
from dtfctl.runtime.framework.cancellation import CancellationToken
from dtfctl.runtime.framework.dtypes import DType
from dtfctl.runtime.framework.errors import (
    AbortedError,
    CancelledError,
    DeadlineExceededError,
    InvalidArgumentError,
    OpError,
)
from dtfctl.runtime.framework.node_graph import NodeGraph
from dtfctl.runtime.framework.structural_ops import FUNCTIONAL
from dtfctl.runtime.services.compilation import SessionGraph
from dtfctl.runtime.services.compiled_step import CompiledStep, StepOptions
from dtfctl.runtime.services.cost_graph import cost_graph
from dtfctl.runtime.services.job_scope import EVERYONE, JobScope
from dtfctl.runtime.services.prepared_step import PLAIN, PreparedStep
from dtfctl.runtime.services.signatures import Signatures
from dtfctl.runtime.services.step_run import StepRun
from dtfctl.runtime.services.tasks import GRAPHS, TRACE, LocalTask, RemoteTask
from dtfctl.runtime.services.worker import partition_graphs
from dtfctl.runtime.steps.deadlines import DEADLINES
from dtfctl.runtime.steps.grace import GRACE_S
from dtfctl.runtime.steps.part import Part
from dtfctl.runtime.steps.path import tell
from dtfctl.runtime.steps.step import Step
from dtfctl.runtime.steps.threads import submit
from dtfctl.runtime.steps.worker_session import closed_by

log = logging.getLogger(__name__)
# Step ids leave the top seven bits clear, as TensorFlow's do.
_STEP_BITS = 56


@dataclass(eq=False)
class Callable_:
    """A made callable: a signature with its options."""

    prepared: PreparedStep
    options: config_pb2.CallableOptions


class PartialRunState(Protocol):
    """A step between two partial runs (partial_run.py)."""

    def cancel(self, reason: OpError) -> None: ...

    def run(self, feeds: Mapping[str, Any], fetches: Sequence[str], how: StepOptions) -> tuple[list[Any], bool]: ...


class MasterSession:
    """A session. All methods may be called from any thread.

    Args:
        handle: its name.
        local, remote: the workers it may use; the master's own first.
        config: the client's; of it are used allow_soft_placement, log_device_placement, isolate_session_state,
            operation_timeout_in_ms and graph_options.
        step_runs: where the master finds the steps over several tasks that run, by step id.
        direct: in-process without a server: errors are then not prefixed with the task they come from.
        scope: the job it belongs to; `remote` are tasks of it.
        away: tasks that it is made without because they are lost for now, and why.
        is_far: whether two tasks are on different hosts.
    """

    def __init__(
        self,
        handle: str,
        local: LocalTask,
        remote: Sequence[RemoteTask],
        config: config_pb2.ConfigProto,
        step_runs: dict[int, StepRun],
        direct: bool = False,
        scope: JobScope = EVERYONE,
        away: Mapping[str, str] | None = None,
        is_far: Callable[[str, str], bool] | None = None,
    ) -> None:
        self.handle = handle
        self.scope = scope
        self.local = local
        self.remote = list(remote)
        self.config = config
        self.last_used = time.monotonic()
        self._direct = direct
        self._remote_by_task = {t.task: t for t in remote}
        self._graph = SessionGraph(self.list_devices(), local.task, config, away, is_far)
        self._graph_lock = threading.Lock()
        self.signatures = Signatures(handle, local, self._remote_by_task, self._graph, self._graph_lock)
        self.graph_version = 0
        self._lock = threading.Condition()
        self._closed: OpError | None = None
        # What cancels the steps that run. Added to and taken from without the lock: the closing session looks here
        # after it has set `_closed`, a step looks at `_closed` after it has added itself.
        self.running: set[CancellationToken] = set()
        self._prepared: dict[tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...], int], PreparedStep] = {}
        # Connections of clients that run steps of it themselves, which this master does not see.
        self.runners: set[object] = set()
        self._count = 0
        self._callables: dict[int, Callable_] = {}
        self._next_callable = 0
        self.step_runs = step_runs
        self.partial_runs: dict[str, PartialRunState] = {}
        self._next_partial = 0
        self._random = random.Random(secrets.randbits(64))

    # Graph ------------------------------------------------------------------------------------------------------------

    @property
    def node_graph(self) -> NodeGraph:
        """All the client has sent, unpartitioned."""
        return self._graph.graph

    def describe_graph(self, told: graphs_pb2.SessionGraphs) -> None:
        """Tell the graph, what it is compiled with, and the steps that were asked for."""
        with self._graph_lock:
            told.graph.CopyFrom(self.node_graph.to_graph_def())
            told.graph.library.CopyFrom(self.node_graph.library.to_proto())
            told.step.extend(self.signatures.steps())
        told.device.extend(self.list_devices())
        told.config.CopyFrom(self.config)

    def add_nodes(self, graph_def: graph_pb2.GraphDef) -> None:
        """Validate, add and place nodes.

        Raises:
            OpError: the GraphDef is malformed or cannot be placed; nothing is added.
        """
        with self._graph_lock:
            self._graph.extend(self.scope.graph_here(graph_def))

    def extend(self, graph_def: graph_pb2.GraphDef, expected_version: int | None = None) -> int:
        """Add a client's new nodes; returns the new version.

        Raises:
            FailedPreconditionError: the session is closed.
            AbortedError: another client extended it meanwhile.
            OpError: see add_nodes.
        """
        self.last_used = time.monotonic()
        with self._graph_lock:
            self.check_open()
            if expected_version is not None and expected_version != self.graph_version:
                raise AbortedError(f"Current version is {self.graph_version} but caller expected {expected_version}.")
            for node in graph_def.node:
                known = self._graph.graph.find(node.name)
                # Control flow may have grown, which NodeGraph.extend sees to.
                if known is not None and not (node.op in FUNCTIONAL and node.op == known.op):
                    raise InvalidArgumentError(
                        f"GraphDef argument to Extend includes node '{node.name}', which was created by a previous "
                        "call to Create or Extend in this session."
                    )
            self._graph.extend(self.scope.graph_here(graph_def))
            self.graph_version += 1
            # Compiled steps stay: what nodes have computed does not change, they can only get more outputs.
            return self.graph_version

    def tensor_type(self, name: str) -> DType | None:
        """See `SessionGraph.tensor_type`."""
        return self._graph.tensor_type(name)

    # Running ----------------------------------------------------------------------------------------------------------

    def run(
        self,
        feeds: Mapping[str, Any],
        fetches: Sequence[str],
        targets: Sequence[str],
        how: StepOptions = PLAIN,
    ) -> list[Any]:
        """Run one step; the values of `fetches`, in their order.

        Raises:
            OpError: the step failed. FailedPreconditionError: the session is closed.
        """
        graph_key = 0 if how.options is None else how.options.experimental.collective_graph_key
        return self.prepare(list(feeds), fetches, targets, graph_key).run(list(feeds.values()), how)

    def prepare(
        self, feeds: Sequence[str], fetches: Sequence[str], targets: Sequence[str], graph_key: int = 0
    ) -> PreparedStep:
        """Give what runs a signature, with values in the order of these feeds and fetches.

        Args:
            graph_key: see `Signatures.get`.

        Raises:
            OpError: as `Signatures.get`. FailedPreconditionError: the session is closed.
        """
        self._enter()
        try:
            key = tuple(feeds), tuple(fetches), tuple(targets), graph_key
            found = self._prepared.get(key)
            if found is None:
                compiled = self.signatures.get(feeds, fetches, targets, graph_key=graph_key)
                found = self._prepared[key] = PreparedStep(self, compiled, feeds, fetches)
                tell(found.path, feeds, fetches, targets)
            return found
        finally:
            self._leave()

    def is_measured(self, run: int) -> bool:
        """Tell whether the configuration asks what the nodes cost in a signature's run of that number."""
        options = self.config.graph_options
        counted = run - options.build_cost_model_after
        return options.build_cost_model > 0 and counted > 0 and counted % options.build_cost_model == 0

    def new_step_id(self) -> int:
        return self._random.getrandbits(_STEP_BITS) or 1

    def attach(self, step: Step, how: StepOptions) -> Callable[[], None]:
        """Let whatever may stop a step do so; returns a function that ends that.

        Raises:
            FailedPreconditionError: the session was closed meanwhile; the step is forgotten.
        """
        token, outer, timeout_s = step.token, how.cancellation, self.timeout_s(how)
        self.last_used = time.monotonic()
        attached = token if outer is None else outer
        self.running.add(attached)
        withdrawals: list[Callable[[], None]] = []

        def release() -> None:
            for withdraw in withdrawals:
                withdraw()
            self.running.discard(attached)
            if self._closed is not None:
                self.step_ended()

        if self._closed is not None:
            release()
            self.local.worker.cleanup(step.step_id)
            self.check_open()
        if outer is not None:
            withdrawals.append(outer.on_cancel(lambda: _cancel(token, outer.reason)))
        if timeout_s > 0:
            expired = DeadlineExceededError("Timed out waiting for notification")
            withdrawals.append(DEADLINES.after(timeout_s, lambda: _cancel(token, expired)))
        return release

    def timeout_s(self, how: StepOptions) -> float:
        """Find how long a step may take, in seconds; 0 without a bound."""
        asked_ms = how.options.timeout_in_ms if how.options is not None else 0
        return float(asked_ms or self.config.operation_timeout_in_ms) / 1000

    def execute(
        self, compiled: CompiledStep, step: Step, how: StepOptions, part: Part | None, values: Sequence[Any] = ()
    ) -> list[Any]:
        """Run all parts of a step; returns, when all have ended, the values fetched from the own one.

        Args:
            part: the own one, with the values that are fed to it.

        Raises:
            OpError: the error to report.
        """
        trace = StepTrace() if how.traced else None
        remote = compiled.remote
        if how.reports:
            flags = (TRACE if how.traced else 0) | (GRAPHS if how.graphs_sent else 0)
            remote = {task: found.reporting(flags) for task, found in remote.items()}
        fetched: list[Any] = []

        def here() -> None:
            nonlocal fetched
            assert part is not None
            try:
                fetched, _ = self.local.worker.run(part, step, values, trace)
            except OpError as e:
                raise self.reported(e, step.token) from e.__cause__

        run = self.step_runs[step.step_id] = StepRun(step, self.handle, compiled.parts, remote, how.reports)
        try:
            run.execute(here)
        finally:
            del self.step_runs[step.step_id]
        if how.metadata is not None and how.reports:
            self._describe(compiled, how, trace, run.reports)
        return fetched

    def reported(self, error: OpError, token: CancellationToken) -> OpError:
        """Choose what a client is told of an error in this task."""
        reason = token.reason
        if error is reason or error.derived:
            return reason or error
        return self._prefixed(error)

    def _prefixed(self, error: OpError) -> OpError:
        if self._direct or error.message.startswith("From /job:") or error.derived:
            return error
        located = type(error)(f"From {self.local.task}:\n{error.message}", error.node)
        located.__cause__ = error.__cause__
        return located

    def _describe(
        self, compiled: CompiledStep, how: StepOptions, trace: StepTrace | None, reports: Sequence[Any]
    ) -> None:
        metadata = how.metadata
        assert metadata is not None
        stats = stats_pb2.StepStats() if trace is None else trace.to_proto()
        graphs = partition_graphs(compiled.local) if how.graphs_sent and compiled.local is not None else []
        for report in reports:
            stats.MergeFrom(report.step_stats)
            graphs += report.partition_graph
        if how.wants_stats:
            metadata.step_stats.CopyFrom(stats)
        if how.wants_graphs:
            metadata.partition_graphs.extend(graphs)
        if how.wants_costs:
            metadata.cost_graph.CopyFrom(cost_graph(graphs, stats))

    def add_partial_run(self, run: PartialRunState) -> str:
        """Keep a partial run; its handle."""
        with self._lock:
            self.check_open()
            handle = str(self._next_partial)
            self._next_partial += 1
            self.partial_runs[handle] = run
        return handle

    # Callables --------------------------------------------------------------------------------------------------------

    def make_callable(self, options: config_pb2.CallableOptions) -> int:
        """Compile a signature; run it by the returned handle.

        Raises:
            OpError: as `run`.
        """
        self.check_open()
        if options.tensor_connection:
            raise InvalidArgumentError("Tensor connections of callables are not supported; build the graph connected")
        graph_key = options.run_options.experimental.collective_graph_key
        prepared = self.prepare(list(options.feed), list(options.fetch), list(options.target), graph_key)
        with self._lock:
            handle = self._next_callable
            self._next_callable += 1
            self._callables[handle] = Callable_(prepared, options)
        return handle

    def run_callable(self, handle: int, values: Sequence[Any], how: StepOptions = PLAIN) -> list[Any]:
        """Run a callable with values for its feeds, in order.

        Raises:
            InvalidArgumentError: no such handle, or a wrong number of values. OpError: the step failed.
        """
        with self._lock:
            self.check_open()
            made = self._callables.get(handle)
            if made is None:
                if 0 <= handle < self._next_callable:
                    raise InvalidArgumentError(f"Attempted to run callable after handle was released: {handle}")
                raise InvalidArgumentError(f"No such callable handle: {handle}")
        if how.options is None and made.options.HasField("run_options"):
            how = replace(how, options=made.options.run_options)
        return made.prepared.run(values, how)

    def callable_fetches(self, handle: int) -> list[str]:
        """List the names of what a callable fetches; none for a handle that is not known."""
        made = self._callables.get(handle)
        return list(made.options.fetch) if made is not None else []

    def release_callable(self, handle: int) -> None:
        with self._lock:
            self._callables.pop(handle, None)

    # Devices, closing -------------------------------------------------------------------------------------------------

    def open_client(self, task: str, place: str, client: int) -> worker_pb2.OpenLinkResponse:
        """Ask how a client of that place may connect to another of the session's tasks.

        Raises:
            UnavailableError, AbortedError: the session's life of that task is gone, or it cannot be reached.
        """
        self.check_open()
        remote = self._remote_by_task.get(task)
        if remote is None:
            raise InvalidArgumentError(f"{task} is not a task of session {self.handle}")
        return remote.open_client(self.handle, place, client)

    def list_devices(self) -> list[device_pb2.DeviceAttributes]:
        return [*self.local.devices, *(d for t in self.remote for d in t.devices)]

    def close(self, reason: OpError | None = None) -> None:
        """Cancel what runs, give it a moment to end, and forget the session in all tasks. Idempotent."""
        with self._lock:
            if self._closed is not None:
                return
            self._closed = closed_by(reason)
            running = list(self.running)
        cancelled = reason or CancelledError("Step was cancelled by an explicit call to `Session::Close()`.")
        for partial in list(self.partial_runs.values()):
            partial.cancel(cancelled)
        for token in running:
            token.cancel(cancelled)
        with self._lock:
            self._lock.wait_for(lambda: self.is_idle, timeout=GRACE_S)
        self.signatures.clear()
        self._prepared.clear()
        self._callables.clear()
        ends = [submit(self._delete_at, task, cancelled) for task in self.remote]
        self.local.delete_session(self.handle, cancelled)
        for end in ends:
            end.result()

    def _delete_at(self, task: RemoteTask, reason: OpError) -> None:
        try:
            task.check(self.handle)
            task.delete_session(self.handle, reason)
        except OpError as e:
            log.info("closing session %s: %s", self.handle, e)

    @property
    def is_idle(self) -> bool:
        return self._count == 0 and not self.running

    @property
    def is_closed(self) -> bool:
        return self._closed is not None

    def step_ended(self) -> None:
        """Wake who closes the session: a step of it has ended."""
        with self._lock:
            self._lock.notify_all()

    def check_open(self) -> None:
        """Refuse what comes after the end.

        Raises:
            FailedPreconditionError: the session is closed. UnavailableError: its task is stopping.
        """
        if self._closed is not None:
            raise type(self._closed)(self._closed.message)

    def _enter(self) -> None:
        self.last_used = time.monotonic()
        with self._lock:
            self.check_open()
            self._count += 1

    def _leave(self) -> None:
        with self._lock:
            self._count -= 1
            if not self._count:
                self._lock.notify_all()


def _cancel(token: CancellationToken, reason: OpError | None) -> None:
    token.cancel(reason)
