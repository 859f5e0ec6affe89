"""Whose memory an array lies in, and what may be done with it: rules that variables, fetches and restores share.

Who wants to write into a value asks two questions in this order, of a value that was taken out of where it was:
`ownership.is_sole`, whether anybody here still holds it, and `may_be_written`, whether its memory is its own and no
other process looks at it. A value of which either is not so is left to its readers, and goes on in `like` another.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfctl.runtime.memory import kept_memory, shared_memory
from dtfctl.runtime.memory.ownership import is_sole


def owns_memory(value: Any) -> bool:
    """Tell an array that can be written and is no view of other memory from all other values."""
    flags = getattr(value, "flags", None)
    if flags is None or isinstance(value, np.generic):
        return False
    return bool(flags.owndata and getattr(flags, "writeable", True))


def is_common(value: Any) -> bool:
    """Tell an array of its own in the memory that other tasks see."""
    arena = shared_memory.found_arena()
    return arena is not None and arena.owns(value)


def may_be_written(value: Any) -> bool:
    """Tell whether an array that nobody here holds can be written: it is no view, and no other task looks at it."""
    if owns_memory(value) or kept_memory.owns(value):
        return True
    arena = shared_memory.found_arena()
    return arena is not None and isinstance(value, np.ndarray) and arena.owns(value) and not arena.is_lent(value)


def given_away(values: list[Any], at: int) -> Any:
    """Take an array out of a list for a user, who may write into it: a copy if somebody else holds it here, or it lies
    in memory that tasks share."""
    value = values[at]
    values[at] = None
    return value if is_sole(value) and _may_be_given_away(value) else value.copy()


def _may_be_given_away(value: np.ndarray[Any, Any]) -> bool:
    flags = value.flags
    return bool(flags.writeable and (flags.owndata or kept_memory.owns(value)))


def like(value: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Make an array for what takes a value's place: in memory that tasks share if the value lies there."""
    if value.flags.c_contiguous and is_common(value):
        return shared_memory.empty(value.shape, value.dtype)
    return np.empty_like(value)
