"""Hosts over SSH: one logs in to them, and agents whose port is barred are called through the same connection."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

import asyncssh

from dtfctl.launcher.paths import ClusterPaths, home
from dtfctl.launcher.providers.base import AgentEndpoint, HostFailed
from dtfctl.launcher.providers.files import Syncs
from dtfctl.launcher.providers.forwards import Forwards
from dtfctl.launcher.providers.line import Line, Process
from dtfctl.launcher.providers.login import KEEPALIVE_S, Logins
from dtfctl.launcher.providers.own_login import OwnLogin, SentSyncs
from dtfctl.launcher.providers.remote import KNOCK_S, RemoteHost, RemoteProvider
from dtfctl.launcher.spec.model import ClusterSpec
from dtfctl.net.address import UNIX, answers


class SshLine:
    """A connection to a host."""

    def __init__(self, connection: asyncssh.SSHClientConnection) -> None:
        self.connection = connection
        self.forwards = Forwards(connection)

    @property
    def is_used(self) -> bool:
        return bool(self.forwards)

    async def run(self, command: str) -> Process:
        return await self.connection.create_process(command, encoding=None)

    def is_closed(self) -> bool:
        return self.connection.is_closed()

    def watch(self, on: bool) -> None:
        self.connection.set_keepalive(KEEPALIVE_S if on else 0)

    def why(self, said: str) -> HostFailed | None:
        return None

    def close(self) -> None:
        self.forwards.stop()
        self.connection.close()

    def give_up(self) -> None:
        self.close()

    def abort(self) -> None:
        self.connection.abort()


class SshProvider(RemoteProvider):
    """Agents on hosts that one logs in to."""

    def __init__(self, paths: ClusterPaths) -> None:
        asyncssh.set_log_level(logging.WARNING)
        super().__init__(paths)
        self._own: OwnLogin | None = None
        self._logins: Logins | None = None

    def forward(self, host: str, address: str) -> str:
        """Make `unix:PATH` on this machine, which leads to `address` of a host through the connection to it."""
        return self._run(self._forward(host, address), None)

    def _reachable(self, endpoint: AgentEndpoint) -> AgentEndpoint:
        """Find a way to an agent: its port, or where that is barred, the SSH connection, which stays."""
        if answers(endpoint.address, KNOCK_S):
            return endpoint
        way = self._run(self._forward(endpoint.host, endpoint.address, alone=True), None)
        jump = self._logins.last_jumps.get(endpoint.host) if self._logins is not None and self._own is None else None
        return replace(endpoint, socket=way.removeprefix(UNIX), through=f"SSH over {jump}" if jump else "SSH")

    async def _configure(self, spec: ClusterSpec) -> None:
        before = self._spec
        self._own = await self._in_thread(lambda: OwnLogin.of(self._paths))
        ssh = spec.ssh if self._own is None else self._own.ssh(spec.ssh)
        if self._logins is None or before is None or before.ssh != spec.ssh:
            self._logins = Logins(ssh, home() / "known_hosts")
        await super()._configure(spec)

    def _files_of(self, spec: ClusterSpec) -> Syncs | SentSyncs:
        return super()._files_of(spec) if self._own is None else SentSyncs(self._paths.login)

    async def _open(self, host: RemoteHost) -> tuple[Line, Sequence[str]]:
        assert self._logins is not None
        name, user, port = host.name, host.user, None
        notes: tuple[str, ...] = ()
        if self._own is not None:
            met = self._own.met(host.name)
            name, user, port, notes = met.address, met.user, met.port, met.notes
        connection = await self._logins.connect(name, user, lambda: self.on_stage(host.name, "connecting", ""), port)
        return SshLine(connection), (*notes, *self._logins.unheeded.get(name, ()))

    async def _forward(self, name: str, address: str, *, alone: bool = False) -> str:
        """Forward to `address` of a host; `alone`: what was forwarded before is not needed any more."""
        host = self._hosts[name]
        async with host.lock:
            conversation = await self._talk(host)
            line = conversation.line
            assert isinstance(line, SshLine)
            if alone:
                line.forwards.stop(but=address)
            return await line.forwards.lead_to(address, self._paths.run)

    async def _close(self) -> None:
        await super()._close()
        if self._logins is not None:
            await self._logins.close()
