"""`tf.keras.metrics`: what is reported of a model, summed up over batches in variables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dtfctl.runtime.framework.convert import convert_to_tensor
from dtfctl.runtime.framework.graph_keys import control_dependencies
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.keras import losses, registry
from dtfctl.runtime.keras.losses import (
    binary_crossentropy as binary_crossentropy,
    categorical_crossentropy as categorical_crossentropy,
    hinge as hinge,
    kl_divergence as kl_divergence,
    kullback_leibler_divergence as kullback_leibler_divergence,
    log_cosh as log_cosh,
    logcosh as logcosh,
    mean_absolute_error as mean_absolute_error,
    mean_absolute_percentage_error as mean_absolute_percentage_error,
    mean_squared_error as mean_squared_error,
    mean_squared_logarithmic_error as mean_squared_logarithmic_error,
    poisson as poisson,
    sparse_categorical_crossentropy as sparse_categorical_crossentropy,
    squared_hinge as squared_hinge,
    squeeze_last,
)
from dtfctl.runtime.keras.metrics import accuracies
from dtfctl.runtime.keras.metrics.accuracies import (
    accuracy as accuracy,
    binary_accuracy as binary_accuracy,
    categorical_accuracy as categorical_accuracy,
    sparse_categorical_accuracy as sparse_categorical_accuracy,
    sparse_top_k_categorical_accuracy as sparse_top_k_categorical_accuracy,
    top_k_categorical_accuracy as top_k_categorical_accuracy,
)
from dtfctl.runtime.keras.metrics.areas import AUC as AUC
from dtfctl.runtime.keras.metrics.base import Metric as Metric
from dtfctl.runtime.keras.metrics.counted import (
    FalseNegatives as FalseNegatives,
    FalsePositives as FalsePositives,
    Precision as Precision,
    Recall as Recall,
    TrueNegatives as TrueNegatives,
    TruePositives as TruePositives,
)
from dtfctl.runtime.keras.metrics.operating_points import (
    PrecisionAtRecall as PrecisionAtRecall,
    RecallAtPrecision as RecallAtPrecision,
    SensitivityAtSpecificity as SensitivityAtSpecificity,
    SpecificityAtSensitivity as SpecificityAtSensitivity,
)
from dtfctl.runtime.keras.metrics.overlaps import (
    BinaryIoU as BinaryIoU,
    IoU as IoU,
    MeanIoU as MeanIoU,
    OneHotIoU as OneHotIoU,
    OneHotMeanIoU as OneHotMeanIoU,
)
from dtfctl.runtime.keras.provided import Role, provides
from dtfctl.runtime.keras.reduction import Reduction, valid_weights
from dtfctl.runtime.keras.signatures import bound, signature_of
from dtfctl.runtime.ops import array_ops, math_ops


def _weighted(values: Tensor, sample_weight: Any, mean: bool = True) -> tuple[Tensor, Tensor | None]:
    """Weigh values: weights of fewer axes are those of the first axes; with `mean`, or the sum, of the rest."""
    if sample_weight is None:
        return values, None
    weights = math_ops.cast(sample_weight, values.dtype)
    rank, weight_rank = values.shape.rank, weights.shape.rank
    if rank is not None and weight_rank:
        if weight_rank - rank == 1:
            weights = array_ops.squeeze(weights, [-1])
        elif rank < weight_rank:
            raise ValueError(f"Weights of rank {weight_rank} do not fit values of rank {rank}")
        elif rank - weight_rank == 1:
            weights = array_ops.expand_dims(weights, -1)
        elif rank > weight_rank:
            reduce = math_ops.reduce_mean if mean else math_ops.reduce_sum
            values = reduce(values, axis=list(range(weight_rank, rank)))
    weights = weights * array_ops.ones_like(values)
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
        values, weights = _weighted(values, sample_weight, self._mean)
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
        function = {"fn": self._fn} if type(self) is MeanMetricWrapper else {}
        return {**function, **super().get_config(), **self._fn_kwargs}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        """Make the one that `get_config` described; a file has the function's name."""
        config = dict(config)
        function = config.pop("fn", None)
        return cls(get(function), **config) if cls is MeanMetricWrapper else cls(**config)


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


class MeanRelativeError(Mean):
    """The mean of errors, each a share of what its place in `normalizer` says."""

    def __init__(self, normalizer: Any, name: str | None = None, dtype: Any = None) -> None:
        super().__init__(name, dtype)
        self.normalizer = np.asarray(normalizer)

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:  # type: ignore[override]
        """Make the op that adds a batch."""
        y_true, y_pred = math_ops.cast(y_true, self._dtype), math_ops.cast(y_pred, self._dtype)
        y_true, y_pred = squeeze_last(y_true, y_pred)
        y_pred, shares = squeeze_last(y_pred, math_ops.cast(self.normalizer, self._dtype))
        return super().update_state(math_ops.div_no_nan(math_ops.abs(y_true - y_pred), shares), sample_weight)

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make it again."""
        return {**super().get_config(), "normalizer": self.normalizer.tolist()}


class MeanTensor(Metric):
    """The weighted mean of values, of each element by itself.

    Args:
        shape: of the values; None to learn it from the first.
    """

    total: Any = None
    count: Any = None

    def __init__(self, name: str | None = "mean_tensor", dtype: Any = None, shape: Any = None) -> None:
        super().__init__(name, dtype)
        self._each: TensorShape | None = None
        if shape is not None:
            self._make(TensorShape(shape))

    def _make(self, shape: TensorShape) -> None:
        self._each = shape
        self.total, self.count = self.add_weight("total", shape), self.add_weight("count", shape)

    def update_state(self, values: Any, sample_weight: Any = None) -> Any:
        """Make the op that adds values, each with its weight."""
        values = math_ops.cast(convert_to_tensor(values), self._dtype)
        if self._each is None:
            self._make(values.shape)
        elif values.shape != self._each:
            raise ValueError(
                "MeanTensor input values must always have the same shape. Expected shape (set during the first call): "
                f"{self._each}. Got: {values.shape}."
            )
        counts = array_ops.ones_like(values)
        if sample_weight is not None:
            values, weights = _weighted(values, sample_weight)
            counts = counts * weights
        with control_dependencies([self.total.assign_add(values)]):
            return self.count.assign_add(counts).op

    def result(self) -> Any:
        """Compute the means from the variables.

        Raises:
            ValueError: there are no values yet.
        """
        if self._each is None:
            raise ValueError(
                "MeanTensor does not have any value yet. Please call the MeanTensor instance or use "
                "`.update_state(value)` before retrieving the result."
            )
        return math_ops.div_no_nan(self.total, self.count)


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


acc = ACC = accuracy
mse = MSE = mean_squared_error
mae = MAE = mean_absolute_error
mape = MAPE = mean_absolute_percentage_error
msle = MSLE = mean_squared_logarithmic_error
kld = KLD = kullback_leibler_divergence
bce = BCE = binary_crossentropy
cosine_proximity = cosine = cosine_similarity = accuracies.cosine_similarity
_FUNCTIONS = (
    *(accuracy, binary_accuracy, categorical_accuracy, sparse_categorical_accuracy, top_k_categorical_accuracy),
    *(sparse_top_k_categorical_accuracy, losses.mean_squared_error, losses.mean_absolute_error),
    *(losses.mean_absolute_percentage_error, losses.mean_squared_logarithmic_error, losses.binary_crossentropy),
    *(losses.categorical_crossentropy, losses.sparse_categorical_crossentropy, losses.hinge, losses.squared_hinge),
    *(losses.poisson, losses.kullback_leibler_divergence, accuracies.cosine_similarity, losses.logcosh),
    losses.categorical_hinge,
)
_OBJECTS: dict[str, Any] = {f.__name__: f for f in _FUNCTIONS}
_OBJECTS["cosine_proximity"] = accuracies.cosine_similarity
_OBJECTS |= {"mse": mse, "MSE": mse, "mae": mae, "MAE": mae, "mape": mape, "MAPE": mape, "msle": msle, "MSLE": msle}
_OBJECTS |= {"kld": kld, "KLD": kld, "kl_divergence": kld, "bce": bce, "BCE": bce, "log_cosh": losses.logcosh}
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


def metric_of(metric: Any, output_shape: Any, loss: Any, weighted: bool = False) -> tuple[Any, Metric]:
    """Make the metric that `compile` asks for, and its name: "acc" is the accuracy that fits shape and loss."""
    before = "weighted_" if weighted else ""
    if isinstance(metric, Metric):
        return before + metric.name, metric
    if metric in ("accuracy", "acc", "crossentropy", "ce"):
        name = before + {"accuracy": "acc", "crossentropy": "ce"}.get(metric, metric)
        return name, MeanMetricWrapper(_fitting(metric, output_shape, loss), name)
    found = get(metric)
    if isinstance(found, Metric):
        return before + found.name, found
    name = before + str(getattr(found, "__name__", None) or getattr(found, "name", type(found).__name__))
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
