"""How alike images are, by their structure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.convert import constant, convert_to_tensor
from dtfctl.runtime.framework.graph_keys import name_scope
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.ops import array_ops, math_ops, nn_ops
from dtfctl.runtime.ops.image_ops.colors import convert_image_dtype

# Of the scales, from the images themselves to a sixteenth (Wang et al., 2003).
_POWERS = (0.0448, 0.2856, 0.3001, 0.2363, 0.1333)


def ssim(
    img1: Any,
    img2: Any,
    max_val: Any,
    filter_size: int = 11,
    filter_sigma: float = 1.5,
    k1: float = 0.01,
    k2: float = 0.03,
    return_index_map: bool = False,
) -> Tensor:
    """Compare images by structural similarity (Wang et al., 2004), at most 1: float32 [...].

    Args:
        img1, img2: [..., height, width, channels] of one type and shape, at least as large as the filter.
        max_val: the range of values: 1.0 for floats, 255 for uint8.
        filter_size, filter_sigma: of the Gaussian window.
        return_index_map: give the similarity around each pixel, [..., height, width] less the filter, not its mean.

    Raises:
        ValueError: the shapes differ or have fewer than three dimensions.
    """
    with name_scope(None, "SSIM"):
        a, b, top, before = _prepared(img1, img2, max_val)
        alike, contrast = _compared(a, b, top, filter_size, filter_sigma, k1, k2)
        found = alike * contrast
        if not return_index_map:
            found = math_ops.reduce_mean(found, [1, 2])
        return _as_given(math_ops.reduce_mean(found, [-1]), before)


def ssim_multiscale(
    img1: Any,
    img2: Any,
    max_val: Any,
    power_factors: Sequence[float] = _POWERS,
    filter_size: int = 11,
    filter_sigma: float = 1.5,
    k1: float = 0.01,
    k2: float = 0.03,
) -> Tensor:
    """Compare images by structural similarity at several scales (Wang et al., 2003), at most 1: float32 [...].

    Args:
        img1, img2: [..., height, width, channels] of one type and shape; the smallest scale is at least as large as
            the filter.
        max_val: the range of values: 1.0 for floats, 255 for uint8.
        power_factors: how much each scale counts; each is half as large as the one before.
        filter_size, filter_sigma: of the Gaussian window.

    Raises:
        ValueError: the shapes differ or have fewer than three dimensions.
    """
    with name_scope(None, "MS-SSIM"):
        a, b, top, before = _prepared(img1, img2, max_val)
        factors: list[Any] = []
        for scale in range(len(power_factors)):
            if scale:
                a, b = _halved(a), _halved(b)
            alike, contrast = _compared(a, b, top, filter_size, filter_sigma, k1, k2)
            last = scale == len(power_factors) - 1
            factors.append(nn_ops.relu(math_ops.reduce_mean(alike * contrast if last else contrast, [1, 2])))
        powers = constant(list(power_factors), dtypes.float32)
        found = math_ops.reduce_prod(math_ops.pow(array_ops.stack(factors, axis=-1), powers), [-1])
        return _as_given(math_ops.reduce_mean(found, [-1]), before)


def _prepared(img1: Any, img2: Any, max_val: Any) -> tuple[Tensor, Tensor, Tensor, Any]:
    """Give float images [batch, height, width, channels], the range of values, and the dimensions before an image's."""
    a, b = convert_to_tensor(img1), convert_to_tensor(img2)
    a.shape.assert_is_compatible_with(b.shape)
    shape = a.shape.merge_with(b.shape)
    if shape.rank is None or shape.rank < 3:
        raise ValueError(f"images are [..., height, width, channels] of known rank, not {shape}")
    top = convert_image_dtype(math_ops.cast(max_val, a.dtype.base_dtype), dtypes.float32)
    a, b = convert_image_dtype(a, dtypes.float32), convert_image_dtype(b, dtypes.float32)
    if shape.rank == 4:
        return a, b, top, None
    whole = array_ops.shape(a)
    flat = array_ops.concat([[-1], whole[-3:]], 0)
    return array_ops.reshape(a, flat), array_ops.reshape(b, flat), top, (whole[:-3], shape[:-3])


def _as_given(found: Tensor, before: Any) -> Tensor:
    """Give what was found of each image of a batch the dimensions that the images had before them."""
    if before is None:
        return found
    sizes, known = before
    rest = found.shape[1:]
    found = array_ops.reshape(found, array_ops.concat([sizes, array_ops.shape(found)[1:]], 0))
    found.set_shape(known.concatenate(rest))
    return found


def _compared(
    a: Tensor, b: Tensor, top: Tensor, filter_size: int, filter_sigma: float, k1: float, k2: float
) -> tuple[Tensor, Tensor]:
    """Compare luminance, and contrast and structure, around each pixel of each channel."""
    at = np.square(np.arange(filter_size) - (filter_size - 1) / 2.0) / (-2.0 * filter_sigma**2)
    gauss = np.exp(at[:, None] + at[None, :])
    kernel = constant((gauss / gauss.sum())[:, :, None, None], dtypes.float32)
    kernel = array_ops.tile(kernel, array_ops.stack([1, 1, array_ops.shape(a)[3], 1]))

    def smooth(x: Any) -> Any:
        return nn_ops.depthwise_conv2d(x, kernel, [1, 1, 1, 1], "VALID")

    c1, c2 = math_ops.square(k1 * top), math_ops.square(k2 * top)
    mean_a, mean_b = smooth(a), smooth(b)
    product = mean_a * mean_b * 2.0
    squares = math_ops.square(mean_a) + math_ops.square(mean_b)
    contrast = (smooth(a * b) * 2.0 - product + c2) / (smooth(math_ops.square(a) + math_ops.square(b)) - squares + c2)
    return (product + c1) / (squares + c1), contrast


def _halved(images: Tensor) -> Tensor:
    """Take means of squares of four pixels; an odd row or column at the end counts twice."""
    odd = array_ops.shape(images)[1:3] % 2
    ends = array_ops.stack([constant([0, 0]), *([0, odd[i]] for i in (0, 1)), constant([0, 0])])
    return nn_ops.avg_pool(array_ops.pad(images, ends, mode="SYMMETRIC"), [1, 2, 2, 1], [1, 2, 2, 1], "VALID")
