"""Commands about submitted jobs: `jobs`, `job`, `cancel`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from dtfctl.cli import _complete as complete, _data, _tables
from dtfctl.cli._command import Session, command
from dtfctl.cli._format import plural
from dtfctl.cli._select import seconds
from dtfctl.cli._watch import repeat

if TYPE_CHECKING:
    from dtfctl.launcher.model import JobStatus

ENDED_SHOWN = 20


@command(examples=["dtfctl jobs", "dtfctl jobs --watch", "dtfctl jobs --all -o json"], exits=[0, 4, 8])
def jobs(
    session: Session,
    every: Annotated[bool, typer.Option("--all", "-a", help="Also jobs that ended long ago.")] = False,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Show it again every second until Ctrl-C.")] = False,
) -> int:
    """List the jobs of the cluster, the newest first: those that have not ended, and the newest that have."""
    screen = session.screen
    cluster = session.open()

    def show() -> list[str] | None:
        found = cluster.jobs()
        shown = found if every else _recent(found)
        if screen.is_data:
            content = {"cluster": cluster.name, "jobs": [_data.plain(job) for job in shown]}
            (screen.record if watch else screen.data)("JobList", content)
            return None
        if not found:
            return [f"{cluster.name} has no job yet"]
        lines = _tables.job_table(shown, screen, time.time(), screen.output == "wide")
        left = len(found) - len(shown)
        return [*lines, f"... {left} older; `dtfctl jobs --all` shows them"] if left else lines

    if watch:
        return repeat(screen, show, "`dtfctl jobs` shows all of it")
    for line in show() or ():
        screen.print(line)
    if not screen.is_data and not cluster.jobs():
        screen.next("dtfctl submit SCRIPT")
    return 0


def _recent(found: list[JobStatus]) -> list[JobStatus]:
    ended = [job.id for job in found if job.is_final][:ENDED_SHOWN]
    return [job for job in found if not job.is_final or job.id in ended]


@command(examples=["dtfctl job digits-1", "dtfctl job digits-1 -o json"], exits=[0, 4, 8])
def job(
    session: Session,
    job_id: Annotated[str, typer.Argument(metavar="ID", help="The job's id.", autocompletion=complete.job)],
) -> None:
    """Show one job: its state and why, its processes, their last lines where they failed."""
    from dtfctl.launcher.operator.why import advice_after

    screen = session.screen
    found = session.open().job(job_id)
    if screen.is_data:
        screen.data("Job", _data.document(found))
        return
    for line in _tables.job_lines(found, screen, time.time()):
        screen.print(line)
    logs = f"dtfctl logs {job_id}"
    screen.next(advice_after(found, logs) or (logs if found.is_final else f"{logs} -f"))


@command(
    examples=["dtfctl cancel digits-1", "dtfctl cancel digits-1 digits-2 --grace 30s", "dtfctl cancel --all --now"],
    exits=[0, 2, 4, 8, 9],
)
def cancel(
    session: Session,
    ids: Annotated[
        list[str] | None, typer.Argument(metavar="[ID]...", help="Ids of jobs.", autocompletion=complete.active_job)
    ] = None,
    every: Annotated[bool, typer.Option("--all", "-a", help="All jobs that have not ended, queued ones too.")] = False,
    grace: Annotated[
        str, typer.Option("--grace", metavar="TIME", help="Time to end between SIGTERM and SIGKILL.")
    ] = "10s",
    now: Annotated[bool, typer.Option("--now", help="Kill at once; also a job that is being cancelled.")] = False,
) -> None:
    """Stop jobs and wait until they have ended. A job that has ended already stays as it is."""
    from dtfctl.launcher.errors import UsageError

    screen = session.screen
    if bool(ids) == every:
        raise UsageError("`cancel` needs ids of jobs or --all, not both", "`dtfctl jobs` lists them.")
    grace_s = 0.0 if now else seconds(grace, "--grace")
    found = session.open().cancel(None if every else ids, grace_s=grace_s)
    if screen.is_data:
        screen.data("JobList", {"jobs": [_data.plain(item) for item in found]})
        return
    stopped = sum(item.state == "cancelled" for item in found)
    screen.print(f"{plural(stopped, 'job')} cancelled" if stopped else "nothing to cancel")
    for item in found:
        if item.state != "cancelled":
            screen.print(f"  {item.id} had ended before: {item.state}")
