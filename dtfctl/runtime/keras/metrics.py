"""`tf.keras.metrics`: what is reported of a model, summed up over batches in variables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.convert import convert_to_tensor
from dtfctl.runtime.framework.graph_keys import control_dependencies
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.keras import losses, registry
from dtfctl.runtime.keras.backend.values import batch_set_value
from dtfctl.runtime.keras.base_layer import Layer
from dtfctl.runtime.keras.losses import squeeze_last
from dtfctl.runtime.keras.provided import Role, provides
from dtfctl.runtime.ops import array_ops, math_ops, nn_ops
from dtfctl.runtime.ops.grouping import group
from dtfctl.runtime.ops.variables import VariableAggregation, VariableSynchronization
from dtfctl.runtime.replication import contexts


class Metric(Layer):
    """A number of a stream of batches: subclasses define `update_state` and `result`."""

    def __init__(self, name: str | None = None, dtype: Any = None, **kwargs: Any) -> None:
        super().__init__(name=name, dtype=dtype or dtypes.float32, **kwargs)
        self.stateful = True
        self.built = True

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if contexts.has_strategy():
            raise NotImplementedError(
                f"The metric {self.name} is called in the scope of {contexts.get_strategy()}: give it to `compile`, or "
                "call update_state in a replica and result() across them"
            )
        update = self.update_state(*args, **kwargs)
        self.add_update(update)
        with control_dependencies([update]):
            result = self.result()
        result._metric_obj = self
        self._result = result
        return result

    def update_state(self, *args: Any, **kwargs: Any) -> Any:
        """Make the op that adds a batch."""
        raise NotImplementedError(f"{type(self).__name__} does not say how a batch is added: define update_state")

    def result(self) -> Any:
        """Compute the number from the variables."""
        raise NotImplementedError(f"{type(self).__name__} does not say what it computes: define result")

    def reset_states(self) -> None:
        """Set all variables to zero in Keras's session."""
        batch_set_value([(v, np.zeros(v.shape.as_list())) for v in self.weights])

    reset_state = reset_states

    def add_weight(  # type: ignore[override]
        self, name: str, shape: Any = (), initializer: Any = "zeros", dtype: Any = None, **kwargs: Any
    ) -> Any:
        """Make a variable of the metric's own, in no collection; replicas of a strategy add theirs up when read."""
        own = {"synchronization": VariableSynchronization.ON_READ, "aggregation": VariableAggregation.SUM}
        return super().add_weight(
            name, shape, dtype or self._dtype, initializer, trainable=False, collections=[], **{**own, **kwargs}
        )

    def _charge_outputs(self, inputs: Any, outputs: Any) -> None:
        """Leave the loss as it is."""

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make it again."""
        return {"name": self.name, "dtype": self.dtype}


def _weighted(values: Tensor, sample_weight: Any) -> tuple[Tensor, Tensor | None]:
    if sample_weight is None:
        return values, None
    weights = math_ops.cast(sample_weight, values.dtype)
    rank, weight_rank = values.shape.rank, weights.shape.rank
    if rank is not None and weight_rank is not None and weight_rank:
        if weight_rank - rank == 1:
            weights = array_ops.squeeze(weights, [-1])
        elif rank < weight_rank:
            raise ValueError(f"Weights of rank {weight_rank} do not fit values of rank {rank}")
        elif rank - weight_rank == 1 and values.shape.as_list()[-1] == 1:
            weights = array_ops.expand_dims(weights, -1)
        elif rank > weight_rank:
            values = math_ops.reduce_mean(values, axis=list(range(weight_rank, rank)))
    return math_ops.multiply(values, weights), weights


class _Reduce(Metric):
    """A sum, or a sum over a weight."""

    _mean = True

    def __init__(self, name: str | None = None, dtype: Any = None) -> None:
        super().__init__(name, dtype)
        self.total = self.add_weight("total")
        if self._mean:
            self.count = self.add_weight("count")

    def update_state(self, values: Any, sample_weight: Any = None) -> Any:
        """Make the op that adds values, each with its weight."""
        values = math_ops.cast(convert_to_tensor(values), self._dtype)
        values, weights = _weighted(values, sample_weight)
        updated = self.total.assign_add(math_ops.reduce_sum(values))
        if not self._mean:
            return updated.op
        with control_dependencies([updated]):
            if weights is None:
                count = math_ops.cast(array_ops.size(values), self._dtype)
            else:
                count = math_ops.reduce_sum(weights)
            return self.count.assign_add(count).op

    def result(self) -> Any:
        """Compute the number from the variables."""
        if not self._mean:
            return array_ops.identity(self.total)
        return array_ops.identity(math_ops.div_no_nan(self.total, self.count))


@provides(Role.MEAN_METRIC)
class Mean(_Reduce):
    """The weighted mean of values."""

    def __init__(self, name: str | None = "mean", dtype: Any = None) -> None:
        super().__init__(name, dtype)


class Sum(_Reduce):
    """The weighted sum of values."""

    _mean = False

    def __init__(self, name: str | None = "sum", dtype: Any = None) -> None:
        super().__init__(name, dtype)


class MeanMetricWrapper(Mean):
    """The mean of a function of targets and predictions."""

    def __init__(self, fn: Callable[..., Any], name: str | None = None, dtype: Any = None, **kwargs: Any) -> None:
        super().__init__(name=name or fn.__name__, dtype=dtype)
        self._fn, self._fn_kwargs = fn, kwargs

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:  # type: ignore[override]
        """Make the op that adds a batch."""
        y_true, y_pred = convert_to_tensor(y_true), convert_to_tensor(y_pred)
        if self._fn is not sparse_categorical_accuracy:
            y_true = math_ops.cast(y_true, self._dtype)
        y_true, y_pred = squeeze_last(y_true, y_pred)
        return super().update_state(self._fn(y_true, y_pred, **self._fn_kwargs), sample_weight)

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make it again."""
        return {**super().get_config(), **self._fn_kwargs}


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


def _mean_of(function: Callable[..., Any], class_name: str, default_name: str, *own: str) -> type[Metric]:
    class Wrapped(MeanMetricWrapper):
        def __init__(self, name: str | None = default_name, dtype: Any = None, **kwargs: Any) -> None:
            unknown = set(kwargs) - set(own)
            if unknown:
                raise TypeError(f"{class_name} got an unexpected argument: {sorted(unknown)[0]}")
            super().__init__(function, name, dtype, **kwargs)

    Wrapped.__name__ = Wrapped.__qualname__ = class_name
    Wrapped.__doc__ = f"The mean of `{function.__name__}`."
    return Wrapped


Accuracy = _mean_of(accuracy, "Accuracy", "accuracy")
BinaryAccuracy = _mean_of(binary_accuracy, "BinaryAccuracy", "binary_accuracy", "threshold")
CategoricalAccuracy = _mean_of(categorical_accuracy, "CategoricalAccuracy", "categorical_accuracy")
SparseCategoricalAccuracy = _mean_of(
    sparse_categorical_accuracy, "SparseCategoricalAccuracy", "sparse_categorical_accuracy"
)
TopKCategoricalAccuracy = _mean_of(
    top_k_categorical_accuracy, "TopKCategoricalAccuracy", "top_k_categorical_accuracy", "k"
)
SparseTopKCategoricalAccuracy = _mean_of(
    sparse_top_k_categorical_accuracy, "SparseTopKCategoricalAccuracy", "sparse_top_k_categorical_accuracy", "k"
)
MeanSquaredError = _mean_of(losses.mean_squared_error, "MeanSquaredError", "mean_squared_error")
MeanAbsoluteError = _mean_of(losses.mean_absolute_error, "MeanAbsoluteError", "mean_absolute_error")
MeanAbsolutePercentageError = _mean_of(
    losses.mean_absolute_percentage_error, "MeanAbsolutePercentageError", "mean_absolute_percentage_error"
)
MeanSquaredLogarithmicError = _mean_of(
    losses.mean_squared_logarithmic_error, "MeanSquaredLogarithmicError", "mean_squared_logarithmic_error"
)
BinaryCrossentropy = _mean_of(
    losses.binary_crossentropy, "BinaryCrossentropy", "binary_crossentropy", "from_logits", "label_smoothing"
)
CategoricalCrossentropy = _mean_of(
    *(losses.categorical_crossentropy, "CategoricalCrossentropy", "categorical_crossentropy"),
    *("from_logits", "label_smoothing"),
)
SparseCategoricalCrossentropy = _mean_of(
    *(losses.sparse_categorical_crossentropy, "SparseCategoricalCrossentropy", "sparse_categorical_crossentropy"),
    "from_logits",
)
Hinge = _mean_of(losses.hinge, "Hinge", "hinge")
SquaredHinge = _mean_of(losses.squared_hinge, "SquaredHinge", "squared_hinge")
Poisson = _mean_of(losses.poisson, "Poisson", "poisson")
KLDivergence = _mean_of(losses.kullback_leibler_divergence, "KLDivergence", "kullback_leibler_divergence")


class RootMeanSquaredError(Mean):
    """The square root of the mean squared error."""

    def __init__(self, name: str = "root_mean_squared_error", dtype: Any = None) -> None:
        super().__init__(name, dtype)

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:  # type: ignore[override]
        """Make the op that adds a batch."""
        y_true, y_pred = math_ops.cast(y_true, self._dtype), math_ops.cast(y_pred, self._dtype)
        y_true, y_pred = squeeze_last(y_true, y_pred)
        return super().update_state(math_ops.squared_difference(y_pred, y_true), sample_weight)

    def result(self) -> Any:
        """Compute the number from the variables."""
        return math_ops.sqrt(math_ops.div_no_nan(self.total, self.count))


class _Counted(Metric):
    """Sums over examples of what is true of labels and predictions at one threshold."""

    _counts: tuple[str, ...]

    def __init__(self, thresholds: Any = None, name: str | None = None, dtype: Any = None) -> None:
        super().__init__(name=name, dtype=dtype)
        if isinstance(thresholds, (list, tuple)) and len(thresholds) != 1:
            raise NotImplementedError("tf.keras metrics have one threshold here; make one metric for each")
        self.thresholds = thresholds
        self._threshold = thresholds[0] if isinstance(thresholds, (list, tuple)) else thresholds
        for kind in self._counts:
            setattr(self, kind, self.add_weight(kind, (1,)))

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        """Make the op that adds a batch."""
        threshold = 0.5 if self._threshold is None else self._threshold
        positive = math_ops.cast(math_ops.cast(y_true, dtypes.bool_), self._dtype)
        predicted = math_ops.cast(math_ops.cast(y_pred, self._dtype) > threshold, self._dtype)
        positive, predicted = squeeze_last(positive, predicted)
        kinds = {
            "true_positives": lambda: positive * predicted,
            "false_positives": lambda: (1.0 - positive) * predicted,
            "true_negatives": lambda: (1.0 - positive) * (1.0 - predicted),
            "false_negatives": lambda: positive * (1.0 - predicted),
        }
        updates = []
        for kind in self._counts:
            values, _ = _weighted(kinds[kind](), sample_weight)
            updates.append(getattr(self, kind).assign_add(array_ops.reshape(math_ops.reduce_sum(values), [1])).op)
        return group(*updates)

    def result(self) -> Any:
        """Compute the number from the variables."""
        return array_ops.identity(getattr(self, self._counts[0])[0])

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make it again."""
        return {**super().get_config(), "thresholds": self.thresholds}


class TruePositives(_Counted):
    """How many labels are 1 and predicted so."""

    _counts = ("true_positives",)


class FalsePositives(_Counted):
    """How many labels are 0 and predicted 1."""

    _counts = ("false_positives",)


class TrueNegatives(_Counted):
    """How many labels are 0 and predicted so."""

    _counts = ("true_negatives",)


class FalseNegatives(_Counted):
    """How many labels are 1 and predicted 0."""

    _counts = ("false_negatives",)


class Precision(_Counted):
    """How many of those that are predicted 1 are 1."""

    _counts = ("true_positives", "false_positives")

    def result(self) -> Any:
        """Compute the number from the variables."""
        first, second = (getattr(self, kind) for kind in self._counts)
        return math_ops.div_no_nan(first, first + second)[0]


class Recall(Precision):
    """How many of those that are 1 are predicted so."""

    _counts = ("true_positives", "false_negatives")


class AUC(Metric):
    """The area under the ROC curve, by counts at `num_thresholds` thresholds."""

    true_positives: Any
    true_negatives: Any
    false_positives: Any
    false_negatives: Any

    def __init__(
        self,
        num_thresholds: int = 200,
        curve: str = "ROC",
        summation_method: str = "interpolation",
        name: str | None = None,
        dtype: Any = None,
    ) -> None:
        if curve != "ROC" or summation_method != "interpolation":
            raise NotImplementedError('tf.keras.metrics.AUC: curve="ROC" with interpolation; tf.metrics.auc has others')
        super().__init__(name=name, dtype=dtype)
        self.num_thresholds = num_thresholds
        inner = [(i + 1) / (num_thresholds - 1) for i in range(num_thresholds - 2)]
        self._thresholds = np.array([-1e-7, *inner, 1 + 1e-7], np.float32)
        for kind in ("true_positives", "true_negatives", "false_positives", "false_negatives"):
            setattr(self, kind, self.add_weight(kind, (num_thresholds,)))

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        """Make the op that adds a batch."""
        positive = array_ops.reshape(math_ops.cast(math_ops.cast(y_true, dtypes.bool_), self._dtype), [1, -1])
        predicted = array_ops.reshape(math_ops.cast(y_pred, self._dtype), [1, -1])
        over = math_ops.cast(predicted > self._thresholds[:, None], self._dtype)
        weights: Any = 1.0
        if sample_weight is not None:
            weights = array_ops.reshape(math_ops.cast(sample_weight, self._dtype), [1, -1])
        kinds = {
            "true_positives": positive * over,
            "true_negatives": (1.0 - positive) * (1.0 - over),
            "false_positives": (1.0 - positive) * over,
            "false_negatives": positive * (1.0 - over),
        }
        sums = {kind: math_ops.reduce_sum(values * weights, axis=1) for kind, values in kinds.items()}
        return group(*(getattr(self, kind).assign_add(values).op for kind, values in sums.items()))

    def result(self) -> Any:
        """Compute the number from the variables."""
        recall = math_ops.div_no_nan(self.true_positives, self.true_positives + self.false_negatives)
        fallout = math_ops.div_no_nan(self.false_positives, self.false_positives + self.true_negatives)
        heights = (recall[: self.num_thresholds - 1] + recall[1:]) / 2.0
        return math_ops.reduce_sum((fallout[: self.num_thresholds - 1] - fallout[1:]) * heights)

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make it again."""
        return {**super().get_config(), "num_thresholds": self.num_thresholds}


acc = ACC = accuracy
mse = MSE = losses.mean_squared_error
mae = MAE = losses.mean_absolute_error
mape = MAPE = losses.mean_absolute_percentage_error
msle = MSLE = losses.mean_squared_logarithmic_error
_FUNCTIONS = (
    *(accuracy, binary_accuracy, categorical_accuracy, sparse_categorical_accuracy, top_k_categorical_accuracy),
    *(sparse_top_k_categorical_accuracy, losses.mean_squared_error, losses.mean_absolute_error),
    *(losses.mean_absolute_percentage_error, losses.mean_squared_logarithmic_error, losses.binary_crossentropy),
    *(losses.categorical_crossentropy, losses.sparse_categorical_crossentropy, losses.hinge, losses.squared_hinge),
    *(losses.poisson, losses.kullback_leibler_divergence, losses.cosine_similarity, losses.logcosh),
)
_OBJECTS: dict[str, Any] = {f.__name__: f for f in _FUNCTIONS}
_OBJECTS |= {"mse": mse, "MSE": mse, "mae": mae, "MAE": mae, "mape": mape, "msle": msle}
_OBJECTS |= {
    name: value for name, value in list(globals().items()) if isinstance(value, type) and issubclass(value, Metric)
}


def get(identifier: Any) -> Any:
    """Find a metric by name or configuration; a function or object is itself.

    Raises:
        ValueError: there is none of that name.
    """
    if isinstance(identifier, (str, dict)):
        return deserialize(identifier)
    if callable(identifier):
        return identifier
    raise ValueError(f"Could not interpret metric function identifier: {identifier!r}")


def serialize(metric: Any) -> Any:
    """Return the name of a metric, or its configuration."""
    return registry.serialize_keras_object(metric)


def deserialize(config: Any, custom_objects: Any = None) -> Any:
    """Find a metric by what `serialize` gave."""
    return registry.deserialize_keras_object(config, _OBJECTS, custom_objects, "metric function")


def metric_of(metric: Any, output_shape: Any, loss: Any) -> tuple[Any, Metric]:
    """Make the metric that `compile` asks for, and its name: "acc" is the accuracy that fits shape and loss."""
    if isinstance(metric, Metric):
        return metric.name, metric
    if metric in ("accuracy", "acc", "crossentropy", "ce"):
        name = {"accuracy": "acc", "ce": "crossentropy"}.get(metric, metric)
        return name, MeanMetricWrapper(_fitting(metric, output_shape, loss), name)
    found = get(metric)
    if isinstance(found, Metric):
        return found.name, found
    name = getattr(found, "__name__", None) or getattr(found, "name", type(found).__name__)
    return name, MeanMetricWrapper(found, name)


def _fitting(metric: str, output_shape: Any, loss: Any) -> Callable[..., Any]:
    function = getattr(loss, "fn", loss)
    binary = output_shape[-1] == 1 or function is losses.binary_crossentropy
    sparse = function is losses.sparse_categorical_crossentropy
    if metric in ("accuracy", "acc"):
        return binary_accuracy if binary else sparse_categorical_accuracy if sparse else categorical_accuracy
    if binary:
        return losses.binary_crossentropy
    return losses.sparse_categorical_crossentropy if sparse else losses.categorical_crossentropy
