"""Counts at many thresholds of a probability, and what is made of them: curves, areas and operating points."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.convert import constant, convert_to_tensor
from dtfctl.runtime.framework.graph_keys import control_dependencies
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.ops import array_ops, check_ops, math_ops
from dtfctl.runtime.ops.metrics.common import (
    Collections,
    Metric,
    aligned,
    broadcast_weights,
    finished,
    metric_variable,
    refuse_eager,
)
from dtfctl.runtime.ops.state_ops import assign_add
from dtfctl.runtime.ops.variable_scope import variable_scope

_KINDS = {
    "tp": ("true_positives", True, True),
    "fn": ("false_negatives", True, False),
    "tn": ("true_negatives", False, False),
    "fp": ("false_positives", False, True),
}
"""A count's variable, and the label and the prediction of the elements it counts."""

_MARGIN = 1e-7
"""How far the outermost thresholds lie beyond 0 and 1, so that every prediction lies between them."""


def _counts(
    labels: Any, predictions: Any, thresholds: Sequence[float], weights: Any, kinds: Sequence[str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Make for each kind of count the variable, [thresholds] float32, and its update.

    A prediction is positive where it is greater than the threshold. Predictions outside [0, 1] fail the step.
    """
    predictions = math_ops.cast(predictions, dtypes.float32)
    message = "predictions must be in [0, 1]"
    checks = [
        check_ops.assert_greater_equal(predictions, 0.0, message=message),
        check_ops.assert_less_equal(predictions, 1.0, message=message),
    ]
    with control_dependencies(checks):
        predictions, labels, weights = aligned(
            array_ops.identity(predictions), math_ops.cast(labels, dtypes.bool_), weights
        )
    rows = array_ops.reshape(constant(list(thresholds), dtypes.float32), [-1, 1])
    positive = math_ops.greater(array_ops.reshape(predictions, [1, -1]), rows)
    label_row = array_ops.reshape(labels, [1, -1])
    if weights is not None:
        weights = broadcast_weights(math_ops.cast(weights, dtypes.float32), predictions)
        weights = array_ops.reshape(weights, [1, -1])
    totals: dict[str, Any] = {}
    updates: dict[str, Any] = {}
    for kind in kinds:
        name, label, prediction = _KINDS[kind]
        totals[kind] = metric_variable([len(thresholds)], dtypes.float32, name)
        found: Any = math_ops.cast(
            math_ops.logical_and(math_ops.equal(label_row, label), math_ops.equal(positive, prediction)),
            dtypes.float32,
        )
        if weights is not None:
            found = found * weights
        updates[kind] = assign_add(totals[kind], math_ops.reduce_sum(found, 1))
    return totals, updates


def _counter(name_of: str, kind: str) -> Callable[..., Metric]:
    variable, label, prediction = _KINDS[kind]

    def function(
        labels: Any,
        predictions: Any,
        thresholds: Sequence[float],
        weights: Any = None,
        metrics_collections: Collections = None,
        updates_collections: Collections = None,
        name: str | None = None,
    ) -> Metric:
        refuse_eager(name_of)
        with variable_scope(name, variable, (predictions, labels, weights)):
            totals, updates = _counts(labels, predictions, thresholds, weights, (kind,))
            return finished(totals[kind].read_value(), updates[kind], metrics_collections, updates_collections)

    function.__name__ = function.__qualname__ = name_of
    where = "greater than" if prediction else "at most"
    function.__doc__ = (
        f"For each threshold the weight of elements labelled {label} whose prediction is {where} it, float32.\n\n"
        "    Predictions lie in [0, 1] (InvalidArgumentError in the step otherwise); labels are taken as truth values."
    )
    return function


true_positives_at_thresholds = _counter("true_positives_at_thresholds", "tp")
false_negatives_at_thresholds = _counter("false_negatives_at_thresholds", "fn")
true_negatives_at_thresholds = _counter("true_negatives_at_thresholds", "tn")
false_positives_at_thresholds = _counter("false_positives_at_thresholds", "fp")


def _share(name_of: str, short: str, other: str) -> Callable[..., Metric]:
    def function(
        labels: Any,
        predictions: Any,
        thresholds: Sequence[float],
        weights: Any = None,
        metrics_collections: Collections = None,
        updates_collections: Collections = None,
        name: str | None = None,
    ) -> Metric:
        refuse_eager(name_of)
        with variable_scope(name, name_of, (predictions, labels, weights)):
            totals, updates = _counts(labels, predictions, thresholds, weights, ("tp", other))

            def share(counts: dict[str, Any], suffix: str) -> Tensor:
                hits = counts["tp"]
                return math_ops.divide(hits, _MARGIN + hits + counts[other], name=f"{short}_{suffix}")

            value, update = share(totals, "value"), share(updates, "update_op")
            return finished(value, update, metrics_collections, updates_collections)

    function.__name__ = function.__qualname__ = name_of
    function.__doc__ = f"The {short} at each threshold, float32; arguments as for `true_positives_at_thresholds`."
    return function


precision_at_thresholds = _share("precision_at_thresholds", "precision", "fp")
recall_at_thresholds = _share("recall_at_thresholds", "recall", "fn")


def _spread(count: int, top: float = 1.0 + _MARGIN) -> list[float]:
    return [-_MARGIN, *((i + 1) / (count - 1) for i in range(count - 2)), top]


def auc(
    labels: Any,
    predictions: Any,
    weights: Any = None,
    num_thresholds: int = 200,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    curve: str = "ROC",
    name: str | None = None,
    summation_method: str = "trapezoidal",
    thresholds: Sequence[float] | None = None,
) -> Metric:
    """Compute the area under a curve that is sampled at thresholds, a float32 scalar.

    Args:
        labels: taken as truth values.
        predictions: in [0, 1], of the shape of labels.
        num_thresholds: how many, spread evenly; without effect when `thresholds` is given.
        curve: "ROC" (true over false positive rate) or "PR" (precision over recall).
        summation_method: "trapezoidal", "minoring", "majoring", or for PR curves better "careful_interpolation".
        thresholds: those between 0 and 1 to use.

    Raises:
        ValueError: the curve or the method is unknown, or shapes do not agree.
        RuntimeError: eager execution is enabled.
    """
    refuse_eager("auc")
    if curve not in ("ROC", "PR"):
        raise ValueError(f"Curve must be either ROC or PR. Curve {curve} is unknown.")
    methods = ("trapezoidal", "careful_interpolation", "minoring", "majoring")
    if summation_method not in methods:
        raise ValueError(f"Invalid summation_method: {summation_method}; it should be one of {', '.join(methods)}")
    if curve == "PR" and summation_method == "trapezoidal":
        logging.getLogger(__name__).warning(
            "the trapezoidal rule overestimates the area under a PR curve: use careful_interpolation"
        )
    with variable_scope(name, "auc", (labels, predictions, weights)):
        if thresholds is None:
            points = _spread(num_thresholds)
        else:
            points = [-_MARGIN, *sorted(thresholds), 1.0 + _MARGIN]
        totals, updates = _counts(labels, predictions, points, weights, tuple(_KINDS))

        def area(counts: dict[str, Any], name: str) -> Tensor:
            of = {kind: convert_to_tensor(count) for kind, count in counts.items()}
            if curve == "PR" and summation_method == "careful_interpolation":
                return _interpolated_area(of, name)
            return _area(of, curve, summation_method, name)

        value, update = area(totals, "value"), area(updates, "update_op")
        return finished(value, update, metrics_collections, updates_collections)


def _area(of: dict[str, Any], curve: str, method: str, name: str) -> Tensor:
    tiny = 1e-6
    recall = (of["tp"] + tiny) / (of["tp"] + of["fn"] + tiny)
    if curve == "ROC":
        x, y = of["fp"] / (of["fp"] + of["tn"] + tiny), recall
    else:
        x, y = recall, (of["tp"] + tiny) / (of["tp"] + of["fp"] + tiny)
    left, right = y[:-1], y[1:]
    if method == "minoring":
        height = math_ops.minimum(left, right)
    elif method == "majoring":
        height = math_ops.maximum(left, right)
    else:
        height = (left + right) / 2.0
    return math_ops.reduce_sum(math_ops.multiply(x[:-1] - x[1:], height), name=name)


def _interpolated_area(of: dict[str, Any], name: str) -> Tensor:
    """Compute the area under a PR curve where true and all positives change linearly between thresholds.

    With tp = slope * p + intercept in an interval, the integral of tp / p is slope * (dp + intercept/slope * log ratio)
    of p, and the share of recall it covers is that over all that are positive (Davis and Goadrich 2006, section 4).
    """
    tp, fn = of["tp"], of["fn"]
    p = tp + of["fp"]
    change = tp[:-1] - tp[1:]
    slope = math_ops.div_no_nan(change, math_ops.maximum(p[:-1] - p[1:], 0))
    intercept = tp[1:] - slope * p[1:]
    both = math_ops.logical_and(p[:-1] > 0, p[1:] > 0)
    growth = array_ops.where(both, math_ops.div_no_nan(p[:-1], math_ops.maximum(p[1:], 0)), array_ops.ones_like(p[1:]))
    positives = math_ops.maximum(tp[1:] + fn[1:], 0)
    return math_ops.reduce_sum(
        math_ops.div_no_nan(slope * (change + intercept * math_ops.log(growth)), positives), name=name
    )


def sensitivity_at_specificity(
    labels: Any,
    predictions: Any,
    specificity: float,
    weights: Any = None,
    num_thresholds: int = 200,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Metric:
    """Measure the recall of positives at the threshold whose specificity comes nearest to the given one.

    Raises:
        ValueError: the specificity is not in [0, 1].
    """
    refuse_eager("sensitivity_at_specificity")
    if not 0 <= specificity <= 1:
        raise ValueError(f"`specificity` must be in the range [0, 1]. Currently, `specificity` got {specificity}.")
    with variable_scope(name, "sensitivity_at_specificity", (predictions, labels, weights)):
        totals, updates = _counts(labels, predictions, _spread(num_thresholds), weights, tuple(_KINDS))

        def sensitivity(counts: dict[str, Any], name: str) -> Tensor:
            of = {kind: convert_to_tensor(count) for kind, count in counts.items()}
            found = of["tn"] / (of["tn"] + of["fp"] + _MARGIN)
            at = math_ops.cast(math_ops.argmin(math_ops.abs(found - specificity), 0), dtypes.int32)
            hits = array_ops.gather(of["tp"], at)
            return math_ops.divide(hits, hits + array_ops.gather(of["fn"], at) + _MARGIN, name)

        value, update = sensitivity(totals, "value"), sensitivity(updates, "update_op")
        return finished(value, update, metrics_collections, updates_collections)


def specificity_at_sensitivity(
    labels: Any,
    predictions: Any,
    sensitivity: float,
    weights: Any = None,
    num_thresholds: int = 200,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Metric:
    """Measure the recall of negatives at the last threshold whose sensitivity comes nearest to the given one.

    Raises:
        ValueError: the sensitivity is not in [0, 1].
    """
    refuse_eager("specificity_at_sensitivity")
    if not 0 <= sensitivity <= 1:
        raise ValueError(f"`sensitivity` must be in the range [0, 1]. Currently, `sensitivity` is {sensitivity}.")
    with variable_scope(name, "specificity_at_sensitivity", (predictions, labels, weights)):
        points = _spread(num_thresholds, top=1.0 - _MARGIN)
        totals, updates = _counts(labels, predictions, points, weights, tuple(_KINDS))

        def specificity(counts: dict[str, Any], name: str) -> Tensor:
            of = {kind: convert_to_tensor(count) for kind, count in counts.items()}
            distance = math_ops.abs(of["tp"] / (of["tp"] + of["fn"] + _MARGIN) - sensitivity)
            nearest = math_ops.cast(math_ops.equal(distance, math_ops.reduce_min(distance)), dtypes.int64)
            at = math_ops.cast(math_ops.argmax(math_ops.cumsum(nearest), 0), dtypes.int32)
            hits = array_ops.gather(of["tn"], at)
            return math_ops.divide(hits, hits + array_ops.gather(of["fp"], at) + _MARGIN, name)

        value, update = specificity(totals, "value"), specificity(updates, "update_op")
        return finished(value, update, metrics_collections, updates_collections)
