"""The models: a linear one, a deep one; and how each is trained."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from dtfctl.runtime import api as tf
from dtfctl.runtime.estimator.modes import ModeKeys
from dtfctl.runtime.feature_column import input_layer, linear_model

DNN_RATE, LINEAR_RATE = 0.05, 0.2
"""The rates of a model alone."""
BOTH_DNN_RATE, BOTH_LINEAR_RATE = 0.001, 0.005
"""The rates of the parts of a wide and deep model."""
_OPTIMIZERS: dict[str, Any] = {
    "Adagrad": tf.train.AdagradOptimizer,
    "Adam": tf.train.AdamOptimizer,
    "Ftrl": tf.train.FtrlOptimizer,
    "RMSProp": tf.train.RMSPropOptimizer,
    "SGD": tf.train.GradientDescentOptimizer,
}


def optimizer_of(given: Any, rate: float) -> Any:
    """Return an optimizer: one, a function that makes one, or one of the names Adagrad, Adam, Ftrl, RMSProp, SGD."""
    if isinstance(given, str):
        if given not in _OPTIMIZERS:
            raise ValueError(f"Unsupported optimizer name: {given}. Supported names are: {sorted(_OPTIMIZERS)}")
        return _OPTIMIZERS[given](learning_rate=rate)
    made = given() if callable(given) else given
    if not isinstance(made, tf.train.Optimizer):
        raise ValueError(f"The given object is not an Optimizer instance. Given: {made}")
    return made


def wide_rate(columns: Any) -> float:
    """Return the rate the wide part is trained with by default."""
    return min(BOTH_LINEAR_RATE, 1.0 / math.sqrt(len(columns)))


def require_dict(features: Any) -> None:
    """Raise ValueError where features are not tensors by name."""
    if not isinstance(features, dict):
        raise ValueError(f"features should be a dictionary of `Tensor`s. Given type: {type(features)}")


def _partitioner(config: Any, least: int | None = None) -> Any:
    options = {} if least is None else {"min_slice_size": least}
    return tf.min_max_variable_partitioner(max_partitions=config.num_ps_replicas if config else 0, **options)


def summarize(value: Any, tag: str) -> None:
    """Write what a layer gives."""
    tf.summary.scalar(f"{tag}/fraction_of_zero_values", tf.nn.zero_fraction(value))
    tf.summary.histogram(f"{tag}/activation", value)


def dnn_part(features: Any, config: Any) -> Any:
    """Open the scope of a deep model."""
    return tf.variable_scope("dnn", values=tuple(features.values()), partitioner=_partitioner(config))


def linear_part(features: Any, config: Any, partitioner: Any) -> Any:
    """Open the scope of a linear model."""
    partitioner = partitioner or _partitioner(config, 64 << 20)
    return tf.variable_scope("linear", values=tuple(features.values()), partitioner=partitioner)


def dnn_logits(
    features: Any,
    mode: str,
    units: int,
    columns: Any,
    hidden_units: Any,
    activation_fn: Callable[..., Any],
    dropout: float | None,
    batch_norm: bool,
    partitioner: Any,
    config: Any,
) -> Any:
    """Make the logits of a deep model, in its scope."""
    if not hidden_units:
        raise ValueError("dnn_hidden_units must be defined when dnn_feature_columns is specified.")
    training, glorot = mode == ModeKeys.TRAIN, tf.glorot_uniform_initializer
    dense: Any = tf.layers.dense
    with tf.variable_scope("input_from_feature_columns", partitioner=partitioner or _partitioner(config, 64 << 20)):
        net = input_layer(features, columns)
    for i, width in enumerate(hidden_units):
        with tf.variable_scope(f"hiddenlayer_{i}", values=(net,)) as scope:
            net = dense(net, width, activation_fn, kernel_initializer=glorot(), name=scope)
            if dropout is not None and training:
                net = tf.layers.dropout(net, rate=dropout, training=True)
            if batch_norm:
                net = tf.layers.batch_normalization(net, momentum=0.999, training=training, name=f"batchnorm_{i}")
        summarize(net, scope.name)
    with tf.variable_scope("logits", values=(net,)) as scope:
        logits = dense(net, units, kernel_initializer=glorot(), name=scope)
    summarize(logits, scope.name)
    return logits


def linear_logits(features: Any, units: int, columns: Any, combiner: str) -> Any:
    """Make the logits of a linear model, in its scope."""
    found: dict[Any, Any] = {}
    logits = linear_model(features, columns, units, combiner, cols_to_vars=found)
    bias = found.pop("bias")
    if units > 1:
        tf.summary.histogram("bias", bias)
    else:
        tf.summary.scalar("bias", bias[0][0])
    weights = tf.concat([tf.reshape(v, [-1]) for part in found.values() for v in part], 0)
    tf.summary.scalar("fraction_of_zero_weights", tf.nn.zero_fraction(weights))
    return logits


def train_both(loss: Any, parts: list[tuple[Any, str]]) -> Any:
    """Minimize a loss by several optimizers, each over the variables of its scope, and count the step."""
    step = tf.train.get_global_step()
    ops = [
        optimizer.minimize(loss, var_list=tf.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES, scope=scope))
        for optimizer, scope in parts
    ]
    with tf.control_dependencies([tf.group(*ops)]):
        return tf.assign_add(step, 1).op
