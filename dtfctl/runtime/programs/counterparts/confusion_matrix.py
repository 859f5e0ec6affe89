"""`tensorflow.python.ops.confusion_matrix`: what is not a public name of it."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime import api as tf
from dtfctl.runtime.ops.metrics.common import squeeze_pair


def remove_squeezable_dimensions(
    labels: Any, predictions: Any, expected_rank_diff: int = 0, name: str | None = None
) -> tuple[Any, Any]:
    """Drop the last dimension, of 1, of whichever has one too many against an expected difference of ranks."""
    if expected_rank_diff == 0:
        return squeeze_pair(labels, predictions)
    with tf.name_scope(name, "remove_squeezable_dimensions"):
        labels, predictions = tf.convert_to_tensor(labels), tf.convert_to_tensor(predictions)
        ranks = labels.shape.rank, predictions.shape.rank
        if None in ranks:
            raise ValueError("Ranks that are not known are only squeezed where they should be equal")
        difference = predictions.shape.rank - labels.shape.rank
        if difference == expected_rank_diff + 1 and predictions.shape[-1].is_compatible_with(1):
            predictions = tf.squeeze(predictions, [-1])
        elif difference == expected_rank_diff - 1 and labels.shape[-1].is_compatible_with(1):
            labels = tf.squeeze(labels, [-1])
        return labels, predictions
