"""`torchrun`: a command line of torchrun as a job."""

from __future__ import annotations

import shlex
from typing import Annotated

import typer

from dtfctl.cli._command import Session, command
from dtfctl.cli._send import send


@command(
    examples=[
        "dtfctl torchrun --nproc-per-node=4 train.py --lr 0.1",
        "dtfctl torchrun --nnodes=1:4 --nproc-per-node=2 --max-restarts=3 train.py",
    ],
    exits=[0, 1, 2, 3, 4, 7, 8],
    pass_through=True,
    ignore_unknown=True,
)
def torchrun(
    session: Session,
    words: Annotated[
        list[str], typer.Argument(metavar="[OPTIONS] SCRIPT [ARGS]...", help="What stood behind `torchrun`.")
    ],
) -> int:
    """Run what a command line of torchrun means: put `dtfctl` before it.

    The job is one of `dtfctl submit --framework torch`, which is shown. It has nnodes x nproc-per-node workers of the
    cluster (all of them, where that is `gpu` or `auto`); with --nnodes=MIN:MAX it goes on with fewer. Where to meet and
    who is who (--rdzv-*, --master-*, --node-rank) the cluster knows itself. The interpreter is the file's `python:`.
    """
    from dtfctl.launcher.model import JobRequest
    from dtfctl.launcher.operator.torchrun import read

    meant = read(words)
    session.screen.note(f"dtfctl submit {shlex.join(meant.words)}")
    if meant.ignored:
        session.screen.note(f"the cluster knows itself: {', '.join(meant.ignored)}")
    request = JobRequest(
        script=meant.script,
        args=meant.args,
        framework="torch",
        workers=meant.workers,
        min_workers=meant.min_workers,
        retries=meant.retries,
    )
    return send(session, session.open(), request, False, False)
