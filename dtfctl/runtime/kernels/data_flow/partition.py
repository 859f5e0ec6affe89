"""DynamicPartition, DynamicStitch and ParallelDynamicStitch."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.kernels.data_flow.handles import shape_text
from dtfctl.runtime.kernels.registry import Kernel, KernelBuild, register_kernel


def _position(shape: tuple[int, ...], flat: int) -> str:
    """ "[i,j]" for an index into a tensor, "" for a scalar."""
    return f"[{','.join(map(str, np.unravel_index(flat, shape)))}]" if shape else ""


@register_kernel("DynamicPartition")
def dynamic_partition(k: KernelBuild) -> Kernel:
    count = k.attr("num_partitions")

    def run(data: Any, partitions: Any) -> list[Any]:
        lead = partitions.shape
        if data.shape[: len(lead)] != lead:
            raise InvalidArgumentError(
                f"data.shape must start with partitions.shape, got data.shape = {shape_text(data.shape)}, "
                f"partitions.shape = {shape_text(lead)}"
            )
        ids = partitions.reshape(-1)
        wrong = np.flatnonzero((ids < 0) | (ids >= count))
        if wrong.size:
            at = int(wrong[0])
            raise InvalidArgumentError(
                f"partitions{_position(lead, at)} = {ids[at]} is not in [0, {count})",
            )
        rows = data.reshape((ids.size, *data.shape[len(lead) :]))
        order = np.argsort(ids, kind="stable")
        ends = np.cumsum(np.bincount(ids, minlength=count))[:-1] if ids.size else np.zeros(count - 1, np.int64)
        return list(np.split(rows[order], ends))

    return run


@register_kernel(("DynamicStitch", "ParallelDynamicStitch"))
def dynamic_stitch(k: KernelBuild) -> Kernel:
    n = k.attr("N")

    def run(*inputs: Any) -> Any:
        indices, data = inputs[:n], inputs[n:]
        size = 1 + max((int(i.max()) for i in indices if i.size), default=-1)
        for index in indices:
            wrong = np.flatnonzero(index.reshape(-1) < 0)
            if wrong.size:
                raise InvalidArgumentError(f"indices[{wrong[0]}] is out of range")
        extra = data[0].shape[indices[0].ndim :]
        for i, (index, value) in enumerate(zip(indices, data)):
            if value.shape[: index.ndim] != index.shape:
                raise InvalidArgumentError(
                    f"data[{i}].shape = {shape_text(value.shape)} does not start with indices[{i}].shape = "
                    f"{shape_text(index.shape)}"
                )
            if value.shape[index.ndim :] != extra:
                raise InvalidArgumentError(
                    f"Need data[0].shape[{indices[0].ndim}:] = data[{i}].shape[{index.ndim}:], got data[0].shape = "
                    f"{shape_text(data[0].shape)}, data[{i}].shape = {shape_text(value.shape)}, indices[0].shape = "
                    f"{shape_text(indices[0].shape)}, indices[{i}].shape = {shape_text(index.shape)}"
                )
        merged = np.zeros((size, *extra), data[0].dtype)
        if merged.dtype == object:
            merged[...] = b""
        for index, value in zip(indices, data):
            # The last of several writes to one index wins, as numpy's assignment does.
            merged[index.reshape(-1)] = value.reshape((index.size, *extra))
        return merged

    return run
