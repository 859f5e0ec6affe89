"""Commands about tasks: `status`, `restart`, `stop`, `start`."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dtfctl.cli import _complete as complete, _data, _tables
from dtfctl.cli._command import Session, command
from dtfctl.cli._format import plural
from dtfctl.cli._screen import Screen
from dtfctl.cli._select import seconds, selector_of
from dtfctl.cli._watch import repeat

if TYPE_CHECKING:
    from dtfctl.launcher.model import ClusterStatus

GRACE_S = 10.0


@command(
    examples=[
        "dtfctl status",
        "dtfctl status worker -o wide",
        "dtfctl status --watch",
        "dtfctl status --problems",
        "dtfctl status -o json",
    ],
    exits=[0, 4, 8],
)
def status(
    session: Session,
    selector: Annotated[
        str,
        typer.Argument(
            metavar="[SEL]",
            help="Which tasks: worker, worker/1, worker/0-3, failed, host:NAME.",
            autocompletion=complete.tasks,
        ),
    ] = "all",
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Show it again every second until Ctrl-C.")] = False,
    problems: Annotated[
        bool, typer.Option("--problems", help="Only what is wrong, and the last lines of what failed.")
    ] = False,
) -> int:
    """Show the cluster on one screen: tasks, jobs, and what is wrong.

    The first line says whether all is well. The exit code says whether the question could be answered, not whether
    the cluster is healthy: scripts read `healthy` of -o json.
    """
    screen = session.screen
    cluster = session.open()
    if watch:
        return repeat(
            screen,
            lambda: _show(screen, cluster.status(), cluster.owner, selector, problems, screen.record),
            "`dtfctl status failed` shows the failed tasks",
        )
    found = cluster.status()
    lines = _show(screen, found, cluster.owner, selector, problems, screen.data)
    if lines is None:
        return 0
    for line in lines:
        screen.print(line)
    if _tables.taken_by(found):
        screen.next("dtfctl down --force (forgets it here; theirs runs on), or take it back: dtfctl up FILE --adopt")
    elif any(task.state in ("failed", "crashed") for task in found.tasks):
        screen.next("dtfctl restart failed")
    elif any(task.state == "lost" for task in found.tasks):
        screen.next("dtfctl hosts")
    elif not found.jobs:
        screen.next("dtfctl submit SCRIPT")
    return 0


def _show(
    screen: Screen,
    found: ClusterStatus,
    owner: str,
    selector: str,
    only_problems: bool,
    write: Callable[[str, Mapping[str, Any]], None],
) -> list[str] | None:
    """Return the lines of `status`, or None when it was written as data."""
    from dtfctl.launcher.selectors import is_failed, select

    tasks = select(selector, found.tasks)
    if only_problems:
        tasks = [task for task in tasks if is_failed(task) or task.health == "suspect"]
    if not screen.is_data:
        if only_problems:
            return _tables.problem_lines(found, tasks, screen, time.time())
        return _tables.status_lines(found, tasks, screen, time.time(), owner)
    content = {**_data.document(found), "owner": owner}
    content["tasks"] = [_data.plain(task) for task in tasks]
    if only_problems:
        content["hosts"] = [_data.plain(host) for host in found.hosts if host.state != "up" or host.last_error]
        content["jobs"] = []
    write("ClusterStatus", content)
    return None


@command(
    examples=["dtfctl restart failed", "dtfctl restart failed tasks", "dtfctl restart worker/1", "dtfctl restart all"],
    exits=[0, 2, 4, 7, 8, 9],
)
def restart(
    session: Session,
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="SEL...", help="Which tasks: failed, worker/1, worker/0-3, ps, all.", autocompletion=complete.tasks
        ),
    ],
    timeout: Annotated[str, typer.Option("--timeout", metavar="TIME", help="How long to wait.")] = "30s",
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until they run, or come back at once.")] = True,
    force: Annotated[bool, typer.Option("--force", help="End what runs by SIGKILL at once, without SIGTERM.")] = False,
    reset: Annotated[bool, typer.Option("--reset", help="Forget how often they failed; a restart always does.")] = True,
) -> int:
    """Restart tasks, forget how often they failed, and wait until they run.

    `failed` are the tasks that failed, gave up, or are lost; when there is none, that is said and nothing is done.
    The words `task` and `tasks` may follow a selector.
    """
    screen = session.screen
    selector = selector_of(words)
    wait_s = seconds(timeout, "--timeout")
    cluster = session.open()
    if selector == "all":
        session.confirm(f"Restart all tasks of {cluster.name}?")
    names = cluster.restart(selector, wait_s=wait_s if wait else 0.0, grace_s=0.0 if force else GRACE_S).tasks
    if screen.is_data:
        screen.data("Restart", {"cluster": cluster.name, "tasks": list(names)})
    elif names:
        done = "restarted" if wait else "restarting"
        screen.print(f"{done} {plural(len(names), 'task')}: {', '.join(names)}")
        screen.next("dtfctl status")
    else:
        screen.print(f"nothing to restart: no task of {cluster.name} has failed")
    return 0


@command(examples=["dtfctl stop worker/1", "dtfctl stop worker/1 --grace 30s"], exits=[0, 2, 4, 7, 8, 9])
def stop(
    session: Session,
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="SEL...", help="Which tasks: worker/1, worker/0-3, ps, all.", autocompletion=complete.tasks
        ),
    ],
    grace: Annotated[
        str, typer.Option("--grace", metavar="TIME", help="Time to end between SIGTERM and SIGKILL.")
    ] = "10s",
) -> int:
    """Stop tasks. They stay stopped until `dtfctl start` or `dtfctl restart`."""
    selector = selector_of(words)
    grace_s = seconds(grace, "--grace")
    cluster = session.open()
    if selector == "all":
        session.confirm(f"Stop all tasks of {cluster.name}?")
    return _say_tasks(session, cluster.name, "stopped", cluster.stop(selector, grace_s=grace_s).tasks)


@command(examples=["dtfctl start worker/1"], exits=[0, 2, 4, 7, 8, 9])
def start(
    session: Session,
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="SEL...", help="Which tasks: worker/1, worker/0-3, ps, all.", autocompletion=complete.tasks
        ),
    ],
) -> int:
    """Start tasks that `dtfctl stop` stopped."""
    selector = selector_of(words)
    cluster = session.open()
    return _say_tasks(session, cluster.name, "started", cluster.start(selector).tasks)


def _say_tasks(session: Session, cluster: str, done: str, names: Sequence[str]) -> int:
    screen = session.screen
    if screen.is_data:
        screen.data("Tasks", {"cluster": cluster, "done": done, "tasks": list(names)})
    elif names:
        screen.print(f"{done} {plural(len(names), 'task')}: {', '.join(names)}")
    else:
        screen.print(f"nothing to do: no such task of {cluster} was to be {done}")
    return 0
