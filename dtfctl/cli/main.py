"""The entry point of `dtfctl`.

Nothing is imported before Ctrl-C is taken care of, so that no moment of the program's start shows a traceback.
"""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line of this process and exit with its code."""
    try:
        from dtfctl.cli.app import run

        code = run(sys.argv[1:])
    except KeyboardInterrupt:
        sys.stderr.write("\ninterrupted\n")
        code = 130
    sys.exit(code)
