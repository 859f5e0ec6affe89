"""Datasets whose elements stand in files, in TensorFlow's layout."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dtfctl.runtime.data.structure import Structure, trace
from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.convert import constant
from dtfctl.runtime.framework.op_builder import apply_op, make_op
from dtfctl.runtime.framework.operation import Operation
from dtfctl.runtime.ops import math_ops

if TYPE_CHECKING:
    from dtfctl.runtime.data.dataset import Dataset

# A function of the dataset of a snapshot's shards, each a dataset itself.
ReaderFunc = Callable[["Dataset"], "Dataset"]


def save(
    dataset: Dataset, path: str, compression: str | None = None, shard_func: Callable[..., Any] | None = None
) -> Operation:
    """Make an op that writes all elements to `path`."""
    f = trace(shard_func or (lambda *element: constant(0, dtypes.int64)), dataset.structure)
    written: Operation = make_op(
        "SaveDataset",
        input_dataset=dataset.variant,
        path=path,
        shard_func_other_args=f.captured,
        shard_func=f.attr,
        use_shard_func=shard_func is not None,
        compression=compression or "",
    )
    return written


def load(path: str, element: Structure, compression: str | None, reader_func: ReaderFunc | None) -> Any:
    """Make the variant of what `save` wrote to `path`."""
    f = _reader(reader_func, element)
    return apply_op(
        "LoadDataset",
        path=path,
        reader_func_other_args=f.captured,
        reader_func=f.attr,
        compression=compression or "",
        **element.attrs,
    )


def snapshot(
    dataset: Dataset,
    path: str,
    compression: str | None,
    reader_func: ReaderFunc | None,
    shard_func: Callable[..., Any] | None,
) -> Any:
    """Make the variant of a dataset that writes its elements under `path` in the first pass and reads them in later
    ones."""
    shards, reader = trace(shard_func or _in_turn, dataset.structure), _reader(reader_func, dataset.structure)
    return apply_op(
        "SnapshotDatasetV2",
        input_dataset=dataset.variant,
        path=path,
        reader_func_other_args=reader.captured,
        shard_func_other_args=shards.captured,
        reader_func=reader.attr,
        shard_func=shards.attr,
        compression=compression or "",
        **dataset.structure.attrs,
    )


def _in_turn(position: Any, element: Any) -> Any:
    """Elements of `enumerate()` are dealt to as many shards as there are cores."""
    return math_ops.floormod(position, os.cpu_count() or 1)


def _reader(reader_func: ReaderFunc | None, element: Structure) -> Any:
    def in_turn(shards: Dataset) -> Dataset:
        return shards.interleave(lambda shard: shard, cycle_length=os.cpu_count() or 1, num_parallel_calls=-1)

    return trace(reader_func or in_turn, Structure.of_dataset(Structure.of_dataset(element)))
