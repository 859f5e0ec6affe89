"""Show something again and again: on a terminal in place, else one after another."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable

from dtfctl.cli._screen import Screen

REFRESH_S = 1.0


def repeat(screen: Screen, show: Callable[[], list[str] | None], hint: str) -> int:
    """Show again and again until Ctrl-C. `show` gives the lines, or None when it has written (as data) itself.

    Args:
        hint: how to see what does not fit on the screen.
    """
    in_place = sys.stdout.isatty() and not screen.is_data
    try:
        while True:
            lines = show()
            if lines is not None and in_place:
                height = shutil.get_terminal_size().lines - 1
                if len(lines) > height:
                    lines = [*lines[: height - 1], f"... {len(lines) - height + 1} more lines; {hint}"]
                # Home, each line with its rest erased, then all below erased: no flicker as with a full clear.
                sys.stdout.write("\x1b[H" + "".join(f"{line}\x1b[K\n" for line in lines) + "\x1b[J")
            elif lines is not None:
                screen.print("\n".join([*lines, ""]))
            sys.stdout.flush()
            time.sleep(REFRESH_S)
    except KeyboardInterrupt:
        return 0
