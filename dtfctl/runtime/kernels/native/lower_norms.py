"""Batch normalization and its gradient as loops: what comes before and after, as a rectifier, shares them.

Formulas are those of kernels/nn/normalization.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from llvmlite import ir

from dtfctl.runtime.kernels.native.lower_elements import SINGLE, div, mul, sqrt
from dtfctl.runtime.kernels.native.lowering import ELEMENTS, Op, lowers, need, one
from dtfctl.runtime.kernels.native.nests import Number, Unsupported, Value, View

_KIND = "f4"


def _number(value: float) -> Number:
    return Number(ir.Constant(ELEMENTS[_KIND], float(np.float32(value))))


def _check(op: Op, x: tuple[int, ...], vectors: Sequence[int]) -> None:
    """Check that data have channels last, and vectors an element for each.

    Raises:
        Unsupported: it is not so, and for the kernel to say what is wrong.
    """
    need(op.kind, SINGLE)
    layouts = {4: "NHWC", 5: "NDHWC"} if op.name.endswith("V3") else {4: "NHWC"}
    # As the attribute's default is that of four dimensions.
    if op.attr("data_format") not in (layouts.get(len(x)), "NHWC" if len(x) in layouts else None) or 0 in x:
        raise Unsupported
    if any(op.specs[n].shape != x[-1:] for n in vectors):
        raise Unsupported


def _inverse(op: Op, variance: Value, over: Value | Number) -> View:
    """Divide something by the deviation."""
    epsilon = _number(op.attr("epsilon"))
    return op.loops.map(
        lambda b, v, x, e: b.fdiv(x, sqrt(b, b.fadd(v, e))), [variance, over, epsilon], _KIND, op.specs[2].shape
    )


@lowers("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3", heavy=True, empty=True)
def _fused_batch_norm(op: Op) -> list[Value]:
    x, scale, offset, mean, variance = op.inputs
    shape, loops = op.shape, op.loops
    is_training, factor = op.attr("is_training"), op.attr("exponential_avg_factor")
    _check(op, shape, (1, 2) if is_training and factor == 1 else (1, 2, 3, 4))
    if is_training and factor == 1 and op.specs[3].shape not in ((0,), shape[-1:]):
        raise Unsupported
    channels, count = shape[-1:], int(np.prod(shape[:-1]))
    kept = mean, variance
    if is_training:
        axes, number = range(len(shape) - 1), _number(count)
        total = loops.reduce("sum", lambda b, x: x, [x], shape, axes)
        mean = loops.map(div, [loops.reshape(total, channels), number], _KIND, channels)
        squares = loops.reduce("sum", _squared_distance, [x, mean], shape, axes)
        variance = loops.map(div, [loops.reshape(squares, channels), number], _KIND, channels)
    made = loops.map(
        lambda b, x, m, f, o: b.fadd(b.fmul(b.fsub(x, m), f), o),
        [x, mean, _inverse(op, variance, scale), offset],
        _KIND,
        shape,
    )
    if not is_training:
        return [made, mean, variance, mean, variance, Number(one(_KIND, 0.0))][: len(op.outputs)]
    unbiased = loops.map(mul, [variance, _number(count / max(count - 1, 1))], _KIND, channels)
    moving = [mean, unbiased]
    if factor != 1:
        old, new = _number(float(1 - np.float32(factor))), _number(factor)
        moving = [
            loops.map(lambda b, x, y, p, q: b.fadd(b.fmul(p, x), b.fmul(q, y)), [k, m, old, new], _KIND, channels)
            for k, m in zip(kept, moving)
        ]
    return [made, *moving, mean, variance, Number(one(_KIND, 0.0))][: len(op.outputs)]


def _squared_distance(b: Any, x: Any, mean: Any) -> Any:
    off = b.fsub(x, mean)
    return b.fmul(off, off)


@lowers("FusedBatchNormGrad", "FusedBatchNormGradV2", "FusedBatchNormGradV3", heavy=True, empty=True)
def _fused_batch_norm_grad(op: Op) -> list[Value]:
    dy, x, scale, mean, variance = op.inputs[:5]
    shape, loops = op.shape, op.loops
    if op.specs[1].shape != shape:
        raise Unsupported
    _check(op, shape, (2, 3, 4))
    channels, count = shape[-1:], _number(int(np.prod(shape[:-1])))
    axes = range(len(shape) - 1)
    inverse = _inverse(op, variance, _number(1.0))
    total = loops.reshape(loops.reduce("sum", lambda b, dy: dy, [dy], shape, axes), channels)
    centered = loops.reshape(
        loops.reduce("sum", lambda b, dy, x, m: b.fmul(dy, b.fsub(x, m)), [dy, x, mean], shape, axes), channels
    )
    by_scale = loops.map(mul, [centered, inverse], _KIND, channels)
    factor = loops.map(mul, [scale, inverse], _KIND, channels)
    if op.attr("is_training"):
        slope = loops.map(
            lambda b, i, c, n: b.fdiv(b.fmul(b.fmul(b.fneg(i), i), c), n), [inverse, centered, count], _KIND, channels
        )
        level = loops.map(div, [total, count], _KIND, channels)
        by_x = loops.map(
            lambda b, dy, x, m, s, n, f: b.fmul(b.fsub(b.fadd(b.fmul(b.fsub(x, m), s), dy), n), f),
            [dy, x, mean, slope, level, factor],
            _KIND,
            shape,
        )
    else:
        by_x = loops.map(mul, [dy, factor], _KIND, shape)
    nothing = Number(one(_KIND, 0.0), (0,))
    return [by_x, by_scale, total, nothing, nothing]
