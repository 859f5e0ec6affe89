"""How many operations with floats a node takes, by the shapes of its inputs and outputs; as TensorFlow counts."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dtfctl.runtime.framework.tensor_shape import TensorShape

_OF_INPUT = {"Reciprocal": 1, "Square": 1, "Rsqrt": 2, "Log": 1, "Neg": 1, "Softmax": 5}
_OF_INPUT |= {"AssignSub": 1, "AssignAdd": 1}
_OF_OUTPUT = dict.fromkeys(["Add", "AddV2", "Sub", "Mul", "RealDiv", "Maximum", "Minimum", "Pow", "BiasAdd"], 1)
_OF_OUTPUT |= dict.fromkeys(["GreaterEqual", "Greater", "LessEqual", "Less", "Equal", "NotEqual"], 1)
_OF_OUTPUT |= {"RsqrtGrad": 4, "SquaredDifference": 2}
_REDUCTIONS = frozenset(("Sum", "ArgMax", "ArgMin", "BiasAddGrad"))


def float_ops(
    op: str, inputs: Sequence[TensorShape], outputs: Sequence[TensorShape], attr: Callable[[str], Any]
) -> int:
    """Count; 0 where the op has none, or a shape that is needed is not known.

    Args:
        attr: gives an attribute of the node.
    """
    shapes = _Shapes(inputs, outputs, attr)
    try:
        if op in _OF_INPUT:
            return _OF_INPUT[op] * math.prod(shapes.input(0))
        if op in _OF_OUTPUT:
            return _OF_OUTPUT[op] * math.prod(shapes.output)
        if op in _REDUCTIONS:
            return max(math.prod(shapes.input(0)) - math.prod(shapes.output), 0)
        return _OTHERS[op](shapes) if op in _OTHERS else 0
    except _Unknown:
        return 0


class _Unknown(Exception):
    """A shape that is not known in full, or a layout that is not counted."""


class _Shapes:
    def __init__(
        self, inputs: Sequence[TensorShape], outputs: Sequence[TensorShape], attr: Callable[[str], Any]
    ) -> None:
        self._inputs, self._outputs, self.attr = inputs, outputs, attr

    def input(self, place: int) -> Sequence[int]:
        return _known(self._inputs, place)

    def dim(self, place: int, axis: int) -> int:
        """Read one size of an input; the others may be unknown, as that of a batch that is fed."""
        shape = self._inputs[place] if place < len(self._inputs) else TensorShape(None)
        size = None if shape.rank is None or shape.rank < -axis else shape.as_list()[axis]
        if size is None:
            raise _Unknown
        return int(size)

    @property
    def count(self) -> int:
        return len(self._inputs)

    @property
    def output(self) -> Sequence[int]:
        return _known(self._outputs, 0)

    def sizes(self, name: str) -> list[int]:
        """Read a window or stride, which is counted only where channels are last."""
        if self.attr("data_format") not in (None, b"NHWC", "NHWC"):
            raise _Unknown
        return [int(size) for size in self.attr(name)]


def _known(shapes: Sequence[TensorShape], place: int) -> Sequence[int]:
    if place >= len(shapes) or not shapes[place].is_fully_defined():
        raise _Unknown
    return shapes[place].known()


def _product(shapes: _Shapes, transposed: str) -> int:
    return 2 * math.prod(shapes.output) * shapes.dim(0, -2 if shapes.attr(transposed) else -1)


def _pool(shapes: _Shapes) -> int:
    return math.prod(shapes.sizes("ksize")) * math.prod(shapes.output)


def _max_pool_gradient(shapes: _Shapes) -> int:
    return (math.prod(shapes.sizes("ksize")) + 1) * math.prod(shapes.input(1))


def _average_pool_gradient(shapes: _Shapes) -> int:
    return 2 * math.prod(shapes.sizes("ksize")) * math.prod(shapes.input(1))


def _convolution_gradient(image: Sequence[int], window: Sequence[int], shapes: _Shapes) -> int:
    strides = shapes.sizes("strides")
    return 2 * math.prod(image) * math.prod(window) // max(image[-1] * strides[1] * strides[2], 1)


_OTHERS: Mapping[str, Callable[[_Shapes], int]] = {
    "MatMul": lambda s: _product(s, "transpose_a"),
    "BatchMatMul": lambda s: _product(s, "adj_x"),
    "BatchMatMulV2": lambda s: _product(s, "adj_x"),
    "L2Loss": lambda s: 3 * math.prod(s.input(0)) - 1,
    "Mean": lambda s: math.prod(s.input(0)),
    "AddN": lambda s: math.prod(s.input(0)) * (s.count - 1),
    "AvgPool": _pool,
    "MaxPool": _pool,
    "AvgPoolGrad": _average_pool_gradient,
    "MaxPoolGrad": _max_pool_gradient,
    "Conv2D": lambda s: 2 * math.prod(s.output) * math.prod(s.input(1)[:-1]),
    "Conv3D": lambda s: 2 * math.prod(s.output) * math.prod(s.input(1)[:-1]),
    "DepthwiseConv2dNative": lambda s: 2 * math.prod(s.output) * math.prod(s.input(1)[:2]),
    "Conv2DBackpropInput": lambda s: _convolution_gradient(s.output, s.input(1), s),
    "Conv2DBackpropFilter": lambda s: _convolution_gradient(s.input(0), s.output, s),
}
