"""What of a graph may be computed with less precision: facts about ops, as TensorFlow's rewrite has them.

An op that is allowed gains by it. One that follows its inputs is safe unless they come from one that is denied, which
loses too much. One that only moves or compares numbers loses nothing.
"""

from __future__ import annotations

from dataclasses import dataclass


def _ops(text: str) -> frozenset[str]:
    return frozenset(text.split())


_PRODUCTS = _ops(
    """
    BatchMatMul BatchMatMulV2 Conv2D Conv2DBackpropFilter Conv2DBackpropInput Conv3D Conv3DBackpropFilterV2
    Conv3DBackpropInputV2 DepthwiseConv2dNative DepthwiseConv2dNativeBackpropFilter
    DepthwiseConv2dNativeBackpropInput Einsum MatMul
    """
)
_GPU_ONLY = _ops(
    """
    BlockLSTM BlockLSTMGrad BlockLSTMGradV2 BlockLSTMV2 Conv3DBackpropFilter Conv3DBackpropInput CudnnRNN
    CudnnRNNBackprop CudnnRNNBackpropV2 CudnnRNNBackpropV3 CudnnRNNV2 CudnnRNNV3 FusedConv2DBiasActivation
    GRUBlockCell GRUBlockCellGrad LSTMBlockCell LSTMBlockCellGrad
    """
)
_FOLLOWS = _ops(
    """
    Add AddN AddV2 AvgPool AvgPool3D AvgPool3DGrad AvgPoolGrad BiasAdd BiasAddGrad BiasAddV1 Elu EluGrad Erf Erfc
    FloorDiv FusedBatchNormGradV2 FusedBatchNormGradV3 FusedBatchNormV2 FusedBatchNormV3 Inv LeakyRelu LeakyReluGrad
    Log Log1p LogSoftmax Mul Prod RealDiv Reciprocal Selu SeluGrad Sigmoid SigmoidGrad Softmax Softplus SoftplusGrad
    Softsign SoftsignGrad Sqrt Sub Tanh TanhGrad
    """
)
_DENIED = _ops(
    """
    Exp Expm1 L2Loss Pow SaveV2 SoftmaxCrossEntropyWithLogits SparseSoftmaxCrossEntropyWithLogits
    """
)
# bfloat16 has float32's range.
_SUMS = _ops(
    """
    Mean Sum
    """
)
_MOVES = _ops(
    """
    Abs ArgMax ArgMin BatchToSpace BatchToSpaceND BroadcastTo Ceil CheckNumerics ClipByValue Concat ConcatV2
    DepthToSpace DynamicPartition DynamicStitch EnsureShape Enter Equal Exit ExpandDims Fill Floor Gather GatherNd
    GatherV2 Greater GreaterEqual Identity IdentityN IsFinite IsInf IsNan Less LessEqual Max MaxPool MaxPool3D
    MaxPool3DGrad MaxPool3DGradGrad MaxPoolGrad MaxPoolGradGrad MaxPoolGradGradV2 MaxPoolGradV2 MaxPoolV2 Maximum
    Merge Min Minimum MirrorPad MirrorPadGrad Neg NextIteration NotEqual OnesLike Pack Pad PadV2 PreventGradient
    Rank Relu Relu6 Relu6Grad ReluGrad Reshape ResizeNearestNeighbor ResizeNearestNeighborGrad Reverse
    ReverseSequence ReverseV2 Round Select SelectV2 Shape ShapeN Sign Slice Snapshot SpaceToBatch SpaceToBatchND
    SpaceToDepth Split SplitV Squeeze StopGradient StridedSlice StridedSliceGrad Switch Tile TopK TopKV2 Transpose
    Unpack Where ZerosLike
    """
)


@dataclass(frozen=True)
class Lists:
    """Op types by what less precision does to them."""

    allow: frozenset[str]
    infer: frozenset[str]
    deny: frozenset[str]
    clear: frozenset[str]


FLOAT16 = Lists(_PRODUCTS | _GPU_ONLY, _FOLLOWS, _DENIED | _SUMS, _MOVES | {"OneHot", "Size"})
BFLOAT16 = Lists(
    _PRODUCTS,
    _FOLLOWS | _SUMS | {"Rsqrt", "Square", "SquaredDifference"},
    _DENIED,
    _MOVES | {"ScatterNd", "ResizeBilinear"},
)
