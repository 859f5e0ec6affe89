"""Ops that work element by element, into given arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfctl.runtime.kernels.into.registry import Into, Spec, makes
from dtfctl.runtime.kernels.registry import KernelBuild

_NATIVE = frozenset(["f4", "f8", "i4", "i8"])
_FLOATS = frozenset(["f4", "f8"])
_BINARY: dict[str, Any] = {
    "Add": np.add,
    "AddV2": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Maximum": lambda x, y, out: np.maximum(x, y, out=out),
    "Minimum": lambda x, y, out: np.minimum(x, y, out=out),
}
_UNARY = {"Square": np.square, "Neg": np.negative}
_UNARY_FLOAT = {
    "Exp": np.exp,
    "Log": np.log,
    "Log1p": np.log1p,
    "Expm1": np.expm1,
    "Sqrt": np.sqrt,
    "Tanh": np.tanh,
    "Sin": np.sin,
    "Cos": np.cos,
}


# Of two numbers, and what is no number where one of them is none.
_LARGER = "{0} if ({0} >= {1}) | ({0} != {0}) else {1}"
_FORMULAS = {
    "Add": "{0} + {1}",
    "AddV2": "{0} + {1}",
    "Sub": "{0} - {1}",
    "Mul": "{0} * {1}",
    "RealDiv": "{0} / {1}",
    "Div": "{0} / {1}",
    "Maximum": _LARGER,
    "Minimum": _LARGER.replace(">=", "<="),
    "Square": "{0} * {0}",
    "Neg": "-{0}",
    "Sqrt": "np.sqrt({0})",
}


def is_native(spec: Spec | None, kinds: frozenset[str] = _NATIVE) -> bool:
    """Tell whether an array is of a type BLAS and loops deal with as it is."""
    return spec is not None and spec.dtype.isnative and spec.dtype.str[1:] in kinds


def is_float(spec: Spec | None) -> bool:
    return is_native(spec, _FLOATS)


@makes(*_BINARY, "RealDiv", "Div", widened=True)
def _binary(k: KernelBuild, inputs: list[Any], outputs: list[Spec]) -> Into | None:
    op = k.node.op
    if not all(map(is_native, inputs)) or (op in ("RealDiv", "Div") and not is_float(outputs[0])):
        return None
    return Into(_BINARY.get(op, np.true_divide), in_place=(0, 1), by_rows=True, formula=_FORMULAS[op])


@makes("AddN", "AccumulateNV2", widened=True)
def _add_n(k: KernelBuild, inputs: list[Any], outputs: list[Spec]) -> Into | None:
    if len(inputs) < 2 or not all(map(is_native, inputs)) or any(x != outputs[0] for x in inputs):
        return None
    return Into(_sum, in_place=(0,), by_rows=True, formula=formula_of_sum(len(inputs)))


def formula_of_sum(count: int) -> str:
    return " + ".join(f"{{{n}}}" for n in range(count))


def _sum(*xs: Any) -> None:
    *terms, out = xs
    np.add(terms[0], terms[1], out)
    for x in terms[2:]:
        np.add(out, x, out)


@makes(*_UNARY, *_UNARY_FLOAT, widened=True)
def _unary(k: KernelBuild, inputs: list[Any], outputs: list[Spec]) -> Into | None:
    op = k.node.op
    if not (is_native(inputs[0]) if op in _UNARY else is_float(inputs[0])):
        return None
    call = _UNARY.get(op) or _UNARY_FLOAT[op]
    return Into(call, in_place=(0,), by_rows=True, formula=_FORMULAS.get(op, ""))


@makes("BiasAdd", widened=True)
def _bias_add(k: KernelBuild, inputs: list[Any], outputs: list[Spec]) -> Into | None:
    if not all(map(is_native, inputs)) or k.text_attr("data_format", "NHWC") != "NHWC":
        return None
    if inputs[0].shape[-1:] != inputs[1].shape:
        return None
    return Into(np.add, in_place=(0,), by_rows=True, formula=_FORMULAS["Add"])


@makes("Relu", widened=True)
def _relu(k: KernelBuild, inputs: list[Any], outputs: list[Spec]) -> Into | None:
    if not is_float(inputs[0]):
        return None
    # numpy's maximum of an array and one number takes two to three times as long as clipping it on both sides.
    bounds = np.zeros((), inputs[0].dtype), np.full((), np.inf, inputs[0].dtype)
    formula = _LARGER.replace("{1}", "zero")
    return Into(np.ndarray.clip, extras=bounds, in_place=(0,), by_rows=True, formula=formula)


@makes("ReluGrad", widened=True)
def _relu_grad(k: KernelBuild, inputs: list[Any], outputs: list[Spec]) -> Into | None:
    g, x = inputs
    if not is_float(g) or not is_float(x) or g.shape != x.shape:
        return None
    mask = Spec(x.shape, np.dtype(bool))
    return Into(_relu_gradient, scratch=(mask,), in_place=(0, 1), by_rows=True, formula=_RELU_GRADIENT)


_RELU_GRADIENT = "{0} * (one if {1} > zero else zero)"


def flat(x: Any) -> Any:
    """Make an array a contiguous vector; it keeps its own memory if it is contiguous."""
    return np.ascontiguousarray(x).reshape(-1)


def _relu_gradient(g: Any, x: Any, out: Any, mask: Any) -> None:
    np.greater(x, 0, mask)
    np.multiply(g, mask, out)


@makes("TanhGrad", "SigmoidGrad", widened=True)
def _activation_grad(k: KernelBuild, inputs: list[Any], outputs: list[Spec]) -> Into | None:
    y, g = inputs
    if not is_float(y) or not is_float(g) or y.shape != g.shape:
        return None
    if k.node.op == "TanhGrad":
        return Into(_tanh_gradient, scratch=(y,), in_place=(1,), by_rows=True, formula="{1} * (one - {0} * {0})")
    return Into(_sigmoid_gradient, scratch=(y,), in_place=(1,), by_rows=True, formula="{1} * {0} * (one - {0})")


def _tanh_gradient(y: Any, g: Any, out: Any, scratch: Any) -> None:
    np.multiply(y, y, scratch)
    np.subtract(1, scratch, scratch)
    np.multiply(g, scratch, out)


def _sigmoid_gradient(y: Any, g: Any, out: Any, scratch: Any) -> None:
    np.subtract(1, y, scratch)
    np.multiply(g, y, out)
    np.multiply(out, scratch, out)
