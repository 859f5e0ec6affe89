"""Run TensorBoard on this machine for this user alone: at a unix socket, behind a port that lets nobody else in."""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import logging
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

from dtfctl import guard
from dtfctl.launcher.errors import Conflict, NotFound
from dtfctl.net.admission import WITHIN_S
from dtfctl.net.listener import Guest, Listener, listen_tcp

log = logging.getLogger(__name__)

INSTALL = "pip install tensorboard 'setuptools<81', and tensorboard-plugin-profile for its profile page"
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
MOST_HEAD = 64 * 1024
PIECE = 256 * 1024
STOP_S = 5.0
_PR_SET_PDEATHSIG = 1
_REFUSED = b"HTTP/1.1 421 Misdirected Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
# TensorBoard's own server, at a socket; the address of the port before it is what it tells others of itself.
_SERVE = """
import sys
from tensorboard import default, program

class Server(program.WerkzeugServer):
    def get_url(self):
        return sys.argv[3]
    def print_serving_message(self):
        print("serving", flush=True)

board = program.TensorBoard(default.get_plugins(), server_class=Server)
board.configure(["tensorboard", "--logdir", sys.argv[1], "--host", "unix://" + sys.argv[2], "--port", "0",
                 "--reload_interval", "5", "--load_fast", "false"])
sys.exit(board.main(None))
"""


def interpreter() -> str:
    """Find a Python that has TensorBoard: this one, or that of the `tensorboard` in PATH.

    Raises:
        NotFound: there is none.
    """
    if importlib.util.find_spec("tensorboard") is not None:
        return sys.executable
    program = shutil.which("tensorboard")
    if program is not None:
        with contextlib.suppress(OSError), open(program, "rb") as script:
            first = script.readline()
            if first.startswith(b"#!") and b"python" in first:
                return first[2:].decode(errors="replace").strip()
    raise NotFound("TensorBoard is not installed here", INSTALL)


class TensorBoard:
    """Shows a folder, from `start` until `close`.

    Args:
        python: see `interpreter`.
        port: 0 takes a free one.

    Raises:
        OSError: the port is taken.
    """

    def __init__(self, python: str, folder: Path, port: int = 0) -> None:
        doors = listen_tcp("127.0.0.1", port)
        self.port: int = doors[0].getsockname()[1]
        self._place = tempfile.TemporaryDirectory(prefix="dtf-")
        self._socket = str(Path(self._place.name) / "board")
        self._listener = Listener(doors, self._meet, name="tensorboard", owners_only=True)
        self._words = [python, "-P", "-c", _SERVE, str(folder), self._socket, self.url]
        self._process: subprocess.Popen[str] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def start(self) -> None:
        """Start it, and wait until it serves.

        Raises:
            Conflict: it has ended; with what it said.
        """
        self._process = process = subprocess.Popen(
            self._words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, preexec_fn=_end_with_parent
        )
        assert process.stdout is not None
        said: list[str] = []
        for line in process.stdout:
            if line.strip() == "serving":
                break
            said.append(line.rstrip())
        else:
            raise Conflict(f"TensorBoard has ended with {process.wait()}: {' '.join(said[-3:])}", INSTALL)
        # What it says later nobody reads, and it shall not wait for that.
        guard.once(_drain, (process.stdout,), name="tensorboard-out").start()
        self._listener.start()

    def close(self) -> None:
        self._listener.close()
        process = self._process
        if process is not None:
            process.terminate()
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._place.cleanup()

    def wait(self) -> int:
        """Wait until it ends by itself; its exit code."""
        assert self._process is not None
        return self._process.wait()

    def _meet(self, guest: Guest) -> None:
        try:
            guest.socket.settimeout(WITHIN_S)
            head = _head(guest.socket)
            if not _is_for_here(head):
                guest.socket.sendall(
                    b"HTTP/1.1 421 Misdirected Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
                )
                return
            guest.admit()
            with socket.socket(socket.AF_UNIX) as inner:
                inner.connect(self._socket)
                inner.sendall(head)
                guest.socket.settimeout(None)
                back = guard.once(_pump, (inner, guest.socket), name="tensorboard-back")
                back.start()
                _pump(guest.socket, inner)
                back.join()
        except OSError as error:
            log.debug("a browser is gone: %s", error)
        finally:
            guest.close()


def _head(connection: socket.socket) -> bytes:
    """Read until the end of the first request's head. Raises OSError: it is too long, or does not end."""
    data = b""
    while b"\r\n\r\n" not in data:
        piece = connection.recv(PIECE)
        if not piece or len(data) > MOST_HEAD:
            raise ConnectionError("no request of a browser")
        data += piece
    return data


def _is_for_here(head: bytes) -> bool:
    """Tell whether a browser asks for this machine by its own name, not by one that a page has made lead here."""
    for line in head.split(b"\r\n\r\n")[0].split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"host":
            return value.strip().decode(errors="replace").rpartition(":")[0] in LOOPBACK
    return False


def _pump(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while piece := source.recv(PIECE):
            target.sendall(piece)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)


def _drain(out: object) -> None:
    for _ in out:  # type: ignore[attr-defined]
        pass


def _end_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    # Ctrl-C is for the command, which ends it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
