"""The user's own access to a host: commands, files, and the numbers that `doctor` asks for.

Most agents are never asked for any of it, so what it needs is imported by the first who asks.
"""

from __future__ import annotations

import os
import stat
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from dtfctl._version import VERSION
from dtfctl.launcher.agent.loop import Agent
from dtfctl.launcher.errors import UsageError
from dtfctl.launcher.messages.agent_calls import EXEC, FETCH, INSPECT, STORE
from dtfctl.launcher.messages.commands import ExecInput, ExecOutput, ExecStart
from dtfctl.launcher.messages.files import FetchRequest, FilePart, Stored, StoreInput, StoreStart
from dtfctl.launcher.messages.looks import Inspection, InspectRequest
from dtfctl.launcher.rpc.method import Handler, Method
from dtfctl.launcher.rpc.server import Call
from dtfctl.launcher.system.procfs import memory_bytes

if TYPE_CHECKING:
    from dtfctl.launcher.agent.access.commands import Commands

MOST_LOOSE = 20
MOST_LOOKED_AT = 2000


class AccessService:
    """Handlers; each runs in a thread of the server."""

    def __init__(self, agent: Agent, certificates: Path) -> None:
        self._agent = agent
        self._certificates = certificates
        self._commands: Commands | None = None
        self._lock = threading.Lock()

    def handlers(self) -> dict[Method, Handler]:  # type: ignore[type-arg]
        return {EXEC: self.exec, FETCH: self.fetch, STORE: self.store, INSPECT: self.inspect}

    def exec(self, requests: Iterator[ExecInput], call: Call) -> Iterator[ExecOutput]:
        first = next(requests, None)
        if first is None or not isinstance(start := first.what, ExecStart):
            raise UsageError("the first message of a command is its start")
        around = self._agent.call(lambda: self._agent.surroundings(start.process, start.folder))
        return self._running().run(start, requests, call, around)

    def _running(self) -> Commands:
        with self._lock:
            if self._commands is None:
                from dtfctl.launcher.agent.access.commands import Commands

                self._commands = Commands()
            return self._commands

    def fetch(self, request: FetchRequest) -> Iterator[FilePart]:
        from dtfctl.launcher.transfer import trees

        return trees.send(self._path(request.process, request.folder, request.path))

    def store(self, requests: Iterator[StoreInput], call: Call) -> Iterator[Stored]:
        first = next(requests, None)
        if first is None or not isinstance(start := first.what, StoreStart):
            raise UsageError("the first message of a transfer is its start")
        from dtfctl.launcher.transfer import trees

        if Path(start.name).name != start.name or start.name in ("", "..", "."):
            raise UsageError(f"{start.name!r} is not the name of a file or folder")
        path = self._path(start.process, start.folder, start.path)
        destination = trees.place(path, start.name, as_folder=start.path.endswith("/"))
        received = trees.receive((item.what for item in requests if isinstance(item.what, FilePart)), destination)
        yield Stored(str(received.path), received.files, received.bytes)

    def _path(self, process: str, job_folder: str, path: str) -> Path:
        around = self._agent.call(lambda: self._agent.surroundings(process, job_folder))
        return around.folder / Path(path or ".").expanduser()

    def inspect(self, request: InspectRequest) -> Inspection:
        import platform
        import resource
        import shutil

        from dtfctl.launcher.agent.access.rdma import read_rdma
        from dtfctl.launcher.agent.start.gpus import read_gpus

        folder = self._agent.folder
        disk, inodes = shutil.disk_usage(folder), os.statvfs(folder)
        return Inspection(
            version=VERSION,
            python=platform.python_version(),
            time=time.time(),
            open_files=resource.getrlimit(resource.RLIMIT_NOFILE)[1],
            processes=resource.getrlimit(resource.RLIMIT_NPROC)[0],
            disk_free_bytes=disk.free,
            disk_total_bytes=disk.total,
            inodes_free=inodes.f_favail,
            certificate_until=min(self._agent.keyring.held().values(), default=0.0),
            loose_files=tuple(loose_files([folder, self._certificates])),
            memory_bytes=memory_bytes()[0],
            gpus=tuple(read_gpus()),
            rdma=read_rdma(),
            system=f"{platform.system()} {platform.release()} {platform.machine()}",
        )


def loose_files(folders: list[Path]) -> list[str]:
    """List those of the private folders and the keys in them that others than the owner may use."""
    found = []
    for folder in folders:
        looked = [folder, *(path for _, path in zip(range(MOST_LOOKED_AT), folder.rglob("*.key")))]
        found += [str(path) for path in looked if path.exists() and stat.S_IMODE(path.stat().st_mode) & 0o077]
    return found[:MOST_LOOSE]
