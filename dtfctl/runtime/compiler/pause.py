"""The cycle collector, kept out of work that makes hundreds of thousands of objects, none of them garbage."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_LOCK = threading.Lock()
_inside = 0
_was_enabled = False


@contextmanager
def collector_paused() -> Iterator[None]:
    """Run the block without automatic collections; they come back when the last such block has ended."""
    global _inside, _was_enabled
    with _LOCK:
        if not _inside:
            _was_enabled = gc.isenabled()
            gc.disable()
        _inside += 1
    try:
        yield
    finally:
        with _LOCK:
            _inside -= 1
            if not _inside and _was_enabled:
                gc.enable()
