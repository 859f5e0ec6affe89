"""Addresses that a host sees, as unix sockets on this machine: what SSH forwards is nobody else's.

A port of loopback would be open to every user of this machine, and would take as many connections as come. The sockets
lie in a folder with mode 0700, under names that say whose they are, so that those of killed processes are found.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
from pathlib import Path

import asyncssh

from dtfctl.launcher.providers.base import HostFailed
from dtfctl.launcher.system.files import private_folder
from dtfctl.launcher.system.procfs import ProcessId, identify, is_alive
from dtfctl.net.address import UNIX
from dtfctl.net.unix import short

OPEN_S = 30.0
PREFIX, SUFFIX = "ssh-", ".sock"
_numbers = itertools.count()


class Forwards:
    """What goes through one connection; for the thread of its loop."""

    def __init__(self, connection: asyncssh.SSHClientConnection) -> None:
        self._connection = connection
        self._open: dict[str, tuple[Path, asyncssh.SSHListener]] = {}

    def __bool__(self) -> bool:
        return bool(self._open)

    async def lead_to(self, address: str, folder: Path) -> str:
        """Make `unix:PATH`, which leads to `address` as the host sees it for as long as the connection lasts.

        Raises:
            HostFailed: it cannot be opened.
        """
        if address not in self._open:
            name, _, port = address.rpartition(":")
            path = _new_path(folder)
            try:
                async with asyncio.timeout(OPEN_S):
                    with short(path) as place:
                        listener = await self._connection.forward_local_path_to_port(place, name.strip("[]"), int(port))
                path.chmod(0o600)
            except (OSError, asyncssh.Error, TimeoutError) as error:
                raise HostFailed("unreachable", f"nothing could be forwarded: {error}") from None
            self._open[address] = path, listener
        return f"{UNIX}{self._open[address][0]}"

    def stop(self, but: str = "") -> None:
        """Forward nothing any more, or one address only."""
        for address in [known for known in self._open if known != but]:
            path, listener = self._open.pop(address)
            listener.close()
            path.unlink(missing_ok=True)


def _new_path(folder: Path) -> Path:
    """Make a name for another socket; remove what dead processes have left there."""
    for path in private_folder(folder).glob(f"{PREFIX}*{SUFFIX}"):
        pid, _, more = path.name.removeprefix(PREFIX).partition("-")
        ticks = more.partition("-")[0]
        if pid.isdigit() and ticks.isdigit() and not is_alive(ProcessId(int(pid), int(ticks))):
            with contextlib.suppress(FileNotFoundError):
                path.unlink()
    me = identify(os.getpid())
    assert me is not None
    return folder / f"{PREFIX}{me.pid}-{me.start_ticks}-{next(_numbers)}{SUFFIX}"
