"""Copies of jobs' checkpoints on the controller's machine: hosts that are lent may all be taken away at once.

It takes part in the copying as one more host does: asks agents for what is new, and is asked by those of hosts that
come. For these it listens at the address by which this machine reaches them, with the cluster's certificates, and only
then.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from dtfctl.launcher.checkpoints.folders import Folders
from dtfctl.launcher.controller.decisions.checkpoint_folders import Kept
from dtfctl.launcher.errors import LauncherError
from dtfctl.launcher.identity.certificates import TlsFiles
from dtfctl.launcher.messages.agent_calls import LIST_FILES, READ_FILE
from dtfctl.launcher.messages.orders import FolderOrder
from dtfctl.launcher.messages.reports import Report
from dtfctl.launcher.rpc.method import Handler, Method
from dtfctl.launcher.rpc.server import Server, serve
from dtfctl.launcher.spec.model import LENDERS, ClusterSpec
from dtfctl.net.ports import fixed_range, free_ports

log = logging.getLogger(__name__)
STOP_S = 1.0

Tell = Callable[[str, str, str], None]
"""Kind, subject and reason of a happening; any thread."""


class Keeper:
    """Owned by the controller's loop."""

    def __init__(self, cluster: str, tls: TlsFiles, tell: Tell) -> None:
        self._cluster = cluster
        self._tls = tls
        self._tell = tell
        self._folders = Folders(tls, tell)
        self._servers: dict[str, Server] = {}
        """By the address of this machine at which it listens."""
        self._problem = ""

    def kept(self, spec: ClusterSpec, reports: Mapping[str, Report]) -> Kept | None:
        """Tell what is kept, and where hosts ask for it; None where nothing is, as the hosts are nobody's but ours."""
        if spec.provider not in LENDERS or spec.checkpoints.path:
            return None
        found: dict[str, str] = {}
        for host, report in reports.items():
            here = _facing(report.address)
            server = self._server(here, spec) if here else None
            if server is not None:
                found[host] = _at(here, server.port)
        return Kept(self._folders.reports(), found)

    def take(self, orders: Iterable[FolderOrder]) -> None:
        """Keep these folders, and no others."""
        try:
            self._folders.take(orders, self._cluster)
        except (LauncherError, OSError) as error:
            self._say(f"checkpoints are not kept on the controller's machine: {error}")

    def _server(self, here: str, spec: ClusterSpec) -> Server | None:
        if here not in self._servers:
            handlers: dict[Method[Any, Any], Handler] = {
                LIST_FILES: self._folders.list_files,
                READ_FILE: self._folders.read_file,
            }
            low, high = (spec.ports.first, spec.ports.last) if spec.ports.first and spec.ports.last else fixed_range()
            for port in free_ports(low, high, address=here):
                try:
                    self._servers[here] = serve(handlers, self._tls, _at(here, port))
                    break
                except OSError as error:
                    log.info("not at %s:%s: %s", here, port, error)
            else:
                self._say(f"no port of {low}-{high} is free at {here}: hosts that come cannot ask the controller")
        return self._servers.get(here)

    def _say(self, problem: str) -> None:
        if problem != self._problem:
            self._problem = problem
            self._tell("job.checkpoint-problem", "controller", problem)

    def close(self) -> None:
        self._folders.close()
        for server in self._servers.values():
            server.stop(STOP_S)


def _facing(address: str) -> str:
    """Find the address of this machine by which it reaches another; empty where it reaches none."""
    try:
        host, _, port = address.rpartition(":")
        family, kind, _, _, where = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as probe:
            probe.connect(where)  # sends nothing
            return str(probe.getsockname()[0])
    except (OSError, ValueError):
        return ""


def _at(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
