"""`tf.contrib.metrics`: the metrics of `tf.metrics` under their former names, and the accuracy of a batch.

Predictions come before labels here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dtfctl.runtime import api as tf


def _streaming(function: Callable[..., Any]) -> Callable[..., Any]:
    def streaming(predictions: Any, labels: Any, *args: Any, **options: Any) -> Any:
        return function(labels, predictions, *args, **options)

    streaming.__name__ = streaming.__qualname__ = f"streaming_{function.__name__}"
    streaming.__doc__ = f"Return `tf.metrics.{function.__name__}`'s value and update."
    return streaming


streaming_accuracy = _streaming(tf.metrics.accuracy)
streaming_auc = _streaming(tf.metrics.auc)
streaming_false_negatives = _streaming(tf.metrics.false_negatives)
streaming_false_negatives_at_thresholds = _streaming(tf.metrics.false_negatives_at_thresholds)
streaming_false_positives = _streaming(tf.metrics.false_positives)
streaming_false_positives_at_thresholds = _streaming(tf.metrics.false_positives_at_thresholds)
streaming_mean = tf.metrics.mean
streaming_mean_absolute_error = _streaming(tf.metrics.mean_absolute_error)
streaming_mean_cosine_distance = _streaming(tf.metrics.mean_cosine_distance)
streaming_mean_iou = _streaming(tf.metrics.mean_iou)
streaming_mean_relative_error = _streaming(tf.metrics.mean_relative_error)
streaming_mean_squared_error = _streaming(tf.metrics.mean_squared_error)
streaming_mean_tensor = tf.metrics.mean_tensor
streaming_percentage_less = tf.metrics.percentage_below
streaming_precision = _streaming(tf.metrics.precision)
streaming_precision_at_thresholds = _streaming(tf.metrics.precision_at_thresholds)
streaming_recall = _streaming(tf.metrics.recall)
streaming_recall_at_thresholds = _streaming(tf.metrics.recall_at_thresholds)
streaming_root_mean_squared_error = _streaming(tf.metrics.root_mean_squared_error)
streaming_sensitivity_at_specificity = _streaming(tf.metrics.sensitivity_at_specificity)
streaming_sparse_precision_at_k = _streaming(tf.metrics.precision_at_k)
streaming_sparse_recall_at_k = _streaming(tf.metrics.recall_at_k)
streaming_specificity_at_sensitivity = _streaming(tf.metrics.specificity_at_sensitivity)
streaming_true_negatives = _streaming(tf.metrics.true_negatives)
streaming_true_negatives_at_thresholds = _streaming(tf.metrics.true_negatives_at_thresholds)
streaming_true_positives = _streaming(tf.metrics.true_positives)
streaming_true_positives_at_thresholds = _streaming(tf.metrics.true_positives_at_thresholds)


def accuracy(predictions: Any, labels: Any, weights: Any = None, name: str | None = None) -> Any:
    """Return the fraction of a batch's predictions that equal the labels."""
    with tf.name_scope(name, "accuracy"):
        right = tf.cast(tf.equal(predictions, labels), tf.float32)
        if weights is None:
            return tf.reduce_mean(right)
        return tf.reduce_sum(right * weights) / tf.reduce_sum(weights)


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


confusion_matrix = tf.confusion_matrix

__all__ = ["accuracy", "aggregate_metric_map", "aggregate_metrics", "confusion_matrix"]
__all__ += [name for name in globals() if name.startswith("streaming_")]
