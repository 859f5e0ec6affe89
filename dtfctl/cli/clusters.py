"""Commands about a cluster: `up`, `plan`, `down`, `clusters`."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from dtfctl.cli import _complete as complete, _data
from dtfctl.cli._command import Session, command
from dtfctl.cli._format import age, columns, duration, named, plural
from dtfctl.cli._select import seconds, selector

if TYPE_CHECKING:
    from dtfctl.launcher.model import Event


@command(
    examples=[
        "dtfctl up cluster.yaml",
        "dtfctl up cluster.yaml --dry-run",
        "dtfctl up cluster.yaml --timeout 2m -o json",
        "dtfctl up cluster.yaml --min-ready 4",
        "dtfctl up cluster.yaml --only ps,worker/0",
        "dtfctl up cluster.yaml --adopt",
    ],
    exits=[0, 1, 2, 3, 5, 6, 7, 8, 9],
)
def up(
    session: Session,
    file: Annotated[str, typer.Argument(metavar="FILE", help="The spec file.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would change; change nothing.")] = False,
    timeout: Annotated[
        str, typer.Option("--timeout", metavar="TIME", help="How long to wait; 60s, over SSH 10m.", show_default=False)
    ] = "",
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until every task runs or has failed.")] = True,
    min_ready: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option("--min-ready", metavar="N", min=1, help="Wait for N running tasks only.", show_default=False),
    ] = None,
    recreate: Annotated[bool, typer.Option("--recreate", help="Take the cluster down first if it is up.")] = False,
    parallel: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option("--parallel", metavar="N", min=1, max=1024, help="SSH logins at a time.", show_default=False),
    ] = None,
    only: Annotated[
        str,
        typer.Option(
            "--only",
            metavar="SEL",
            help="Bring up these tasks, and leave the others as they are.",
            autocompletion=complete.tasks_of_file,
        ),
    ] = "",
    prune: Annotated[
        bool, typer.Option("--prune", help="With --only: stop also the other tasks that the file does not have.")
    ] = False,
    adopt: Annotated[
        bool, typer.Option("--adopt", help="Take the cluster over, whoever brought it up; what runs goes on.")
    ] = False,
) -> int:
    """Start the cluster of a spec file, or make the running one match it.

    Waits until every task runs or has failed. Hosts that cannot be used do not hold up the others; they are named
    with the reason, grouped. Running it again starts only what is missing, and tasks that the file does not have any
    more are stopped. Ctrl-C leaves what was started; run it again to go on, or `dtfctl down` to stop it.

    With --only the command starts, changes and waits for the selected tasks alone. Others go on as they are, those that
    are new are not started, and those that the file does not have stay (unless --prune), until an `up` without --only
    makes all of them match the file.

    With --adopt it first takes over a cluster of that name that somebody else, or another machine of yours, has brought
    up on the hosts of the file: tasks and jobs go on, and the former owner's commands are refused from then on.
    With `controller: host` that also puts the controller on another host when its own is lost.
    """
    timeout_s = seconds(timeout, "--timeout") if timeout else None
    return _up(
        session, file, _Asked(dry_run, timeout_s, wait, min_ready, recreate, parallel, selector(only), prune, adopt)
    )


@dataclass(frozen=True, slots=True)
class _Asked:
    """The options of `up`."""

    dry_run: bool
    timeout_s: float | None
    wait: bool
    min_ready: int | None
    recreate: bool
    parallel: int | None
    only: str
    prune: bool
    adopt: bool


def _up(session: Session, file: str, asked: _Asked) -> int:
    from dtfctl.cli._bringup import UpHosts
    from dtfctl.cli._progress import UpLines
    from dtfctl.launcher.errors import NoSuchCluster
    from dtfctl.launcher.spec import load_spec

    dry_run = asked.dry_run
    screen = session.screen
    spec = load_spec(file, os.environ, for_up=True)
    if asked.parallel is not None:
        spec = replace(spec, ssh=replace(spec.ssh, parallel=asked.parallel))
    if asked.recreate and not dry_run:
        with contextlib.suppress(NoSuchCluster):
            _, left = session.api.Cluster.down_by_name(spec.cluster)
            if left:
                for problem in left:
                    screen.error(problem)
                return 7
    lines = UpLines(screen, spec.task_names) if spec.is_local else UpHosts(screen, spec.task_names)
    starts: list[str] = []

    def show(event: Event) -> None:
        if event.kind == "task.starting":
            starts.append(event.subject)
        lines.event(event)

    try:
        with lines:
            result = session.api.Cluster.up(
                spec,
                dry_run=dry_run,
                on_event=show,
                on_hosts=lines.hosts,
                timeout_s=asked.timeout_s,
                wait=asked.wait,
                min_ready=asked.min_ready,
                only=asked.only,
                prune=asked.prune,
                adopt=asked.adopt,
            )
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
        is_early = not asked.wait or asked.min_ready is not None
        ready = f"{result.running}/{result.wanted} tasks run" + (f" of {asked.only}" if asked.only else "")
        if result.running < result.wanted and result.exit_code == 0:
            word = "is up with fewer hosts" if result.usable and not is_early else "comes up"
        elif result.exit_code == 0:
            word = "is up" if result.changes or starts else "was up already"
        elif result.no_login:
            word = "is not up, no host let us in"
        else:
            word = "is up in part" if result.exit_code == 5 else "is not up"
        screen.print(f"{spec.cluster} {word}: {ready} ({duration(result.elapsed_s)})")
    for problem in result.problems:
        screen.error(problem)
    if dry_run:
        screen.next(f"dtfctl up {file}")
    elif result.exit_code == 0:
        screen.next("dtfctl submit SCRIPT")
    elif result.no_login or (isinstance(lines, UpHosts) and lines.has_unusable):
        screen.next(f"dtfctl hosts check {file}")
    else:
        screen.next(f"dtfctl why {lines.first_failed}" if lines.first_failed else "dtfctl status")
    return result.exit_code


@command(examples=["dtfctl plan cluster.yaml", "dtfctl plan cluster.yaml --exit-code"], exits=[0, 2, 3, 7, 8, 10])
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
    examples=["dtfctl down", "dtfctl -c lab down --yes --grace 30s", "dtfctl down --force --delete-logs"],
    exits=[0, 2, 4, 5, 7, 8, 9],
)
def down(
    session: Session,
    grace: Annotated[
        str, typer.Option("--grace", metavar="TIME", help="Time to end between SIGTERM and SIGKILL.")
    ] = "10s",
    force: Annotated[bool, typer.Option("--force", help="Give up hosts that cannot be reached.")] = False,
    keep_logs: Annotated[
        bool, typer.Option("--keep-logs/--delete-logs", help="Leave the logs where they are, or delete them, too.")
    ] = True,
) -> int:
    """Stop the cluster: its jobs, tasks, agents and controller.

    Logs and checkpoints stay; processes, ports and all other files go, with --delete-logs the logs, too. While a host
    cannot be reached the cluster stays as it is, so that a later `down` finds it; with `--force` it goes, and what runs
    on such a host ends when its lease does.

    Where jobs have not ended, or several clusters are up and none was named, it asks first; without a terminal it
    refuses with exit code 7 unless --yes is given.
    """
    screen = session.screen
    _make_sure(session)
    started = time.monotonic()
    name, problems = session.api.Cluster.down_by_name(
        session.cluster_name,
        grace_s=seconds(grace, "--grace"),
        force=force,
        keep_logs=keep_logs,
        on_wait=lambda names: screen.note(f"  waits for {plural(len(names), 'host')}: {named(names)}"),
    )
    took = time.monotonic() - started
    if screen.is_data:
        screen.data("ClusterDown", {"cluster": name, "problems": list(problems), "elapsed_s": round(took, 3)})
    else:
        word = "is down" if not problems else "is down, but for what could not be reached" if force else "is not down"
        screen.print(f"{name} {word} ({duration(took)})")
        for problem in problems:
            screen.error(problem)
    return 5 if problems else 0


def _make_sure(session: Session) -> None:
    """Ask where `down` may hit more than is meant: jobs at work, or another cluster than one thinks of."""
    from dtfctl.launcher.errors import LauncherError

    if session.yes:
        return
    up = session.api.clusters()
    chosen = next((item for item in up if session.cluster_name in (None, item.name)), None)
    if chosen is None:
        return
    reasons = []
    if session.cluster_name is None and len(up) > 1:
        others = ", ".join(item.name for item in up if item is not chosen)
        reasons.append(f"{chosen.name} is the newest of {len(up)} clusters (the others: {others})")
    if chosen.alive:
        # What cannot answer is to be taken down all the same.
        with contextlib.suppress(LauncherError):
            jobs = [job for job in session.api.Cluster.open(chosen.name).jobs() if not job.is_final]
            if jobs:
                named = ", ".join(f"{job.id} ({job.state})" for job in jobs[:5]) + (", ..." if len(jobs) > 5 else "")
                reasons.append(f"{plural(len(jobs), 'job')} would be cancelled: {named}")
    if reasons:
        session.require("; ".join(reasons), f"Take {chosen.name} down?", f"dtfctl -c {chosen.name} down --yes")


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
    rows = [
        (item.name, "running" if item.alive else "down", age(item.created, now), item.owner or "-", item.folder)
        for item in found
    ]
    for line in columns(("CLUSTER", "CONTROLLER", "AGE", "OWNER", "FOLDER"), rows, screen.style):
        screen.print(line)
