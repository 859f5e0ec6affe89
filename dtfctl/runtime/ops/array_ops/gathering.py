"""Choosing elements by index or condition, and writing elements at indices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dtfctl.runtime.framework.constant_value import constant_value
from dtfctl.runtime.framework.convert import convert_to_tensor
from dtfctl.runtime.framework.graph_keys import name_scope
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.ops.array_ops.joining import concat, stack
from dtfctl.runtime.ops.array_ops.shapes import index_tensor, reshape, shape, squeeze
from dtfctl.runtime.ops.operands import typed_pair


def gather(
    params: Any,
    indices: Any,
    validate_indices: Any = None,
    name: str | None = None,
    axis: Any = None,
    batch_dims: int = 0,
) -> Tensor:
    """Gather rows of params; of a resource variable only those rows are read."""
    if axis is None:
        axis = batch_dims
    sparse_read = getattr(params, "sparse_read", None)
    known = constant_value(axis) if isinstance(axis, Tensor) else np.asarray(axis)
    if sparse_read is not None and known is not None and int(known) == 0 and batch_dims == 0:
        rows: Tensor = sparse_read(indices, name=name)
        return rows
    return apply_op("GatherV2", name or "GatherV2", params=params, indices=indices, axis=axis, batch_dims=batch_dims)


def batch_gather(params: Any, indices: Any, name: str | None = None) -> Tensor:
    """Gather slices along the last axis of `indices`, batch by batch."""
    indices = convert_to_tensor(indices)
    if indices.shape.rank is None:
        raise ValueError("batch_gather does not allow indices with unknown shape.")
    return gather(params, indices, axis=indices.shape.rank - 1, batch_dims=indices.shape.rank - 1, name=name)


def gather_nd(
    params: Any, indices: Any, name: str | None = None, batch_dims: int = 0, bad_indices_policy: str = ""
) -> Tensor:
    """Gather elements or slices at the coordinates in the last dimension of `indices`.

    Args:
        batch_dims: first dimensions that both have, within which coordinates are.
        bad_indices_policy: "IGNORE" gives zeros for coordinates outside, else they are errors.

    Raises:
        ValueError: `batch_dims` does not fit, or a policy with it.
    """
    if batch_dims:
        if bad_indices_policy not in ("", "DEFAULT"):
            raise ValueError(f"bad_indices_policy={bad_indices_policy} is not supported with batch_dims={batch_dims}")
        return _batch_gather_nd(params, indices, batch_dims, name)
    read = getattr(params, "gather_nd", None)
    if read is not None and not isinstance(params, Tensor):
        rows: Tensor = read(indices, name=name)
        return rows
    return apply_op("GatherNd", name, params=params, indices=indices, bad_indices_policy=bad_indices_policy)


def _batch_gather_nd(params: Any, indices: Any, batch_dims: int, name: str | None) -> Tensor:
    with name_scope(name, "BatchGatherND"):
        params = convert_to_tensor(params, name="params")
        indices = convert_to_tensor(indices, name="indices")
        rank = indices.shape.rank
        if rank is None:
            raise ValueError("gather_nd needs indices of known rank where batch_dims are given")
        if not 0 < batch_dims < rank or (params.shape.rank is not None and batch_dims >= params.shape.rank):
            raise ValueError(f"batch_dims = {batch_dims} must be less than rank(params) and rank(indices) = {rank}")
        kind = indices.dtype.base_dtype
        sizes = apply_op("Shape", input=indices, out_type=kind)
        depth = indices.shape[-1].value
        if depth is None:
            raise ValueError("gather_nd needs the size of a coordinate to be known where batch_dims are given")
        column = indices[..., :1]
        places = []
        for axis in range(batch_dims):
            numbers = apply_op(
                "Range",
                start=convert_to_tensor(0, kind),
                limit=sizes[axis],
                delta=convert_to_tensor(1, kind),
            )
            form = [1] * rank
            form[axis] = -1
            places.append(apply_op("Reshape", tensor=numbers, shape=form) + apply_op("ZerosLike", x=column))
        whole = apply_op("ConcatV2", values=[*places, indices], axis=-1)
        return apply_op("GatherNd", params=params, indices=whole)


def scatter_nd(indices: Any, updates: Any, shape: Any, bad_indices_policy: str = "", name: str | None = None) -> Tensor:
    """Add updates at coordinates to zeros of `shape`; coordinates beyond it fail, or are left out by "IGNORE"."""
    indices = convert_to_tensor(indices)
    wanted = (
        convert_to_tensor(index_tensor(shape), indices.dtype.base_dtype) if not isinstance(shape, Tensor) else shape
    )
    policy = bad_indices_policy
    return apply_op("ScatterNd", name, indices=indices, updates=updates, shape=wanted, bad_indices_policy=policy)


def _tensor_scatter(op_type: str) -> Callable[..., Tensor]:
    def function(
        tensor: Any, indices: Any, updates: Any, bad_indices_policy: str = "", name: str | None = None
    ) -> Tensor:
        common = {"tensor": tensor, "indices": indices, "updates": updates}
        return apply_op(op_type, name, **common, bad_indices_policy=bad_indices_policy)

    function.__name__ = function.__qualname__ = op_type
    return function


tensor_scatter_add = _tensor_scatter("TensorScatterAdd")
tensor_scatter_sub = _tensor_scatter("TensorScatterSub")
tensor_scatter_max, tensor_scatter_min = _tensor_scatter("TensorScatterMax"), _tensor_scatter("TensorScatterMin")
tensor_scatter_nd_add = tensor_scatter_add


def tensor_scatter_update(
    tensor: Any, indices: Any, updates: Any, name: str | None = None, *, bad_indices_policy: str = ""
) -> Tensor:
    """Give a tensor with updates in place of what is at coordinates."""
    common = {"tensor": tensor, "indices": indices, "updates": updates}
    return apply_op("TensorScatterUpdate", name, **common, bad_indices_policy=bad_indices_policy)


tensor_scatter_nd_update = tensor_scatter_update


def boolean_mask(tensor: Any, mask: Any, name: str = "boolean_mask", axis: Any = None) -> Tensor:
    """Keep the elements (or rows) where the mask is true."""
    with name_scope(name):
        x, m = convert_to_tensor(tensor), convert_to_tensor(mask)
        mask_rank = m.shape.rank
        if mask_rank == 0:
            raise ValueError("mask cannot be scalar.")
        if mask_rank is None:
            raise ValueError("Number of mask dimensions must be specified, even if some dimensions are None.")
        at = 0 if axis is None else int(axis)
        if at < 0:
            if x.shape.rank is None:
                raise ValueError("A negative axis needs a tensor of known rank")
            at += x.shape.rank
        x.shape[at : at + mask_rank].assert_is_compatible_with(m.shape)
        dims = shape(x)
        count = apply_op("Prod", input=dims[at : at + mask_rank], reduction_indices=[0])
        flat = reshape(x, concat([dims[:at], stack([count]), dims[at + mask_rank :]], 0))
        known = x.shape.dims_or_none
        if known is not None:
            flat.set_shape([*known[:at], None, *known[at + mask_rank :]])
        chosen = squeeze(apply_op("Where", input=reshape(m, [-1])), axis=[1])
        return gather(flat, chosen, axis=at)


def where(condition: Any, x: Any = None, y: Any = None, name: str | None = None) -> Tensor:
    """Take x where the condition holds, else y (shapes equal, or a vector of rows); without them find the indices."""
    if x is None and y is None:
        return apply_op("Where", name, input=condition)
    if x is None or y is None:
        raise ValueError("x and y must both be non-None or both be None.")

    x, y = typed_pair(x, y)
    return apply_op("Select", name, condition=condition, t=x, e=y)


def where_v2(condition: Any, x: Any = None, y: Any = None, name: str | None = None) -> Tensor:
    """Choose like `where`, with broadcasting."""
    if x is None and y is None:
        return apply_op("Where", name, input=condition)
    if x is None or y is None:
        raise ValueError("x and y must both be non-None or both be None.")

    x, y = typed_pair(x, y)
    return apply_op("SelectV2", name, condition=condition, t=x, e=y)


tensor_scatter_nd_sub = tensor_scatter_sub
tensor_scatter_nd_max, tensor_scatter_nd_min = tensor_scatter_max, tensor_scatter_min
