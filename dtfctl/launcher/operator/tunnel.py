"""A plaintext port on this machine that leads to the master of one task of a cluster.

The port is served by a process of its own (`python -m dtfctl.plaintext_port`), which ends with this one,
however that ends.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Callable
from types import TracebackType

from dtfctl.launcher.errors import Conflict, InternalError, LauncherError, NoSuchCluster, UsageError
from dtfctl.launcher.identity.certificates import TlsFiles, server_name, trusted_of_tasks
from dtfctl.launcher.messages import controller_calls
from dtfctl.launcher.messages.controller import StatusRequest
from dtfctl.launcher.model import ClusterStatus, TaskStatus
from dtfctl.launcher.operator import controller_client
from dtfctl.launcher.paths import ClusterPaths
from dtfctl.launcher.rpc.client import Channel
from dtfctl.launcher.selectors import select

LOOK_S = 1.0
"""How often to ask where the task is: a task that was started again may have another port."""
ASK_S = 5.0
END_S = 5.0


class Tunnel:
    """An open port. Close it, or use it in a `with` statement.

    Attributes:
        target: "grpc://127.0.0.1:PORT".
        task: the name of the task it leads to.
    """

    def __init__(self, paths: ClusterPaths, status: ClusterStatus, task: str, port: int) -> None:
        """Open it.

        Args:
            task: "worker/0".
            port: the port to listen at, 0 for a free one.

        Raises:
            UsageError, NoSuchTask: `task` is not one task of this cluster.
            Conflict: the port is taken, or the task has not started.
        """
        found = _one(task, status)
        self.task = found.name
        self._paths = paths
        self._tls = TlsFiles.of(paths.certificates, "cli")
        self._channel: Channel | None = None
        self._channel_address = ""
        self._controller = controller_client.controller_of(paths)
        self._address = found.address
        self._process = subprocess.Popen(
            [
                *(
                    sys.executable,
                    "-P",
                    "-m",
                    "dtfctl.plaintext_port",
                    self._controller.reach(found.address),
                    str(port),
                ),
                *(str(trusted_of_tasks(paths.certificates)), str(self._tls.cert), str(self._tls.key)),
                server_name("task", paths.name, found.name),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            # Ctrl-C is for this process, which then ends the other.
            start_new_session=True,
        )
        try:
            self.target = self._first_answer()
        except BaseException:
            self.close()
            raise

    def _first_answer(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise InternalError(f"the process that serves the port ended with {self._process.wait()}")
        answer = json.loads(line)
        if "error" in answer:
            raise Conflict(f"cannot open a port: {answer['error']}", "choose another --port, or none for a free one")
        return f"grpc://127.0.0.1:{answer['port']}"

    def serve(self, until: Callable[[], bool] = lambda: False) -> None:
        """Follow the task to where it is, until `until()` is true.

        Raises:
            NoSuchCluster: the cluster was taken down.
            InternalError: the process that serves the port ended.
        """
        while not until():
            time.sleep(LOOK_S)
            if self._process.poll() is not None:
                raise InternalError(f"the process that serves the port ended with {self._process.returncode}")
            if controller_client.read_created(self._paths) is None:
                raise NoSuchCluster(f"cluster {self._paths.name} was taken down")
            address = self._look()
            if address and address != self._address:
                self._address = address
                self._tell(self._controller.reach(address))

    def _tell(self, address: str) -> None:
        assert self._process.stdin is not None
        # A process that has just ended is noticed at the next look.
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(f"{address}\n")
            self._process.stdin.flush()

    def _look(self) -> str:
        """Ask for the task's address; "" where nobody can say. Starts no controller: the cluster may be going down."""
        found = self._controller.find()
        if found is None:
            return ""
        if self._channel is None or self._channel_address != found:
            self._forget_channel()
            self._channel = Channel(found, self._tls, "controller", self._paths.name)
            self._channel_address = found
        try:
            message = self._channel.call(controller_calls.STATUS, StatusRequest(), timeout_s=ASK_S)
        except LauncherError:
            return ""
        tasks = message.status.tasks
        return next((task.address for task in tasks if task.name == self.task), "")

    def _forget_channel(self) -> None:
        if self._channel is not None:
            self._channel.close()
            self._channel = None

    def close(self) -> None:
        """Close the port; what runs through it is cancelled."""
        self._forget_channel()
        self._controller.close()
        if self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def __enter__(self) -> Tunnel:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _one(name: str, status: ClusterStatus) -> TaskStatus:
    found = select(name, status.tasks)
    if len(found) != 1:
        names = ", ".join(task.name for task in found[:8]) or "no task"
        raise UsageError(f"{name!r} means {names}; a connection leads to one task", "for example: --task worker/0")
    task = found[0]
    if not task.address:
        raise Conflict(f"{task.name} is {task.state} and has no address yet", "look with: dtfctl status")
    return task
