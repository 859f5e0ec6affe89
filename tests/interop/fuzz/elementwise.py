"""Functions of each element, with broadcasting, and comparisons."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from tests.interop.fuzz.program import FLOATS, INTS, Program, Skip, Value

ANYWHERE = [
    "tanh",
    "sigmoid",
    "abs",
    "square",
    "negative",
    "sin",
    "cos",
    "exp",
    "identity",
    "stop_gradient",
    "zeros_like",
    "ones_like",
    "sinh",
    "cosh",
    "atan",
    "asinh",
    "erf",
    "erfc",
    "expm1",
    "math.softplus",
    "nn.softplus",
    "nn.elu",
    "nn.selu",
    "nn.softsign",
    "nn.swish",
    "nn.silu",
    "nn.tanh",
    "nn.sigmoid",
    "math.bessel_i0e",
    "math.bessel_i1e",
    "math.bessel_i0",
    "math.bessel_i1",
    "log_sigmoid",
    "is_finite",
    "is_nan",
    "is_inf",
    "math.sigmoid",
]
STEPS = ["floor", "ceil", "round", "rint", "sign", "nn.relu", "nn.relu6", "nn.leaky_relu", "to_int32", "to_int64"]
POSITIVE = ["sqrt", "rsqrt", "log", "lgamma", "digamma", "reciprocal", "math.reciprocal_no_nan", "math.log1p", "acosh"]
WITHIN = ["asin", "acos", "atanh", "math.ndtri", "erfinv", "tan"]
DOUBLE = ["add", "subtract", "multiply", "maximum", "minimum", "squared_difference", "math.divide_no_nan", "atan2"]
SAFE = ["divide", "truediv", "div", "realdiv", "floordiv", "floormod", "mod", "xlogy", "xdivy", "pow", "igamma"]


def function(tf: Any, path: str) -> Any:
    """`nn.relu` of `tf`."""
    for part in path.split("."):
        tf = getattr(tf, part)
    return tf


def result_dtype(name: str, dtype: str) -> str:
    if name in ("is_finite", "is_nan", "is_inf"):
        return "bool"
    return {"to_int32": "int32", "to_int64": "int64"}.get(name, dtype)


def unary(p: Program) -> None:
    a = p.pick(FLOATS)
    kind = p.rng.randrange(4)
    names = (ANYWHERE, STEPS, POSITIVE, WITHIN)[kind]
    name = p.some(*names)
    if name == "erfinv":
        name = "math.erfinv"
    if name == "log_sigmoid":
        name = "math.log_sigmoid"
    x = (
        (lambda: p.calm(a.tensor)),
        (lambda: p.calm(p.off(a))),
        (lambda: p.tf.abs(p.calm(a.tensor)) + 1.1),
        (lambda: p.tf.tanh(a.tensor) * 0.8),
    )[kind]()
    if name in ("math.ndtri",):
        x = p.tf.abs(x) + 0.05
    p.keep(f"{name} {a.dtype}{list(a.shape)}", function(p.tf, name)(x), a.shape, result_dtype(name, a.dtype))


def unary_of_ints(p: Program) -> None:
    a = p.pick(INTS)
    name = p.some("abs", "negative", "square", "sign", "bitwise.invert", "identity", "zeros_like", "ones_like")
    x = p.tf.floormod(a.tensor, 17)
    p.keep(f"{name} {a.dtype}", function(p.tf, name)(x), a.shape, a.dtype)


def beside(p: Program, a: Value, dtype: str | None = None) -> Value:
    """Another value that `a` can be broadcast with."""
    dtype = dtype or a.dtype
    same = [v for v in p.values if v.dtype == dtype and v.shape == a.shape]
    if same and p.rng.random() < 0.6:
        return p.some(*same)
    wider = [v for v in p.values if v.dtype == dtype and _fits(v.shape, a.shape)]
    if wider and p.rng.random() < 0.8:
        return p.some(*wider)
    shape = [p.some(n, n, 1) for n in a.shape][p.rng.randint(0, 1 if a.rank > 1 else 0) :]
    return p.constant(tuple(shape), dtype)


def _fits(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    try:
        return int(np.prod(np.broadcast_shapes(a, b))) <= 400
    except ValueError:
        return False


def binary(p: Program) -> None:
    a = p.pick(FLOATS)
    b = beside(p, a)
    shape = np.broadcast_shapes(a.shape, b.shape)
    if p.rng.random() < 0.5:
        name = p.some(*DOUBLE)
        made = function(p.tf, name)(p.calm(a.tensor), p.calm(b.tensor))
    else:
        name = p.some(*SAFE)
        first = p.calm(p.off(a))
        if name in ("pow", "xlogy", "xdivy", "igamma"):
            first = p.tf.abs(first) + 0.1
        name = {"xlogy": "math.xlogy", "xdivy": "math.xdivy", "igamma": "math.igamma"}.get(name, name)
        made = function(p.tf, name)(first, p.tf.abs(p.calm(b.tensor)) + 0.7)
    p.keep(f"{name} {a.dtype} {a.shape} {b.shape}", made, shape, a.dtype)


def operators(p: Program) -> None:
    """Python's operators, with tensors, numbers and arrays on either side."""
    a = p.pick((*FLOATS, *INTS))
    name = p.some("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lt", "le", "gt", "ge", "neg", "abs")
    operate = getattr(operator, name)
    floating = a.dtype in FLOATS
    x = p.calm(p.off(a)) if floating else p.tf.floormod(a.tensor, 7)
    dtype = "bool" if name in ("lt", "le", "gt", "ge") else a.dtype
    if name == "truediv" and a.dtype in INTS:
        dtype = "float64"
    if name in ("neg", "abs"):
        p.keep(f"{name}(x) {a.dtype}", operate(x), a.shape, dtype)
        return
    number: Any = p.some(1.3, 2.0, 0.7, 3) if floating else p.some(1, 2, 3)
    if p.rng.random() < 0.2:
        number = np.full(a.shape[-1:], number, a.dtype)
    if p.rng.random() < 0.3 and name != "pow":
        x = p.tf.abs(x) + (p.tf.cast(1, a.dtype))
        p.keep(f"{number} {name} x {a.dtype}", operate(number, x), a.shape, dtype)
    else:
        if name == "pow":
            x = p.tf.abs(x) + p.tf.cast(1, a.dtype)
        p.keep(f"x {name} {number} {a.dtype}", operate(x, number), a.shape, dtype)


def binary_of_ints(p: Program) -> None:
    a = p.pick(INTS)
    b = beside(p, a)
    name = p.some(
        "add",
        "subtract",
        "maximum",
        "minimum",
        "multiply",
        "floordiv",
        "floormod",
        "truncatediv",
        "truncatemod",
        "bitwise.bitwise_and",
        "bitwise.bitwise_or",
        "bitwise.bitwise_xor",
        "bitwise.left_shift",
        "truediv",
        "div",
        "mod",
    )
    x, y = p.tf.floormod(a.tensor, 13), p.tf.floormod(b.tensor, 5) + p.tf.cast(1, b.dtype)
    if not name.startswith("bitwise"):
        x = x - p.tf.cast(6, a.dtype)
    shape = np.broadcast_shapes(a.shape, b.shape)
    p.keep(f"{name} {a.dtype}", function(p.tf, name)(x, y), shape, "float64" if name == "truediv" else a.dtype)


def compared(p: Program) -> None:
    a = p.pick((*FLOATS, *INTS))
    b = beside(p, a)
    name = p.some("less", "less_equal", "greater", "greater_equal", "equal", "not_equal")
    x = p.off(a) if a.dtype in FLOATS else a.tensor
    shape = np.broadcast_shapes(a.shape, b.shape)
    p.keep(f"{name} {a.dtype} {a.shape} {b.shape}", getattr(p.tf, name)(x, b.tensor), shape, "bool")


def logical(p: Program) -> None:
    a = p.pick(("bool",))
    b = beside(p, a)
    shape = np.broadcast_shapes(a.shape, b.shape)
    x, y = a.tensor, b.tensor
    name = p.some("logical_and", "logical_or", "logical_xor", "and", "or", "xor", "not", "logical_not")
    if name in ("not", "logical_not"):
        p.keep(name, ~x if name == "not" else p.tf.logical_not(x), a.shape, "bool")
    elif name.startswith("logical"):
        p.keep(name, getattr(p.tf, name)(x, y), shape, "bool")
    else:
        p.keep(name, {"and": operator.and_, "or": operator.or_, "xor": operator.xor}[name](x, y), shape, "bool")


def cast(p: Program) -> None:
    a = p.pick((*FLOATS, *INTS, "bool"))
    to = p.some(*FLOATS, *INTS, "bool", "float16", "uint8", "complex64")
    x = p.calm(p.off(a)) if a.dtype in FLOATS else a.tensor
    if to == "uint8":
        x = p.tf.abs(p.tf.cast(x, "int32"))
    how = p.some("cast", "saturate_cast")
    if a.dtype not in FLOATS or to not in (*INTS, "uint8"):
        how = "cast"
    made = getattr(p.tf, how)(x, to if p.rng.random() < 0.5 else p.tf.as_dtype(to))
    if to in ("float16", "uint8", "complex64"):
        p.note(f"{how} {a.dtype} to {to}", made)
    else:
        p.keep(f"{how} {a.dtype} to {to}", made, a.shape, to)


def chosen(p: Program) -> None:
    """Elements of two tensors by a condition."""
    a = p.pick((*FLOATS, *INTS))
    b = Value(*_same(p, a))
    how = p.some("where", "where_v2", "compat", "row")
    if how == "row":
        if not a.rank:
            raise Skip
        condition = p.constant(a.shape[:1], "bool")
        p.keep("where by rows", p.tf.where(condition.tensor, a.tensor, b.tensor), a.shape, a.dtype)
        return
    condition = beside(p, a, "bool") if how == "where_v2" else Value(*_same(p, a, "bool"))
    shape = np.broadcast_shapes(condition.shape, a.shape)
    call = p.tf.where_v2 if how == "where_v2" else p.tf.where
    p.keep(f"{how} {condition.shape} {a.shape}", call(condition.tensor, a.tensor, b.tensor), shape, a.dtype)


def _same(p: Program, a: Value, dtype: str | None = None) -> tuple[Any, tuple[int, ...], str]:
    dtype = dtype or a.dtype
    same = [v for v in p.values if v.dtype == dtype and v.shape == a.shape]
    value = p.some(*same) if same and p.rng.random() < 0.8 else p.constant(a.shape, dtype)
    return value.tensor, value.shape, value.dtype


def several(p: Program) -> None:
    """Sums of several, clips, and other functions with limits."""
    a = p.pick(FLOATS)
    others = [Value(*_same(p, a)).tensor for _ in range(p.rng.randint(1, 3))]
    kind = p.rng.randrange(7)
    if kind == 0:
        p.keep("add_n", p.tf.add_n([a.tensor, *others]), a.shape, a.dtype)
    elif kind == 1:
        p.keep("accumulate_n", p.tf.accumulate_n([a.tensor, *others]), a.shape, a.dtype)
    elif kind == 2:
        p.keep("clip_by_value", p.tf.clip_by_value(p.off(a), -0.51, 0.77), a.shape, a.dtype)
    elif kind == 3:
        p.keep(
            "clip_by_norm",
            p.tf.clip_by_norm(a.tensor, 1.3, axes=p.some(None, [0]) if a.rank else None),
            a.shape,
            a.dtype,
        )
    elif kind == 4:
        made, norm = p.tf.clip_by_global_norm([a.tensor, *others], 2.3)
        p.keep("clip_by_global_norm", made[0], a.shape, a.dtype)
        p.note("global_norm", norm)
    elif kind == 5:
        p.keep("scalar_mul", p.tf.scalar_mul(0.3, a.tensor), a.shape, a.dtype)
    else:
        if a.dtype != "float32":
            raise Skip
        p.keep("clip_by_average_norm", p.tf.clip_by_average_norm(a.tensor, 0.9), a.shape, a.dtype)


MAKERS = [unary, unary, unary, unary_of_ints, binary, binary, binary, operators, operators, binary_of_ints, compared,
          logical, cast, chosen, several]  # fmt: skip
