"""Rows of tables, taken and changed, by indices of known shape: a look-up goes straight to where its result is sent
from, and an update touches the rows it names once.

Indices are looked at as unsigned numbers, where one comparison finds those below zero too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod
from typing import Any, NamedTuple

import numpy as np

from dtfctl.runtime.framework.node_graph import Edge, Node
from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.kernels.compiled import loops
from dtfctl.runtime.kernels.into.elementwise import is_float, is_native
from dtfctl.runtime.kernels.into.fusions import Around, Fusion, Line, fuses
from dtfctl.runtime.kernels.into.registry import Into, Spec, Unfit, makes
from dtfctl.runtime.kernels.into.updates import finder
from dtfctl.runtime.kernels.native import updating
from dtfctl.runtime.kernels.native.sketch import Sketch
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
    return _add_rows(k, indices, updates, None)


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
        into = _add_rows(around.build(node), around.spec(indices), whole, at, 1 if negated is None else -1)
        if into is not None:
            operands = [around.root(node.inputs[0]), indices, *factors]
            replaced = (scaled,) if negated is None else (scaled, negated)
            yield [Line(node, into, operands, replaces=replaced)]


class _Adding(NamedTuple):
    """A loop that adds rows times a number: of the table, indices, rows, number, and the room it needs."""

    call: Callable[..., None]
    room: tuple[Spec, ...] = ()


def _adding(k: KernelBuild, indices: Spec, updates: Spec) -> tuple[_Adding | None, tuple[Sketch, ...]]:
    """Find a loop that adds rows, or what has to be compiled for one; numpy has none."""
    loop = row_loop(loops.add_rows, updates.dtype, updates.nbytes)
    if loop is not None:
        return _Adding(loop), ()
    sketch = updating.sketch_of_sums(_declared_rows(k), indices, updates)
    if sketch is None:
        return None, ()
    try:
        found = updating.rows_by(sketch)
    except KeyError:
        return None, (sketch,)
    if found is None:
        return None, ()
    call, room = found

    def add(table: Any, at: Any, rows: Any, factor: Any, scratch: Any) -> None:
        call(at, rows, np.full(1, factor), table, scratch)

    return _Adding(add, (room,)), ()


def _declared_rows(k: KernelBuild) -> int:
    """Return how many rows the variable is declared to have; 0 where that is not said."""
    shape = k.node.inputs[0].node.attr("shape")
    dims = shape.dims if isinstance(shape, TensorShape) else None
    return (dims[0].value or 0) if dims else 0


def _add_rows(
    k: KernelBuild, indices: Spec | None, updates: Spec | None, factor_at: int | None, sign: int = 1
) -> Into | None:
    """Make an update of rows: by others, or by others times a number in one pass.

    Args:
        k: the scatter.
        indices, updates: what is known of the indices and of what is added, or is multiplied before.
        factor_at: which operand of the product the number is; None: there is no product.
        sign: of what is added.

    Returns:
        A line of the variable, the indices and the rows, or the product's operands; None where nothing is gained.
    """
    if not is_vector(indices) or not is_float(updates):
        return None
    assert indices is not None and updates is not None
    shape, unsigned = indices.shape, _unsigned(indices)
    inner = updates.shape[len(shape) :]
    if updates.shape[: len(shape)] != shape or 0 in inner:
        return None
    adding, wants = _adding(k, indices, updates)
    if adding is None and factor_at is not None and not wants:
        return None
    find = finder(k)
    by_handle = k.node.op.startswith("Resource")
    kind = "Sub" if k.node.op.endswith("Sub") else "Add"
    count, width, one = prod(shape), prod(inner), updates.dtype.type(SIGNS[kind] * sign)
    room = () if adding is None else adding.room
    # Machine code has the size of the table in it.
    height = _declared_rows(k) if room else None

    def check(variable: Any, indices: Any) -> None:
        table = variable.peek()
        if table is None or not table.ndim or table.shape[1:] != inner or table.dtype != updates.dtype:
            raise Unfit
        if not table.flags.c_contiguous or height not in (None, len(table)):
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
            if adding is None:
                flat = rows.reshape(count, *inner)
                variable.change(lambda table: scatter_rows(table, chosen, flat, kind), chosen)
            else:
                flat, at = np.ascontiguousarray(rows).reshape(count, width), np.ascontiguousarray(chosen)
                scratch = operands[len(operands) - len(room) :]
                variable.change(lambda table: adding.call(table.reshape(-1, width), at, flat, factor, *scratch), chosen)
        return None if by_handle else variable

    return Into(add, scratch=room, fills=False, wants=wants)
