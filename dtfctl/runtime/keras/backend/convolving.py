"""Convolutions and pooling, and images and volumes of other sizes.

Channels are last or first as `data_format` says, or as `image_data_format` does where it is not given.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from dtfctl.runtime.framework.convert import convert_to_tensor
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.keras.backend.numeric import batch_dot
from dtfctl.runtime.keras.backend.settings import image_data_format
from dtfctl.runtime.keras.backend.shapes import repeat_elements, temporal_padding
from dtfctl.runtime.ops import array_ops, nn_ops
from dtfctl.runtime.ops.image_ops import resizing

_LAST = {1: "NWC", 2: "NHWC", 3: "NDHWC"}
_FIRST = {1: "NCW", 2: "NCHW", 3: "NCDHW"}


def _is_first(data_format: str | None) -> bool:
    found = data_format or image_data_format()
    if found not in ("channels_first", "channels_last"):
        raise ValueError(f"Unknown data_format: {found}")
    return found == "channels_first"


def _padding(padding: str) -> str:
    if padding not in ("same", "valid"):
        raise ValueError(f"Invalid padding: {padding}")
    return padding.upper()


def _each(sizes: Any, rank: int, first: bool, what: str) -> list[int]:
    """Give a size for each axis of a tensor, 1 for the batch and the channels."""
    if len(sizes) != rank:
        raise ValueError(f"`{what}` must be a tuple of {rank} integers.")
    return [1, 1, *sizes] if first else [1, *sizes, 1]


def _convolved(x: Any, kernel: Any, strides: Any, padding: str, data_format: str | None, dilation: Any) -> Tensor:
    rank = len(convert_to_tensor(kernel).shape.as_list()) - 2
    return nn_ops.convolution(
        x,
        kernel,
        _padding(padding),
        strides=strides,
        dilation_rate=dilation,
        data_format=(_FIRST if _is_first(data_format) else _LAST)[rank],
    )


def conv1d(
    x: Any,
    kernel: Any,
    strides: int = 1,
    padding: str = "valid",
    data_format: str | None = None,
    dilation_rate: int = 1,
) -> Tensor:
    """Convolve steps; "causal" padding is before them only."""
    if padding == "causal":
        reach = dilation_rate * (kernel.shape.as_list()[0] - 1)
        x, padding = temporal_padding(x, (reach, 0)), "valid"
    return _convolved(x, kernel, [strides], padding, data_format, [dilation_rate])


def conv2d(
    x: Any,
    kernel: Any,
    strides: Any = (1, 1),
    padding: str = "valid",
    data_format: str | None = None,
    dilation_rate: Any = (1, 1),
) -> Tensor:
    """Convolve images."""
    return _convolved(x, kernel, strides, padding, data_format, dilation_rate)


def conv3d(
    x: Any,
    kernel: Any,
    strides: Any = (1, 1, 1),
    padding: str = "valid",
    data_format: str | None = None,
    dilation_rate: Any = (1, 1, 1),
) -> Tensor:
    """Convolve volumes."""
    return _convolved(x, kernel, strides, padding, data_format, dilation_rate)


def conv2d_transpose(
    x: Any,
    kernel: Any,
    output_shape: Any,
    strides: Any = (1, 1),
    padding: str = "valid",
    data_format: str | None = None,
    dilation_rate: Any = (1, 1),
) -> Tensor:
    """Compute what a convolution's gradient does, to an image of this shape.

    Raises:
        ValueError: the two rates of dilation differ.
    """
    first = _is_first(data_format)
    if isinstance(output_shape, (tuple, list)):
        batch = array_ops.shape(x)[0] if output_shape[0] is None else output_shape[0]
        output_shape = array_ops.stack([batch, *output_shape[1:]])
    if dilation_rate[0] != dilation_rate[1]:
        raise ValueError(
            "Expected the 2 dimensions of the `dilation_rate` argument to be equal to each other. "
            f"Received: dilation_rate={dilation_rate}"
        )
    return nn_ops.conv2d_transpose(
        x,
        kernel,
        output_shape,
        _each(strides, 2, first, "strides"),
        _padding(padding),
        "NCHW" if first else "NHWC",
        dilations=_each(dilation_rate, 2, first, "dilation_rate"),
    )


def depthwise_conv2d(
    x: Any,
    depthwise_kernel: Any,
    strides: Any = (1, 1),
    padding: str = "valid",
    data_format: str | None = None,
    dilation_rate: Any = (1, 1),
) -> Tensor:
    """Convolve each channel of images by itself."""
    first = _is_first(data_format)
    return nn_ops.depthwise_conv2d(
        x,
        depthwise_kernel,
        _each(strides, 2, first, "strides"),
        _padding(padding),
        rate=dilation_rate,
        data_format="NCHW" if first else "NHWC",
    )


def separable_conv2d(
    x: Any,
    depthwise_kernel: Any,
    pointwise_kernel: Any,
    strides: Any = (1, 1),
    padding: str = "valid",
    data_format: str | None = None,
    dilation_rate: Any = (1, 1),
) -> Tensor:
    """Convolve each channel of images by itself, then mix the channels."""
    first = _is_first(data_format)
    return nn_ops.separable_conv2d(
        x,
        depthwise_kernel,
        pointwise_kernel,
        _each(strides, 2, first, "strides"),
        _padding(padding),
        rate=dilation_rate,
        data_format="NCHW" if first else "NHWC",
    )


def _pooled(x: Any, size: Any, strides: Any, padding: str, data_format: str | None, mode: str, rank: int) -> Tensor:
    first = _is_first(data_format)
    ways: dict[tuple[str, int], Callable[..., Tensor]] = {
        ("max", 2): nn_ops.max_pool,
        ("avg", 2): nn_ops.avg_pool,
        ("max", 3): nn_ops.max_pool3d,
        ("avg", 3): nn_ops.avg_pool3d,
    }
    if (mode, rank) not in ways:
        raise ValueError(f"Invalid pooling mode: {mode}")
    return ways[mode, rank](
        x,
        _each(size, rank, first, "pool_size"),
        _each(strides, rank, first, "strides"),
        _padding(padding),
        (_FIRST if first else _LAST)[rank],
    )


def pool2d(
    x: Any,
    pool_size: Any,
    strides: Any = (1, 1),
    padding: str = "valid",
    data_format: str | None = None,
    pool_mode: str = "max",
) -> Tensor:
    """Take the largest or the mean of windows of images."""
    return _pooled(x, pool_size, strides, padding, data_format, pool_mode, 2)


def pool3d(
    x: Any,
    pool_size: Any,
    strides: Any = (1, 1, 1),
    padding: str = "valid",
    data_format: str | None = None,
    pool_mode: str = "max",
) -> Tensor:
    """Take the largest or the mean of windows of volumes."""
    return _pooled(x, pool_size, strides, padding, data_format, pool_mode, 3)


def local_conv(
    inputs: Any, kernel: Any, kernel_size: Any, strides: Any, output_shape: Any, data_format: str | None = None
) -> Tensor:
    """Convolve with a kernel of its own for each place: [places, inputs of a place, channels]."""
    first, rank = _is_first(data_format), len(output_shape)
    kernel = convert_to_tensor(kernel)
    depth = kernel.shape.as_list()[1]
    seen = []
    for place in itertools.product(*map(range, output_shape)):
        window = [slice(at * s, at * s + n) for at, s, n in zip(place, strides, kernel_size)]
        whole = slice(None)
        part = inputs[(whole, whole, *window)] if first else inputs[(whole, *window, whole)]
        seen.append(array_ops.reshape(part, [1, -1, depth]))
    found = batch_dot(array_ops.concat(seen, 0), kernel)
    found = array_ops.reshape(found, [*output_shape, -1, kernel.shape.as_list()[2]])
    places = list(range(rank))
    return array_ops.transpose(found, [rank, rank + 1, *places] if first else [rank, *places, rank + 1])


def local_conv1d(inputs: Any, kernel: Any, kernel_size: Any, strides: Any, data_format: str | None = None) -> Tensor:
    """Convolve steps with a kernel of its own for each place."""
    return local_conv(inputs, kernel, kernel_size, strides, (kernel.shape.as_list()[0],), data_format)


def local_conv2d(
    inputs: Any, kernel: Any, kernel_size: Any, strides: Any, output_shape: Any, data_format: str | None = None
) -> Tensor:
    """Convolve images with a kernel of its own for each place."""
    return local_conv(inputs, kernel, kernel_size, strides, output_shape, data_format)


def resize_images(
    x: Any, height_factor: int, width_factor: int, data_format: str, interpolation: str = "nearest"
) -> Tensor:
    """Make images larger by whole factors, by "nearest" or "bilinear" interpolation.

    Raises:
        NotImplementedError: by another interpolation.
    """
    first = _is_first(data_format)
    if interpolation not in ("nearest", "bilinear"):
        raise NotImplementedError(
            f'resize_images has "nearest" and "bilinear" here, not {interpolation!r}: see tf.image'
        )
    resize = resizing.resize_nearest_neighbor if interpolation == "nearest" else resizing.resize_bilinear
    x = array_ops.transpose(x, [0, 2, 3, 1]) if first else x
    known = x.shape.as_list()[1:3]
    factors = [int(height_factor), int(width_factor)]
    x = resize(x, array_ops.shape(x)[1:3] * convert_to_tensor(factors), half_pixel_centers=True)
    x.set_shape([None, *(None if n is None else n * f for n, f in zip(known, factors)), None])
    return array_ops.transpose(x, [0, 3, 1, 2]) if first else x


def resize_volumes(x: Any, depth_factor: int, height_factor: int, width_factor: int, data_format: str) -> Tensor:
    """Repeat the elements of volumes along each axis."""
    begin = 2 if _is_first(data_format) else 1
    for axis, factor in enumerate((depth_factor, height_factor, width_factor), begin):
        x = repeat_elements(x, factor, axis)
    found: Tensor = x
    return found
