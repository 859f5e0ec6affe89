"""Change what is wanted of tasks, and wait until it is so."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from dtfctl.launcher.errors import DeadlineExpired
from dtfctl.launcher.messages import controller_calls
from dtfctl.launcher.messages.controller import (
    DesireHostsRequest,
    DesireRequest,
    HostVerb,
    ScaleRequest,
    StatusRequest,
    TaskVerb,
)
from dtfctl.launcher.model import TaskStatus
from dtfctl.launcher.operator.controller_client import Connection
from dtfctl.launcher.selectors import is_failed

MARGIN_S = 10.0
ENDED = frozenset({"stopped", "failed", "crashed", "done"})
DECIDED_S = 3.0
SETTLE_S = 1.0
"""A failed task may be reported with its former incarnation for so long after its restart was asked for."""


def restart(connection: Connection, selector: str, wait_s: float, grace_s: float) -> list[str]:
    """See `Cluster.restart`."""
    before = {task.name: task.incarnation for task in _tasks(connection)}
    names = _desire(connection, selector, "restart", grace_s)
    begun = time.monotonic()

    def restarted(task: TaskStatus) -> bool:
        if task.incarnation <= before.get(task.name, 0):
            return is_failed(task) and task.state != "pending" and time.monotonic() > begun + SETTLE_S
        return task.state in ("running", "failed", "crashed")

    if wait_s > 0:
        _wait(connection, names, restarted, wait_s, "run again")
    return names


def stop(connection: Connection, selector: str, grace_s: float) -> list[str]:
    """See `Cluster.stop`."""
    names = _desire(connection, selector, "stop", grace_s)
    final = ("stopped", "failed", "crashed", "done")
    _wait(connection, names, lambda task: task.state in final, grace_s + MARGIN_S, "stopped")
    return names


def start(connection: Connection, selector: str, wait_s: float) -> list[str]:
    """See `Cluster.start`."""
    names = _desire(connection, selector, "start", MARGIN_S)
    _wait(connection, names, lambda task: task.state in ("running", "failed", "crashed"), wait_s, "run")
    return names


def scale(connection: Connection, counts: Mapping[str, int], wait_s: float) -> list[str]:
    """See `Cluster.scale`."""
    changes = list(connection.call(controller_calls.SCALE, ScaleRequest(counts)).changes)
    names = [task.name for task in _tasks(connection) if task.job in counts]
    if wait_s > 0:
        _wait(connection, names, lambda task: task.state in ("running", "failed", "crashed", "stopped"), wait_s, "run")
    return changes


def hosts(connection: Connection, names: Sequence[str], verb: HostVerb, reason: str) -> list[str]:
    """See `Cluster.drain`."""
    request = DesireHostsRequest(tuple(names), verb, reason)
    return list(connection.call(controller_calls.DESIRE_HOSTS, request).hosts)


def wait_drained(
    connection: Connection,
    names: Sequence[str],
    before: Sequence[str],
    wait_s: float,
    on_wait: Callable[[Sequence[str]], None],
) -> list[str]:
    """See `Cluster.wait_drained`."""
    begun, version = time.monotonic(), 0
    leaving: set[str] = set()
    told: list[str] = []
    while True:
        message = connection.call(controller_calls.STATUS, StatusRequest(newer_than=version, wait_s=0.5))
        version = message.version
        tasks = message.status.tasks
        there = [task.name for task in tasks if task.host in names and task.state not in ENDED]
        leaving |= {task.name for task in tasks if task.name in there and task.state == "stopping"}
        leaving |= {task.name for task in tasks if task.name in before and task.host not in names}
        late = [task.name for task in tasks if task.name in leaving and (task.name in there or not _arrived(task))]
        stay = [name for name in there if name not in leaving]
        waited = time.monotonic() - begun
        # Whether a task has another place is decided, and its agent told, soon after.
        if not late and (not stay or waited > DECIDED_S):
            return stay
        if late and late != told:
            on_wait(told := late)
        if waited > wait_s:
            raise DeadlineExpired(
                f"after {wait_s:.0f} s these do not run elsewhere yet: {', '.join(late or stay)}",
                f"it goes on; look with: dtfctl status -c {connection.paths.name}",
            )


def _arrived(task: TaskStatus) -> bool:
    return task.state == "running" or task.state in ENDED


def _tasks(connection: Connection) -> tuple[TaskStatus, ...]:
    return connection.call(controller_calls.STATUS, StatusRequest()).status.tasks


def _desire(connection: Connection, selector: str, verb: TaskVerb, grace_s: float) -> list[str]:
    request = DesireRequest(selector, verb, grace_s)
    return list(connection.call(controller_calls.DESIRE, request).tasks)


def _wait(
    connection: Connection, names: Sequence[str], done: Callable[[TaskStatus], bool], wait_s: float, what: str
) -> None:
    deadline = time.monotonic() + wait_s
    version = 0
    while names:
        message = connection.call(controller_calls.STATUS, StatusRequest(newer_than=version, wait_s=0.5))
        version = message.version
        tasks = message.status.tasks
        waiting = [task.name for task in tasks if task.name in names and not done(task)]
        if not waiting:
            return
        if time.monotonic() > deadline:
            raise DeadlineExpired(
                f"after {wait_s:.0f} s these have not {what}: {', '.join(waiting)}",
                f"it goes on; look with: dtfctl status -c {connection.paths.name}",
            )
