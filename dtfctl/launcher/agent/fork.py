"""How a fork of another program of dtfctl's becomes an agent: without a Python that starts and imports anew."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import NoReturn


def become_agent(command: Sequence[str]) -> NoReturn:
    """Go on as `python -m dtfctl.launcher.agent ...`."""
    show_as(command)
    sys.argv = list(command[2:])
    from dtfctl.launcher.agent.__main__ import start

    code = 1
    try:
        code = start()
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stderr.flush()
        os._exit(code)  # nothing of what it is a fork of is to end as if it had ended here


def show_as(command: Sequence[str]) -> None:
    """Show this process as `command` in `ps`, as far as its own command line has room for it.

    Who looks for an agent looks there.
    """
    with open("/proc/self/stat", "rb") as stat:
        fields = stat.read().rpartition(b")")[2].split()
    begin, end = int(fields[45]), int(fields[46])
    text = b"\0".join(os.fsencode(word) for word in command)[: end - begin - 1]
    try:
        with open("/proc/self/mem", "r+b", buffering=0) as memory:
            memory.seek(begin)
            memory.write(text.ljust(end - begin, b"\0"))
    except OSError:
        return  # some systems forbid it: then it is seen as what started it
