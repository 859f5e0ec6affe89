"""The agent's calls; see messages/agent.py."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from dtfctl.launcher.agent.access.state_copy import StateCopyFile
from dtfctl.launcher.agent.loop import Agent
from dtfctl.launcher.agent.start import launch, logs
from dtfctl.launcher.agent.units import state_file
from dtfctl.launcher.errors import DeadlineExpired, ScriptError
from dtfctl.launcher.identity.certificates import Issued
from dtfctl.launcher.messages.agent import (
    Applied,
    Certified,
    CertifyRequest,
    KeepRequest,
    ProbeReply,
    ProbeRequest,
    ReadLogsReply,
    ReadLogsRequest,
    RecallReply,
    RecallRequest,
    RenewRequest,
    Script,
    SharedRequest,
    ShutdownRequest,
    WatchRequest,
)
from dtfctl.launcher.messages.agent_calls import (
    APPLY,
    CERTIFY,
    EXAMINE,
    GET_BLOB,
    KEEP,
    LIST_FILES,
    PROBE,
    PROVE_SHARED,
    PUT_BLOB,
    PUT_SCRIPT,
    READ_FILE,
    READ_LOGS,
    RECALL,
    RENEW,
    SHUTDOWN,
    WATCH,
)
from dtfctl.launcher.messages.deltas import ReportFilter
from dtfctl.launcher.messages.files import BlobHeld, BlobPiece
from dtfctl.launcher.messages.looks import Examination, ExamineRequest
from dtfctl.launcher.messages.orders import HostOrders
from dtfctl.launcher.messages.reports import LogChunk, Report
from dtfctl.launcher.paths import environments_of
from dtfctl.launcher.rpc.method import Handler, Method
from dtfctl.launcher.rpc.server import caller, echo
from dtfctl.launcher.system.files import private_folder, write_whole
from dtfctl.launcher.system.host_facts import probe

LOG_POLL_S = 0.03
LONGEST_WAIT_S = 30.0
MOST_LOG_BYTES = 4 * 2**20


class AgentService:
    """Handlers; each runs in a thread of the server."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._state_copy = StateCopyFile(agent.folder)

    def handlers(self) -> dict[Method, Handler]:  # type: ignore[type-arg]
        return {
            APPLY: self.apply,
            PUT_SCRIPT: self.put_script,
            PUT_BLOB: self.put_blob,
            GET_BLOB: lambda request: self._agent.preparations.blobs.piece(request.sha256, request.offset),
            EXAMINE: self.examine,
            CERTIFY: self.certify,
            WATCH: self.watch,
            RENEW: self.renew,
            KEEP: self.keep,
            RECALL: self.recall,
            PROBE: self.probe,
            PROVE_SHARED: self.prove_shared,
            READ_LOGS: self.read_logs,
            LIST_FILES: lambda request: self._agent.folders.list_files(request),
            READ_FILE: lambda request: self._agent.folders.read_file(request),
            SHUTDOWN: self.shutdown,
        }

    def apply(self, request: HostOrders) -> Applied:
        controller = caller()
        self._agent.call(lambda: self._agent.apply(request, controller))
        return Applied(request.revision, self._agent.term)

    def renew(self, request: RenewRequest) -> Applied:
        controller = caller()
        epoch, revision, term = request.epoch, request.revision, request.term
        return Applied(self._agent.call(lambda: self._agent.renew(epoch, revision, term, controller)), self._agent.term)

    def keep(self, request: KeepRequest) -> Applied:
        self._state_copy.take(request.epoch, request.revision, request.base, request.entries, request.removed)
        return Applied(request.revision)

    def recall(self, request: RecallRequest) -> RecallReply:
        return RecallReply(
            copy=self._state_copy.content(),
            state=state_file.content(self._agent.folder / state_file.FILE),
            boot=self._agent.boot,
            happening=self._agent.reports.newest_happening,
        )

    def probe(self, request: ProbeRequest) -> ProbeReply:
        return ProbeReply(probe(self._agent.folder))

    def prove_shared(self, request: SharedRequest) -> ProbeReply:
        from dtfctl.launcher.checkpoints.shared import prove

        return ProbeReply(prove(request.folder, request.token, self._agent.host, request.step))

    def put_script(self, request: Script) -> Applied:
        import hashlib

        if hashlib.sha256(request.content).hexdigest() != request.sha256 or Path(request.name).name != request.name:
            raise ScriptError(f"the script {request.name} was damaged on its way")
        path = launch.script_path(self._agent.folder, request.sha256, request.name)
        private_folder(path.parent)
        write_whole(path, request.content, 0o700)
        return Applied()

    def put_blob(self, request: BlobPiece) -> BlobHeld:
        held = self._agent.preparations.blobs.take(request)
        if held.bytes == request.size:
            self._agent.look_again()
        return held

    def examine(self, request: ExamineRequest) -> Examination:
        from dtfctl.launcher.agent.start.environments import examine

        command = (request.python,) if request.python else ("",)
        (python,) = launch.interpreter(command)
        root = environments_of(self._agent.folder.absolute())
        return examine(python, request.packages, launch.lent_modules(command), root)

    def certify(self, request: CertifyRequest) -> Certified:
        keyring = self._agent.keyring
        if request.authority:
            issued = [Issued(item.name, item.cert, item.key, 0.0) for item in request.certificates]
            keyring.take(request.authority, issued, request.tasks, request.former)
        return Certified(keyring.held())

    def watch(self, request: WatchRequest) -> Iterator[Report]:
        seen = request.happening if request.boot == self._agent.boot else 0
        version = 0
        news = ReportFilter()
        end = self._agent.is_watched(caller(), echo())
        try:
            while not self._agent.finished:
                version, report = self._agent.reports.wait(version, 1.0, seen)
                if report.happenings:
                    seen = report.happenings[-1].number
                yield news.next(report, time.monotonic())
        finally:
            end()

    def read_logs(self, request: ReadLogsRequest) -> ReadLogsReply:
        positions = request.positions
        most = min(request.max_bytes or MOST_LOG_BYTES, MOST_LOG_BYTES)
        each = max(logs.LEAST_BYTES, most // max(1, len(positions)))
        deadline = time.monotonic() + min(request.wait_s, LONGEST_WAIT_S)
        while True:
            chunks, left = [], most
            for position in positions:
                if left <= 0:  # what is not read now is read when the rest has been taken
                    chunks.append(LogChunk(position, b"", False))
                    continue
                log = self._agent.log_of(position.process)
                chunk = logs.read(log, position, each, request.tail)
                if chunk.data:
                    logs.note_reader(log, chunk)
                chunks.append(chunk)
                left -= len(chunk.data)
            if any(chunk.data for chunk in chunks) or time.monotonic() >= deadline or self._agent.finished:
                return ReadLogsReply(tuple(chunks))
            time.sleep(LOG_POLL_S)

    def shutdown(self, request: ShutdownRequest) -> Report:
        agent = self._agent
        agent.call(lambda: agent.shutdown(request.grace_s, request.delete_logs))
        deadline = time.monotonic() + request.grace_s + 15.0
        version = 0
        while not agent.finished:
            if time.monotonic() > deadline:
                raise DeadlineExpired(f"processes on {agent.host} do not end, not even by SIGKILL")
            version, _ = agent.reports.wait(version, 0.2)
        return agent.reports.newest()
