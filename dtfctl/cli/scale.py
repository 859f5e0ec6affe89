"""`scale`: other numbers of tasks in a running cluster."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from dtfctl.cli._command import Session, command
from dtfctl.cli._format import plural
from dtfctl.cli._select import seconds
from dtfctl.launcher.errors import UsageError


@command(
    examples=["dtfctl scale worker=8", "dtfctl scale worker=8 evaluator=1", "dtfctl scale worker=2 --timeout 5m"],
    exits=[0, 2, 4, 7, 8, 9],
)
def scale(
    session: Session,
    counts: Annotated[list[str], typer.Argument(metavar="ROLE=N...", help="Job name and how many tasks of it.")],
    timeout: Annotated[str, typer.Option("--timeout", metavar="TIME", help="How long to wait.")] = "60s",
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until they run, or come back at once.")] = True,
) -> int:
    """Change how many tasks of a job name there are.

    Only what differs changes: new tasks start, those with the highest numbers stop, the others do not notice. The next
    `dtfctl up FILE` goes back to the numbers in the file.
    """
    wanted = {}
    for text in counts:
        match = re.fullmatch(r"([a-z]+)=(\d{1,6})", text)
        if match is None:
            raise UsageError(f"`{text}` is not ROLE=N", "For example: dtfctl scale worker=8")
        wanted[match[1]] = int(match[2])
    screen = session.screen
    wait_s = seconds(timeout, "--timeout")
    cluster = session.open()
    changes = cluster.scale(wanted, wait_s=wait_s if wait else 0.0)
    if screen.is_data:
        screen.data("Scaled", {"changes": list(changes)})
        return 0
    screen.print(f"{cluster.name}: {plural(len(changes), 'change')}" if changes else f"{cluster.name}: as it was")
    for change in changes:
        screen.print(f"  {change}")
    return 0
