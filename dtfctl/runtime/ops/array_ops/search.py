"""Finding elements: distinct ones, differences, sorted search, distances of sequences."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.convert import SparseTensor, convert_to_tensor
from dtfctl.runtime.framework.op_builder import apply_op, apply_op_outputs
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.ops.array_ops.joining import stack
from dtfctl.runtime.ops.array_ops.shapes import reshape, shape


def unique(x: Any, out_idx: Any = dtypes.int32, name: str | None = None) -> Any:
    """Find the distinct elements in order of appearance, and which of them each element is."""
    return tuple(apply_op_outputs("Unique", name, x=x, out_idx=out_idx))


def unique_with_counts(x: Any, out_idx: Any = dtypes.int32, name: str | None = None) -> Any:
    """Find the distinct elements, which of them each element is, and how often each occurs."""
    return tuple(apply_op_outputs("UniqueWithCounts", name, x=x, out_idx=out_idx))


def setdiff1d(x: Any, y: Any, index_dtype: Any = dtypes.int32, name: str | None = None) -> Any:
    """Find the elements of x that are not in y, and their positions."""
    return tuple(apply_op_outputs("ListDiff", name, x=x, y=y, out_idx=index_dtype))


listdiff = setdiff1d


def searchsorted(
    sorted_sequence: Any, values: Any, side: str = "left", out_type: Any = dtypes.int32, name: str | None = None
) -> Tensor:
    """Find where each value would be inserted, row by row."""
    if side not in ("left", "right"):
        raise ValueError(f"Argument `side` must be either 'right' or 'left'. Received: `side` = '{side}'")
    rows = convert_to_tensor(sorted_sequence)
    wanted = convert_to_tensor(values, rows.dtype.base_dtype)
    n, m = shape(rows)[-1], shape(wanted)[-1]
    op_type = "LowerBound" if side == "left" else "UpperBound"
    out = apply_op(
        op_type,
        name,
        sorted_inputs=reshape(rows, stack([-1, n])),
        values=reshape(wanted, stack([-1, m])),
        out_type=out_type,
    )
    return reshape(out, shape(wanted))


def edit_distance(hypothesis: Any, truth: Any, normalize: bool = True, name: str = "edit_distance") -> Tensor:
    """Compute Levenshtein distances between sequences, relative to the length of the true ones if `normalize`."""
    hypothesis, truth = SparseTensor.from_value(hypothesis), SparseTensor.from_value(truth)
    return apply_op(
        "EditDistance",
        name,
        hypothesis_indices=hypothesis.indices,
        hypothesis_values=hypothesis.values,
        hypothesis_shape=hypothesis.dense_shape,
        truth_indices=truth.indices,
        truth_values=truth.values,
        truth_shape=truth.dense_shape,
        normalize=normalize,
    )
