"""Gradients stop at datasets and iterators."""

from __future__ import annotations

from dtfctl.runtime.framework.registries import not_differentiable

not_differentiable(
    "IteratorGetNext",
    "IteratorGetNextSync",
    "IteratorToStringHandle",
    "OptionalFromValue",
    "OptionalGetValue",
    "OptionalHasValue",
    "OptionalNone",
    "TensorDataset",
    "TensorSliceDataset",
    "RangeDataset",
    "MapDataset",
    "BatchDatasetV2",
    "ReduceDataset",
)
