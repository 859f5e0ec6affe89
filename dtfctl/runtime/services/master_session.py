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

from dtfctl.protocol import config_pb2, device_pb2, graph_pb2, stats_pb2, worker_pb2
from dtfctl.runtime.executor.trace import StepTrace
from dtfctl.runtime.framework.cancellation import CancellationToken
from dtfctl.runtime.framework.dtypes import DType
from dtfctl.runtime.framework.errors import (
    AbortedError,
    CancelledError,
    DeadlineExceededError,
    FailedPreconditionError,
    InternalError,
    InvalidArgumentError,
    OpError,
)
from dtfctl.runtime.framework.node_graph import NodeGraph
from dtfctl.runtime.services.abandon import LONG_S, apart
from dtfctl.runtime.services.compilation import SessionGraph
from dtfctl.runtime.services.compiled_step import CompiledStep, StepOptions, check_feeds
from dtfctl.runtime.services.cost_graph import cost_graph
from dtfctl.runtime.services.deadlines import DEADLINES
from dtfctl.runtime.services.direct import DirectStep, dead_fetch
from dtfctl.runtime.services.job_scope import EVERYONE, JobScope
from dtfctl.runtime.services.signatures import Signatures
from dtfctl.runtime.services.spread import SpreadStep
from dtfctl.runtime.services.step import Step
from dtfctl.runtime.services.step_run import StepRun
from dtfctl.runtime.services.tasks import GRAPHS, TRACE, LocalTask, RemoteTask
from dtfctl.runtime.services.threads import submit
from dtfctl.runtime.services.worker import partition_graphs
from dtfctl.runtime.steps.grace import GRACE_S

log = logging.getLogger(__name__)
# Step ids leave the top seven bits clear, as TensorFlow's do.
_STEP_BITS = 56


@dataclass(eq=False)
class Callable_:
    """A made callable: a compiled step with its options."""

    compiled: CompiledStep
    options: config_pb2.CallableOptions


class PartialRunState(Protocol):
    """A step between two partial runs (partial_run.py)."""

    def cancel(self, reason: OpError) -> None: ...

    def run(self, feeds: Mapping[str, Any], fetches: Sequence[str], how: StepOptions) -> tuple[list[Any], bool]: ...


_PLAIN = StepOptions()


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
    ) -> None:
        self.handle = handle
        self.scope = scope
        self.local = local
        self.remote = list(remote)
        self.config = config
        self.last_used = time.monotonic()
        self._direct = direct
        self._remote_by_task = {t.task: t for t in remote}
        self._graph = SessionGraph(self.list_devices(), local.task, config, away)
        self._graph_lock = threading.Lock()
        self.signatures = Signatures(handle, local, self._remote_by_task, self._graph, self._graph_lock)
        self.graph_version = 0
        self._lock = threading.Condition()
        self._closed: OpError | None = None
        self._running: set[CancellationToken] = set()
        # Of steps that run the short way. Added to and taken from without the lock: the closing session looks here
        # after it has set `_closed`, a step looks at `_closed` after it has added itself.
        self.direct_running: set[CancellationToken] = set()
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
            self._check_open()
            if expected_version is not None and expected_version != self.graph_version:
                raise AbortedError(f"Current version is {self.graph_version} but caller expected {expected_version}.")
            for node in graph_def.node:
                if node.name in self._graph.graph.nodes:
                    raise InvalidArgumentError(
                        f"GraphDef argument to Extend includes node '{node.name}', which was created by a previous "
                        "call to Create or Extend in this session."
                    )
            self._graph.extend(self.scope.graph_here(graph_def))
            self.graph_version += 1
            # Compiled steps stay: nodes never change once added.
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
        how: StepOptions = _PLAIN,
    ) -> list[Any]:
        """Run one step; the values of `fetches`, in their order.

        Raises:
            OpError: the step failed. FailedPreconditionError: the session is closed.
        """
        self._enter()
        try:
            return self._run(self.signatures.get(list(feeds), fetches, targets), feeds, fetches, how)
        finally:
            self._leave()

    def direct_step(
        self, feeds: Sequence[str], fetches: Sequence[str], targets: Sequence[str]
    ) -> DirectStep | SpreadStep | None:
        """The short way to run a signature's plain steps, if it has one.

        Raises:
            OpError: as `Signatures.get`.
        """
        if self.config.operation_timeout_in_ms > 0:
            return None
        self._enter()
        try:
            compiled = self.signatures.get(feeds, fetches, targets)
        finally:
            self._leave()
        local = compiled.local
        if compiled.remote:
            return SpreadStep.of(self, compiled, feeds, fetches)
        if local is None or len(local.executors) != 1:
            return None
        executor = local.executors[0]
        if not executor.is_self_contained or set(executor.ends.feeds) != set(feeds):
            return None
        return DirectStep(self, compiled, executor, feeds, fetches)

    def _run(
        self, compiled: CompiledStep, feeds: Mapping[str, Any], fetches: Sequence[str], how: StepOptions
    ) -> list[Any]:
        compiled.runs += 1
        if how.metadata is not None and self._is_measured(compiled.runs):
            how = replace(how, wants_costs=True)
        check_feeds(feeds.items(), compiled.feed_types)
        step = self.local.worker.begin(self.new_step_id())
        token = step.token
        release = self.attach(token, how)

        def work() -> list[Any]:
            started = time.monotonic()
            try:
                for name, value in feeds.items():
                    step.table.send(f"client;{name}", value, False)
                self.execute(compiled, step, how)
                if token.reason is not None:
                    raise self.reported(token.reason, token)
                return self.collect(step, fetches)
            finally:
                compiled.is_long = time.monotonic() - started > LONG_S
                release()
                self.local.worker.cleanup(step.step_id)

        if compiled.is_long or self._timeout_s(how) > 0:
            return apart(work, token)
        return work()

    def _is_measured(self, run: int) -> bool:
        """Whether the configuration asks what the nodes cost in a signature's run of that number."""
        options = self.config.graph_options
        counted = run - options.build_cost_model_after
        return options.build_cost_model > 0 and counted > 0 and counted % options.build_cost_model == 0

    def new_step_id(self) -> int:
        return self._random.getrandbits(_STEP_BITS) or 1

    def attach(self, token: CancellationToken, how: StepOptions) -> Callable[[], None]:
        """Let whatever may stop a step do so; returns a function that ends that.

        Raises:
            FailedPreconditionError: the session was closed meanwhile.
        """
        outer, timeout_s = how.cancellation, self._timeout_s(how)
        tokens = {token} if outer is None else {token, outer}
        with self._lock:
            self._check_open()
            self._running |= tokens
        withdrawals: list[Callable[[], None]] = []
        if outer is not None:
            withdrawals.append(outer.on_cancel(lambda: _cancel(token, outer.reason)))
        if timeout_s > 0:
            expired = DeadlineExceededError("Timed out waiting for notification")
            withdrawals.append(DEADLINES.after(timeout_s, lambda: _cancel(token, expired)))

        def release() -> None:
            for withdraw in withdrawals:
                withdraw()
            with self._lock:
                self._running -= tokens
                self._lock.notify_all()

        return release

    def _timeout_s(self, how: StepOptions) -> float:
        """How long a step may take; 0 without a bound."""
        asked_ms = how.options.timeout_in_ms if how.options is not None else 0
        return float(asked_ms or self.config.operation_timeout_in_ms) / 1000

    def execute(self, compiled: CompiledStep, step: Step, how: StepOptions) -> None:
        """Run all parts of a step that has its feeds; returns when all have ended.

        Raises:
            OpError: the error to report.
        """
        trace = StepTrace() if how.traced else None
        remote = compiled.remote
        keeps = how.traced or how.graphs_sent
        if keeps:
            flags = (TRACE if how.traced else 0) | (GRAPHS if how.graphs_sent else 0)
            remote = {task: part.reporting(flags) for task, part in remote.items()}

        def here() -> None:
            assert compiled.local is not None
            try:
                self.local.worker.run(compiled.local, step, trace)
            except OpError as e:
                raise self.reported(e, step.token) from e.__cause__

        run = self.step_runs[step.step_id] = StepRun(step, self.handle, compiled.parts, remote, keeps)
        try:
            run.execute(here)
        finally:
            del self.step_runs[step.step_id]
        if how.metadata is not None and keeps:
            self._describe(compiled, how, trace, run.reports)

    def reported(self, error: OpError, token: CancellationToken) -> OpError:
        """What a client is told of an error in this task."""
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

    def collect(self, step: Step, fetches: Sequence[str]) -> list[Any]:
        """Take fetched values off the table.

        Raises:
            InvalidArgumentError: one is dead. InternalError: one was not computed.
        """
        out: dict[str, Any] = {}
        for name in fetches:
            if name in out:
                continue
            found = step.table.take(f"client;{name}")
            if found is None:
                raise InternalError(f"The step ended without a value for {name}")
            value, dead = found
            if dead:
                raise dead_fetch(name, fetches)
            out[name] = value
        return [out[name] for name in fetches]

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
            self._check_open()
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
        self._check_open()
        if options.tensor_connection:
            raise InvalidArgumentError("Tensor connections of callables are not supported; build the graph connected")
        compiled = self.signatures.get(list(options.feed), list(options.fetch), list(options.target))
        with self._lock:
            handle = self._next_callable
            self._next_callable += 1
            self._callables[handle] = Callable_(compiled, options)
        return handle

    def run_callable(self, handle: int, values: Sequence[Any], how: StepOptions = _PLAIN) -> list[Any]:
        """Run a callable with values for its feeds, in order.

        Raises:
            InvalidArgumentError: no such handle, or a wrong number of values. OpError: the step failed.
        """
        with self._lock:
            self._check_open()
            made = self._callables.get(handle)
            if made is None:
                if 0 <= handle < self._next_callable:
                    raise InvalidArgumentError(f"Attempted to run callable after handle was released: {handle}")
                raise InvalidArgumentError(f"No such callable handle: {handle}")
        feeds = made.options.feed
        if len(values) != len(feeds):
            raise InvalidArgumentError(f"Expected {len(feeds)} feed tensors, but got {len(values)}")
        if how.options is None and made.options.HasField("run_options"):
            how = StepOptions(made.options.run_options, how.metadata, how.cancellation)
        self._enter()
        try:
            return self._run(made.compiled, dict(zip(feeds, values)), list(made.options.fetch), how)
        finally:
            self._leave()

    def callable_fetches(self, handle: int) -> list[str]:
        """Names of what a callable fetches; none for a handle that is not known."""
        made = self._callables.get(handle)
        return list(made.options.fetch) if made is not None else []

    def release_callable(self, handle: int) -> None:
        with self._lock:
            self._callables.pop(handle, None)

    # Devices, closing -------------------------------------------------------------------------------------------------

    def open_client(self, task: str, place: str, client: int) -> worker_pb2.OpenLinkResponse:
        """How a client of that place may connect to another of the session's tasks.

        Raises:
            UnavailableError, AbortedError: the session's life of that task is gone, or it cannot be reached.
        """
        self._check_open()
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
            self._closed = FailedPreconditionError("Session is closed.")
            running = [*self._running, *self.direct_running]
        cancelled = reason or CancelledError("Step was cancelled by an explicit call to `Session::Close()`.")
        for partial in list(self.partial_runs.values()):
            partial.cancel(cancelled)
        for token in running:
            token.cancel(cancelled)
        with self._lock:
            self._lock.wait_for(lambda: self.is_idle, timeout=GRACE_S)
        self.signatures.clear()
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
        return self._count == 0 and not self.direct_running and not self._running

    @property
    def is_closed(self) -> bool:
        return self._closed is not None

    def direct_ended(self) -> None:
        """A step that ran the short way has ended after the session was closed."""
        with self._lock:
            self._lock.notify_all()

    def _check_open(self) -> None:
        if self._closed is not None:
            raise FailedPreconditionError(self._closed.message)

    def _enter(self) -> None:
        self.last_used = time.monotonic()
        with self._lock:
            self._check_open()
            self._count += 1

    def _leave(self) -> None:
        with self._lock:
            self._count -= 1
            if not self._count:
                self._lock.notify_all()


def _cancel(token: CancellationToken, reason: OpError | None) -> None:
    token.cancel(reason)
