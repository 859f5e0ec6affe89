"""SSH servers inside this process, for tests without root: 127.0.0.2, 127.0.0.3, ... at one port, each with its home.

Commands run for real, as this user, with HOME in the host's folder; what a namespace would isolate (processes, ports
of other addresses) they share with everybody. Each host has a behaviour:

    good      lets the key in
    locked    lets nobody in
    silent    takes the connection and says nothing
    noisy     as good, but its shell prints a greeting first
    bare      as good, but has no Python
    ends      lets the key in, but its login shell ends before it has run anything, and says why on stderr
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias

import asyncssh

from dtfctl.launcher.providers.bundle import Bundles, Platform
from dtfctl.launcher.providers.conversation import REPLY, source
from tests.support.layers import lend_layers

Behaviour: TypeAlias = Literal["good", "locked", "silent", "noisy", "bare", "ends"]
START_S = 60.0


class _Server(asyncssh.SSHServer):
    def begin_auth(self, username: str) -> bool:
        return True

    def connection_requested(self, dest_host: str, dest_port: int, orig_host: str, orig_port: int) -> bool:
        return True


class SshHosts:
    """Servers for `behaviours` (the address's last number to behaviour). Use it in a `with` statement."""

    def __init__(self, folder: Path, behaviours: Mapping[int, Behaviour]) -> None:
        self.folder = folder
        self._behaviours = behaviours
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._servers: list[Any] = []
        with socket.socket() as probe:
            probe.bind(("127.0.0.2", 0))
            self.port: int = probe.getsockname()[1]
        folder.mkdir(parents=True, exist_ok=True)
        self.key = folder / "client_key"
        client = asyncssh.generate_private_key("ssh-ed25519")
        client.write_private_key(self.key)
        self._client = client.export_public_key()
        self.keys = {number: asyncssh.generate_private_key("ssh-ed25519") for number in behaviours}
        self.known_hosts = folder / "known_hosts"
        self.write_known_hosts()

    def write_known_hosts(self, wrong: tuple[int, ...] = ()) -> None:
        """Those of `wrong` are written with another key than they have."""
        lines = []
        for number, key in self.keys.items():
            shown = asyncssh.generate_private_key("ssh-ed25519") if number in wrong else key
            lines.append(f"[127.0.0.{number}]:{self.port} {shown.export_public_key().decode().strip()}")
        self.known_hosts.write_text("\n".join(lines) + "\n")

    def home(self, number: int) -> Path:
        return self.folder / f"host{number}"

    def lend_packages(self, number: int) -> None:
        """What dtfctl depends on is there as if it had been sent before: sending it takes most of a first `up`."""
        facts = json.loads(
            subprocess.run(
                [sys.executable, "-I", "-S", "-c", source().decode()],
                input='{"do": "look", "cluster": "none", "host": "none"}\n',
                capture_output=True,
                text=True,
                check=True,
            )
            .stdout.splitlines()[1]
            .removeprefix(REPLY)
        )["facts"]
        bundle = Bundles(self.folder / "bundles").of(Platform.of_facts(facts), fast=True)
        lend_layers(self.home(number) / ".dtfctl", bundle)

    def __enter__(self) -> SshHosts:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(START_S)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(START_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(START_S)

    async def _start(self) -> None:
        for number, behaviour in self._behaviours.items():
            address = f"127.0.0.{number}"
            if behaviour == "silent":
                self._servers.append(await asyncio.start_server(self._say_nothing, address, self.port))
                continue
            self.home(number).mkdir(parents=True, exist_ok=True)
            allowed = asyncssh.generate_private_key("ssh-ed25519").export_public_key()
            if behaviour != "locked":
                allowed = self._client
            server = await asyncssh.listen(
                address,
                self.port,
                server_factory=_Server,
                server_host_keys=[self.keys[number]],
                authorized_client_keys=asyncssh.import_authorized_keys(allowed.decode()),
                process_factory=lambda process, n=number: self._run(process, n),
                sftp_factory=True,
                encoding=None,
            )
            self._servers.append(server)

    async def _stop(self) -> None:
        for server in self._servers:
            server.close()

    async def _say_nothing(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.CancelledError):
            await reader.read()
        writer.close()

    async def _run(self, process: asyncssh.SSHServerProcess[bytes], number: int) -> None:
        behaviour = self._behaviours[number]
        if behaviour == "noisy":
            process.stdout.write(b"Welcome to host %d!\nLast login: yesterday\n" % number)
        if behaviour == "ends":
            process.stderr.write(b"quota: you are over your limit\nThis account is closed for maintenance.\n")
            process.exit(3)
            return
        empty = self.folder / "empty"
        empty.mkdir(exist_ok=True)
        environment = {
            "HOME": str(self.home(number)),
            "PATH": str(empty) if behaviour == "bare" else os.environ["PATH"],
            "SSH_CONNECTION": f"127.0.0.1 1 127.0.0.{number} {self.port}",
        }
        child = await asyncio.create_subprocess_shell(
            process.command or "true",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env=environment,
            cwd=self.home(number),
        )
        assert child.stdin is not None
        assert child.stdout is not None
        feeding = asyncio.create_task(self._feed(process, child.stdin))
        with contextlib.suppress(OSError, asyncssh.Error):
            while data := await child.stdout.read(65536):
                process.stdout.write(data)
                await process.stdout.drain()
        feeding.cancel()
        process.exit(await child.wait())

    async def _feed(self, process: asyncssh.SSHServerProcess[bytes], stdin: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncssh.Error):
            while data := await process.stdin.read(65536):
                stdin.write(data)
                await stdin.drain()
        stdin.close()
