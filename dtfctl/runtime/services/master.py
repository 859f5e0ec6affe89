"""A task's master: makes sessions and finds them again. No gRPC here; every client, local or remote, comes here."""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Sequence

from dtfctl.protocol import config_pb2, device_pb2, graph_pb2, worker_pb2
from dtfctl.runtime.framework.device_spec import DeviceSpec
from dtfctl.runtime.framework.errors import (
    AbortedError,
    CancelledError,
    InvalidArgumentError,
    OpError,
    ResourceExhaustedError,
)
from dtfctl.runtime.rendezvous.frames import Frame, Kind
from dtfctl.runtime.services.answer import Answer
from dtfctl.runtime.services.job_scope import EVERYONE, JobScope
from dtfctl.runtime.services.master_session import MasterSession
from dtfctl.runtime.services.peers import Peers
from dtfctl.runtime.services.request_ids import RecentRequestIds
from dtfctl.runtime.services.step_run import StepRun
from dtfctl.runtime.services.tasks import LocalTask, RemoteTask
from dtfctl.runtime.services.worker import Worker
from dtfctl.runtime.steps.threads import submit

log = logging.getLogger(__name__)
# Above this many sessions, one idle for IDLE_S is closed for each new one; without such, new ones are refused.
MAX_SESSIONS = 5_000
IDLE_S = 60.0


class Master:
    """Sessions of one task.

    Args:
        worker: the task's own.
        peers: the other tasks; None where there are none.
        life: the task's incarnation.
        peer_timeout_s: how long a new session waits for tasks that do not answer.
        direct: for an in-process session without a server.
    """

    def __init__(
        self,
        worker: Worker,
        peers: Peers | None = None,
        life: int = 1,
        peer_timeout_s: float = 30.0,
        default_config: config_pb2.ConfigProto | None = None,
        direct: bool = False,
    ) -> None:
        self.worker = worker
        self.request_ids = RecentRequestIds()
        self.requests = 0
        self._peers = peers
        self._life = life
        self._peer_timeout_s = peer_timeout_s
        self._default_config = default_config or config_pb2.ConfigProto()
        self._direct = direct
        self._lock = threading.Lock()
        self._sessions: dict[str, MasterSession] = {}
        self._step_runs: dict[int, StepRun] = {}

    # Sessions ---------------------------------------------------------------------------------------------------------

    def create_session(
        self,
        graph_def: graph_pb2.GraphDef,
        config: config_pb2.ConfigProto | None,
        scope: JobScope = EVERYONE,
    ) -> MasterSession:
        """Create a session with a graph, known to all tasks it may use: those of its job, where it is of one.

        Raises:
            InvalidArgumentError: the graph or the config is at fault.
            AbortedError: tasks did not answer within the bound; the text names them.
        """
        merged = config_pb2.ConfigProto()
        merged.CopyFrom(self._default_config)
        if config is not None:
            merged.MergeFrom(config)
        if not self._direct and (merged.use_per_session_threads or merged.session_inter_op_thread_pool):
            raise InvalidArgumentError("Distributed session does not support session thread pool options.")
        self._make_room()
        away = {} if self._peers is None else self._peers.lost()
        remote = self._find_remote(merged, scope)
        handle = secrets.token_hex(8)
        local = LocalTask(self.worker, self._life)
        is_far = None if self._peers is None else self._peers.is_far
        session = MasterSession(handle, local, remote, merged, self._step_runs, self._direct, scope, away, is_far)
        session.add_nodes(graph_def)
        self._create_everywhere(session, remote, merged.isolate_session_state)
        with self._lock:
            self._sessions[handle] = session
        return session

    def _make_room(self) -> None:
        with self._lock:
            if len(self._sessions) < MAX_SESSIONS:
                return
            limit = time.monotonic() - IDLE_S
            idle = [s for s in self._sessions.values() if s.is_idle and not s.runners and s.last_used < limit]
            if not idle:
                raise ResourceExhaustedError(
                    f"This master has {len(self._sessions)} open sessions; close some before making more"
                )
            oldest = min(idle, key=lambda s: s.last_used)
            del self._sessions[oldest.handle]
        oldest.close(CancelledError("Step was cancelled because the session was garbage collected due to inactivity."))

    def _find_remote(self, config: config_pb2.ConfigProto, scope: JobScope = EVERYONE) -> list[RemoteTask]:
        """Find the other tasks a session may use, all heard of just now."""
        peers = self._peers
        if peers is None:
            return []
        try:
            filters = [DeviceSpec.from_string(scope.here(f)) for f in config.device_filters]
        except ValueError as e:
            raise InvalidArgumentError(f"Could not parse device filter: {e}") from None
        wanted = [t for t in peers.tasks if scope.admits(t) and (not filters or any(_admits(f, t) for f in filters))]
        bound = self._peer_timeout_s
        if config.operation_timeout_in_ms > 0:
            bound = min(bound, config.operation_timeout_in_ms / 1000)
        until = time.monotonic() + bound
        answers: list[tuple[str, Answer]] = []
        missing: list[str] = []
        # Those that are down last, so that the others answer meanwhile.
        for task in sorted(wanted, key=lambda t: peers.down_reason(t) is not None):
            # A restart takes a moment; a client that is told at once would only ask again at once.
            down = peers.wait_up(task, max(until - time.monotonic(), 0.0))
            if down is not None:
                missing.append(down.message)
            else:
                answers.append((task, peers.status(task, max(until - time.monotonic(), 0.1))))
        found: list[RemoteTask] = []
        for task, answer in answers:
            try:
                status: worker_pb2.TaskStatus = answer.result()
            except OpError as e:
                missing.append(e.message)
                continue
            if status.task != task:
                missing.append(f"{task} ({peers.address(task)}) says it is {status.task}; the addresses are mixed up")
                continue
            peers.learn(task, status.incarnation)
            found.append(RemoteTask(task, peers, status.incarnation, list(status.device), status.place))
        if missing:
            raise AbortedError(
                f"CreateSession: {len(missing)} of {len(wanted)} other tasks are missing after {bound:g} s: "
                + "; ".join(missing)
                + ". Start them, or leave them out with ConfigProto.device_filters."
            )
        return found

    def _create_everywhere(self, session: MasterSession, remote: Sequence[RemoteTask], isolate: bool) -> None:
        job = session.scope.name
        session.local.create_session(session.handle, isolate, job)
        known = [worker_pb2.Peer(task=t.task, address=t.peers.address(t.task), incarnation=t.life) for t in remote]
        # A peer cannot know how it is reached itself; it learns this task's life from the connection.
        futures = [submit(t.create_session, session.handle, isolate, job, known) for t in remote]
        errors = [e for f in futures if isinstance(e := f.exception(), OpError)]
        for future in futures:
            error = future.exception()
            if error is not None and not isinstance(error, OpError):
                raise error
        if errors:
            session.close()
            raise AbortedError(errors[0].message)

    def sessions(self, job: str = "") -> list[MasterSession]:
        """List the sessions of a job, or all."""
        with self._lock:
            return [session for session in self._sessions.values() if not job or session.scope.name == job]

    def session(self, handle: str) -> MasterSession:
        """Find a session by handle.

        Raises:
            AbortedError: there is none.
        """
        found = self._sessions.get(handle)
        if found is None:
            raise AbortedError(f"Session {handle} is not found.")
        return found

    def close_session(self, handle: str) -> None:
        """Close a session and forget it.

        Raises:
            AbortedError: there is none.
        """
        with self._lock:
            session = self._sessions.pop(handle, None)
        if session is None:
            raise AbortedError(f"Session {handle} is not found. Possibly, this master has restarted.")
        session.close()

    def list_devices(self, handle: str) -> tuple[list[device_pb2.DeviceAttributes], list[device_pb2.DeviceAttributes]]:
        """List local and remote devices of a session; without a handle, those of the cluster.

        Raises:
            InvalidArgumentError: there is no such session.
        """
        if not handle:
            remote = self._find_remote(config_pb2.ConfigProto())
            return [d.to_proto() for d in self.worker.devices], [d for t in remote for d in t.devices]
        session = self._sessions.get(handle)
        if session is None:
            raise InvalidArgumentError(f"Session {handle} is not found. Possibly, this master has restarted.")
        return session.scope.devices_there(session.list_devices()), []

    def reset(self, containers: Sequence[str], device_filters: Sequence[str] = (), scope: JobScope = EVERYONE) -> None:
        """Close all sessions of a job, or all that are of none, and clear containers (none named: the default ones) of
        its state in its tasks.

        Raises:
            AbortedError: tasks did not answer.
        """
        remote = self._find_remote(config_pb2.ConfigProto(device_filters=device_filters), scope)
        for session in self._pop_sessions(scope.name):
            session.close()
        self.worker.clear_containers(list(containers), scope.name)
        for task in remote:
            task.clear_containers(list(containers), scope.name)

    def end_job(self, job: str) -> None:
        """Close what sessions a job left open; their steps end. Its state in this task is the worker's to drop."""
        for session in self._pop_sessions(job):
            session.close(CancelledError(f"Job {job} has ended"))

    def _pop_sessions(self, job: str) -> list[MasterSession]:
        with self._lock:
            gone = [s for s in self._sessions.values() if s.scope.name == job]
            for session in gone:
                del self._sessions[session.handle]
        return gone

    def close(self, reason: OpError) -> None:
        """Close all sessions; their steps fail with `reason`."""
        with self._lock:
            sessions, self._sessions = list(self._sessions.values()), {}
        for session in sessions:
            session.close(reason)

    # From other tasks -------------------------------------------------------------------------------------------------

    def receive(self, task: str, frame: Frame) -> None:
        """Take a frame from a worker: DONE of a part of a step."""
        if frame.kind is not Kind.DONE:
            return
        run = self._step_runs.get(frame.step)
        if run is not None:
            run.done(task, worker_pb2.StepReport.FromString(frame.payload) if frame.payload else None)

    def peer_lost(self, task: str, error: OpError) -> None:
        """Tell steps that another task's life is gone: its parts of them will not end."""
        for run in list(self._step_runs.values()):
            run.lost(task, error)


def _admits(device_filter: DeviceSpec, task: str) -> bool:
    """Tell whether a device filter lets a task in (only its job, replica and task count)."""
    return device_filter.without_device().matches(DeviceSpec.from_string(task))
