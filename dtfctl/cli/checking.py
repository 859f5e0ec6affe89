"""`check`: what of TensorFlow a script uses that is not here."""

from __future__ import annotations

import subprocess
import sys
from typing import Annotated

import typer

from dtfctl.cli._command import Session, command
from dtfctl.launcher.errors import UsageError


@command(examples=["dtfctl check train.py", "dtfctl check train.py models/*.py"], exits=[0, 1, 2])
def check(
    session: Session,
    scripts: Annotated[list[str], typer.Argument(metavar="SCRIPT...", help="Python files that import tensorflow.")],
) -> int:
    """List what a TensorFlow script uses that is not here, by line, without running it.

    Each line says what to use instead; docs/coming-from-tensorflow-1.md lists all that is missing. The exit code is 1
    where something is. `dtfctl submit --as-tensorflow` and `python -m dtfctl.run` run such a script as it is.
    """
    # The names are the runtime's, which the launcher does not import.
    done = subprocess.run(
        [sys.executable, "-m", "dtfctl.run", "--check", *scripts], capture_output=True, text=True, check=False
    )
    if done.returncode not in (0, 1):
        lines = done.stderr.strip().splitlines() or [f"the check ended with {done.returncode}"]
        raise UsageError(lines[-1], "Give Python files that exist.")
    lines = done.stdout.splitlines()
    if session.screen.is_data:
        session.screen.data("Check", {"missing": lines})
        return done.returncode
    for line in lines:
        session.screen.print(line)
    if not lines:
        session.screen.print("Every name of TensorFlow that is used is there.")
    return done.returncode
