"""Static shapes of dataset and iterator ops. Datasets and handles are scalars, of which nobody needs to be told."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework.operation import Operation
from dtfctl.runtime.framework.registries import register_shape


@register_shape("IteratorGetNext", "IteratorGetNextSync", "OptionalGetValue", "ReduceDataset", "DatasetToSingleElement")
def _elements(op: Operation) -> list[Any]:
    return list(op.attr("output_shapes"))


@register_shape(
    "IteratorV2",
    "Iterator",
    "OneShotIterator",
    "IteratorToStringHandle",
    "IteratorFromStringHandle",
    "IteratorFromStringHandleV2",
    "IteratorGetNextAsOptional",
    "OptionalFromValue",
    "OptionalNone",
    "OptionalHasValue",
    "DatasetCardinality",
    "TensorDataset",
    "TensorSliceDataset",
    "RangeDataset",
    "ZipDataset",
    "MapDataset",
    "BatchDatasetV2",
    "ShuffleDataset",
    "RepeatDataset",
    "PrefetchDataset",
)
def _scalar(op: Operation) -> list[Any]:
    return [()]
