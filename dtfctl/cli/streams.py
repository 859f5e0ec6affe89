"""Commands that print what was or is written, and what it means: `logs`, `events`, `why`."""

from __future__ import annotations

import re
import sys
from typing import Annotated

import typer

from dtfctl.cli import _complete as complete, _data, _tables
from dtfctl.cli._command import Session, command
from dtfctl.cli._output import SourceWriter
from dtfctl.cli._select import since as parse_since
from dtfctl.launcher.errors import UsageError


@command(
    examples=[
        "dtfctl logs worker/1",
        "dtfctl logs digits-1 -f",
        "dtfctl logs ps --tail 50 --since 10m",
        "dtfctl logs worker --stderr --grep 'Error|Warning'",
        "dtfctl logs worker/1 --previous",
        "dtfctl logs worker/1 --job digits-1",
        "dtfctl logs controller",
    ],
    exits=[0, 2, 4, 5, 8],
)
def logs(
    session: Session,
    selector: Annotated[
        str,
        typer.Argument(
            metavar="[SEL|JOB]",
            help="Tasks, a job's id, controller or agent:HOST.",
            autocompletion=complete.tasks_or_job,
        ),
    ] = "all",
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the job ends, or Ctrl-C.")] = False,
    tail: Annotated[
        int | None, typer.Option("--tail", "-n", min=0, metavar="N", help="Only the last N lines of each process.")
    ] = None,
    since: Annotated[
        str | None, typer.Option("--since", metavar="TIME", help="Only newer lines: 10m, or 2026-01-31T12:00.")
    ] = None,
    previous: Annotated[
        bool, typer.Option("--previous", "-p", help="Only what the run before the newest wrote, of each process.")
    ] = False,
    grep: Annotated[
        str | None, typer.Option("--grep", metavar="REGEX", help="Only lines in which this (Python) pattern is found.")
    ] = None,
    stderr: Annotated[bool, typer.Option("--stderr", help="Only what was written to stderr.")] = False,
    job: Annotated[
        str | None,
        typer.Option(
            "--job",
            metavar="ID",
            help="The job's processes beside these tasks, not the tasks.",
            autocompletion=complete.job,
        ),
    ] = None,
) -> int:
    """Print what tasks or a job wrote, both streams, in the order of time.

    Where several processes write, each line begins with its source. The command ends without an error only when
    everything was printed: 5 says that a host did not answer, 8 that the controller was lost. Ctrl-C ends --follow.
    """
    screen = session.screen
    moment = parse_since(since) if since else None
    chosen = _of_job(selector, job) if job else selector
    options = {"streams": ("err",)} if stderr else {}
    lines = session.open().logs(chosen, follow=follow, tail=tail, since=moment, grep=grep, previous=previous, **options)
    one_task = "/" in chosen and "-" not in chosen.partition("/")[2] and "," not in chosen
    one = one_task or selector == "controller" or selector.startswith("agent:")
    writer = SourceWriter(screen, prefix=not one)
    try:
        for line in lines:
            if screen.is_data:
                screen.record("LogLine", _data.document(line))
            else:
                writer.write(line, sys.stdout)
    except KeyboardInterrupt:
        return 0 if follow else 130
    return 0


def _of_job(selector: str, job: str) -> str:
    """`job:ID`, or `job:ID:worker/1` for the process beside one task."""
    if selector == "all":
        return f"job:{job}"
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*/\d+", selector):
        raise UsageError(f"`{selector} --job {job}` names no single process", f"For example `worker/1 --job {job}`.")
    return f"job:{job}:{selector}"


@command(
    examples=["dtfctl events", "dtfctl events -f", "dtfctl events --since 1h -o json"],
    exits=[0, 2, 4, 8],
)
def events(
    session: Session,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until Ctrl-C.")] = False,
    since: Annotated[
        str | None, typer.Option("--since", metavar="TIME", help="Only newer events: 10m, or 2026-01-31T12:00.")
    ] = None,
) -> int:
    """Print what happened to the cluster and why, oldest first. With -o json, one object a line."""
    screen = session.screen
    moment = parse_since(since) if since else None
    try:
        for event in session.open().events(follow=follow, since=moment):
            if screen.is_data:
                screen.record("Event", _data.document(event))
            else:
                screen.print(_tables.event_line(event, screen))
                if follow:
                    sys.stdout.flush()
    except KeyboardInterrupt:
        return 0 if follow else 130
    return 0


@command(
    examples=["dtfctl why worker/1", "dtfctl why digits-1", "dtfctl why worker/1 -o json"],
    exits=[0, 4, 8],
)
def why(
    session: Session,
    name: Annotated[
        str,
        typer.Argument(
            metavar="TASK|JOB", help="A task, such as worker/1, or a job's id.", autocompletion=complete.task_or_job
        ),
    ],
) -> None:
    """Say why a task is pending, failed, restarted or lost, or why a job waits or failed: what led there, in order."""
    screen = session.screen
    found = session.open().why(name)
    if screen.is_data:
        screen.data("Explanation", _data.document(found))
        return
    for line in _tables.why_lines(found, screen):
        screen.print(line)
    if found.advice:
        screen.next(found.advice)
