"""Counts of right and wrong yes-or-no answers, and what is made of them: precision and recall."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.ops import math_ops
from dtfctl.runtime.ops.metrics.common import (
    Collections,
    Metric,
    as_bool,
    finished,
    metric_variable,
    refuse_eager,
    weighted,
)
from dtfctl.runtime.ops.state_ops import assign_add
from dtfctl.runtime.ops.variable_scope import variable_scope


def _counted(condition: Tensor, weights: Any, metrics: Collections, updates: Collections) -> Metric:
    """Add up the weight of all elements so far for which the condition held."""
    count = metric_variable([], dtypes.float32, "count")
    values = weighted(math_ops.cast(condition, dtypes.float32), weights, dtypes.float32)
    return finished(count.read_value(), assign_add(count, math_ops.reduce_sum(values)), metrics, updates)


def _counter(name_of: str, label: bool, prediction: bool) -> Callable[..., Metric]:
    def function(
        labels: Any,
        predictions: Any,
        weights: Any = None,
        metrics_collections: Collections = None,
        updates_collections: Collections = None,
        name: str | None = None,
    ) -> Metric:
        refuse_eager(name_of)
        with variable_scope(name, name_of, (predictions, labels, weights)):
            predictions, labels, weights = as_bool(predictions, labels, weights)
            found = math_ops.logical_and(math_ops.equal(labels, label), math_ops.equal(predictions, prediction))
            return _counted(found, weights, metrics_collections, updates_collections)

    function.__name__ = function.__qualname__ = name_of
    function.__doc__ = (
        f"The weight of elements whose label is {label} and whose prediction is {prediction}, float32.\n\n"
        "    Labels and predictions of one shape are taken as truth values; weights are a scalar or of their rank."
    )
    return function


true_positives = _counter("true_positives", True, True)
false_positives = _counter("false_positives", False, True)
true_negatives = _counter("true_negatives", False, False)
false_negatives = _counter("false_negatives", True, False)


def _share(part: Any, other: Any, name: str) -> Tensor:
    """Compute part / (part + other), and 0 where there is neither."""
    return math_ops.div_no_nan(part, part + other, name=name)


def _share_of_true_positives(name_of: str, counter: Callable[..., Metric], of: str) -> Callable[..., Metric]:
    def function(
        labels: Any,
        predictions: Any,
        weights: Any = None,
        metrics_collections: Collections = None,
        updates_collections: Collections = None,
        name: str | None = None,
    ) -> Metric:
        refuse_eager(name_of)
        with variable_scope(name, name_of, (predictions, labels, weights)):
            predictions, labels, weights = as_bool(predictions, labels, weights)
            hits, more_hits = true_positives(labels, predictions, weights)
            others, more_others = counter(labels, predictions, weights)
            value, update = _share(hits, others, "value"), _share(more_hits, more_others, "update_op")
            return finished(value, update, metrics_collections, updates_collections)

    function.__name__ = function.__qualname__ = name_of
    function.__doc__ = (
        f"The share of true positives among all that {of} positive; 0 while there are none.\n\n"
        "    Labels and predictions of one shape are taken as truth values; weights as for `mean`."
    )
    return function


precision = _share_of_true_positives("precision", false_positives, "were predicted")
recall = _share_of_true_positives("recall", false_negatives, "are")
