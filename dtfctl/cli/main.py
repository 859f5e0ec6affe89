"""The entry point of `dtfctl`.

Nothing is imported before Ctrl-C is taken care of, so that no moment of the program's start shows a traceback.
"""

from __future__ import annotations

import os
import sys

INTERRUPTED = 130


def main() -> None:
    """Run the command line of this process and exit with its code."""
    try:
        from dtfctl.cli.app import run

        code = run(sys.argv[1:])
    except KeyboardInterrupt:
        sys.stderr.write("\ninterrupted\n")
        code = INTERRUPTED
    if code == INTERRUPTED:
        # A Python that was interrupted while it ran text (a dataclass is made so) kills itself at its end, with another
        # code than the documented one, although the interrupt was caught.
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except OSError:
                continue  # its reader has gone
        os._exit(code)
    sys.exit(code)
