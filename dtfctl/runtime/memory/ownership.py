"""Whether nobody else holds a value, which is what lets the runtime write into memory instead of copying it.

CPython counts the references to an object, but how many of them stand for one holder is no promise: up to 3.13 a value
that is passed to a function is counted again for each function it goes through, from 3.14 on it mostly is not. What is
so in all of them is that who can still reach an object, and is no function between the asker and the question, has a
counted reference to it. So the question is asked in one way only, by `is_sole`, and of a value that the asker has taken
out of wherever it was; and what a sole owner counts is measured when this module is imported, on objects that are and
are not held by others. Where the counts do not tell these apart, everything is shared, and so is copied.
docs/internals/values.md has the argument as a whole.
"""

from __future__ import annotations

import logging
import sys
import sysconfig
from collections.abc import Callable
from typing import Any

import numpy as np

log = logging.getLogger(__name__)
_count = sys.getrefcount
# What a sole owner may count at most: the asker's variable, `is_sole`'s and `getrefcount`'s argument.
_MOST = 3


class _Holder:
    """Holds a value as variables do."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


def _asked(value: Any) -> int:
    """Count the references that `is_sole` sees, called as it is."""
    return _count(value)


# Ways in which askers come by a value, as it is in the runtime. Each gives the count seen.


def _taken_from_attribute(holder: _Holder) -> int:
    value = holder.value
    holder.value = None
    return _asked(value)


def _taken_under_guard(holder: _Holder) -> int:
    value = holder.value
    try:
        holder.value = None
        if value is None or _asked(value) < 0:
            return 0
        return _asked(value)
    finally:
        holder.value = value


def _taken_in_turn(holder: _Holder) -> int:
    found = 0
    values = [holder.value]
    holder.value = None
    for i in range(len(values)):
        value = values[i]
        values[i] = None
        found = _asked(value)
        values[i] = value
    return found


_ASKERS: tuple[Callable[[_Holder], int], ...] = (_taken_from_attribute, _taken_under_guard, _taken_in_turn)


def _with_local(ask: Callable[[_Holder], int], holder: _Holder) -> int:
    """Count while the value is also in a variable of a function that goes on with it, as in a plan."""
    value = holder.value
    found = ask(holder)
    return found if value is not None else 0


def _with_argument(ask: Callable[[_Holder], int], holder: _Holder) -> int:
    """Count while the value is also an argument of a function that goes on with it, as in a kernel."""
    return _given(ask, holder, holder.value)


def _given(ask: Callable[[_Holder], int], holder: _Holder, value: Any) -> int:
    found = ask(holder)
    return found if value is not None else 0


def _with_list(ask: Callable[[_Holder], int], holder: _Holder) -> int:
    """Count while the value is also in a container, as in a queue."""
    held = [holder.value]
    return ask(holder) if held else 0


def _with_view(ask: Callable[[_Holder], int], holder: _Holder) -> int:
    """Count while somebody has an array of a part of the value."""
    held = holder.value[:1]
    return ask(holder) if held.size else 0


def _with_buffer(ask: Callable[[_Holder], int], holder: _Holder) -> int:
    """Count while somebody has the value's bytes, as a socket that sends them."""
    held = holder.value.reshape(-1).view(np.uint8).data
    return ask(holder) if held.nbytes else 0


def _with_frame(ask: Callable[[_Holder], int], holder: _Holder) -> int:
    """Count while another thread, or a generator, has the value in a function that is in the middle of something."""

    def pause(value: Any) -> Any:
        yield
        yield value.size

    paused = pause(holder.value)
    next(paused)
    found = ask(holder)
    return found if next(paused) else 0


_HOLDERS = (_with_local, _with_argument, _with_list, _with_view, _with_buffer, _with_frame)


def measure() -> tuple[int, int]:
    """Measure the fewest references that a sole owner has, and the fewest of a value that somebody else holds too.

    An asker that counts more than the least takes all values for shared, which costs copies and no more.
    """
    alone = [ask(_Holder(np.zeros(64))) for ask in _ASKERS]
    shared = [held(ask, _Holder(np.zeros(64))) for held in _HOLDERS for ask in _ASKERS]
    return min(alone), min(shared)


def sole_count(alone: int, shared: int, is_free_threaded: bool) -> int:
    """Choose what a value may count that nobody else holds; -1 where nobody can tell, so that no value counts so few.

    Args:
        alone, shared: as measured.
        is_free_threaded: threads run at the same time: others may come by a value between taking and counting.
    """
    if is_free_threaded or not 0 < alone < shared or alone > _MOST:
        return -1
    return alone


_IS_FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
_SOLE = sole_count(*measure(), _IS_FREE_THREADED)
if _SOLE < 0:
    log.warning(
        "references say nothing about who holds a value on this Python (%s): values are copied before they are changed",
        sys.version.split()[0],
    )


def is_sole(value: Any, others: int = 0) -> bool:
    """Tell whether nobody holds a value but the one local variable of the caller that it was passed from.

    The caller has taken it out of where it was, so that nobody can come by it any more; has no other reference to it,
    and has it in a local variable, not in a cell or a global one.

    Args:
        others: holders that the caller knows of, and that have a reference each until they are done with it.
    """
    return _count(value) <= _SOLE + others
