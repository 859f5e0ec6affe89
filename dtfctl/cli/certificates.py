"""`certificates`: which there are, when they end, and new ones."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from dtfctl.cli import _data
from dtfctl.cli._command import Session, command
from dtfctl.cli._format import columns, duration
from dtfctl.launcher.errors import UsageError


@command(
    examples=["dtfctl certificates", "dtfctl certificates renew", "dtfctl certificates -o json"],
    exits=[0, 2, 4, 5, 8],
)
def certificates(
    session: Session,
    verb: Annotated[str, typer.Argument(metavar="[renew]", help="Nothing: list them. `renew`: make new ones.")] = "",
) -> int:
    """List the certificates with which the processes of a cluster know each other, or renew all of them.

    They are renewed by themselves when a third of their lifetime is left (`security: {lifetime: 825d}`). `renew` makes
    new keys and certificates at once; no process is started again for it, and no step fails. Exit code 5: some host
    could not be told; it gets its own when it answers again. The authority keeps its key until `down`.
    """
    if verb not in ("", "renew"):
        raise UsageError(
            f"`certificates {verb}` is not a command", "There are `certificates` and `certificates renew`."
        )
    screen = session.screen
    cluster = session.open()
    found = cluster.certificates(renew=verb == "renew")
    problems = sorted({(item.host, item.problem) for item in found if item.problem})
    if screen.is_data:
        screen.data("CertificateList", {"cluster": cluster.name, "certificates": [_data.plain(item) for item in found]})
    else:
        now = time.time()
        rows = [
            (
                item.name or "-",
                item.host or "-",
                time.strftime("%Y-%m-%d %H:%M", time.localtime(item.until)) if item.until else "-",
                duration(item.until - now) if item.until else "-",
            )
            for item in found
        ]
        for line in columns(("CERTIFICATE", "HOST", "VALID UNTIL", "LEFT"), rows, screen.style):
            screen.print(line)
        for host, problem in problems:
            screen.note(f"{host}: {problem}")
    return 5 if problems and verb else 0
