"""SSH connections to hosts: one each, over jump hosts if need be, and in words why one cannot be made.

Everything here runs in the one asyncio loop of the provider. What OpenSSH would take from ~/.ssh/config (HostName,
User, Port, IdentityFile, IdentityAgent, ProxyJump, ProxyCommand, HostKeyAlias, UserKnownHostsFile, ...) asyncssh takes
from there too; keys of the spec come first.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import asyncssh

from dtfctl.launcher.providers import ssh_config
from dtfctl.launcher.providers.base import HostFailed
from dtfctl.launcher.providers.known_hosts import HostKeys
from dtfctl.launcher.providers.ssh_config import unheeded
from dtfctl.launcher.spec.model import Ssh

KEEPALIVE_S = 2.0
KEEPALIVE_MISSES = 3
PER_JUMP = 8
"""Logins at a time through one jump host: OpenSSH's server begins to drop them at ten."""
RETRY_S = 0.3
DEFAULT_PORT = 22
DEFAULT_KNOWN_HOSTS = Ssh().known_hosts
DEFAULT_TIMEOUT = Ssh().timeout
OF_THE_USER = (DEFAULT_KNOWN_HOSTS, "~/.ssh/known_hosts2")
OF_THE_SYSTEM = ("/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2")


class _Client(asyncssh.SSHClient):
    """Judges the key that the host shows."""

    def __init__(self, keys: HostKeys, name: str) -> None:
        self._keys = keys
        self._name = name
        self.failure: HostFailed | None = None

    def known(self, host: str, address: str, port: int | None) -> tuple[list[Any], ...]:
        """Find for asyncssh the keys to prefer, the authorities and the revoked keys of a host."""
        entries = self._keys.entries(host, address, port or DEFAULT_PORT)
        return (
            [key for entry in entries for key in entry.keys],
            [key for entry in entries for key in entry.authorities],
            [key for entry in entries for key in entry.revoked],
            *([], [], [], []),
        )

    def validate_host_public_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:
        port = port or DEFAULT_PORT
        self.failure = self._keys.judge(self._keys.entries(host, addr, port), host, port, key)
        return self.failure is None


class Logins:
    """Makes connections as the spec's `ssh` says."""

    def __init__(self, ssh: Ssh, pins: Path, *, remember: bool = True) -> None:
        self._ssh = ssh
        self._pins = pins
        self._remember = remember
        """Whether a key may be pinned."""
        self._fan_out = asyncio.Semaphore(ssh.parallel)
        self._jumps: dict[str, asyncio.Task[asyncssh.SSHClientConnection]] = {}
        self._per_jump: dict[str, asyncio.Semaphore] = {}
        self._host_keys: dict[tuple[str, ...], HostKeys] = {}
        self.unheeded: dict[str, list[str]] = {}
        """By host: what ~/.ssh/config says about it and is not obeyed."""
        self.last_jumps: dict[str, str] = {}
        """By host: the jump host nearest to it, for those that are reached through one."""

    async def connect(
        self, name: str, user: str | None, on_begin: Callable[[], None] = lambda: None, port: int | None = None
    ) -> asyncssh.SSHClientConnection:
        """Connect to `name`, and try again where that may help; within `timeout` for each try.

        Raises:
            HostFailed: with cause `auth`, `host-key` or `unreachable`.
        """
        async with self._fan_out:
            on_begin()
            for attempt in range(self._ssh.retries + 1):
                loop = asyncio.get_running_loop()
                begun = loop.time()
                try:
                    return await self._through_jumps(name, user, port or self._ssh.port)
                except HostFailed as error:
                    # A try that used up its time will not do better at once; the total stays that of the slowest.
                    slow = loop.time() - begun > self._ssh.timeout / 2
                    if error.cause != "unreachable" or slow or attempt == self._ssh.retries:
                        raise
                await asyncio.sleep(RETRY_S * (attempt + 1))
        raise AssertionError("unreachable")

    async def _through_jumps(self, name: str, user: str | None, port: int) -> asyncssh.SSHClientConnection:
        options = await self._options(name, user, port, self._ssh.key)
        if name not in self.unheeded:
            self.unheeded[name] = await asyncio.to_thread(unheeded, name, user, port if port != DEFAULT_PORT else None)
        path = self._ssh.jump or _jumps_of(options)
        if not path:
            return await self._open(options, name, None)
        self.last_jumps[name] = path[-1]
        chain = ",".join(path)
        gate = self._per_jump.setdefault(chain, asyncio.Semaphore(PER_JUMP))
        async with gate:
            return await self._open(options, name, await self._jump(path))

    async def _jump(self, path: tuple[str, ...]) -> asyncssh.SSHClientConnection:
        """Connect to the last host of a path; the connection is shared."""
        chain = ",".join(path)
        known = self._jumps.get(chain)
        if known is None or (known.done() and (known.cancelled() or known.exception() or known.result().is_closed())):
            known = self._jumps[chain] = asyncio.create_task(self._open_jump(path))
        try:
            return await asyncio.shield(known)
        except HostFailed as error:
            raise HostFailed(error.cause, f"jump host {path[-1]}: {error.message}", error.hint, error.where) from None

    async def _open_jump(self, path: tuple[str, ...]) -> asyncssh.SSHClientConnection:
        before = await self._jump(path[:-1]) if len(path) > 1 else None
        user, host, port = _jump_of(path[-1])
        options = await self._options(host, user or self._ssh.user, port, self._ssh.key)
        return await self._open(options, host, before)

    async def _options(
        self, name: str, user: str | None, port: int, key: str | None
    ) -> asyncssh.SSHClientConnectionOptions:
        values: dict[str, Any] = {"password_auth": False, "kbdint_auth": False}
        if user:
            values["username"] = user
        if port != DEFAULT_PORT:
            values["port"] = port
        if key:
            values["client_keys"] = [str(Path(key).expanduser())]
        if self._ssh.timeout != DEFAULT_TIMEOUT:
            values["connect_timeout"] = self._ssh.timeout
            values["login_timeout"] = self._ssh.timeout
        values["keepalive_interval"] = KEEPALIVE_S
        values["keepalive_count_max"] = KEEPALIVE_MISSES
        try:
            return await ssh_config.options_of(name, user, port if port != DEFAULT_PORT else None, **values)
        except asyncssh.KeyImportError as error:
            raise _key_failure(error, key) from None
        except (OSError, ValueError, asyncssh.ConfigParseError) as error:
            raise HostFailed("auth", f"cannot log in: {error}", "look at `ssh:` in the spec and ~/.ssh") from None

    def _timeout_of(self, options: asyncssh.SSHClientConnectionOptions) -> float:
        """Choose the spec's timeout, or `ConnectTimeout`; OpenSSH's ends with the greeting, this one with the login."""
        of_config = options.config.get("ConnectTimeout") if self._ssh.timeout == DEFAULT_TIMEOUT else None
        return float(of_config) if isinstance(of_config, int) and of_config > 0 else self._ssh.timeout

    def _keys_for(self, options: asyncssh.SSHClientConnectionOptions) -> HostKeys:
        chosen: tuple[str, ...] = (self._ssh.known_hosts,)
        if self._ssh.known_hosts == DEFAULT_KNOWN_HOSTS:
            # As OpenSSH: each of the two has defaults of its own, and `none` is no file, not no check.
            chosen = tuple(
                str(name)
                for option, default in (("UserKnownHostsFile", OF_THE_USER), ("GlobalKnownHostsFile", OF_THE_SYSTEM))
                for name in _list(options.config.get(option), default)
            )
        if chosen not in self._host_keys:
            paths = [Path(name).expanduser() for name in chosen]
            self._host_keys[chosen] = HostKeys(paths, self._ssh.host_keys, self._pins, self._remember)
        return self._host_keys[chosen]

    async def _open(
        self,
        options: asyncssh.SSHClientConnectionOptions,
        name: str,
        tunnel: asyncssh.SSHClientConnection | None,
    ) -> asyncssh.SSHClientConnection:
        client = _Client(self._keys_for(options), name)
        values: dict[str, Any] = {"tunnel": tunnel} if tunnel is not None else {}
        try:
            async with asyncio.timeout(self._timeout_of(options)):
                return await asyncssh.connect(
                    name,
                    options=options,
                    client_factory=lambda: client,
                    known_hosts=client.known,
                    **values,
                )
        except (OSError, asyncssh.Error, TimeoutError, ValueError) as error:
            raise client.failure or self._explain(error, options) from None

    def _explain(self, error: Exception, options: asyncssh.SSHClientConnectionOptions) -> HostFailed:
        """Say what went wrong, without the name of the host."""
        if isinstance(error, asyncssh.PermissionDenied):
            key = self._ssh.key
            return HostFailed(
                "auth",
                f"authentication failed for user {options.username}",
                f"the host does not accept {key}"
                if key
                else "add your key to ssh-agent, or name it: `ssh: {key: FILE}`",
            )
        if isinstance(error, asyncssh.HostKeyNotVerifiable):
            return HostFailed("host-key", f"host key cannot be verified: {error.reason}")
        if isinstance(error, asyncssh.KeyImportError):
            return _key_failure(error, self._ssh.key)
        if isinstance(error, TimeoutError):
            return HostFailed("unreachable", f"no answer within {self._timeout_of(options):g} s", "is it on?")
        if isinstance(error, asyncssh.KeyExchangeFailed):
            return HostFailed("host-key", f"no common method with its SSH server: {error.reason}")
        if isinstance(error, socket.gaierror):
            return HostFailed("unreachable", "host name is not known", "check the name, or add it to ~/.ssh/config")
        if isinstance(error, ConnectionRefusedError):
            return HostFailed("unreachable", f"connection refused at port {options.port}", "does its SSH server run?")
        if isinstance(error, asyncssh.ConnectionLost | ConnectionResetError | BrokenPipeError):
            return HostFailed("unreachable", "the connection was closed while logging in")
        if isinstance(error, OSError) and error.errno in (errno.EHOSTUNREACH, errno.ENETUNREACH):
            return HostFailed("unreachable", "no route to the host", "is it on?")
        if isinstance(error, asyncssh.ChannelOpenError):
            return HostFailed("unreachable", f"the jump host cannot reach it: {error.reason}")
        said = error.reason if isinstance(error, asyncssh.Error) else str(error)
        return HostFailed("unreachable", f"cannot log in: {said or type(error).__name__}")

    async def close(self) -> None:
        for task in self._jumps.values():
            task.cancel()
            if task.done() and not task.cancelled() and task.exception() is None:
                task.result().close()
        self._jumps.clear()


def _list(value: object, default: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(str(item) for item in value) if isinstance(value, list) else default


def _jumps_of(options: asyncssh.SSHClientConnectionOptions) -> tuple[str, ...]:
    tunnel = options.tunnel
    return tuple(part.strip() for part in tunnel.split(",")) if isinstance(tunnel, str) and tunnel else ()


def _jump_of(text: str) -> tuple[str, str, int]:
    """Split `[ssh://][USER@]HOST[:PORT]` into user, host and port; an IPv6 address with a port stands in brackets.

    >>> _jump_of("ssh://bob@gate:2200/"), _jump_of("[fe80::1]:22"), _jump_of("fe80::1")
    (('bob', 'gate', 2200), ('', 'fe80::1', 22), ('', 'fe80::1', 22))
    """
    user, _, address = text.removeprefix("ssh://").rstrip("/").rpartition("@")
    if address.startswith("["):
        host, _, number = address[1:].partition("]")
        number = number.removeprefix(":")
    elif address.count(":") == 1:
        host, _, number = address.partition(":")
    else:
        host, number = address, ""
    return user, host, int(number) if number else DEFAULT_PORT


def _key_failure(error: Exception, key: str | None) -> HostFailed:
    what = f"the key {key}" if key else "a key"
    return HostFailed("auth", f"{what} cannot be used: {error}", "has it a passphrase? ssh-add it")
