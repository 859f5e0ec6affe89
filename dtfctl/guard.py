"""No thread dies unseen: what one raises is logged and counted, and a loop goes on.

Every thread of this package is made here. `forever` is for loops: they are called again after what they raised, as long
as it takes, after a pause that grows while it goes on. `once` is for work that somebody waits for, or that is over when
it is done. `repeat` is for what is done by a clock, `watched` for tasks of an event loop. What a loop must keep when it
is called again it keeps outside of its local variables.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

log = logging.getLogger(__name__)

FIRST_PAUSE_S = 0.05
LONGEST_PAUSE_S = 5.0
CALM_S = 60.0
"""A loop that has run for so long begins again with the first pause."""

_lock = threading.Lock()
_faults = 0


def faults() -> int:
    """Count what loops and threads of this process have raised."""
    return _faults


def count() -> None:
    """Count what another process has raised, which has no metrics of its own."""
    global _faults
    with _lock:
        _faults += 1


def note(what: str) -> None:
    """Log and count the exception that is being handled."""
    count()
    log.exception("%s failed, and goes on", what)


def run(
    function: Callable[..., object],
    args: Sequence[Any] = (),
    *,
    name: str,
    unless: type[Exception] | tuple[type[Exception], ...] = (),
) -> None:
    """Call a loop in this thread until it returns, or raises what is to end it (`unless`)."""
    pause = FIRST_PAUSE_S
    while True:
        began = time.monotonic()
        try:
            function(*args)
            return
        except unless:
            raise
        except Exception:
            note(name)
        if time.monotonic() - began > CALM_S:
            pause = FIRST_PAUSE_S
        time.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE_S)


def call(function: Callable[[], object], name: str) -> None:
    """Call a function; what it raises ends here."""
    try:
        function()
    except Exception:
        note(name)


def repeat(
    after: Callable[[float, Callable[[], None]], object], seconds: float, function: Callable[[], bool], *, name: str
) -> None:
    """Have a clock (`after`) call a function again and again until it returns False, whatever it raises meanwhile."""

    def turn() -> None:
        goes_on = True
        try:
            goes_on = function()
        except Exception:
            note(name)
        if goes_on:
            after(seconds, turn)

    after(seconds, turn)


def watched(task: Any, *, name: str) -> Any:
    """Have it seen what a task of an event loop raises that nobody awaits; the task."""

    def ended(task: Any) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            count()
            log.error("%s failed", name, exc_info=error)

    task.add_done_callback(ended)
    return task


def forever(function: Callable[..., object], args: Sequence[Any] = (), *, name: str) -> threading.Thread:
    """Make a thread, not started yet, that runs a loop until it returns."""
    return threading.Thread(target=run, args=(function, args), kwargs={"name": name}, name=name, daemon=True)


def once(
    function: Callable[..., object], args: Sequence[Any] = (), *, name: str, daemon: bool = True
) -> threading.Thread:
    """Make a thread, not started yet, that calls a function."""
    return threading.Thread(target=call, args=(lambda: function(*args), name), name=name, daemon=daemon)
