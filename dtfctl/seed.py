"""python -m dtfctl.seed FD FOLDER ROOM: a process that has imported the runtime, so that tasks are its forks.

An agent asks it through the socket FD (`launcher.agent.seeds`), and it ends with the agent; what it has started does
not. It forks keepers, each of which forks its task: a keeper knows how its task ended, as its parent. FOLDER is empty,
for relative paths of the environment to lead nowhere. ROOM is for the command lines that its forks show.

It forks with one thread, and nothing in it has been used that a fork could not go on with: modules are imported, and
OpenBLAS, which starts threads when it is loaded, ends them for every fork and starts them again when it computes.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import importlib
import os
import select
import socket
import sys
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from dtfctl import guard, task
from dtfctl.launcher.agent.fork import show_as
from dtfctl.launcher.agent.start import keeper
from dtfctl.launcher.agent.start.kept_process import keeper_command
from dtfctl.launcher.agent.start.seeds import LARGEST_MESSAGE, OF_EACH_TASK, Reply, Request
from dtfctl.launcher.messages import codec
from dtfctl.runtime.framework.denormals import flush_denormals

if TYPE_CHECKING:
    from dtfctl.runtime.kernels.blas_in_use import OpenBlas

UNTIL_IT_SERVES = (
    "dtfctl.runtime.services.server",
    "dtfctl.runtime.services.reach",
    # What is imported when a server starts, or makes its first link to another host.
    "dtfctl.runtime.rendezvous.transports.sealed",
    "dtfctl.runtime.rendezvous.transports.secrecy",
    "cryptography.x509",
    "encodings.idna",
    "grpc.experimental",
    "grpc._channel",
    "grpc._server",
    "grpc._utilities",
)

Stamps = dict[str, tuple[int, int]]


def import_runtime() -> OpenBlas | None:
    """Import all that a task imports until it serves; return numpy's BLAS."""
    from dtfctl.runtime.kernels.blas_in_use import open_blas
    from dtfctl.runtime.kernels.registry import load_family

    for module in UNTIL_IT_SERVES:
        importlib.import_module(module)
    load_family("control")  # Every task's part of a step has sends, receives or no-ops.
    with contextlib.suppress(Exception):  # another grpcio than it is made for: each task finds that out, and says so
        importlib.import_module("dtfctl.runtime.services.call_server")
    return open_blas()


def stamps() -> Stamps:
    """Note when the files of all modules were written, and how long they are."""
    found: Stamps = {}
    for module in list(sys.modules.values()):
        path = getattr(module, "__file__", None)
        if path is not None:
            stat = os.stat(path)
            found[path] = stat.st_mtime_ns, stat.st_size
    return found


def changed(known: Stamps) -> str:
    """Return a file that is not as it was imported; empty when all are."""
    for path, stamp in known.items():
        try:
            stat = os.stat(path)
        except FileNotFoundError:
            return path
        if (stat.st_mtime_ns, stat.st_size) != stamp:
            return path
    return ""


def check_threads() -> None:
    """Raises RuntimeError: there is another thread, even after a fork, for which libraries can end theirs."""
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    threads = [Path(f"/proc/self/task/{thread}/comm").read_text().strip() for thread in os.listdir("/proc/self/task")]
    if len(threads) > 1:
        raise RuntimeError(
            f"a module has started threads when it was imported ({', '.join(threads)}): forks are unsafe"
        )


class Seed:
    """Forks keepers and tasks, one request after the other."""

    def __init__(self, control: socket.socket, blas: OpenBlas | None) -> None:
        self._control = control
        self._blas = blas
        self._known = stamps()
        self._keepers: dict[int, int] = {}
        """By pidfd: the pid."""

    def serve(self) -> None:
        """Serve until the agent has gone."""
        poller = select.poll()
        poller.register(self._control, select.POLLIN)
        self._tell(Reply())
        while True:
            for fd, _ in poller.poll():
                number = 0
                try:
                    if fd != self._control.fileno():
                        poller.unregister(fd)
                        self._bury(fd)
                        continue
                    data = self._control.recv(LARGEST_MESSAGE)
                    if not data:
                        return
                    stale = changed(self._known)
                    if stale:
                        self._tell(Reply(changed=stale))
                        return
                    request = codec.decode(Request, data)
                    number = request.number
                    poller.register(self._start(request), select.POLLIN)
                except ConnectionError:  # the agent has gone
                    return
                except Exception as error:
                    guard.note("a seed's work")
                    time.sleep(guard.FIRST_PAUSE_S)
                    self._tell(Reply(number, failed=f"{type(error).__name__}: {error}"))

    def _bury(self, pidfd: int) -> None:
        """Bury a keeper that has ended."""
        os.waitpid(self._keepers.pop(pidfd), 0)
        os.close(pidfd)

    def _start(self, request: Request) -> int:
        """Fork a keeper; its pidfd."""
        pid = os.fork()
        if pid == 0:
            try:
                self._keep(request)
            except Exception:
                traceback.print_exc()
                sys.exit(1)  # it must never go on as the seed does
        pidfd = os.pidfd_open(pid)
        self._keepers[pidfd] = pid
        self._tell(Reply(request.number, pid), pidfd)
        return pidfd

    def _tell(self, reply: Reply, *fds: int) -> None:
        with contextlib.suppress(BrokenPipeError):  # the agent has gone: that is read, too
            socket.send_fds(self._control, [codec.encode(reply).encode()], fds)

    def _keep(self, request: Request) -> None:
        """Be the keeper in the fork, and in its fork the task. Does not return."""
        self._control.close()
        for fd in self._keepers:
            os.close(fd)
        os.setsid()
        os.chdir(request.cwd)
        show_as([*keeper_command(), *request.keeper])
        os._exit(keeper.main(list(request.keeper), lambda: self._be_task(request)))

    def _be_task(self, request: Request) -> None:
        """Go on as `python -m dtfctl.task CONFIG` does in the fork's fork, and end like it."""
        show_as(request.shown)
        for name in OF_EACH_TASK:
            os.environ.pop(name, None)
        os.environ.update(request.env)
        sys.argv = [task.__file__, request.shown[-1]]
        gc.enable()
        if self._blas is not None:
            # Its threads, which are to treat denormal numbers as this one does, start now and not in any other.
            self._blas.set_threads(self._blas.threads())
        sys.exit(task.main())


def main() -> int:
    control, folder = socket.socket(fileno=int(sys.argv[1])), sys.argv[2]
    show_as([sys.executable, "-m", "dtfctl.seed", sys.argv[1], folder])
    faulthandler.enable()
    # Nothing of what is imported is garbage, and a collection in a fork would only take its pages out of sharing.
    gc.disable()
    flush_denormals()
    blas = import_runtime()
    check_threads()
    gc.freeze()
    Seed(control, blas).serve()
    return 0


if __name__ == "__main__":
    sys.exit(main())
