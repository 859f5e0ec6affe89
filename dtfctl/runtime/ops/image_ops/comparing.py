"""Other color spaces, edges, and how much alike two images look."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dtfctl.runtime.framework.convert import constant, convert_to_tensor
from dtfctl.runtime.framework.graph_keys import name_scope
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.ops import array_ops, math_ops
from dtfctl.runtime.ops.nn_ops import depthwise_conv2d

# Columns are Y and the two differences of color, each from red, green and blue.
_YIQ = [[0.299, 0.59590059, 0.2115], [0.587, -0.27455667, -0.52273617], [0.114, -0.32134392, 0.31119955]]
_YUV = [[0.299, -0.14714119, 0.61497538], [0.587, -0.28886916, -0.51496512], [0.114, 0.43601035, -0.10001026]]
# Not quite the inverse matrices: these are the digits TensorFlow has.
_FROM_YIQ = [[1, 1, 1], [0.95598634, -0.27201283, -1.10674021], [0.6208248, -0.64720424, 1.70423049]]
_FROM_YUV = [[1, 1, 1], [0, -0.394642334, 2.03206185], [1.13988303, -0.58062185, 0]]


def _mixer(name: str, matrix: Any, doc: str) -> Callable[[Any], Tensor]:
    def function(images: Any) -> Tensor:
        with name_scope(None, name):
            images = convert_to_tensor(images)
            kernel = constant(np.asarray(matrix), images.dtype.base_dtype)
            return math_ops.tensordot(images, kernel, axes=[[images.shape.rank - 1], [0]])

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{doc} The last dimension of a float tensor holds the three channels."
    return function


rgb_to_yiq = _mixer("rgb_to_yiq", _YIQ, "RGB, in [0, 1], as YIQ.")
rgb_to_yuv = _mixer("rgb_to_yuv", _YUV, "RGB, in [0, 1], as YUV.")
yiq_to_rgb = _mixer("yiq_to_rgb", _FROM_YIQ, "YIQ as RGB.")
yuv_to_rgb = _mixer("yuv_to_rgb", _FROM_YUV, "YUV as RGB.")


def image_gradients(image: Any) -> tuple[Tensor, Tensor]:
    """Subtract each pixel from the one below and the one on the right, 0 at the end: (dy, dx) of the shape of `image`.

    Raises:
        ValueError: the image is not [batch, height, width, channels].
    """
    image = convert_to_tensor(image)
    if image.shape.rank != 4:
        raise ValueError(f"image_gradients expects a 4D tensor [batch_size, h, w, d], not {image.shape}.")
    dy = array_ops.pad(image[:, 1:] - image[:, :-1], [[0, 0], [0, 1], [0, 0], [0, 0]])
    dx = array_ops.pad(image[:, :, 1:] - image[:, :, :-1], [[0, 0], [0, 0], [0, 1], [0, 0]])
    dy.set_shape(image.shape)
    dx.set_shape(image.shape)
    return dy, dx


def sobel_edges(image: Any) -> Tensor:
    """Find Sobel's vertical and horizontal edges of each channel: [batch, height, width, channels, 2]."""
    image = convert_to_tensor(image)
    down = np.outer([-1, 0, 1], [1, 2, 1])
    kernel = constant(np.stack([down, down.T], -1)[:, :, None, :], image.dtype.base_dtype)
    shape = array_ops.shape(image)
    kernel = array_ops.tile(kernel, array_ops.stack([1, 1, shape[3], 1]))
    padded = array_ops.pad(image, [[0, 0], [1, 1], [1, 1], [0, 0]], mode="REFLECT")
    edges = depthwise_conv2d(padded, kernel, [1, 1, 1, 1], "VALID")
    out = array_ops.reshape(edges, array_ops.concat([shape, constant([2])], 0))
    out.set_shape(image.shape.concatenate([2]))
    return out
