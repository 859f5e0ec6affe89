"""The command `graph`: what a step is made of, stage by stage."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from dtfctl.cli import _complete as complete
from dtfctl.cli._command import Session, command
from dtfctl.cli._format import columns
from dtfctl.launcher.errors import UsageError

FORMATS = ("tree", "dot", "svg")
ENDINGS = (".pb", ".pbtxt", ".meta", ".metatxt")
STAGE = "partitioned"


@command(
    examples=[
        "dtfctl graph train-1",
        "dtfctl graph train-1 --stage pruned --scope gradients",
        "dtfctl graph train-1 --format svg --to graph.svg",
        "dtfctl graph model.pb --fetch loss --tasks ps=2,worker=2",
    ],
    exits=[0, 2, 4, 7, 8],
)
def graph(
    session: Session,
    what: Annotated[
        Optional[str],  # noqa: UP045
        typer.Argument(
            metavar="[JOB|FILE]",
            help="A job that runs, or a graph's file (.pb, .pbtxt, .meta).",
            autocompletion=complete.active_job,
        ),
    ] = None,
    stage: Annotated[
        str, typer.Option("--stage", metavar="NAME", help="Which stage is drawn; all: each of them.")
    ] = STAGE,
    fetch: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option("--fetch", metavar="TENSOR", help="What the step fetches; may be given more than once."),
    ] = None,
    run: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option("--run", metavar="OP", help="What the step runs without fetching it."),
    ] = None,
    feed: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option("--feed", metavar="TENSOR", help="What the step is fed."),
    ] = None,
    tasks: Annotated[
        str, typer.Option("--tasks", metavar="ROLE=N,...", help="For a file: the tasks; by default those it names.")
    ] = "",
    depth: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option("--depth", metavar="N", min=1, help="Name scopes below this are one; by default what fits."),
    ] = None,
    scope: Annotated[str, typer.Option("--scope", metavar="NAME", help="Only what is below this name scope.")] = "",
    to: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option("--to", metavar="FILE", help="Write the picture there instead of printing it."),
    ] = None,
    format: Annotated[
        str, typer.Option("--format", metavar="FORMAT", help="tree; dot for Graphviz; svg where Graphviz is installed.")
    ] = "tree",
) -> int:
    """Show what a step is made of: the graph as given, after each pass, and as partitioned.

    First what each stage did: pruning drops what the step does not need, placement gives every node a device, passes
    compute constants and merge what is equal, and partitioning makes a Send and a Receive of each edge between tasks.
    Then the chosen stage, by task and name scope. Without --fetch and --run it is the job's step that needs most of the
    graph, so the one that trains; of a file all that it does.
    """
    from dtfctl.launcher.operator.graphs import GraphView, of_file

    if format not in FORMATS:
        raise UsageError(f"`{format}` is no format", f"one of: {', '.join(FORMATS)}")
    if format != "tree" and stage == "all":
        raise UsageError("a picture is of one stage", "name it with --stage; --format tree shows all of them")
    if format == "svg" and shutil.which("dot") is None:
        raise UsageError(
            "Graphviz, which draws SVG, is not installed here",
            "install it (apt install graphviz, brew install graphviz), or take --format dot elsewhere",
        )
    if to is not None and (to.is_dir() or not to.absolute().parent.is_dir()):
        raise UsageError(f"--to {to}: " + ("that is a folder" if to.is_dir() else f"there is no folder {to.parent}"))
    view = GraphView(
        stage,
        "tree" if format == "tree" else "dot",
        tuple(feed or ()),
        tuple(fetch or ()),
        tuple(run or ()),
        depth,
        scope.strip("/"),
        _counts(tasks),
    )
    if what is not None and what.endswith(ENDINGS):
        if not Path(what).is_file():
            raise UsageError(f"there is no file {what}")
        found = of_file(Path(what), view)
    else:
        if tasks:
            raise UsageError("--tasks is for a file: a job has its own")
        found = session.open().graph(what or "", view)
    _show(session, found, format, to)
    return 0


def _show(session: Session, found: dict[str, Any], format: str, to: Path | None) -> None:
    screen = session.screen
    if format == "tree":
        if screen.is_data:
            screen.data("Graph", found)
            return
        lines = [f"{found['graph']}, step: {found['step']}", ""]
        lines += columns(["STAGE", "NODES", "WHAT IT DID"], found["overview"])
        for name, drawn in found["trees"].items():
            lines += ["", f"{name}:", *drawn]
        text = "\n".join(lines) + "\n"
    else:
        (text,) = found["dots"].values()
        if format == "svg":
            text = subprocess.run(["dot", "-Tsvg"], input=text, capture_output=True, text=True, check=True).stdout
    if to is None:
        sys.stdout.write(text)
        return
    try:
        to.write_text(text)
    except OSError as error:
        raise UsageError(f"--to {to}: {error.strerror}") from None
    screen.note(f"written to {to}")


def _counts(text: str) -> dict[str, int]:
    counts = {}
    for part in filter(None, text.split(",")):
        role, _, count = part.partition("=")
        if not role or not count.isdigit() or not 0 < int(count) <= 10_000:
            raise UsageError(f"--tasks {part}: it is to be ROLE=NUMBER", "such as: --tasks ps=1,worker=2")
        counts[role] = int(count)
    return counts
