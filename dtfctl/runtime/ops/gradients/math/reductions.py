"""Gradients of reductions over axes and of running ones."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.constant_value import constant_value
from dtfctl.runtime.framework.convert import constant
from dtfctl.runtime.framework.op_builder import apply_op, apply_op_outputs
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.framework.registries import register_gradient
from dtfctl.runtime.ops import array_ops, math_ops
from dtfctl.runtime.ops.gradients.common import number_like


def _kept_shape(op: Operation) -> Tensor:
    """Compute the reduced shape with 1 for every reduced dimension, as a tensor."""
    x, axes = op.inputs
    dims, known = x.shape.dims_or_none, constant_value(axes)
    if dims is not None and None not in dims and known is not None:
        gone = {int(a) % len(dims) for a in known.reshape(-1).tolist()} if dims else set()
        return constant([1 if i in gone else d for i, d in enumerate(dims)], dtypes.int32)
    shape = apply_op("Cast", x=apply_op("Shape", input=x), DstT=dtypes.int32)
    axes = apply_op("Reshape", tensor=math_ops.cast(axes, dtypes.int32), shape=[-1])
    rank = apply_op("Size", input=shape)
    places = apply_op("FloorMod", x=axes + rank, y=rank)
    ones = apply_op("Fill", dims=apply_op("Shape", input=places), value=constant(1, dtypes.int32))
    every = apply_op("Range", start=0, limit=rank, delta=1)
    return apply_op("DynamicStitch", indices=[every, places], data=[shape, ones])


@register_gradient("Sum")
def _sum(op: Operation, grad: Tensor) -> Any:
    x = op.inputs[0]
    if not op.attr("keep_dims"):
        grad = apply_op("Reshape", tensor=grad, shape=_kept_shape(op))
    return [apply_op("BroadcastTo", input=grad, shape=array_ops.shape(x)), None]


@register_gradient("Mean")
def _mean(op: Operation, grad: Tensor) -> Any:
    spread = _sum(op, grad)[0]
    x, y = op.inputs[0], op.outputs[0]
    a, b = x.shape.num_elements(), y.shape.num_elements()
    if a is not None and b is not None:
        factor: Any = constant(a // max(b, 1), spread.dtype)
    else:
        sizes = [apply_op("Prod", input=apply_op("Shape", input=t), reduction_indices=[0]) for t in (x, y)]
        ratio = apply_op("FloorDiv", x=sizes[0], y=math_ops.maximum(sizes[1], 1))
        factor = math_ops.cast(ratio, spread.dtype)
    return [math_ops.truediv(spread, factor), None]


@register_gradient("Max", "Min")
def _max(op: Operation, grad: Tensor) -> Any:
    x, y = op.inputs[0], op.outputs[0]
    kept = _kept_shape(op)
    if not op.attr("keep_dims"):
        y, grad = (apply_op("Reshape", tensor=t, shape=kept) for t in (y, grad))
    chosen = math_ops.cast(math_ops.equal(y, x), grad.dtype)
    count = apply_op("Reshape", tensor=apply_op("Sum", input=chosen, reduction_indices=op.inputs[1]), shape=kept)
    return [chosen / count * grad, None]


@register_gradient("Prod")
def _prod(op: Operation, grad: Tensor) -> Any:
    """Give each factor the product of the others as its gradient, so that zeros are no trouble."""
    x, axes = op.inputs
    shape = array_ops.shape(x)
    if not op.attr("keep_dims"):
        grad = apply_op("Reshape", tensor=grad, shape=_kept_shape(op))
    grad = apply_op("BroadcastTo", input=grad, shape=shape)
    rank = array_ops.rank(x)
    places = (apply_op("Reshape", tensor=math_ops.cast(axes, dtypes.int32), shape=[-1]) + rank) % rank
    rest, _ = apply_op_outputs("ListDiff", x=math_ops.range(rank), y=places)
    perm = array_ops.concat([places, rest], 0)
    inside = apply_op("Prod", input=array_ops.gather(shape, places), reduction_indices=[0])
    outside = apply_op("Prod", input=array_ops.gather(shape, rest), reduction_indices=[0])
    moved = array_ops.transpose(x, perm)
    flat = apply_op("Reshape", tensor=moved, shape=array_ops.stack([inside, outside]))
    before = math_ops.cumprod(flat, axis=0, exclusive=True)
    after = math_ops.cumprod(flat, axis=0, exclusive=True, reverse=True)
    others = apply_op(
        "Reshape", tensor=math_ops.conj(before) * math_ops.conj(after), shape=apply_op("Shape", input=moved)
    )
    out = grad * array_ops.transpose(others, array_ops.invert_permutation(perm))
    return [apply_op("Reshape", tensor=out, shape=shape), None]


@register_gradient("EuclideanNorm")
def _euclidean_norm(op: Operation, grad: Tensor) -> Any:
    y = op.outputs[0]
    if not op.attr("keep_dims"):
        kept = _kept_shape(op)
        y, grad = (apply_op("Reshape", tensor=t, shape=kept) for t in (y, grad))
    return [math_ops.truediv(op.inputs[0], math_ops.truediv(y, grad)), None]


@register_gradient("Cumsum")
def _cumsum(op: Operation, grad: Tensor) -> Any:
    out = math_ops.cumsum(grad, op.inputs[1], exclusive=op.attr("exclusive"), reverse=not op.attr("reverse"))
    return [out, None]


@register_gradient("Cumprod")
def _cumprod(op: Operation, grad: Tensor) -> Any:
    x, axis = op.inputs
    exclusive, reverse = op.attr("exclusive"), op.attr("reverse")
    product = math_ops.cumprod(x, axis, exclusive=exclusive, reverse=reverse)
    out = math_ops.cumsum(product * grad, axis, exclusive=exclusive, reverse=not reverse)
    return [math_ops.div_no_nan(out, x), None]


@register_gradient("CumulativeLogsumexp")
def _cumulative_logsumexp(op: Operation, grad: Tensor) -> Any:
    x, axis = op.inputs
    exclusive, reverse = op.attr("exclusive"), op.attr("reverse")
    scan = math_ops.cumulative_logsumexp
    lowest = constant(grad.dtype.min, grad.dtype)
    log_positive = array_ops.where_v2(math_ops.greater(grad, number_like(0, grad)), math_ops.log(grad), lowest)
    log_negative = array_ops.where_v2(math_ops.less(grad, number_like(0, grad)), math_ops.log(-grad), lowest)
    y = op.outputs[0]
    plus = math_ops.exp(scan(log_positive - y, axis=axis, reverse=not reverse, exclusive=exclusive) + x)
    minus = math_ops.exp(scan(log_negative - y, axis=axis, reverse=not reverse, exclusive=exclusive) + x)
    return [plus - minus, None]
