"""What metrics are the means of: how near predictions are to their labels, one value an example."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.convert import convert_to_tensor
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.keras import losses
from dtfctl.runtime.ops import array_ops, math_ops, nn_ops

NEVER = -1e10
"""Less than every threshold."""


def accuracy(y_true: Any, y_pred: Any) -> Tensor:
    """Say where labels and predictions are equal: 1.0 or 0.0."""
    y_true, y_pred = convert_to_tensor(y_true), convert_to_tensor(y_pred)
    if y_true.dtype != y_pred.dtype:
        y_pred = math_ops.cast(y_pred, y_true.dtype)
    return math_ops.cast(math_ops.equal(y_true, y_pred), dtypes.float32)


def binary_accuracy(y_true: Any, y_pred: Any, threshold: float = 0.5) -> Tensor:
    """Compute how many predictions are on their labels' side of the threshold, over the last axis."""
    y_pred = convert_to_tensor(y_pred)
    over = math_ops.cast(y_pred > threshold, y_pred.dtype)
    return math_ops.reduce_mean(math_ops.cast(math_ops.equal(y_true, over), dtypes.float32), axis=-1)


def categorical_accuracy(y_true: Any, y_pred: Any) -> Tensor:
    """Say where the largest prediction is that of the one-hot label."""
    same = math_ops.equal(math_ops.argmax(y_true, axis=-1), math_ops.argmax(y_pred, axis=-1))
    return math_ops.cast(same, dtypes.float32)


def sparse_categorical_accuracy(y_true: Any, y_pred: Any) -> Tensor:
    """Say where the largest prediction is that of the label's class."""
    y_true, y_pred = convert_to_tensor(y_true), convert_to_tensor(y_pred)
    true_rank, pred_rank = y_true.shape.rank, y_pred.shape.rank
    if true_rank is not None and true_rank == pred_rank:
        y_true = array_ops.squeeze(y_true, [-1])
    best = math_ops.argmax(y_pred, axis=-1)
    if best.dtype != y_true.dtype:
        best = math_ops.cast(best, y_true.dtype)
    return math_ops.cast(math_ops.equal(y_true, best), dtypes.float32)


def top_k_categorical_accuracy(y_true: Any, y_pred: Any, k: int = 5) -> Tensor:
    """Say where the one-hot label's class is among the k largest predictions."""
    best = math_ops.argmax(y_true, axis=-1)
    return math_ops.cast(nn_ops.in_top_k(y_pred, best, k), dtypes.float32)


def sparse_top_k_categorical_accuracy(y_true: Any, y_pred: Any, k: int = 5) -> Tensor:
    """Say where the label's class is among the k largest predictions."""
    flat = array_ops.reshape(math_ops.cast(y_true, dtypes.int32), [-1])
    return math_ops.cast(nn_ops.in_top_k(y_pred, flat, k), dtypes.float32)


def cosine_similarity(y_true: Any, y_pred: Any, axis: int = -1) -> Tensor:
    """Compute the cosine of the angle between labels and predictions."""
    return -losses.cosine_similarity(y_true, y_pred, axis)


def only_largest(values: Tensor, k: int) -> Tensor:
    """Leave the k largest of the last axis as they are, and make the others less than any threshold."""
    _, places = nn_ops.top_k(values, k, sorted=False)
    kept = math_ops.reduce_sum(array_ops.one_hot(places, array_ops.shape(values)[-1], dtype=values.dtype), axis=-2)
    return values * kept + NEVER * (1 - kept)
