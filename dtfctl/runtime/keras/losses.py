"""`tf.keras.losses`: functions of targets and predictions, one value an example, and objects that reduce them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dtfctl.runtime.framework.convert import convert_to_tensor
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.keras import (
    backend as K,
    registry,
)
from dtfctl.runtime.keras.reduction import Reduction, valid_weights, weighted_loss
from dtfctl.runtime.keras.signatures import bound, signature_of
from dtfctl.runtime.ops import array_ops, math_ops, nn_ops
from dtfctl.runtime.ops.cond import smart_cond


def _pair(y_true: Any, y_pred: Any) -> tuple[Tensor, Tensor]:
    predicted = convert_to_tensor(y_pred)
    return math_ops.cast(y_true, predicted.dtype), predicted


def mean_squared_error(y_true: Any, y_pred: Any) -> Tensor:
    """Compute mean(square(y_pred - y_true)) over the last axis."""
    y_true, y_pred = _pair(y_true, y_pred)
    return math_ops.reduce_mean(math_ops.squared_difference(y_pred, y_true), axis=-1)


def mean_absolute_error(y_true: Any, y_pred: Any) -> Tensor:
    """Compute mean(abs(y_pred - y_true)) over the last axis."""
    y_true, y_pred = _pair(y_true, y_pred)
    return math_ops.reduce_mean(math_ops.abs(y_pred - y_true), axis=-1)


def mean_absolute_percentage_error(y_true: Any, y_pred: Any) -> Tensor:
    """Compute the mean relative error over the last axis, in percent."""
    y_true, y_pred = _pair(y_true, y_pred)
    difference = math_ops.abs((y_true - y_pred) / math_ops.maximum(math_ops.abs(y_true), K.epsilon()))
    return 100.0 * math_ops.reduce_mean(difference, axis=-1)


def mean_squared_logarithmic_error(y_true: Any, y_pred: Any) -> Tensor:
    """Compute the mean squared difference of log(1 + y) over the last axis."""
    y_true, y_pred = _pair(y_true, y_pred)
    first = math_ops.log(math_ops.maximum(y_pred, K.epsilon()) + 1.0)
    second = math_ops.log(math_ops.maximum(y_true, K.epsilon()) + 1.0)
    return math_ops.reduce_mean(math_ops.squared_difference(first, second), axis=-1)


def _signs(y_true: Tensor) -> Tensor:
    """Make -1 and 1 of labels that are 0 and 1."""
    binary = math_ops.reduce_all(math_ops.logical_or(math_ops.equal(y_true, 0), math_ops.equal(y_true, 1)))
    return smart_cond(binary, lambda: 2.0 * y_true - 1.0, lambda: array_ops.identity(y_true))


def squared_hinge(y_true: Any, y_pred: Any) -> Tensor:
    """Compute mean(square(max(1 - y_true * y_pred, 0))) over the last axis."""
    y_true, y_pred = _pair(y_true, y_pred)
    return math_ops.reduce_mean(math_ops.square(math_ops.maximum(1.0 - _signs(y_true) * y_pred, 0.0)), axis=-1)


def hinge(y_true: Any, y_pred: Any) -> Tensor:
    """Compute mean(max(1 - y_true * y_pred, 0)) over the last axis."""
    y_true, y_pred = _pair(y_true, y_pred)
    return math_ops.reduce_mean(math_ops.maximum(1.0 - _signs(y_true) * y_pred, 0.0), axis=-1)


def categorical_hinge(y_true: Any, y_pred: Any) -> Tensor:
    """Compute max(1 - positive + negative, 0) for one-hot labels."""
    y_true, y_pred = _pair(y_true, y_pred)
    positive = math_ops.reduce_sum(y_true * y_pred, axis=-1)
    negative = math_ops.reduce_max((1.0 - y_true) * y_pred, axis=-1)
    return math_ops.maximum(negative - positive + 1.0, 0.0)


def huber_loss(y_true: Any, y_pred: Any, delta: float = 1.0) -> Tensor:
    """Compute a squared error that grows linearly from `delta` on, as a mean over the last axis."""
    y_true, y_pred = _pair(y_true, y_pred)
    error = math_ops.abs(y_pred - y_true)
    half = convert_to_tensor(0.5, error.dtype)
    far = delta * error - half * math_ops.square(convert_to_tensor(delta, error.dtype))
    return math_ops.reduce_mean(array_ops.where_v2(error <= delta, half * math_ops.square(error), far), axis=-1)


def logcosh(y_true: Any, y_pred: Any) -> Tensor:
    """Compute the mean of log(cosh(y_pred - y_true)) over the last axis."""
    y_true, y_pred = _pair(y_true, y_pred)
    x = y_pred - y_true
    return math_ops.reduce_mean(x + nn_ops.softplus(-2.0 * x) - 0.6931471805599453, axis=-1)


def categorical_crossentropy(
    y_true: Any, y_pred: Any, from_logits: bool = False, label_smoothing: float = 0.0, axis: int = -1
) -> Tensor:
    """Compute the cross-entropy of one-hot labels: [..., classes] -> [...]."""
    y_true, y_pred = _pair(y_true, y_pred)
    if label_smoothing:
        classes = math_ops.cast(array_ops.shape(y_true)[axis], y_pred.dtype)
        y_true = y_true * (1.0 - label_smoothing) + (label_smoothing / classes)
    return K.categorical_crossentropy(y_true, y_pred, from_logits=from_logits, axis=axis)


def sparse_categorical_crossentropy(
    y_true: Any, y_pred: Any, from_logits: bool = False, axis: int = -1, ignore_class: int | None = None
) -> Tensor:
    """Compute the cross-entropy of labels that are numbers of classes: [...] and [..., classes] -> [...]."""
    return K.sparse_categorical_crossentropy(y_true, y_pred, from_logits, axis, ignore_class)


def binary_crossentropy(
    y_true: Any, y_pred: Any, from_logits: bool = False, label_smoothing: float = 0.0, axis: int = -1
) -> Tensor:
    """Compute the cross-entropy of labels that are 0 or 1, as a mean over an axis."""
    y_true, y_pred = _pair(y_true, y_pred)
    if label_smoothing:
        y_true = y_true * (1.0 - label_smoothing) + 0.5 * label_smoothing
    return math_ops.reduce_mean(K.binary_crossentropy(y_true, y_pred, from_logits=from_logits), axis=axis)


def kullback_leibler_divergence(y_true: Any, y_pred: Any) -> Tensor:
    """Compute sum(y_true * log(y_true / y_pred)) over the last axis."""
    y_true, y_pred = _pair(y_true, y_pred)
    y_true, y_pred = K.clip(y_true, K.epsilon(), 1), K.clip(y_pred, K.epsilon(), 1)
    return math_ops.reduce_sum(y_true * math_ops.log(y_true / y_pred), axis=-1)


def poisson(y_true: Any, y_pred: Any) -> Tensor:
    """Compute mean(y_pred - y_true * log(y_pred)) over the last axis."""
    y_true, y_pred = _pair(y_true, y_pred)
    return math_ops.reduce_mean(y_pred - y_true * math_ops.log(y_pred + K.epsilon()), axis=-1)


def cosine_similarity(y_true: Any, y_pred: Any, axis: int = -1) -> Tensor:
    """Compute minus the cosine of the angle between labels and predictions."""
    y_true, y_pred = nn_ops.l2_normalize(y_true, axis=axis), nn_ops.l2_normalize(y_pred, axis=axis)
    return -math_ops.reduce_sum(y_true * y_pred, axis=axis)


def _mask(value: Any) -> Any:
    return getattr(value, "_keras_mask", None)


class Loss:
    """Base of losses as objects: subclasses define `call`, which gives one value an example.

    Args:
        reduction: how these become one number; see `tf.keras.losses.Reduction`.
    """

    def __init__(self, reduction: str = Reduction.AUTO, name: str | None = None) -> None:
        Reduction.validate(reduction)
        self.reduction, self.name = reduction, name

    def __call__(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Tensor:
        from dtfctl.runtime.framework.graph_keys import name_scope

        with name_scope((self.name or type(self).__name__).replace("<", "").replace(">", "")):
            values = self.call(y_true, y_pred)
            weights = valid_weights(values, sample_weight, [_mask(y_pred), _mask(values)], self.reduction)
            return weighted_loss(values, weights, self.reduction)

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """Compute one value an example."""
        raise NotImplementedError(f"{type(self).__name__} does not say what it computes: define call")

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make it again."""
        return {"reduction": self.reduction, "name": self.name}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        """Make the loss that `get_config` described."""
        return cls(**config)


class LossFunctionWrapper(Loss):
    """A function as a loss object."""

    def __init__(
        self, fn: Callable[..., Any], reduction: str = Reduction.AUTO, name: str | None = None, **kwargs: Any
    ) -> None:
        super().__init__(reduction, name)
        self.fn, self._fn_kwargs = fn, kwargs

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """Compute one value an example."""
        if isinstance(y_pred, Tensor):
            y_true = convert_to_tensor(y_true)
            y_true, y_pred = squeeze_last(y_true, y_pred)
        return self.fn(y_true, y_pred, **self._fn_kwargs)

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make it again."""
        return {**super().get_config(), **self._fn_kwargs}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        """Make the one that `get_config` described; Keras writes the function's name, too."""
        config = dict(config)
        function = config.pop("fn", None)
        return cls(get(function), **config) if cls is LossFunctionWrapper else cls(**config)


def squeeze_last(y_true: Any, y_pred: Any) -> tuple[Any, Any]:
    """Take an axis of one element off the longer of two shapes that differ by it."""
    true_rank, pred_rank = y_true.shape.rank, y_pred.shape.rank
    if true_rank is None or pred_rank is None:
        return y_true, y_pred
    if true_rank - pred_rank == 1 and y_true.shape.as_list()[-1] in (1, None):
        return array_ops.squeeze(y_true, [-1]), y_pred
    if pred_rank - true_rank == 1 and y_pred.shape.as_list()[-1] == 1:
        return y_true, array_ops.squeeze(y_pred, [-1])
    return y_true, y_pred


def _wrapper(function: Callable[..., Any], class_name: str, name: str | None = None, **own: Any) -> type[Loss]:
    """Make the class of a loss function, whose own arguments come before the reduction."""
    signature = signature_of(**own, reduction=Reduction.AUTO, name=name or function.__name__)

    class Wrapped(LossFunctionWrapper):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            given = bound(signature, class_name, *args, **kwargs)
            reduction, label = given.pop("reduction"), given.pop("name")
            super().__init__(function, reduction, label, **given)

    Wrapped.__init__.__signature__ = signature  # type: ignore[attr-defined]
    Wrapped.__name__ = Wrapped.__qualname__ = class_name
    Wrapped.__doc__ = f"`{function.__name__}` as an object, with a reduction."
    return Wrapped


_SMOOTHED: dict[str, Any] = {"from_logits": False, "label_smoothing": 0.0, "axis": -1}
MeanSquaredError = _wrapper(mean_squared_error, "MeanSquaredError")
MeanAbsoluteError = _wrapper(mean_absolute_error, "MeanAbsoluteError")
MeanAbsolutePercentageError = _wrapper(mean_absolute_percentage_error, "MeanAbsolutePercentageError")
MeanSquaredLogarithmicError = _wrapper(mean_squared_logarithmic_error, "MeanSquaredLogarithmicError")
SquaredHinge = _wrapper(squared_hinge, "SquaredHinge")
Hinge = _wrapper(hinge, "Hinge")
CategoricalHinge = _wrapper(categorical_hinge, "CategoricalHinge")
Huber = _wrapper(huber_loss, "Huber", delta=1.0)
LogCosh = _wrapper(logcosh, "LogCosh", "log_cosh")
CategoricalCrossentropy = _wrapper(categorical_crossentropy, "CategoricalCrossentropy", **_SMOOTHED)
SparseCategoricalCrossentropy = _wrapper(
    sparse_categorical_crossentropy, "SparseCategoricalCrossentropy", from_logits=False, ignore_class=None
)
BinaryCrossentropy = _wrapper(binary_crossentropy, "BinaryCrossentropy", **_SMOOTHED)
KLDivergence = _wrapper(kullback_leibler_divergence, "KLDivergence", "kl_divergence")
Poisson = _wrapper(poisson, "Poisson")
CosineSimilarity = _wrapper(cosine_similarity, "CosineSimilarity", axis=-1)

mse = MSE = mean_squared_error
mae = MAE = mean_absolute_error
mape = MAPE = mean_absolute_percentage_error
msle = MSLE = mean_squared_logarithmic_error
kld = KLD = kl_divergence = kullback_leibler_divergence
log_cosh = logcosh
bce = BCE = binary_crossentropy
cosine_proximity = cosine = cosine_similarity

_FUNCTIONS = (
    *(mean_squared_error, mean_absolute_error, mean_absolute_percentage_error, mean_squared_logarithmic_error),
    *(squared_hinge, hinge, categorical_hinge, huber_loss, logcosh, categorical_crossentropy),
    *(sparse_categorical_crossentropy, binary_crossentropy, kullback_leibler_divergence, poisson, cosine_similarity),
)
_CLASSES = (
    *(MeanSquaredError, MeanAbsoluteError, MeanAbsolutePercentageError, MeanSquaredLogarithmicError, SquaredHinge),
    *(Hinge, CategoricalHinge, Huber, LogCosh, CategoricalCrossentropy, SparseCategoricalCrossentropy),
    *(BinaryCrossentropy, KLDivergence, Poisson, CosineSimilarity),
)
_OBJECTS: dict[str, Any] = {f.__name__: f for f in (*_FUNCTIONS, *_CLASSES)}
_OBJECTS |= {"mse": mse, "MSE": mse, "mae": mae, "MAE": mae, "mape": mape, "MAPE": mape, "msle": msle, "MSLE": msle}
_OBJECTS |= {"kld": kld, "KLD": kld, "cosine_proximity": cosine_similarity, "cosine": cosine_similarity}
_OBJECTS |= {"huber": huber_loss, "log_cosh": logcosh, "kl_divergence": kld, "bce": bce, "BCE": bce}


def get(identifier: Any) -> Any:
    """Find a loss by name or configuration; a function or object is itself.

    Raises:
        ValueError: there is none of that name.
    """
    if identifier is None:
        return None
    if isinstance(identifier, (str, dict)):
        return deserialize(identifier)
    if callable(identifier):
        return identifier
    raise ValueError(f"Could not interpret loss function identifier: {identifier!r}")


def serialize(loss: Any) -> Any:
    """Return the name of a loss, or its configuration."""
    return registry.serialize_keras_object(loss)


def deserialize(name: Any, custom_objects: Any = None) -> Any:
    """Find a loss by what `serialize` gave."""
    return registry.deserialize_keras_object(name, _OBJECTS, custom_objects, "loss function")


def loss_of(loss: Any) -> Any:
    """Make the object that `compile` computes an output's loss with; None where there is none."""
    if loss is None or isinstance(loss, Loss):
        return loss
    if isinstance(loss, type) and issubclass(loss, Loss):
        raise ValueError(f"Received uninstantiated Loss class: {loss}. Please call loss classes before passing them.")
    if isinstance(loss, dict):
        loss = get(loss)
    if callable(loss) and not hasattr(loss, "__name__"):
        return loss
    found = get(loss)
    if isinstance(found, Loss):
        return found
    return LossFunctionWrapper(found, Reduction.SUM_OVER_BATCH_SIZE, found.__name__)
