"""The page's server: HTTP on loopback, for processes of this user who know the token, and for no other origin.

    GET /, /static/...        the page itself, which says nothing of the cluster
    GET /api/me               whether this browser has logged in
    POST /login               the token, once a browser; the answer sets a cookie that scripts cannot read
    GET /api/stream           what is shown, and then what changes (server-sent events)
    GET /api/logs             a job's or task's output, live (server-sent events)
    GET /api/graph, /picture  a stage of a job's graph; what of it takes a picture, for the client in the page
    GET /api/scalars          what a job has reported since it began
    POST /api/profile, /do    record a timeline; cancel, restart, drain ...
    POST /rpc/JOB/TASK/...    a call to the master of a job's task (`gateway`)

What names another host than loopback is refused (DNS rebinding), and so is what comes from a page of another origin.
"""

from __future__ import annotations

import gzip
import hashlib
import hmac
import json
import logging
import secrets
import select
import socket
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from dtfctl.dashboard import actions
from dtfctl.dashboard.feed import Feed
from dtfctl.dashboard.gateway import Gateway, Question, Refusal
from dtfctl.dashboard.scalars import Scalars
from dtfctl.dashboard.studies import Studies
from dtfctl.launcher.api import Cluster
from dtfctl.launcher.errors import LauncherError
from dtfctl.net.admission import WITHIN_S
from dtfctl.net.listener import Guest, Listener, listen_tcp

log = logging.getLogger(__name__)

MOST_CONNECTIONS = 64
MOST_BODY = 1 << 16
PATIENCE_S = 60.0
"""A browser that asks for nothing more is sent away; one that takes nothing of a stream, too."""
ALIVE_S = 2.0
"""A stream says something so often, which shows whether anybody reads it."""
LOG_WAIT_S = 1.0
LOG_TAIL = 500
LOOPBACK = frozenset({"127.0.0.1", "localhost", "[::1]"})
_TYPES = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
}
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Dashboard:
    """A page for one cluster, from `start` until `close`.

    Attributes:
        port: where it listens on loopback.
        token: who says it is let in.
        cookie: the name of the cookie that says so from then on.
    """

    def __init__(
        self,
        open_cluster: Callable[[], Cluster],
        *,
        door: socket.socket | None = None,
        token: str = "",
        session: str = "",
        studies: Path | None = None,
    ) -> None:
        """Take what is needed to serve.

        Args:
            open_cluster: gives a cluster for one thread alone.
            door: listens on loopback; None: a free port is opened.
            token, session: what lets in, and what the cookie says that is given for it; made where they are empty.
            studies: has what `dtfctl tune` tells.
        """
        self.open_cluster = open_cluster
        self.token = token or secrets.token_urlsafe(24)
        self.session = session or secrets.token_urlsafe(24)
        self.cookie = f"dtfctl-{hashlib.sha256(self.session.encode()).hexdigest()[:12]}"
        self.feed = Feed(open_cluster, Studies(studies) if studies is not None else None)
        self.gateway = Gateway(open_cluster, lambda job: self.feed.known("job", job), self.feed.tasks)
        self.scalars = Scalars(open_cluster)
        self.files = _files()
        doors = [door] if door is not None else listen_tcp("127.0.0.1", 0)
        self.port: int = doors[0].getsockname()[1]
        self._places = threading.BoundedSemaphore(MOST_CONNECTIONS)
        self._listener = Listener(doors, self._meet, name="dashboard", owners_only=True)

    @property
    def url(self) -> str:
        """The address that lets in; what follows # is never sent or logged."""
        return f"http://127.0.0.1:{self.port}/#token={self.token}"

    def start(self) -> None:
        self.feed.start()
        self._listener.start()

    def close(self) -> None:
        self._listener.close()
        self.feed.close()
        self.gateway.close()
        self.scalars.close()

    def _meet(self, guest: Guest) -> None:
        if not self._places.acquire(blocking=False):
            guest.close()
            return
        try:
            guest.socket.settimeout(WITHIN_S)
            _Handler(guest, self)
        except OSError as error:
            log.debug("the dashboard lost %s: %s", guest.where, error)
        finally:
            self._places.release()
            guest.close()


def _files() -> dict[str, tuple[str, bytes]]:
    """Read the page's files: by path (type, gzipped content)."""
    found = {}
    folder = resources.files("dtfctl.dashboard").joinpath("static")
    for place, prefix in ((folder, "/static/"), (folder.joinpath("vendor"), "/static/vendor/")):
        for file in place.iterdir():
            if file.is_file():
                kind = _TYPES[file.name.rpartition(".")[2]]
                found[prefix + file.name] = kind, gzip.compress(file.read_bytes(), mtime=0)
    found["/"] = found["/static/index.html"]
    found["/favicon.ico"] = found["/static/icon.svg"]
    return found


class _Refused(Exception):
    """What was asked for is not given."""

    def __init__(self, status: HTTPStatus, text: str) -> None:
        super().__init__(text)
        self.status = status


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "dtfctl"
    sys_version = ""

    def __init__(self, guest: Guest, dashboard: Dashboard) -> None:
        self._guest = guest
        self._dashboard = dashboard
        super().__init__(guest.socket, (guest.where, 0), dashboard)  # type: ignore[arg-type]

    # Requests ---------------------------------------------------------------------------------------------------------

    def do_GET(self) -> None:
        self._answer(self._get)

    def do_POST(self) -> None:
        self._answer(self._post)

    def _answer(self, find: Callable[[str, dict[str, str]], None]) -> None:
        try:
            try:
                address = urlsplit(self.path)
            except ValueError:
                raise _Refused(HTTPStatus.BAD_REQUEST, "that is no address") from None
            query = {name: values[-1] for name, values in parse_qs(address.query).items()}
            self._check_origin(address.path)
            find(address.path, query)
        except _Refused as refused:
            # What was sent and not read would be taken for the next request.
            self.close_connection = True
            self._send_json({"error": str(refused)}, refused.status)
        except LauncherError as error:
            self._send_json({"error": error.message, "hint": error.hint}, HTTPStatus.CONFLICT)

    def _get(self, path: str, query: dict[str, str]) -> None:
        if path in self._dashboard.files:
            kind, content = self._dashboard.files[path]
            self._send(content, kind, gzipped=True)
            return
        if path == "/api/me":
            self._send_json({"known": self._is_known})
            return
        self._check_cookie()
        match path:
            case "/api/stream":
                self._stream()
            case "/api/logs":
                self._logs(query.get("of", ""))
            case "/api/graph":
                cluster = self._dashboard.open_cluster()
                self._send_json(actions.graph(cluster, query.get("job", ""), query.get("stage", "partitioned")))
            case "/api/scalars":
                self._send_json(self._dashboard.scalars.read(query.get("job", "")))
            case "/api/picture":
                self._send_json(actions.picture(self._dashboard.open_cluster(), query.get("job", "")))
            case _:
                raise _Refused(HTTPStatus.NOT_FOUND, "there is no such page")

    def _post(self, path: str, _query: dict[str, str]) -> None:
        if path == "/login":
            self._login(self._body())
            return
        self._check_cookie()
        if path.startswith("/rpc/"):
            self._call(path)
            return
        body = self._body()
        cluster = self._dashboard.open_cluster()
        match path:
            case "/api/do":
                actions.act(cluster, str(body.get("verb")), str(body.get("what") or ""))
                self._send_json({})
            case "/api/profile":
                self._send_json(actions.profile(cluster, str(body.get("job") or "")))
            case _:
                raise _Refused(HTTPStatus.NOT_FOUND, "there is no such page")

    # Who may ----------------------------------------------------------------------------------------------------------

    def _check_origin(self, path: str) -> None:
        host = self.headers.get("Host", "")
        if host.rpartition(":")[0] not in LOOPBACK:
            raise _Refused(HTTPStatus.MISDIRECTED_REQUEST, "this is not the host that was asked for")
        origin = self.headers.get("Origin")
        if origin is not None and origin != f"http://{host}":
            raise _Refused(HTTPStatus.FORBIDDEN, "pages of another origin are not answered")
        if self.command == "POST" and origin is None:
            raise _Refused(HTTPStatus.FORBIDDEN, "who wants something done says from which page")
        # A link in another page may lead here, but gets no more than the page itself.
        is_page = self.command == "GET" and path == "/"
        if not is_page and self.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
            raise _Refused(HTTPStatus.FORBIDDEN, "pages of another origin are not answered")

    @property
    def _cookie(self) -> str:
        # Browsers send a cookie to all ports of a host, and one page may be behind several.
        return self._dashboard.cookie

    @property
    def _is_known(self) -> bool:
        # Those of other ports come along, in whatever form; SimpleCookie finds none behind one that it cannot read.
        pairs = (pair.strip().partition("=") for pair in self.headers.get("Cookie", "").split(";"))
        held = [value for name, _, value in pairs if name == self._cookie]
        return any(hmac.compare_digest(value.encode(), self._dashboard.session.encode()) for value in held)

    def _check_cookie(self) -> None:
        if not self._is_known:
            raise _Refused(HTTPStatus.UNAUTHORIZED, "open the address that `dtfctl dashboard` has printed")
        self._admit()

    def _admit(self) -> None:
        self._guest.admit()
        self._guest.socket.settimeout(PATIENCE_S)

    def _login(self, body: dict[str, Any]) -> None:
        if not hmac.compare_digest(str(body.get("token")).encode(), self._dashboard.token.encode()):
            raise _Refused(HTTPStatus.UNAUTHORIZED, "that token is not this dashboard's")
        self._admit()
        cookie = f"{self._cookie}={self._dashboard.session}; Path=/; HttpOnly; SameSite=Strict"
        self._send(b"{}", "application/json", cookie=cookie)

    def _read(self, most: int) -> bytes:
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit()) or int(length) > most:
            raise _Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"at most {most} bytes are taken")
        content = self.rfile.read(int(length))
        if len(content) != int(length):
            raise _Refused(HTTPStatus.BAD_REQUEST, "the request was cut off")
        return content

    def _body(self) -> dict[str, Any]:
        content = self._read(MOST_BODY)
        try:
            found = json.loads(content)
            # Half of a pair of characters cannot be sent on.
            json.dumps(found, ensure_ascii=False).encode()
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise _Refused(HTTPStatus.BAD_REQUEST, "a JSON object is wanted")
        return found

    # Streams ----------------------------------------------------------------------------------------------------------

    def _stream(self) -> None:
        self._begin_events()
        version, feed = 0, self._dashboard.feed
        generation = feed.generation
        # Of another cluster a page begins anew: its browser asks again by itself.
        while not feed.is_closed and feed.generation == generation:
            news = feed.news(version, ALIVE_S)
            if news is None:
                self._tell_alive()
                continue
            version = news["v"]
            self._tell(news)

    def _logs(self, selector: str) -> None:
        batches = self._dashboard.open_cluster().log_batches(selector, LOG_TAIL, LOG_WAIT_S)
        # A name that is wrong is told as such, not in the stream.
        first = next(batches, [])
        self._begin_events()
        self._tell_lines(first)
        for lines in batches:
            if self._dashboard.feed.is_closed:
                return
            self._tell_lines(lines)
        self._tell({"ended": True})

    def _tell_lines(self, lines: Any) -> None:
        if not lines:
            self._tell_alive()
            return
        self._tell({"lines": [[line.source, line.stream, line.text, line.time, line.newline] for line in lines]})

    def _begin_events(self) -> None:
        self.close_connection = True
        self._begin("text/event-stream")
        self.end_headers()

    def _tell(self, content: Any) -> None:
        self.wfile.write(b"data: " + _json(content) + b"\n\n")

    def _tell_alive(self) -> None:
        self.wfile.write(b":\n\n")

    # Calls to masters -------------------------------------------------------------------------------------------------

    def _call(self, path: str) -> None:
        taken = False

        def read(most: int) -> bytes:
            nonlocal taken
            content, taken = self._read(most), True
            return content

        try:
            answer = self._dashboard.gateway.ask(Question.of(path, self.headers), read, self._is_gone)
        except Refusal as refusal:
            self.close_connection = self.close_connection or not taken
            self._send_json({"code": refusal.code, "message": str(refusal)}, refusal.status)
        else:
            self._send(answer, "application/proto")

    def _is_gone(self) -> bool:
        """Tell whether the browser has given the call up: it closes the connection then."""
        poll = select.poll()
        poll.register(self._guest.socket, select.POLLIN)
        try:
            return bool(poll.poll(0)) and not self._guest.socket.recv(1, socket.MSG_PEEK)
        except OSError:
            return True

    # Answers ----------------------------------------------------------------------------------------------------------

    def _begin(self, kind: str, status: int = HTTPStatus.OK) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        if self.close_connection:
            self.send_header("Connection", "close")

    def _send_json(self, content: Any, status: int = HTTPStatus.OK) -> None:
        self._send(_json(content), "application/json", status)

    def _send(
        self, body: bytes, kind: str, status: int = HTTPStatus.OK, *, gzipped: bool = False, cookie: str = ""
    ) -> None:
        self._begin(kind, status)
        if gzipped and "gzip" not in self.headers.get("Accept-Encoding", ""):
            body, gzipped = gzip.decompress(body), False
        if gzipped:
            self.send_header("Content-Encoding", "gzip")
        if cookie:
            self.send_header("Set-Cookie", cookie)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refuse what is no request of a browser."""
        self.close_connection = True
        self._send_json({"error": message or HTTPStatus(code).phrase}, HTTPStatus(code))

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: what pages ask for is no news."""


def _json(content: Any) -> bytes:
    return json.dumps(content, separators=(",", ":"), allow_nan=False).encode()
