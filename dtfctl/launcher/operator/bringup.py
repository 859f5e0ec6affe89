"""A cluster from its spec to healthy tasks, and down again."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from dtfctl import guard
from dtfctl.launcher.errors import (
    ClusterFailed,
    Conflict,
    ControllerUnreachable,
    DeadlineExpired,
    LauncherError,
    LoginError,
    NoSuchCluster,
    PartlyDone,
)
from dtfctl.launcher.messages import controller_calls
from dtfctl.launcher.messages.controller import ApplyRequest, DownRequest, Nothing, StatusReply, StatusRequest
from dtfctl.launcher.model import SETTLED, ClusterStatus, Event, HostStatus, TaskStatus
from dtfctl.launcher.operator import completion, controller_client, history, remote_controller
from dtfctl.launcher.operator.adopt import take_over
from dtfctl.launcher.operator.controller_client import Connection
from dtfctl.launcher.paths import ClusterPaths
from dtfctl.launcher.providers import lenders, ownership
from dtfctl.launcher.providers.base import LOGIN_CAUSES, OnStage, Stage
from dtfctl.launcher.selectors import chosen_of
from dtfctl.launcher.spec import elastic
from dtfctl.launcher.spec.available import require_available
from dtfctl.launcher.spec.model import ClusterSpec
from dtfctl.launcher.system.files import explained

DOWN_MARGIN_S = 60.0
DOWN_SAID_EVERY_S = 3.0
OWNER_HINT = (
    "use another name, or a folder of your own there (`home: ~/FOLDER` in the file); or take it over: "
    "dtfctl up FILE --adopt; or end it: dtfctl hosts clean FILE"
)


@dataclass(frozen=True, slots=True)
class Reached:
    """What an `up` came to."""

    wanted: int
    running: int
    changes: tuple[str, ...]
    problems: tuple[str, ...]
    usable: bool
    no_login: bool
    """Whether no host that has a task let us in."""
    outdated: bool
    """A host that runs has not the files, the set-up or the shared folder that the spec says."""
    enough: bool = False
    """Whether all that does not run is on hosts that may come and go, of which there are enough."""


def bring_up(
    spec: ClusterSpec,
    *,
    on_event: Callable[[Event], None] | None,
    on_hosts: Callable[[Sequence[HostStatus]], None] | None,
    timeout_s: float,
    queues: bool = False,
    task_command: Sequence[str],
    wait: bool,
    min_ready: int | None,
    only: str = "",
    prune: bool = False,
    adopt: bool = False,
) -> Reached:
    """See `Cluster.up`. `queues`: `timeout_s` begins when hosts that are lent have been granted."""
    deadline = time.monotonic() + timeout_s
    paths = ClusterPaths.of(spec.cluster)
    require_available(spec)
    request = ApplyRequest(spec, tuple(task_command), only=only, prune=prune)
    with controller_client.operation(paths, "bring up"):
        is_new = controller_client.read_created(paths) is None
        with explained(paths.folder):
            if adopt:
                take_over(paths, spec, _on_stage(on_hosts, on_event))
            connection = _prepare(paths, spec, _on_stage(on_hosts, on_event))
            _borrow(paths, spec, connection)
        reply = connection.call(controller_calls.APPLY, request)
        watcher = _Watcher(connection, reply.event, on_event, on_hosts)
        meant = frozenset(reply.tasks) if only else None
        try:
            after_queue_s = timeout_s if queues else 0.0
            watched = (deadline, min_ready, meant, is_new, after_queue_s, spec)
            seen = watcher.wait_settled(*watched) if wait else watcher.look()
        except _Foreign as foreign:
            connection.close()
            _down(paths, 0.0, force=True, keep_logs=False)
            raise Conflict(*foreign.args) from None
    status = seen.status
    tasks = _meant(status, meant)
    running = sum(task.state == "running" for task in tasks)
    places = {task.host for task in tasks}
    hosts = [host for host in status.hosts if host.name in places]
    away = elastic.away(spec, _there(status.hosts))
    return Reached(
        wanted=len(spec.task_names) if meant is None else len(meant),
        running=running,
        changes=reply.changes,
        problems=status.problems,
        usable=seen.usable if meant is None else running > 0,
        no_login=bool(hosts) and all(host.cause in LOGIN_CAUSES for host in hosts),
        enough=meant is None and seen.usable and all(t.state == "running" or t.host in away for t in tasks),
        # Also where no task is yet: one may move there.
        outdated=any(host.cause in ("sync", "setup") for host in hosts)
        or any(host.cause == "shared" for host in status.hosts),
    )


def _there(hosts: Sequence[HostStatus]) -> set[str]:
    """Choose the hosts that are not away."""
    return {host.name for host in hosts if host.state not in ("pending", "down")}


def _meant(status: ClusterStatus, meant: frozenset[str] | None) -> list[TaskStatus]:
    """Choose the tasks that this `up` is about: all, or those named by `only`."""
    return [task for task in status.tasks if meant is None or task.name in meant]


def _prepare(paths: ClusterPaths, spec: ClusterSpec, on_stage: OnStage) -> Connection:
    """Prepare what the controller needs, where it is to run."""
    is_new = controller_client.read_created(paths) is None
    created = controller_client.prepare(paths, spec.security.lifetime)
    has_begun = paths.database.exists() or (paths.folder / "hosts").exists()
    if not paths.controller_place.exists() and (has_begun or not remote_controller.host_of(spec)):
        return Connection(paths)
    try:
        remote_controller.RemoteController.prepare(paths, spec, created, on_stage).close()
    except LauncherError:
        if is_new and paths.controller_place.exists():
            remote_controller.RemoteController(paths).give_up()
        raise
    return Connection(paths)


def _borrow(paths: ClusterPaths, spec: ClusterSpec, connection: Connection) -> None:
    """See to it that somebody lends the hosts, where the spec says who."""
    try:
        lenders.acquire(paths, spec)
    except LauncherError:
        if not paths.database.exists():
            connection.controller.forget(keep_logs=False)
        raise


def _on_stage(
    on_hosts: Callable[[Sequence[HostStatus]], None] | None, on_event: Callable[[Event], None] | None
) -> OnStage:
    """Tell what is done on hosts while there is no controller yet that could; these events are in no history."""

    def tell(host: str, stage: Stage, detail: str) -> None:
        if on_event is not None and "%" not in detail:
            on_event(Event(0, time.time(), f"host.{stage}", f"host:{host}", detail))
        if on_hosts is not None:
            on_hosts([HostStatus(host, "pending", tasks=1, stage=f"{stage} {detail}".strip())])

    return tell


def would_change(
    spec: ClusterSpec, task_command: Sequence[str], only: str = "", prune: bool = False
) -> tuple[str, ...]:
    """Say what `bring_up` would do, one line each."""
    paths = ClusterPaths.of(spec.cluster)
    require_available(spec)
    if controller_client.read_created(paths) is not None:
        request = ApplyRequest(spec, tuple(task_command), dry_run=True, only=only, prune=prune)
        return Connection(paths).call(controller_calls.APPLY, request).changes
    from dtfctl.launcher.controller.decisions.changes import take_over
    from dtfctl.launcher.controller.decisions.placement import place

    placed = place(spec)
    chosen = chosen_of(only, (), placed) if only else None
    return take_over(None, spec, {}, placed, chosen=chosen).lines


class _Foreign(Exception):
    """A host has a cluster of this name that is somebody else's: (message, hint)."""


class _Watcher:
    """Looks at a cluster that comes up, and passes on what it sees."""

    def __init__(
        self,
        connection: Connection,
        after_event: int,
        on_event: Callable[[Event], None] | None,
        on_hosts: Callable[[Sequence[HostStatus]], None] | None,
    ) -> None:
        self._connection = connection
        self._after = after_event
        self._on_event = on_event
        self._on_hosts = on_hosts
        self._version = 0

    def look(self, wait_s: float = 0.0) -> StatusReply:
        """Read the status, once it is newer than the last one or `wait_s` are over."""
        request = StatusRequest(newer_than=self._version, wait_s=max(0.0, wait_s))
        reply = self._connection.call(controller_calls.STATUS, request)
        self._version = reply.version
        if self._on_hosts is not None:
            self._on_hosts(reply.status.hosts)
        if self._on_event is not None:
            for event in history.events_after(self._connection, self._after):
                self._after = event.seq
                self._on_event(event)
        return reply

    def wait_settled(
        self,
        deadline: float,
        min_ready: int | None,
        meant: frozenset[str] | None = None,
        is_new: bool = False,
        after_queue_s: float = 0.0,
        spec: ClusterSpec | None = None,
    ) -> StatusReply:
        """Wait until every task that is meant runs or has failed for good, or `min_ready` run.

        Raises:
            _Foreign: it `is_new`, and a host has another one of its name.
        """
        while True:
            left = deadline - time.monotonic()
            reply = self.look(min(left, 0.5))
            grant = reply.status.grant
            queues = grant is not None and grant.state == "queued"
            if spec is not None and any(host.cause == "queued" for host in reply.status.hosts):
                queues |= bool(elastic.lacking(spec, _there(reply.status.hosts)))
            if queues and after_queue_s:
                deadline = time.monotonic() + after_queue_s
            foreign = next((host for host in reply.status.hosts if host.cause == "owner"), None) if is_new else None
            if foreign is not None:
                raise _Foreign(f"{foreign.name}: {foreign.last_error}", OWNER_HINT)
            tasks = _meant(reply.status, meant)
            running = sum(task.state == "running" for task in tasks)
            if meant is not None and all(task.state in SETTLED for task in tasks):
                return reply
            if reply.settled or (min_ready is not None and running >= min_ready):
                return reply
            if left <= 0:
                waiting = ", ".join(
                    f"{task.job}/{task.index} ({task.state})" for task in tasks if task.state != "running"
                )
                name = self._connection.paths.name
                if grant is not None and grant.state == "queued":
                    raise DeadlineExpired(
                        f"cluster {name} is not up: {grant.what} waits in the queue: {grant.why}",
                        f"it stays in the queue: dtfctl up FILE waits on, dtfctl down -c {name} takes it back",
                    )
                raise DeadlineExpired(
                    f"cluster {name} is not complete: {waiting}",
                    f"it goes on starting; look with: dtfctl status -c {name}",
                )


def take_down(
    name: str | None,
    grace_s: float,
    force: bool = False,
    keep_logs: bool = True,
    on_wait: Callable[[Sequence[str]], None] | None = None,
) -> tuple[str, tuple[str, ...]]:
    """Stop jobs, tasks, agents and controller of a cluster, also of one that is half made: (name, problems).

    `on_wait` is told now and then which hosts are waited for.

    With `force`, hosts that cannot be reached are given up; else the cluster stays until they can be.
    """
    paths = controller_client.resolve(name)
    with controller_client.operation(paths, "take down"):
        with contextlib.suppress(OSError):  # a full disk is a reason to take it down, not one to leave it up
            paths.going_down.touch()
        try:
            with _waits_for(paths, on_wait):
                problems = _down(paths, grace_s, force, keep_logs)
            if problems and not force:
                return paths.name, problems
            lenders.release(paths)
        finally:
            paths.going_down.unlink(missing_ok=True)
        paths.lock.unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        paths.folder.rmdir()
    return paths.name, problems


@contextlib.contextmanager
def _waits_for(paths: ClusterPaths, on_wait: Callable[[Sequence[str]], None] | None) -> Iterator[None]:
    """Tell meanwhile for which hosts `down` waits, and again when those are others."""
    if on_wait is None:
        yield
        return
    done = threading.Event()

    def look() -> None:
        told: list[str] = []
        while not done.wait(DOWN_SAID_EVERY_S):
            status = completion.status_of(paths)
            names = [host.name for host in status.hosts if host.stage == "stopping"] if status is not None else []
            if names and names != told and not done.is_set():
                on_wait(told := names)

    thread = guard.once(look, name="down-waits-for")
    thread.start()
    try:
        yield
    finally:
        done.set()


def _down(paths: ClusterPaths, grace_s: float, force: bool, keep_logs: bool) -> tuple[str, ...]:
    """Let the controller stop everything, and wait for its end."""
    connection = Connection(paths, takes_down=True)
    try:
        # Started again if need be: a killed `up` may have left a controller that is still on its way.
        try:
            connection.call(controller_calls.PING, Nothing())
        except ClusterFailed as error:
            if not (paths.folder / "hosts").exists():
                return ()  # it cannot start, and never had an agent to stop
            if not force:
                raise
            ownership.give_up(paths)
            connection.controller.forget(keep_logs)
            return (f"nothing was stopped: {error.message}",)
        except (LoginError, ControllerUnreachable, NoSuchCluster, Conflict) as error:
            if not force or not isinstance(connection.controller, remote_controller.RemoteController):
                raise
            ownership.give_up(paths)
            connection.controller.give_up()
            return (error.message,)
        try:
            request = DownRequest(grace_s=grace_s, force=force, delete_logs=not keep_logs)
            lent = paths.allocation.exists()  # then hosts out of reach are no problem, and may keep their files
            left = tuple(connection.call(controller_calls.DOWN, request, timeout_s=grace_s + DOWN_MARGIN_S).problems)
            if left or lent:
                ownership.give_up(paths)
        except PartlyDone as error:
            return (error.message,)
        connection.controller.wait_gone()
        connection.controller.forget(keep_logs)
    finally:
        connection.close()
    return left
