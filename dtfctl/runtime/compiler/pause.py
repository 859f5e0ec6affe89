"""The cycle collector, kept out of work that makes hundreds of thousands of objects, none of them garbage.

After such work the collector would walk all of them, once for each generation. They are put among the old objects
instead, where a full collection finds what has become garbage. Python counts only what its younger generations hand on
when it decides on a full one, so what is put there is watched here: when there are twice as many objects as there were,
it is time. Most are gone with their session, and then there never are.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_LOCK = threading.Lock()
# So few objects are collected faster than they are dealt with here.
_FEW = 10_000
# How much the objects may grow before a full collection.
_GROWTH = 2
_inside = 0
_was_enabled = False
# Put among the old ones since objects were last counted, and how many were there then; counting takes a while too.
_promoted = 0
_counted = 0
_collections = 0
_LEAST_COUNTED = 200_000


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
    global _promoted, _counted, _collections
    made = gc.get_count()[0]
    # What a program has frozen stays so.
    if made < _FEW or gc.get_freeze_count():
        return
    gc.freeze()
    gc.unfreeze()
    _promoted += made
    if _promoted < max(_counted, _LEAST_COUNTED) // 2:
        return
    _promoted = 0
    objects = len(gc.get_objects())
    collections = gc.get_stats()[2]["collections"]
    if collections != _collections or not _counted:
        _counted, _collections = objects, collections
    elif objects > _counted * _GROWTH:
        gc.collect()
        _counted, _collections = len(gc.get_objects()), collections + 1
