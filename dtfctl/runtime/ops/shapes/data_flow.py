"""Static shapes of queue, table, accumulator, stack, TensorArray and partitioning ops."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework.constant_value import constant_value
from dtfctl.runtime.framework.operation import Operation
from dtfctl.runtime.framework.registries import register_shape
from dtfctl.runtime.framework.tensor_shape import TensorShape

_SCALARS = (
    "FIFOQueueV2",
    "RandomShuffleQueueV2",
    "PaddingFIFOQueueV2",
    "PriorityQueueV2",
    "QueueSize",
    "QueueSizeV2",
    "QueueIsClosed",
    "QueueIsClosedV2",
    "ResourceConditionalAccumulator",
    "AccumulatorNumAccumulated",
    "ResourceAccumulatorNumAccumulated",
    "StackV2",
    "HashTableV2",
    "MutableHashTableV2",
    "MutableHashTableOfTensorsV2",
    "MutableDenseHashTableV2",
    "LookupTableSize",
    "LookupTableSizeV2",
    "BarrierReadySize",
    "BarrierIncompleteSize",
    "StageSize",
    "MapSize",
    "MapIncompleteSize",
    "OrderedMapSize",
    "OrderedMapIncompleteSize",
    "GetSessionHandle",
    "GetSessionHandleV2",
    "TensorArraySize",
    "TensorArraySizeV2",
    "TensorArraySizeV3",
)


@register_shape(*_SCALARS)
def _scalar(op: Operation) -> list[Any]:
    return [()]


@register_shape(
    "FIFOQueue",
    "RandomShuffleQueue",
    "PaddingFIFOQueue",
    "PriorityQueue",
    "ConditionalAccumulator",
    "SparseConditionalAccumulator",
    "Stack",
    "HashTable",
    "MutableHashTable",
    "MutableHashTableOfTensors",
    "MutableDenseHashTable",
    "Barrier",
    "TensorArray",
    "TensorArrayV2",
)
def _string_handle(op: Operation) -> list[Any]:
    return [[2]]


@register_shape("TensorArrayV3", "TensorArrayGradV3", "TensorArrayGradWithShape")
def _tensor_array(op: Operation) -> list[Any]:
    return [(), ()]


@register_shape(
    "TensorArrayWrite",
    "TensorArrayWriteV2",
    "TensorArrayWriteV3",
    "TensorArrayScatter",
    "TensorArrayScatterV2",
    "TensorArrayScatterV3",
    "TensorArraySplit",
    "TensorArraySplitV2",
    "TensorArraySplitV3",
    "TensorArrayUnpack",
)
def _flow(op: Operation) -> list[Any]:
    return [()]


@register_shape("TensorArrayGather", "TensorArrayGatherV2", "TensorArrayGatherV3")
def _tensor_array_gather(op: Operation) -> list[Any]:
    count = op.inputs[1].shape
    lead = count[:1] if count.rank is not None else TensorShape([None])
    return [lead.concatenate(op.attr("element_shape"))]


@register_shape("TensorArrayConcat", "TensorArrayConcatV2", "TensorArrayConcatV3")
def _tensor_array_concat(op: Operation) -> list[Any]:
    return [TensorShape([None]).concatenate(op.attr("element_shape_except0")), [None]]


@register_shape("StackPush", "StackPushV2")
def _push(op: Operation) -> list[Any]:
    return [op.inputs[1].shape]


@register_shape("DynamicPartition")
def _dynamic_partition(op: Operation) -> list[Any]:
    data, partitions = op.inputs[0].shape, op.inputs[1].shape
    if data.rank is None or partitions.rank is None:
        return [TensorShape(None)] * len(op.outputs)
    data[: partitions.rank].assert_is_compatible_with(partitions)
    return [TensorShape([None]).concatenate(data[partitions.rank :])] * len(op.outputs)


@register_shape("DynamicStitch", "ParallelDynamicStitch")
def _dynamic_stitch(op: Operation) -> list[Any]:
    n = len(op.inputs) // 2
    rest, size = TensorShape(None), 0
    known = True
    for indices, data in zip(op.inputs[:n], op.inputs[n:]):
        if indices.shape.rank is not None and data.shape.rank is not None:
            data.shape[: indices.shape.rank].assert_is_compatible_with(indices.shape)
            rest = rest.merge_with(data.shape[indices.shape.rank :])
        value = constant_value(indices)
        if value is None:
            known = False
        elif value.size:
            size = max(size, int(value.max()) + 1)
    return [TensorShape([size if known else None]).concatenate(rest)]


@register_shape("LookupTableFind", "LookupTableFindV2")
def _find(op: Operation) -> list[Any]:
    default = op.inputs[2].shape
    return [op.inputs[1].shape if default.rank == 0 else TensorShape(None)]


@register_shape("AccumulatorTakeGradient", "ResourceAccumulatorTakeGradient")
def _take(op: Operation) -> list[Any]:
    return [TensorShape(None)]


@register_shape("SparseAccumulatorTakeGradient")
def _sparse_take(op: Operation) -> list[Any]:
    return [[None], TensorShape(None), [None]]
