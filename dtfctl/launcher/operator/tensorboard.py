"""Run TensorBoard on this machine for this user alone: at a unix socket, behind a port that lets nobody else in."""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

from dtfctl import guard
from dtfctl.launcher.errors import Conflict, NotFound
from dtfctl.launcher.operator.passage import Passage
from dtfctl.net.address import UNIX, connect

INSTALL = "pip install tensorboard 'setuptools<81', and tensorboard-plugin-profile for its profile page"
STOP_S = 5.0
CONNECT_S = 5.0
_PR_SET_PDEATHSIG = 1
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
        self._passage = Passage(port, self._lead, "tensorboard")
        self.port = self._passage.port
        self._place = tempfile.TemporaryDirectory(prefix="dtf-")
        self._socket = str(Path(self._place.name) / "board")
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
        self._passage.start()

    def close(self) -> None:
        self._passage.close()
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

    def _lead(self) -> socket.socket:
        return connect(f"{UNIX}{self._socket}", CONNECT_S)


def _drain(out: object) -> None:
    for _ in out:  # type: ignore[attr-defined]
        pass


def _end_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    # Ctrl-C is for the command, which ends it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
