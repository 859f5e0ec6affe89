"""Fully connected and convolutional layers, with `tf.contrib.layers`' names of variables (`weights`, `biases`)."""

from __future__ import annotations

from typing import Any

from dtfctl.contrib.arg_scope import add_arg_scope
from dtfctl.contrib.framework import model_variable
from dtfctl.contrib.layers.utils import collect_named_outputs
from dtfctl.contrib.layers.weights import xavier_initializer
from dtfctl.runtime import api as tf
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.ops.layer_arguments import grown_length, sized


def made(name: str, shape: Any, x: Any, initializer: Any, regularizer: Any, trainable: bool, collections: Any) -> Any:
    """Make a variable of the model; `collections` may say for each by its name in which it is."""
    return model_variable(
        name,
        shape,
        x.dtype.base_dtype,
        initializer,
        regularizer=regularizer,
        trainable=trainable,
        collections=collections.get(name) if isinstance(collections, dict) else collections,
    )


def _finished(
    out: Any,
    size: int,
    scope: Any,
    normalizer_fn: Any,
    normalizer_params: Any,
    initializer: Any,
    regularizer: Any,
    trainable: bool,
    variables_collections: Any,
    activation_fn: Any,
    outputs_collections: Any,
    layout: str = "NHWC",
) -> Any:
    """Apply a normalizer or add biases, then the activation, and note the outputs."""
    if normalizer_fn is not None:
        out = normalizer_fn(out, **(normalizer_params or {}))
    elif initializer is not None:
        biases = made("biases", [size], out, initializer, regularizer, trainable, variables_collections)
        out = tf.nn.bias_add(out, biases, layout)
    if activation_fn is not None:
        out = activation_fn(out)
    return collect_named_outputs(outputs_collections, scope.name, out)


def _channels(x: Any, axis: int) -> int:
    size = x.shape[axis].value if x.shape.rank is not None else None
    if size is None:
        raise ValueError(f"Axis {axis} of the inputs must have a known size, got {x.shape}")
    return int(size)


@add_arg_scope
def fully_connected(
    inputs: Any,
    num_outputs: int,
    activation_fn: Any = tf.nn.relu,
    normalizer_fn: Any = None,
    normalizer_params: Any = None,
    weights_initializer: Any = None,
    weights_regularizer: Any = None,
    biases_initializer: Any = tf.zeros_initializer,
    biases_regularizer: Any = None,
    reuse: Any = None,
    variables_collections: Any = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    scope: Any = None,
) -> Any:
    """activation(inputs . weights + biases) over the last axis; the rectifier by default."""
    x = tf.convert_to_tensor(inputs)
    width = _channels(x, -1)
    initializer = weights_initializer or xavier_initializer()
    with tf.variable_scope(scope, "fully_connected", [x], reuse=reuse) as opened:
        weights = made(
            "weights", [width, num_outputs], x, initializer, weights_regularizer, trainable, variables_collections
        )
        rank = int(x.shape.rank or 0)
        out = tf.matmul(x, weights) if rank == 2 else tf.tensordot(x, weights, [[rank - 1], [0]])
        return _finished(
            out,
            num_outputs,
            opened,
            normalizer_fn,
            normalizer_params,
            biases_initializer,
            biases_regularizer,
            trainable,
            variables_collections,
            activation_fn,
            outputs_collections,
        )


relu = fully_connected


@add_arg_scope
def linear(inputs: Any, num_outputs: int, activation_fn: Any = None, **options: Any) -> Any:
    """`fully_connected` without an activation."""
    return fully_connected(inputs, num_outputs, activation_fn, **options)


@add_arg_scope
def convolution(
    inputs: Any,
    num_outputs: int,
    kernel_size: Any,
    stride: Any = 1,
    padding: str = "SAME",
    data_format: str | None = None,
    rate: Any = 1,
    activation_fn: Any = tf.nn.relu,
    normalizer_fn: Any = None,
    normalizer_params: Any = None,
    weights_initializer: Any = None,
    weights_regularizer: Any = None,
    biases_initializer: Any = tf.zeros_initializer,
    biases_regularizer: Any = None,
    reuse: Any = None,
    variables_collections: Any = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    scope: Any = None,
    conv_dims: int | None = None,
) -> Any:
    """Convolve over one to three axes: [batch, ..., channels], or [batch, channels, ...]; padded and rectified.

    Raises:
        ValueError: the rank is not that of `conv_dims` axes, or the channels are unknown.
    """
    x = tf.convert_to_tensor(inputs)
    rank = int(x.shape.rank or 0)
    if conv_dims is not None and conv_dims + 2 != rank:
        raise ValueError(f"Convolution expects input with rank {conv_dims + 2}, got {rank}")
    if rank not in (3, 4, 5):
        raise ValueError(f"Convolution not supported for input with rank {rank}")
    dims = rank - 2
    first = data_format is not None and data_format.startswith("NC")
    channels = _channels(x, 1 if first else -1)
    initializer = weights_initializer or xavier_initializer()
    with tf.variable_scope(scope, "Conv", [x], reuse=reuse) as opened:
        weights = made(
            "weights",
            [*sized(kernel_size, dims, "kernel_size"), channels, num_outputs],
            x,
            initializer,
            weights_regularizer,
            trainable,
            variables_collections,
        )
        out = tf.nn.convolution(
            x,
            weights,
            padding.upper(),
            sized(stride, dims, "stride"),
            sized(rate, dims, "rate"),
            data_format=data_format,
        )
        return _finished(
            out,
            num_outputs,
            opened,
            normalizer_fn,
            normalizer_params,
            biases_initializer,
            biases_regularizer,
            trainable,
            variables_collections,
            activation_fn,
            outputs_collections,
            "NCHW" if first else "NHWC",
        )


@add_arg_scope
def conv1d(inputs: Any, num_outputs: int, kernel_size: Any, *args: Any, **options: Any) -> Any:
    """Convolve [batch, length, channels]."""
    options["conv_dims"] = 1
    return convolution(inputs, num_outputs, kernel_size, *args, **options)


@add_arg_scope
def conv2d(inputs: Any, num_outputs: int, kernel_size: Any, *args: Any, **options: Any) -> Any:
    """Convolve [batch, height, width, channels], padded and rectified by default; the arguments of `convolution`."""
    options["conv_dims"] = 2
    return convolution(inputs, num_outputs, kernel_size, *args, **options)


@add_arg_scope
def conv3d(inputs: Any, num_outputs: int, kernel_size: Any, *args: Any, **options: Any) -> Any:
    """Convolve [batch, depth, height, width, channels]."""
    options["conv_dims"] = 3
    return convolution(inputs, num_outputs, kernel_size, *args, **options)


convolution1d, convolution2d, convolution3d = conv1d, conv2d, conv3d


@add_arg_scope
def conv2d_transpose(
    inputs: Any,
    num_outputs: int,
    kernel_size: Any,
    stride: Any = 1,
    padding: str = "SAME",
    data_format: str = "NHWC",
    activation_fn: Any = tf.nn.relu,
    normalizer_fn: Any = None,
    normalizer_params: Any = None,
    weights_initializer: Any = None,
    weights_regularizer: Any = None,
    biases_initializer: Any = tf.zeros_initializer,
    biases_regularizer: Any = None,
    reuse: Any = None,
    variables_collections: Any = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    scope: Any = None,
) -> Any:
    """Convolve transposed: [batch, height, width, channels] to `stride` times that height and width."""
    x = tf.convert_to_tensor(inputs)
    first = data_format == "NCHW"
    size, steps = sized(kernel_size, 2, "kernel_size"), sized(stride, 2, "stride")
    initializer = weights_initializer or xavier_initializer()
    with tf.variable_scope(scope, "Conv2d_transpose", [x], reuse=reuse) as opened:
        shape = [*size, num_outputs, _channels(x, 1 if first else -1)]
        weights = made("weights", shape, x, initializer, weights_regularizer, trainable, variables_collections)
        known, dynamic = x.shape.as_list(), tf.shape(x)
        at = 2 if first else 1
        grown = [
            grown_length(dynamic[at + i] if known[at + i] is None else known[at + i], size[i], steps[i], padding)
            for i in range(2)
        ]
        static = [None if isinstance(g, Tensor) else g for g in grown]
        batch = dynamic[0] if known[0] is None else known[0]
        wanted = [batch, num_outputs, *grown] if first else [batch, *grown, num_outputs]
        strides = [1, 1, *steps] if first else [1, *steps, 1]
        out = tf.nn.conv2d_transpose(x, weights, tf.stack(wanted), strides, padding.upper(), data_format)
        out.set_shape([known[0], num_outputs, *static] if first else [known[0], *static, num_outputs])
        return _finished(
            out,
            num_outputs,
            opened,
            normalizer_fn,
            normalizer_params,
            biases_initializer,
            biases_regularizer,
            trainable,
            variables_collections,
            activation_fn,
            outputs_collections,
            data_format,
        )


convolution2d_transpose = conv2d_transpose


@add_arg_scope
def separable_conv2d(
    inputs: Any,
    num_outputs: int | None,
    kernel_size: Any,
    depth_multiplier: int = 1,
    stride: Any = 1,
    padding: str = "SAME",
    data_format: str = "NHWC",
    rate: Any = 1,
    activation_fn: Any = tf.nn.relu,
    normalizer_fn: Any = None,
    normalizer_params: Any = None,
    weights_initializer: Any = None,
    pointwise_initializer: Any = None,
    weights_regularizer: Any = None,
    biases_initializer: Any = tf.zeros_initializer,
    biases_regularizer: Any = None,
    reuse: Any = None,
    variables_collections: Any = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    scope: Any = None,
) -> Any:
    """Convolve each channel, then the channels at each place; only the first where `num_outputs` is None.

    Raises:
        ValueError: the channels come first.
    """
    if data_format != "NHWC":
        raise ValueError("separable_conv2d: only data_format NHWC; transpose the inputs")
    x = tf.convert_to_tensor(inputs)
    channels = _channels(x, -1)
    initializer = weights_initializer or xavier_initializer()
    rates, steps = sized(rate, 2, "rate"), sized(stride, 2, "stride")
    with tf.variable_scope(scope, "SeparableConv2d", [x], reuse=reuse) as opened:

        def kernel(name: str, shape: Any, start: Any) -> Any:
            return made(name, shape, x, start, weights_regularizer, trainable, variables_collections)

        size = sized(kernel_size, 2, "kernel_size")
        depthwise = kernel("depthwise_weights", [*size, channels, depth_multiplier], initializer)
        window = [1, *steps, 1]
        if num_outputs is None:
            out = tf.nn.depthwise_conv2d(x, depthwise, window, padding.upper(), rates)
        else:
            shape = [1, 1, channels * depth_multiplier, num_outputs]
            pointwise = kernel("pointwise_weights", shape, pointwise_initializer or initializer)
            out = tf.nn.separable_conv2d(x, depthwise, pointwise, window, padding.upper(), rates)
        return _finished(
            out,
            channels * depth_multiplier if num_outputs is None else num_outputs,
            opened,
            normalizer_fn,
            normalizer_params,
            biases_initializer,
            biases_regularizer,
            trainable,
            variables_collections,
            activation_fn,
            outputs_collections,
        )


separable_convolution2d = separable_conv2d


@add_arg_scope
def conv2d_in_plane(
    inputs: Any,
    kernel_size: Any,
    stride: Any = 1,
    padding: str = "SAME",
    activation_fn: Any = tf.nn.relu,
    weights_initializer: Any = None,
    scope: Any = None,
    reuse: Any = None,
) -> Any:
    """Convolve every channel with the same kernel."""
    x = tf.convert_to_tensor(inputs)
    channels = _channels(x, -1)
    with tf.variable_scope(scope, "ConvInPlane", [x], reuse=reuse):
        shape = [*sized(kernel_size, 2, "kernel_size"), 1, 1]
        weights = made("weights", shape, x, weights_initializer or xavier_initializer(), None, True, None)
        wide = tf.tile(weights, [1, 1, channels, 1])
        out = tf.nn.depthwise_conv2d(x, wide, [1, *sized(stride, 2, "stride"), 1], padding.upper())
        biases = made("biases", [channels], x, tf.zeros_initializer(), None, True, None)
        out = tf.nn.bias_add(out, biases)
        return out if activation_fn is None else activation_fn(out)


convolution2d_in_plane = conv2d_in_plane
