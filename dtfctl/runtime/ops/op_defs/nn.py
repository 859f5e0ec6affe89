"""Entries of the nn family."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.ops.gradients.common import attrs_of, mul, static_shape, sub, sum_over, zeros_like
from dtfctl.runtime.ops.op_defs.entry import OpFamily
from dtfctl.runtime.ops.op_defs.types import HALF_FIRST, INDEX, NUMBERS, REALS

define = OpFamily("nn")
_POOL = ("ksize", "strides", "padding", "explicit_paddings", "data_format")


def _kept(op: Operation) -> TensorShape:
    """Find the shape of the k numbers of each row; without aggregation it depends on how rows are cut up."""
    shape = op.inputs[0].shape
    if shape.rank is None or not op.attr("aggregate_to_topk"):
        return TensorShape(None)
    dims = shape.as_list()
    dims[int(op.attr("reduction_dimension"))] = int(op.attr("k"))
    return TensorShape(dims)


define.op(
    "ApproxTopK(input: T) -> (values: T, indices: int32); k: int >= 0; reduction_dimension: int = -1; "
    "recall_target: float = 0.949999988079071; is_max_k: bool = true; "
    "reduction_input_size_override: int = -1; aggregate_to_topk: bool = true; T: type in {half, bfloat16, "
    "float}",
    shape=lambda op: [_kept(op)] * 2,
)
define.op(
    "AvgPool(value: T) -> (output: T); ksize: list(int) >= 4; strides: list(int) >= 4; padding: string "
    'in {"SAME", "VALID"}; data_format: string in {"NHWC", "NCHW"} = "NHWC"; T: type in {half, bfloat16, '
    "float, double}; !precision(infer)",
    gradient=lambda op, grad: apply_op(
        "AvgPoolGrad", orig_input_shape=static_shape(op.inputs[0]), grad=grad, **attrs_of(op, *_POOL)
    ),
)
define.op(
    "AvgPool3D(input: T) -> (output: T); ksize: list(int) >= 5; strides: list(int) >= 5; padding: string "
    'in {"SAME", "VALID"}; data_format: string in {"NDHWC", "NCDHW"} = "NDHWC"; T: type in {half, '
    "bfloat16, float, double}; !precision(infer)",
    gradient=lambda op, grad: apply_op(
        "AvgPool3DGrad", orig_input_shape=static_shape(op.inputs[0]), grad=grad, **attrs_of(op, *_POOL)
    ),
)
define.op(
    "AvgPool3DGrad(orig_input_shape: int32, grad: T) -> (output: T); ksize: list(int) >= 5; strides: "
    'list(int) >= 5; padding: string in {"SAME", "VALID"}; data_format: string in {"NDHWC", "NCDHW"} = '
    '"NDHWC"; T: type in {half, bfloat16, float, double}; !precision(infer)',
    gradient=lambda op, grad: [None, apply_op("AvgPool3D", input=grad, **attrs_of(op, *_POOL))],
)
define.op(
    "AvgPoolGrad(orig_input_shape: int32, grad: T) -> (output: T); ksize: list(int) >= 4; strides: "
    'list(int) >= 4; padding: string in {"SAME", "VALID"}; data_format: string in {"NHWC", "NCHW"} = '
    '"NHWC"; T: type in {half, bfloat16, float, double}; !precision(infer)',
    gradient=lambda op, grad: [None, apply_op("AvgPool", value=grad, **attrs_of(op, *_POOL))],
)
define.op(
    f"BatchNormWithGlobalNormalization(t: T, m: T, v: T, beta: T, gamma: T) -> (result: T); T: {NUMBERS}; "
    "variance_epsilon: float; scale_after_normalization: bool",
    shape=lambda op: [op.inputs[0].shape.with_rank(4)],
)
define.op(
    f'BiasAdd(value: T, bias: T) -> (output: T); T: {NUMBERS}; data_format: string in {{"NHWC", "NCHW"}} = "NHWC"; '
    "!precision(infer)",
    gradient=lambda op, grad: (grad, apply_op("BiasAddGrad", out_backprop=grad, data_format=op.attr("data_format"))),
)
define.op(
    "CTCBeamSearchDecoder(inputs: T, sequence_length: int32) -> (decoded_indices: top_paths * int64, "
    "decoded_values: top_paths * int64, decoded_shape: top_paths * int64, log_probability: T); "
    "beam_width: int >= 1; top_paths: int >= 1; merge_repeated: bool = true; T: type in {float, "
    "double} = float",
    gradient="none",
)
define.op(
    "CTCGreedyDecoder(inputs: T, sequence_length: int32) -> (decoded_indices: int64, decoded_values: int64, "
    "decoded_shape: int64, log_probability: T); merge_repeated: bool = false; blank_index: int = -1; "
    "T: type in {float, double} = float",
    gradient="none",
)
define.op(
    f"Conv2DBackpropFilterV2(input: T, filter: T, out_backprop: T) -> (output: T); T: {HALF_FIRST}; "
    'strides: list(int); use_cudnn_on_gpu: bool = true; padding: string in {"SAME", "VALID", "EXPLICIT"}; '
    'explicit_paddings: list(int) = []; data_format: string in {"NHWC", "NCHW"} = "NHWC"; '
    "dilations: list(int) = [1, 1, 1, 1]",
    shape=lambda op: [op.inputs[1].shape],
)
define.op(
    "Conv2DBackpropInputV2(input: T, filter: T, out_backprop: T) -> (output: T); T: type in {half, bfloat16, "
    'float, double, int32}; strides: list(int); use_cudnn_on_gpu: bool = true; padding: string in {"SAME", '
    '"VALID", "EXPLICIT"}; explicit_paddings: list(int) = []; data_format: string in {"NHWC", '
    '"NCHW"} = "NHWC"; dilations: list(int) = [1, 1, 1, 1]',
    shape="unchanged",
)
define.op(
    "Conv3DBackpropFilter(input: T, filter: T, out_backprop: T) -> (output: T); T: type in {half, float, "
    'double}; strides: list(int) >= 5; padding: string in {"SAME", "VALID"}; dilations: list(int) = [1, 1, 1, '
    "1, 1]; !precision(float16: allow)",
    shape=lambda op: [op.inputs[1].shape],
)
define.op(
    "Conv3DBackpropInput(input: T, filter: T, out_backprop: T) -> (output: T); T: type in {half, float, "
    'double}; strides: list(int) >= 5; padding: string in {"SAME", "VALID"}; dilations: list(int) = [1, 1, 1, '
    "1, 1]; !precision(float16: allow)",
    shape="unchanged",
)
define.op(
    f'DataFormatDimMap(x: T) -> (y: T); T: {INDEX} = int32; src_format: string = "NHWC"; dst_format: string = "NCHW"',
    shape="unchanged",
    gradient="none",
)
define.op(
    f'DataFormatVecPermute(x: T) -> (y: T); T: {INDEX} = int32; src_format: string = "NHWC"; '
    'dst_format: string = "NCHW"',
    shape="unchanged",
)


@define.op(
    f"Dilation2D(input: T, filter: T) -> (output: T); T: {REALS}; strides: list(int) >= 4; "
    'rates: list(int) >= 4; padding: string in {"SAME", "VALID"}',
    also={"filters": "filter", "dilations": "rates"},
    exports=("nn.dilation2d",),
)
def dilation2d(
    input: Any,
    filter: Any = None,
    strides: Any = None,
    rates: Any = None,
    padding: str | None = None,
    name: str | None = None,
    filters: Any = None,
    dilations: Any = None,
) -> Tensor:
    """Dilate grayscale images: the maximum of input plus filter."""


define.op(
    f"Dilation2DBackpropFilter(input: T, filter: T, out_backprop: T) -> (filter_backprop: T); T: {REALS}; "
    'strides: list(int) >= 4; rates: list(int) >= 4; padding: string in {"SAME", "VALID"}',
    shape=lambda op: [op.inputs[1].shape],
)
define.op(
    f"Dilation2DBackpropInput(input: T, filter: T, out_backprop: T) -> (in_backprop: T); T: {REALS}; "
    'strides: list(int) >= 4; rates: list(int) >= 4; padding: string in {"SAME", "VALID"}',
    shape="unchanged",
)


@define.op(
    f"Elu(features: T) -> (activations: T); T: {HALF_FIRST}; !precision(infer)",
    shape="unchanged",
    gradient=lambda op, grad: apply_op("EluGrad", gradients=grad, outputs=op.outputs[0]),
    exports=("nn.elu",),
)
def elu(features: Any, name: str | None = None) -> Tensor:
    """Compute x where positive, else exp(x) - 1."""


define.op(f"EluGrad(gradients: T, outputs: T) -> (backprops: T); T: {HALF_FIRST}; !precision(infer)", shape="merged")
define.op(
    "FractionalAvgPool(value: T) -> (output: T, row_pooling_sequence: int64, col_pooling_sequence: "
    "int64); pooling_ratio: list(float) >= 4; pseudo_random: bool = false; overlapping: bool = false; "
    "deterministic: bool = false; seed: int = 0; seed2: int = 0; T: type in {float, double, int32, int64}",
    gradient=lambda op, grad, rows, columns: apply_op(
        "FractionalAvgPoolGrad",
        orig_input_tensor_shape=apply_op("Shape", input=op.inputs[0], out_type=dtypes.int64),
        out_backprop=grad,
        row_pooling_sequence=op.outputs[1],
        col_pooling_sequence=op.outputs[2],
        overlapping=op.attr("overlapping"),
    ),
)
define.op(
    "FractionalAvgPoolGrad(orig_input_tensor_shape: int64, out_backprop: T, row_pooling_sequence: int64, "
    "col_pooling_sequence: int64) -> (output: T); overlapping: bool = false; T: type in {float, double, "
    "int32, int64}",
    gradient="none",
)
define.op(
    "FractionalMaxPool(value: T) -> (output: T, row_pooling_sequence: int64, col_pooling_sequence: "
    "int64); pooling_ratio: list(float) >= 4; pseudo_random: bool = false; overlapping: bool = false; "
    "deterministic: bool = false; seed: int = 0; seed2: int = 0; T: type in {float, double, int32, int64}",
    gradient=lambda op, grad, rows, columns: apply_op(
        "FractionalMaxPoolGrad",
        orig_input=op.inputs[0],
        orig_output=op.outputs[0],
        out_backprop=grad,
        row_pooling_sequence=op.outputs[1],
        col_pooling_sequence=op.outputs[2],
        overlapping=op.attr("overlapping"),
    ),
)
define.op(
    "FractionalMaxPoolGrad(orig_input: T, orig_output: T, out_backprop: T, row_pooling_sequence: int64, "
    "col_pooling_sequence: int64) -> (output: T); overlapping: bool = false; T: type in {float, double, "
    "int32, int64}",
    shape="unchanged",
    gradient="none",
)
define.op(
    "GRUBlockCell(x: T, h_prev: T, w_ru: T, w_c: T, b_ru: T, b_c: T) -> (r: T, u: T, c: T, h: T); T: type in {float}; "
    "!precision(float16: allow)",
    shape=lambda op: [op.inputs[1].shape] * 4,
)
define.op(
    f"InTopK(predictions: float, targets: T) -> (precision: bool); k: int; T: {INDEX} = int32",
    shape=lambda op: [op.inputs[0].shape.with_rank(2)[:1].merge_with(op.inputs[1].shape.with_rank(1))],
    gradient="none",
)
define.op(
    f"InTopKV2(predictions: float, targets: T, k: T) -> (precision: bool); T: {INDEX} = int32",
    shape=lambda op: [op.inputs[0].shape.with_rank(2)[:1].merge_with(op.inputs[1].shape.with_rank(1))],
    gradient="none",
)


@define.op(
    f"L2Loss(t: T) -> (output: T); T: {HALF_FIRST}; !precision(deny)",
    shape=[()],
    gradient=lambda op, grad: mul(op.inputs[0], grad),
    exports=("nn.l2_loss",),
)
def l2_loss(t: Any, name: str | None = None) -> Tensor:
    """Compute half the sum of squares."""


@define.op(
    "LRN(input: T) -> (output: T); depth_radius: int = 5; bias: float = 1.0; alpha: float = 1.0; "
    "beta: float = 0.5; T: type in {half, bfloat16, float} = float",
    shape="unchanged",
    gradient=lambda op, grad: apply_op(
        "LRNGrad",
        input_grads=grad,
        input_image=op.inputs[0],
        output_image=op.outputs[0],
        **attrs_of(op, "depth_radius", "bias", "alpha", "beta"),
    ),
    exports=("nn.local_response_normalization", "nn.lrn"),
)
def local_response_normalization(
    input: Any,
    depth_radius: int = 5,
    bias: float = 1.0,
    alpha: float = 1.0,
    beta: float = 0.5,
    name: str | None = None,
) -> Tensor:
    """Divide values by a power of the squares around them along the channels."""


define.op(
    "LRNGrad(input_grads: T, input_image: T, output_image: T) -> (output: T); depth_radius: int = 5; "
    "bias: float = 1.0; alpha: float = 1.0; beta: float = 0.5; T: type in {half, bfloat16, float} = float",
    shape=lambda op: [op.inputs[0].shape.merge_with(op.inputs[1].shape).merge_with(op.inputs[2].shape)],
)
define.op(
    "LSTMBlockCell(x: T, cs_prev: T, h_prev: T, w: T, wci: T, wcf: T, wco: T, b: T) -> (i: T, cs: T, f: T, "
    "o: T, ci: T, co: T, h: T); forget_bias: float = 1.0; cell_clip: float = 3.0; use_peephole: bool = false; "
    "T: type in {half, float}; !precision(float16: allow)",
    shape=lambda op: [op.inputs[1].shape] * 7,
)
define.op(
    f"LeakyRelu(features: T) -> (activations: T); alpha: float = 0.20000000298023224; T: {HALF_FIRST} = float; "
    "!precision(infer)",
    shape="unchanged",
    gradient=lambda op, grad: apply_op("LeakyReluGrad", gradients=grad, features=op.inputs[0], alpha=op.attr("alpha")),
)
define.op(
    "LeakyReluGrad(gradients: T, features: T) -> (backprops: T); alpha: float = 0.20000000298023224; "
    f"T: {HALF_FIRST} = float; !precision(infer)",
    shape="merged",
)
define.op(
    f"LogSoftmax(logits: T) -> (logsoftmax: T); T: {HALF_FIRST}; !precision(infer)",
    shape=lambda op: [op.inputs[0].shape.with_rank_at_least(1)],
    gradient=lambda op, grad: sub(grad, mul(sum_over(grad, [-1], True), apply_op("Exp", x=op.outputs[0]))),
)
define.op(
    "MaxPool(input: T) -> (output: T); T: type in {half, bfloat16, float, double, int32, int64, uint8, "
    "int16, int8, uint16, qint8} = float; ksize: list(int) >= 4; strides: list(int) >= 4; padding: "
    'string in {"SAME", "VALID", "EXPLICIT"}; explicit_paddings: list(int) = []; data_format: string in '
    '{"NHWC", "NCHW", "NCHW_VECT_C"} = "NHWC"; !precision(clear)',
    gradient=lambda op, grad: apply_op(
        "MaxPoolGrad", orig_input=op.inputs[0], orig_output=op.outputs[0], grad=grad, **attrs_of(op, *_POOL)
    ),
)
define.op(
    "MaxPool3D(input: T) -> (output: T); ksize: list(int) >= 5; strides: list(int) >= 5; padding: string "
    'in {"SAME", "VALID"}; data_format: string in {"NDHWC", "NCDHW"} = "NDHWC"; T: type in {half, '
    "bfloat16, float}; !precision(clear)",
    gradient=lambda op, grad: apply_op(
        "MaxPool3DGrad", orig_input=op.inputs[0], orig_output=op.outputs[0], grad=grad, **attrs_of(op, *_POOL)
    ),
)
define.op(
    "MaxPool3DGrad(orig_input: TInput, orig_output: TInput, grad: T) -> (output: T); ksize: list(int) >= 5; "
    'strides: list(int) >= 5; padding: string in {"SAME", "VALID"}; data_format: string in {"NDHWC", '
    '"NCDHW"} = "NDHWC"; T: type in {half, bfloat16, float} = float; TInput: type in {half, bfloat16, '
    "float} = float; !precision(clear)",
    shape="unchanged",
)
define.op(
    "MaxPool3DGradGrad(orig_input: T, orig_output: T, grad: T) -> (output: T); ksize: list(int) >= 5; "
    'strides: list(int) >= 5; padding: string in {"SAME", "VALID"}; data_format: string in {"NDHWC", '
    f'"NCDHW"}} = "NDHWC"; T: {REALS}; !precision(clear)',
    shape=lambda op: [op.inputs[1].shape],
)
define.op(
    "MaxPoolGrad(orig_input: T, orig_output: T, grad: T) -> (output: T); ksize: list(int) >= 4; "
    'strides: list(int) >= 4; padding: string in {"SAME", "VALID", "EXPLICIT"}; '
    f'explicit_paddings: list(int) = []; data_format: string in {{"NHWC", "NCHW"}} = "NHWC"; T: {REALS} = float; '
    "!precision(clear)",
    shape="unchanged",
)
define.op(
    "MaxPoolGradGrad(orig_input: T, orig_output: T, grad: T) -> (output: T); ksize: list(int) >= 4; "
    'strides: list(int) >= 4; padding: string in {"SAME", "VALID"}; data_format: string in {"NHWC", '
    f'"NCHW"}} = "NHWC"; T: {REALS}; !precision(clear)',
    shape=lambda op: [op.inputs[1].shape],
)
define.op(
    "MaxPoolGradGradV2(orig_input: T, orig_output: T, grad: T, ksize: int32, strides: int32) -> (output: T); "
    f'padding: string in {{"SAME", "VALID"}}; data_format: string in {{"NHWC", "NCHW"}} = "NHWC"; T: {REALS}; '
    "!precision(clear)",
    shape=lambda op: [op.inputs[1].shape],
)
define.op(
    "MaxPoolGradGradWithArgmax(input: T, grad: T, argmax: Targmax) -> (output: T); ksize: list(int) >= 4; "
    'strides: list(int) >= 4; padding: string in {"SAME", "VALID"}; include_batch_in_index: bool = false; '
    f"Targmax: {INDEX}; T: {REALS}",
    shape=lambda op: [op.inputs[2].shape],
)
define.op(
    "MaxPoolGradV2(orig_input: T, orig_output: T, grad: T, ksize: int32, strides: int32) -> (output: T); "
    'padding: string in {"SAME", "VALID"}; data_format: string in {"NHWC", "NCHW"} = "NHWC"; '
    f"T: {REALS} = float; !precision(clear)",
    shape="unchanged",
)
define.op(
    "MaxPoolGradWithArgmax(input: T, grad: T, argmax: Targmax) -> (output: T); ksize: list(int) >= 4; "
    'strides: list(int) >= 4; padding: string in {"SAME", "VALID"}; include_batch_in_index: bool = false; '
    f"Targmax: {INDEX}; T: {REALS}",
    shape="unchanged",
)


define.op(
    "MaxPoolWithArgmax(input: T) -> (output: T, argmax: Targmax); ksize: list(int) >= 4; strides: "
    'list(int) >= 4; Targmax: type in {int32, int64} = int64; padding: string in {"SAME", "VALID"}; '
    "include_batch_in_index: bool = false; T: type in {float, double, int32, uint8, int16, int8, int64, "
    "bfloat16, uint16, half, uint32, uint64}",
    gradient=lambda op, grad, _: apply_op(
        "MaxPoolGradWithArgmax",
        input=op.inputs[0],
        grad=grad,
        argmax=op.outputs[1],
        **attrs_of(op, "ksize", "strides", "padding", "include_batch_in_index"),
    ),
)


@define.op(
    f"NthElement(input: T, n: int32) -> (values: T); reverse: bool = false; T: {REALS}", exports=("nn.nth_element",)
)
def nth_element(input: Any, n: Any, reverse: bool = False, name: str | None = None) -> Tensor:
    """Find the n-th smallest (or largest) element of each row."""


@define.op(
    "Relu(features: T) -> (activations: T); T: type in {float, double, int32, uint8, int16, int8, int64, "
    "bfloat16, uint16, half, uint32, uint64, qint8}; !precision(clear)",
    shape="unchanged",
    gradient=lambda op, grad: apply_op("ReluGrad", gradients=grad, features=op.outputs[0]),
    exports=("nn.relu",),
)
def relu(features: Any, name: str | None = None) -> Tensor:
    """Compute max(x, 0)."""


@define.op(
    f"Relu6(features: T) -> (activations: T); T: {REALS}; !precision(clear)",
    shape="unchanged",
    gradient=lambda op, grad: apply_op("Relu6Grad", gradients=grad, features=op.outputs[0]),
    exports=("nn.relu6",),
)
def relu6(features: Any, name: str | None = None) -> Tensor:
    """Compute min(max(x, 0), 6)."""


define.op(
    f"Relu6Grad(gradients: T, features: T) -> (backprops: T); T: {REALS}; !precision(clear)",
    shape="merged",
    gradient=lambda op, grad: (apply_op("Relu6Grad", gradients=grad, features=op.inputs[1]), zeros_like(op.inputs[1])),
)
define.op(
    f"ReluGrad(gradients: T, features: T) -> (backprops: T); T: {REALS}; !precision(clear)",
    shape="merged",
    gradient=lambda op, grad: (apply_op("ReluGrad", gradients=grad, features=op.inputs[1]), zeros_like(op.inputs[1])),
)


@define.op(
    f"Selu(features: T) -> (activations: T); T: {HALF_FIRST}; !precision(infer)",
    shape="unchanged",
    gradient=lambda op, grad: apply_op("SeluGrad", gradients=grad, outputs=op.outputs[0]),
    exports=("nn.selu",),
)
def selu(features: Any, name: str | None = None) -> Tensor:
    """Apply the scaled exponential linear unit, which keeps activations normalized."""


define.op(f"SeluGrad(gradients: T, outputs: T) -> (backprops: T); T: {HALF_FIRST}; !precision(infer)", shape="merged")
define.op(
    f"Softmax(logits: T) -> (softmax: T); T: {HALF_FIRST}; !precision(infer)",
    shape=lambda op: [op.inputs[0].shape.with_rank_at_least(1)],
)


@define.op(
    f"Softplus(features: T) -> (activations: T); T: {HALF_FIRST}; !precision(infer)",
    shape="unchanged",
    gradient=lambda op, grad: mul(grad, apply_op("Sigmoid", x=op.inputs[0])),
    exports=("math.softplus", "nn.softplus"),
)
def softplus(features: Any, name: str | None = None) -> Tensor:
    """Compute log(1 + exp(x))."""


define.op(
    f"SoftplusGrad(gradients: T, features: T) -> (backprops: T); T: {HALF_FIRST}; !precision(infer)", shape="merged"
)


@define.op(
    f"Softsign(features: T) -> (activations: T); T: {HALF_FIRST}; !precision(infer)",
    shape="unchanged",
    gradient=lambda op, grad: apply_op("SoftsignGrad", gradients=grad, features=op.inputs[0]),
    exports=("math.softsign", "nn.softsign"),
)
def softsign(features: Any, name: str | None = None) -> Tensor:
    """Compute x / (1 + |x|)."""


define.op(
    f"SoftsignGrad(gradients: T, features: T) -> (backprops: T); T: {HALF_FIRST}; !precision(infer)", shape="merged"
)
