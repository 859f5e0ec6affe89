"""The controller's calls; see messages/controller.py. Streams are long polls: the caller keeps its position."""

from __future__ import annotations

import contextlib
import time
from collections import defaultdict
from collections.abc import Callable, Iterator

from dtfctl.launcher.controller.loop import ControllerLoop
from dtfctl.launcher.controller.state.store import read_events
from dtfctl.launcher.controller.workloads.task_manager import Applied
from dtfctl.launcher.errors import LauncherError, NoSuchTask, PartlyDone
from dtfctl.launcher.messages.controller import (
    ApplyReply,
    ApplyRequest,
    CancelRequest,
    DesireHostsReply,
    DesireHostsRequest,
    DesireReply,
    DesireRequest,
    DownReply,
    DownRequest,
    EventsReply,
    EventsRequest,
    JobsReply,
    JobsRequest,
    LogsReply,
    LogsRequest,
    Nothing,
    OutputChunk,
    OutputPosition,
    ScaleRequest,
    StatusReply,
    StatusRequest,
    SubmitReply,
    SubmitRequest,
)
from dtfctl.launcher.messages.controller_calls import (
    APPLY,
    CANCEL,
    DESIRE,
    DESIRE_HOSTS,
    DOWN,
    EVENTS,
    JOBS,
    PING,
    PUT_BLOB,
    READ_LOGS,
    SCALE,
    STATUS,
    SUBMIT,
)
from dtfctl.launcher.messages.files import BlobHeld, BlobPiece
from dtfctl.launcher.messages.reports import LogChunk, LogPosition
from dtfctl.launcher.model import ControllerStatus
from dtfctl.launcher.rpc.method import Handler, Method, PeerUnavailable
from dtfctl.launcher.spec.model import ClusterSpec

LONGEST_WAIT_S = 20.0
MOST_EVENTS = 1000
MOST_LOG_BYTES = 4 * 2**20
AGENT_AWAY_S = 0.1
SILENT_S = 6.0
"""The longest time that one call waits for agents that do not answer, all of them together: who called waits for the
controller little longer (`controller_client.FOLLOW_S`), and would take it for the one that is silent."""
UNHEARD_S = 1.0
"""The same for one that is not known to be up."""


class _Patience:
    """How long one call still waits for agents that do not answer."""

    def __init__(self) -> None:
        self._left_s = SILENT_S

    @property
    def is_over(self) -> bool:
        return self._left_s <= 0.0

    def within_s(self, is_up: bool) -> float:
        """Return how long the next one may take."""
        return self._left_s if is_up else min(UNHEARD_S, self._left_s)

    @contextlib.contextmanager
    def on_silence(self) -> Iterator[None]:
        """Count what it took to find that an agent does not answer."""
        begun = time.monotonic()
        try:
            yield
        except PeerUnavailable:
            self._left_s -= time.monotonic() - begun
            raise


class ControllerService:
    """Handlers; each runs in a thread of the server and asks the engine's loop."""

    def __init__(self, engine: ControllerLoop, on_spec: Callable[[ClusterSpec], None]) -> None:
        """`on_spec` hears of a spec before it is taken over, and may refuse it."""
        self._engine = engine
        self._on_spec = on_spec

    def handlers(self) -> dict[Method, Handler]:  # type: ignore[type-arg]
        return {
            PING: self.ping,
            APPLY: self.apply,
            STATUS: self.status,
            SUBMIT: self.submit,
            PUT_BLOB: self.put_blob,
            JOBS: self.jobs,
            CANCEL: self.cancel,
            DESIRE: self.desire,
            SCALE: self.scale,
            DESIRE_HOSTS: self.desire_hosts,
            READ_LOGS: self.read_logs,
            EVENTS: self.events,
            DOWN: self.down,
        }

    def ping(self, request: Nothing) -> ControllerStatus:
        return self._engine.read(self._engine.controller_status)

    def apply(self, request: ApplyRequest) -> ApplyReply:
        spec, command = request.spec, request.task_command

        def take(dry_run: bool) -> ApplyReply:
            tasks = self._engine.tasks
            done = self._engine.call(lambda: tasks.apply(spec, command, dry_run, request.only, request.prune))
            return _applied(done)

        if request.dry_run:
            return take(True)
        before = self._engine.call(self._engine.current_spec)
        try:
            self._on_spec(spec)
            return take(False)
        except LauncherError:
            if before is not None:
                self._on_spec(before)
            raise

    def status(self, request: StatusRequest) -> StatusReply:
        if request.newer_than:
            self._engine.wait_version(request.newer_than, min(request.wait_s, LONGEST_WAIT_S))
        return StatusReply(*self._engine.read(self._engine.status))

    def submit(self, request: SubmitRequest) -> SubmitReply:
        job, jobs = request.request, self._engine.jobs
        return SubmitReply(*self._engine.call(lambda: jobs.submit(job, request.source, request.sha256, request.needs)))

    def put_blob(self, request: BlobPiece) -> BlobHeld:
        return self._engine.jobs.blobs.take(request)

    def jobs(self, request: JobsRequest) -> JobsReply:
        if request.newer_than:
            self._engine.wait_version(request.newer_than, min(request.wait_s, LONGEST_WAIT_S))
        return self._jobs_reply(list(request.ids))

    def cancel(self, request: CancelRequest) -> JobsReply:
        ids = list(request.ids)
        chosen = self._engine.call(lambda: self._engine.jobs.cancel(ids, request.grace_s))
        return self._jobs_reply(chosen) if chosen else JobsReply(version=self._engine.version)

    def _jobs_reply(self, ids: list[str]) -> JobsReply:
        return self._engine.read(lambda: JobsReply(tuple(self._engine.jobs.statuses(ids)), self._engine.version))

    def desire(self, request: DesireRequest) -> DesireReply:
        names = self._engine.call(lambda: self._engine.tasks.desire(request.selector, request.verb, request.grace_s))
        return DesireReply(tuple(names), self._engine.version)

    def scale(self, request: ScaleRequest) -> ApplyReply:
        counts = dict(request.counts)
        return _applied(self._engine.call(lambda: self._engine.tasks.scale(counts, request.dry_run)))

    def desire_hosts(self, request: DesireHostsRequest) -> DesireHostsReply:
        names = list(request.hosts)
        changed = self._engine.call(lambda: self._engine.hosts.desire(names, request.verb, request.reason))
        return DesireHostsReply(tuple(changed), self._engine.version)

    def events(self, request: EventsRequest) -> EventsReply:
        engine = self._engine
        limit = min(request.limit or MOST_EVENTS, MOST_EVENTS)
        # Asked first: what is committed after this is found by the next call.
        newest = engine.read(engine.store.last_event)
        events = read_events(engine.paths.database, request.after, request.since, limit)
        if not events and request.wait_s:
            engine.wait_event(max(newest, request.after), min(request.wait_s, LONGEST_WAIT_S))
            events = read_events(engine.paths.database, request.after, request.since, limit)
        return EventsReply(tuple(events), max((event.seq for event in events), default=newest))

    def read_logs(self, request: LogsRequest) -> LogsReply:
        """Read what is new past the caller's positions. Final is asked before reading, so nothing is missed."""
        engine = self._engine
        final = engine.read(lambda: engine.is_over(request.selector))
        known = {
            (item.host, item.process): LogPosition(item.process, item.file, item.offset) for item in request.positions
        }
        by_host: dict[str, list[LogPosition]] = defaultdict(list)
        held = {(item.host, item.process) for item in request.positions if item.hold}
        starts, up = engine.read(lambda: (engine.log_positions(request.selector), engine.hosts.up()))
        for host, start in sorted(starts, key=lambda found: found[0] not in up):
            if (host, start.process) not in held:
                by_host[host].append(known.get((host, start.process), start))
        wait_s = 0.0 if final else min(request.wait_s, LONGEST_WAIT_S)
        deadline = time.monotonic() + wait_s
        found: list[OutputChunk] = []
        away: set[str] = set()
        patience = _Patience()
        at_end = not held
        while True:
            left = min(request.max_bytes or MOST_LOG_BYTES, MOST_LOG_BYTES)
            for host, positions in by_host.items():
                alone = len(by_host) == 1
                if host in away or (patience.is_over and host not in up):
                    at_end = False
                    away.add(host)
                    continue
                if left <= 0 or patience.is_over:  # the caller takes what there is before it gets more
                    at_end = False
                    for position in positions:
                        found.append(_chunk(host, LogChunk(position, at_end=False)))
                    continue
                try:
                    with patience.on_silence():
                        chunks = engine.hosts.read_logs(
                            host,
                            positions,
                            wait_s=min(1.0, max(0.0, deadline - time.monotonic())) if alone else 0.0,
                            within_s=patience.within_s(host in up),
                            max_bytes=left,
                            tail=request.tail,
                        )
                except (PeerUnavailable, NoSuchTask):  # it is away, or not one of the cluster any more
                    at_end = False
                    away.add(host)
                    time.sleep(AGENT_AWAY_S)
                    continue
                for chunk in chunks:
                    at_end = at_end and chunk.at_end
                    left -= len(chunk.data)
                    if chunk.data or chunk.next.file or not chunk.at_end:
                        found.append(_chunk(host, chunk))
            if any(chunk.data for chunk in found) or time.monotonic() >= deadline:
                break
            if len(by_host) != 1:
                time.sleep(0.05)
            elif not final and engine.read(lambda: engine.is_over(request.selector)):
                break  # its last output is read by the next call, which knows that it is the last
            found.clear()
        is_all = final and at_end and not any(chunk.data for chunk in found)
        return LogsReply(tuple(found), is_all, tuple(sorted(away)), final)

    def down(self, request: DownRequest) -> DownReply:
        engine = self._engine
        engine.begin_down()
        problems = engine.hosts.stop_all(request.grace_s, request.delete_logs)
        try:
            if engine.hosts.give_back():
                problems = []
        except LauncherError as error:
            problems.append(error.message)
        if problems and not request.force:
            raise PartlyDone(
                "; ".join(problems), "run `dtfctl down` again when that is resolved, or `down --force` to give them up"
            )
        engine.finish()
        return DownReply(tuple(problems))


def _chunk(host: str, chunk: LogChunk) -> OutputChunk:
    at = chunk.next
    return OutputChunk(OutputPosition(at.process, host, at.file, at.offset), chunk.data, chunk.at_end)


def _applied(done: Applied) -> ApplyReply:
    return ApplyReply(tuple(done.lines), done.newest, tuple(done.meant))
