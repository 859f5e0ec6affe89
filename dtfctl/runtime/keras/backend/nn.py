"""Activations and cross-entropies."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.convert import convert_to_tensor
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.keras import activations
from dtfctl.runtime.keras.backend.settings import epsilon, image_data_format
from dtfctl.runtime.ops import array_ops, clip_ops, math_ops, nn_ops


def relu(x: Any, alpha: float = 0.0, max_value: Any = None, threshold: float = 0) -> Tensor:
    """Compute max(x, 0), with a slope below the threshold and a ceiling if they are given."""
    return activations.relu(x, alpha, max_value, threshold)


def elu(x: Any, alpha: float = 1.0) -> Tensor:
    """Compute x where it is positive, alpha * (exp(x) - 1) elsewhere."""
    return activations.elu(x, alpha)


def softmax(x: Any, axis: int = -1) -> Tensor:
    """Compute exp(x) / sum(exp(x)) along an axis."""
    return nn_ops.softmax(x, axis=axis)


def hard_sigmoid(x: Any) -> Tensor:
    """Compute 0.2 * x + 0.5, cut to [0, 1]."""
    return activations.hard_sigmoid(x)


def l2_normalize(x: Any, axis: Any = None) -> Tensor:
    """Divide by the norm along an axis."""
    return nn_ops.l2_normalize(x, axis=axis)


def bias_add(x: Any, bias: Any, data_format: str | None = None) -> Tensor:
    """Add a bias to the channels."""
    first = (data_format or image_data_format()) == "channels_first"
    return nn_ops.bias_add(x, bias, data_format="NCHW" if first else "NHWC")


def _logits(output: Any, from_logits: bool, op_type: str) -> tuple[Any, bool]:
    """Find what an activation was computed of, so that the loss is exact."""
    known = getattr(output, "_keras_logits", None)
    if known is not None:
        return known, True
    if not from_logits and isinstance(output, Tensor) and output.op.type == op_type:
        return output.op.inputs[0], True
    return output, from_logits


def categorical_crossentropy(target: Any, output: Any, from_logits: bool = False, axis: int = -1) -> Tensor:
    """Compute the cross-entropy of one-hot labels: [..., classes] -> [...]."""
    target, output = convert_to_tensor(target), convert_to_tensor(output)
    output, from_logits = _logits(output, from_logits, "Softmax")
    if from_logits:
        return nn_ops.softmax_cross_entropy_with_logits_v2(labels=target, logits=output, axis=axis)
    output = output / math_ops.reduce_sum(output, axis, keepdims=True)
    output = clip_ops.clip_by_value(output, epsilon(), 1.0 - epsilon())
    return -math_ops.reduce_sum(target * math_ops.log(output), axis)


def sparse_categorical_crossentropy(
    target: Any, output: Any, from_logits: bool = False, axis: int = -1, ignore_class: int | None = None
) -> Tensor:
    """Compute the cross-entropy of labels that are numbers of classes: [...] and [..., classes] -> [...].

    Args:
        ignore_class: a label whose places have no loss: 0, and a mask says which places count.
    """
    target, output = convert_to_tensor(target), convert_to_tensor(output)
    output, from_logits = _logits(output, from_logits, "Softmax")
    if not from_logits:
        output = math_ops.log(clip_ops.clip_by_value(output, epsilon(), 1 - epsilon()))
    rank = output.shape.rank
    if rank is not None and axis % rank != rank - 1:
        order = [i for i in range(rank) if i != axis % rank] + [axis % rank]
        output = array_ops.transpose(output, order)
    target = array_ops.reshape(math_ops.cast(target, dtypes.int64), [-1])
    shape = array_ops.shape(output)
    flat = array_ops.reshape(output, [-1, shape[-1]])
    if ignore_class is None:
        losses = nn_ops.sparse_softmax_cross_entropy_with_logits(labels=target, logits=flat)
        return array_ops.reshape(losses, shape[:-1]) if rank is None or rank >= 3 else losses
    counts = math_ops.not_equal(target, math_ops.cast(ignore_class, dtypes.int64))
    kept = nn_ops.sparse_softmax_cross_entropy_with_logits(
        labels=array_ops.boolean_mask(target, counts), logits=array_ops.boolean_mask(flat, counts)
    )
    counts = array_ops.reshape(counts, shape[:-1])
    losses = array_ops.scatter_nd(array_ops.where(counts), kept, math_ops.cast(shape[:-1], dtypes.int64))
    losses.set_shape(output.shape[:-1])
    losses._keras_mask = counts  # type: ignore[attr-defined]
    return losses


def binary_crossentropy(target: Any, output: Any, from_logits: bool = False) -> Tensor:
    """Compute the cross-entropy of labels that are 0 or 1, element by element."""
    target, output = convert_to_tensor(target), convert_to_tensor(output)
    output, from_logits = _logits(output, from_logits, "Sigmoid")
    if from_logits:
        return nn_ops.sigmoid_cross_entropy_with_logits(labels=target, logits=output)
    output = clip_ops.clip_by_value(output, epsilon(), 1.0 - epsilon())
    ours = target * math_ops.log(output + epsilon())
    losses: Tensor = -(ours + (1 - target) * math_ops.log(1 - output + epsilon()))
    return losses


def binary_focal_crossentropy(
    target: Any,
    output: Any,
    apply_class_balancing: bool = False,
    alpha: float = 0.25,
    gamma: float = 2.0,
    from_logits: bool = False,
) -> Tensor:
    """Compute the cross-entropy of labels that are 0 or 1, where what is known well counts less (Lin et al., 2017).

    Args:
        apply_class_balancing: weigh ones by `alpha`, zeros by the rest.
        gamma: how much less what is known well counts.
    """
    target, output = convert_to_tensor(target), convert_to_tensor(output)
    likely = math_ops.sigmoid(output) if from_logits else output
    right = target * likely + (1 - target) * (1 - likely)
    losses: Tensor = math_ops.pow(1.0 - right, gamma) * binary_crossentropy(target, output, from_logits)
    return losses * (target * alpha + (1 - target) * (1 - alpha)) if apply_class_balancing else losses


def categorical_focal_crossentropy(
    target: Any, output: Any, alpha: Any = 0.25, gamma: float = 2.0, from_logits: bool = False, axis: int = -1
) -> Tensor:
    """Compute the cross-entropy of one-hot labels, where what is known well counts less: [..., classes] -> [...].

    Args:
        alpha: the weight of all classes, or of each.
        gamma: how much less what is known well counts.
    """
    target, output = convert_to_tensor(target), convert_to_tensor(output)
    output, from_logits = _logits(output, from_logits, "Softmax")
    output = nn_ops.softmax(output, axis=axis) if from_logits else output
    output = output / math_ops.reduce_sum(output, axis, keepdims=True)
    output = clip_ops.clip_by_value(output, epsilon(), 1.0 - epsilon())
    weighed = math_ops.pow(1.0 - output, gamma) * alpha
    return math_ops.reduce_sum(weighed * (-target * math_ops.log(output)), axis)


def in_top_k(predictions: Any, targets: Any, k: int) -> Tensor:
    """Tell of each row whether its class is among the k that are predicted most."""
    return nn_ops.in_top_k(predictions, targets, k)
