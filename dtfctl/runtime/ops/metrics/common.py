"""What all metrics share: their variables, the alignment of shapes, and how a value and its update come about."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.convert import SparseTensor, convert_to_tensor
from dtfctl.runtime.framework.dtypes import DType
from dtfctl.runtime.framework.func_graph import outermost_graph
from dtfctl.runtime.framework.graph_keys import GraphKeys, add_to_collections, control_dependencies, name_scope
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.ops import array_ops, check_ops, math_ops
from dtfctl.runtime.ops.cond import cond
from dtfctl.runtime.ops.op_defs.control import no_op
from dtfctl.runtime.ops.variables import Variable, VariableAggregation, VariableSynchronization

Metric = tuple[Tensor, Any]
"""The metric's value now, and the op that takes one more batch in and gives the value after it."""

Collections = Sequence[str] | None


def refuse_eager(metric: str) -> None:
    """Raise RuntimeError where operations run as they are made: a metric needs a graph that is run many times."""
    if outermost_graph().executes:
        raise RuntimeError(
            f"tf.metrics.{metric} is not supported when eager execution is enabled: build it in a tf.Graph"
        )


def metric_variable(shape: Any, dtype: DType, name: str) -> Variable:
    """Make a variable of zeros in LOCAL_VARIABLES and METRIC_VARIABLES, not trained and not saved."""
    return Variable(
        lambda: array_ops.zeros(shape, dtype),
        trainable=False,
        collections=[GraphKeys.LOCAL_VARIABLES, GraphKeys.METRIC_VARIABLES],
        synchronization=VariableSynchronization.ON_READ,
        aggregation=VariableAggregation.SUM,
        name=name,
    )


def finished(value: Tensor, update: Any, metrics_collections: Collections, updates_collections: Collections) -> Metric:
    """Put a metric's value and update into their collections, and pair them."""
    if metrics_collections:
        add_to_collections(metrics_collections, value)
    if updates_collections:
        add_to_collections(updates_collections, update)
    return value, update


def ratio(numerator: Any, denominator: Any, name: str | None = None) -> Tensor:
    """Divide; the quotient is 0 where the denominator is not positive."""
    return math_ops.div_no_nan(numerator, math_ops.maximum(denominator, 0), name=name)


def squeeze_pair(labels: Any, predictions: Any) -> tuple[Tensor, Tensor]:
    """Bring labels and predictions to one rank: a last dimension of 1 that only one of them has is taken away."""
    with name_scope(None, "remove_squeezable_dimensions"):
        labels, predictions = convert_to_tensor(labels), convert_to_tensor(predictions)
        if labels.shape.rank is None or predictions.shape.rank is None:
            difference = array_ops.rank(predictions) - array_ops.rank(labels)
            return _squeezed_when(labels, difference, -1), _squeezed_when(predictions, difference, 1)
        difference = predictions.shape.rank - labels.shape.rank
        if difference == 1 and _may_be_one(predictions):
            predictions = array_ops.squeeze(predictions, [-1])
        elif difference == -1 and _may_be_one(labels):
            labels = array_ops.squeeze(labels, [-1])
        return labels, predictions


def _may_be_one(t: Tensor) -> bool:
    return t.shape.rank is None or (t.shape.rank > 0 and t.shape[-1].value in (None, 1))


def _squeezed_when(t: Tensor, difference: Tensor, wanted: int) -> Tensor:
    if not _may_be_one(t):
        return t
    out: Tensor = cond(math_ops.equal(difference, wanted), lambda: array_ops.squeeze(t, [-1]), lambda: t)
    return out


def aligned(predictions: Any, labels: Any, weights: Any) -> tuple[Tensor, Any, Any]:
    """Bring predictions, labels and weights to one rank; labels and weights may be None, weights may stay scalar.

    Raises:
        ValueError: the static shapes of predictions and labels do not agree.
    """
    predictions = convert_to_tensor(predictions)
    if labels is not None:
        labels, predictions = squeeze_pair(labels, predictions)
        predictions.shape.assert_is_compatible_with(labels.shape)
    if weights is None:
        return predictions, labels, None
    weights = convert_to_tensor(weights)
    own, wanted = weights.shape.rank, predictions.shape.rank
    if own == 0:
        return predictions, labels, weights
    if own is None or wanted is None:
        return predictions, labels, _weights_by_rank(weights, predictions)
    if own - wanted == 1:
        weights = array_ops.squeeze(weights, [-1])
    elif wanted - own == 1:
        weights = array_ops.expand_dims(weights, -1)
    return predictions, labels, weights


def _weights_by_rank(weights: Tensor, predictions: Tensor) -> Tensor:
    rank = array_ops.rank(weights)
    difference = rank - array_ops.rank(predictions)

    def less() -> Any:
        return array_ops.squeeze(weights, [-1]) if _may_be_one(weights) else weights

    def more() -> Any:
        return cond(math_ops.equal(difference, -1), lambda: array_ops.expand_dims(weights, -1), lambda: weights)

    def adjusted() -> Any:
        return cond(math_ops.equal(difference, 1), less, more)

    out: Tensor = cond(math_ops.equal(rank, 0), lambda: weights, adjusted)
    return out


def assert_broadcastable(weights: Any, values: Any) -> Operation:
    """Make an op that fails unless weights are a scalar, or have values' rank and in each dimension 1 or its size.

    Raises:
        ValueError: the static shapes show that already.
    """
    with name_scope(None, "assert_broadcastable") as scope:
        weights, values = convert_to_tensor(weights), convert_to_tensor(values)
        own, wanted = weights.shape, values.shape
        if own.rank == 0:
            return no_op(name="static_scalar_check_success")
        if own.rank is not None and wanted.rank is not None:
            pairs = list(zip(own.as_list(), wanted.as_list()))
            fits = own.rank == wanted.rank and all(a in (1, b) or None in (a, b) for a, b in pairs)
            if not fits:
                raise ValueError(
                    f"weights can not be broadcast to values. values.shape={wanted}. weights.shape={own}. Weights are "
                    "a scalar, or have the rank of values and in each dimension its size or 1."
                )
            if own.is_fully_defined() and wanted.is_fully_defined():
                return no_op(name="static_dims_check_success")
        actual, target = array_ops.shape(weights), array_ops.shape(values)

        def same_rank() -> Any:
            return cond(
                math_ops.equal(array_ops.size(actual), array_ops.size(target)),
                lambda: math_ops.reduce_all(
                    math_ops.logical_or(math_ops.equal(actual, 1), math_ops.equal(actual, target))
                ),
                lambda: convert_to_tensor(False),
            )

        valid = cond(math_ops.equal(array_ops.rank(weights), 0), lambda: convert_to_tensor(True), same_rank)
        data = ["weights can not be broadcast to values.", "weights.shape=", actual, "values.shape=", target]
        return check_ops.Assert(valid, data, name=scope)


def broadcast_weights(weights: Any, values: Any) -> Tensor:
    """Broadcast weights to the shape of values.

    Raises:
        ValueError: the static shapes do not allow it; where they are unknown the step fails with
            InvalidArgumentError.
    """
    with name_scope(None, "broadcast_weights") as scope:
        values = convert_to_tensor(values)
        factors = convert_to_tensor(weights, values.dtype.base_dtype)
        known = factors.shape.is_fully_defined() and values.shape.is_fully_defined()
        if known and factors.shape.as_list() == values.shape.as_list():
            return factors
        with control_dependencies([assert_broadcastable(factors, values)]):
            return math_ops.multiply(factors, array_ops.ones_like(values), name=scope)


def weighted(values: Tensor, weights: Any, dtype: DType) -> Tensor:
    """Multiply values by weights, checked against them; values stay as they are when there are no weights."""
    if weights is None:
        return values
    with control_dependencies([assert_broadcastable(weights, values)]):
        product: Tensor = math_ops.multiply(values, math_ops.cast(weights, dtype))
        return product


def tensor_or_sparse(value: Any) -> Any:
    """Convert to a SparseTensor (of one, or of a fetched value), or to a tensor."""
    if hasattr(value, "dense_shape"):
        return SparseTensor(value.indices, value.values, value.dense_shape)
    return convert_to_tensor(value)


def flat(t: Any) -> Tensor:
    """Flatten a tensor to a vector; one that is known to be a vector stays as it is."""
    t = convert_to_tensor(t)
    return t if t.shape.rank == 1 else array_ops.reshape(t, [-1])


def as_bool(predictions: Any, labels: Any, weights: Any) -> tuple[Tensor, Tensor, Any]:
    """Align predictions and labels and convert them to truth values."""
    return aligned(math_ops.cast(predictions, dtypes.bool_), math_ops.cast(labels, dtypes.bool_), weights)
