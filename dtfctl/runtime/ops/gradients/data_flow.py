"""Gradients of partitioning, stitching and TensorArray ops."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.convert import constant
from dtfctl.runtime.framework.func_graph import FuncGraph
from dtfctl.runtime.framework.op_builder import apply_op, apply_op_outputs
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.framework.registries import register_gradient


@register_gradient("DynamicPartition")
def _dynamic_partition(op: Operation, *grads: Tensor) -> Any:
    data, partitions = op.inputs
    count = int(op.attr("num_partitions"))
    shape = apply_op("Shape", input=partitions)
    size = apply_op("Prod", input=shape, reduction_indices=constant([0], dtypes.int32))
    numbers = apply_op("Range", start=0, limit=size, delta=1)
    positions = apply_op("Reshape", tensor=numbers, shape=shape)
    parts = apply_op_outputs("DynamicPartition", data=positions, partitions=partitions, num_partitions=count)
    parts = [parts] if isinstance(parts, Tensor) else parts
    stitched = apply_op("ParallelDynamicStitch", indices=parts, data=list(grads))
    return [apply_op("Reshape", tensor=stitched, shape=apply_op("Shape", input=data)), None]


@register_gradient("DynamicStitch", "ParallelDynamicStitch")
def _dynamic_stitch(op: Operation, grad: Any) -> Any:
    n = len(op.inputs) // 2
    indices = [apply_op("Identity", input=i) for i in op.inputs[:n]]
    values = [apply_op("GatherV2", params=grad, indices=i, axis=0) for i in indices]
    return [None] * n + values


def _source(grad: Tensor) -> str:
    """Cut out the part of a gradient's name that tells calls of `gradients` apart."""
    name, graph = grad.op.name, grad.graph
    while True:
        parts = name.split("/")
        at = [i for i, p in enumerate(parts) if p.startswith("gradients")]
        if at:
            return "/".join(parts[: at[-1] + 1])
        if not isinstance(graph, FuncGraph):
            raise ValueError(f"Expected op/tensor name to start with gradients, got {grad.name}")
        # In the gradient of a body: the call that makes it is under way outside.
        graph = graph.outer_graph
        name = graph.get_name_scope()


def _grad_array(op: Operation, flow: Tensor, grad: Tensor) -> tuple[Tensor, Tensor]:
    """Handle and flow of the gradient array of the op's TensorArray."""
    handle = op.inputs[0]
    out = apply_op_outputs("TensorArrayGradV3", handle=handle, flow_in=flow, source=_source(grad))
    return out[0], apply_op("Identity", input=out[1])


@register_gradient("TensorArrayReadV3")
def _read(op: Operation, grad: Tensor) -> Any:
    handle, flow = _grad_array(op, op.inputs[2], grad)
    return [None, None, apply_op("TensorArrayWriteV3", handle=handle, index=op.inputs[1], value=grad, flow_in=flow)]


@register_gradient("TensorArrayWriteV3")
def _write(op: Operation, flow_grad: Tensor) -> Any:
    handle, flow = _grad_array(op, flow_grad, flow_grad)
    value = apply_op("TensorArrayReadV3", handle=handle, index=op.inputs[1], flow_in=flow, dtype=op.attr("T"))
    return [None, None, value, flow_grad]


@register_gradient("TensorArrayGatherV3")
def _gather(op: Operation, grad: Tensor) -> Any:
    handle, flow = _grad_array(op, op.inputs[2], grad)
    out = apply_op("TensorArrayScatterV3", handle=handle, indices=op.inputs[1], value=grad, flow_in=flow)
    return [None, None, out]


@register_gradient("TensorArrayScatterV3")
def _scatter(op: Operation, flow_grad: Tensor) -> Any:
    handle, flow = _grad_array(op, flow_grad, flow_grad)
    value = apply_op("TensorArrayGatherV3", handle=handle, indices=op.inputs[1], flow_in=flow, dtype=op.attr("T"))
    return [None, None, value, flow_grad]


@register_gradient("TensorArrayConcatV3")
def _concat(op: Operation, grad: Tensor, unused_lengths: Any) -> Any:
    handle, flow = _grad_array(op, op.inputs[1], grad)
    out = apply_op("TensorArraySplitV3", handle=handle, value=grad, lengths=op.outputs[1], flow_in=flow)
    return [None, out]


@register_gradient("TensorArraySplitV3")
def _split(op: Operation, flow_grad: Tensor) -> Any:
    handle, flow = _grad_array(op, flow_grad, flow_grad)
    value, _ = apply_op_outputs("TensorArrayConcatV3", handle=handle, flow_in=flow, dtype=op.attr("T"))
    return [None, value, None, flow_grad]
