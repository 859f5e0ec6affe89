"""Numbers about whole images."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.convert import constant, convert_to_tensor
from dtfctl.runtime.framework.graph_keys import control_dependencies, name_scope
from dtfctl.runtime.framework.op_builder import apply_op, apply_op_outputs
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.ops import array_ops, math_ops
from dtfctl.runtime.ops.check_ops import Assert
from dtfctl.runtime.ops.image_ops.colors import convert_image_dtype
from dtfctl.runtime.ops.image_ops.common import checked_image, spatial_axes
from dtfctl.runtime.ops.nn_ops import reduce_over
from dtfctl.runtime.ops.operands import apply_mixed, cast_to


def per_image_standardization(image: Any) -> Tensor:
    """Give each image zero mean and unit variance; a flat image stays finite."""
    with name_scope(None, "per_image_standardization") as scope:
        image = checked_image(image)
        dtype = image.dtype.base_dtype
        x = cast_to(image, dtypes.float32) if dtype not in (dtypes.float16, dtypes.float32) else image
        axes = [-1, -2, -3]
        sizes = image.shape[-3:]
        mean = reduce_over("Mean", x, axes, True)
        variance = reduce_over("Mean", apply_op("SquaredDifference", x=x, y=mean), axes, True)
        least: Any
        if sizes.is_fully_defined():
            least = 1.0 / float(np.sqrt(int(np.prod(sizes.known()))))
        else:
            rank = len(image.shape)
            known = apply_op(
                "StridedSlice", input=apply_op("Shape", input=image), begin=[rank - 3], end=[rank], strides=[1]
            )
            least = apply_op("Rsqrt", x=cast_to(reduce_over("Prod", known, [0], False), x.dtype.base_dtype))
        deviation = apply_mixed("Maximum", apply_mixed("Sqrt", variance), least)
        return apply_mixed("RealDiv", apply_mixed("Sub", x, mean), deviation, scope)


def total_variation(images: Any, name: str | None = None) -> Tensor:
    """Sum of absolute differences of neighbouring pixels, by image."""
    with name_scope(name, "total_variation"):
        images = checked_image(images)
        row, column = spatial_axes(images)

        def difference(axis: int) -> Tensor:
            rank = len(images.shape)
            begin, end = [0] * rank, [0] * rank
            mask = ((1 << rank) - 1) & ~(1 << axis)
            begin[axis] = 1
            tail = apply_op(
                "StridedSlice",
                input=images,
                begin=begin,
                end=end,
                strides=[1] * rank,
                begin_mask=mask,
                end_mask=(1 << rank) - 1,
            )
            end[axis] = -1
            head = apply_op(
                "StridedSlice",
                input=images,
                begin=[0] * rank,
                end=end,
                strides=[1] * rank,
                begin_mask=(1 << rank) - 1,
                end_mask=mask,
            )
            return reduce_over("Sum", apply_mixed("Abs", apply_mixed("Sub", tail, head)), [-1, -2, -3])

        return apply_mixed("AddV2", difference(row), difference(column))


def psnr(a: Any, b: Any, max_val: Any, name: str | None = None) -> Tensor:
    """Compute the peak signal-to-noise ratio in decibels, by image."""
    with name_scope(name, "PSNR"):
        a, b = convert_to_tensor(a), convert_to_tensor(b)
        # The range is one of the pictures' type, and is converted as they are.
        peak = convert_image_dtype(math_ops.cast(max_val, a.dtype.base_dtype), dtypes.float32)
        a, b = convert_image_dtype(a, dtypes.float32), convert_image_dtype(b, dtypes.float32)
        square = math_ops.reduce_mean(math_ops.squared_difference(a, b), [-3, -2, -1])
        value = math_ops.subtract(
            20 * math_ops.log(peak) / math_ops.log(constant(10.0)),
            np.float32(10 / np.log(10)) * math_ops.log(square),
            name="psnr",
        )
        with control_dependencies(_fit(a, b)):
            return apply_op("Identity", input=value)


def _fit(a: Tensor, b: Tensor) -> list[Operation]:
    """Check that two batches of pictures have one size and as many channels."""
    first, second = a.shape.with_rank_at_least(3), b.shape.with_rank_at_least(3)
    first[-3:].assert_is_compatible_with(second[-3:])
    one, other = apply_op_outputs("ShapeN", input=[a, b])
    alike = math_ops.reduce_all(math_ops.equal(one[-3:], other[-3:]))
    return [
        Assert(math_ops.greater_equal(array_ops.size(one), 3), [one, other], summarize=10),
        Assert(alike, [one, other], summarize=10),
    ]
