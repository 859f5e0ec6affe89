"""Gradients of random ops: none, but for samples that move smoothly with their parameters."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework.op_builder import apply_op, apply_op_outputs
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.framework.registries import register_gradient


def _gamma(op: Operation, grad: Tensor, alpha: Tensor) -> Tensor:
    sample = op.outputs[0]
    partial = apply_op("RandomGammaGrad", alpha=alpha, sample=sample)
    weighted = apply_op("Mul", x=grad, y=partial)
    axes, _ = apply_op_outputs(
        "BroadcastGradientArgs", s0=apply_op("Shape", input=alpha), s1=apply_op("Shape", input=sample)
    )
    total = apply_op("Sum", input=weighted, reduction_indices=axes)
    return apply_op("Reshape", tensor=total, shape=apply_op("Shape", input=alpha))


@register_gradient("RandomGamma")
def _random_gamma(op: Operation, grad: Tensor) -> Any:
    return None, _gamma(op, grad, op.inputs[1])


@register_gradient("StatelessRandomGammaV2")
def _stateless_gamma_v2(op: Operation, grad: Tensor) -> Any:
    return None, None, _gamma(op, grad, op.inputs[2])


@register_gradient("StatelessRandomGammaV3")
def _stateless_gamma_v3(op: Operation, grad: Tensor) -> Any:
    return None, None, None, None, _gamma(op, grad, op.inputs[4])
