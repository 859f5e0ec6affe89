"""Have the controller serve the dashboard, and find the way to it."""

from __future__ import annotations

import contextlib
import html
import os
import socket
import threading
from pathlib import Path

from dtfctl.launcher.errors import Conflict, LauncherError
from dtfctl.launcher.messages import controller_calls
from dtfctl.launcher.messages.controller import Nothing
from dtfctl.launcher.messages.dashboard import DashboardReply, DashboardRequest
from dtfctl.launcher.operator import controller_client
from dtfctl.launcher.operator.controller_client import Connection
from dtfctl.launcher.operator.passage import Passage
from dtfctl.launcher.paths import ClusterPaths
from dtfctl.net.address import connect

OPEN_S = 90.0
CONNECT_S = 10.0


class OpenedDashboard:
    """A page that the controller has served, and the way to it.

    Attributes:
        url: lets in; what follows # is never sent or logged.
        is_led: the page is on another machine, and this process leads there until `close`. Otherwise nothing ends
            with `close`.
        is_kept: it is up as long as the cluster, whose file says so.
    """

    def __init__(self, paths: ClusterPaths, reply: DashboardReply, passage: Passage | None) -> None:
        self._paths = paths
        self._passage = passage
        self._opener: Path | None = None
        self.is_led = passage is not None
        self.is_kept = reply.from_spec
        self.url = f"http://127.0.0.1:{reply.port if passage is None else passage.port}/#token={reply.token}"

    def opener(self) -> Path:
        """Write a file, which only this user can read, that leads a browser to it: command lines everybody can read."""
        file = self._paths.dashboard_opener
        if self._passage is not None:
            file = self._opener = file.with_name(f"dashboard-{os.getpid()}.html")
        address = html.escape(self.url, quote=True)
        with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as out:
            out.write(
                f'<!doctype html><meta http-equiv="refresh" content="0; url={address}"><a href="{address}">dtfctl</a>'
            )
        return file

    def close(self) -> None:
        if self._passage is not None:
            self._passage.close()
        if self._opener is not None:
            self._opener.unlink(missing_ok=True)


def open_dashboard(connection: Connection, port: int | None) -> OpenedDashboard:
    """See `Cluster.open_dashboard`."""
    host = connection.controller.host
    request = DashboardRequest(None if host else port)
    reply = connection.call(controller_calls.OPEN_DASHBOARD, request, timeout_s=OPEN_S)
    if not host:
        return OpenedDashboard(connection.paths, reply, None)
    try:
        passage = Passage(port or 0, _Way(connection.paths, reply.port).connect, "dashboard")
    except OSError as error:
        raise Conflict(f"the port {port} cannot be opened: {error.strerror}", "choose another with --port") from None
    passage.start()
    return OpenedDashboard(connection.paths, reply, passage)


def close_dashboard(connection: Connection) -> bool:
    """See `Cluster.close_dashboard`."""
    return connection.call(controller_calls.CLOSE_DASHBOARD, Nothing()).was_open


class _Way:
    """Connects to a port of the controller's machine, from any thread."""

    def __init__(self, paths: ClusterPaths, port: int) -> None:
        self._controller = controller_client.controller_of(paths)
        self._port = port
        self._address = ""
        self._lock = threading.Lock()

    def connect(self) -> socket.socket:
        with self._lock:
            if self._address:
                with contextlib.suppress(OSError):
                    return connect(self._address, CONNECT_S)
            # The first time, or the connection over which it went is gone.
            try:
                self._address = self._controller.lead(self._port)
            except LauncherError as error:
                raise ConnectionError(error.message) from None
        return connect(self._address, CONNECT_S)
