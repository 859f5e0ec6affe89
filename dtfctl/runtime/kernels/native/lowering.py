"""What ops are as loops: an entry for each.

    @lowers("Mul")
    def _(op: Op) -> list[Value]:

A lowering takes views of a node's inputs and returns views of its outputs; `Unsupported` where the node is of a kind
or type that it has no loops for, and is left to its kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from llvmlite import ir

from dtfctl.runtime.framework.node_graph import Node
from dtfctl.runtime.kernels.into.registry import Spec
from dtfctl.runtime.kernels.native import scalars
from dtfctl.runtime.kernels.native.nests import KINDS, Loops, Number, Unsupported, Value, View

_ELEMENTS = {
    "f4": ir.FloatType(),
    "f8": ir.DoubleType(),
    "i4": ir.IntType(32),
    "i8": ir.IntType(64),
    "b1": ir.IntType(1),
}
_FLOATS = frozenset(["f4", "f8"])
_NUMBERS = frozenset(["f4", "f8", "i4", "i8"])


@dataclass
class Op:
    """A node whose loops are wanted.

    Attributes:
        inputs: its inputs' values; specs: what they are; outputs: what it gives.
        known: numbers of inputs that are the same in every step, by position.
    """

    node: Node
    loops: Loops
    inputs: list[Value]
    specs: list[Spec]
    outputs: list[Spec]
    known: Mapping[int, Any]

    @property
    def kind(self) -> str:
        return kind_of(self.outputs[0])

    @property
    def shape(self) -> tuple[int, ...]:
        return self.outputs[0].shape

    def map(self, emit: Callable[..., Any], *sources: Value) -> Value:
        return self.loops.map(emit, sources, self.kind, self.shape)

    def fixed(self, position: int) -> Any:
        """Return the value of an input that has to be the same in every step.

        Raises:
            Unsupported: it is not.
        """
        if position not in self.known:
            raise Unsupported
        return np.asarray(self.known[position])

    def axes(self, position: int, rank: int) -> list[int]:
        axes = [int(n) % rank if rank else 0 for n in self.fixed(position).reshape(-1)]
        return sorted(set(axes)) if rank else []


Lowering = Callable[[Op], list[Value]]
LOWERINGS: dict[str, Lowering] = {}
# What numpy needs several passes or slow ones for, so that a loop for it alone pays.
HEAVY: set[str] = set()


def lowers(*ops: str, heavy: bool = False) -> Callable[[Lowering], Lowering]:
    """Decorator: the function says what ops are as loops."""

    def add(lowering: Lowering) -> Lowering:
        LOWERINGS.update(dict.fromkeys(ops, lowering))
        if heavy:
            HEAVY.update(ops)
        return lowering

    return add


def kind_of(spec: Spec) -> str:
    found = KINDS.get(spec.dtype)
    if found is None:
        raise Unsupported
    return found


def constant(value: Any) -> Number:
    """Make a known number a value."""
    array = np.asarray(value)
    kind = KINDS.get(array.dtype)
    if kind is None or array.size != 1:
        raise Unsupported
    return Number(ir.Constant(_ELEMENTS[kind], array.reshape(-1)[0].item()), array.shape)


def _one(kind: str, value: float) -> Any:
    return ir.Constant(_ELEMENTS[kind], value if kind in _FLOATS else int(value))


def _need(kind: str, among: frozenset[str] = _FLOATS) -> None:
    if kind not in among:
        raise Unsupported


# Element by element -------------------------------------------------------------------------------------------------


def _add(b: Any, x: Any, y: Any) -> Any:
    return b.add(x, y) if isinstance(x.type, ir.IntType) else b.fadd(x, y)


def _sub(b: Any, x: Any, y: Any) -> Any:
    return b.sub(x, y) if isinstance(x.type, ir.IntType) else b.fsub(x, y)


def _mul(b: Any, x: Any, y: Any) -> Any:
    return b.mul(x, y) if isinstance(x.type, ir.IntType) else b.fmul(x, y)


def _div(b: Any, x: Any, y: Any) -> Any:
    return b.fdiv(x, y)


def _compare(b: Any, how: str, x: Any, y: Any) -> Any:
    if isinstance(x.type, ir.IntType):
        return b.icmp_signed(how, x, y) if x.type.width > 1 else b.icmp_unsigned(how, x, y)
    return b.fcmp_unordered(how, x, y) if how == "!=" else b.fcmp_ordered(how, x, y)


def _larger(how: str) -> Callable[..., Any]:
    """Choose the larger (or smaller) number; what is no number wins."""

    def emit(b: Any, x: Any, y: Any) -> Any:
        wins = _compare(b, how, x, y)
        if not isinstance(x.type, ir.IntType):
            wins = b.or_(wins, b.fcmp_unordered("uno", x, x))
        return b.select(wins, x, y)

    return emit


def _squared_difference(b: Any, x: Any, y: Any) -> Any:
    d = _sub(b, x, y)
    return _mul(b, d, d)


_BINARY: dict[str, tuple[Callable[..., Any], frozenset[str]]] = {
    "Add": (_add, _NUMBERS),
    "AddV2": (_add, _NUMBERS),
    "Sub": (_sub, _NUMBERS),
    "Mul": (_mul, _NUMBERS),
    "RealDiv": (_div, _FLOATS),
    "Div": (_div, _FLOATS),
    "Maximum": (_larger(">="), _NUMBERS),
    "Minimum": (_larger("<="), _NUMBERS),
    "SquaredDifference": (_squared_difference, _NUMBERS),
}


@lowers(*_BINARY)
def _binary(op: Op) -> list[Value]:
    emit, kinds = _BINARY[op.node.op]
    _need(op.kind, kinds)
    return [op.map(emit, *op.inputs)]


@lowers("BiasAdd")
def _bias_add(op: Op) -> list[Value]:
    if op.node.text_attr("data_format", "NHWC") != "NHWC":
        raise Unsupported
    return [op.map(_add, *op.inputs)]


_COMPARISONS = {
    "Greater": ">",
    "GreaterEqual": ">=",
    "Less": "<",
    "LessEqual": "<=",
    "Equal": "==",
    "NotEqual": "!=",
}


@lowers(*_COMPARISONS)
def _comparison(op: Op) -> list[Value]:
    how = _COMPARISONS[op.node.op]
    _need(kind_of(op.specs[0]), _NUMBERS)
    return [op.map(lambda b, x, y: _compare(b, how, x, y), *op.inputs)]


@lowers("LogicalAnd", "LogicalOr", "LogicalNot")
def _logical(op: Op) -> list[Value]:
    name = op.node.op
    if name == "LogicalNot":
        return [op.map(lambda b, x: b.xor(x, ir.Constant(x.type, 1)), *op.inputs)]
    return [op.map(lambda b, x, y: (b.and_ if name == "LogicalAnd" else b.or_)(x, y), *op.inputs)]


@lowers("Select", "SelectV2")
def _select(op: Op) -> list[Value]:
    condition, then, otherwise = op.inputs
    shape = op.specs[0].shape
    if op.node.op == "Select" and shape != op.shape and shape:
        # It says of each row which one is taken.
        condition = op.loops.reshape(condition, (*shape, *(1,) * (len(op.shape) - len(shape))))
    return [op.map(lambda b, c, x, y: b.select(c, x, y), condition, then, otherwise)]


@lowers("AddN", "AccumulateNV2")
def _add_n(op: Op) -> list[Value]:
    _need(op.kind, _NUMBERS)
    if len(op.inputs) > 16 or any(s != op.outputs[0] for s in op.specs):
        raise Unsupported

    def emit(b: Any, first: Any, *others: Any) -> Any:
        for other in others:
            first = _add(b, first, other)
        return first

    return [op.map(emit, *op.inputs)]


def _neg(b: Any, x: Any) -> Any:
    return b.neg(x) if isinstance(x.type, ir.IntType) else b.fneg(x)


def _intrinsic(name: str) -> Callable[..., Any]:
    def emit(b: Any, x: Any) -> Any:
        return b.call(b.module.declare_intrinsic(name, [x.type], ir.FunctionType(x.type, [x.type])), [x])

    return emit


_sqrt = _intrinsic("llvm.sqrt")


def _rsqrt(b: Any, x: Any) -> Any:
    return b.fdiv(ir.Constant(x.type, 1.0), _sqrt(b, x))


def _relu(b: Any, x: Any) -> Any:
    return _larger(">=")(b, x, ir.Constant(x.type, 0.0))


def _reciprocal(b: Any, x: Any) -> Any:
    return b.fdiv(ir.Constant(x.type, 1.0), x)


_UNARY: dict[str, tuple[Callable[..., Any], frozenset[str]]] = {
    "Neg": (_neg, _NUMBERS),
    "Square": (lambda b, x: _mul(b, x, x), _NUMBERS),
    "Sqrt": (_sqrt, _FLOATS),
    "Rsqrt": (_rsqrt, _FLOATS),
    "Abs": (_intrinsic("llvm.fabs"), _FLOATS),
    "Relu": (_relu, _FLOATS),
    "Reciprocal": (_reciprocal, _FLOATS),
    "Inv": (_reciprocal, _FLOATS),
    "ZerosLike": (lambda b, x: ir.Constant(x.type, 0 if isinstance(x.type, ir.IntType) else 0.0), _NUMBERS),
    "OnesLike": (lambda b, x: ir.Constant(x.type, 1 if isinstance(x.type, ir.IntType) else 1.0), _NUMBERS),
}
_SINGLE = frozenset(["f4"])
_TRANSCENDENT: dict[str, Callable[..., Any]] = {
    "Exp": scalars.exp,
    "Log": scalars.log,
    "Log1p": scalars.log1p,
    "Tanh": scalars.tanh,
    "Sigmoid": scalars.sigmoid,
    "Softplus": scalars.softplus,
}


@lowers(*_UNARY)
def _unary(op: Op) -> list[Value]:
    emit, kinds = _UNARY[op.node.op]
    _need(op.kind, kinds)
    return [op.map(emit, *op.inputs)]


@lowers(*_TRANSCENDENT, heavy=True)
def _transcendent(op: Op) -> list[Value]:
    _need(op.kind, _SINGLE)
    return [op.map(_TRANSCENDENT[op.node.op], *op.inputs)]


@lowers("Pow")
def _pow(op: Op) -> list[Value]:
    exponent = op.fixed(1)
    _need(op.kind)
    if exponent.size != 1 or exponent.item() not in (2.0, 3.0, 0.5) or op.specs[0].shape != op.shape:
        raise Unsupported
    if exponent.item() == 0.5:
        return [op.map(_sqrt, op.inputs[0])]
    cubed = exponent.item() == 3.0
    return [op.map(lambda b, x: b.fmul(b.fmul(x, x), x) if cubed else b.fmul(x, x), op.inputs[0])]


@lowers("Cast")
def _cast(op: Op) -> list[Value]:
    before, after = kind_of(op.specs[0]), op.kind
    target = _ELEMENTS[after]
    if before == after:
        return [op.map(lambda b, x: x, *op.inputs)]

    def emit(b: Any, x: Any) -> Any:
        if before == "b1":
            return b.uitofp(x, target) if after in _FLOATS else b.zext(x, target)
        if before in _FLOATS:
            return b.fpext(x, target) if before == "f4" else b.fptrunc(x, target)
        if after in _FLOATS:
            return b.sitofp(x, target)
        return b.sext(x, target) if before == "i4" else b.trunc(x, target)

    # From a fraction to a whole number: what does not fit is the processor's choice, which numpy's kernel follows.
    if after == "b1" or (before in _FLOATS and after not in _FLOATS):
        raise Unsupported
    return [op.map(emit, *op.inputs)]


# Gradients ----------------------------------------------------------------------------------------------------------


def _gradient(name: str, heavy: bool = False) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def add(emit: Callable[..., Any]) -> Callable[..., Any]:
        @lowers(name, heavy=heavy)
        def _lower(op: Op) -> list[Value]:
            _need(op.kind, _SINGLE if name == "SoftplusGrad" else _FLOATS)
            if op.specs[0].shape != op.specs[1].shape:
                raise Unsupported
            return [op.map(emit, *op.inputs)]

        return emit

    return add


@_gradient("TanhGrad", heavy=True)
def _tanh_grad(b: Any, y: Any, g: Any) -> Any:
    return b.fmul(g, b.fsub(ir.Constant(y.type, 1.0), b.fmul(y, y)))


@_gradient("SigmoidGrad", heavy=True)
def _sigmoid_grad(b: Any, y: Any, g: Any) -> Any:
    return b.fmul(b.fmul(g, y), b.fsub(ir.Constant(y.type, 1.0), y))


@_gradient("ReluGrad")
def _relu_grad(b: Any, g: Any, x: Any) -> Any:
    zero = ir.Constant(x.type, 0.0)
    return b.fmul(g, b.select(b.fcmp_ordered(">", x, zero), ir.Constant(x.type, 1.0), zero))


@_gradient("RsqrtGrad", heavy=True)
def _rsqrt_grad(b: Any, y: Any, g: Any) -> Any:
    scaled = b.fmul(ir.Constant(y.type, -0.5), g)
    return b.fmul(b.fmul(b.fmul(scaled, y), y), y)


@_gradient("SqrtGrad")
def _sqrt_grad(b: Any, y: Any, g: Any) -> Any:
    return b.fdiv(b.fmul(ir.Constant(y.type, 0.5), g), y)


@_gradient("ReciprocalGrad")
@_gradient("InvGrad")
def _reciprocal_grad(b: Any, y: Any, g: Any) -> Any:
    return b.fmul(b.fmul(b.fneg(g), y), y)


@_gradient("SoftplusGrad", heavy=True)
def _softplus_grad(b: Any, g: Any, x: Any) -> Any:
    return b.fmul(g, scalars.sigmoid(b, x))


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
    name, shape = op.node.op, op.specs[0].shape
    _need(op.kind, _NUMBERS if name == "Sum" else _FLOATS)
    axes = op.axes(1, len(shape))
    if not axes or 0 in shape:
        return [op.loops.reshape(op.map(_itself, op.inputs[0]), op.shape)] if 0 not in shape else _unsupported()
    made: Value = _reduced(op, _REDUCTIONS[name], op.inputs[0], shape, axes)
    if name == "Mean":
        count = ir.Constant(_ELEMENTS[op.kind], float(prod(shape[n] for n in axes)))
        made = op.loops.map(lambda b, x: b.fdiv(x, count), [made], op.kind, made.shape)
    return [op.loops.reshape(made, op.shape)]


def _unsupported() -> list[Value]:
    raise Unsupported


@lowers("BiasAddGrad", heavy=True)
def _bias_add_grad(op: Op) -> list[Value]:
    shape = op.specs[0].shape
    if op.node.text_attr("data_format", "NHWC") != "NHWC" or len(shape) < 2:
        raise Unsupported
    _need(op.kind)
    return [op.loops.reshape(_reduced(op, "sum", op.inputs[0], shape, range(len(shape) - 1)), op.shape)]


@lowers("L2Loss", heavy=True)
def _l2_loss(op: Op) -> list[Value]:
    _need(op.kind)
    shape = op.specs[0].shape
    total = op.loops.reduce("sum", lambda b, x: b.fmul(x, x), [_view(op.inputs[0])], shape, range(len(shape)))
    half = op.loops.map(lambda b, x: b.fmul(x, ir.Constant(x.type, 0.5)), [total], op.kind, total.shape)
    return [op.loops.reshape(half, ())]


def _view(value: Value) -> View:
    if not isinstance(value, View):
        raise Unsupported
    return value


def _shifted(op: Op, logits: Value) -> tuple[Value, View]:
    """Exponents of rows, their largest subtracted, and their sums."""
    shape, kind = op.specs[0].shape, "f4"
    axis = [len(shape) - 1]
    most = _reduced(op, "max", logits, shape, axis)
    shifted = op.loops.map(_sub, [logits, most], kind, shape)
    return shifted, op.loops.reduce("sum", scalars.exp, [shifted], shape, axis)


@lowers("Softmax", "LogSoftmax", heavy=True)
def _softmax(op: Op) -> list[Value]:
    _need(op.kind, _SINGLE)
    if not op.shape or 0 in op.shape:
        raise Unsupported
    if op.node.op == "LogSoftmax":
        shifted, total = _shifted(op, op.inputs[0])
        return [op.map(_sub, shifted, op.loops.map(scalars.log, [total], op.kind, total.shape))]
    axis = [len(op.shape) - 1]
    most = _reduced(op, "max", op.inputs[0], op.shape, axis)
    powers = op.loops.map(lambda b, x, m: scalars.exp(b, b.fsub(x, m)), [op.inputs[0], most], op.kind, op.shape)
    return [op.map(_div, powers, _reduced(op, "sum", powers, op.shape, axis))]


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
    x = _view(op.inputs[0])
    return [View(x.buffer, op.shape, tuple(x.strides[n] for n in order), x.offset)]


@lowers("BroadcastTo", "Fill")
def _broadcast(op: Op) -> list[Value]:
    x = op.inputs[1 if op.node.op == "Fill" else 0]
    return [Number(x.value, op.shape) if isinstance(x, Number) else x.broadcast(op.shape)]


@lowers("Tile")
def _tile(op: Op) -> list[Value]:
    shape, times = op.specs[0].shape, [int(n) for n in op.fixed(1).reshape(-1)]
    if any(n != 1 and size != 1 for n, size in zip(times, shape)):
        raise Unsupported
    return [_view(op.inputs[0]).broadcast(op.shape)]


def _part(x: View, begin: Sequence[int], shape: tuple[int, ...]) -> View:
    offset = x.offset + sum(n * s for n, s in zip(begin, x.strides))
    return View(x.buffer, shape, x.strides, offset)


@lowers("Slice")
def _slice(op: Op) -> list[Value]:
    return [_part(_view(op.inputs[0]), [int(n) for n in op.fixed(1).reshape(-1)], op.shape)]


@lowers("Split", "SplitV")
def _split(op: Op) -> list[Value]:
    by_sizes = op.node.op == "SplitV"
    x, shape = _view(op.inputs[0 if by_sizes else 1]), op.specs[0 if by_sizes else 1].shape
    axis = int(op.fixed(2 if by_sizes else 0)) % len(shape)
    parts: list[Value] = []
    at = 0
    for spec in op.outputs:
        parts.append(_part(x, [at if n == axis else 0 for n in range(len(shape))], spec.shape))
        at += spec.shape[axis]
    return parts


@lowers("ConcatV2", "Concat")
def _concat(op: Op) -> list[Value]:
    is_first = op.node.op == "Concat"
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
    axis = int(op.node.attr("axis") or 0) % len(op.shape)
    made = op.loops.room(op.kind, op.shape)
    shape = op.shape[:axis] + op.shape[axis + 1 :]
    strides = made.strides[:axis] + made.strides[axis + 1 :]
    for n, value in enumerate(op.inputs):
        op.loops.put_copy(value, View(made.buffer, shape, strides, n * made.strides[axis]))
    return [made]


@lowers("Unpack")
def _unpack(op: Op) -> list[Value]:
    x = _view(op.inputs[0])
    axis = int(op.node.attr("axis") or 0) % len(x.shape)
    strides = x.strides[:axis] + x.strides[axis + 1 :]
    return [View(x.buffer, s.shape, strides, x.offset + n * x.strides[axis]) for n, s in enumerate(op.outputs)]
