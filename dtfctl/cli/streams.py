"""Commands that print what was or is written: `logs`, `events`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from dtfctl.cli import _data, _tables
from dtfctl.cli._command import Session, command
from dtfctl.cli._output import SourceWriter
from dtfctl.cli._select import since as parse_since


@command(
    examples=[
        "dtfctl logs worker/1",
        "dtfctl logs digits-1 -f",
        "dtfctl logs ps --tail 50 --since 10m",
        "dtfctl logs controller",
    ],
    exits=[0, 2, 4, 8],
)
def logs(
    session: Session,
    selector: Annotated[
        str, typer.Argument(metavar="[TASK|JOB]", help="A task, a job name, a job's id, controller or agent:HOST.")
    ] = "all",
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the job ends, or Ctrl-C.")] = False,
    tail: Annotated[
        int | None, typer.Option("--tail", "-n", min=0, metavar="N", help="Only the last N lines of each.")
    ] = None,
    since: Annotated[
        str | None, typer.Option("--since", metavar="TIME", help="Only newer lines: 10m, or 2026-01-31T12:00.")
    ] = None,
) -> int:
    """Print what tasks or a job wrote, both streams, in the order of time.

    Where several processes write, each line begins with its source.
    """
    screen = session.screen
    moment = parse_since(since) if since else None
    lines = session.open().logs(selector, follow=follow, tail=tail, since=moment)
    one_task = "/" in selector and "-" not in selector.partition("/")[2] and "," not in selector
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
