"""Axes given as numbers: counted from either end, and checked."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework.operation import Operation


def checked_axis(value: Any, rank: int, op: Operation) -> int:
    """Count an axis from the front.

    Raises:
        ValueError: an array of `rank` dimensions has no such axis.
    """
    at = int(value)
    if not -rank <= at < rank:
        raise ValueError(f"Axis {at} must be in the range [{-rank}, {rank}) for '{op.name}' (op: '{op.type}')")
    return at % rank
