"""Scatter* on variables on a GPU. Rows out of range are left out, as on TensorFlow's GPUs."""

from __future__ import annotations

from math import prod
from typing import Any

from dtfctl.runtime.kernels.cuda.arrays import CUDA_NUMBERS, contiguous, sorted_rows
from dtfctl.runtime.kernels.cuda.launch import launch
from dtfctl.runtime.kernels.registry import GPU, INDICES, Kernel, KernelBuild, register_kernel
from dtfctl.runtime.kernels.state.common import check_has_rows, variable_finder, wrong_updates
from dtfctl.runtime.kernels.variable import Variable

_KINDS = ("Update", "Add", "Sub", "Mul", "Div", "Min", "Max")


def _scatter(xp: Any, variable: Variable, indices: Any, updates: Any, kind: str) -> None:
    with variable.lock:
        shape = variable.read().shape
        check_has_rows(shape)
        if updates.ndim and updates.shape != indices.shape + shape[1:]:
            raise wrong_updates(updates, indices, shape)
        order, rows = sorted_rows(xp, indices)
        inner = prod(shape[1:])
        given = order, rows, contiguous(xp, updates), indices.size, inner, shape[0], int(not updates.ndim)

        def write(values: Any) -> None:
            types = {"element": values.dtype.name, "index": rows.dtype.name}
            launch(xp, "rows", f"scatter_{kind.lower()}", indices.size * inner, (values, *given), **types)

        variable.change(write)


def _by_reference(k: KernelBuild) -> Kernel:
    xp, kind = k.xp, k.node.op.removeprefix("Scatter")

    def kernel(ref: Variable, indices: Any, updates: Any) -> Variable:
        _scatter(xp, ref, indices, updates, kind)
        return ref

    return kernel


def _by_handle(k: KernelBuild) -> Kernel:
    xp, kind, find = k.xp, k.node.op.removeprefix("ResourceScatter"), variable_finder(k)

    def kernel(resource: Any, indices: Any, updates: Any) -> None:
        _scatter(xp, find(resource), indices, updates, kind)

    return kernel


for _kind in _KINDS:
    register_kernel(f"Scatter{_kind}", devices=GPU, T=CUDA_NUMBERS, Tindices=INDICES)(_by_reference)
    register_kernel(
        f"ResourceScatter{_kind}", devices=GPU, host_inputs=("resource",), dtype=CUDA_NUMBERS, Tindices=INDICES
    )(_by_handle)
