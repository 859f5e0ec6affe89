"""`tf.contrib.metrics`: the metrics of `tf.metrics` under their former names, and the accuracy of a batch."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime import api as tf

__all__ = [
    "accuracy",
    "aggregate_metric_map",
    "aggregate_metrics",
    "streaming_accuracy",
    "streaming_auc",
    "streaming_mean",
    "streaming_mean_squared_error",
    "streaming_precision",
    "streaming_recall",
]

streaming_mean = tf.metrics.mean


def accuracy(predictions: Any, labels: Any, weights: Any = None, name: str | None = None) -> Any:
    """Return the fraction of a batch's predictions that equal the labels."""
    with tf.name_scope(name, "accuracy"):
        right = tf.cast(tf.equal(predictions, labels), tf.float32)
        if weights is None:
            return tf.reduce_mean(right)
        return tf.reduce_sum(right * weights) / tf.reduce_sum(weights)


def streaming_accuracy(predictions: Any, labels: Any, *args: Any, **options: Any) -> Any:
    """Return `tf.metrics.accuracy`'s value and update."""
    return tf.metrics.accuracy(labels, predictions, *args, **options)


def streaming_auc(predictions: Any, labels: Any, *args: Any, **options: Any) -> Any:
    """Return `tf.metrics.auc`'s value and update."""
    return tf.metrics.auc(labels, predictions, *args, **options)


def streaming_precision(predictions: Any, labels: Any, *args: Any, **options: Any) -> Any:
    """Return `tf.metrics.precision`'s value and update."""
    return tf.metrics.precision(labels, predictions, *args, **options)


def streaming_recall(predictions: Any, labels: Any, *args: Any, **options: Any) -> Any:
    """Return `tf.metrics.recall`'s value and update."""
    return tf.metrics.recall(labels, predictions, *args, **options)


def streaming_mean_squared_error(predictions: Any, labels: Any, *args: Any, **options: Any) -> Any:
    """Return `tf.metrics.mean_squared_error`'s value and update."""
    return tf.metrics.mean_squared_error(labels, predictions, *args, **options)


def aggregate_metrics(*value_update_tuples: Any) -> tuple[list[Any], list[Any]]:
    """Part pairs of values and updates into the values and the updates.

    Raises:
        ValueError: there are none.
    """
    if not value_update_tuples:
        raise ValueError("Expected at least one value_tensor/update_op pair")
    values, updates = zip(*value_update_tuples, strict=True)
    return list(values), list(updates)


def aggregate_metric_map(names_to_tuples: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Part named pairs of values and updates into named values and named updates."""
    values = {name: pair[0] for name, pair in names_to_tuples.items()}
    return values, {name: pair[1] for name, pair in names_to_tuples.items()}
