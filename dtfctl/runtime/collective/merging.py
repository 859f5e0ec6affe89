"""How values of the members of a group are merged."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfctl.runtime.collective.algorithms import Array, Final, Merge

MERGES: dict[str, Merge] = {"Add": np.add, "Mul": np.multiply, "Min": np.minimum, "Max": np.maximum}
"""Finds what merges by the attribute `merge_op`."""


def final_of(name: str, count: int) -> Final:
    """Make what is done to merged values in the end: nothing ("Id"), or dividing by the number of members ("Div")."""
    if name == "Id":
        return lambda array: None
    return lambda array: _divide(array, count)


def _divide(array: Array, count: int) -> Any:
    if not np.issubdtype(array.dtype, np.integer):
        return np.divide(array, array.dtype.type(count), out=array)
    # As in C++, towards zero.
    quotient = array // count
    return np.copyto(array, quotient + ((array < 0) & (quotient * count != array)))
