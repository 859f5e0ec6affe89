"""Losses of logits: cross entropies and log likelihoods."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.convert import constant, convert_to_tensor
from dtfctl.runtime.framework.graph_keys import name_scope
from dtfctl.runtime.framework.op_builder import apply_op, apply_op_outputs
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.ops.array_ops.creation import zeros_like
from dtfctl.runtime.ops.nn_ops.common import shape_of
from dtfctl.runtime.ops.op_defs.array import reshape_to
from dtfctl.runtime.ops.op_defs.nn import relu
from dtfctl.runtime.ops.operands import apply_mixed, cast_to


def softmax_cross_entropy_with_logits_v2(
    labels: Any = None, logits: Any = None, axis: int | None = None, name: str | None = None, dim: int | None = None
) -> Tensor:
    """Compute the cross entropy of each distribution along `axis`; gradients go to logits and labels."""
    axis = -1 if axis is None and dim is None else axis if axis is not None else dim
    if labels is None or logits is None:
        raise ValueError("Both `labels` and `logits` must be provided.")
    with name_scope(name, "softmax_cross_entropy_with_logits") as scope:
        logits = convert_to_tensor(logits, name="logits")
        labels = convert_to_tensor(labels, name="labels")
        dtype = logits.dtype.base_dtype
        precise = logits
        if dtype in (dtypes.float16, dtypes.bfloat16):
            precise = apply_op("Cast", x=logits, DstT=dtypes.float32)
        labels = cast_to(labels, precise.dtype.base_dtype)
        rank = logits.shape.rank
        if rank == 2 and (axis == -1 or (axis == 1 and labels.shape.rank in (None, 2))):
            if labels.shape.rank != 2:
                labels = _as_rows(labels)
            cost = apply_op_outputs("SoftmaxCrossEntropyWithLogits", features=precise, labels=labels, name=scope)[0]
        else:
            cost = _xent_of_any_rank(precise, labels, axis, scope)
        return cast_to(cost, dtype)


def _xent_of_any_rank(logits: Tensor, labels: Tensor, axis: Any, scope: str) -> Tensor:
    rank = logits.shape.rank
    if axis != -1:
        order = _last(axis, logits)
        if rank is not None and labels.shape.rank not in (None, rank):
            raise ValueError(f"Dimension must be {labels.shape.rank} but is {rank}: labels and logits differ in rank")
        if rank is None or axis % rank != rank - 1:
            logits = apply_op("Transpose", x=logits, perm=order)
            labels = apply_op("Transpose", x=labels, perm=order)
    lead = apply_op("StridedSlice", input=shape_of(logits), begin=[0], end=[-1], strides=[1], begin_mask=1)
    static_lead = None if rank is None else logits.shape[:-1]

    cost = apply_op_outputs(
        "SoftmaxCrossEntropyWithLogits", features=_as_rows(logits), labels=_as_rows(labels), name=scope
    )[0]
    out = reshape_to(cost, lead)
    if static_lead is not None:
        out.set_shape(static_lead)
    return out


def _last(axis: int, x: Tensor) -> Any:
    """Find the order of dimensions in which the axis is the last."""
    rank = x.shape.rank
    if rank is None:
        whole = apply_op("Rank", input=x)
        before = apply_op("Range", start=0, limit=axis if axis >= 0 else whole + axis, delta=1)
        after = apply_op("Range", start=axis + 1 if axis >= 0 else whole + (axis + 1), limit=whole, delta=1)
        at = constant([axis]) if axis >= 0 else reshape_to(whole + axis, constant([1]))
        return apply_op("ConcatV2", values=[before, after, at], axis=0)
    if not -rank <= axis < rank:
        raise ValueError(f"Argument `axis` = {axis} not in range [{-rank}, {rank})")
    return [i for i in range(rank) if i != axis % rank] + [axis % rank]


def _as_rows(x: Tensor) -> Tensor:
    """Put all but the last dimension into one.

    Raises:
        IndexError: it is a scalar, which TensorFlow says so.
    """
    if x.shape.rank == 0:
        raise IndexError(f"{x.name} is a scalar: labels and logits need a dimension of classes")
    last = apply_op("StridedSlice", input=shape_of(x), begin=[-1], end=[0], strides=[1], end_mask=1)
    return reshape_to(x, apply_op("ConcatV2", values=[constant([-1]), last], axis=0))


def softmax_cross_entropy_with_logits(
    labels: Any = None,
    logits: Any = None,
    dim: int = -1,
    name: str | None = None,
    axis: int | None = None,
) -> Tensor:
    """Compute cross entropy like the second version, but let no gradient go to the labels."""
    _both(labels, logits)
    with name_scope(name, "softmax_cross_entropy_with_logits_sg") as scope:
        labels = apply_op("StopGradient", input=convert_to_tensor(labels), name="labels_stop_gradient")
        return softmax_cross_entropy_with_logits_v2(labels, logits, axis if axis is not None else dim, scope)


def _both(labels: Any, logits: Any) -> None:
    if labels is None or logits is None:
        raise ValueError("Both `labels` and `logits` must be provided.")


def sparse_softmax_cross_entropy_with_logits(labels: Any = None, logits: Any = None, name: str | None = None) -> Tensor:
    """Compute cross entropy with one class number for each distribution.

    Raises:
        ValueError: the static shapes do not fit.
    """
    _both(labels, logits)
    with name_scope(name, "SparseSoftmaxCrossEntropyWithLogits"):
        labels = convert_to_tensor(labels)
        logits = convert_to_tensor(logits)
        dtype = logits.dtype.base_dtype
        precise = apply_op("Cast", x=logits, DstT=dtypes.float32) if dtype is dtypes.float16 else logits
        rank = logits.shape.rank
        if rank == 0:
            raise ValueError("`logits` cannot be a scalar. Received logits.shape=()")
        if rank is not None and labels.shape.rank is not None and labels.shape.rank != rank - 1:
            raise ValueError(
                "`labels.shape.rank` must equal `logits.shape.rank - 1`. Received: labels.shape="
                f"{labels.shape} of rank {labels.shape.rank} and logits.shape={logits.shape} of rank {rank}"
            )
        known = rank is not None and labels.shape.is_fully_defined() and logits.shape[:-1].is_fully_defined()
        if known and labels.shape.as_list() != logits.shape[:-1].as_list():
            raise ValueError(
                "`labels.shape` must equal `logits.shape` except for the last dimension. Received: labels.shape="
                f"{labels.shape} and logits.shape={logits.shape}"
            )
        if rank == 2:
            cost = apply_op_outputs("SparseSoftmaxCrossEntropyWithLogits", name=name, features=precise, labels=labels)[
                0
            ]
            return cast_to(cost, dtype)
        classes = apply_op(
            "StridedSlice", input=shape_of(precise), begin=[-1], end=[0], strides=[1], shrink_axis_mask=1, end_mask=1
        )
        flat = reshape_to(precise, apply_op("Pack", values=[constant(-1), classes]))
        cost = apply_op_outputs(
            "SparseSoftmaxCrossEntropyWithLogits", features=flat, labels=reshape_to(labels, constant([-1]))
        )[0]
        out = reshape_to(cost, shape_of(labels))
        out.set_shape(labels.shape)
        return cast_to(out, dtype)


def sigmoid_cross_entropy_with_logits(labels: Any = None, logits: Any = None, name: str | None = None) -> Tensor:
    """Compute max(x, 0) - x z + log(1 + exp(-|x|)): independent classes."""
    _both(labels, logits)
    with name_scope(name, "logistic_loss") as scope:
        logits = convert_to_tensor(logits, name="logits")
        labels = convert_to_tensor(labels, logits.dtype.base_dtype, name="labels")
        labels.shape.assert_is_compatible_with(logits.shape)
        zeros = zeros_like(logits, dtype=logits.dtype.base_dtype)
        positive = apply_mixed("GreaterEqual", logits, zeros)
        clipped = apply_op("Select", condition=positive, t=logits, e=zeros)
        negative_abs = apply_op("Select", condition=positive, t=apply_mixed("Neg", logits), e=logits)
        linear = apply_mixed("Sub", clipped, apply_mixed("Mul", logits, labels))
        return apply_mixed("AddV2", linear, apply_mixed("Log1p", apply_mixed("Exp", negative_abs)), name=scope)


def weighted_cross_entropy_with_logits(
    labels: Any = None, logits: Any = None, pos_weight: Any = None, name: str | None = None, targets: Any = None
) -> Tensor:
    """Compute sigmoid cross entropy whose positive examples count `pos_weight` times."""
    labels = labels if labels is not None else targets
    with name_scope(name, "logistic_loss") as scope:
        logits = convert_to_tensor(logits, name="logits")
        labels = convert_to_tensor(labels, logits.dtype.base_dtype, name="targets")
        weight = convert_to_tensor(pos_weight, logits.dtype.base_dtype)
        log_weight = apply_mixed("AddV2", 1.0, apply_mixed("Mul", apply_mixed("Sub", weight, 1.0), labels))
        soft = apply_mixed(
            "AddV2",
            apply_mixed("Log1p", apply_mixed("Exp", apply_mixed("Neg", apply_mixed("Abs", logits)))),
            relu(apply_mixed("Neg", logits)),
        )
        linear = apply_mixed("Mul", apply_mixed("Sub", 1.0, labels), logits)
        return apply_mixed("AddV2", linear, apply_mixed("Mul", log_weight, soft), name=scope)


def log_poisson_loss(targets: Any, log_input: Any, compute_full_loss: bool = False, name: str | None = None) -> Tensor:
    """Compute exp(log_input) - log_input * targets, with Stirling's terms when asked."""
    with name_scope(name, "log_poisson_loss"):
        log_input = convert_to_tensor(log_input, name="log_input")
        targets = convert_to_tensor(targets, log_input.dtype.base_dtype, name="targets")
        result = apply_mixed("Sub", apply_mixed("Exp", log_input), apply_mixed("Mul", log_input, targets))
        if not compute_full_loss:
            return result
        stirling = apply_mixed("Sub", apply_mixed("Mul", targets, apply_mixed("Log", targets)), targets)
        stirling = apply_mixed(
            "AddV2",
            stirling,
            apply_mixed("Mul", apply_mixed("Log", apply_mixed("Mul", targets, 2.0 * float(np.pi))), 0.5),
        )
        zeros, ones = apply_op("ZerosLike", x=targets), apply_op("OnesLike", x=targets)
        inside = apply_op(
            "LogicalAnd", x=apply_mixed("GreaterEqual", targets, zeros), y=apply_mixed("LessEqual", targets, ones)
        )
        return apply_mixed("AddV2", result, apply_op("Select", condition=inside, t=zeros, e=stirling))
