"""The user's access to hosts, through the controller: it finds the agent and passes on what both say."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeVar

from dtfctl.launcher.errors import Conflict, ConnectionLost, LauncherError, NotFound, UsageError
from dtfctl.launcher.messages import agent_calls as agent
from dtfctl.launcher.messages.commands import ExecInput, ExecOutput, ExecStart
from dtfctl.launcher.messages.controller import Nothing, SpecReply
from dtfctl.launcher.messages.controller_calls import (
    EXAMINE,
    EXEC,
    FETCH,
    INSPECT,
    MEASURE,
    READ_SPEC,
    STORE,
)
from dtfctl.launcher.messages.files import FetchRequest, FilePart, Stored, StoreInput, StoreStart
from dtfctl.launcher.messages.looks import Examination, ExamineRequest, Inspection, InspectRequest, MeasureRequest
from dtfctl.launcher.model import LinkStatus
from dtfctl.launcher.rpc.client import Channel
from dtfctl.launcher.rpc.method import Handler, Method, PeerUnavailable
from dtfctl.launcher.rpc.server import Call
from dtfctl.values import replace

if TYPE_CHECKING:
    from dtfctl.launcher.controller.loop import ControllerLoop

INSPECT_S = 10.0
EXAMINE_S = 60.0
MEASURE_S = 30.0
T = TypeVar("T")


class Relay:
    """Handlers; each runs in a thread of the server."""

    def __init__(self, engine: ControllerLoop) -> None:
        self._engine = engine

    def handlers(self) -> dict[Method, Handler]:  # type: ignore[type-arg]
        return {
            EXEC: self.exec,
            FETCH: self.fetch,
            STORE: self.store,
            INSPECT: self.inspect,
            EXAMINE: self.examine,
            MEASURE: self.measure,
            READ_SPEC: self.read_spec,
        }

    def read_spec(self, request: Nothing) -> SpecReply:
        spec = self._engine.read(self._engine.current_spec)
        if spec is None:
            raise Conflict("the cluster has no spec yet", "wait for `dtfctl up` to finish")
        return SpecReply(spec)

    def exec(self, requests: Iterator[ExecInput], call: Call) -> Iterator[ExecOutput]:
        first = next(requests, None)
        if first is None or not isinstance(start := first.what, ExecStart):
            raise UsageError("the first message of a command is its start")
        host = start.host
        first = ExecInput(replace(start, folder=self._folder(start.process, host)))
        talk = self._channel(host).talk(agent.EXEC, _until_broken(itertools.chain([first], requests)))
        call.on_end(talk.cancel)
        return self._passed_on(host, iter(talk))

    def store(self, requests: Iterator[StoreInput], call: Call) -> Iterator[Stored]:
        first = next(requests, None)
        if first is None or not isinstance(start := first.what, StoreStart):
            raise UsageError("the first message of a transfer is its start")
        host = start.host
        first = StoreInput(replace(start, folder=self._folder(start.process, host)))
        talk = self._channel(host).talk(agent.STORE, _until_broken(itertools.chain([first], requests)))
        call.on_end(talk.cancel)
        return self._passed_on(host, iter(talk))

    def fetch(self, request: FetchRequest) -> Iterator[FilePart]:
        request = replace(request, folder=self._folder(request.process, request.host))
        return self._passed_on(request.host, self._channel(request.host).stream(agent.FETCH, request))

    def inspect(self, request: InspectRequest) -> Inspection:
        try:
            return self._channel(request.host).call(agent.INSPECT, request, timeout_s=INSPECT_S)
        except PeerUnavailable as error:
            raise ConnectionLost(f"host {request.host}: {error.message}") from None

    def examine(self, request: ExamineRequest) -> Examination:
        try:
            return self._channel(request.host).call(agent.EXAMINE, request, timeout_s=EXAMINE_S)
        except PeerUnavailable as error:
            raise ConnectionLost(f"host {request.host}: {error.message}") from None

    def measure(self, request: MeasureRequest) -> LinkStatus:
        """Have a host measure what comes from another one, and keep what it says."""
        source = self._engine.hosts.all.get(request.source)
        if source is None:
            raise NotFound(f"there is no host {request.source!r} in this cluster", "look with: dtfctl hosts")
        # Where other hosts reach it, which need not be where the controller does.
        address = source.report.address if source.report is not None else ""
        link = LinkStatus(request.source, request.host, measured=time.time())
        try:
            if not address:
                raise ConnectionLost(f"the agent of {request.source} has not been heard of")
            request = replace(request, address=address, cluster=self._engine.paths.name)
            found = self._channel(request.host).call(agent.MEASURE, request, timeout_s=MEASURE_S)
            link = replace(link, round_trip_s=found.round_trip_s, bytes_s=found.bytes_s)
        except LauncherError as error:
            link = replace(link, problem=error.message)
        self._engine.call(lambda: self._engine.links.take(link))
        return link

    def _folder(self, process: str, host: str) -> str:
        """Find where the job of a process runs on that host; empty for a task, or the host itself."""
        return self._engine.read(lambda: self._engine.job_folder(process, host))

    def _channel(self, host: str) -> Channel:
        known = self._engine.hosts.all.get(host)
        if known is None:
            raise NotFound(f"there is no host {host!r} in this cluster", "look with: dtfctl hosts")
        try:
            return known.link.channel()
        except PeerUnavailable as error:
            raise ConnectionLost(f"host {host}: {error.message}", "look with: dtfctl status -o wide") from None

    def _passed_on(self, host: str, replies: Iterator[T]) -> Iterator[T]:
        try:
            yield from replies
        except PeerUnavailable as error:
            raise ConnectionLost(f"the connection to host {host} was lost: {error.message}") from None


def _until_broken(requests: Iterator[T]) -> Iterator[T]:
    """Yield `requests`, and end quietly where the caller's stream breaks: the talk is then cancelled anyway."""
    try:
        yield from requests
    except PeerUnavailable:
        return
