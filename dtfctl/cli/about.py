"""Commands about dtfctl itself: `version`, `completion`."""

from __future__ import annotations

import platform
from typing import Annotated

import typer

from dtfctl._version import VERSION
from dtfctl.cli._command import Session, command
from dtfctl.launcher.errors import UsageError


@command(examples=["dtfctl version", "dtfctl version -o json"], exits=[0])
def version(session: Session) -> None:
    """Print the version of dtfctl and of the Python that runs it."""
    screen = session.screen
    if screen.is_data:
        content = {
            "dtfctl": VERSION,
            "python": platform.python_version(),
            "system": platform.system(),
            "machine": platform.machine(),
        }
        screen.data("Version", content)
    else:
        screen.print(f"dtfctl {VERSION} (Python {platform.python_version()}, {platform.system()} {platform.machine()})")


SHELLS = ("bash", "zsh", "fish", "powershell", "pwsh")


@command(
    examples=[
        "dtfctl completion bash > ~/.local/share/bash-completion/completions/dtfctl",
        'eval "$(dtfctl completion zsh)"',
    ],
    exits=[0, 2],
)
def completion(
    session: Session,
    shell: Annotated[str, typer.Argument(metavar="SHELL", help="bash, zsh, fish, powershell or pwsh.")],
) -> None:
    """Print the script with which a shell completes commands and options of dtfctl."""
    if shell not in SHELLS:
        raise UsageError(f"there is no completion for `{shell}`", f"Shells are {', '.join(SHELLS)}.")
    from typer._completion_shared import get_completion_script

    script = get_completion_script(prog_name="dtfctl", complete_var="_DTFCTL_COMPLETE", shell=shell)
    if session.screen.is_data:
        session.screen.data("Completion", {"shell": shell, "script": script})
    else:
        session.screen.print(script)
