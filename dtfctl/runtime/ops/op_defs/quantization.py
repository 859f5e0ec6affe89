"""Entries of the array family: quantized numbers, and floats rounded as if they were."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework.op_builder import apply_op, apply_op_outputs
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.ops.gradients.common import attrs_of
from dtfctl.runtime.ops.op_defs.entry import OpFamily
from dtfctl.runtime.ops.op_defs.types import FLOATS, QUANTIZED

define = OpFamily("array")

define.op(
    f"Dequantize(input: T, min_range: float, max_range: float) -> (output: dtype); T: {QUANTIZED}; "
    'mode: string in {"MIN_COMBINED", "MIN_FIRST", "SCALED"} = "MIN_COMBINED"; narrow_range: bool = false; '
    "axis: int = -1; dtype: type in {bfloat16, float} = float",
    shape="unchanged",
)


@define.op(
    "FakeQuantWithMinMaxArgs(inputs: float) -> (outputs: float); min: float = -6.0; max: float = 6.0; "
    "num_bits: int = 8; narrow_range: bool = false",
    shape="unchanged",
    gradient=lambda op, grad: apply_op(
        "FakeQuantWithMinMaxArgsGradient",
        gradients=grad,
        inputs=op.inputs[0],
        **attrs_of(op, "min", "max", "num_bits", "narrow_range"),
    ),
    exports=("fake_quant_with_min_max_args", "quantization.fake_quant_with_min_max_args"),
)
def fake_quant_with_min_max_args(
    inputs: Any, min: float = -6, max: float = 6, num_bits: int = 8, narrow_range: bool = False, name: str | None = None
) -> Tensor:
    """Round values to what `num_bits` can represent in a fixed range."""


@define.op(
    "FakeQuantWithMinMaxArgsGradient(gradients: float, inputs: float) -> (backprops: float); "
    "min: float = -6.0; max: float = 6.0; num_bits: int = 8; narrow_range: bool = false",
    shape="unchanged",
    exports=("fake_quant_with_min_max_args_gradient", "quantization.fake_quant_with_min_max_args_gradient"),
)
def fake_quant_with_min_max_args_gradient(
    gradients: Any,
    inputs: Any,
    min: float = -6.0,
    max: float = 6.0,
    num_bits: int = 8,
    narrow_range: bool = False,
    name: str | None = None,
) -> Any:
    """Compute the gradient of fake_quant_with_min_max_args."""


@define.op(
    "FakeQuantWithMinMaxVars(inputs: float, min: float, max: float) -> (outputs: float); num_bits: int = 8; "
    "narrow_range: bool = false",
    shape="unchanged",
    gradient=lambda op, grad: apply_op_outputs(
        "FakeQuantWithMinMaxVarsGradient",
        gradients=grad,
        inputs=op.inputs[0],
        min=op.inputs[1],
        max=op.inputs[2],
        **attrs_of(op, "num_bits", "narrow_range"),
    ),
    exports=("fake_quant_with_min_max_vars", "quantization.fake_quant_with_min_max_vars"),
)
def fake_quant_with_min_max_vars(
    inputs: Any, min: Any, max: Any, num_bits: int = 8, narrow_range: bool = False, name: str | None = None
) -> Tensor:
    """Round values to what `num_bits` can represent in a range given by tensors."""


@define.op(
    "FakeQuantWithMinMaxVarsGradient(gradients: float, inputs: float, min: float, "
    "max: float) -> (backprops_wrt_input: float, backprop_wrt_min: float, backprop_wrt_max: float); "
    "num_bits: int = 8; narrow_range: bool = false",
    shape=lambda op: [op.inputs[1].shape, op.inputs[2].shape, op.inputs[3].shape],
    exports=("fake_quant_with_min_max_vars_gradient", "quantization.fake_quant_with_min_max_vars_gradient"),
)
def fake_quant_with_min_max_vars_gradient(
    gradients: Any,
    inputs: Any,
    min: Any,
    max: Any,
    num_bits: int = 8,
    narrow_range: bool = False,
    name: str | None = None,
) -> Any:
    """Compute the gradients of fake_quant_with_min_max_vars by its input and both ends of the range."""


@define.op(
    "FakeQuantWithMinMaxVarsPerChannel(inputs: float, min: float, max: float) -> (outputs: float); "
    "num_bits: int = 8; narrow_range: bool = false",
    shape="unchanged",
    gradient=lambda op, grad: apply_op_outputs(
        "FakeQuantWithMinMaxVarsPerChannelGradient",
        gradients=grad,
        inputs=op.inputs[0],
        min=op.inputs[1],
        max=op.inputs[2],
        **attrs_of(op, "num_bits", "narrow_range"),
    ),
    exports=("fake_quant_with_min_max_vars_per_channel", "quantization.fake_quant_with_min_max_vars_per_channel"),
)
def fake_quant_with_min_max_vars_per_channel(
    inputs: Any, min: Any, max: Any, num_bits: int = 8, narrow_range: bool = False, name: str | None = None
) -> Tensor:
    """Round values to `num_bits`, with a range for each index of the last axis."""


@define.op(
    "FakeQuantWithMinMaxVarsPerChannelGradient(gradients: float, inputs: float, min: float, "
    "max: float) -> (backprops_wrt_input: float, backprop_wrt_min: float, backprop_wrt_max: float); "
    "num_bits: int = 8; narrow_range: bool = false",
    shape=lambda op: [op.inputs[1].shape, op.inputs[2].shape, op.inputs[3].shape],
    exports=(
        "fake_quant_with_min_max_vars_per_channel_gradient",
        "quantization.fake_quant_with_min_max_vars_per_channel_gradient",
    ),
)
def fake_quant_with_min_max_vars_per_channel_gradient(
    gradients: Any,
    inputs: Any,
    min: Any,
    max: Any,
    num_bits: int = 8,
    narrow_range: bool = False,
    name: str | None = None,
) -> Any:
    """Compute the gradients of fake_quant_with_min_max_vars_per_channel by its input and both ends of the range."""


define.op(
    "QuantizeAndDequantize(input: T) -> (output: T); signed_input: bool = true; num_bits: int = 8; "
    f"range_given: bool = false; input_min: float = 0.0; input_max: float = 0.0; T: {FLOATS}",
    shape="unchanged",
    gradient=lambda op, grad: [grad] + [None] * (len(op.inputs) - 1),
)
define.op(
    "QuantizeAndDequantizeV2(input: T, input_min: T, input_max: T) -> (output: T); signed_input: bool = true; "
    f'num_bits: int = 8; range_given: bool = false; T: {FLOATS}; round_mode: string in {{"HALF_TO_EVEN", '
    '"HALF_UP"} = "HALF_TO_EVEN"; narrow_range: bool = false; axis: int = -1',
    shape="unchanged",
    gradient=lambda op, grad: [grad] + [None] * (len(op.inputs) - 1),
)
define.op(
    "QuantizeAndDequantizeV3(input: T, input_min: T, input_max: T, num_bits: int32) -> (output: T); "
    f"signed_input: bool = true; range_given: bool = true; T: {FLOATS}; narrow_range: bool = false; "
    "axis: int = -1",
    shape="unchanged",
    gradient=lambda op, grad: [grad] + [None] * (len(op.inputs) - 1),
)
define.op(
    "QuantizeAndDequantizeV4(input: T, input_min: T, input_max: T) -> (output: T); signed_input: bool = true; "
    f'num_bits: int = 8; range_given: bool = false; T: {FLOATS}; round_mode: string in {{"HALF_TO_EVEN", '
    '"HALF_UP"} = "HALF_TO_EVEN"; narrow_range: bool = false; axis: int = -1',
    shape="unchanged",
    gradient=lambda op, grad: apply_op_outputs(
        "QuantizeAndDequantizeV4Grad",
        gradients=grad,
        input=op.inputs[0],
        input_min=op.inputs[1],
        input_max=op.inputs[2],
        axis=op.attr("axis"),
    ),
)
define.op(
    "QuantizeAndDequantizeV4Grad(gradients: T, input: T, input_min: T, input_max: T) -> (input_backprop: T, "
    f"input_min_backprop: T, input_max_backprop: T); T: {FLOATS}; axis: int = -1",
    shape=lambda op: [op.inputs[1].shape, op.inputs[2].shape, op.inputs[3].shape],
)
define.op(
    "QuantizeV2(input: float, min_range: float, max_range: float) -> (output: T, output_min: float, "
    f'output_max: float); T: {QUANTIZED}; mode: string in {{"MIN_COMBINED", "MIN_FIRST", '
    '"SCALED"} = "MIN_COMBINED"; round_mode: string in {"HALF_AWAY_FROM_ZERO", '
    '"HALF_TO_EVEN"} = "HALF_AWAY_FROM_ZERO"; narrow_range: bool = false; axis: int = -1; '
    "ensure_minimum_range: float = 0.009999999776482582",
    shape=lambda op: [op.inputs[0].shape, op.inputs[1].shape, op.inputs[2].shape],
    gradient="none",
)
