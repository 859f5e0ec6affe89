"""Ops that compute element by element, and their gradients, as loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from dtfctl.runtime.kernels.native import scalars
from dtfctl.runtime.kernels.native.lowering import ELEMENTS, FLOATS, NUMBERS, Op, kind_of, lowers, need, one
from dtfctl.runtime.kernels.native.nests import Unsupported, Value


def _add(b: Any, x: Any, y: Any) -> Any:
    return b.add(x, y) if isinstance(x.type, ir.IntType) else b.fadd(x, y)


def sub(b: Any, x: Any, y: Any) -> Any:
    return b.sub(x, y) if isinstance(x.type, ir.IntType) else b.fsub(x, y)


def mul(b: Any, x: Any, y: Any) -> Any:
    return b.mul(x, y) if isinstance(x.type, ir.IntType) else b.fmul(x, y)


def div(b: Any, x: Any, y: Any) -> Any:
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
    d = sub(b, x, y)
    return mul(b, d, d)


_BINARY: dict[str, tuple[Callable[..., Any], frozenset[str]]] = {
    "Add": (_add, NUMBERS),
    "AddV2": (_add, NUMBERS),
    "Sub": (sub, NUMBERS),
    "Mul": (mul, NUMBERS),
    "RealDiv": (div, FLOATS),
    "Div": (div, FLOATS),
    "Maximum": (_larger(">="), NUMBERS),
    "Minimum": (_larger("<="), NUMBERS),
    "SquaredDifference": (_squared_difference, NUMBERS),
}


@lowers(*_BINARY)
def _binary(op: Op) -> list[Value]:
    emit, kinds = _BINARY[op.name]
    need(op.kind, kinds)
    return [op.map(emit, *op.inputs)]


@lowers("BiasAdd")
def _bias_add(op: Op) -> list[Value]:
    if op.attr("data_format") != "NHWC":
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
    how = _COMPARISONS[op.name]
    need(kind_of(op.specs[0]), NUMBERS)
    return [op.map(lambda b, x, y: _compare(b, how, x, y), *op.inputs)]


@lowers("LogicalAnd", "LogicalOr", "LogicalNot")
def _logical(op: Op) -> list[Value]:
    name = op.name
    if name == "LogicalNot":
        return [op.map(lambda b, x: b.xor(x, ir.Constant(x.type, 1)), *op.inputs)]
    return [op.map(lambda b, x, y: (b.and_ if name == "LogicalAnd" else b.or_)(x, y), *op.inputs)]


@lowers("Select", "SelectV2")
def _select(op: Op) -> list[Value]:
    condition, then, otherwise = op.inputs
    shape = op.specs[0].shape
    if op.name == "Select" and shape != op.shape and shape:
        # It says of each row which one is taken.
        condition = op.loops.reshape(condition, (*shape, *(1,) * (len(op.shape) - len(shape))))
    return [op.map(lambda b, c, x, y: b.select(c, x, y), condition, then, otherwise)]


@lowers("AddN", "AccumulateNV2")
def _add_n(op: Op) -> list[Value]:
    need(op.kind, NUMBERS)
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


sqrt = _intrinsic("llvm.sqrt")


def _rsqrt(b: Any, x: Any) -> Any:
    return b.fdiv(ir.Constant(x.type, 1.0), sqrt(b, x))


def _relu(b: Any, x: Any) -> Any:
    return _larger(">=")(b, x, ir.Constant(x.type, 0.0))


def _reciprocal(b: Any, x: Any) -> Any:
    return b.fdiv(ir.Constant(x.type, 1.0), x)


_UNARY: dict[str, tuple[Callable[..., Any], frozenset[str]]] = {
    "Neg": (_neg, NUMBERS),
    "Square": (lambda b, x: mul(b, x, x), NUMBERS),
    "Sqrt": (sqrt, FLOATS),
    "Rsqrt": (_rsqrt, FLOATS),
    "Abs": (_intrinsic("llvm.fabs"), FLOATS),
    "Relu": (_relu, FLOATS),
    "Reciprocal": (_reciprocal, FLOATS),
    "Inv": (_reciprocal, FLOATS),
    "ZerosLike": (lambda b, x: ir.Constant(x.type, 0 if isinstance(x.type, ir.IntType) else 0.0), NUMBERS),
    "OnesLike": (lambda b, x: ir.Constant(x.type, 1 if isinstance(x.type, ir.IntType) else 1.0), NUMBERS),
}
SINGLE = frozenset(["f4"])
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
    emit, kinds = _UNARY[op.name]
    need(op.kind, kinds)
    return [op.map(emit, *op.inputs)]


@lowers(*_TRANSCENDENT, heavy=True)
def _transcendent(op: Op) -> list[Value]:
    need(op.kind, SINGLE)
    return [op.map(_TRANSCENDENT[op.name], *op.inputs)]


@lowers("Elu", heavy=True)
def _elu(op: Op) -> list[Value]:
    need(op.kind, SINGLE)

    def emit(b: Any, x: Any) -> Any:
        return b.select(b.fcmp_ordered("<", x, ir.Constant(x.type, 0.0)), scalars.expm1(b, x), x)

    return [op.map(emit, *op.inputs)]


@lowers("LeakyRelu")
def _leaky_relu(op: Op) -> list[Value]:
    need(op.kind)
    slope = one(op.kind, op.attr("alpha"))
    # The larger of the two, where a slope is at most one.
    if not 0 < op.attr("alpha") <= 1:
        raise Unsupported
    return [op.map(lambda b, x: _larger(">=")(b, x, b.fmul(x, slope)), *op.inputs)]


@lowers("LeakyReluGrad", heavy=True)
def _leaky_relu_grad(op: Op) -> list[Value]:
    need(op.kind)
    slope = one(op.kind, op.attr("alpha"))

    def emit(b: Any, g: Any, x: Any) -> Any:
        return b.select(b.fcmp_ordered(">", x, ir.Constant(x.type, 0.0)), g, b.fmul(g, slope))

    return [op.map(emit, *op.inputs)]


@lowers("Pow")
def _pow(op: Op) -> list[Value]:
    exponent = op.fixed(1)
    need(op.kind)
    if exponent.size != 1 or exponent.item() not in (2.0, 3.0, 0.5) or op.specs[0].shape != op.shape:
        raise Unsupported
    if exponent.item() == 0.5:
        return [op.map(sqrt, op.inputs[0])]
    cubed = exponent.item() == 3.0
    return [op.map(lambda b, x: b.fmul(b.fmul(x, x), x) if cubed else b.fmul(x, x), op.inputs[0])]


@lowers("Cast")
def _cast(op: Op) -> list[Value]:
    before, after = kind_of(op.specs[0]), op.kind
    target = ELEMENTS[after]
    if before == after:
        return [op.map(lambda b, x: x, *op.inputs)]

    def emit(b: Any, x: Any) -> Any:
        if before == "b1":
            return b.uitofp(x, target) if after in FLOATS else b.zext(x, target)
        if before in FLOATS:
            return b.fpext(x, target) if before == "f4" else b.fptrunc(x, target)
        if after in FLOATS:
            return b.sitofp(x, target)
        return b.sext(x, target) if before == "i4" else b.trunc(x, target)

    # From a fraction to a whole number: what does not fit is the processor's choice, which numpy's kernel follows.
    if after == "b1" or (before in FLOATS and after not in FLOATS):
        raise Unsupported
    return [op.map(emit, *op.inputs)]


# Gradients ----------------------------------------------------------------------------------------------------------


def _gradient(name: str, heavy: bool = False) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def add(emit: Callable[..., Any]) -> Callable[..., Any]:
        @lowers(name, heavy=heavy)
        def _lower(op: Op) -> list[Value]:
            need(op.kind, SINGLE if name == "SoftplusGrad" else FLOATS)
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


@_gradient("EluGrad", heavy=True)
def _elu_grad(b: Any, g: Any, y: Any) -> Any:
    below = b.fmul(b.fadd(y, ir.Constant(y.type, 1.0)), g)
    return b.select(b.fcmp_ordered("<", y, ir.Constant(y.type, 0.0)), below, g)


@_gradient("Relu6Grad", heavy=True)
def _relu6_grad(b: Any, g: Any, x: Any) -> Any:
    zero, one = ir.Constant(x.type, 0.0), ir.Constant(x.type, 1.0)
    within = b.and_(b.fcmp_ordered(">", x, zero), b.fcmp_ordered("<", x, ir.Constant(x.type, 6.0)))
    return b.fmul(g, b.select(within, one, zero))


@_gradient("RsqrtGrad", heavy=True)
def _rsqrt_grad(b: Any, y: Any, g: Any) -> Any:
    scaled = b.fmul(ir.Constant(y.type, -0.5), g)
    return _of_zero_zero(b, g, b.fmul(b.fmul(b.fmul(scaled, y), y), y))


@_gradient("SqrtGrad")
def _sqrt_grad(b: Any, y: Any, g: Any) -> Any:
    return _of_zero_zero(b, g, b.fdiv(b.fmul(ir.Constant(y.type, 0.5), g), y))


@_gradient("ReciprocalGrad")
@_gradient("InvGrad")
def _reciprocal_grad(b: Any, y: Any, g: Any) -> Any:
    return _of_zero_zero(b, g, b.fmul(b.fmul(b.fneg(g), y), y))


def _of_zero_zero(b: Any, g: Any, slope: Any) -> Any:
    """Give 0 where the incoming gradient is 0, at a pole too."""
    zero = ir.Constant(g.type, 0.0)
    return b.select(b.fcmp_ordered("==", g, zero), zero, slope)


@_gradient("SoftplusGrad", heavy=True)
def _softplus_grad(b: Any, g: Any, x: Any) -> Any:
    return b.fmul(g, scalars.sigmoid(b, x))
