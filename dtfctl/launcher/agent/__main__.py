"""python -m dtfctl.launcher.agent: the agent of one host, until its controller shuts it down; see `program.py`."""

from __future__ import annotations

import gc
import sys


def start() -> int:
    # What importing makes stays: looking for garbage in it would take a tenth of the CPU time of a start.
    gc.disable()
    from dtfctl.launcher.agent.program import main

    gc.freeze()
    gc.enable()
    return main()


if __name__ == "__main__":
    sys.exit(start())
