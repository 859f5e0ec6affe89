"""Means of a stream of values: of themselves, of errors, of what is right."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.convert import convert_to_tensor
from dtfctl.runtime.framework.graph_keys import control_dependencies
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.ops import array_ops, math_ops
from dtfctl.runtime.ops.metrics.common import (
    Collections,
    Metric,
    aligned,
    broadcast_weights,
    finished,
    flat,
    metric_variable,
    ratio,
    refuse_eager,
    squeeze_pair,
)
from dtfctl.runtime.ops.sort_ops import confusion_matrix
from dtfctl.runtime.ops.state_ops import assign_add, scatter_add
from dtfctl.runtime.ops.variable_scope import variable_scope


def mean(
    values: Any,
    weights: Any = None,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Metric:
    """Compute the weighted mean of all values so far, float32; 0 before the first.

    Args:
        values: a tensor of any shape and numeric type.
        weights: a scalar, or of the rank of `values` with each dimension its own or 1; 0 masks a value.

    Raises:
        ValueError: the weights cannot be broadcast.
        RuntimeError: eager execution is enabled.
    """
    refuse_eager("mean")
    with variable_scope(name, "mean", (values, weights)):
        values = math_ops.cast(values, dtypes.float32)
        total = metric_variable([], dtypes.float32, "total")
        count = metric_variable([], dtypes.float32, "count")
        if weights is None:
            amount = math_ops.cast(array_ops.size(values), dtypes.float32)
        else:
            values, _, weights = aligned(values, None, weights)
            weights = broadcast_weights(math_ops.cast(weights, dtypes.float32), values)
            values = math_ops.multiply(values, weights)
            amount = math_ops.reduce_sum(weights)
        more_total = assign_add(total, math_ops.reduce_sum(values))
        with control_dependencies([values]):
            more_count = assign_add(count, amount)
        value = ratio(total, count, "value")
        return finished(value, ratio(more_total, more_count, "update_op"), metrics_collections, updates_collections)


def mean_tensor(
    values: Any,
    weights: Any = None,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Metric:
    """Average each element of a tensor, weighted, over the batches so far; float32, of the shape of `values`.

    Raises:
        ValueError: the weights cannot be broadcast, or the shape of `values` is not known.
        RuntimeError: eager execution is enabled.
    """
    refuse_eager("mean_tensor")
    with variable_scope(name, "mean", (values, weights)):
        values = math_ops.cast(values, dtypes.float32)
        total = metric_variable(values.shape, dtypes.float32, "total_tensor")
        count = metric_variable(values.shape, dtypes.float32, "count_tensor")
        amount: Any = array_ops.ones_like(values)
        if weights is not None:
            values, _, weights = aligned(values, None, weights)
            weights = broadcast_weights(math_ops.cast(weights, dtypes.float32), values)
            values = math_ops.multiply(values, weights)
            amount = math_ops.multiply(amount, weights)
        more_total = assign_add(total, values)
        with control_dependencies([values]):
            more_count = assign_add(count, amount)
        value = ratio(total, count, "value")
        return finished(value, ratio(more_total, more_count, "update_op"), metrics_collections, updates_collections)


def accuracy(
    labels: Any,
    predictions: Any,
    weights: Any = None,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Metric:
    """Measure how often predictions equal labels; arguments as for `mean`, predictions of the shape of labels.

    Raises:
        ValueError: shapes do not agree, or the weights cannot be broadcast.
        RuntimeError: eager execution is enabled.
    """
    refuse_eager("accuracy")
    predictions, labels, weights = aligned(predictions, labels, weights)
    if labels.dtype.base_dtype is not predictions.dtype.base_dtype:
        predictions = math_ops.cast(predictions, labels.dtype.base_dtype)
    right = math_ops.cast(math_ops.equal(predictions, labels), dtypes.float32)
    return mean(right, weights, metrics_collections, updates_collections, name or "accuracy")


def mean_absolute_error(
    labels: Any,
    predictions: Any,
    weights: Any = None,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Metric:
    """Average |predictions - labels|; arguments and errors as for `accuracy`."""
    refuse_eager("mean_absolute_error")
    predictions, labels, weights = aligned(predictions, labels, weights)
    errors = math_ops.abs(predictions - labels)
    return mean(errors, weights, metrics_collections, updates_collections, name or "mean_absolute_error")


def mean_squared_error(
    labels: Any,
    predictions: Any,
    weights: Any = None,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Metric:
    """Average (predictions - labels)^2; arguments and errors as for `accuracy`."""
    refuse_eager("mean_squared_error")
    predictions, labels, weights = aligned(predictions, labels, weights)
    errors = math_ops.squared_difference(labels, predictions)
    return mean(errors, weights, metrics_collections, updates_collections, name or "mean_squared_error")


def root_mean_squared_error(
    labels: Any,
    predictions: Any,
    weights: Any = None,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Metric:
    """Compute the root of `mean_squared_error`."""
    refuse_eager("root_mean_squared_error")
    value, update = mean_squared_error(labels, predictions, weights, None, None, name or "root_mean_squared_error")
    return finished(math_ops.sqrt(value), math_ops.sqrt(update), metrics_collections, updates_collections)


def mean_relative_error(
    labels: Any,
    predictions: Any,
    normalizer: Any,
    weights: Any = None,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Metric:
    """Average |labels - predictions| / normalizer, 0 where the normalizer is; it has the shape of `predictions`."""
    refuse_eager("mean_relative_error")
    predictions, labels, weights = aligned(predictions, labels, weights)
    predictions, normalizer = squeeze_pair(predictions, normalizer)
    predictions.shape.assert_is_compatible_with(normalizer.shape)
    errors = array_ops.where(
        math_ops.equal(normalizer, 0.0),
        array_ops.zeros_like(labels),
        math_ops.divide(math_ops.abs(labels - predictions), normalizer),
    )
    return mean(errors, weights, metrics_collections, updates_collections, name or "mean_relative_error")


def mean_cosine_distance(
    labels: Any,
    predictions: Any,
    dim: int,
    weights: Any = None,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Metric:
    """Compute 1 minus the mean dot product of labels and predictions, of unit length, along dimension `dim`.

    The weights have 1 in dimension `dim`.
    """
    refuse_eager("mean_cosine_distance")
    predictions, labels, weights = aligned(predictions, labels, weights)
    products = math_ops.reduce_sum(math_ops.multiply(predictions, labels), axis=[dim], keepdims=True)
    value, update = mean(products, weights, None, None, name or "mean_cosine_distance")
    return finished(
        math_ops.subtract(1.0, value), math_ops.subtract(1.0, update), metrics_collections, updates_collections
    )


def percentage_below(
    values: Any,
    threshold: Any,
    weights: Any = None,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Metric:
    """Measure the share of values below a scalar threshold; weights as for `mean`."""
    refuse_eager("percentage_below")
    below = math_ops.cast(math_ops.less(values, threshold), dtypes.float32)
    return mean(below, weights, metrics_collections, updates_collections, name or "percentage_below_threshold")


def mean_per_class_accuracy(
    labels: Any,
    predictions: Any,
    num_classes: int,
    weights: Any = None,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Metric:
    """Average over classes how often each was predicted where it was the label; the update gives each class's.

    Args:
        labels, predictions: class ids, of any rank; flattened.
        num_classes: how many classes there are; one that never was a label counts with 0.
    """
    refuse_eager("mean_per_class_accuracy")
    with variable_scope(name, "mean_accuracy", (predictions, labels, weights)):
        labels = flat(math_ops.cast(labels, dtypes.int64))
        predictions = flat(predictions)
        predictions.shape.assert_is_compatible_with(labels.shape)
        total = metric_variable([num_classes], dtypes.float32, "total")
        count = metric_variable([num_classes], dtypes.float32, "count")
        right = math_ops.equal(math_ops.cast(predictions, dtypes.int64), labels)
        hits: Any = math_ops.cast(right, dtypes.float32)
        ones: Any = array_ops.ones([array_ops.size(labels)], dtypes.float32)
        if weights is not None:
            weights = math_ops.cast(flat(weights), dtypes.float32)
            hits, ones = hits * weights, ones * weights
        more_total, more_count = scatter_add(total, labels, ones), scatter_add(count, labels, hits)
        value = math_ops.reduce_mean(ratio(count, total), name="mean_accuracy")
        return finished(value, ratio(more_count, more_total, "update_op"), metrics_collections, updates_collections)


def mean_iou(
    labels: Any,
    predictions: Any,
    num_classes: int,
    weights: Any = None,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Metric:
    """Average intersection over union over classes; the update gives the confusion matrix, float64.

    Args:
        labels, predictions: class ids of one shape, flattened.
        num_classes: the size of the confusion matrix; a class that never occurred does not count.
    """
    refuse_eager("mean_iou")
    with variable_scope(name, "mean_iou", (predictions, labels, weights)):
        labels, predictions = convert_to_tensor(labels), convert_to_tensor(predictions)
        predictions.shape.assert_is_compatible_with(labels.shape)
        matrix = metric_variable([num_classes, num_classes], dtypes.float64, "total_confusion_matrix")
        found = confusion_matrix(
            flat(math_ops.cast(labels, dtypes.int64)),
            flat(math_ops.cast(predictions, dtypes.int64)),
            num_classes,
            dtype=dtypes.float64,
            weights=None if weights is None else flat(weights),
        )
        return finished(_iou(matrix), assign_add(matrix, found), metrics_collections, updates_collections)


def _iou(matrix: Any) -> Tensor:
    predicted = math_ops.cast(math_ops.reduce_sum(matrix, 0), dtypes.float32)
    actual = math_ops.cast(math_ops.reduce_sum(matrix, 1), dtypes.float32)
    both = math_ops.cast(array_ops.diag_part(matrix), dtypes.float32)
    union = predicted + actual - both
    seen = math_ops.cast(math_ops.not_equal(union, 0), dtypes.float32)
    return ratio(math_ops.reduce_sum(ratio(both, union)), math_ops.reduce_sum(seen), "mean_iou")
