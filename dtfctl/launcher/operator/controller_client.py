"""Find, start and call the controller of a cluster."""

from __future__ import annotations

import contextlib
import json
import shutil
import time
from collections.abc import Iterator

from dtfctl.launcher import paths as layout
from dtfctl.launcher.errors import Conflict, ControllerUnreachable, NoSuchCluster
from dtfctl.launcher.identity.certificates import (
    LIFETIME_S,
    TlsFiles,
    ensure_authority,
    ensure_certificate,
    renew_if_due,
)
from dtfctl.launcher.messages import controller_calls
from dtfctl.launcher.messages.controller import Nothing
from dtfctl.launcher.model import ClusterInfo
from dtfctl.launcher.operator.local_controller import ControllerProcess, LocalController
from dtfctl.launcher.paths import ClusterPaths
from dtfctl.launcher.providers import ownership
from dtfctl.launcher.rpc.client import Channel
from dtfctl.launcher.rpc.method import Method, PeerUnavailable, Reply, Request
from dtfctl.launcher.system.files import private_folder, try_lock, unlock, write_whole

KEPT_LOGS = 3
"""Earlier clusters of one name whose logs are kept."""
CALL_S = 30.0
RECONNECT_S = 20.0
RETRY_S = 0.05
FOLLOW_S = 10.0
"""The seconds that who looks again and again waits for an answer; one that does not come is asked for anew."""
ANSWERS_S = (5.0, 5.0, 10.0, 20.0)
"""How long each ping of a row waits for its answer; the last value goes on.

Whether a controller that has not answered hangs, it shows itself (`pulse.py`): that is looked at soon. One that does
not is given longer, as it, or its machine, has much to do.
"""


def existing() -> list[ClusterInfo]:
    """List the clusters that are up, or half made; the newest first."""
    return [
        ClusterInfo(paths.name, created, str(paths.folder), _is_alive(paths), ownership.name_of(paths))
        for created, paths in _made()
    ]


def _made() -> list[tuple[float, ClusterPaths]]:
    folder = layout.clusters_folder()
    every = [ClusterPaths(entry) for entry in (folder.iterdir() if folder.is_dir() else ())]
    found = [(created, paths) for paths in every if (created := read_created(paths)) is not None]
    return sorted(found, key=lambda item: item[0], reverse=True)


def _is_alive(paths: ClusterPaths) -> bool:
    controller = controller_of(paths)
    try:
        return controller.find() is not None
    finally:
        controller.close()


def names() -> list[str]:
    """List the clusters that are up, or half made; the newest first. Looks for no controller."""
    return [paths.name for _, paths in _made()]


def read_created(paths: ClusterPaths) -> float | None:
    try:
        return float(json.loads(paths.info.read_bytes())["created"])
    except (FileNotFoundError, NotADirectoryError, ValueError, KeyError):
        return None


def resolve(name: str | None) -> ClusterPaths:
    """Find the folder of the cluster called `name`, or of the newest."""
    clusters = names()
    if name is None:
        if not clusters:
            raise NoSuchCluster("no cluster is up", "start one: dtfctl up cluster-examples/local.yaml")
        return ClusterPaths.of(clusters[0])
    if name not in clusters:
        known = ", ".join(clusters)
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


def prepare(paths: ClusterPaths, lifetime_s: float = LIFETIME_S) -> float:
    """Make folder, certificates and cluster.json, as far as they are missing; return when the cluster was made."""
    private_folder(layout.home())
    private_folder(paths.folder)
    if read_created(paths) is None:
        set_logs_aside(paths)
    private_folder(paths.logs)
    ensure_authority(paths.certificates, paths.name)
    ensure_certificate(paths.certificates, paths.name, "controller", lifetime_s=lifetime_s)
    ensure_certificate(paths.certificates, paths.name, "cli", lifetime_s=lifetime_s)
    ownership.ensure(paths)
    ensure_authority(paths.readers, paths.name)
    ensure_certificate(paths.readers, paths.name, "metrics", lifetime_s=lifetime_s)
    created = read_created(paths)
    if created is None:
        created = time.time()
        write_whole(paths.info, json.dumps({"name": paths.name, "created": created}).encode())
    return created


def set_logs_aside(paths: ClusterPaths) -> None:
    """Move the logs of an earlier cluster of this name to logs.1, those to logs.2, and so on."""
    if not paths.logs.is_dir():
        return
    older = [paths.logs.with_name(f"logs.{n}") for n in range(1, KEPT_LOGS + 1)]
    shutil.rmtree(older[-1], ignore_errors=True)
    for source, target in zip(reversed([paths.logs, *older[:-1]]), reversed(older)):
        if source.exists():
            source.rename(target)


class Connection:
    """Calls to the controller of one cluster; starts it again when it has died.

    Args:
        takes_down: this is `down`, which alone may start a controller that is to go away.
    """

    def __init__(self, paths: ClusterPaths, *, takes_down: bool = False) -> None:
        self.paths = paths
        self._takes_down = takes_down
        self._channel: Channel | None = None
        self._controller: ControllerProcess | None = None
        self._outlook = ""
        self._unanswered = 0

    def call(self, method: Method[Request, Reply], request: Request, *, timeout_s: float = CALL_S) -> Reply:
        """Make one call. When the controller dies meanwhile, make it again to a new one: every call may be repeated."""
        give_up: float | None = None
        while True:
            try:
                channel = self._channel or self._connect()
                return channel.call(method, request, timeout_s=timeout_s)
            except PeerUnavailable as error:
                self.close()
                # From the first failure on: where it hangs, the time that the call had is over before that is noticed.
                give_up = give_up or time.monotonic() + RECONNECT_S
                if time.monotonic() > give_up:
                    raise ControllerUnreachable(
                        f"the controller of {self.paths.name} does not answer: {error.message}",
                        f"{self._outlook}; see {self.paths.logs / 'controller.log'}".removeprefix("; "),
                    ) from error
            time.sleep(RETRY_S)

    def channel(self) -> Channel:
        """Open a channel for a stream, which is not begun again where it breaks."""
        self.call(controller_calls.PING, Nothing())
        assert self._channel is not None
        return self._channel

    def _connect(self) -> Channel:
        if read_created(self.paths) is None:
            raise NoSuchCluster(f"cluster {self.paths.name} is not up", "start it: dtfctl up FILE")
        found = self.controller.find()
        if found is None and self.paths.going_down.exists() and not self._takes_down:
            raise NoSuchCluster(f"cluster {self.paths.name} is being taken down", "wait until that has finished")
        try:
            renew_if_due(self.paths.certificates, self.paths.name, "cli")
            tls = TlsFiles.of(self.paths.certificates, "cli")
            channel = Channel(found or self.controller.start(), tls, "controller", self.paths.name)
        except FileNotFoundError as error:
            if read_created(self.paths) is not None and not self.paths.going_down.exists():
                raise
            raise NoSuchCluster(f"cluster {self.paths.name} is being taken down", "start it: dtfctl up FILE") from error
        try:
            answer_s = ANSWERS_S[min(self._unanswered, len(ANSWERS_S) - 1)]
            channel.call(controller_calls.PING, Nothing(), timeout_s=answer_s)
        except PeerUnavailable:
            self._unanswered += 1
            channel.close()
            if found is not None:
                self._outlook = self.controller.does_not_answer()
            raise
        self._unanswered = 0
        self._channel = channel
        return channel

    @property
    def controller(self) -> ControllerProcess:
        """Where the controller runs."""
        if self._controller is None:
            self._controller = controller_of(self.paths)
        return self._controller

    def close(self) -> None:
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        if self._controller is not None:
            self._controller.close()
            self._controller = None


def controller_of(paths: ClusterPaths) -> ControllerProcess:
    """Find where the controller of a cluster runs."""
    if not paths.controller_place.exists():
        return LocalController(paths)
    from dtfctl.launcher.operator.remote_controller import RemoteController

    return RemoteController(paths)
