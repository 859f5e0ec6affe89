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
from dtfctl.runtime.keras.metrics import accuracies
from dtfctl.runtime.keras.metrics.accuracies import (
    accuracy as accuracy,
    binary_accuracy as binary_accuracy,
    categorical_accuracy as categorical_accuracy,
    sparse_categorical_accuracy as sparse_categorical_accuracy,
    sparse_top_k_categorical_accuracy as sparse_top_k_categorical_accuracy,
    top_k_categorical_accuracy as top_k_categorical_accuracy,
)
from dtfctl.runtime.keras.provided import Role, provides
from dtfctl.runtime.keras.reduction import Reduction, valid_weights
from dtfctl.runtime.keras.signatures import bound, signature_of
from dtfctl.runtime.ops import array_ops, math_ops
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
        values = self._fn(y_true, y_pred, **self._fn_kwargs)
        mask = getattr(values, "_keras_mask", None)
        return super().update_state(values, valid_weights(values, sample_weight, [mask], Reduction.NONE))

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make it again."""
        return {**super().get_config(), **self._fn_kwargs}


def _mean_of(
    function: Callable[..., Any], class_name: str, name: str, first: dict[str, Any] | None = None, **own: Any
) -> type[Metric]:
    """Make the class of the mean of a function, whose own arguments come after the type of data.

    Args:
        first: those that come before the name.
    """
    signature = signature_of(**(first or {}), name=name, dtype=None, **own)

    class Wrapped(MeanMetricWrapper):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            given = bound(signature, class_name, *args, **kwargs)
            label, dtype = given.pop("name"), given.pop("dtype")
            super().__init__(function, label, dtype, **given)

    Wrapped.__init__.__signature__ = signature  # type: ignore[attr-defined]
    Wrapped.__name__ = Wrapped.__qualname__ = class_name
    Wrapped.__doc__ = f"The mean of `{function.__name__}`."
    return Wrapped


Accuracy = _mean_of(accuracy, "Accuracy", "accuracy")
BinaryAccuracy = _mean_of(binary_accuracy, "BinaryAccuracy", "binary_accuracy", threshold=0.5)
CategoricalAccuracy = _mean_of(categorical_accuracy, "CategoricalAccuracy", "categorical_accuracy")
SparseCategoricalAccuracy = _mean_of(
    sparse_categorical_accuracy, "SparseCategoricalAccuracy", "sparse_categorical_accuracy"
)
TopKCategoricalAccuracy = _mean_of(
    top_k_categorical_accuracy, "TopKCategoricalAccuracy", "top_k_categorical_accuracy", {"k": 5}
)
SparseTopKCategoricalAccuracy = _mean_of(
    sparse_top_k_categorical_accuracy, "SparseTopKCategoricalAccuracy", "sparse_top_k_categorical_accuracy", {"k": 5}
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
    losses.binary_crossentropy, "BinaryCrossentropy", "binary_crossentropy", from_logits=False, label_smoothing=0
)
CategoricalCrossentropy = _mean_of(
    losses.categorical_crossentropy,
    "CategoricalCrossentropy",
    "categorical_crossentropy",
    from_logits=False,
    label_smoothing=0,
    axis=-1,
)
SparseCategoricalCrossentropy = _mean_of(
    losses.sparse_categorical_crossentropy,
    "SparseCategoricalCrossentropy",
    "sparse_categorical_crossentropy",
    from_logits=False,
    ignore_class=None,
    axis=-1,
)
Hinge = _mean_of(losses.hinge, "Hinge", "hinge")
SquaredHinge = _mean_of(losses.squared_hinge, "SquaredHinge", "squared_hinge")
CategoricalHinge = _mean_of(losses.categorical_hinge, "CategoricalHinge", "categorical_hinge")
CosineSimilarity = _mean_of(accuracies.cosine_similarity, "CosineSimilarity", "cosine_similarity", axis=-1)
LogCoshError = _mean_of(losses.logcosh, "LogCoshError", "logcosh")
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
    """Sums over examples of what is true of labels and predictions, at one threshold or at several."""

    _counts: tuple[str, ...]

    def __init__(self, thresholds: Any = None, name: str | None = None, dtype: Any = None) -> None:
        super().__init__(name=name, dtype=dtype)
        self.thresholds = thresholds
        self.top_k: int | None = None
        self.class_id: int | None = None
        given = [0.5] if thresholds is None else np.ravel(thresholds).tolist()
        if not all(0 <= threshold <= 1 for threshold in given):
            raise ValueError(f"Threshold values must be in [0, 1]. Received: {thresholds}")
        self._thresholds = np.array(given, np.float32)
        for kind in self._counts:
            setattr(self, kind, self.add_weight(kind, (len(given),)))

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        """Make the op that adds a batch."""
        truth = math_ops.cast(math_ops.cast(y_true, dtypes.bool_), self._dtype)
        truth, guess = squeeze_last(truth, math_ops.cast(y_pred, self._dtype))
        if self.top_k is not None:
            guess = accuracies.only_largest(guess, self.top_k)
        if self.class_id is not None:
            truth, guess = (each[..., self.class_id : self.class_id + 1] for each in (truth, guess))
        positive = array_ops.reshape(truth, [1, -1])
        predicted = math_ops.cast(array_ops.reshape(guess, [1, -1]) > self._thresholds[:, None], self._dtype)
        weights: Any = 1.0
        if sample_weight is not None:
            weights = math_ops.cast(sample_weight, self._dtype)
            for _ in range((guess.shape.rank or 0) - (weights.shape.rank or 0)):
                weights = array_ops.expand_dims(weights, -1)
            weights = array_ops.reshape(weights * array_ops.ones_like(guess), [1, -1])
        kinds = {
            "true_positives": lambda: positive * predicted,
            "false_positives": lambda: (1.0 - positive) * predicted,
            "true_negatives": lambda: (1.0 - positive) * (1.0 - predicted),
            "false_negatives": lambda: positive * (1.0 - predicted),
        }
        sums = {kind: math_ops.reduce_sum(kinds[kind]() * weights, axis=1) for kind in self._counts}
        return group(*(getattr(self, kind).assign_add(found).op for kind, found in sums.items()))

    def _one_or_all(self, found: Any) -> Any:
        return found[0] if len(self._thresholds) == 1 else array_ops.identity(found)

    def result(self) -> Any:
        """Compute the number from the variables: one for each threshold where there are several."""
        return array_ops.identity(self._one_or_all(getattr(self, self._counts[0])))

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
    """How many of those that are predicted 1 are 1.

    Args:
        top_k: those that are predicted 1 are the k largest of the last axis, whatever they are without thresholds.
        class_id: the place in the last axis that is looked at.
    """

    _counts = ("true_positives", "false_positives")

    def __init__(
        self,
        thresholds: Any = None,
        top_k: int | None = None,
        class_id: int | None = None,
        name: str | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(thresholds, name, dtype)
        self.top_k, self.class_id = top_k, class_id
        if thresholds is None and top_k is not None:
            self._thresholds = np.array([accuracies.NEVER], np.float32)

    def result(self) -> Any:
        """Compute the number from the variables: one for each threshold where there are several."""
        first, second = (getattr(self, kind) for kind in self._counts)
        return self._one_or_all(math_ops.div_no_nan(first, first + second))

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make it again."""
        return {**super().get_config(), "top_k": self.top_k, "class_id": self.class_id}


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
    *(losses.poisson, losses.kullback_leibler_divergence, accuracies.cosine_similarity, losses.logcosh),
)
_OBJECTS: dict[str, Any] = {f.__name__: f for f in _FUNCTIONS}
_OBJECTS["cosine_proximity"] = accuracies.cosine_similarity
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
