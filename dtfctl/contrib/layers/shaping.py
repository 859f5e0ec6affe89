"""Layers of `tf.contrib.layers` that pool, reshape, drop, embed and stack."""

from __future__ import annotations

from typing import Any

from dtfctl.contrib.arg_scope import add_arg_scope
from dtfctl.contrib.layers.core import conv2d, fully_connected, made, separable_conv2d
from dtfctl.contrib.layers.utils import collect_named_outputs
from dtfctl.runtime import api as tf
from dtfctl.runtime.ops.layer_arguments import sized


def _pooled(
    function: Any,
    inputs: Any,
    kernel_size: Any,
    stride: Any,
    padding: str,
    data_format: str,
    outputs_collections: Any,
    scope: Any,
    name: str,
) -> Any:
    x = tf.convert_to_tensor(inputs)
    size, step = sized(kernel_size, 2, "kernel_size"), sized(stride, 2, "stride")
    first = data_format == "NCHW"
    with tf.name_scope(scope, name, [x]) as opened:
        windows = [[1, 1, *v] if first else [1, *v, 1] for v in (size, step)]
        out = function(x, *windows, padding=padding.upper(), data_format=data_format)
        return collect_named_outputs(outputs_collections, opened, out)


@add_arg_scope
def max_pool2d(
    inputs: Any,
    kernel_size: Any,
    stride: Any = 2,
    padding: str = "VALID",
    data_format: str = "NHWC",
    outputs_collections: Any = None,
    scope: str | None = None,
) -> Any:
    """Take the maxima of windows."""
    arguments = (inputs, kernel_size, stride, padding, data_format, outputs_collections, scope, "MaxPool2D")
    return _pooled(tf.nn.max_pool, *arguments)


@add_arg_scope
def avg_pool2d(
    inputs: Any,
    kernel_size: Any,
    stride: Any = 2,
    padding: str = "VALID",
    data_format: str = "NHWC",
    outputs_collections: Any = None,
    scope: str | None = None,
) -> Any:
    """Take the means of windows."""
    arguments = (inputs, kernel_size, stride, padding, data_format, outputs_collections, scope, "AvgPool2D")
    return _pooled(tf.nn.avg_pool, *arguments)


@add_arg_scope
def flatten(inputs: Any, outputs_collections: Any = None, scope: str | None = None) -> Any:
    """[batch, ...] -> [batch, n]."""
    return collect_named_outputs(outputs_collections, scope or "Flatten", tf.layers.flatten(inputs, scope or "Flatten"))


@add_arg_scope
def dropout(
    inputs: Any,
    keep_prob: Any = 0.5,
    noise_shape: Any = None,
    is_training: Any = True,
    outputs_collections: Any = None,
    scope: str | None = None,
    seed: int | None = None,
) -> Any:
    """Keep elements with probability `keep_prob` while training, and scale them up."""
    out = tf.layers.dropout(inputs, 1 - keep_prob, noise_shape, seed, is_training, scope or "Dropout")
    return collect_named_outputs(outputs_collections, scope or "Dropout", out)


@add_arg_scope
def one_hot_encoding(
    labels: Any,
    num_classes: int,
    on_value: float = 1.0,
    off_value: float = 0.0,
    outputs_collections: Any = None,
    scope: str | None = None,
) -> Any:
    """Make rows that are `on_value` at their label."""
    with tf.name_scope(scope, "OneHotEncoding") as opened:
        indices = tf.convert_to_tensor(labels)
        indices = tf.cast(indices, tf.int64) if indices.dtype == tf.int32 else indices
        out = tf.one_hot(indices, num_classes, on_value=on_value, off_value=off_value)
        return collect_named_outputs(outputs_collections, opened, out)


@add_arg_scope
def softmax(logits: Any, scope: str | None = None) -> Any:
    """Apply the softmax to the last axis, whatever the rank."""
    with tf.variable_scope(scope, "softmax", [logits]):
        return tf.nn.softmax(logits)


@add_arg_scope
def bias_add(
    inputs: Any,
    activation_fn: Any = None,
    initializer: Any = tf.zeros_initializer,
    regularizer: Any = None,
    reuse: Any = None,
    variables_collections: Any = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    data_format: str = "NHWC",
    scope: Any = None,
) -> Any:
    """Add a learnt number to each channel."""
    x = tf.convert_to_tensor(inputs)
    with tf.variable_scope(scope, "BiasAdd", [x], reuse=reuse) as opened:
        size = x.shape[1 if data_format == "NCHW" else -1].value
        biases = made("biases", [size], x, initializer, regularizer, trainable, variables_collections)
        out = tf.nn.bias_add(x, biases, data_format)
        if activation_fn is not None:
            out = activation_fn(out)
        return collect_named_outputs(outputs_collections, opened.name, out)


def embed_sequence(
    ids: Any,
    vocab_size: int | None = None,
    embed_dim: int | None = None,
    unique: bool = False,
    initializer: Any = None,
    regularizer: Any = None,
    trainable: bool = True,
    scope: Any = None,
    reuse: Any = None,
) -> Any:
    """Look up learnt vectors for ids [batch, length] -> [batch, length, embed_dim].

    Raises:
        ValueError: the variable is to be made and a size is not given.
    """
    del unique
    if not (reuse or (vocab_size and embed_dim)):
        raise ValueError(
            "Must specify vocab size and embedding dimension when not reusing. "
            f"Got vocab_size={vocab_size} and embed_dim={embed_dim}"
        )
    with tf.variable_scope(scope, "EmbedSequence", [ids], reuse=reuse):
        shape = [vocab_size, embed_dim]
        if reuse and (vocab_size is None or embed_dim is None):
            shape = None  # type: ignore[assignment]
        table = tf.get_variable("embeddings", shape, tf.float32, initializer, regularizer, trainable)
        return tf.nn.embedding_lookup(table, ids)


def repeat(inputs: Any, repetitions: int, layer: Any, *args: Any, **kwargs: Any) -> Any:
    """Apply a layer several times, one on the other: scopes `NAME/NAME_1`, `NAME/NAME_2` and so on."""
    scope = kwargs.pop("scope", None)
    with tf.variable_scope(scope, "Repeat", [inputs]):
        name = scope or getattr(layer, "__name__", None) or "repeat"
        for i in range(repetitions):
            inputs = layer(inputs, *args, **{**kwargs, "scope": f"{name}_{i + 1}"})
        return tf.convert_to_tensor(inputs)


_STACKABLE = {
    "fully_connected": fully_connected,
    "relu": fully_connected,
    "convolution2d": conv2d,
    "conv2d": conv2d,
    "separable_conv2d": separable_conv2d,
}


def stack(inputs: Any, layer: Any, stack_args: Any, **kwargs: Any) -> Any:
    """Apply a layer once for each of `stack_args`, which are its second and further arguments."""
    scope = kwargs.pop("scope", None)
    function: Any = _STACKABLE.get(layer, layer) if isinstance(layer, str) else layer
    name = layer if isinstance(layer, str) else getattr(layer, "__name__", "stack")
    with tf.variable_scope(scope, "Stack", [inputs]):
        for i, given in enumerate(stack_args):
            more = given if isinstance(given, (list, tuple)) else [given]
            inputs = function(inputs, *more, **{**kwargs, "scope": f"{scope or name}_{i + 1}"})
        return tf.convert_to_tensor(inputs)


def maxout(inputs: Any, num_units: int, axis: int = -1, scope: str | None = None) -> Any:
    """Take the maxima of groups of channels, `num_units` groups.

    Raises:
        ValueError: the number of channels is no multiple of `num_units`.
    """
    x = tf.convert_to_tensor(inputs)
    with tf.name_scope(scope, "MaxOut", [x]):
        shape = x.shape.as_list()
        axis %= len(shape)
        features = shape[axis]
        if features is None or features % num_units:
            raise ValueError(f"number of features({features}) is not a multiple of num_units({num_units})")
        dynamic = tf.shape(x)
        sizes = [dynamic[i] if s is None else s for i, s in enumerate(shape)]
        sizes[axis : axis + 1] = [num_units, features // num_units]
        out = tf.reduce_max(tf.reshape(x, tf.stack(sizes)), axis=axis + 1)
        out.set_shape([*shape[:axis], num_units, *shape[axis + 1 :]])
        return out
