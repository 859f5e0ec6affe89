"""Ops that reduce, and those that only say where elements lie, as loops and index maps."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from llvmlite import ir

from dtfctl.runtime.kernels.native import scalars
from dtfctl.runtime.kernels.native.lower_elements import SINGLE, div, sub
from dtfctl.runtime.kernels.native.lowering import ELEMENTS, FLOATS, NUMBERS, Op, lowers, need, view_of
from dtfctl.runtime.kernels.native.nests import Number, Unsupported, Value, View

# Reductions ---------------------------------------------------------------------------------------------------------


def _itself(b: Any, x: Any) -> Any:
    return x


def _reduced(op: Op, how: str, x: Value, shape: tuple[int, ...], axes: Sequence[int]) -> View:
    if not isinstance(x, View):
        raise Unsupported
    return op.loops.reduce(how, _itself, [x], shape, axes)


_REDUCTIONS = {"Sum": "sum", "Mean": "sum", "Max": "max", "Min": "min"}


@lowers(*_REDUCTIONS, heavy=True)
def _reduction(op: Op) -> list[Value]:
    name, shape = op.name, op.specs[0].shape
    need(op.kind, NUMBERS if name == "Sum" else FLOATS)
    axes = op.axes(1, len(shape))
    if not axes or 0 in shape:
        return [op.loops.reshape(op.map(_itself, op.inputs[0]), op.shape)] if 0 not in shape else _unsupported()
    made: Value = _reduced(op, _REDUCTIONS[name], op.inputs[0], shape, axes)
    if name == "Mean":
        count = ir.Constant(ELEMENTS[op.kind], float(prod(shape[n] for n in axes)))
        made = op.loops.map(lambda b, x: b.fdiv(x, count), [made], op.kind, made.shape)
    return [op.loops.reshape(made, op.shape)]


def _unsupported() -> list[Value]:
    raise Unsupported


@lowers("BiasAddGrad", heavy=True)
def _bias_add_grad(op: Op) -> list[Value]:
    shape = op.specs[0].shape
    if op.attr("data_format") != "NHWC" or len(shape) < 2:
        raise Unsupported
    need(op.kind)
    return [op.loops.reshape(_reduced(op, "sum", op.inputs[0], shape, range(len(shape) - 1)), op.shape)]


@lowers("L2Loss", heavy=True)
def _l2_loss(op: Op) -> list[Value]:
    need(op.kind)
    shape = op.specs[0].shape
    total = op.loops.reduce("sum", lambda b, x: b.fmul(x, x), [view_of(op.inputs[0])], shape, range(len(shape)))
    half = op.loops.map(lambda b, x: b.fmul(x, ir.Constant(x.type, 0.5)), [total], op.kind, total.shape)
    return [op.loops.reshape(half, ())]


def _shifted(op: Op, logits: Value) -> tuple[Value, View]:
    """Exponents of rows, their largest subtracted, and their sums."""
    shape, kind = op.specs[0].shape, "f4"
    axis = [len(shape) - 1]
    most = _reduced(op, "max", logits, shape, axis)
    shifted = op.loops.map(sub, [logits, most], kind, shape)
    return shifted, op.loops.reduce("sum", scalars.exp, [shifted], shape, axis)


@lowers("Softmax", "LogSoftmax", heavy=True)
def _softmax(op: Op) -> list[Value]:
    need(op.kind, SINGLE)
    if not op.shape or 0 in op.shape:
        raise Unsupported
    if op.name == "LogSoftmax":
        shifted, total = _shifted(op, op.inputs[0])
        return [op.map(sub, shifted, op.loops.map(scalars.log, [total], op.kind, total.shape))]
    axis = [len(op.shape) - 1]
    most = _reduced(op, "max", op.inputs[0], op.shape, axis)
    powers = op.loops.map(lambda b, x, m: scalars.exp(b, b.fsub(x, m)), [op.inputs[0], most], op.kind, op.shape)
    return [op.map(div, powers, _reduced(op, "sum", powers, op.shape, axis))]


# Shapes -------------------------------------------------------------------------------------------------------------


@lowers("Reshape", "ExpandDims", "Squeeze")
def _reshape(op: Op) -> list[Value]:
    return [op.loops.reshape(op.inputs[0], op.shape)]


@lowers("Identity", "StopGradient", "PreventGradient", "Snapshot")
def _identity(op: Op) -> list[Value]:
    return [op.inputs[0]]


@lowers("Transpose")
def _transpose(op: Op) -> list[Value]:
    order = [int(n) for n in op.fixed(1).reshape(-1)]
    x = view_of(op.inputs[0])
    return [View(x.buffer, op.shape, tuple(x.strides[n] for n in order), x.offset)]


@lowers("BroadcastTo", "Fill")
def _broadcast(op: Op) -> list[Value]:
    x = op.inputs[1 if op.name == "Fill" else 0]
    return [Number(x.value, op.shape) if isinstance(x, Number) else x.broadcast(op.shape)]


@lowers("Tile")
def _tile(op: Op) -> list[Value]:
    shape, times = op.specs[0].shape, [int(n) for n in op.fixed(1).reshape(-1)]
    if any(n != 1 and size != 1 for n, size in zip(times, shape)):
        raise Unsupported
    return [view_of(op.inputs[0]).broadcast(op.shape)]


def _part(x: View, begin: Sequence[int], shape: tuple[int, ...]) -> View:
    offset = x.offset + sum(n * s for n, s in zip(begin, x.strides))
    return View(x.buffer, shape, x.strides, offset)


@lowers("Slice")
def _slice(op: Op) -> list[Value]:
    return [_part(view_of(op.inputs[0]), [int(n) for n in op.fixed(1).reshape(-1)], op.shape)]


@lowers("Split", "SplitV")
def _split(op: Op) -> list[Value]:
    by_sizes = op.name == "SplitV"
    x, shape = view_of(op.inputs[0 if by_sizes else 1]), op.specs[0 if by_sizes else 1].shape
    axis = int(op.fixed(2 if by_sizes else 0)) % len(shape)
    parts: list[Value] = []
    at = 0
    for spec in op.outputs:
        parts.append(_part(x, [at if n == axis else 0 for n in range(len(shape))], spec.shape))
        at += spec.shape[axis]
    return parts


@lowers("ConcatV2", "Concat", heavy=True)
def _concat(op: Op) -> list[Value]:
    is_first = op.name == "Concat"
    axis = int(op.fixed(0 if is_first else len(op.inputs) - 1)) % len(op.shape)
    given = op.inputs[1:] if is_first else op.inputs[:-1]
    specs = op.specs[1:] if is_first else op.specs[:-1]
    made = op.loops.room(op.kind, op.shape)
    at = 0
    for value, spec in zip(given, specs):
        part = _part(made, [at if n == axis else 0 for n in range(len(op.shape))], spec.shape)
        if 0 not in spec.shape:
            op.loops.put_copy(value, part)
        at += spec.shape[axis]
    return [made]


@lowers("Pack")
def _pack(op: Op) -> list[Value]:
    axis = int(op.attr("axis")) % len(op.shape)
    made = op.loops.room(op.kind, op.shape)
    shape = op.shape[:axis] + op.shape[axis + 1 :]
    strides = made.strides[:axis] + made.strides[axis + 1 :]
    for n, value in enumerate(op.inputs):
        op.loops.put_copy(value, View(made.buffer, shape, strides, n * made.strides[axis]))
    return [made]


@lowers("Unpack")
def _unpack(op: Op) -> list[Value]:
    x = view_of(op.inputs[0])
    axis = int(op.attr("axis")) % len(x.shape)
    strides = x.strides[:axis] + x.strides[axis + 1 :]
    return [View(x.buffer, s.shape, strides, x.offset + n * x.strides[axis]) for n, s in enumerate(op.outputs)]
