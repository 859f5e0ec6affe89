"""`version`."""

from __future__ import annotations

import platform

from dtfctl._version import VERSION
from dtfctl.cli._command import Session, command


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
