"""`tf.losses`: weighted losses that add themselves to the LOSSES collection."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework import context, dtypes
from dtfctl.runtime.framework.convert import constant, convert_to_tensor
from dtfctl.runtime.framework.graph_keys import GraphKeys, name_scope
from dtfctl.runtime.framework.op_builder import apply_op, apply_op_outputs
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.framework.tensor_shape import broadcast_static
from dtfctl.runtime.ops import array_ops, math_ops, nn_ops
from dtfctl.runtime.ops.operands import apply_mixed, cast_to


def _function(op: str, x: Any, y: Any = None, name: str | None = None) -> Tensor:
    """Apply an elementwise op under the name of TensorFlow's function, which its losses call, not of the operator."""
    return apply_mixed(op, x, y, name or op.removesuffix("V2"))


class Reduction:
    """How the losses of a batch become one number."""

    NONE = "none"
    SUM = "weighted_sum"
    SUM_OVER_BATCH_SIZE = "weighted_sum_over_batch_size"
    MEAN = "weighted_mean"
    SUM_BY_NONZERO_WEIGHTS = "weighted_sum_by_nonzero_weights"
    SUM_OVER_NONZERO_WEIGHTS = SUM_BY_NONZERO_WEIGHTS

    @classmethod
    def all(cls) -> tuple[str, ...]:
        return (cls.NONE, cls.SUM, cls.MEAN, cls.SUM_OVER_BATCH_SIZE, cls.SUM_BY_NONZERO_WEIGHTS)

    @classmethod
    def validate(cls, key: str) -> None:
        if key not in cls.all():
            raise ValueError(f"Invalid Reduction Key: {key}.")


def _total(t: Tensor, name: str | None = None) -> Tensor:
    if t.shape.rank is None:
        axes = apply_op("Range", start=0, limit=apply_op("Rank", input=t), delta=1)
    elif t.shape.rank == 0:
        # No axes; TensorFlow makes them by an op whose name counts.
        axes = apply_op("Range", start=0, limit=0, delta=1)
    else:
        axes = constant(list(range(t.shape.rank)), dtypes.int32)
    out: Tensor = apply_op("Sum", input=t, reduction_indices=axes, name=name)
    out.set_shape([])
    return out


def _float(value: Any) -> Tensor:
    tensor = convert_to_tensor(value)
    return tensor if tensor.dtype.base_dtype.is_floating else apply_op("Cast", x=tensor, DstT=dtypes.float32)


LAST_REDUCTION = ("__last_loss_reduction",)
"""The collection of the reduction of the loss that was made last."""


def compute_weighted_loss(
    losses: Any,
    weights: Any = 1.0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
) -> Tensor:
    """Multiply `losses` by `weights` (of the same or a broadcastable shape) and reduce.

    Raises:
        ValueError: the weights cannot be broadcast, or the reduction is unknown.
    """
    Reduction.validate(reduction)
    with name_scope(scope, "weighted_loss"):
        weights = convert_to_tensor(weights)
        losses = convert_to_tensor(losses)
        original = losses.dtype
        losses, weights = _float(losses), cast_to(weights, dtypes.float32)
        if weights.shape.rank not in (None, 0):
            broadcast_static(losses.shape, weights.shape)
        losses32 = cast_to(losses, dtypes.float32)
        weighted = _function("Mul", losses32, weights)
        loss = _reduce(weighted, losses32, weights, reduction)
        if original.is_floating and original.base_dtype is not dtypes.float32:
            loss = cast_to(loss, original.base_dtype)
        if loss_collection is not None:
            context.get_default_graph().add_to_collection(loss_collection, loss)
        context.get_default_graph().get_collection_ref(LAST_REDUCTION)[:] = [reduction]
        return loss


def _reduce(weighted: Tensor, losses: Tensor, weights: Tensor, reduction: str) -> Tensor:
    if reduction == Reduction.NONE:
        return weighted
    total = _total(weighted)
    if reduction == Reduction.SUM:
        return total
    if reduction == Reduction.SUM_OVER_BATCH_SIZE:
        with name_scope(None, "num_elements") as inner:
            count = cast_to(apply_op("Size", input=losses, name=inner), dtypes.float32)
    elif reduction == Reduction.MEAN:
        count = _total(array_ops.ones_like(losses) * weights)
    else:
        count = _num_present(losses, weights)
    # TensorFlow sums once more, and programs find `Sum_1` by its name; of one number it is that number.
    return _function("DivNoNan", _total(total), count, name="value")


def _num_present(losses: Tensor, weights: Tensor, each: bool = False) -> Tensor:
    """Count the elements whose weight is not zero; those of each sample by themselves, or all."""
    with name_scope(None, "num_present") as scope:
        zero = _function("Equal", weights, constant(0.0))
        present = array_ops.where(zero, array_ops.zeros_like(weights), array_ops.ones_like(weights))
        if not (weights.shape.is_fully_defined() and losses.shape.is_fully_defined() and weights.shape == losses.shape):
            with name_scope(None, "broadcast_weights") as inner:
                present = _function("Mul", present, array_ops.ones_like(losses), name=inner)
        if not each:
            return _total(present, scope)
        return math_ops.reduce_sum(present, list(range(1, losses.shape.rank or 1)), keepdims=True, name=scope)


def _pair(labels: Any, predictions: Any) -> tuple[Tensor, Tensor]:
    if labels is None or predictions is None:
        raise ValueError("labels and predictions must not be None.")
    # As in TensorFlow also where they have more bits.
    p = cast_to(predictions, dtypes.float32)
    label_tensor = cast_to(labels, dtypes.float32)
    p.shape.assert_is_compatible_with(label_tensor.shape)
    return label_tensor, p


def absolute_difference(
    labels: Any,
    predictions: Any,
    weights: Any = 1.0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
) -> Tensor:
    """Compute |labels - predictions|, weighted and reduced."""
    with name_scope(scope, "absolute_difference") as scope:
        y, p = _pair(labels, predictions)
        return compute_weighted_loss(
            _function("Abs", _function("Sub", p, y)), weights, scope, loss_collection, reduction
        )


def mean_squared_error(
    labels: Any,
    predictions: Any,
    weights: Any = 1.0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
) -> Tensor:
    """Compute (labels - predictions)^2, weighted and reduced."""
    with name_scope(scope, "mean_squared_error") as scope:
        y, p = _pair(labels, predictions)
        return compute_weighted_loss(_function("SquaredDifference", p, y), weights, scope, loss_collection, reduction)


def mean_pairwise_squared_error(
    labels: Any,
    predictions: Any,
    weights: Any = 1.0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
) -> Tensor:
    """Average over pairs of a sample's elements the squared difference of their errors, and over samples.

    Args:
        labels, predictions: [samples, ...]; weights: a number, or one a sample.
    """
    with name_scope(scope, "mean_pairwise_squared_error"):
        y, p = _pair(labels, predictions)
        errors = _function("Sub", p, y)
        weight = cast_to(weights, dtypes.float32)
        rest = list(range(1, errors.shape.rank or 1))
        squares = math_ops.reduce_sum(math_ops.square(errors), rest, keepdims=True)
        count = _num_present(errors, weight, each=True)
        pairs = math_ops.maximum(count - 1.0, 0.0)
        one = 2.0 * math_ops.div_no_nan(squares, pairs, name="value")
        sums = math_ops.reduce_sum(errors, rest, keepdims=True)
        pairs = math_ops.maximum(_function("Mul", count, count - 1.0), 0.0)
        two = 2.0 * math_ops.div_no_nan(math_ops.square(sums), pairs, name="value")
        total = math_ops.reduce_sum(_function("Mul", one - two, weight))
        nothing = array_ops.zeros_like(total)
        loss = array_ops.where(math_ops.reduce_sum(count) > 0.0, total, nothing, name="value")
        add_loss(loss, loss_collection)
        return loss


def huber_loss(
    labels: Any,
    predictions: Any,
    weights: Any = 1.0,
    delta: float = 1.0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
) -> Tensor:
    """Compute a loss that is squared up to `delta`, linear beyond (Huber, 1964)."""
    with name_scope(scope, "huber_loss") as scope:
        y, p = _pair(labels, predictions)
        error = _function("Abs", _function("Sub", p, y))
        near = _function("Minimum", error, constant(delta, error.dtype))
        far = _function("Sub", error, near)
        squared = _function("Mul", constant(0.5, error.dtype), _function("Mul", near, near))
        losses = _function("AddV2", squared, _function("Mul", constant(delta, error.dtype), far))
        return compute_weighted_loss(losses, weights, scope, loss_collection, reduction)


def log_loss(
    labels: Any,
    predictions: Any,
    weights: Any = 1.0,
    epsilon: float = 1e-7,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
) -> Tensor:
    """Compute the cross entropy of probabilities, weighted and reduced."""
    with name_scope(scope, "log_loss") as scope:
        y, p = _pair(labels, predictions)
        losses = -_function("Mul", y, _function("Log", p + epsilon)) - _function(
            "Mul", 1 - y, _function("Log", 1 - p + epsilon)
        )
        return compute_weighted_loss(losses, weights, scope, loss_collection, reduction)


def hinge_loss(
    labels: Any,
    logits: Any,
    weights: Any = 1.0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
) -> Tensor:
    """Compute max(0, 1 - y * logits), labels 0 or 1 meaning y = -1 or 1."""
    with name_scope(scope, "hinge_loss") as scope:
        y, p = _pair(labels, logits)
        one = array_ops.ones_like(y)
        signed = _function("Sub", 2 * y, one)
        losses = apply_op("Relu", features=_function("Sub", one, _function("Mul", signed, p)))
        return compute_weighted_loss(losses, weights, scope, loss_collection, reduction)


def cosine_distance(
    labels: Any,
    predictions: Any,
    axis: int | None = None,
    weights: Any = 1.0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
    dim: int | None = None,
) -> Tensor:
    """Compute 1 - the inner product along `axis` of vectors that are unit-normalized already."""
    axis = dim if axis is None else axis
    if axis is None:
        raise ValueError("You must specify argument `axis`.")
    with name_scope(scope, "cosine_distance_loss") as scope:
        y, p = _pair(labels, predictions)
        inner = apply_op("Sum", input=_function("Mul", p, y), reduction_indices=[axis], keep_dims=True)
        losses = 1 - inner
        return compute_weighted_loss(losses, weights, scope, loss_collection, reduction)


def sigmoid_cross_entropy(
    multi_class_labels: Any,
    logits: Any,
    weights: Any = 1.0,
    label_smoothing: float = 0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
) -> Tensor:
    """Compute independent cross entropies; labels are pulled towards 1/2 by `label_smoothing`."""
    with name_scope(scope, "sigmoid_cross_entropy_loss") as scope:
        y, x = _pair(multi_class_labels, logits)
        if label_smoothing > 0:
            y = _function("Mul", y, constant(1 - label_smoothing, x.dtype))
            y = _function("AddV2", y, constant(0.5 * label_smoothing, x.dtype))
        losses = nn_ops.sigmoid_cross_entropy_with_logits(labels=y, logits=x, name="xentropy")
        return compute_weighted_loss(losses, weights, scope, loss_collection, reduction)


def softmax_cross_entropy(
    onehot_labels: Any,
    logits: Any,
    weights: Any = 1.0,
    label_smoothing: float = 0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
) -> Tensor:
    """Compute cross entropy of [batch, classes] logits; labels are pulled towards uniform by `label_smoothing`."""
    with name_scope(scope, "softmax_cross_entropy_loss") as scope:
        y, x = _pair(onehot_labels, logits)
        if label_smoothing > 0:
            share = label_smoothing / math_ops.cast(array_ops.shape(y)[1], x.dtype)
            y = y * (1.0 - label_smoothing) + share
        y = apply_op("StopGradient", input=y, name="labels_stop_gradient")
        losses, _ = apply_op_outputs("SoftmaxCrossEntropyWithLogits", features=x, labels=y, name="xentropy")
        return compute_weighted_loss(losses, weights, scope, loss_collection, reduction)


def sparse_softmax_cross_entropy(
    labels: Any,
    logits: Any,
    weights: Any = 1.0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
) -> Tensor:
    """Compute cross entropy of [batch, classes] logits with class numbers [batch] or [batch, 1]."""
    with name_scope(scope, "sparse_softmax_cross_entropy_loss") as scope:
        y, x = convert_to_tensor(labels), convert_to_tensor(logits)
        if y.shape.rank is not None and y.shape.rank == x.shape.rank:
            y = apply_op("Squeeze", input=y, squeeze_dims=[-1])
        losses = nn_ops.sparse_softmax_cross_entropy_with_logits(labels=y, logits=x, name="xentropy")
        return compute_weighted_loss(losses, weights, scope, loss_collection, reduction)


def add_loss(loss: Tensor, loss_collection: str | None = GraphKeys.LOSSES) -> None:
    """Add a loss to a collection."""
    if loss_collection:
        context.get_default_graph().add_to_collection(loss_collection, loss)


def get_losses(scope: str | None = None, loss_collection: str = GraphKeys.LOSSES) -> list[Tensor]:
    """Get the losses in a collection."""
    return context.get_default_graph().get_collection(loss_collection, scope)


def get_regularization_losses(scope: str | None = None) -> list[Tensor]:
    """Get the losses that regularizers added."""
    return context.get_default_graph().get_collection(GraphKeys.REGULARIZATION_LOSSES, scope)


def get_regularization_loss(scope: str | None = None, name: str = "total_regularization_loss") -> Tensor:
    """Add up the losses that regularizers added; 0 where there are none."""
    found = get_regularization_losses(scope)
    return apply_op("AddN", inputs=found, name=name) if found else constant(0.0)


def get_total_loss(
    add_regularization_losses: bool = True, name: str = "total_loss", scope: str | None = None
) -> Tensor:
    """Add up all losses collected.

    Raises:
        ValueError: there are none.
    """
    found = get_losses(scope)
    if add_regularization_losses:
        found = found + get_regularization_losses(scope)
    if not found:
        raise ValueError("There are no losses to add up")
    return apply_op("AddN", inputs=found, name=name)
