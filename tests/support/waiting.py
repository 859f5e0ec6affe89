"""Waiting for what other threads do."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any


def eventually(condition: Callable[[], bool]) -> None:
    """Wait until it is true."""
    deadline = time.monotonic() + 60.0
    while not condition():
        assert time.monotonic() < deadline, "did not become true"
        time.sleep(0.02)


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
