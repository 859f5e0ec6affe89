"""`tf.contrib.layers`: what is most used of it, with its names of variables (`weights`, `biases`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dtfctl.contrib.framework import model_variable
from dtfctl.runtime.framework.convert import convert_to_tensor
from dtfctl.runtime.framework.graph_keys import (
    GraphKeys,
    add_to_collection,
    add_to_collections,
    get_collection,
    name_scope,
)
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.ops import init_ops, math_ops, nn_ops
from dtfctl.runtime.ops.array_ops import one_hot
from dtfctl.runtime.ops.layer_arguments import sized
from dtfctl.runtime.ops.layers import _activated, dropout as _dropout, flatten as _flatten
from dtfctl.runtime.ops.variable_scope import variable_scope

__all__ = [
    "apply_regularization",
    "avg_pool2d",
    "conv2d",
    "convolution2d",
    "dropout",
    "flatten",
    "fully_connected",
    "l1_regularizer",
    "l2_regularizer",
    "layer_norm",
    "linear",
    "max_pool2d",
    "one_hot_encoding",
    "relu",
    "sum_regularizer",
    "variance_scaling_initializer",
    "xavier_initializer",
    "xavier_initializer_conv2d",
]

Regularizer = Callable[[Any], Any]


def xavier_initializer(uniform: bool = True, seed: int | None = None, dtype: Any = "float32") -> Any:
    """Glorot and Bengio's: uniform, or normal."""
    return init_ops.VarianceScaling(1.0, "fan_avg", "uniform" if uniform else "truncated_normal", seed, dtype)


xavier_initializer_conv2d = xavier_initializer


def variance_scaling_initializer(
    factor: float = 2.0, mode: str = "FAN_IN", uniform: bool = False, seed: int | None = None, dtype: Any = "float32"
) -> Any:
    """He's by default: noise of variance `factor` over the number of inputs (FAN_IN), outputs or their mean."""
    return init_ops.VarianceScaling(factor, mode.lower(), "uniform" if uniform else "truncated_normal", seed, dtype)


def l2_regularizer(scale: float, scope: str | None = None) -> Regularizer:
    """`scale` times half the sum of squares."""

    def charge(weights: Any) -> Any:
        with name_scope(scope, "l2_regularizer"):
            return math_ops.multiply(scale, nn_ops.l2_loss(convert_to_tensor(weights)))

    return charge


def l1_regularizer(scale: float, scope: str | None = None) -> Regularizer:
    """`scale` times the sum of magnitudes."""

    def charge(weights: Any) -> Any:
        with name_scope(scope, "l1_regularizer"):
            return math_ops.multiply(scale, math_ops.reduce_sum(math_ops.abs(convert_to_tensor(weights))))

    return charge


def sum_regularizer(regularizer_list: Any, scope: str | None = None) -> Regularizer:
    """Add up what several regularizers charge."""

    def charge(weights: Any) -> Any:
        with name_scope(scope, "sum_regularizer"):
            return math_ops.add_n([r(weights) for r in regularizer_list if r is not None])

    return charge


def apply_regularization(regularizer: Regularizer, weights_list: Any = None) -> Any:
    """Sum what a regularizer charges for these (the WEIGHTS collection when None), noted as a loss."""
    weights = get_collection(GraphKeys.WEIGHTS) if weights_list is None else weights_list
    total = math_ops.add_n([regularizer(w) for w in weights])
    add_to_collection(GraphKeys.REGULARIZATION_LOSSES, total)
    return total


def _variable(
    name: str, shape: Any, x: Tensor, initializer: Any, regularizer: Any, trainable: bool, collections: Any
) -> Any:
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


def _noted(out: Tensor, collections: Any) -> Tensor:
    """Note the outputs in these collections, and return them."""
    if collections:
        add_to_collections(collections, out)
    return out


def _normalized(
    out: Tensor,
    size: int,
    normalizer_fn: Any,
    normalizer_params: Any,
    initializer: Any,
    regularizer: Any,
    trainable: bool,
    collections: Any,
) -> Tensor:
    """Apply a normalizer, or add biases."""
    if normalizer_fn is not None:
        normalized: Tensor = normalizer_fn(out, **(normalizer_params or {}))
        return normalized
    if initializer is None:
        return out
    biases = _variable("biases", [size], out, initializer, regularizer, trainable, collections)
    return apply_op("BiasAdd", value=out, bias=biases)


def fully_connected(
    inputs: Any,
    num_outputs: int,
    activation_fn: Any = nn_ops.relu,
    normalizer_fn: Any = None,
    normalizer_params: Any = None,
    weights_initializer: Any = None,
    weights_regularizer: Any = None,
    biases_initializer: Any = init_ops.Zeros,
    biases_regularizer: Any = None,
    reuse: Any = None,
    variables_collections: Any = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    scope: Any = None,
) -> Tensor:
    """activation(inputs . weights + biases) over the last axis; the rectifier by default."""
    x = convert_to_tensor(inputs)
    width = x.shape[-1].value
    if width is None:
        raise ValueError(f"The last axis of the inputs must have a known size, got {x.shape}")
    with variable_scope(scope, "fully_connected", reuse=reuse):
        initializer = weights_initializer or xavier_initializer()
        weights = _variable(
            "weights", [width, num_outputs], x, initializer, weights_regularizer, trainable, variables_collections
        )
        if x.shape.rank == 2:
            out = math_ops.matmul(x, weights)
        else:
            out = math_ops.tensordot(x, weights, [[(x.shape.rank or 1) - 1], [0]])
        out = _normalized(
            out,
            num_outputs,
            normalizer_fn,
            normalizer_params,
            biases_initializer,
            biases_regularizer,
            trainable,
            variables_collections,
        )
        return _noted(_activated(out, activation_fn, None), outputs_collections)


relu = fully_connected


def linear(inputs: Any, num_outputs: int, activation_fn: Any = None, **options: Any) -> Tensor:
    """`fully_connected` without an activation."""
    return fully_connected(inputs, num_outputs, activation_fn, **options)


def conv2d(
    inputs: Any,
    num_outputs: int,
    kernel_size: Any,
    stride: Any = 1,
    padding: str = "SAME",
    data_format: str | None = None,
    rate: Any = 1,
    activation_fn: Any = nn_ops.relu,
    normalizer_fn: Any = None,
    normalizer_params: Any = None,
    weights_initializer: Any = None,
    weights_regularizer: Any = None,
    biases_initializer: Any = init_ops.Zeros,
    biases_regularizer: Any = None,
    reuse: Any = None,
    variables_collections: Any = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    scope: Any = None,
) -> Tensor:
    """2-D convolution of [batch, height, width, channels]; padded and rectified by default.

    Raises:
        NotImplementedError: the channels come first.
    """
    if data_format not in (None, "NHWC"):
        raise NotImplementedError("dtfctl.contrib.layers.conv2d: only data_format NHWC; transpose the inputs")
    x = convert_to_tensor(inputs)
    channels = x.shape[-1].value
    with variable_scope(scope, "Conv", reuse=reuse):
        shape = [*sized(kernel_size, 2, "kernel_size"), channels, num_outputs]
        initializer = weights_initializer or xavier_initializer()
        weights = _variable("weights", shape, x, initializer, weights_regularizer, trainable, variables_collections)
        out = apply_op(
            "Conv2D",
            input=x,
            filter=weights,
            strides=[1, *sized(stride, 2, "stride"), 1],
            padding=padding.upper(),
            dilations=[1, *sized(rate, 2, "rate"), 1],
        )
        out = _normalized(
            out,
            num_outputs,
            normalizer_fn,
            normalizer_params,
            biases_initializer,
            biases_regularizer,
            trainable,
            variables_collections,
        )
        return _noted(_activated(out, activation_fn, None), outputs_collections)


convolution2d = conv2d


def _pool(op: str, key: str, inputs: Any, kernel_size: Any, stride: Any, padding: str, name: str) -> Tensor:
    size, step = sized(kernel_size, 2, "kernel_size"), sized(stride, 2, "stride")
    arguments = {key: convert_to_tensor(inputs), "ksize": [1, *size, 1], "strides": [1, *step, 1]}
    return apply_op(op, name, padding=padding.upper(), **arguments)


def max_pool2d(
    inputs: Any, kernel_size: Any, stride: Any = 2, padding: str = "VALID", scope: str | None = None
) -> Tensor:
    """Maxima over windows."""
    return _pool("MaxPool", "input", inputs, kernel_size, stride, padding, scope or "MaxPool2D")


def avg_pool2d(
    inputs: Any, kernel_size: Any, stride: Any = 2, padding: str = "VALID", scope: str | None = None
) -> Tensor:
    """Means over windows."""
    return _pool("AvgPool", "value", inputs, kernel_size, stride, padding, scope or "AvgPool2D")


def flatten(inputs: Any, outputs_collections: Any = None, scope: str | None = None) -> Tensor:
    """[batch, ...] -> [batch, n]."""
    return _noted(_flatten(inputs, scope or "Flatten"), outputs_collections)


def dropout(
    inputs: Any,
    keep_prob: float = 0.5,
    noise_shape: Any = None,
    is_training: Any = True,
    outputs_collections: Any = None,
    scope: str | None = None,
    seed: int | None = None,
) -> Tensor:
    """Keep elements with probability `keep_prob` while training, and scale them up."""
    out = _dropout(inputs, 1 - keep_prob, noise_shape, seed, is_training, scope or "Dropout")
    return _noted(out, outputs_collections)


def one_hot_encoding(labels: Any, num_classes: int, on_value: float = 1.0, off_value: float = 0.0) -> Tensor:
    """Rows that are `on_value` at their label."""
    return one_hot(labels, num_classes, on_value, off_value)


def layer_norm(
    inputs: Any,
    center: bool = True,
    scale: bool = True,
    activation_fn: Any = None,
    reuse: Any = None,
    variables_collections: Any = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    begin_norm_axis: int = 1,
    begin_params_axis: int = -1,
    scope: Any = None,
) -> Tensor:
    """Normalize each example over its axes from `begin_norm_axis` on (Ba et al., 2016), then scale and shift it.

    Raises:
        ValueError: the rank, or a size that the parameters need, is unknown.
    """
    x = convert_to_tensor(inputs)
    rank = x.shape.rank
    if rank is None:
        raise ValueError("layer_norm needs inputs of known rank")
    shape = x.shape.as_list()[begin_params_axis % rank :]
    if None in shape:
        raise ValueError(f"Inputs shape {x.shape} is not fully defined from axis {begin_params_axis} on")
    with variable_scope(scope, "LayerNorm", reuse=reuse):
        beta = _variable("beta", shape, x, init_ops.Zeros(), None, trainable, variables_collections) if center else None
        gamma = _variable("gamma", shape, x, init_ops.Ones(), None, trainable, variables_collections) if scale else None
        mean, variance = nn_ops.moments(x, list(range(begin_norm_axis % rank, rank)), keep_dims=True)
        out = nn_ops.batch_normalization(x, mean, variance, beta, gamma, 1e-12)
        out.set_shape(x.shape)
        return _noted(_activated(out, activation_fn, None), outputs_collections)
