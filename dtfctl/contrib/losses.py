"""`tf.contrib.losses`: the losses of `tf.losses`, with the arguments in their former order."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.ops import losses
from dtfctl.runtime.ops.losses import (
    add_loss,
    compute_weighted_loss,
    get_losses,
    get_regularization_losses,
    get_total_loss,
)

__all__ = [
    "absolute_difference",
    "add_loss",
    "compute_weighted_loss",
    "cosine_distance",
    "get_losses",
    "get_regularization_losses",
    "get_total_loss",
    "hinge_loss",
    "log_loss",
    "mean_pairwise_squared_error",
    "mean_squared_error",
    "sigmoid_cross_entropy",
    "softmax_cross_entropy",
    "sparse_softmax_cross_entropy",
]


def absolute_difference(predictions: Any, labels: Any = None, weights: Any = 1.0, scope: str | None = None) -> Any:
    """Return the mean of |predictions - labels|."""
    return losses.absolute_difference(labels, predictions, weights, scope)


def mean_squared_error(predictions: Any, labels: Any = None, weights: Any = 1.0, scope: str | None = None) -> Any:
    """Return the mean of (predictions - labels) squared."""
    return losses.mean_squared_error(labels, predictions, weights, scope)


def mean_pairwise_squared_error(
    predictions: Any, labels: Any = None, weights: Any = 1.0, scope: str | None = None
) -> Any:
    """Return the mean of how differences of predictions differ from those of labels, squared."""
    return losses.mean_pairwise_squared_error(labels, predictions, weights, scope)


def cosine_distance(
    predictions: Any,
    labels: Any = None,
    axis: int | None = None,
    weights: Any = 1.0,
    scope: str | None = None,
    dim: int | None = None,
) -> Any:
    """Return 1 minus the cosine of the angle between unit vectors; `dim` is the former name of `axis`."""
    return losses.cosine_distance(labels, predictions, dim if axis is None else axis, weights, scope)


def log_loss(
    predictions: Any, labels: Any = None, weights: Any = 1.0, epsilon: float = 1e-7, scope: str | None = None
) -> Any:
    """Return the cross entropy of probabilities."""
    return losses.log_loss(labels, predictions, weights, epsilon, scope)


def hinge_loss(logits: Any, labels: Any = None, scope: str | None = None) -> Any:
    """Return the mean of max(0, 1 - logits) for labels of 1, and of max(0, 1 + logits) for labels of 0."""
    return losses.hinge_loss(labels, logits, scope=scope)


def sigmoid_cross_entropy(
    logits: Any, multi_class_labels: Any, weights: Any = 1.0, label_smoothing: float = 0, scope: str | None = None
) -> Any:
    """Return the cross entropy of independent classes."""
    return losses.sigmoid_cross_entropy(multi_class_labels, logits, weights, label_smoothing, scope)


def softmax_cross_entropy(
    logits: Any, onehot_labels: Any, weights: Any = 1.0, label_smoothing: float = 0, scope: str | None = None
) -> Any:
    """Return the cross entropy of one class of several, labelled by rows."""
    return losses.softmax_cross_entropy(onehot_labels, logits, weights, label_smoothing, scope)


def sparse_softmax_cross_entropy(logits: Any, labels: Any, weights: Any = 1.0, scope: str | None = None) -> Any:
    """Return the cross entropy of one class of several, labelled by numbers."""
    return losses.sparse_softmax_cross_entropy(labels, logits, weights, scope)
