"""Softmax, its logarithm, and the cross-entropy ops with their gradients (softmax_op, xent_op, sparse_xent_op)."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.kernels.nn.common import low_in_float32, shape_text
from dtfctl.runtime.kernels.nn.cross_entropy import by_blocks, is_in_blocks
from dtfctl.runtime.kernels.promises import LIKE_FIRST, OF_SHAPES
from dtfctl.runtime.kernels.registry import CPU_GPU, FLOATS, INDICES, Kernel, KernelBuild, register_kernel


def check_logits(logits: Any) -> None:
    """Refuse a scalar.

    Raises:
        InvalidArgumentError: it is one.
    """
    if logits.ndim < 1:
        raise InvalidArgumentError(f"logits must have >= 1 dimension, got {shape_text(logits.shape)}")


def shape_of_both(logits: Any, labels: Any) -> tuple[int, ...]:
    """Find the shape [batch, classes] of logits and labels broadcast together.

    Raises:
        InvalidArgumentError: they do not fit each other, or have not two dimensions.
    """
    shape = logits.shape
    if labels.shape != shape:
        try:
            shape = np.broadcast_shapes(logits.shape, labels.shape)
        except ValueError:
            raise InvalidArgumentError(
                f"logits and labels must be broadcastable: logits_size={shape_text(logits.shape)} "
                f"labels_size={shape_text(labels.shape)}"
            ) from None
    if len(shape) != 2:
        raise InvalidArgumentError("logits and labels must be either 2-dimensional, or broadcasted to be 2-dimensional")
    return tuple(shape)


def check_classes(logits: Any, labels: Any) -> None:
    """Check that there is one row of logits for each label, and a class.

    Raises:
        InvalidArgumentError: shapes are others than [batch, classes] and [batch], or there are no classes.
    """
    if logits.ndim != 2:
        raise InvalidArgumentError(f"logits must be 2-D, but got shape {shape_text(logits.shape)}")
    if labels.ndim != 1:
        raise InvalidArgumentError(f"labels must be 1-D, but got shape {shape_text(labels.shape)}")
    if logits.shape[0] != labels.shape[0]:
        raise InvalidArgumentError(
            "logits and labels must have the same first dimension, got logits shape "
            f"{shape_text(logits.shape)} and labels shape {shape_text(labels.shape)}"
        )
    if logits.shape[1] == 0:
        raise InvalidArgumentError(f"Must have at least one class, but got logits shape {shape_text(logits.shape)}")


@register_kernel(("Softmax", "LogSoftmax"), devices=CPU_GPU, promises=LIKE_FIRST, T=FLOATS)
def softmax(k: KernelBuild) -> Kernel:
    xp, logarithm = k.xp, k.node.op == "LogSoftmax"

    def function(logits: Any) -> Any:
        check_logits(logits)
        if logits.size == 0:
            return logits.copy()
        shifted = logits - logits.max(axis=-1, keepdims=True)
        if logarithm:
            return shifted - xp.log(xp.exp(shifted).sum(axis=-1, keepdims=True))
        xp.exp(shifted, out=shifted)
        shifted /= shifted.sum(axis=-1, keepdims=True)
        return shifted

    return low_in_float32(k.dtype("T").np, function)


@register_kernel("SoftmaxCrossEntropyWithLogits", devices=CPU_GPU, promises=OF_SHAPES, T=FLOATS)
def softmax_xent(k: KernelBuild) -> Kernel:
    xp = k.xp

    def function(logits: Any, labels: Any) -> tuple[Any, Any]:
        shape = shape_of_both(logits, labels)
        if 0 in shape:
            return xp.zeros(shape[:1], logits.dtype), xp.zeros(shape, logits.dtype)
        if logits.shape != shape:
            logits = xp.broadcast_to(logits, shape)
        if xp is np and is_in_blocks(shape, logits.dtype):
            loss, grad = np.empty(shape[0], logits.dtype), np.empty(shape, logits.dtype)
            by_blocks(logits, np.broadcast_to(labels, shape), loss, grad)
            return loss, grad
        shifted = logits - logits.max(axis=1, keepdims=True)
        exponents = xp.exp(shifted)
        total = exponents.sum(axis=1, keepdims=True)
        loss = (labels * (xp.log(total) - shifted)).sum(axis=1)
        exponents /= total
        exponents -= labels
        return loss, exponents

    return low_in_float32(k.dtype("T").np, function)


@register_kernel("SparseSoftmaxCrossEntropyWithLogits", devices=CPU_GPU, promises=OF_SHAPES, T=FLOATS, Tlabels=INDICES)
def sparse_softmax_xent(k: KernelBuild) -> Kernel:
    xp = k.xp

    def function(logits: Any, labels: Any) -> tuple[Any, Any]:
        check_classes(logits, labels)
        batch, classes = logits.shape
        if batch == 0:
            return xp.zeros(0, logits.dtype), xp.zeros(logits.shape, logits.dtype)
        if xp is np:
            _check_labels(labels, classes)
            inside = labels
        else:
            # On a device TensorFlow answers NaN instead of looking at the labels first.
            inside = xp.clip(labels, 0, classes - 1)
        if xp is np and is_in_blocks(logits.shape, logits.dtype):
            loss, grad = np.empty(batch, logits.dtype), np.empty(logits.shape, logits.dtype)
            by_blocks(logits, labels, loss, grad)
            return loss, grad
        rows = xp.arange(batch)
        shifted = logits - logits.max(axis=1, keepdims=True)
        picked = shifted[rows, inside]
        xp.exp(shifted, out=shifted)
        total = shifted.sum(axis=1)
        loss = xp.log(total) - picked
        shifted /= total[:, None]
        shifted[rows, inside] -= 1
        if inside is not labels:
            wrong = inside != labels
            loss = xp.where(wrong, xp.nan, loss).astype(logits.dtype)
            shifted[wrong] = xp.nan
        return loss, shifted

    return low_in_float32(k.dtype("T").np, function)


def _check_labels(labels: Any, classes: int) -> None:
    if labels.min() < 0 or labels.max() >= classes:
        bad = labels[(labels < 0) | (labels >= classes)][0]
        raise InvalidArgumentError(
            f"Received a label value of {bad} which is outside the valid range of [0, {classes}).  Label values: "
            + " ".join(str(int(v)) for v in labels)
        )
