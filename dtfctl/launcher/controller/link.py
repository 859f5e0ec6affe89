"""The controller's connection to one agent: finds or starts it, follows its reports, delivers its orders.

Two threads a host, so that a slow or lost host delays nobody else: one follows reports, one sends orders. Both only
put what they learn into the controller's queue.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from dtfctl.launcher.agent import methods
from dtfctl.launcher.agent.contract import HostOrders, LogChunk, LogPosition, Report
from dtfctl.launcher.certificates import TlsFiles
from dtfctl.launcher.errors import LauncherError
from dtfctl.launcher.providers.base import AgentEndpoint, Provider
from dtfctl.launcher.rpc import Channel, PeerUnavailable
from dtfctl.launcher.wire import from_message, to_message
from dtfctl.protocol import agent_pb2 as pb

log = logging.getLogger(__name__)

APPLY_S = 10.0
SHUTDOWN_MARGIN_S = 30.0
END_S = 5.0
RETRY_S = (0.0, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
"""Waits between attempts to reach an agent; the last one repeats."""


class AgentLink:
    """Calls to, and reports from, the agent of `host`."""

    def __init__(
        self,
        host: str,
        cluster: str,
        epoch: int,
        provider: Provider,
        tls: TlsFiles,
        seen: tuple[str, int],
        on_report: Callable[[str, Report], None],
        on_lost: Callable[[str, str], None],
        on_endpoint: Callable[[AgentEndpoint], None],
    ) -> None:
        self.host = host
        self._cluster = cluster
        self._epoch = epoch
        self._provider = provider
        self._tls = tls
        self._seen = seen
        self._on_report = on_report
        self._on_lost = on_lost
        self._on_endpoint = on_endpoint
        self._condition = threading.Condition()
        self._channel: Channel | None = None
        self._orders: HostOrders | None = None
        self._sent: HostOrders | None = None
        self._closing = False
        self._may_start = True
        self._starting = threading.Lock()
        self._threads = [
            threading.Thread(target=self._follow, name=f"follow-{host}", daemon=True),
            threading.Thread(target=self._send, name=f"send-{host}", daemon=True),
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def set_orders(self, orders: HostOrders) -> None:
        """The newest orders; older ones that were not sent yet are dropped."""
        with self._condition:
            self._orders = orders
            self._condition.notify_all()

    def close(self) -> None:
        with self._condition:
            self._closing = True
            channel, self._channel = self._channel, None
            self._condition.notify_all()
        if channel is not None:
            channel.close()

    def restart_agent(self) -> None:
        """The agent hangs: end it; `_follow` sees its connection break and starts another."""
        self._provider.kill_agent(self.host)

    # ------------------------------------------------------------------ calls from any thread

    def read_logs(self, positions: list[LogPosition], *, wait_s: float, max_bytes: int, tail: int) -> list[LogChunk]:
        request = pb.ReadLogsRequest(wait_s=wait_s, max_bytes=max_bytes, tail=tail)
        for position in positions:
            request.positions.append(to_message(position, pb.LogPosition))
        reply = self._ready_channel().call(methods.READ_LOGS, request, timeout_s=wait_s + 10.0)
        return [from_message(LogChunk, chunk) for chunk in reply.chunks]

    def shutdown_agent(self, grace_s: float) -> None:
        """Stop the host's processes and its agent, which is first started again if it has died: it knows them."""
        with self._starting:
            self._may_start = False
            endpoint = self._provider.find_agent(self.host) or self._provider.start_agent(self.host)
        channel = Channel(endpoint.address, self._tls, "agent", self._cluster)
        try:
            request = pb.ShutdownRequest(grace_s=grace_s, epoch=self._epoch)
            channel.call(methods.SHUTDOWN, request, timeout_s=grace_s + SHUTDOWN_MARGIN_S)
        finally:
            channel.close()
        deadline = time.monotonic() + END_S
        while not self._provider.has_ended(self.host):
            if time.monotonic() > deadline:
                self._provider.kill_agent(self.host)
                return
            time.sleep(0.005)

    def _ready_channel(self) -> Channel:
        with self._condition:
            if self._channel is None:
                raise PeerUnavailable(f"the agent of {self.host} is not connected")
            return self._channel

    # ------------------------------------------------------------------ threads

    def _follow(self) -> None:
        failures = 0
        while not self._closing:
            try:
                endpoint = self._find_or_start()
                self._on_endpoint(endpoint)
                self._connect(endpoint)
                for message in self._watch():
                    failures = 0
                    report = from_message(Report, message)
                    if report.happenings:
                        self._seen = (report.boot, report.happenings[-1].number)
                    self._on_report(self.host, report)
                reason = "its agent ended the connection"
            except LauncherError as error:
                reason = error.message
            if self._closing:
                return
            self._disconnect()
            self._on_lost(self.host, reason)
            failures += 1
            with self._condition:
                self._condition.wait_for(lambda: self._closing, RETRY_S[min(failures, len(RETRY_S)) - 1])

    def _find_or_start(self) -> AgentEndpoint:
        with self._starting:
            endpoint = self._provider.find_agent(self.host)
            if endpoint is None and not self._may_start:
                raise PeerUnavailable(f"the agent of {self.host} has ended")
            return endpoint or self._provider.start_agent(self.host)

    def _watch(self) -> Iterator[pb.Report]:
        boot, number = self._seen
        channel = self._ready_channel()
        request = pb.WatchRequest(epoch=self._epoch, boot=boot, happening=number)
        return channel.stream(methods.WATCH, request)

    def _connect(self, endpoint: AgentEndpoint) -> None:
        channel = Channel(endpoint.address, self._tls, "agent", self._cluster)
        with self._condition:
            self._channel, self._sent = channel, None
            self._condition.notify_all()

    def _disconnect(self) -> None:
        with self._condition:
            channel, self._channel = self._channel, None
        if channel is not None:
            channel.close()

    def _send(self) -> None:
        while True:
            with self._condition:
                self._condition.wait_for(
                    lambda: self._closing or (self._channel is not None and self._orders is not self._sent)
                )
                if self._closing:
                    return
                orders, channel = self._orders, self._channel
            assert orders is not None
            assert channel is not None
            try:
                request = to_message(replace(orders, epoch=self._epoch), pb.HostOrders)
                channel.call(methods.APPLY, request, timeout_s=APPLY_S)
            except LauncherError as error:
                log.warning("orders %d for %s: %s", orders.revision, self.host, error.message)
                with self._condition:
                    self._condition.wait_for(lambda: self._closing, 0.2)
                continue
            with self._condition:
                if channel is self._channel:
                    self._sent = orders
