"""Conditions and loops where ops have values: plain Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dtfctl.runtime.framework import nest
from dtfctl.runtime.framework.convert import IndexedSlices, SparseTensor, convert_to_tensor
from dtfctl.runtime.framework.operation import Operation


def cond(pred: Any, true_fn: Callable[[], Any], false_fn: Callable[[], Any], strict: bool) -> Any:
    """Call the chosen function; return what it returns, as it is."""
    result = true_fn() if bool(pred) else false_fn()
    if not strict and isinstance(result, (list, tuple)) and len(result) == 1 and not hasattr(result, "_fields"):
        return result[0]
    return result


def switch_case(index: Any, functions: Sequence[Callable[[], Any]]) -> Any:
    chosen = int(index)
    return functions[chosen if 0 <= chosen < len(functions) else -1]()


def while_loop(
    condition: Callable[..., Any], body: Callable[..., Any], loop_vars: Sequence[Any], maximum_iterations: Any
) -> list[Any]:
    """Run the loop; return its variables after the last iteration.

    Raises:
        ValueError: the body returns another structure than it was given.
    """
    values = [nest.map_structure(_as_tensor, v) if nest.is_nested(v) else _as_tensor(v) for v in loop_vars]
    limit = None if maximum_iterations is None else int(np.asarray(maximum_iterations))
    count = 0
    while (limit is None or count < limit) and bool(condition(*values)):
        result = body(*values)
        following = list(result) if isinstance(result, (list, tuple)) and len(values) == len(result) else [result]
        nest.assert_same_structure(values, following)
        values = [nest.map_structure(_as_tensor, v) if nest.is_nested(v) else _as_tensor(v) for v in following]
        count += 1
    return values


def _as_tensor(item: Any) -> Any:
    if item is None or isinstance(item, (SparseTensor, IndexedSlices, Operation)):
        return item
    if getattr(item, "_flow_of_array", None) is not None:
        return item
    return convert_to_tensor(item)
