"""`tensorflow.python.ops.nn_ops` and `nn_impl`: what is a name of TensorFlow 2 outside, or none."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime import api as tf
from dtfctl.runtime.api import nn
from dtfctl.runtime.ops.nn_ops import convolutions

conv1d_transpose = nn.conv1d_transpose
log_softmax_v2, softmax_v2 = nn.log_softmax, nn.softmax


def sparse_softmax_cross_entropy_with_logits_v2(labels: Any, logits: Any, name: str | None = None) -> Any:
    """Compute the loss of classes, with the labels first."""
    return nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits, name=name)


def conv2d_v2(
    input: Any,
    filters: Any,
    strides: Any,
    padding: Any,
    data_format: str = "NHWC",
    dilations: Any = None,
    name: str | None = None,
) -> Any:
    """Convolve images."""
    return nn.conv2d(input, filters, strides, padding, data_format=data_format, dilations=dilations, name=name)


def conv3d_v2(
    input: Any,
    filters: Any,
    strides: Any,
    padding: Any,
    data_format: str = "NDHWC",
    dilations: Any = None,
    name: str | None = None,
) -> Any:
    """Convolve volumes."""
    return nn.conv3d(input, filters, strides, padding, data_format, dilations or [1] * 5, name)


def conv2d_transpose_v2(
    input: Any,
    filters: Any,
    output_shape: Any,
    strides: Any,
    padding: Any = "SAME",
    data_format: str | None = "NHWC",
    dilations: Any = None,
    name: str | None = None,
) -> Any:
    """Apply the transpose of a convolution of images."""
    form = data_format or "NHWC"
    return convolutions.conv2d_transpose(
        input, filters, output_shape, strides, padding, form, name, dilations=dilations
    )


def conv3d_transpose_v2(
    input: Any,
    filters: Any,
    output_shape: Any,
    strides: Any,
    padding: str = "SAME",
    data_format: str | None = "NDHWC",
    dilations: Any = None,
    name: str | None = None,
) -> Any:
    """Apply the transpose of a convolution of volumes."""
    form = data_format or "NDHWC"
    return convolutions.conv3d_transpose(
        input, filters, output_shape, strides, padding, form, name, dilations=dilations
    )


def conv3d_backprop_filter_v2(
    input: Any,
    filter_sizes: Any,
    out_backprop: Any,
    strides: Any,
    padding: str,
    data_format: str = "NDHWC",
    dilations: Any = (1, 1, 1, 1, 1),
    name: str | None = None,
) -> Any:
    """Compute the gradient of a convolution of volumes with respect to its filter."""
    return tf.raw_ops.Conv3DBackpropFilterV2(
        input=input,
        filter_sizes=filter_sizes,
        out_backprop=out_backprop,
        strides=strides,
        padding=padding,
        data_format=data_format,
        dilations=list(dilations),
        name=name,
    )


def dropout_v2(x: Any, rate: Any, noise_shape: Any = None, seed: Any = None, name: str | None = None) -> Any:
    """Set elements to 0 at a rate, and scale the others up."""
    return nn.dropout(x, rate=rate, noise_shape=noise_shape, seed=seed, name=name)


def gelu(features: Any, approximate: bool = False, name: str | None = None) -> Any:
    """Multiply each number by the share of a normal distribution that is below it.

    Raises:
        ValueError: the type is not floating.
    """
    with tf.name_scope(name, "Gelu", [features]):
        x = tf.convert_to_tensor(features, name="features")
        if not x.dtype.is_floating:
            raise ValueError(f"`features.dtype` must be a floating point tensor.Received:features.dtype={x.dtype}")
        if approximate:
            return 0.5 * x * (1.0 + tf.tanh(0.7978845608028654 * (x + 0.044715 * tf.pow(x, 3))))
        return 0.5 * x * tf.math.erfc(-x * 0.7071067811865476)


def _pooled(op: str, value: Any, pooling_ratio: Any, *flags: bool, seed: int, name: str | None) -> Any:
    if not isinstance(pooling_ratio, (list, tuple, int, float)):
        raise ValueError(f"`pooling_ratio` should be an int or a list of ints. Received: pooling_ratio={pooling_ratio}")
    given = list(pooling_ratio) if isinstance(pooling_ratio, (list, tuple)) else [pooling_ratio]
    ratio = [1.0, *(given * 2 if len(given) == 1 else given), 1.0] if len(given) < 4 else given
    if ratio[0] != 1.0 or ratio[-1] != 1.0:
        raise ValueError(
            "`pooling_ratio` should have first and last elements with value 1.0. "
            f"Received: pooling_ratio={pooling_ratio}"
        )
    if min(ratio) < 1.0:
        raise ValueError(f"`pooling_ratio` elements should be >= 1.0. Received: pooling_ratio={pooling_ratio}")
    pseudo_random, overlapping = flags
    seeds = (0, 0) if seed == 0 else tf.get_seed(seed)
    pool = getattr(nn, op)
    return pool(value, ratio, pseudo_random, overlapping, seed != 0, *seeds, name=name)


def fractional_max_pool_v2(
    value: Any,
    pooling_ratio: Any,
    pseudo_random: bool = False,
    overlapping: bool = False,
    seed: int = 0,
    name: str | None = None,
) -> Any:
    """Take maxima over windows whose places are drawn, by a seed alone."""
    return _pooled("fractional_max_pool", value, pooling_ratio, pseudo_random, overlapping, seed=seed, name=name)


def fractional_avg_pool_v2(
    value: Any,
    pooling_ratio: Any,
    pseudo_random: bool = False,
    overlapping: bool = False,
    seed: int = 0,
    name: str | None = None,
) -> Any:
    """Take means over windows whose places are drawn, by a seed alone."""
    return _pooled("fractional_avg_pool", value, pooling_ratio, pseudo_random, overlapping, seed=seed, name=name)


def __getattr__(name: str) -> Any:
    return getattr(nn, name)
