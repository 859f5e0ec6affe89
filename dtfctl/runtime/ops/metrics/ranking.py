"""Metrics of ranked predictions: precision and recall among the k best."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.convert import SparseTensor, constant
from dtfctl.runtime.framework.graph_keys import name_scope
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.ops import array_ops, math_ops
from dtfctl.runtime.ops.cond import cond
from dtfctl.runtime.ops.metrics.common import (
    Collections,
    Metric,
    broadcast_weights,
    finished,
    metric_variable,
    refuse_eager,
    tensor_or_sparse,
    weighted,
)
from dtfctl.runtime.ops.nn_ops import top_k
from dtfctl.runtime.ops.sparse_ops.arranging import sparse_concat, sparse_reshape, sparse_retain
from dtfctl.runtime.ops.sparse_ops.sets import set_difference, set_intersection, set_size
from dtfctl.runtime.ops.state_ops import assign_add


def _name_at_k(name: str, k: int | None, class_id: int | None = None) -> str:
    at = f"{name}_at_k" if k is None else f"{name}_at_{k}"
    return at if class_id is None else f"{at}_class{class_id}"


def _expanded(labels: Any, predictions: Tensor) -> Any:
    """Expand labels [D1, ... DN] to [D1, ... DN, 1]; labels of the predictions' rank stay as they are."""
    with name_scope(None, "expand_labels"):
        labels = tensor_or_sparse(labels)
        one_more = math_ops.equal(array_ops.rank(predictions), _rank(labels) + 1)
        if isinstance(labels, SparseTensor):
            shape = array_ops.concat([labels.dense_shape, constant([1], dtypes.int64)], 0)
            return cond(one_more, lambda: sparse_reshape(labels, shape), lambda: labels)
        own, wanted = labels.shape.rank, predictions.shape.rank
        if own is None or wanted is None:
            return cond(one_more, lambda: array_ops.expand_dims(labels, -1), lambda: labels)
        if own == wanted:
            return labels
        if own + 1 == wanted:
            return array_ops.expand_dims(labels, -1)
        raise ValueError(
            f"Unexpected labels shape {labels.shape} for predictions shape {predictions.shape}. Predictions rank "
            "should be the same rank as labels rank or labels rank plus one."
        )


def _rank(labels: Any) -> Any:
    return array_ops.size(labels.dense_shape) if isinstance(labels, SparseTensor) else array_ops.rank(labels)


def _only(ids: Any, class_id: int) -> SparseTensor:
    """Keep the ids that are of one class."""
    ids = tensor_or_sparse(ids)
    if isinstance(ids, SparseTensor):
        return sparse_retain(ids, math_ops.equal(ids.values, constant(class_id, ids.values.dtype.base_dtype)))
    shape = array_ops.shape(ids, out_type=dtypes.int64)
    one_each = array_ops.concat([shape[:-1], constant([1], dtypes.int64)], 0)
    wanted = array_ops.fill(one_each, constant(class_id, dtypes.int64))
    found = set_intersection(wanted, math_ops.cast(ids, dtypes.int64))
    return SparseTensor(found.indices, found.values, shape)


_SETS: dict[str, Callable[[Any, Any], SparseTensor]] = {
    "true_positive": lambda predicted, labels: set_intersection(predicted, labels),
    "false_positive": lambda predicted, labels: set_difference(predicted, labels, aminusb=True),
    "false_negative": lambda predicted, labels: set_difference(predicted, labels, aminusb=False),
}


def _counts(kind: str, labels: Any, predicted: Any, class_id: int | None, weights: Any) -> Tensor:
    """Count in each row of predictions how many are of this kind, float64."""
    if class_id is not None:
        labels, predicted = _only(labels, class_id), _only(predicted, class_id)
    count = math_ops.cast(set_size(_SETS[kind](predicted, labels)), dtypes.float64)
    return weighted(count, weights, dtypes.float64)


def _total(kind: str, labels: Any, predicted: Any, k: int | None, class_id: int | None, weights: Any) -> Metric:
    with name_scope(None, _name_at_k(kind, k, class_id)) as scope:
        batch = math_ops.reduce_sum(_counts(kind, labels, predicted, class_id, weights))
        total = metric_variable([], dtypes.float64, scope)
        return total, assign_add(total, batch, name="update")  # type: ignore[return-value]


def _share(
    metric: str,
    other: str,
    labels: Any,
    predictions_idx: Any,
    k: int | None,
    class_id: int | None,
    weights: Any,
    metrics: Collections,
    updates: Collections,
    name: str | None,
) -> Metric:
    with name_scope(name, _name_at_k(metric, k, class_id)) as scope:
        predicted = math_ops.cast(predictions_idx, dtypes.int64)
        labels = _expanded(labels, predicted)
        hits, more_hits = _total("true_positive", labels, predicted, k, class_id, weights)
        others, more_others = _total(other, labels, predicted, k, class_id, weights)
        value = math_ops.divide(hits, math_ops.add(hits, others), name=scope)
        update = math_ops.divide(more_hits, math_ops.add(more_hits, more_others), name="update")
        return finished(value, update, metrics, updates)


def precision_at_top_k(
    labels: Any,
    predictions_idx: Any,
    k: int | None = None,
    class_id: int | None = None,
    weights: Any = None,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Metric:
    """Measure the share of predicted classes that are among the labels, float64; NaN before anything was predicted.

    Args:
        labels: int64 class ids, [D1, ... DN, num_labels] or [D1, ... DN], dense or sparse.
        predictions_idx: ids of the k best classes, [D1, ... DN, k].
        k: for the metric's name only.
        class_id: count this class alone.
        weights: a scalar, or of the rank of labels less one.
    """
    refuse_eager("precision_at_top_k")
    collections = (metrics_collections, updates_collections)
    return _share("precision", "false_positive", labels, predictions_idx, k, class_id, weights, *collections, name)


def recall_at_top_k(
    labels: Any,
    predictions_idx: Any,
    k: int | None = None,
    class_id: int | None = None,
    weights: Any = None,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Metric:
    """Measure the share of labels among the predicted classes, float64; arguments as for `precision_at_top_k`."""
    refuse_eager("recall_at_top_k")
    collections = (metrics_collections, updates_collections)
    return _share("recall", "false_negative", labels, predictions_idx, k, class_id, weights, *collections, name)


def precision_at_k(
    labels: Any,
    predictions: Any,
    k: int,
    class_id: int | None = None,
    weights: Any = None,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Metric:
    """Measure `precision_at_top_k` of the k greatest of `predictions`, [D1, ... DN, num_classes]."""
    refuse_eager("precision_at_k")
    with name_scope(name, _name_at_k("precision", k, class_id)) as scope:
        best = top_k(predictions, k)[1]
        return precision_at_top_k(labels, best, k, class_id, weights, metrics_collections, updates_collections, scope)


def recall_at_k(
    labels: Any,
    predictions: Any,
    k: int,
    class_id: int | None = None,
    weights: Any = None,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Metric:
    """Measure `recall_at_top_k` of the k greatest of `predictions`, [D1, ... DN, num_classes]."""
    refuse_eager("recall_at_k")
    with name_scope(name, _name_at_k("recall", k, class_id)) as scope:
        best = top_k(predictions, k)[1]
        return recall_at_top_k(labels, best, k, class_id, weights, metrics_collections, updates_collections, scope)


sparse_precision_at_k = precision_at_k


def average_precision_at_k(
    labels: Any,
    predictions: Any,
    k: int,
    weights: Any = None,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Metric:
    """Average over rows the average precision of the k best classes, float64.

    Args:
        labels: int64 class ids, [D1, ... DN, num_labels] or [D1, ... DN], dense or sparse; ids outside
            [0, num_classes) match nothing.
        predictions: [D1, ... DN, num_classes].
        weights: a scalar, or of the rank of labels less one.

    Raises:
        ValueError: k is less than 1.
    """
    refuse_eager("average_precision_at_k")
    if k < 1:
        raise ValueError(f"Invalid k={k}. `k` should be >= 1.")
    with name_scope(name, _name_at_k("average_precision", k)) as scope:
        best = math_ops.cast(top_k(predictions, k)[1], dtypes.int64)
        classes = array_ops.shape(predictions, out_type=dtypes.int64)[-1]
        precision = _average_precision(_known_only(labels, classes), best, k)
        if weights is not None:
            weights = broadcast_weights(math_ops.cast(weights, dtypes.float64), precision)
            precision = math_ops.multiply(precision, weights)
            amount = math_ops.reduce_sum(weights)
        else:
            amount = math_ops.cast(array_ops.size(precision), dtypes.float64)
        count = metric_variable([], dtypes.float64, "max")
        total = metric_variable([], dtypes.float64, "total")
        more_count = assign_add(count, amount)
        more_total = assign_add(total, math_ops.reduce_sum(precision))
        value = math_ops.div_no_nan(total, count, name="mean")
        update = math_ops.div_no_nan(more_total, more_count, name=scope)
        return finished(value, update, metrics_collections, updates_collections)


sparse_average_precision_at_k = average_precision_at_k


def _known_only(labels: Any, classes: Tensor) -> Any:
    """Set labels to -1 where they are ids of classes that do not exist."""
    labels = tensor_or_sparse(labels)
    ids = labels.values if isinstance(labels, SparseTensor) else labels
    ids = math_ops.cast(ids, dtypes.int64)
    cleaned = array_ops.where_v2(math_ops.greater_equal(ids, classes), constant(-1, dtypes.int64), ids)
    return SparseTensor(labels.indices, cleaned, labels.dense_shape) if isinstance(labels, SparseTensor) else cleaned


def _average_precision(labels: Any, best: Tensor, k: int) -> Tensor:
    """Average for each row, over its relevant items, the precision at the rank of each."""
    labels = _expanded(labels, best)
    per_rank = array_ops.expand_dims(best, -1)
    relevant = _counts("true_positive", _repeated(labels, k), per_rank, None, None)
    hits = math_ops.cumsum(relevant, axis=-1)
    ranks = math_ops.cumsum(array_ops.ones_like(relevant), axis=-1)
    summed = math_ops.reduce_sum(math_ops.multiply(math_ops.divide(hits, ranks), relevant), axis=[-1])
    return math_ops.divide(summed, math_ops.cast(_relevant(labels, k), dtypes.float64))


def _repeated(labels: Any, k: int) -> Any:
    """Repeat labels [..., n] as [..., k, n]: the same for each rank."""
    if isinstance(labels, SparseTensor):
        shape = labels.dense_shape
        expanded = sparse_reshape(labels, array_ops.concat([shape[:-1], constant([1], dtypes.int64), shape[-1:]], 0))
        return expanded if k == 1 else sparse_concat(-2, [expanded] * k)
    dense = array_ops.expand_dims(labels, -2)
    shape = array_ops.shape(labels)
    whole = array_ops.concat([shape[:-1], constant([k], dtypes.int32), shape[-1:]], 0)
    return array_ops.broadcast_to(dense, whole)


def _relevant(labels: Any, k: int) -> Tensor:
    """Count the labels of each row, k at most."""
    if isinstance(labels, SparseTensor):
        return math_ops.minimum(set_size(labels), k)
    valid = math_ops.cast(math_ops.greater_equal(labels, 0), dtypes.int64)
    return math_ops.minimum(math_ops.reduce_sum(valid, axis=-1), k)
