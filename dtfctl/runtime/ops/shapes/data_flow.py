"""Static shapes of queue, table, accumulator, stack, TensorArray and partitioning ops."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework.constant_value import computed_value
from dtfctl.runtime.framework.operation import Operation
from dtfctl.runtime.framework.registries import register_shape
from dtfctl.runtime.framework.tensor_shape import TensorShape


@register_shape("TensorArrayGather", "TensorArrayGatherV2", "TensorArrayGatherV3")
def _tensor_array_gather(op: Operation) -> list[Any]:
    count = op.inputs[1].shape
    lead = count[:1] if count.rank is not None else TensorShape([None])
    return [lead.concatenate(op.attr("element_shape"))]


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
        value = computed_value(indices)
        if value is None:
            known = False
        elif value.size:
            size = max(size, int(value.max()) + 1)
    return [TensorShape([size if known else None]).concatenate(rest)]


@register_shape("LookupTableFind", "LookupTableFindV2")
def _find(op: Operation) -> list[Any]:
    table, keys, default = op.inputs[0].op, op.inputs[1].shape, op.inputs[2].shape
    if table.type == "MutableHashTableOfTensorsV2":
        return [keys.concatenate(table.attr("value_shape"))]
    if table.type == "MutableDenseHashTableV2":
        key = table.inputs[0].shape.rank
        if key is None or keys.rank is None:
            return [TensorShape(None)]
        return [keys[: keys.rank - key].concatenate(table.attr("value_shape"))]
    return [op.inputs[1].shape if default.rank == 0 else TensorShape(None)]
