"""The loss of sequences of different lengths."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dtfctl.runtime import api as tf


def sequence_loss(
    logits: Any,
    targets: Any,
    weights: Any,
    average_across_timesteps: bool = True,
    average_across_batch: bool = True,
    sum_over_timesteps: bool = False,
    sum_over_batch: bool = False,
    softmax_loss_function: Callable[..., Any] | None = None,
    name: str | None = None,
) -> Any:
    """Return the weighted cross entropy of sequences.

    Args:
        logits: float [batch, steps, classes].
        targets: int [batch, steps].
        weights: float [batch, steps]; 0 where a sequence has ended.
        average_across_timesteps, average_across_batch: divide by the weights over an axis; else keep the axis.
        sum_over_timesteps, sum_over_batch: divide by the number of weights that are not 0 instead.
        softmax_loss_function: called with labels and logits.

    Raises:
        ValueError: a rank differs, or an axis is averaged in both ways.
    """
    for what, tensor, rank in (("Logits", logits, 3), ("Targets", targets, 2), ("Weights", weights, 2)):
        if tensor.shape.ndims != rank:
            raise ValueError(f"{what} must have {rank} dimensions, not the shape {tensor.shape}")
    if average_across_timesteps and sum_over_timesteps:
        raise ValueError("average_across_timesteps and sum_over_timesteps cannot be set to True at same time.")
    if average_across_batch and sum_over_batch:
        raise ValueError("average_across_batch and sum_over_batch cannot be set to True at same time.")
    with tf.name_scope(name, "sequence_loss", [logits, targets, weights]):
        flat = tf.reshape(logits, tf.stack([-1, tf.shape(logits)[2]]))
        labels = tf.reshape(targets, [-1])
        function = softmax_loss_function or tf.nn.sparse_softmax_cross_entropy_with_logits
        loss = function(labels=labels, logits=flat) * tf.reshape(weights, [-1])
        steps, batch = (average_across_timesteps, average_across_batch), (sum_over_timesteps, sum_over_batch)
        if all(steps) or all(batch):
            axis, total = None, tf.reduce_sum(loss)
        else:
            loss = tf.reshape(loss, tf.shape(logits)[0:2])
            if not any(steps) and not any(batch):
                return loss
            axis = [0] if average_across_batch or (not any(steps) and sum_over_batch) else [1]
            total = tf.reduce_sum(loss, axis=axis)
        if any(steps) and (axis is not None or all(steps)):
            return tf.div_no_nan(total, tf.reduce_sum(weights, axis=axis))
        return tf.div_no_nan(total, tf.cast(tf.count_nonzero(weights, axis=axis), loss.dtype))
