"""Layers of `tf.contrib.layers` that normalize."""

from __future__ import annotations

from typing import Any

from dtfctl.contrib.arg_scope import add_arg_scope
from dtfctl.contrib.framework import add_model_variable
from dtfctl.contrib.layers.core import made
from dtfctl.contrib.layers.utils import collect_named_outputs, get_variable_collections
from dtfctl.runtime import api as tf


@add_arg_scope
def batch_norm(
    inputs: Any,
    decay: float = 0.999,
    center: bool = True,
    scale: bool = False,
    epsilon: float = 0.001,
    activation_fn: Any = None,
    param_initializers: Any = None,
    param_regularizers: Any = None,
    updates_collections: Any = tf.GraphKeys.UPDATE_OPS,
    is_training: Any = True,
    reuse: Any = None,
    variables_collections: Any = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    batch_weights: Any = None,
    fused: bool | None = None,
    data_format: str = "NHWC",
    zero_debias_moving_mean: bool = False,
    scope: Any = None,
    renorm: bool = False,
    **options: Any,
) -> Any:
    """Normalize each channel over the batch (Ioffe & Szegedy, 2015), without a scale by default.

    Args:
        inputs: float [batch, ..., channels], or [batch, channels, ...] for data_format "NCHW".
        decay: of the moving averages.
        center, scale: learn an offset `beta`, a factor `gamma`.
        param_initializers, param_regularizers: by "beta", "gamma", "moving_mean" and "moving_variance".
        updates_collections: where the ops go that move the averages; None runs them with the outputs.
        is_training: use the batch's moments rather than the averages; may be a tensor.

    Raises:
        NotImplementedError: weights in the batch, debiasing or renormalization are asked for.
    """
    del fused
    if batch_weights is not None or zero_debias_moving_mean or renorm or any(options.values()):
        raise NotImplementedError(
            "contrib.layers.batch_norm: batch_weights, zero_debias_moving_mean, renorm and adjustment are not there; "
            "use tf.nn.moments and tf.nn.batch_normalization"
        )
    x = tf.convert_to_tensor(inputs)
    starts, charges = param_initializers or {}, param_regularizers or {}
    with tf.variable_scope(scope, "BatchNorm", [x], reuse=reuse) as opened:
        updates = tf.get_collection_ref(tf.GraphKeys.UPDATE_OPS)
        known, before = len(updates), set(tf.global_variables(opened.name))
        normalize: Any = tf.layers.batch_normalization
        out = normalize(
            x,
            axis=1 if data_format.startswith("NC") else -1,
            momentum=decay,
            epsilon=epsilon,
            center=center,
            scale=scale,
            beta_initializer=starts.get("beta", tf.zeros_initializer()),
            gamma_initializer=starts.get("gamma", tf.ones_initializer()),
            moving_mean_initializer=starts.get("moving_mean", tf.zeros_initializer()),
            moving_variance_initializer=starts.get("moving_variance", tf.ones_initializer()),
            beta_regularizer=charges.get("beta"),
            gamma_regularizer=charges.get("gamma"),
            training=is_training,
            trainable=trainable,
            name=opened,
        )
        moves = updates[known:]
        del updates[known:]
        if updates_collections is None:
            with tf.control_dependencies(moves):
                out = tf.identity(out)
        else:
            for move in moves:
                tf.add_to_collections(updates_collections, move)
        for variable in tf.global_variables(opened.name):
            if variable not in before:
                add_model_variable(variable)
                collections = get_variable_collections(variables_collections, variable.op.name.split("/")[-1])
                tf.add_to_collections(collections or (), variable)
        if activation_fn is not None:
            out = activation_fn(out)
        return collect_named_outputs(outputs_collections, opened.name, out)


def _affine(x: Any, shape: Any, center: bool, scale: bool, trainable: bool, collections: Any) -> tuple[Any, Any]:
    beta = made("beta", shape, x, tf.zeros_initializer(), None, trainable, collections) if center else None
    gamma = made("gamma", shape, x, tf.ones_initializer(), None, trainable, collections) if scale else None
    return beta, gamma


@add_arg_scope
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
) -> Any:
    """Normalize each example over its axes from `begin_norm_axis` on (Ba et al., 2016), then scale and shift it.

    Raises:
        ValueError: the rank, or a size that the parameters need, is unknown.
    """
    x = tf.convert_to_tensor(inputs)
    rank = x.shape.rank
    if rank is None:
        raise ValueError("layer_norm needs inputs of known rank")
    shape = x.shape.as_list()[begin_params_axis % rank :]
    if None in shape:
        raise ValueError(f"Inputs shape {x.shape} is not fully defined from axis {begin_params_axis} on")
    with tf.variable_scope(scope, "LayerNorm", [x], reuse=reuse) as opened:
        beta, gamma = _affine(x, shape, center, scale, trainable, variables_collections)
        mean, variance = tf.nn.moments(x, list(range(begin_norm_axis % rank, rank)), keep_dims=True)
        out = tf.nn.batch_normalization(x, mean, variance, beta, gamma, 1e-12)
        out.set_shape(x.shape)
        if activation_fn is not None:
            out = activation_fn(out)
        return collect_named_outputs(outputs_collections, opened.name, out)


@add_arg_scope
def instance_norm(
    inputs: Any,
    center: bool = True,
    scale: bool = True,
    epsilon: float = 1e-6,
    activation_fn: Any = None,
    param_initializers: Any = None,
    reuse: Any = None,
    variables_collections: Any = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    data_format: str = "NHWC",
    scope: Any = None,
) -> Any:
    """Normalize each channel of each example (Ulyanov et al., 2016), then scale and shift it.

    Raises:
        ValueError: the rank or the number of channels is unknown.
    """
    x = tf.convert_to_tensor(inputs)
    rank = x.shape.rank
    if rank is None:
        raise ValueError("instance_norm needs inputs of known rank")
    axis = 1 if data_format.startswith("NC") else rank - 1
    channels = x.shape[axis].value
    if channels is None:
        raise ValueError(f"Inputs shape {x.shape} has an unknown number of channels")
    starts = param_initializers or {}
    with tf.variable_scope(scope, "InstanceNorm", [x], reuse=reuse) as opened:
        wide = [channels if i == axis else 1 for i in range(rank)]

        def parameter(name: str, start: Any) -> Any:
            value = made(name, [channels], x, starts.get(name, start), None, trainable, variables_collections)
            return tf.reshape(value, wide)

        beta = parameter("beta", tf.zeros_initializer()) if center else None
        gamma = parameter("gamma", tf.ones_initializer()) if scale else None
        mean, variance = tf.nn.moments(x, [i for i in range(1, rank) if i != axis], keep_dims=True)
        out = tf.nn.batch_normalization(x, mean, variance, beta, gamma, epsilon)
        out.set_shape(x.shape)
        if activation_fn is not None:
            out = activation_fn(out)
        return collect_named_outputs(outputs_collections, opened.name, out)


@add_arg_scope
def unit_norm(inputs: Any, dim: int, epsilon: float = 1e-7, scope: str | None = None) -> Any:
    """Divide by the Euclidean length along an axis."""
    x = tf.convert_to_tensor(inputs)
    with tf.name_scope(scope, "UnitNorm", [x]):
        return x / tf.sqrt(tf.reduce_sum(tf.square(x), axis=dim, keepdims=True) + epsilon)
