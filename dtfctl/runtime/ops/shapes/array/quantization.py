"""Static shapes of quantisation."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework.operation import Operation
from dtfctl.runtime.framework.registries import register_shape


@register_shape("QuantizeV2")
def _quantize(op: Operation) -> Any:
    return [op.inputs[0].shape, op.inputs[1].shape, op.inputs[2].shape]


@register_shape(
    "FakeQuantWithMinMaxVarsGradient",
    "FakeQuantWithMinMaxVarsPerChannelGradient",
    "QuantizeAndDequantizeV4Grad",
)
def _gradient(op: Operation) -> Any:
    return [op.inputs[1].shape, op.inputs[2].shape, op.inputs[3].shape]
