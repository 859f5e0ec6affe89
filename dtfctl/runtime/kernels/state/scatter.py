"""Scatter* on variables, by reference and by handle (TensorFlow's scatter_op, scatter_nd_op, resource_variable_ops)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.kernels.array.gather import indices_policy
from dtfctl.runtime.kernels.promises import UPDATES_ROWS
from dtfctl.runtime.kernels.registry import INDICES, NUMBERS, REALS, Kernel, KernelBuild, register_kernel
from dtfctl.runtime.kernels.state.common import check_has_rows, shape_text, variable_finder, wrong_updates
from dtfctl.runtime.kernels.state.scatter_update import check_rows, scatter_nd, scatter_rows
from dtfctl.runtime.kernels.variable import Variable


def _scatter(variable: Variable, indices: Any, updates: Any, kind: str, by_handle: bool) -> None:
    with variable.lock:
        shape = variable.read().shape
        check_has_rows(shape)
        if updates.ndim and updates.shape != indices.shape + shape[1:]:
            if not by_handle:
                raise wrong_updates(updates, indices, shape)
            if updates.shape[: indices.ndim] != indices.shape:
                raise InvalidArgumentError(
                    f"The shape of indices ({shape_text(indices.shape)}) must be a prefix of the shape of updates "
                    f"({shape_text(updates.shape)})"
                )
            if indices.size and updates.size != indices.size * int(np.prod(shape[1:])):
                raise InvalidArgumentError(
                    f"shape of indices ({shape_text(indices.shape)}) is not compatible with the shape of updates "
                    f"({shape_text(updates.shape)})"
                )
        check_rows(indices, shape[0])
        if kind == "Div" and updates.dtype.kind in "iu" and indices.size and not updates.all():
            raise InvalidArgumentError("updates must not contain 0")
        if not indices.size:
            return
        flat = indices.reshape(-1)
        rows = updates if updates.ndim == 0 else updates.reshape((flat.size, *shape[1:]))
        variable.change(lambda array: scatter_rows(array, flat, rows, kind), flat)


def _kind(op: str) -> str:
    for kind in ("Add", "Sub", "Mul", "Div", "Min", "Max", "Update"):
        if op.endswith(kind):
            return kind
    raise AssertionError(op)


def _ref_scatter(k: KernelBuild) -> Kernel:
    kind = _kind(k.node.op)

    def kernel(ref: Variable, indices: Any, updates: Any) -> Variable:
        _scatter(ref, indices, updates, kind, by_handle=False)
        return ref

    return kernel


def _resource_scatter(k: KernelBuild) -> Kernel:
    kind, find = _kind(k.node.op), variable_finder(k)

    def kernel(resource: Any, indices: Any, updates: Any) -> None:
        variable = find(resource)
        if kind == "Div" and not np.all(updates):
            raise InvalidArgumentError("updates must not contain 0")
        _scatter(variable, indices, updates, kind, by_handle=True)

    return kernel


def _change(variable: Variable, indices: Any, write: Callable[[Any], object]) -> None:
    """Have the variable's array written at positions as scatter_nd takes them."""
    depth = indices.shape[-1] if indices.ndim > 1 else 1
    shape = variable.read().shape
    if not variable.is_kept or not 0 < depth <= len(shape) or 0 in shape:
        variable.change(write)
        return
    # What is out of range is left out, or refused, later.
    rows = np.ravel_multi_index(tuple(indices.reshape(-1, depth).T), shape[:depth], mode="clip")
    variable.change(write, rows, depth)


def _ref_scatter_nd(k: KernelBuild) -> Kernel:
    kind, policy = _kind(k.node.op), indices_policy(k)

    def kernel(ref: Variable, indices: Any, updates: Any) -> Variable:
        with ref.lock:
            _change(ref, indices, lambda array: scatter_nd(array, indices, updates, kind, policy))
        return ref

    return kernel


def _resource_scatter_nd(k: KernelBuild) -> Kernel:
    kind, policy, find = _kind(k.node.op), indices_policy(k), variable_finder(k)

    def kernel(resource: Any, indices: Any, updates: Any) -> None:
        variable = find(resource)
        with variable.lock:
            _change(variable, indices, lambda array: scatter_nd(array, indices, updates, kind, policy))

    return kernel


for _name in ("Add", "Sub", "Mul", "Div"):
    register_kernel(f"Scatter{_name}", promises=UPDATES_ROWS, T=NUMBERS, Tindices=INDICES)(_ref_scatter)
    register_kernel(f"ResourceScatter{_name}", promises=UPDATES_ROWS, dtype=NUMBERS, Tindices=INDICES)(
        _resource_scatter
    )
for _name in ("Min", "Max"):
    register_kernel(f"Scatter{_name}", promises=UPDATES_ROWS, T=REALS, Tindices=INDICES)(_ref_scatter)
    register_kernel(f"ResourceScatter{_name}", promises=UPDATES_ROWS, dtype=REALS, Tindices=INDICES)(_resource_scatter)
    register_kernel(f"ScatterNd{_name}", promises=UPDATES_ROWS, T=REALS, Tindices=INDICES)(_ref_scatter_nd)
    register_kernel(f"ResourceScatterNd{_name}", promises=UPDATES_ROWS, T=REALS, Tindices=INDICES)(_resource_scatter_nd)
for _name in ("Add", "Sub"):
    register_kernel(f"ScatterNd{_name}", promises=UPDATES_ROWS, T=NUMBERS, Tindices=INDICES)(_ref_scatter_nd)
    register_kernel(f"ResourceScatterNd{_name}", promises=UPDATES_ROWS, T=NUMBERS, Tindices=INDICES)(
        _resource_scatter_nd
    )
register_kernel("ScatterUpdate", promises=UPDATES_ROWS, Tindices=INDICES)(_ref_scatter)
register_kernel("ResourceScatterUpdate", promises=UPDATES_ROWS, Tindices=INDICES)(_resource_scatter)
register_kernel("ScatterNdUpdate", promises=UPDATES_ROWS, Tindices=INDICES)(_ref_scatter_nd)
register_kernel("ResourceScatterNdUpdate", promises=UPDATES_ROWS, Tindices=INDICES)(_resource_scatter_nd)
