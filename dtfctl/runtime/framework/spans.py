"""Note what takes time besides computing: input, queues, checkpoints, collectives, copies between host and device.

Each kind is always counted, for a task's figures. Who records a timeline sets `watch`, and is told of each.
"""

from __future__ import annotations

import enum
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

clock = time.monotonic_ns


class Span(enum.StrEnum):
    """What a thread did, or waited for."""

    INPUT = "input"
    """The next element of a dataset."""
    READ = "read"
    """What a reader reads, and what a step gets that fills a queue: nobody waits for it."""
    QUEUE = "queue"
    """Something in a queue of the program."""
    ENQUEUE = "enqueue"
    """Room in a queue: who waits for it feeds others, and has time."""
    STAGE = "stage"
    """Room in a staging area, which a step that trains fills for the next one."""
    CHECKPOINT = "checkpoint"
    COLLECTIVE = "collective"
    """Computing something together with other tasks."""
    COPY = "copy"
    """Between the memory of the host and that of a device."""


Watch = Callable[[Span, str, int, int, int, int], object]
"""Told of a kind, a name, when it began and ended (ns of `clock`), the step's number or 0, and bytes or 0."""

_watch: Watch | None = None
_lock = threading.Lock()
_spent: dict[Span, int] = dict.fromkeys(Span, 0)


def watch(watcher: Watch | None) -> None:
    """Tell `watcher` of each span from now on; None: nobody."""
    global _watch
    _watch = watcher


def note(kind: Span, name: str, began: int, step: int = 0, size: int = 0) -> None:
    """Note a span that began at `began` (ns of `clock`) and has ended just now."""
    ended = clock()
    with _lock:
        _spent[kind] += ended - began
    watcher = _watch
    if watcher is not None:
        watcher(kind, name, began, ended, step, size)


@contextmanager
def span(kind: Span, name: str) -> Iterator[None]:
    """Note how long a block takes."""
    began = clock()
    try:
        yield
    finally:
        note(kind, name, began)


def spent_s(kind: Span) -> float:
    """Tell how many seconds this process has spent with it so far, those of all threads together."""
    return _spent[kind] / 1e9
