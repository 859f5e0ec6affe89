"""Names of transfers between tasks, which say by when what they carry is needed.

The name is in the rendezvous key, so whoever queues a tensor on its way to a peer knows what may overtake it.
"""

from __future__ import annotations

import re
from functools import lru_cache

URGENCIES = 4
"""Classes of what one task sends another in a step, and as many of what only the next step needs."""
_FIRST, _LATER, _AHEAD = "edge", "later", "ahead"
_LANE = re.compile(rf";({_LATER}|{_AHEAD})(\d)?_")


def transfer_name(number: int, source: str, urgency: int = 0, is_ahead: bool = False) -> str:
    """Name a transfer.

    Args:
        number: what tells it from others of its step.
        urgency: 0 for what is needed first, below `URGENCIES`.
        is_ahead: whether only the next step needs it.
    """
    word = _AHEAD if is_ahead else _LATER if urgency else _FIRST
    return f"{word}{urgency or ''}_{number}_{source}"


@lru_cache(maxsize=1 << 12)
def lane_of(key: str) -> int:
    """Find in which of `2 * URGENCIES` lanes a tensor with that rendezvous key waits; lower ones go first."""
    found = _LANE.search(key)
    if found is None:
        return 0
    urgency = min(int(found[2] or 0), URGENCIES - 1)
    return urgency + (URGENCIES if found[1] == _AHEAD else 0)
