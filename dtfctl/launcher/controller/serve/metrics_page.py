"""The metrics page: HTTPS that answers only who has the cluster's certificate for reading metrics.

That certificate comes from an authority of its own, so that it opens nothing but this page.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from typing import Any

from dtfctl import guard
from dtfctl.launcher.errors import PortTaken
from dtfctl.launcher.identity.certificates import TlsFiles
from dtfctl.launcher.spec.model import ClusterSpec
from dtfctl.launcher.system.procfs import port_holder
from dtfctl.net.admission import WITHIN_S
from dtfctl.net.listener import Guest, Listener, listen_tcp
from dtfctl.net.tls import Identity

log = logging.getLogger(__name__)

PATIENCE_S = 10.0
"""A reader that does not get on with its question is sent away."""
MOST_CONNECTIONS = 16
RETRY_S = 5.0
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class MetricsPage:
    """The metrics page, on at most one listening port, as the newest spec says."""

    def __init__(self, render: Callable[[], str], server: TlsFiles, readers: TlsFiles) -> None:
        """`server`: what the page shows who it is with; `readers`: the authority of who may read it."""
        self._render = render
        self._identity = Identity(readers.ca, server.cert, server.key)
        self._server: _Server | None = None
        self._lock = threading.Lock()
        self._closed = threading.Event()

    def open(self, spec: ClusterSpec) -> None:
        """Listen where `spec` says, or nowhere.

        Raises:
            PortTaken: another process has the port. The former one stays open.
        """
        port = spec.metrics.port
        # A cluster of this machine alone is nobody else's business; who may read the others, the certificate says.
        address = ("127.0.0.1" if spec.is_local else "", port or 0)
        with self._lock:
            if self._server is not None and self._server.wanted == address:
                return
            made = None if port is None else _serve(address, self._identity, self._render)
            former, self._server = self._server, made
        if former is not None:
            former.close()

    def keep_open(self, spec: ClusterSpec) -> None:
        """Open the page; where the port is taken, try again until it is free. For a controller that starts again."""
        try:
            self.open(spec)
        except PortTaken as error:
            log.error("%s", error.message)
            guard.forever(self._try_again, args=(spec,), name="metrics").start()

    def _try_again(self, spec: ClusterSpec) -> None:
        while not self._closed.wait(RETRY_S):
            try:
                self.open(spec)
            except PortTaken:
                continue
            return

    def close(self) -> None:
        self._closed.set()
        with self._lock:
            former, self._server = self._server, None
        if former is not None:
            former.close()


def _serve(address: tuple[str, int], identity: Identity, render: Callable[[], str]) -> _Server:
    try:
        return _Server(address, identity, render)
    except OSError as error:
        holder = port_holder(address[1])
        who = f" by pid {holder[0]} ({holder[1]})" if holder else ""
        raise PortTaken(
            f"the port {address[1]} of the metrics page is taken{who}: {error.strerror}",
            "free it, or choose another: `metrics: {port: N}`",
        ) from None


class _Server:
    """One port, open from the start until `close`."""

    def __init__(self, address: tuple[str, int], identity: Identity, render: Callable[[], str]) -> None:
        self.wanted = address
        self.render = render
        self._identity = identity
        self._places = threading.BoundedSemaphore(MOST_CONNECTIONS)
        self._listener = Listener(listen_tcp(*address), self._meet, name="metrics")
        self._listener.start()

    def close(self) -> None:
        self._listener.close()

    def _meet(self, guest: Guest) -> None:
        try:
            guest.socket.settimeout(WITHIN_S)
            secure = self._identity.server_context().wrap_socket(
                guest.socket, server_side=True, do_handshake_on_connect=False
            )
            guest.socket = secure
            secure.do_handshake()
            guest.admit()
            if self._places.acquire(blocking=False):
                try:
                    secure.settimeout(PATIENCE_S)
                    _Handler(secure, guest.where, self)  # type: ignore[arg-type]
                finally:
                    self._places.release()
        except OSError as error:
            log.debug("the metrics page refused %s: %s", guest.where, error)
        finally:
            guest.close()


class _Handler(BaseHTTPRequestHandler):
    server: _Server  # type: ignore[assignment]
    server_version = "dtfctl"
    sys_version = ""

    def do_GET(self) -> None:
        if self.path.partition("?")[0] != "/metrics":
            self.send_error(404, "the page is /metrics")
            return
        body = self.server.render().encode()
        self.send_response(200)
        self.send_header("Content-Type", CONTENT_TYPE)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: scrapes are no news."""
