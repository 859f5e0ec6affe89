"""Set operations along the last dimension of dense and sparse tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from dtfctl.runtime.framework.errors import InternalError, InvalidArgumentError
from dtfctl.runtime.kernels.array.common import text
from dtfctl.runtime.kernels.pieces import array_of, each, listed
from dtfctl.runtime.kernels.registry import Kernel, KernelBuild, register_kernel
from dtfctl.runtime.kernels.sparse import common

Groups = dict[tuple[int, ...], set[Any]]

_OPERATIONS: dict[str, Callable[[set[Any], set[Any]], set[Any]]] = {
    "a-b": lambda a, b: a - b,
    "b-a": lambda a, b: b - a,
    "intersection": lambda a, b: a & b,
    "union": lambda a, b: a | b,
}


def _dense_groups(x: Any) -> tuple[Groups, tuple[int, ...]]:
    if x.ndim < 2:
        raise InvalidArgumentError(f"Shape {text(x.shape)} has rank {x.ndim} < 2")
    lead = x.shape[:-1]
    rows = listed(x.reshape(-1, x.shape[-1]))
    return {place: set(row) for place, row in zip(np.ndindex(lead), each(rows))}, lead


def _sparse_groups(indices: Any, values: Any, shape: Any, validate: bool) -> tuple[Groups, tuple[int, ...]]:
    if shape.ndim != 1:
        raise InvalidArgumentError("Shape must be a 1D tensor.")
    dims = common.check(indices, values, shape, "sparse")
    if len(dims) < 2:
        raise InvalidArgumentError(f"Invalid rank {len(dims)}.")
    if validate:
        common.in_bounds(indices, dims)
        common.ordered(indices)
    elif indices.size:
        bad = np.argwhere((indices < 0) | (indices >= np.array(dims)))
        if len(bad):
            i, j = bad[0]
            raise InternalError(f"indices[{i}, {j}] expected < {dims[j]}, got {indices[i, j]}.")
    groups: Groups = {}
    for place, value in zip(listed(indices[:, :-1]), each(values)):
        groups.setdefault(tuple(place), set()).add(value)
    return groups, dims[:-1]


def _combine(
    k: KernelBuild, a: tuple[Groups, tuple[int, ...]], b: tuple[Groups, tuple[int, ...]]
) -> tuple[Any, Any, Any]:
    name = k.text_attr("set_operation").lower()
    (left, lead_a), (right, lead_b) = a, b
    if len(lead_a) != len(lead_b):
        raise InvalidArgumentError(f"Ranks do not match: {len(lead_a) + 1} vs {len(lead_b) + 1}")
    if lead_a != lead_b:
        raise InvalidArgumentError(f"Mismatched shapes: {text(lead_a)} vs {text(lead_b)}")
    operation, dtype = _OPERATIONS[name], k.dtype("T").np
    indices: list[tuple[int, ...]] = []
    values: list[Any] = []
    longest = 0
    places: Iterable[tuple[int, ...]] = sorted(set(left) | set(right))
    for place in each(places):
        result = sorted(operation(left.get(place, set()), right.get(place, set())))
        longest = max(longest, len(result))
        indices += [(*place, i) for i in range(len(result))]
        values += result
    rank = len(lead_a) + 1
    places_out = array_of([i for index in each(indices) for i in index], np.int64, (len(values), rank))
    return places_out, array_of(values, dtype), np.array([*lead_a, longest], np.int64)


def _check_operation(k: KernelBuild) -> None:
    if k.text_attr("set_operation").lower() not in _OPERATIONS:
        raise InvalidArgumentError(f"Invalid set_operation {k.text_attr('set_operation')}.", k.node.name)


@register_kernel("DenseToDenseSetOperation", pieces=True)
def _dense_dense(k: KernelBuild) -> Kernel:
    _check_operation(k)
    return lambda a, b: _combine(k, _dense_groups(a), _dense_groups(b))


@register_kernel("DenseToSparseSetOperation", pieces=True)
def _dense_sparse(k: KernelBuild) -> Kernel:
    _check_operation(k)
    validate = bool(k.attr("validate_indices"))
    return lambda a, i, v, s: _combine(k, _dense_groups(a), _sparse_groups(i, v, s, validate))


@register_kernel("SparseToSparseSetOperation", pieces=True)
def _sparse_sparse(k: KernelBuild) -> Kernel:
    _check_operation(k)
    validate = bool(k.attr("validate_indices"))
    return lambda i1, v1, s1, i2, v2, s2: _combine(
        k, _sparse_groups(i1, v1, s1, validate), _sparse_groups(i2, v2, s2, validate)
    )


@register_kernel("SetSize", pieces=True)
def _set_size(k: KernelBuild) -> Kernel:
    validate = bool(k.attr("validate_indices"))

    def kernel(indices: Any, values: Any, shape: Any) -> Any:
        groups, lead = _sparse_groups(indices, values, shape, validate)
        out = np.zeros(lead, np.int32)
        for place, items in each(groups.items()):
            out[place] = len(items)
        return out

    return kernel
