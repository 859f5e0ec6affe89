"""Gradients of floats rounded as if they were quantized."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework.op_builder import apply_op, apply_op_outputs
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.framework.registries import register_gradient


@register_gradient("QuantizeAndDequantizeV4")
def _quantize_and_dequantize_v4(op: Operation, grad: Tensor) -> Any:
    x, low, high = op.inputs
    return apply_op_outputs(
        "QuantizeAndDequantizeV4Grad", gradients=grad, input=x, input_min=low, input_max=high, axis=op.attr("axis")
    )


@register_gradient("FakeQuantWithMinMaxArgs")
def _fake_quant_args(op: Operation, grad: Tensor) -> Any:
    return apply_op(
        "FakeQuantWithMinMaxArgsGradient",
        gradients=grad,
        inputs=op.inputs[0],
        **{a: op.attr(a) for a in ("min", "max", "num_bits", "narrow_range")},
    )


@register_gradient("FakeQuantWithMinMaxVars", "FakeQuantWithMinMaxVarsPerChannel")
def _fake_quant_vars(op: Operation, grad: Tensor) -> Any:
    x, low, high = op.inputs
    return apply_op_outputs(
        f"{op.type}Gradient",
        gradients=grad,
        inputs=x,
        min=low,
        max=high,
        num_bits=op.attr("num_bits"),
        narrow_range=op.attr("narrow_range"),
    )
