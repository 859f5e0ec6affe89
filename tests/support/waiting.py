"""Waiting for what other threads and processes do."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

PATIENCE_S = 90.0
"""Only a failure takes so long; a loaded machine may be many times slower than an idle one."""
SHORTEST_S = 0.005
LONGEST_S = 0.25
LONGEST_OF_DEAR_S = 0.5


def wait_until(condition: Callable[[], Any], what: str, timeout_s: float = PATIENCE_S) -> Any:
    """The first true value of `condition`; asked more rarely the longer it takes, and the dearer asking is.

    Asking every 20 ms cost more than all that was waited for. Now the wait is a tenth too long at the most, and asking
    takes a third of it.
    """
    begun = time.monotonic()
    while True:
        asked = time.monotonic()
        value = condition()
        if value:
            return value
        now = time.monotonic()
        if now - begun > timeout_s:
            raise AssertionError(f"not within {timeout_s:.0f} s: {what}")
        of_elapsed, of_price = min(0.1 * (now - begun), LONGEST_S), min(2.0 * (now - asked), LONGEST_OF_DEAR_S)
        time.sleep(max(of_elapsed, of_price, SHORTEST_S))


def eventually(condition: Callable[[], bool]) -> None:
    """Wait until it is true."""
    wait_until(condition, "it became true", 60.0)


def in_thread(function: Callable[[], Any]) -> Callable[[], BaseException | None]:
    """Start `function`; the returned function waits for its end and gives what it raised."""
    raised: list[BaseException] = []

    def work() -> None:
        try:
            function()
        except BaseException as e:
            raised.append(e)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()

    def join() -> BaseException | None:
        thread.join(60.0)
        assert not thread.is_alive(), "still waiting"
        return raised[0] if raised else None

    return join
