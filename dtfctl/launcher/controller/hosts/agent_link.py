"""The controller's connection to one agent: finds or starts it, follows its reports, delivers its orders.

Two threads a host, so that a slow or lost host delays nobody else: one follows reports, one sends orders. Both only
put what they learn into the controller's queue.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from dtfctl import guard
from dtfctl.launcher.controller.hosts.certify import HostCertificates
from dtfctl.launcher.controller.hosts.file_sender import FileSender
from dtfctl.launcher.errors import LauncherError, OtherVersion, Superseded
from dtfctl.launcher.identity.certificates import TlsFiles
from dtfctl.launcher.messages import agent_calls
from dtfctl.launcher.messages.agent import (
    KeepRequest,
    ProbeRequest,
    ReadLogsRequest,
    RenewRequest,
    Script,
    SharedRequest,
    SharedStep,
    ShutdownRequest,
    WatchRequest,
)
from dtfctl.launcher.messages.deltas import ReportMerger, order_changes
from dtfctl.launcher.messages.orders import HostOrders
from dtfctl.launcher.messages.reports import LogChunk, LogPosition, Report
from dtfctl.launcher.messages.state_copy import Copy
from dtfctl.launcher.providers.base import LASTING_CAUSES, AgentEndpoint, HostFailed, Provider
from dtfctl.launcher.rpc.client import Channel
from dtfctl.launcher.rpc.method import PeerUnavailable
from dtfctl.launcher.transfer.blobs import Blobs

log = logging.getLogger(__name__)

APPLY_S = 10.0
SHIP_S = 120.0
SHUTDOWN_MARGIN_S = 30.0
SHUTDOWN_LOOKS_S = (2.0, 4.0, 8.0)
"""An agent that has not confirmed its shutdown by then is looked at: one that hangs is not waited for."""
END_S = 5.0
CONNECT_S = 10.0
KEEP_S = 30.0
KEEP_AGAIN_S = 5.0
EXPIRED = "certificate has expired"
"""OpenSSL's words."""
RENEW_S = 1.0
"""Leases are renewed this often; the shortest lease is several times longer."""
RENEW_AGAIN_S = 0.2
PROBE_S = 30.0
SILENT_S = 2.5
"""An agent that reported, and now reports nothing for so long although it seems to run, hangs: replaced before its
host counts as lost, its tasks need not move."""
MUTE_S = 10.0
"""The same for one that has not reported to this controller yet: it may just be starting."""
REPLACE_AGAIN_S = 15.0
LOOK_AGAIN_S = 1.0
"""The seconds until an agent is looked at again that is silent, but whose loop turns."""
RETRY_S = (0.0, 0.1, 0.2, 0.5, 1.0, 2.0)
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
        read_script: Callable[[str], bytes],
        blobs: Blobs,
        on_report: Callable[[str, Report, bool], None],
        on_lost: Callable[[str, LauncherError], None],
        on_endpoint: Callable[[AgentEndpoint], None],
        certificates: HostCertificates,
        on_renewed: Callable[[str, list[str]], None],
    ) -> None:
        self.host = host
        self._cluster = cluster
        self._epoch = epoch
        self._provider = provider
        self._tls = tls
        self._seen = seen
        self._read_script = read_script
        """The stored script of a job, by the job's id."""
        self._shipped: set[tuple[str, str]] = set()
        self._files = FileSender(host, blobs)
        self._is_new = True
        """What certificates the agent has is not known."""
        self._on_report = on_report
        self._on_lost = on_lost
        self._on_endpoint = on_endpoint
        self.certificates = certificates
        self._on_renewed = on_renewed
        self.on_superseded: Callable[[str], None] = lambda _: None
        """Another controller has given the host orders meanwhile."""
        self._condition = threading.Condition()
        self._channel: Channel | None = None
        self._orders: HostOrders | None = None
        self._sent: HostOrders | None = None
        self._copy: Copy | None = None
        self._kept: Copy | None = None
        self._keep_at = 0.0
        self._term = 0
        """The host's lease, as the host has said last."""
        self._closing = False
        self.renews = True
        """False: the host is taken for lost, and whatever runs there is to end with its lease."""
        self._may_start = True
        self._hurry = False
        self._silent_since: float | None = None
        """When the agent that is thought to run was found or last reported; None: none is known to run."""
        self._has_reported = False
        self._replaced_at = -REPLACE_AGAIN_S
        self._starting = threading.Lock()
        self._threads = [
            guard.forever(self._follow, name=f"follow-{host}"),
            guard.forever(self._send, name=f"send-{host}"),
        ]

    def start_none(self) -> None:
        """Leave an agent that has died as it is; only `shutdown_agent` starts it again."""
        self._may_start = False

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def set_orders(self, orders: HostOrders) -> None:
        """Set the newest orders; older ones that were not sent yet are dropped."""
        with self._condition:
            self._orders = orders
            self._condition.notify_all()

    def set_copy(self, copy: Copy) -> None:
        """Set what the host is to keep; it goes there before the next orders do."""
        if copy is self._copy:
            return
        with self._condition:
            self._copy = copy
            self._condition.notify_all()

    def close(self) -> None:
        with self._condition:
            self._closing = True
            self._files.forget()
            channel, self._channel = self._channel, None
            self._condition.notify_all()
        if channel is not None:
            channel.close()

    def hangs(self, now: float) -> bool:
        """Tell whether the agent seems to run but has reported nothing for too long."""
        since, limit = self._silent_since, SILENT_S if self._has_reported else MUTE_S
        return since is not None and now - since > limit and now - self._replaced_at > REPLACE_AGAIN_S

    def replace_agent(self) -> None:
        """End an agent that seems to hang, if it does, in a thread; `_follow` sees that and starts another."""
        self._replaced_at = time.monotonic()
        guard.once(self._end_agent, name=f"replace-{self.host}").start()

    def _end_agent(self) -> None:
        try:
            if not self._provider.kill_agent(self.host, if_it_hangs=True):
                log.warning("the agent of %s reports nothing, but its loop turns: it is left alone", self.host)
                self._replaced_at = time.monotonic() - REPLACE_AGAIN_S + LOOK_AGAIN_S
        except LauncherError as error:
            log.warning("the agent of %s cannot be ended: %s", self.host, error.message)

    def try_again(self) -> None:
        """Do not wait any longer before the next attempt to reach the host."""
        with self._condition:
            self._hurry = True
            self._condition.notify_all()

    # ------------------------------------------------------------------ calls from any thread

    def read_logs(
        self, positions: list[LogPosition], *, wait_s: float, within_s: float, max_bytes: int, tail: int
    ) -> list[LogChunk]:
        request = ReadLogsRequest(tuple(positions), max_bytes, wait_s, tail)
        return list(self.channel().call(agent_calls.READ_LOGS, request, timeout_s=wait_s + within_s).chunks)

    def shutdown_agent(self, grace_s: float, delete_logs: bool = False) -> None:
        """Stop the host's processes and its agent, which is first started again if it has died: it knows them."""
        with self._starting:
            self._may_start = False
            if not self._provider.may_run(self.host):
                return
            endpoint = self._provider.find_agent(self.host) or self._provider.start_agent(self.host)
        try:
            self._order_shutdown(endpoint, grace_s, delete_logs)
        except PeerUnavailable as error:
            # It hangs. Its successor finds the processes that it started.
            log.warning("%s: %s; its agent is replaced to shut it down", self.host, error.message)
            with self._starting:
                self._provider.kill_agent(self.host)
                endpoint = self._provider.start_agent(self.host)
            self._order_shutdown(endpoint, grace_s, delete_logs)
        if not self._provider.wait_ended(self.host, END_S):
            self._provider.kill_agent(self.host)

    def _order_shutdown(self, endpoint: AgentEndpoint, grace_s: float, delete_logs: bool) -> None:
        channel = Channel(endpoint.called_at, self._tls, "agent", self._cluster, self.host)
        confirmed = threading.Event()
        guard.once(self._end_if_it_hangs, name=f"look-{self.host}", args=(confirmed,)).start()
        try:
            request = ShutdownRequest(grace_s=grace_s, epoch=self._epoch, delete_logs=delete_logs)
            deadline = time.monotonic() + CONNECT_S
            while True:
                try:
                    channel.call(agent_calls.SHUTDOWN, request, timeout_s=grace_s + SHUTDOWN_MARGIN_S)
                    return
                except PeerUnavailable:  # a host where much ends at once may be slow to answer
                    if time.monotonic() > deadline or self._provider.wait_ended(self.host, 0.0):
                        raise
        finally:
            confirmed.set()
            channel.close()

    def _end_if_it_hangs(self, confirmed: threading.Event) -> None:
        """End an agent that hangs while it is to shut down: the call to an agent that is killed fails at once."""
        for pause in SHUTDOWN_LOOKS_S:
            if confirmed.wait(pause):
                return
            with contextlib.suppress(LauncherError):  # the host itself is out of reach: the call finds that out
                if self._provider.kill_agent(self.host, if_it_hangs=True):
                    log.info("the agent of %s hung while it was to shut down: it was killed", self.host)
                    return

    def channel(self) -> Channel:
        """Take the connection as it is now; any thread.

        Raises:
            PeerUnavailable: there is none.
        """
        with self._condition:
            if self._channel is None:
                raise PeerUnavailable(f"the agent of {self.host} is not connected")
            return self._channel

    def renew_certificates(self) -> int:
        """Have all certificates of the host replaced at once; see `HostCertificates.wait_renewed`."""
        number = self.certificates.renew()
        with self._condition:
            self._condition.notify_all()
        return number

    # ------------------------------------------------------------------ threads

    def _follow(self) -> None:
        failures = 0
        while not self._closing:
            try:
                endpoint = self._find_or_start()
                if self._silent_since is None:
                    self._silent_since, self._has_reported = time.monotonic(), False
                self._on_endpoint(endpoint)
                self._connect(endpoint)
                merger = ReportMerger()
                for message in self._watch():
                    failures = 0
                    self._silent_since, self._has_reported = time.monotonic(), True
                    report, counts = merger.add(message)
                    if report.happenings:
                        self._seen = (report.boot, report.happenings[-1].number)
                    self._on_report(self.host, report, counts)
                problem: LauncherError = PeerUnavailable("its agent ended the connection")
            except OtherVersion as error:  # neither of them changes by itself: `up` must not wait for that
                problem = HostFailed("agent", error.message, error.hint)
            except LauncherError as error:
                problem = error
            except Exception as error:
                guard.note(f"follow-{self.host}")
                problem = PeerUnavailable(f"a bug in dtfctl: {type(error).__name__}: {error}")
                if failures:  # a host that nobody can follow would leave `up` waiting for ever
                    problem = HostFailed("agent", problem.message, "see the controller's log")
            if self._closing:
                return
            self._disconnect()
            if EXPIRED in problem.message:
                self._replace_expired()
            self._on_lost(self.host, problem)
            failures += 1
            lasting = isinstance(problem, HostFailed) and problem.cause in LASTING_CAUSES
            with self._condition:
                pause = None if lasting else RETRY_S[min(failures, len(RETRY_S)) - 1]
                self._condition.wait_for(lambda: self._closing or self._hurry, pause)
                self._hurry = False

    def _replace_expired(self) -> None:
        """Give an agent whose certificate nobody renewed in time another one, as it got its first; it goes on."""
        try:
            with self._starting:
                self._provider.start_agent(self.host)
        except LauncherError as error:
            log.warning("the certificate of %s has ended and is not renewed: %s", self.host, error)

    def _find_or_start(self) -> AgentEndpoint:
        with self._starting:
            try:
                endpoint = self._provider.find_agent(self.host)
                if endpoint is not None:
                    return endpoint
                self._silent_since = None
                if not self._may_start:
                    raise PeerUnavailable(f"the agent of {self.host} has ended")
                return self._provider.start_agent(self.host)
            except LauncherError:
                self._silent_since = None
                raise

    def _watch(self) -> Iterator[Report]:
        boot, number = self._seen
        channel = self.channel()
        request = WatchRequest(epoch=self._epoch, boot=boot, happening=number)
        return channel.stream(agent_calls.WATCH, request)

    def _connect(self, endpoint: AgentEndpoint) -> None:
        channel = Channel(endpoint.called_at, self._tls, "agent", self._cluster, self.host)
        with self._condition:
            self._channel, self._sent, self._kept, self._keep_at = channel, None, None, 0.0
            self._shipped = set()
            self._files.forget()
            self._is_new = True
            self._condition.notify_all()

    def _disconnect(self) -> None:
        with self._condition:
            channel, self._channel = self._channel, None
        if channel is not None:
            channel.close()

    def _send(self) -> None:
        while True:
            with self._condition:
                self._condition.wait_for(lambda: self._closing or self._has_work(), RENEW_S)
                if self._closing:
                    return
                orders, channel, sent = self._orders, self._channel, self._sent
            if channel is not None and self._must_keep():
                self._keep(channel)
            if orders is None or channel is None:
                continue
            if orders is sent:
                self._renew(channel, orders)
                self._certify_or_note(channel, orders)
                continue
            try:
                self._ship_scripts(channel, orders)
                self._files.ship(channel, orders)
                self._certify(channel, orders)
                whole = replace(orders, epoch=self._epoch)
                message = order_changes(None if sent is None else replace(sent, epoch=self._epoch), whole)
                done = channel.call(agent_calls.APPLY, message, timeout_s=APPLY_S)
            except Exception as error:  # also a bug: a host that gets no orders any more would be silent about it
                if isinstance(error, Superseded):
                    self.on_superseded(f"{self.host}: {error.message}")
                bug = not isinstance(error, LauncherError)
                log.warning("orders %d for %s: %s", orders.revision, self.host, error, exc_info=bug)
                with self._condition:
                    self._sent = None  # what the agent has now is not known
                    self._condition.wait_for(lambda: self._closing, 0.2)
                continue
            with self._condition:
                if channel is self._channel:
                    self._sent = orders
            if done.term != self._term:
                self._renew(channel, orders)

    def _has_work(self) -> bool:
        if self._channel is None:
            return False
        has_orders = self._orders is not None and (self._orders is not self._sent or self.certificates.is_pending())
        return self._must_keep() or has_orders

    def _must_keep(self) -> bool:
        return self._copy is not None and self._copy is not self._kept and time.monotonic() >= self._keep_at

    def _keep(self, channel: Channel) -> None:
        """Let the host keep the copy. Orders do not wait for one that cannot: it is tried again later."""
        new, old = self._copy, self._kept
        assert new is not None
        request = KeepRequest(self._epoch, new.revision, 0, new.entries)
        if old is not None:
            changed = {key: text for key, text in new.entries.items() if old.entries.get(key) != text}
            removed = tuple(old.entries.keys() - new.entries.keys())
            request = KeepRequest(self._epoch, new.revision, old.revision, changed, removed)
        try:
            channel.call(agent_calls.KEEP, request, timeout_s=KEEP_S)
        except LauncherError as error:
            log.warning("%s does not keep the copy: %s", self.host, error.message)
            with self._condition:
                self._kept, self._keep_at = None, time.monotonic() + (0.0 if old is not None else KEEP_AGAIN_S)
            return
        with self._condition:
            if channel is self._channel:
                self._kept = new

    def _renew(self, channel: Channel, orders: HostOrders) -> None:
        """Renew the host's lease, as long as the host is not taken for lost.

        A call that is lost is made again. What the agent has been ordered it still has, unless it says otherwise: to a
        busy host, or over a slow link, all orders must not go once more for every lost call. Where the agent answers
        that the lease named has ended, the call is made again for the one that it names.
        """
        if not (orders.lease_s and self.renews):
            return
        try:
            while True:
                named = self._term
                request = RenewRequest(epoch=self._epoch, revision=orders.revision, term=named)
                answer = channel.call(agent_calls.RENEW, request, timeout_s=RENEW_S * 2)
                held, self._term = answer.revision, answer.term
                if answer.term == named:
                    break
        except LauncherError as error:
            log.warning("the lease of %s is not renewed: %s", self.host, error)
            held = orders.revision
            with self._condition:
                self._condition.wait_for(lambda: self._closing or self._has_work(), RENEW_AGAIN_S)
        if held != orders.revision:
            with self._condition:
                self._sent = None

    def _certify(self, channel: Channel, orders: HostOrders) -> None:
        """Give tasks certificates before they are started, and others before these end."""
        with self._condition:
            is_new, self._is_new = self._is_new, False
        if is_new:
            self.certificates.forget()
        try:
            renewed = self.certificates.provide(channel, orders)
        except BaseException:
            with self._condition:
                self._is_new = True
            raise
        if renewed:
            self._on_renewed(self.host, renewed)

    def _certify_or_note(self, channel: Channel, orders: HostOrders) -> None:
        try:
            self._certify(channel, orders)
        except LauncherError as error:
            log.warning("the certificates of %s are not renewed: %s", self.host, error)
            with self._condition:
                self._condition.wait_for(lambda: self._closing, RENEW_AGAIN_S)

    def probe(self) -> str:
        """Ask what is wrong with the host; empty when it can start processes and write files. Any thread."""
        try:
            return self.channel().call(agent_calls.PROBE, ProbeRequest(), timeout_s=PROBE_S).problem
        except LauncherError as error:
            return error.message

    def prove_shared(self, folder: str, token: str, step: SharedStep) -> str:
        """Take a step of the proof that hosts share a folder; say what is wrong. Any thread. Raises LauncherError."""
        request = SharedRequest(folder=folder, token=token, step=step)
        return self.channel().call(agent_calls.PROVE_SHARED, request, timeout_s=PROBE_S).problem

    def _ship_scripts(self, channel: Channel, orders: HostOrders) -> None:
        """Send scripts to the host before the orders that run them."""
        for client in orders.clients:
            script = (client.script_sha256, client.script)
            if not client.run or script in self._shipped:
                continue
            content = self._read_script(client.job_id)
            request = Script(name=client.script, sha256=client.script_sha256, content=content)
            channel.call(agent_calls.PUT_SCRIPT, request, timeout_s=SHIP_S)
            self._shipped.add(script)
