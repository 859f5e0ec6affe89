"""Picking rows on a GPU; indices out of range give zeros, as on TensorFlow's GPUs."""

from __future__ import annotations

from math import prod
from typing import Any

from dtfctl.runtime.kernels.cuda.arrays import contiguous
from dtfctl.runtime.kernels.cuda.launch import launch
from dtfctl.runtime.kernels.cuda.sources import moved_as


def gather_on_gpu(xp: Any, params: Any, indices: Any, axis: int, batch: int) -> Any:
    """`params` picked along `axis` by `indices`, whose first `batch` dimensions are those of `params`."""
    outer, inner = params.shape[:axis], params.shape[axis + 1 :]
    picks = indices.shape[batch:]
    out = xp.empty((*outer, *picks, *inner), params.dtype)
    batches = prod(params.shape[:batch])
    each = prod(params.shape[batch:axis])
    arguments = (contiguous(xp, params), contiguous(xp, indices), out)
    sizes = (batches, each, params.shape[axis], prod(picks), prod(inner))
    types = {"element": moved_as(params.dtype), "index": indices.dtype.name}
    launch(xp, "gather", "gather_rows", out.size, (*arguments, *sizes), **types)
    return out
