"""Slices dealt out to tensors, and put together again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dtfctl.runtime.framework.op_builder import apply_op, apply_op_outputs
from dtfctl.runtime.framework.operation import Tensor


def dynamic_partition(data: Any, partitions: Any, num_partitions: int, name: str | None = None) -> list[Tensor]:
    """Deal data out to `num_partitions` tensors; slice i of `data` goes to partition `partitions[i]`."""
    out = apply_op_outputs("DynamicPartition", name, data=data, partitions=partitions, num_partitions=num_partitions)
    return [out] if isinstance(out, Tensor) else out


def dynamic_stitch(indices: Sequence[Any], data: Sequence[Any], name: str | None = None) -> Tensor:
    """Put slices of `data` where `indices` say; of several for one place the last wins."""
    return apply_op("DynamicStitch", name, indices=list(indices), data=list(data))
