"""The controller's calls; see protocol/controller.proto. Streams are long polls: the caller keeps its position."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

from dtfctl.launcher.controller.loop import Engine
from dtfctl.launcher.controller.store import read_events
from dtfctl.launcher.controller.tasks.task_manager import Applied
from dtfctl.launcher.errors import LauncherError, NoSuchTask, PartlyDone
from dtfctl.launcher.messages import json_codec
from dtfctl.launcher.messages.agent import JobNeeds, LogChunk, LogPosition
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
from dtfctl.launcher.messages.proto_codec import from_message, to_message
from dtfctl.launcher.model import Event, JobRequest, JobStatus
from dtfctl.launcher.rpc.method import Handler, Method, PeerUnavailable
from dtfctl.launcher.spec.model import ClusterSpec
from dtfctl.protocol import agent_pb2, controller_pb2 as pb

LONGEST_WAIT_S = 20.0
MOST_EVENTS = 1000
MOST_LOG_BYTES = 4 * 2**20
AGENT_AWAY_S = 0.1


@dataclass(frozen=True, slots=True)
class _Jobs:
    jobs: tuple[JobStatus, ...]
    version: int


@dataclass(frozen=True, slots=True)
class _Events:
    events: tuple[Event, ...]


class ControllerService:
    """Handlers; each runs in a thread of the server and asks the engine's loop."""

    def __init__(self, engine: Engine, on_spec: Callable[[ClusterSpec], None]) -> None:
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

    def ping(self, request: pb.Nothing) -> pb.ControllerStatus:
        return to_message(self._engine.read(self._engine.controller_status), pb.ControllerStatus)

    def apply(self, request: pb.ApplyRequest) -> pb.ApplyReply:
        spec = json_codec.decode(ClusterSpec, request.spec_json)
        command = tuple(request.task_command)

        def take(dry_run: bool) -> pb.ApplyReply:
            tasks = self._engine.tasks
            done = self._engine.call(lambda: tasks.apply(spec, command, dry_run, request.only, request.prune))
            return _applied(done)

        if request.dry_run:
            return take(True)
        before = self._engine.call(self._engine.current_spec)
        self._on_spec(spec)
        try:
            return take(False)
        except LauncherError:
            if before is not None:
                self._on_spec(before)
            raise

    def status(self, request: pb.StatusRequest) -> pb.ClusterStatus:
        if request.newer_than:
            self._engine.wait_version(request.newer_than, min(request.wait_s, LONGEST_WAIT_S))
        status, version, usable, settled = self._engine.read(self._engine.status)
        message = to_message(status, pb.ClusterStatus)
        message.version, message.usable, message.settled = version, usable, settled
        return message

    def submit(self, request: pb.SubmitRequest) -> pb.SubmitReply:
        job = from_message(JobRequest, request.request)
        needs, jobs = from_message(JobNeeds, request.needs), self._engine.jobs
        job_id, existed = self._engine.call(lambda: jobs.submit(job, request.source, request.sha256, needs))
        return pb.SubmitReply(job_id=job_id, existed=existed)

    def put_blob(self, request: agent_pb2.BlobPiece) -> agent_pb2.BlobHeld:
        return self._engine.jobs.blobs.take(request)

    def jobs(self, request: pb.JobsRequest) -> pb.JobsReply:
        if request.newer_than:
            self._engine.wait_version(request.newer_than, min(request.wait_s, LONGEST_WAIT_S))
        return self._jobs_reply(list(request.ids))

    def cancel(self, request: pb.CancelRequest) -> pb.JobsReply:
        ids = list(request.ids)
        chosen = self._engine.call(lambda: self._engine.jobs.cancel(ids, request.grace_s))
        return self._jobs_reply(chosen) if chosen else pb.JobsReply(version=self._engine.version)

    def _jobs_reply(self, ids: list[str]) -> pb.JobsReply:
        def read() -> _Jobs:
            return _Jobs(tuple(self._engine.jobs.statuses(ids)), self._engine.version)

        return to_message(self._engine.read(read), pb.JobsReply)

    def desire(self, request: pb.DesireRequest) -> pb.DesireReply:
        names = self._engine.call(lambda: self._engine.tasks.desire(request.selector, request.verb, request.grace_s))
        return pb.DesireReply(tasks=names, version=self._engine.version)

    def scale(self, request: pb.ScaleRequest) -> pb.ApplyReply:
        counts = dict(request.counts)
        return _applied(self._engine.call(lambda: self._engine.tasks.scale(counts, request.dry_run)))

    def desire_hosts(self, request: pb.DesireHostsRequest) -> pb.DesireHostsReply:
        names = list(request.hosts)
        changed = self._engine.call(lambda: self._engine.hosts.desire(names, request.verb, request.reason))
        return pb.DesireHostsReply(hosts=changed, version=self._engine.version)

    def events(self, request: pb.EventsRequest) -> pb.EventsReply:
        engine = self._engine
        limit = min(request.limit or MOST_EVENTS, MOST_EVENTS)
        # Asked first: what is committed after this is found by the next call.
        newest = engine.read(engine.store.last_event)
        events = read_events(engine.paths.database, request.after, request.since, limit)
        if not events and request.wait_s:
            engine.wait_event(max(newest, request.after), min(request.wait_s, LONGEST_WAIT_S))
            events = read_events(engine.paths.database, request.after, request.since, limit)
        reply = to_message(_Events(tuple(events)), pb.EventsReply)
        reply.newest = max((event.seq for event in events), default=newest)
        return reply

    def read_logs(self, request: pb.LogsRequest) -> pb.LogsReply:
        """What is new past the caller's positions. Final is asked before reading, so nothing is missed."""
        engine = self._engine
        final = engine.read(lambda: engine.is_over(request.selector))
        known = {
            (item.host, item.process): LogPosition(item.process, item.file, item.offset) for item in request.positions
        }
        by_host: dict[str, list[LogPosition]] = defaultdict(list)
        held = {(item.host, item.process) for item in request.positions if item.hold}
        for host, start in engine.read(lambda: engine.log_positions(request.selector)):
            if (host, start.process) not in held:
                by_host[host].append(known.get((host, start.process), start))
        wait_s = 0.0 if final else min(request.wait_s, LONGEST_WAIT_S)
        deadline = time.monotonic() + wait_s
        reply = pb.LogsReply(ended=final)
        away: set[str] = set()
        at_end = not held
        while True:
            left = min(request.max_bytes or MOST_LOG_BYTES, MOST_LOG_BYTES)
            for host, positions in by_host.items():
                alone = len(by_host) == 1
                if left <= 0:  # the caller takes what there is before it gets more
                    at_end = False
                    for position in positions:
                        _add_chunk(reply, host, LogChunk(position, at_end=False))
                    continue
                try:
                    chunks = engine.hosts.read_logs(
                        host,
                        positions,
                        wait_s=min(1.0, max(0.0, deadline - time.monotonic())) if alone else 0.0,
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
                        _add_chunk(reply, host, chunk)
            if any(chunk.data for chunk in reply.chunks) or time.monotonic() >= deadline:
                break
            if len(by_host) != 1:
                time.sleep(0.05)
            elif not final and engine.read(lambda: engine.is_over(request.selector)):
                break  # its last output is read by the next call, which knows that it is the last
            del reply.chunks[:]
        reply.unreachable.extend(sorted(away))
        reply.final = final and at_end and not any(chunk.data for chunk in reply.chunks)
        return reply

    def down(self, request: pb.DownRequest) -> pb.DownReply:
        engine = self._engine
        engine.begin_down()
        problems = engine.hosts.stop_all(request.grace_s, request.delete_logs)
        if problems and not request.force:
            raise PartlyDone(
                "; ".join(problems), "run `dtfctl down` again when that is resolved, or `down --force` to give them up"
            )
        engine.finish()
        return pb.DownReply(problems=problems)


def _add_chunk(reply: pb.LogsReply, host: str, chunk: LogChunk) -> None:
    item = reply.chunks.add(data=chunk.data, at_end=chunk.at_end)
    item.next.process, item.next.host = chunk.next.process, host
    item.next.file, item.next.offset = chunk.next.file, chunk.next.offset


def _applied(done: Applied) -> pb.ApplyReply:
    return pb.ApplyReply(changes=done.lines, event=done.newest, tasks=done.meant)
