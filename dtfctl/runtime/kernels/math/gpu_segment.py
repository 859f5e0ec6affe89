"""Segment reductions on a GPU: ids are sorted and each run reduced in its order, always the same way."""

from __future__ import annotations

from math import prod
from typing import Any

from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.kernels.array.common import scalar
from dtfctl.runtime.kernels.cuda.arrays import CUDA_FLOATS, CUDA_NUMBERS, contiguous, sorted_rows
from dtfctl.runtime.kernels.cuda.launch import launch
from dtfctl.runtime.kernels.math.segment import neutral_value
from dtfctl.runtime.kernels.registry import GPU, INDICES, Kernel, KernelBuild, register_kernel


def _reduce(xp: Any, data: Any, ids: Any, count: int, kind: str, gap: Any) -> Any:
    inner = data.shape[ids.ndim :]
    out = xp.full((count, *inner), gap, data.dtype)
    order, rows = sorted_rows(xp, ids)
    width = prod(inner)
    arguments = (contiguous(xp, data), order, rows, out, ids.size, width, count)
    types = {"element": data.dtype.name, "index": rows.dtype.name}
    launch(xp, "rows", f"segment_{kind.lower()}", ids.size * width, arguments, **types)
    return out


@register_kernel(
    tuple(f"UnsortedSegment{kind}" for kind in ("Sum", "Prod", "Max", "Min")),
    devices=GPU,
    host_inputs=("num_segments",),
    T=CUDA_NUMBERS,
    Tindices=INDICES,
)
def unsorted_segment(k: KernelBuild) -> Kernel:
    xp, kind = k.xp, k.node.op.removeprefix("UnsortedSegment")
    gap = neutral_value(kind, k.dtype("T"))

    def kernel(data: Any, ids: Any, num_segments: Any) -> Any:
        count = scalar(num_segments, "num_segments")
        if data.shape[: ids.ndim] != ids.shape:
            raise InvalidArgumentError(
                f"data.shape = {list(data.shape)} does not start with segment_ids.shape = {list(ids.shape)}"
            )
        if count < 0:
            raise InvalidArgumentError(f"Input num_segments == {count} must not be negative.")
        return _reduce(xp, data, ids, count, kind, gap)

    return kernel


def _segment(k: KernelBuild) -> Kernel:
    xp, kind = k.xp, k.node.op.removeprefix("Segment")
    gap = k.dtype("T").np.type(1 if kind == "Prod" else 0)

    def kernel(data: Any, ids: Any) -> Any:
        if data.ndim < 1 or ids.shape != data.shape[:1]:
            raise InvalidArgumentError("segment_ids should be a vector the same size as dimension 0 of input.")
        # The output's size is a value on the GPU: reading it waits for the device, as TensorFlow's kernel does.
        count = int(ids[-1]) + 1 if ids.size else 0
        return _reduce(xp, data, ids, count, kind, gap)

    return kernel


register_kernel(
    tuple(f"Segment{kind}" for kind in ("Sum", "Prod", "Max", "Min")), devices=GPU, T=CUDA_NUMBERS, Tindices=INDICES
)(_segment)
register_kernel("SegmentMean", devices=GPU, T=CUDA_FLOATS, Tindices=INDICES)(_segment)
