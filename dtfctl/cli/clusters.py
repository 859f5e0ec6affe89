"""Commands about a cluster: `up`, `plan`, `status`, `restart`, `down`, `clusters`."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Sequence
from typing import Annotated

import typer

from dtfctl.cli import _data, _tables
from dtfctl.cli._command import Session, command
from dtfctl.cli._format import age, columns, duration, plural
from dtfctl.cli._select import seconds, selector_of

REFRESH_S = 1.0


@command(
    examples=[
        "dtfctl up cluster.yaml",
        "dtfctl up cluster.yaml --dry-run",
        "dtfctl up cluster.yaml --timeout 2m -o json",
    ],
    exits=[0, 1, 2, 5, 6, 7, 8, 9],
)
def up(
    session: Session,
    file: Annotated[str, typer.Argument(metavar="FILE", help="The spec file.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would change; change nothing.")] = False,
    timeout: Annotated[str, typer.Option("--timeout", metavar="TIME", help="How long to wait.")] = "60s",
) -> int:
    """Start the cluster of a spec file, or make the running one match it.

    Waits until every task runs or has failed. Running it again starts only what is missing. Ctrl-C leaves what was
    started; run it again to go on, or `dtfctl down` to stop it.
    """
    return _up(session, file, dry_run, seconds(timeout, "--timeout"))


def _up(session: Session, file: str, dry_run: bool, timeout_s: float) -> int:
    from dtfctl.cli._progress import UpLines
    from dtfctl.launcher.spec import load_spec

    screen = session.screen
    spec = load_spec(file, os.environ, for_up=True)
    lines = UpLines(screen, spec.task_names)
    try:
        with lines:
            result = session.api.Cluster.up(spec, dry_run=dry_run, on_event=lines.event, timeout_s=timeout_s)
    except KeyboardInterrupt:
        sys.stderr.write(
            f"\ninterrupted: what {spec.cluster} had started goes on; "
            f"`dtfctl up {file}` completes it, `dtfctl -c {spec.cluster} down` stops it\n"
        )
        return 130
    if screen.is_data:
        content = {
            "cluster": spec.cluster,
            "dry_run": dry_run,
            "wanted": result.wanted,
            "running": result.running,
            "changes": list(result.changes),
            "problems": list(result.problems),
            "elapsed_s": round(result.elapsed_s, 3),
        }
        screen.data("Plan" if dry_run else "ClusterUp", content)
        return result.exit_code
    if dry_run:
        count = plural(len(result.changes), "change")
        screen.print(f"{spec.cluster}: {count}" if result.changes else f"{spec.cluster}: nothing to change")
        for change in result.changes:
            screen.print(f"  {change}")
    else:
        ready = f"{result.running}/{result.wanted} tasks run"
        if result.exit_code == 0:
            word = "was up already" if not result.changes else "is up"
        else:
            word = "is up in part" if result.exit_code == 5 else "is not up"
        screen.print(f"{spec.cluster} {word}: {ready} ({duration(result.elapsed_s)})")
    for problem in result.problems:
        screen.error(problem)
    if dry_run:
        screen.next(f"dtfctl up {file}")
    elif result.exit_code == 0:
        screen.next("dtfctl submit SCRIPT")
    else:
        screen.next("dtfctl status")
    return result.exit_code


@command(examples=["dtfctl plan cluster.yaml", "dtfctl plan cluster.yaml --exit-code"], exits=[0, 2, 7, 8, 10])
def plan(
    session: Session,
    file: Annotated[str, typer.Argument(metavar="FILE", help="The spec file.")],
    exit_code: Annotated[bool, typer.Option("--exit-code", help="Exit 10 where there are changes.")] = False,
) -> int:
    """Say what `dtfctl up` would change, and change nothing."""
    from dtfctl.launcher.spec import load_spec

    screen = session.screen
    spec = load_spec(file, os.environ, for_up=True)
    result = session.api.Cluster.up(spec, dry_run=True)
    if screen.is_data:
        screen.data("Plan", {"cluster": spec.cluster, "changes": list(result.changes)})
    else:
        count = plural(len(result.changes), "change")
        screen.print(f"{spec.cluster}: {count}" if result.changes else f"{spec.cluster}: nothing to change")
        for change in result.changes:
            screen.print(f"  {change}")
    return 10 if exit_code and result.changes else 0


@command(
    examples=["dtfctl status", "dtfctl status worker -o wide", "dtfctl status --watch", "dtfctl status -o json"],
    exits=[0, 4, 8],
)
def status(
    session: Session,
    selector: Annotated[
        str, typer.Argument(metavar="[SEL]", help="Which tasks: worker, worker/1, worker/0-3, failed, host:NAME.")
    ] = "all",
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Show it again every second until Ctrl-C.")] = False,
) -> int:
    """Show the cluster on one screen: tasks, jobs, and what is wrong.

    The first line says whether all is well. The exit code says whether the question could be answered, not whether
    the cluster is healthy: scripts read `healthy` of -o json.
    """
    from dtfctl.launcher.selectors import select

    screen = session.screen
    cluster = session.open()
    if watch:
        return _watch(session, selector)
    found = cluster.status()
    tasks = select(selector, found.tasks)
    if screen.is_data:
        content = _data.document(found)
        content["tasks"] = [_data.plain(task) for task in tasks]
        screen.data("ClusterStatus", content)
        return 0
    for line in _tables.status_lines(found, tasks, screen, time.time()):
        screen.print(line)
    if any(task.state in ("failed", "crashed", "lost") for task in found.tasks):
        screen.next("dtfctl restart failed")
    elif not found.jobs:
        screen.next("dtfctl submit SCRIPT")
    return 0


def _watch(session: Session, selector: str) -> int:
    """Status again and again: on a terminal in place, else (or as JSON) one after another."""
    from dtfctl.launcher.selectors import select

    screen = session.screen
    cluster = session.open()
    in_place = sys.stdout.isatty() and not screen.is_data
    try:
        while True:
            found = cluster.status()
            tasks = select(selector, found.tasks)
            if screen.is_data:
                content = _data.document(found)
                content["tasks"] = [_data.plain(task) for task in tasks]
                screen.record("ClusterStatus", content)
            else:
                lines = _tables.status_lines(found, tasks, screen, time.time())
                if in_place:
                    lines = _fit(lines, shutil.get_terminal_size().lines - 1)
                    # Home, each line with its rest erased, then all below erased: no flicker as with a full clear.
                    sys.stdout.write("\x1b[H" + "".join(f"{line}\x1b[K\n" for line in lines) + "\x1b[J")
                else:
                    screen.print("\n".join([*lines, ""]))
                sys.stdout.flush()
            time.sleep(REFRESH_S)
    except KeyboardInterrupt:
        return 0


def _fit(lines: list[str], height: int) -> list[str]:
    """`lines` cut to a screen of `height`, saying how many are below."""
    if len(lines) <= height:
        return lines
    return [
        *lines[: height - 1],
        f"... {len(lines) - height + 1} more lines; `dtfctl status failed` shows the failed tasks",
    ]


@command(
    examples=["dtfctl restart failed", "dtfctl restart failed tasks", "dtfctl restart worker/1", "dtfctl restart all"],
    exits=[0, 2, 4, 7, 8, 9],
)
def restart(
    session: Session,
    words: Annotated[
        list[str], typer.Argument(metavar="SEL...", help="Which tasks: failed, worker/1, worker/0-3, ps, all.")
    ],
    timeout: Annotated[str, typer.Option("--timeout", metavar="TIME", help="How long to wait.")] = "30s",
) -> int:
    """Restart tasks, forget how often they failed, and wait until they run.

    `failed` are the tasks that failed, gave up, or are lost; when there is none, that is said and nothing is done.
    The words `task` and `tasks` may follow a selector.
    """
    screen = session.screen
    selector = selector_of(words)
    wait_s = seconds(timeout, "--timeout")
    cluster = session.open()
    names = cluster.restart(selector, wait_s=wait_s).tasks
    if screen.is_data:
        screen.data("Restart", {"cluster": cluster.name, "tasks": list(names)})
    elif names:
        screen.print(f"restarted {plural(len(names), 'task')}: {', '.join(names)}")
        screen.next("dtfctl status")
    else:
        screen.print(f"nothing to restart: no task of {cluster.name} has failed")
    return 0


@command(examples=["dtfctl stop worker/1", "dtfctl stop worker/1 --grace 30s"], exits=[0, 2, 4, 7, 8, 9])
def stop(
    session: Session,
    words: Annotated[list[str], typer.Argument(metavar="SEL...", help="Which tasks: worker/1, worker/0-3, ps, all.")],
    grace: Annotated[
        str, typer.Option("--grace", metavar="TIME", help="Time to end between SIGTERM and SIGKILL.")
    ] = "10s",
) -> int:
    """Stop tasks. They stay stopped until `dtfctl start` or `dtfctl restart`."""
    selector = selector_of(words)
    grace_s = seconds(grace, "--grace")
    cluster = session.open()
    return _say_tasks(session, cluster.name, "stopped", cluster.stop(selector, grace_s=grace_s).tasks)


@command(examples=["dtfctl start worker/1"], exits=[0, 2, 4, 7, 8, 9])
def start(
    session: Session,
    words: Annotated[list[str], typer.Argument(metavar="SEL...", help="Which tasks: worker/1, worker/0-3, ps, all.")],
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


@command(examples=["dtfctl down", "dtfctl -c lab down --grace 30s"], exits=[0, 1, 2, 4, 7, 9])
def down(
    session: Session,
    grace: Annotated[
        str, typer.Option("--grace", metavar="TIME", help="Time to end between SIGTERM and SIGKILL.")
    ] = "10s",
) -> int:
    """Stop the cluster: its jobs, tasks, agents and controller.

    Logs and checkpoints stay; processes, ports and all other files go.
    """
    from dtfctl.cli._progress import DownLines

    screen = session.screen
    lines = DownLines(screen)
    started = time.monotonic()
    name, problems = session.api.Cluster.down_by_name(
        session.cluster_name, grace_s=seconds(grace, "--grace"), on_event=lines.event
    )
    took = time.monotonic() - started
    if screen.is_data:
        screen.data("ClusterDown", {"cluster": name, "problems": list(problems), "elapsed_s": round(took, 3)})
    else:
        screen.print(f"{name} is down ({duration(took)})")
        for problem in problems:
            screen.error(problem)
    return 1 if problems else 0


@command(examples=["dtfctl clusters", "dtfctl clusters -o json"], exits=[0])
def clusters(session: Session) -> None:
    """List the clusters that are up, the newest first; the first is the default of every command."""
    screen = session.screen
    found = session.api.clusters()
    if screen.is_data:
        screen.data("ClusterList", {"clusters": [_data.plain(item) for item in found]})
        return
    if not found:
        screen.print("no cluster is up")
        screen.next("dtfctl up FILE")
        return
    now = time.time()
    rows = [(item.name, "running" if item.alive else "down", age(item.created, now), item.folder) for item in found]
    for line in columns(("CLUSTER", "CONTROLLER", "AGE", "FOLDER"), rows, screen.style):
        screen.print(line)
