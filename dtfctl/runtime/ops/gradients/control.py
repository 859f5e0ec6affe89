"""Gradients of control flow and tensor lists."""

from __future__ import annotations

from typing import Any

import dtfctl.runtime.ops.cond
import dtfctl.runtime.ops.function
import dtfctl.runtime.ops.while_loop  # noqa: F401  (these modules register the gradients of their own ops)
from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.convert import constant
from dtfctl.runtime.framework.gradients import as_dense
from dtfctl.runtime.framework.op_builder import apply_op, apply_op_outputs
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.framework.registries import register_gradient


def _shape_of(tensor: Tensor) -> Tensor:
    dims = tensor.shape.dims_or_none
    if dims is None:
        return constant(-1, dtypes.int32)
    return constant([-1 if d is None else d for d in dims], dtypes.int32)


def _any_shape() -> Tensor:
    return constant(-1, dtypes.int32)


@register_gradient("Switch", "RefSwitch")
def _switch(op: Operation, *grads: Any) -> Any:
    """Take the gradient of the side that ran; where nothing comes back from it, zeros, which are dead as that is."""
    if all(g is None for g in grads):
        return None, None
    sides = [apply_op("ZerosLike", x=y) if g is None else as_dense(g) for y, g in zip(op.outputs, grads)]
    return apply_op_outputs("Merge", inputs=sides)[0], None


@register_gradient("Merge", "RefMerge")
def _merge(op: Operation, grad: Any, _: Any) -> Any:
    """Hand the gradient to the input that was alive; to the others it is dead, as they are."""
    if grad is None:
        return [None] * len(op.inputs)
    alive = [apply_op("Equal", x=op.outputs[1], y=i) for i in range(len(op.inputs))]
    return [apply_op_outputs("Switch", data=as_dense(grad), pred=chosen)[1] for chosen in alive]


@register_gradient("Exit", "RefExit")
def _exit(op: Operation, grad: Any) -> Any:
    raise LookupError(
        f"The gradient of '{op.name}' goes through a loop of Enter and Exit, which was imported. Build the loop with "
        "tf.while_loop here, or stop the gradient after it with tf.stop_gradient."
    )


@register_gradient("TensorListPushBack")
def _push_back(op: Operation, grad: Tensor) -> Any:
    return apply_op_outputs(
        "TensorListPopBack",
        input_handle=grad,
        element_shape=_shape_of(op.inputs[1]),
        element_dtype=op.get_attr("element_dtype"),
    )


@register_gradient("TensorListPopBack")
def _pop_back(op: Operation, list_grad: Tensor | None, grad: Tensor | None) -> Any:
    dtype = op.get_attr("element_dtype")
    if not (dtype.is_floating or dtype.is_complex or dtype is dtypes.variant):
        return None, None
    if list_grad is None:
        list_grad = apply_op("EmptyTensorList", element_shape=_any_shape(), max_num_elements=-1, element_dtype=dtype)
    if grad is None:
        grad = apply_op("ZerosLike", x=op.outputs[1])
    return apply_op("TensorListPushBack", input_handle=list_grad, tensor=grad, element_dtype=dtype), None


@register_gradient("TensorListStack")
def _stack(op: Operation, grad: Tensor) -> Any:
    return apply_op("TensorListFromTensor", tensor=grad, element_shape=_shape_of_slices(grad)), None


def _shape_of_slices(tensor: Tensor) -> Tensor:
    dims = tensor.shape.dims_or_none
    return _any_shape() if dims is None else constant([-1 if d is None else d for d in dims[1:]], dtypes.int32)


@register_gradient("TensorListFromTensor")
def _from_tensor(op: Operation, grad: Tensor) -> Any:
    static = op.inputs[0].shape.dims_or_none
    size = -1 if not static or static[0] is None else static[0]
    stacked = apply_op(
        "TensorListStack",
        input_handle=grad,
        element_shape=_shape_of_slices(op.inputs[0]),
        element_dtype=op.inputs[0].dtype.base_dtype,
        num_elements=size,
    )
    return stacked, None


@register_gradient("TensorListGetItem")
def _get_item(op: Operation, grad: Tensor) -> Any:
    dtype = op.get_attr("element_dtype")
    empty = apply_op(
        "TensorListReserve",
        element_shape=_shape_of(grad),
        num_elements=apply_op("TensorListLength", input_handle=op.inputs[0]),
        element_dtype=dtype,
    )
    filled = apply_op("TensorListSetItem", input_handle=empty, index=op.inputs[1], item=grad, element_dtype=dtype)
    return filled, None, None


@register_gradient("TensorListSetItem")
def _set_item(op: Operation, grad: Tensor) -> Any:
    dtype, index, item = op.get_attr("element_dtype"), op.inputs[1], op.inputs[2]
    zero = apply_op("ZerosLike", x=item)
    cleared = apply_op("TensorListSetItem", input_handle=grad, index=index, item=zero, element_dtype=dtype)
    own = apply_op(
        "TensorListGetItem", input_handle=grad, index=index, element_shape=_shape_of(item), element_dtype=dtype
    )
    return cleared, None, own


@register_gradient("TensorListGather")
def _gather(op: Operation, grad: Tensor) -> Any:
    indices, count = op.inputs[1], apply_op("TensorListLength", input_handle=op.inputs[0])
    if op.attr("_sums"):
        # An array's element that was gathered twice has the sum of both; it is scattered twice.
        summed = apply_op("UnsortedSegmentSum", data=grad, segment_ids=indices, num_segments=count)
        grad = apply_op("GatherV2", params=summed, indices=indices, axis=0)
    scattered = apply_op(
        "TensorListScatterV2",
        tensor=grad,
        indices=indices,
        element_shape=_shape_of_slices(grad),
        num_elements=count,
    )
    return scattered, None, None


@register_gradient("TensorListScatterIntoExistingList")
def _scatter_into(op: Operation, grad: Tensor) -> Any:
    dtype = op.get_attr("element_dtype")
    tensor, indices = op.inputs[1], op.inputs[2]
    cleared = apply_op(
        "TensorListScatterIntoExistingList",
        input_handle=grad,
        tensor=apply_op("ZerosLike", x=tensor),
        indices=indices,
        element_dtype=dtype,
    )
    own = apply_op(
        "TensorListGather",
        input_handle=grad,
        indices=indices,
        element_shape=_shape_of_slices(tensor),
        element_dtype=dtype,
    )
    return cleared, own, None


@register_gradient("TensorListConcat", "TensorListConcatV2")
def _concat(op: Operation, grad: Tensor, _: Any) -> Any:
    shape = apply_op("TensorListElementShape", input_handle=op.inputs[0], shape_type=dtypes.int32)
    split = apply_op("TensorListSplit", tensor=grad, element_shape=shape, lengths=op.outputs[1])
    return [split, *[None] * (len(op.inputs) - 1)]


@register_gradient("TensorListScatter", "TensorListScatterV2")
def _scatter(op: Operation, grad: Tensor) -> Any:
    tensor, indices = op.inputs[:2]
    rows = apply_op(
        "TensorListGather",
        input_handle=grad,
        indices=indices,
        element_shape=apply_op("Shape", input=tensor)[1:],
        element_dtype=tensor.dtype.base_dtype,
    )
    return [rows, *[None] * (len(op.inputs) - 1)]


@register_gradient("TensorMapLookup")
def _map_lookup(op: Operation, grad: Tensor) -> Any:
    empty = apply_op("EmptyTensorMap")
    return apply_op("TensorMapInsert", input_handle=empty, key=op.inputs[1], value=grad), None


@register_gradient("TensorMapInsert")
def _map_insert(op: Operation, grad: Tensor) -> Any:
    """Take the value's gradient out of the map of gradients; it is zero where the key is not in that."""
    from dtfctl.runtime.ops.cond import cond

    key, value = op.inputs[1:]
    kind = value.dtype.base_dtype
    own, rest = cond(
        apply_op("TensorMapHasKey", input_handle=grad, key=key),
        lambda: (
            apply_op("TensorMapLookup", input_handle=grad, key=key, value_dtype=kind),
            apply_op("TensorMapErase", input_handle=grad, key=key, value_dtype=kind),
        ),
        lambda: (apply_op("ZerosLike", x=value), grad),
    )
    return rest, None, own


@register_gradient("TensorListSplit")
def _split(op: Operation, grad: Tensor) -> Any:
    joined, _ = apply_op_outputs(
        "TensorListConcatV2",
        input_handle=grad,
        element_shape=op.inputs[1],
        leading_dims=op.inputs[2],
        element_dtype=op.inputs[0].dtype.base_dtype,
    )
    return joined, None, None


@register_gradient("TensorListResize")
def _resize(op: Operation, grad: Tensor) -> Any:
    size = apply_op("TensorListLength", input_handle=op.inputs[0])
    return apply_op("TensorListResize", input_handle=grad, size=size), None
