"""HTTP for those whom a door lets in: any program over it, which answers with bytes."""

from __future__ import annotations

import json
import logging
import threading
import zlib
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Any

from dtfctl.net.admission import WITHIN_S
from dtfctl.net.listener import Guest, Listener, listen_tcp
from dtfctl.serve.door import Door
from dtfctl.values import value

log = logging.getLogger(__name__)

MOST_CONNECTIONS = 512
MOST_BODY = 256 * 2**20
PATIENCE_S = 600.0
"""A client that keeps its connection and asks for nothing is sent away after this."""
JSON = "application/json"


@value
class Answer:
    """What is sent back."""

    body: bytes
    status: int = 200
    kind: str = JSON


def failure(text: str, status: int) -> Answer:
    """Make the answer to what cannot be done."""
    return Answer(json.dumps({"error": text}).encode(), status)


class WebServer:
    """Serves from `start` until `close`; each connection has a thread.

    Args:
        answer: the answer to a method, a path and a body; raises nothing.
        door: where it listens, and to whom.
        port: 0: a free one, which `port` tells.
    """

    def __init__(self, answer: Callable[[str, str, bytes], Answer], door: Door, port: int = 0) -> None:
        """Listen. Raises OSError: the port is taken."""
        self.answer = answer
        self.door = door
        doors = listen_tcp(door.address, port)
        self.port: int = doors[0].getsockname()[1]
        self._places = threading.BoundedSemaphore(MOST_CONNECTIONS)
        self._listener = Listener(doors, self._meet, name="rest", owners_only=door.identity is None)

    def start(self) -> None:
        self._listener.start()

    def close(self) -> None:
        """Take no more connections; those that are there end with their answers."""
        self._listener.close()

    def _meet(self, guest: Guest) -> None:
        if not self._places.acquire(blocking=False):
            guest.close()
            return
        try:
            guest.socket.settimeout(WITHIN_S)
            if self.door.identity is not None:
                secure = self.door.identity.server_context().wrap_socket(
                    guest.socket, server_side=True, do_handshake_on_connect=False
                )
                guest.socket = secure
                secure.do_handshake()
            _Handler(guest, self)
        except OSError as error:
            log.debug("lost %s: %s", guest.where, error)
        finally:
            self._places.release()
            guest.close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "dtfctl"
    sys_version = ""
    disable_nagle_algorithm = True

    def __init__(self, guest: Guest, server: WebServer) -> None:
        self._guest = guest
        self._server = server
        self._is_known = False
        super().__init__(guest.socket, (guest.where, 0), server)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        self._do()

    def do_POST(self) -> None:
        self._do()

    def _do(self) -> None:
        if not self._check():
            return
        body = self._body() if self.command == "POST" else b""
        if body is None:
            return
        self._send(self._server.answer(self.command, self.path, body))

    def _check(self) -> bool:
        if not self._server.door.knows(self.headers.get("Authorization", "").encode("utf-8", "replace")):
            # What was sent and not read would be taken for the next request.
            self.close_connection = True
            self._send(failure("say `Authorization: Bearer TOKEN`, with the token of this cluster", 401))
            return False
        if not self._is_known:
            self._is_known = True
            self._guest.admit()
            self._guest.socket.settimeout(PATIENCE_S)
        return True

    def _body(self) -> bytes | None:
        """Read the body; None where that was refused."""
        length = self.headers.get("Content-Length", "")
        chunked = "chunked" in self.headers.get("Transfer-Encoding", "").lower()
        if chunked or not (length.isascii() and length.isdecimal()):
            self._refuse("say how long the body is, by Content-Length", HTTPStatus.LENGTH_REQUIRED)
            return None
        if len(length) > 12 or int(length) > MOST_BODY:
            self._refuse(f"at most {MOST_BODY} bytes are taken", HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
            return None
        body = self.rfile.read(int(length))
        if len(body) != int(length):
            raise ConnectionError("the body ended early")
        coding = self.headers.get("Content-Encoding", "identity").strip().lower()
        if coding in ("gzip", "x-gzip"):
            return self._unpacked(body)
        if coding != "identity":
            self._refuse(f"bodies are plain or gzip, not {coding}", HTTPStatus.UNSUPPORTED_MEDIA_TYPE)
            return None
        return body

    def _unpacked(self, body: bytes) -> bytes | None:
        unpacking = zlib.decompressobj(wbits=31)
        try:
            found = unpacking.decompress(body, MOST_BODY + 1)
        except zlib.error:
            found = b""
        if len(found) > MOST_BODY:
            self._refuse(f"at most {MOST_BODY} bytes are taken", HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
            return None
        if not unpacking.eof or unpacking.unused_data:
            self._refuse("the body is not one whole of gzip", HTTPStatus.BAD_REQUEST)
            return None
        return found

    def _refuse(self, text: str, status: HTTPStatus) -> None:
        self.close_connection = True
        self._send(failure(text, status))

    def _send(self, answer: Answer) -> None:
        # In one piece: what follows in a second one waits for the first to be acknowledged.
        close = "Connection: close\r\n" if self.close_connection else ""
        head = (
            f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}\r\nContent-Type: {answer.kind}\r\n"
            f"Content-Length: {len(answer.body)}\r\n{close}\r\n"
        )
        self.wfile.write(head.encode("latin-1") + answer.body)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refuse what is no request of HTTP."""
        self.close_connection = True
        self._send(failure(message or HTTPStatus(code).phrase, code))

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: what clients ask for is no news."""
