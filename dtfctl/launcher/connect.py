"""Find, start and call the controller of a cluster."""

from __future__ import annotations

import contextlib
import json
import shutil
import signal
import time
from collections.abc import Iterator

from dtfctl.launcher import paths as layout
from dtfctl.launcher.certificates import TlsFiles, ensure_authority, ensure_certificate
from dtfctl.launcher.controller import methods
from dtfctl.launcher.daemon import is_locked, start_daemon
from dtfctl.launcher.errors import Conflict, ControllerUnreachable, NoSuchCluster
from dtfctl.launcher.files import private_folder, try_lock, unlock, write_whole
from dtfctl.launcher.model import ClusterInfo
from dtfctl.launcher.paths import ClusterPaths
from dtfctl.launcher.procfs import ProcessId, is_alive, send_signal
from dtfctl.launcher.providers.local import died, remove_socket_folder
from dtfctl.launcher.rpc import Channel, Method, PeerUnavailable, Reply, Request
from dtfctl.protocol import controller_pb2 as pb

START_S = 20.0
POLL_S = 0.01
KEPT_LOGS = 3
"""Earlier clusters of one name whose logs are kept."""
CALL_S = 30.0
RECONNECT_S = 15.0
RETRY_S = 0.05
DYING_S = 0.5
ANSWER_S = 5.0
"""A controller that is alive but does not answer a ping in this time hangs."""


def existing() -> list[ClusterInfo]:
    """Clusters that are up, or half made; the newest first."""
    found = []
    folder = layout.clusters_folder()
    for entry in folder.iterdir() if folder.is_dir() else ():
        paths = ClusterPaths(entry)
        created = read_created(paths)
        if created is not None:
            found.append(ClusterInfo(entry.name, created, str(entry), find_controller(paths) is not None))
    return sorted(found, key=lambda info: info.created, reverse=True)


def read_created(paths: ClusterPaths) -> float | None:
    try:
        return float(json.loads(paths.info.read_bytes())["created"])
    except (FileNotFoundError, NotADirectoryError, ValueError, KeyError):
        return None


def resolve(name: str | None) -> ClusterPaths:
    """The folder of the cluster called `name`, or of the newest."""
    clusters = existing()
    if name is None:
        if not clusters:
            raise NoSuchCluster("no cluster is up", "start one: dtfctl up cluster-examples/local.yaml")
        return ClusterPaths.of(clusters[0].name)
    if all(info.name != name for info in clusters):
        known = ", ".join(info.name for info in clusters)
        raise NoSuchCluster(
            f"no cluster called {name!r} is up",
            f"clusters that are up: {known}" if known else "start one: dtfctl up FILE",
        )
    return ClusterPaths.of(name)


@contextlib.contextmanager
def operation(paths: ClusterPaths, what: str) -> Iterator[None]:
    """Hold the cluster's lock: one `up` or `down` at a time."""
    private_folder(paths.folder)
    lock = try_lock(paths.lock)
    if lock is None:
        raise Conflict(
            f"cannot {what} cluster {paths.name}: another `up` or `down` of it is at work",
            "wait until that has finished",
        )
    try:
        yield
    finally:
        unlock(lock)


def prepare(paths: ClusterPaths) -> None:
    """Folder, certificates and cluster.json, as far as they are missing."""
    private_folder(layout.home())
    private_folder(paths.folder)
    if read_created(paths) is None:
        set_logs_aside(paths)
    private_folder(paths.logs)
    ensure_authority(paths.certificates, paths.name)
    ensure_certificate(paths.certificates, paths.name, "controller")
    ensure_certificate(paths.certificates, paths.name, "cli")
    ensure_authority(paths.readers, paths.name)
    ensure_certificate(paths.readers, paths.name, "metrics")
    if read_created(paths) is None:
        write_whole(paths.info, json.dumps({"name": paths.name, "created": time.time()}).encode())


def set_logs_aside(paths: ClusterPaths) -> None:
    """Move the logs of an earlier cluster of this name to logs.1, those to logs.2, and so on."""
    if not paths.logs.is_dir():
        return
    older = [paths.logs.with_name(f"logs.{n}") for n in range(1, KEPT_LOGS + 1)]
    shutil.rmtree(older[-1], ignore_errors=True)
    for source, target in zip(reversed([paths.logs, *older[:-1]]), reversed(older)):
        if source.exists():
            source.rename(target)


def find_controller(paths: ClusterPaths) -> tuple[ProcessId, str] | None:
    """The live controller's process and address."""
    try:
        content = json.loads(paths.controller_info.read_bytes())
        process = ProcessId(content["pid"], content["start_ticks"])
        address = str(content["address"])
    except (FileNotFoundError, ValueError, KeyError):
        return None
    return (process, address) if is_alive(process) else None


def start_controller(paths: ClusterPaths) -> str:
    """Start the controller, or find the one that somebody else is starting; its address."""
    log = private_folder(paths.logs) / "controller.log"
    lock = paths.controller_lock
    started = start_daemon("dtfctl.launcher.controller", [str(paths.folder)], log=log, lock=lock)
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        gone = not is_locked(lock)
        found = find_controller(paths)
        if found is not None:
            return found[1]
        if gone and not started:
            started = start_daemon("dtfctl.launcher.controller", [str(paths.folder)], log=log, lock=lock)
        elif gone:
            raise died(log, f"the controller of {paths.name} ended at once")
        time.sleep(POLL_S)
    raise ControllerUnreachable(f"the controller of {paths.name} did not start within {START_S:.0f} s", f"see {log}")


class Connection:
    """Calls to the controller of one cluster; starts it again when it has died.

    Args:
        takes_down: this is `down`, which alone may start a controller that is to go away.
    """

    def __init__(self, paths: ClusterPaths, *, takes_down: bool = False) -> None:
        self.paths = paths
        self._takes_down = takes_down
        self._channel: Channel | None = None

    def call(self, method: Method[Request, Reply], request: Request, *, timeout_s: float = CALL_S) -> Reply:
        """One call. When the controller dies meanwhile, again with a new one: every call may be repeated."""
        give_up = time.monotonic() + RECONNECT_S
        while True:
            try:
                channel = self._channel or self._connect()
                return channel.call(method, request, timeout_s=timeout_s)
            except PeerUnavailable as error:
                self.close()
                if time.monotonic() > give_up:
                    raise ControllerUnreachable(
                        f"the controller of {self.paths.name} does not answer: {error.message}",
                        f"see {self.paths.logs / 'controller.log'}",
                    ) from error
            time.sleep(RETRY_S)

    def channel(self) -> Channel:
        """For a stream, which is not begun again where it breaks."""
        self.call(methods.PING, pb.Nothing())
        assert self._channel is not None
        return self._channel

    def _connect(self) -> Channel:
        if read_created(self.paths) is None:
            raise NoSuchCluster(f"cluster {self.paths.name} is not up", "start it: dtfctl up FILE")
        found = find_controller(self.paths)
        if found is None and self.paths.going_down.exists() and not self._takes_down:
            raise NoSuchCluster(f"cluster {self.paths.name} is being taken down", "wait until that has finished")
        address = found[1] if found else start_controller(self.paths)
        tls = TlsFiles.of(self.paths.certificates, "cli")
        channel = Channel(address, tls, "controller", self.paths.name)
        try:
            channel.call(methods.PING, pb.Nothing(), timeout_s=ANSWER_S)
        except PeerUnavailable:
            channel.close()
            if found is not None:
                end_controller(found[0])
            raise
        self._channel = channel
        return channel

    def close(self) -> None:
        if self._channel is not None:
            self._channel.close()
            self._channel = None


def end_controller(process: ProcessId) -> None:
    """One that is alive but does not answer is dying, or hangs: then it is killed; its successor adopts everything."""
    deadline = time.monotonic() + DYING_S
    while is_alive(process):
        if time.monotonic() > deadline:
            send_signal(process, signal.SIGKILL)
        time.sleep(POLL_S)


def wait_gone(paths: ClusterPaths, timeout_s: float = 10.0) -> None:
    """Until no controller runs and none is on its way; one that does not end in time is killed."""
    deadline = time.monotonic() + timeout_s
    while is_locked(paths.controller_lock):
        found = find_controller(paths)
        if found is not None and time.monotonic() > deadline:
            send_signal(found[0], signal.SIGKILL)
        time.sleep(POLL_S)


def forget(paths: ClusterPaths) -> None:
    """Delete what is left of a cluster whose processes have ended; logs and checkpoints stay."""
    hosts = paths.folder / "hosts"
    for host in hosts.iterdir() if hosts.is_dir() else ():
        remove_socket_folder(host)
    remove_files(paths)
    for path in (paths.info, paths.controller_info, paths.controller_lock):
        path.unlink(missing_ok=True)
    if paths.logs.is_dir() and not any(paths.logs.iterdir()):
        shutil.rmtree(paths.logs)


def remove_files(paths: ClusterPaths) -> None:
    """Delete all of a cluster's files but logs and checkpoints."""
    for folder in (paths.certificates, paths.folder / "hosts", paths.folder / "run"):
        shutil.rmtree(folder, ignore_errors=True)
    for name in ("", "-wal", "-shm", "-journal"):
        paths.database.with_name(paths.database.name + name).unlink(missing_ok=True)
    if paths.jobs.is_dir():
        for job in paths.jobs.iterdir():
            for item in job.iterdir():
                if item.name == "checkpoint" and any(item.iterdir()):
                    continue
                shutil.rmtree(item, ignore_errors=True) if item.is_dir() else item.unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                job.rmdir()
        with contextlib.suppress(OSError):
            paths.jobs.rmdir()
