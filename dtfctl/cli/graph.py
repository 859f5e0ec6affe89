"""The command `graph`: what a step is made of, stage by stage."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from dtfctl.cli import _complete as complete
from dtfctl.cli._command import Session, command
from dtfctl.cli._format import columns
from dtfctl.launcher.errors import UsageError

JOB = re.compile(r"[\w-]+")
"""What a job may be called; a folder may be called the same."""
FORMATS = ("tree", "dot", "svg")
STAGE = "partitioned"
LEGEND = " (a line: NAME  OP  TYPE[SHAPE] or a constant's value  <- INPUTS, ^ is only waited for)"
ALWAYS_TOLD = ("given", "placed", "pruned", "partitioned")


@command(
    examples=[
        "dtfctl graph train-1",
        "dtfctl graph train-1 --stage pruned --scope gradients",
        "dtfctl graph train-1 --format svg --to graph.svg",
        "dtfctl graph train-1 --stage all --format dot --to stages",
        "dtfctl graph model.pb --fetch loss --tasks ps=2,worker=2",
        "dtfctl graph export/1",
    ],
    exits=[0, 2, 4, 7, 8],
)
def graph(
    session: Session,
    what: Annotated[
        Optional[str],  # noqa: UP045
        typer.Argument(
            metavar="[JOB|FILE]",
            help="A job, or a graph's file or SavedModel's folder.",
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
        typer.Option("--to", metavar="FILE", help="Write the picture there; with --stage all a folder."),
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

    A job that has ended is shown by the graph that it has saved. A file holds a GraphDef, a MetaGraphDef (.meta) or a
    SavedModel, in binary, as text or as JSON, whatever its name.
    """
    from dtfctl.launcher.operator.graphs import GraphView, of_file

    if format not in FORMATS:
        raise UsageError(f"`{format}` is no format", f"one of: {', '.join(FORMATS)}")
    pictures = format != "tree" and stage == "all"
    if pictures and (to is None or (to.exists() and not to.is_dir())):
        raise UsageError("a picture is of one stage", "name it with --stage, or a folder for one of each with --to")
    if format == "svg" and shutil.which("dot") is None:
        raise UsageError(
            "Graphviz, which draws SVG, is not installed here",
            "install it (apt install graphviz, brew install graphviz), or take --format dot elsewhere",
        )
    if to is not None and ((to.is_dir() and not pictures) or not to.absolute().parent.is_dir()):
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
    path = _file(what)
    if path is not None:
        found = of_file(path, view)
    else:
        if tasks:
            raise UsageError("--tasks is for a file: a job has its own")
        found = session.open().graph(what or "", view)
    _show(session, found, format, to)
    return 0


def _file(what: str | None) -> Path | None:
    """Tell whether a file is meant: something that is there, or whose name no job has."""
    if what is None:
        return None
    path = Path(what).expanduser()
    if path.is_file() or any((path / name).is_file() for name in ("saved_model.pb", "saved_model.pbtxt")):
        return path
    if JOB.fullmatch(what) is None:
        raise UsageError(
            f"{what} is a folder without a saved_model.pb" if path.is_dir() else f"there is no file {what}",
            "a file with a graph, the folder of a SavedModel, or a job is wanted: dtfctl jobs",
        )
    return None


def _show(session: Session, found: dict[str, Any], format: str, to: Path | None) -> None:
    screen = session.screen
    if format == "tree":
        if screen.is_data:
            screen.data("Graph", found)
            return
        lines = [f"{found['graph']}, step: {found['step']}"]
        if found["note"]:
            lines.append(found["note"])
        lines += ["", *_overview(found["overview"])]
        for name, drawn in found["trees"].items():
            lines += ["", f"stage {name}{LEGEND}", *drawn]
        text = "\n".join(lines) + "\n"
    elif len(found["dots"]) == 1:
        (text,) = (_drawn(dot, format) for dot in found["dots"].values())
    else:
        assert to is not None
        to.mkdir(exist_ok=True)
        for number, (name, dot) in enumerate(found["dots"].items()):
            _write(to / f"{number:02}-{name.replace(' ', '-')}.{format}", _drawn(dot, format))
        screen.note(f"{len(found['dots'])} pictures written to {to}")
        return
    if to is None:
        sys.stdout.write(text)
        return
    _write(to, text)
    screen.note(f"written to {to}")


def _drawn(dot: str, format: str) -> str:
    if format == "dot":
        return dot
    return subprocess.run(["dot", "-Tsvg"], input=dot, capture_output=True, text=True, check=True).stdout


def _write(to: Path, text: str) -> None:
    try:
        to.write_text(text)
    except OSError as error:
        raise UsageError(f"--to {to}: {error.strerror}") from None


def _overview(stages: Sequence[Sequence[str]]) -> list[str]:
    """Tell what each stage is for and what it did; passes that had nothing to do in one line."""
    rows, idle = [], []
    for name, nodes, why, did in stages:
        if not did and name not in ALWAYS_TOLD:
            idle.append(name)
            continue
        rows.append((name, nodes, why))
        if did:
            rows.append(("", "", f"  {did}"))
    lines = columns(["STAGE", "NODES", "WHAT IT IS, AND DID"], rows)
    return [*lines, f"passes that had nothing to do: {', '.join(idle)}"] if idle else lines


def _counts(text: str) -> dict[str, int]:
    counts = {}
    for part in filter(None, text.split(",")):
        role, _, count = part.partition("=")
        if not role or not count.isdigit() or not 0 < int(count) <= 10_000:
            raise UsageError(f"--tasks {part}: it is to be ROLE=NUMBER", "such as: --tasks ps=1,worker=2")
        counts[role] = int(count)
    return counts
