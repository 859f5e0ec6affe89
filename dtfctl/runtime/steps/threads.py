"""Results from the executor's pool of threads, for whatever may block."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from dtfctl.runtime.executor.workers import WORKERS

T = TypeVar("T")


def submit(function: Callable[..., T], *args: object) -> Future[T]:
    """Run `function(*args)` in a thread of its own at once."""
    future: Future[T] = Future()

    def work() -> None:
        try:
            future.set_result(function(*args))
        except BaseException as e:
            future.set_exception(e)

    WORKERS.submit(work)
    return future
