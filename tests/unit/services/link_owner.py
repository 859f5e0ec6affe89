"""Who a link tells what comes, for tests."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from dtfctl.runtime.framework.errors import OpError
from dtfctl.runtime.rendezvous.frames import Frame
from dtfctl.runtime.rendezvous.transports.base import Link

BOUND_S = 60.0


class Owner:
    """Keeps what a link says."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self.errors: list[OpError] = []
        self.news = threading.Condition()

    def opened(self, link: Link) -> None:
        raise AssertionError("not asked for here")

    def received(self, link: Link, frame: Frame) -> None:
        with self.news:
            self.frames.append(frame)
            self.news.notify_all()

    def ended(self, link: Link, error: OpError) -> None:
        with self.news:
            self.errors.append(error)
            self.news.notify_all()

    def wait(self, condition: Callable[[], Any]) -> None:
        with self.news:
            assert self.news.wait_for(condition, BOUND_S), "did not become true"

    def take(self, count: int) -> list[Frame]:
        self.wait(lambda: len(self.frames) >= count)
        with self.news:
            taken, self.frames = self.frames[:count], self.frames[count:]
        return taken
