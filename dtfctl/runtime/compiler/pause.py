"""The cycle collector, kept out of work that makes hundreds of thousands of objects, none of them garbage.

After such work the collector would walk all of them, once for each generation. They are put among the old objects
instead, where a full collection finds what has become garbage. Python counts only what its younger generations hand on
when it decides on a full one, so what is put there is counted here.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_LOCK = threading.Lock()
# So few objects are collected faster than they are dealt with here.
_FEW = 10_000
# A full collection is due when so much of all objects was put among the old ones since the last.
_DUE = 0.5
_inside = 0
_was_enabled = False
_promoted = 0
_collections = 0
# What has been put among the old ones when it is next worth to count them all.
_next_count = 100_000


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
                _promote()
                gc.enable()


def _promote() -> None:
    """Put what was made among the old objects."""
    global _promoted, _collections, _next_count
    made = gc.get_count()[0]
    # What a program has frozen stays so.
    if made < _FEW or gc.get_freeze_count():
        return
    gc.freeze()
    gc.unfreeze()
    collections = gc.get_stats()[2]["collections"]
    if collections != _collections:
        _promoted, _collections, _next_count = 0, collections, 100_000
    _promoted += made
    if _promoted >= _next_count:
        due = len(gc.get_objects()) * _DUE
        if _promoted > due:
            gc.collect()
        else:
            _next_count = int(due)
