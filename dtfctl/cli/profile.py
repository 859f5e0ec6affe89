"""The command `profile`: a timeline over all tasks."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from dtfctl.cli import _complete as complete
from dtfctl.cli._command import Session, command
from dtfctl.cli._format import columns, duration, plural, size
from dtfctl.cli._screen import Screen
from dtfctl.cli._select import seconds
from dtfctl.launcher.errors import UsageError

if TYPE_CHECKING:
    from dtfctl.launcher.operator.profiling import Format

ENDINGS: Mapping[Format, str] = {"perfetto": ".perfetto-trace", "chrome": ".json", "xplane": ""}
"""Gives the ending of a file by its format; what TensorBoard reads is a folder."""
LONGEST_S = 600.0
_SHOWN = 0.01
MOST_STEPS = 10_000


@command(
    examples=[
        "dtfctl profile",
        "dtfctl profile train-1 --steps 50",
        "dtfctl profile --to steps.json --format chrome",
        "dtfctl profile --format xplane --to logs",
        "dtfctl profile --max-time 2m -o json",
    ],
    exits=[0, 2, 4, 7, 8],
)
def profile(
    session: Session,
    job: Annotated[
        Optional[str],  # noqa: UP045
        typer.Argument(metavar="[JOB]", help="Only what steps of this job do.", autocompletion=complete.active_job),
    ] = None,
    steps: Annotated[
        int, typer.Option("--steps", metavar="N", min=1, max=MOST_STEPS, help="How many steps of each task.")
    ] = 20,
    longest: Annotated[str, typer.Option("--max-time", metavar="TIME", help="Record no longer than this.")] = "30s",
    to: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option("--to", metavar="FILE", help="Where to write it; by default CLUSTER-TIME with an ending."),
    ] = None,
    format: Annotated[
        str,
        typer.Option(
            "--format", metavar="FORMAT", help="perfetto; chrome: JSON, for more viewers; xplane: TensorBoard's."
        ),
    ] = "perfetto",
) -> int:
    """Record what all tasks do in some steps, as a timeline, and say where the time goes.

    Each step's part in each task, the tensors between tasks, what is waited for, the nodes of some of the steps, input,
    queues, checkpoints, copies between host and device, Python's garbage collections, and the job's own processes, on
    one clock. Open the file at https://ui.perfetto.dev (nothing leaves your machine
    there), that of --format chrome in chrome://tracing too. Steps of jobs with `framework: dtf` are recorded; while
    nothing is, it costs nothing. --format xplane makes a folder that TensorBoard's profile plugin reads
    (tensorboard --logdir FOLDER).
    """
    chosen = next((known for known in ENDINGS if known == format), None)
    if chosen is None:
        raise UsageError(f"`{format}` is no format", f"one of: {', '.join(ENDINGS)}")
    seconds_most = seconds(longest, "--max-time")
    if not 0 < seconds_most <= LONGEST_S:
        raise UsageError(f"--max-time is to be more than 0 and at most {LONGEST_S:.0f}s")
    if to is not None and chosen != "xplane" and (to.is_dir() or not to.absolute().parent.is_dir()):
        raise UsageError(f"--to {to}: " + ("that is a folder" if to.is_dir() else f"there is no folder {to.parent}"))
    if to is not None and chosen == "xplane" and to.exists() and not to.is_dir():
        raise UsageError(f"--to {to}: TensorBoard's files need a folder, and that is a file")
    screen = session.screen
    cluster = session.open()
    file = to or Path(f"{cluster.name}-{time.strftime('%Y%m%d-%H%M%S')}{ENDINGS[chosen]}")
    screen.note(f"recording {plural(steps, 'step')} of each task, for {duration(seconds_most)} at most")
    found = cluster.profile(job or "", file=file, steps=steps, seconds=seconds_most, format=chosen)
    if screen.is_data:
        screen.data("Profile", {"cluster": cluster.name, "file": str(file), **found})
        return 0
    for line in _lines(found, screen):
        screen.print(line)
    screen.print(f"written to {file}")
    return 0


def _lines(found: Mapping[str, Any], screen: Screen) -> Iterator[str]:
    tasks = found["tasks"]
    head = ["TASK", "STEPS", "STEP", "WAITS FOR", "SENT", "RECEIVED", "MOST TIME"]
    rows = [
        [
            task["task"],
            str(task["steps"]),
            _ms(task["step_ms"]) if task["steps"] else "-",
            ", ".join(f"{other} {share:.0%}" for other, share in [*task["waits"].items()][:2]) or "-",
            size(round(task["sent"])) if task["steps"] else "-",
            size(round(task["received"])) if task["steps"] else "-",
            task["problem"] or ", ".join(f"{op} {_ms(ms)}" for op, ms in [*task["ops"].items()][:3]) or "-",
        ]
        for task in tasks
    ]
    yield from columns(head, rows, screen.style, screen.width)
    for pair in found["transfers"]:
        yield (
            f"{pair['from']} to {pair['to']}: {plural(pair['tensors'], 'tensor')}, {size(pair['bytes'])}, "
            f"{_ms(pair['median_ms'])} on the way (longest {_ms(pair['longest_ms'])})"
            + (f", by {pair['link']}" if pair["link"] else "")
        )
    for task in tasks:
        parts = [
            f"{task['between']:.0%} of the time between steps, in the script" if task["is_client"] else "",
            f"{task['input']:.0%} of a step for input" if task["input"] >= _SHOWN else "",
            f"{_ms(task['copied_ms'])} a step between host and device" if task["copied_ms"] else "",
            f"{task['checkpoint_ms'] / 1000:.2f}s for checkpoints" if task["checkpoint_ms"] else "",
            f"{task['collecting']:.0%} in the garbage collector" if task["collecting"] >= _SHOWN else "",
            f"{task['overtaken']:.0%} of updates after others, {task['behind']:.1f} on average"
            if task["updates"]
            else "",
        ]
        if task["steps"] and any(parts):
            yield f"{task['task']}: " + ", ".join(part for part in parts if part)
    errors = [task["clock_error_ms"] for task in tasks if task["steps"]]
    if len(errors) > 1:
        yield f"clocks of tasks agree to {_ms(max(errors))}"
    yield from found["advice"]


def _ms(milliseconds: float) -> str:
    if milliseconds < 1:
        return f"{milliseconds * 1000:.0f}us"
    return f"{milliseconds:.1f}ms" if milliseconds < 1000 else f"{milliseconds / 1000:.1f}s"
