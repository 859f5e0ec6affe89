"""Windows with holes, done by windows without on batches of every n-th element."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.constant_value import constant_value
from dtfctl.runtime.framework.convert import convert_to_tensor
from dtfctl.runtime.framework.graph_keys import name_scope
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.ops import array_ops
from dtfctl.runtime.ops.nn_ops.convolutions import conv2d_transpose

Op = Callable[[Tensor, int, str], Tensor]


def with_space_to_batch(
    input: Any,
    dilation_rate: Any,
    padding: str,
    op: Op,
    filter_shape: Any = None,
    spatial_dims: Sequence[int] | None = None,
    data_format: str | None = None,
) -> Tensor:
    """Apply op(input, count of spatial dimensions, padding) as if its windows had holes.

    Args:
        dilation_rate: a positive number for each spatial dimension, known when the graph is built.
        filter_shape: sizes of the window; needed for padding "SAME".
        spatial_dims: the dimensions that are dilated, ascending from 1; those between them are left as they are.

    Raises:
        ValueError: dimensions, padding or rates that do not fit.
    """
    input = convert_to_tensor(input, name="input")
    rate = constant_value(convert_to_tensor(dilation_rate, dtypes.int32, name="dilation_rate"))
    if rate is None:
        raise ValueError("rate must have known static values")
    if rate.ndim != 1:
        raise ValueError("rate must be rank 1")
    count = rate.size
    first = 2 if data_format is not None and data_format.startswith("NC") else 1
    dims = [int(d) for d in (range(first, first + count) if spatial_dims is None else spatial_dims)]
    if dims != sorted(set(dims)) or (dims and dims[0] < 1):
        raise ValueError("spatial_dims must be a monotonically increasing sequence of positive integers")
    if len(dims) != count:
        raise ValueError("spatial_dims has to have as many dimensions as there are rates")
    if np.any(rate < 1):
        raise ValueError("dilation_rate must be positive")
    if np.all(rate == 1):
        return op(input, count, padding)
    if padding == "SAME":
        if filter_shape is None:
            raise ValueError("filter_shape must be specified for SAME padding")
        extra = (np.asarray(_known(filter_shape))[:count] - 1) * rate
        base = np.stack([extra // 2, extra - extra // 2], 1)
    elif padding == "VALID":
        base = np.zeros([count, 2], np.int32)
    else:
        raise ValueError(f"Invalid padding method {padding!r}")
    sizes = [input.shape[d].value if input.shape.rank is not None else None for d in dims]
    if all(size is not None for size in sizes):
        spatial: Any = np.array(sizes, np.int32)
    else:
        spatial = array_ops.gather(array_ops.shape(input), np.array(dims, np.int32))
    paddings, crops = array_ops.required_space_to_batch_paddings(spatial, rate, base)
    rate = _at(rate.astype(np.int32), 1, dims)
    spread = array_ops.space_to_batch_nd(input, rate, _at(paddings, 0, dims))
    return array_ops.batch_to_space_nd(op(spread, count, "VALID"), rate, _at(crops, 0, dims))


def _known(value: Any) -> Any:
    found = constant_value(convert_to_tensor(value, dtypes.int32))
    if found is None:
        raise ValueError("filter_shape must be known when the graph is built")
    return found


def _at(rows: Any, fill: int, dims: Sequence[int]) -> Any:
    """Put a row for each dimension at its place from 1 on, others filled."""
    if list(dims) == list(range(1, len(dims) + 1)):
        return rows
    known = constant_value(rows) if isinstance(rows, Tensor) else rows
    size: Any = rows.shape.as_list()[1:] if isinstance(rows, Tensor) else rows.shape[1:]
    blank = np.full(size, fill, np.int32)
    each = [rows[i] for i in range(len(dims))] if known is None else list(known)
    placed = [each[dims.index(d)] if d in dims else blank for d in range(1, dims[-1] + 1)]
    return array_ops.stack(placed) if known is None else np.stack(placed)


def atrous_conv2d_transpose(
    value: Any, filters: Any, output_shape: Any, rate: int, padding: str, name: str | None = None
) -> Tensor:
    """Apply the transpose of `atrous_conv2d`: larger images from smaller ones, by filters with holes.

    Raises:
        ValueError: a rate below 1, an unknown padding, or channels or an output shape that do not fit.
    """
    with name_scope(name, "atrous_conv2d_transpose") as scope:
        value = convert_to_tensor(value, name="value")
        filters = convert_to_tensor(filters, name="filters")
        if not value.shape[3].is_compatible_with(filters.shape[3]):
            raise ValueError(
                "`value` channel count must be compatible with `filters` input channel count. "
                f"Received: value.shape={value.shape} and filters.shape={filters.shape}."
            )
        if rate < 1:
            raise ValueError(f"`rate` cannot be less than one. Received: rate={rate}")
        if padding not in ("SAME", "VALID"):
            raise ValueError(f"`padding` must be either 'VALID' or 'SAME'. Received: padding={padding}")
        if rate == 1:
            return conv2d_transpose(value, filters, output_shape, [1, 1, 1, 1], padding)
        sizes = convert_to_tensor(output_shape, dtypes.int32, name="output_shape")
        if not sizes.shape.is_compatible_with([4]):
            raise ValueError(f"`output_shape` must have shape (4,). Received: output_shape={sizes.shape}")
        known = constant_value(sizes)
        out: Any = [sizes[i] for i in range(4)] if known is None else [int(n) for n in known]
        if known is not None and not filters.shape[2].is_compatible_with(out[3]):
            raise ValueError(
                "`output_shape` channel count must be compatible with `filters` output channel count. "
                f"Received: output_shape={out} and filters.shape={filters.shape}."
            )
        window: Any = (
            filters.shape.as_list() if filters.shape.is_fully_defined() else array_ops.unstack(array_ops.shape(filters))
        )
        around = [(n - 1) * rate if padding == "SAME" else 0 for n in window[:2]]
        padded = [out[i + 1] + around[i] for i in range(2)]
        rest = [(rate - n % rate) % rate for n in padded]
        batches = apply_op("SpaceToBatch", input=value, paddings=[[0, rest[0]], [0, rest[1]]], block_size=rate)
        inner = conv2d_transpose(
            batches,
            filters,
            [rate * rate * out[0], *((n + r) // rate for n, r in zip(padded, rest, strict=True)), out[3]],
            [1, 1, 1, 1],
            "VALID",
        )
        crops = [[a // 2, a - a // 2 + r] for a, r in zip(around, rest, strict=True)]
        return apply_op("BatchToSpace", input=inner, crops=crops, block_size=rate, name=scope)
