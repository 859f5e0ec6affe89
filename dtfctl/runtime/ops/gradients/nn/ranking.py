"""Gradients of the largest elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.convert import constant
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.framework.registries import register_gradient
from dtfctl.runtime.ops.gradients.common import add, mul, static_shape, sum_over


@register_gradient("TopK", "TopKV2")
def _top_k(op: Operation, grad: Tensor, _: Any) -> Any:
    x, indices = op.inputs[0], op.outputs[1]
    size = apply_op("Size", input=x)
    last = apply_op(
        "StridedSlice",
        input=apply_op("Shape", input=x),
        begin=[-1],
        end=[0],
        strides=[1],
        shrink_axis_mask=1,
        end_mask=1,
    )
    if indices.dtype.base_dtype is not dtypes.int32:
        indices = apply_op("Cast", x=indices, DstT=dtypes.int32)
    rows = apply_op("FloorDiv", x=size, y=apply_op("Maximum", x=last, y=constant(1)))
    starts = apply_op(
        "Range", start=constant(0), limit=mul(rows, last), delta=apply_op("Maximum", x=last, y=constant(1))
    )
    table = apply_op(
        "Reshape",
        tensor=indices,
        shape=apply_op("Pack", values=[rows, _shape_element(indices, -1)]),
    )
    flat = apply_op(
        "Reshape", tensor=add(table, apply_op("ExpandDims", input=starts, dim=constant(-1))), shape=constant([-1, 1])
    )
    scattered = apply_op(
        "ScatterNd",
        indices=flat,
        updates=apply_op("Reshape", tensor=grad, shape=constant([-1])),
        shape=apply_op("Reshape", tensor=size, shape=constant([1])),
    )
    dx = apply_op("Reshape", tensor=scattered, shape=static_shape(x))
    return dx if op.type == "TopK" else (dx, None)


def _shape_element(tensor: Tensor, position: int) -> Tensor:
    return apply_op(
        "StridedSlice",
        input=apply_op("Shape", input=tensor),
        begin=[position],
        end=[0],
        strides=[1],
        shrink_axis_mask=1,
        end_mask=1,
    )


@register_gradient("NthElement")
def _nth_element(op: Operation, grad: Tensor) -> Any:
    x, y = op.inputs[0], op.outputs[0]
    last = constant(-1, dtypes.int32)
    same = apply_op("Equal", x=apply_op("ExpandDims", input=y, dim=last), y=x)
    chosen = apply_op("Cast", x=same, DstT=grad.dtype.base_dtype)
    spread = apply_op("ExpandDims", input=grad, dim=last)
    return mul(apply_op("RealDiv", x=chosen, y=sum_over(chosen, [-1], True)), spread), None


@register_gradient("ApproxTopK")
def _approx_top_k(op: Operation, grad: Tensor, _: Any) -> Any:
    """Put each number's gradient where the number was found; shapes must be known."""
    indices = op.outputs[1]
    dims = list(indices.shape.known())
    axis = int(op.attr("reduction_dimension")) % len(dims)
    at: list[Any] = [np.broadcast_to(i, dims) for i in np.indices(dims, np.int32, sparse=True)]
    at[axis] = indices
    places = apply_op("Pack", values=at, axis=len(dims))
    return apply_op("ScatterNd", indices=places, updates=grad, shape=op.inputs[0].shape.as_list())
