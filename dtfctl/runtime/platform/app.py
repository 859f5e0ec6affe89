"""`tf.app.run`: parse the flags, call main, exit with what it returns."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from dtfctl.runtime.platform import flags
from dtfctl.runtime.platform.flags import FLAGS

__all__ = ["flags", "run"]


def run(main: Callable[..., Any] | None = None, argv: Sequence[str] | None = None) -> None:
    """Call `main(argv)` with the arguments that are no flags; `main` of the calling script when None.

    Flags that the program has declared with `absl.flags` are parsed, too.
    """
    absl = sys.modules.get("absl.flags")
    rest = FLAGS(list(argv or sys.argv), known_only=absl is not None)
    if absl is not None:
        try:
            rest = absl.FLAGS(rest)
        except absl.Error as e:
            sys.exit(f"FATAL Flags parsing error: {e}")
    function = main or sys.modules["__main__"].main
    sys.exit(function(rest))
