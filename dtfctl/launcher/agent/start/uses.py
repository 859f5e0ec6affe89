"""Note which Pythons are in use here, for the other hosts that share this home.

What seems unused for two weeks is removed by whichever host looks next (`providers/host_layers.py`, `environments.py`),
and of what runs it sees its own processes alone.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from dtfctl.later import LAYERS_FILE
from dtfctl.launcher.system.procfs import runs_from

USED_S = 3600.0
"""The seconds between two notes."""


def note_uses(runtime: Path, environments: Path) -> None:
    """Renew when the agent's own runtime was used last, and the environments that a process of this host is of."""
    marks = [runtime] if (runtime / LAYERS_FILE).is_file() else []
    marks += [ready for ready in environments.glob("*/ready") if runs_from(ready.parent)]
    for mark in marks:
        with contextlib.suppress(OSError):  # somebody has just removed it
            os.utime(mark)
