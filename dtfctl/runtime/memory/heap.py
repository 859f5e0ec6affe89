"""How much freed memory the C library's allocator keeps for the next step.

Steps free what they have made, loops and their gradients most of it at once, and the allocator gives the end of its
heap back to the system when little more than the largest array ever freed is free there. The next step then finds new
pages, of which each costs as much as computing a few thousand numbers.
"""

from __future__ import annotations

import ctypes
import os
from functools import cache

# glibc's numbers for mallopt.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
# What may be free at the end of the heap, and from which size on an array has memory of its own, which goes back to
# the system when it is freed: the most that glibc comes to by itself as programs free larger ones.
_KEPT, _OWN = 128 << 20, 32 << 20
# Where users say it themselves.
_VARIABLES = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_")
_TUNABLES = ("glibc.malloc.trim_threshold", "glibc.malloc.mmap_threshold")


@cache
def keep_freed() -> None:
    """Let the allocator keep what a step frees, unless the environment says what it keeps; glibc's only."""
    said = os.environ.get("GLIBC_TUNABLES", "")
    if any(name in os.environ for name in _VARIABLES) or any(name in said for name in _TUNABLES):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_TRIM_THRESHOLD, _KEPT)
        mallopt(_MMAP_THRESHOLD, _OWN)
