"""Rows of tables, taken and changed, by indices of known shape: a look-up goes straight to where its result is sent
from, and an update touches the rows it names once.

Indices are looked at as unsigned numbers, where one comparison finds those below zero too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod
from typing import Any

import numpy as np

from dtfctl.runtime.framework.node_graph import Edge, Node
from dtfctl.runtime.kernels.compiled import loops
from dtfctl.runtime.kernels.into.elementwise import is_float, is_native
from dtfctl.runtime.kernels.into.fusions import Around, Fusion, Line, fuses
from dtfctl.runtime.kernels.into.registry import Into, Spec, Unfit, makes
from dtfctl.runtime.kernels.into.updates import finder
from dtfctl.runtime.kernels.registry import KernelBuild
from dtfctl.runtime.kernels.state.scatter_update import SIGNS, row_loop, scatter_rows
from dtfctl.runtime.memory import shared_memory

_INDICES = frozenset(["i4", "i8"])
_largest: Any = np.maximum.reduce


def check_rows(indices: Any, limit: int) -> None:
    """Leave it to the usual kernel to say what is wrong with indices that are out of range."""
    _check(indices, np.uint32 if indices.itemsize == 4 else np.uint64, limit)


def _check(indices: Any, unsigned: Any, limit: int) -> None:
    if _largest(indices.reshape(-1).view(unsigned)) >= limit:
        raise Unfit


def _unsigned(indices: Spec) -> Any:
    return np.dtype(f"u{indices.dtype.itemsize}")


def is_vector(indices: Spec | None) -> bool:
    """Tell whether there are indices, and not only a single number."""
    return is_native(indices, _INDICES) and indices is not None and bool(indices.shape) and 0 not in indices.shape


@makes("Gather", "GatherV2", "ResourceGather")
def _gather(k: KernelBuild, inputs: list[Any], outputs: list[Spec]) -> Into | None:
    indices = inputs[1]
    if not outputs or not is_vector(indices) or k.attr("batch_dims"):
        return None
    if k.node.op == "GatherV2" and not _is_zero(k.node.inputs[2]):
        return None
    spec, unsigned = outputs[0], _unsigned(indices)
    by_handle = k.node.op == "ResourceGather"
    find = finder(k) if by_handle else None
    inner = spec.shape[len(indices.shape) :]
    # What travels with its frame is nobody's to place.
    fills = spec.nbytes >= shared_memory.LEAST
    loop = row_loop(loops.take_rows, spec.dtype, spec.nbytes) if fills else None
    width = prod(inner)

    def take(table: Any, indices: Any, out: Any) -> Any:
        if table is None or not table.ndim or table.shape[1:] != inner or table.dtype != spec.dtype:
            raise Unfit
        _check(indices, unsigned, table.shape[0])
        if loop is not None and table.flags.c_contiguous:
            loop(table.reshape(-1, width), np.ascontiguousarray(indices).reshape(-1), out.reshape(-1, width))
            return out
        # Nothing is clipped any more; that mode needs no copy of the output.
        return table.take(indices, 0, out, "clip")

    def gather(params: Any, indices: Any, *rest: Any) -> Any:
        out = rest[-1] if fills else None
        if find is None:
            return take(params, indices, out)
        variable = find(params)
        # The lock is held so that no writer finds the array shared and copies a whole table for one look-up.
        with variable.lock:
            return take(variable.peek(), indices, out)

    return Into(gather, fills=fills, is_guarded=True)


def _is_zero(edge: Edge) -> bool:
    value = edge.node.attr("value") if edge.node.op == "Const" else None
    return value is not None and not np.any(value)


@makes("ScatterAdd", "ScatterSub", "ResourceScatterAdd", "ResourceScatterSub")
def _scatter(k: KernelBuild, inputs: list[Any], outputs: list[Spec]) -> Into | None:
    indices, updates = inputs[1:]
    call = _add_rows(k, indices, updates, None)
    return None if call is None else Into(call, fills=False)


@fuses("ScatterAdd", "ScatterSub", "ResourceScatterAdd", "ResourceScatterSub")
def _scale_rows(node: Node, around: Around) -> Iterator[Fusion]:
    """Let the update of rows multiply what it adds to them by a number, and negate it."""
    negated = around.only_made_by(node.inputs[2], "Neg")
    edge = node.inputs[2] if negated is None else negated.inputs[0]
    scaled = around.only_made_by(edge, "Mul")
    if scaled is None:
        return
    indices, factors = around.root(node.inputs[1]), [around.root(e) for e in scaled.inputs]
    specs = [around.spec(factor) for factor in factors]
    whole = around.spec((scaled, 0))
    for at, (factor, rows) in enumerate((specs, specs[::-1])):
        if factor is None or factor.shape or rows != whole:
            continue
        sign = 1 if negated is None else -1
        call = _add_scaled_rows(around.build(node), around.spec(indices), whole, sign, at)
        if call is not None:
            operands = [around.root(node.inputs[0]), indices, *factors]
            replaced = (scaled,) if negated is None else (scaled, negated)
            yield [Line(node, Into(call, fills=False), operands, replaces=replaced)]


def _add_scaled_rows(
    k: KernelBuild, indices: Spec | None, updates: Spec | None, sign: int, factor_at: int
) -> Callable[..., Any] | None:
    """Make an update of rows by others times a number, in one pass.

    Args:
        k: the scatter; its updates are a product, nobody else's.
        indices, updates: what is known of the indices and of what is multiplied.
        sign: of the product.
        factor_at: which operand of the product the number is.

    Returns:
        A function of the variable, the indices and the product's operands; None where there is no loop for that.
    """
    if updates is None or row_loop(loops.add_rows, updates.dtype, updates.nbytes) is None:
        return None
    return _add_rows(k, indices, updates, factor_at, sign)


def _add_rows(
    k: KernelBuild, indices: Spec | None, updates: Spec | None, factor_at: int | None, sign: int = 1
) -> Callable[..., Any] | None:
    if not is_vector(indices) or not is_float(updates):
        return None
    assert indices is not None and updates is not None
    shape, unsigned = indices.shape, _unsigned(indices)
    inner = updates.shape[len(shape) :]
    if updates.shape[: len(shape)] != shape or 0 in inner:
        return None
    find = finder(k)
    by_handle = k.node.op.startswith("Resource")
    kind = "Sub" if k.node.op.endswith("Sub") else "Add"
    count, width, one = prod(shape), prod(inner), updates.dtype.type(SIGNS[kind] * sign)
    loop = row_loop(loops.add_rows, updates.dtype, updates.nbytes)

    def check(variable: Any, indices: Any) -> None:
        table = variable.peek()
        if table is None or not table.ndim or table.shape[1:] != inner or table.dtype != updates.dtype:
            raise Unfit
        if not table.flags.c_contiguous:
            raise Unfit
        _check(indices, unsigned, table.shape[0])

    def add(ref: Any, indices: Any, *operands: Any) -> Any:
        if factor_at is None:
            rows, factor = operands[0], one
        else:
            rows, factor = operands[1 - factor_at], operands[factor_at][()] * one
        variable = find(ref)
        with variable.lock:
            check(variable, indices)
            chosen = indices.reshape(-1)
            if loop is None:
                flat = rows.reshape(count, *inner)
                variable.change(lambda table: scatter_rows(table, chosen, flat, kind), chosen)
            else:
                flat, at = np.ascontiguousarray(rows).reshape(count, width), np.ascontiguousarray(chosen)
                variable.change(lambda table: loop(table.reshape(-1, width), at, flat, factor), chosen)
        return None if by_handle else variable

    return add
