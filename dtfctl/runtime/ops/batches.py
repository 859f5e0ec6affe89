"""Places of rows within batches, as what changes elements at coordinates takes them."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework.convert import convert_to_tensor
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.operation import Tensor


def places_in_batches(indices: Any) -> Tensor:
    """Put before each index the place where it stands: [i, j, indices[i, j]] for each i and j.

    Raises:
        ValueError: the rank of the indices is not known.
    """
    at = convert_to_tensor(indices, name="indices")
    rank = at.shape.rank
    if rank is None:
        raise ValueError("batch_scatter_update does not allow indices with unknown shape.")
    kind = at.dtype.base_dtype
    sizes = apply_op("Shape", input=at, out_type=kind)
    rows = apply_op("ExpandDims", input=at, dim=-1)
    places = []
    for axis in range(rank - 1):
        zero, one = convert_to_tensor(0, kind), convert_to_tensor(1, kind)
        form = [1] * (rank + 1)
        form[axis] = -1
        numbers = apply_op("Range", start=zero, limit=sizes[axis], delta=one)
        column = apply_op("Reshape", tensor=numbers, shape=form)
        places.append(apply_op("AddV2", x=column, y=apply_op("ZerosLike", x=rows)))
    return apply_op("ConcatV2", values=[*places, rows], axis=-1) if places else rows
