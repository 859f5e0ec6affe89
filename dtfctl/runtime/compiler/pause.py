"""The cycle collector, kept out of work that makes hundreds of thousands of objects, none of them garbage.

After such work the collector would walk all of them, once for each generation. They are put among the old objects
instead, where a full collection finds what has become garbage. Python counts only what its younger generations hand on
when it decides on a full one, so memory is watched here: when twice as much is in use as after the last, it is time.
What a closed session leaves is no cycle, and so programs that make one session after the other do not get there.
"""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_LOCK = threading.Lock()
# So few objects are collected faster than they are dealt with here.
_FEW = 10_000
# How much the blocks of memory in use may grow before a full collection, and what is too few to bother.
_GROWTH = 2
_LEAST_BLOCKS = 200_000
_inside = 0
_was_enabled = False
# In use after the last full collection, and how many of these there had been.
_blocks = 0
_collections = 0


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
    global _blocks, _collections
    # What a program has frozen stays so.
    if gc.get_count()[0] < _FEW or gc.get_freeze_count():
        return
    gc.freeze()
    gc.unfreeze()
    # Counting objects would take as long as walking them; Python knows the blocks.
    blocks, collections = sys.getallocatedblocks(), gc.get_stats()[2]["collections"]
    if collections != _collections or not _blocks:
        _blocks, _collections = max(blocks, _LEAST_BLOCKS), collections
    elif blocks > _blocks * _GROWTH:
        gc.collect()
        _blocks, _collections = max(sys.getallocatedblocks(), _LEAST_BLOCKS), collections + 1
