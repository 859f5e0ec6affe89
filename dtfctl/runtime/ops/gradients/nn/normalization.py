"""Gradients of batch and local response normalization."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.convert import constant
from dtfctl.runtime.framework.op_builder import apply_op, apply_op_outputs
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.framework.registries import register_gradient
from dtfctl.runtime.ops.gradients.common import add, attrs_of, mul, sub, sum_over


@register_gradient("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")
def _fused_batch_norm(op: Operation, grad: Tensor, *others: Any) -> Any:
    training = op.attr("is_training")
    suffix = op.type[len("FusedBatchNorm") :]
    reserved = (op.outputs[3], op.outputs[4]) if training else (op.inputs[3], op.inputs[4])
    third: dict[str, Any] = {"reserve_space_3": op.outputs[5]} if suffix == "V3" else {}
    dx, d_scale, d_offset, *_ = apply_op_outputs(
        f"FusedBatchNormGrad{suffix}",
        y_backprop=grad,
        x=op.inputs[0],
        scale=op.inputs[1],
        reserve_space_1=reserved[0],
        reserve_space_2=reserved[1],
        **third,
        **attrs_of(op, "epsilon", "data_format", "is_training"),
    )
    return dx, d_scale, d_offset, None, None


@register_gradient("FusedBatchNormGrad", "FusedBatchNormGradV2", "FusedBatchNormGradV3")
def _fused_batch_norm_grad(op: Operation, *grads: Any) -> Any:
    """Differentiate the same gradient written out in elementary ops."""
    from dtfctl.runtime.framework.gradients import gradients

    dy, x, scale, mean, variance = op.inputs[:5]
    written_out = _batch_norm_backward(op, dy, x, scale, mean, variance)
    second = gradients(written_out, [dy, x, scale], list(grads[:3]))
    rest = [None] * (len(op.inputs) - 3)
    return [*second, *rest]


def _batch_norm_backward(
    op: Operation, dy: Tensor, x: Tensor, scale: Tensor, mean: Tensor, variance: Tensor
) -> list[Tensor]:
    rank = x.shape.rank
    if rank is None:
        raise ValueError(f"The gradient of {op.type} needs an input of known rank")
    first = op.text_attr("data_format") in ("NCHW", "NCDHW")
    axes = [0, *range(2, rank)] if first else list(range(rank - 1))
    broadcast = constant([1, -1] + [1] * (rank - 2) if first else [1] * (rank - 1) + [-1], dtypes.int32)

    def widen(vector: Tensor) -> Tensor:
        return apply_op("Reshape", tensor=vector, shape=broadcast)

    dtype = x.dtype.base_dtype
    wide = dtypes.float32
    dy32, x32 = (apply_op("Cast", x=t, DstT=wide) if dtype is not wide else t for t in (dy, x))
    epsilon = constant(op.attr("epsilon"), wide)
    training = op.attr("is_training")
    if training:
        average = apply_op("Mean", input=x32, reduction_indices=constant(axes, dtypes.int32))
        centered = sub(x32, widen(average))
        spread = apply_op("Mean", input=mul(centered, centered), reduction_indices=constant(axes, dtypes.int32))
    else:
        centered, spread = sub(x32, widen(mean)), variance
    inverse = apply_op("Rsqrt", x=add(spread, epsilon))
    d_offset = sum_over(dy32, axes)
    along = sum_over(mul(dy32, centered), axes)
    d_scale = mul(along, inverse)
    factor = widen(mul(scale, inverse))
    if training:
        count = apply_op(
            "RealDiv",
            x=apply_op("Cast", x=apply_op("Size", input=x), DstT=wide),
            y=apply_op("Cast", x=apply_op("Size", input=scale), DstT=wide),
        )
        mean_dy = widen(apply_op("RealDiv", x=d_offset, y=count))
        mean_along = widen(apply_op("RealDiv", x=mul(along, mul(inverse, inverse)), y=count))
        dx = mul(factor, sub(sub(dy32, mean_dy), mul(centered, mean_along)))
    else:
        dx = mul(factor, dy32)
    if dtype is not wide:
        dx = apply_op("Cast", x=dx, DstT=dtype)
    return [dx, d_scale, d_offset]


@register_gradient("BatchNormWithGlobalNormalization")
def _batch_norm_global(op: Operation, grad: Tensor) -> Any:
    t, m, v, _, gamma = op.inputs
    dx, dm, dv, db, dg = apply_op_outputs(
        "BatchNormWithGlobalNormalizationGrad",
        t=t,
        m=m,
        v=v,
        gamma=gamma,
        backprop=grad,
        **attrs_of(op, "variance_epsilon", "scale_after_normalization"),
    )
    return dx, dm, dv, db, dg
