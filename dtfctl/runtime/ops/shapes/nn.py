"""Static shapes of nn ops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dtfctl.runtime.framework.constant_value import computed_value, constant_value_as_shape
from dtfctl.runtime.framework.operation import Operation
from dtfctl.runtime.framework.registries import register_shape
from dtfctl.runtime.framework.tensor_shape import TensorShape, broadcast_static

_FIRST = ("NCHW", "NCDHW", "CHANNELS_FIRST")


@register_shape("SoftmaxCrossEntropyWithLogits")
def _xent(op: Operation) -> list[Any]:
    shape = broadcast_static(op.inputs[0].shape, op.inputs[1].shape).with_rank(2)
    return [shape[:1], shape]


@register_shape("SparseSoftmaxCrossEntropyWithLogits")
def _sparse_xent(op: Operation) -> list[Any]:
    logits, labels = op.inputs[0].shape.with_rank(2), op.inputs[1].shape.with_rank(1)
    batch = logits[:1].merge_with(labels)
    return [batch, batch.concatenate(logits[1:])]


@register_shape("BiasAdd", "BiasAddV1")
def _bias_add(op: Operation) -> list[Any]:
    value, bias = op.inputs[0].shape.with_rank_at_least(2), op.inputs[1].shape.with_rank(1)
    if value.dims_or_none is None:
        return [None]
    dims = list(value.dims_or_none)
    channels_first = op.type == "BiasAdd" and op.text_attr("data_format") == "NCHW"
    axis = 1 if channels_first else -1
    if channels_first:
        value.with_rank_at_least(3)
    dims[axis] = TensorShape([dims[axis]]).merge_with(bias).dims_or_none[0]  # type: ignore[index]
    return [dims]


@register_shape("BiasAddGrad")
def _bias_add_grad(op: Operation) -> list[Any]:
    shape = op.inputs[0].shape.with_rank_at_least(2)
    if shape.rank is None:
        return [(None,)]
    return [(shape[1 if op.text_attr("data_format") == "NCHW" else -1].value,)]


def _windowed(
    size: int | None, kernel: int | None, stride: int, dilation: int, padding: str, pads: tuple[int, int]
) -> int | None:
    if size is None or (kernel is None and padding != "SAME"):
        return None
    if padding == "SAME":
        return -(-size // stride)
    span = (int(kernel or 0) - 1) * dilation + 1
    out = (size + sum(pads) - span + stride) // stride
    if out < 0:
        raise ValueError(
            f"Negative dimension size caused by subtracting {span} from {size} for a window of stride {stride}"
        )
    return out


def _place(op: Operation, rank: int) -> tuple[Sequence[int], int]:
    """Find the positions of the spatial dimensions and of the channels."""
    first = op.text_attr("data_format") in _FIRST if "data_format" in op.signature.attr_by_name else False
    return (range(2, rank), 1) if first else (range(1, rank - 1), rank - 1)


def _slide(op: Operation, x: TensorShape, kernel: Sequence[int | None], strides: Sequence[int]) -> list[int | None]:
    """Compute the dimensions of x after a window slid over its spatial dimensions."""
    rank = len(kernel) + 2
    dims: list[int | None] = list(x.with_rank(rank).dims_or_none or [None] * rank)
    space, _ = _place(op, rank)
    names = op.signature.attr_by_name
    dilations = op.attr("dilations") if "dilations" in names else op.attr("rates") if "rates" in names else None
    dilations = dilations or (1,) * rank
    explicit = (op.attr("explicit_paddings") if "explicit_paddings" in names else None) or (0,) * (2 * rank)
    padding = op.text_attr("padding")
    for size, i in zip(kernel, space):
        pads = (explicit[2 * i], explicit[2 * i + 1])
        dims[i] = _windowed(dims[i], size, strides[i], dilations[i], padding, pads)
    return dims


@register_shape("Conv2D", "Conv3D")
def _conv(op: Operation) -> list[Any]:
    rank = 4 if op.type == "Conv2D" else 5
    x, w = op.inputs[0].shape.with_rank(rank), op.inputs[1].shape.with_rank(rank)
    filters: list[int | None] = list(w.dims_or_none or [None] * rank)
    dims = _slide(op, x, filters[:-2], op.attr("strides"))
    channel = _place(op, rank)[1]
    depth = dims[channel]
    if depth is not None and filters[-2] is not None and (filters[-2] == 0 or depth % filters[-2]):
        raise ValueError(f"Depth of input ({depth}) is not a multiple of input depth of filter ({filters[-2]})")
    dims[channel] = filters[-1]
    return [dims]


@register_shape("DepthwiseConv2dNative")
def _depthwise(op: Operation) -> list[Any]:
    x, w = op.inputs[0].shape.with_rank(4), op.inputs[1].shape.with_rank(4)
    filters: list[int | None] = list(w.dims_or_none or [None] * 4)
    dims = _slide(op, x, filters[:2], op.attr("strides"))
    channel = _place(op, 4)[1]
    TensorShape([dims[channel]]).merge_with([filters[2]])
    dims[channel] = None if filters[2] is None or filters[3] is None else filters[2] * filters[3]
    return [dims]


@register_shape(
    "Conv2DBackpropInput", "DepthwiseConv2dNativeBackpropInput", "Conv3DBackpropInputV2", "AvgPoolGrad", "AvgPool3DGrad"
)
def _from_sizes(op: Operation) -> list[Any]:
    rank = 5 if "3D" in op.type else 4
    shape = constant_value_as_shape(op.inputs[0])
    return [shape if shape.rank == rank else [None] * rank]


@register_shape("Conv2DBackpropFilter", "DepthwiseConv2dNativeBackpropFilter", "Conv3DBackpropFilterV2")
def _from_filter_sizes(op: Operation) -> list[Any]:
    rank = 5 if "3D" in op.type else 4
    return [constant_value_as_shape(op.inputs[1]).merge_with([None] * rank)]


def _pooled(op: Operation, ksize: Sequence[int], strides: Sequence[int]) -> list[int | None]:
    rank = len(ksize)
    space, channel = _place(op, rank)
    dims = _slide(op, op.inputs[0].shape, [ksize[i] for i in space], strides)
    if dims[channel] is not None and ksize[channel] > 1:
        dims[channel] = int(dims[channel] or 0) // ksize[channel]
    return dims


@register_shape("MaxPool", "AvgPool", "MaxPool3D", "AvgPool3D")
def _pool(op: Operation) -> list[Any]:
    return [_pooled(op, op.attr("ksize"), op.attr("strides"))]


@register_shape("MaxPoolWithArgmax")
def _pool_with_argmax(op: Operation) -> list[Any]:
    dims = _pooled(op, op.attr("ksize"), op.attr("strides"))
    return [dims, dims]


@register_shape("MaxPoolV2")
def _pool_v2(op: Operation) -> list[Any]:
    ksize, strides = computed_value(op.inputs[1]), computed_value(op.inputs[2])
    if ksize is None or strides is None:
        return [[None] * 4]
    return [_pooled(op, ksize.tolist(), strides.tolist())]


@register_shape("Dilation2D")
def _dilation(op: Operation) -> list[Any]:
    filters = op.inputs[1].shape.with_rank(3).dims_or_none or (None, None, None)
    return [_slide(op, op.inputs[0].shape, filters[:2], op.attr("strides"))]


def _channels(op: Operation, x: TensorShape) -> TensorShape:
    if x.rank is None:
        return TensorShape([None])
    return TensorShape([x[_place(op, x.rank)[1]]])


@register_shape("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")
def _batch_norm(op: Operation) -> list[Any]:
    x = op.inputs[0].shape
    vector = _channels(op, x)
    for scale in op.inputs[1:3]:
        vector = vector.merge_with(scale.shape)
    shapes: list[Any] = [x, vector, vector, vector, vector]
    return [*shapes, None] if op.type == "FusedBatchNormV3" else shapes


@register_shape("FusedBatchNormGrad", "FusedBatchNormGradV2", "FusedBatchNormGradV3")
def _batch_norm_grad(op: Operation) -> list[Any]:
    x = op.inputs[1].shape.merge_with(op.inputs[0].shape)
    vector = _channels(op, x).merge_with(op.inputs[2].shape)
    return [x, vector, vector, (0,), (0,)]


@register_shape("TopK", "TopKV2")
def _top_k(op: Operation) -> list[Any]:
    x = op.inputs[0].shape.with_rank_at_least(1)
    count: Any = op.attr("k") if op.type == "TopK" else computed_value(op.inputs[1])
    count = None if count is None else int(count)
    if count is not None and count < 0:
        raise ValueError(f"Need k >= 0, got {count} for '{op.name}' (op: '{op.type}')")
    if x.rank is None:
        return [None, None]
    last = x[-1].value
    if last is not None and count is not None and last < count:
        raise ValueError(f"input must have last dimension >= k = {count} but is {last}")
    shape = x[:-1].concatenate([count])
    return [shape, shape]


@register_shape("NthElement")
def _nth_element(op: Operation) -> list[Any]:
    x = op.inputs[0].shape.with_rank_at_least(1)
    return [None if x.rank is None else x[:-1]]


@register_shape("CTCLoss", "CTCLossV2")
def _ctc_loss(op: Operation) -> list[Any]:
    x = op.inputs[0].shape.with_rank(3)
    return [(x[1].value,), x]


@register_shape("CTCGreedyDecoder")
def _ctc_greedy(op: Operation) -> list[Any]:
    batch = op.inputs[0].shape.with_rank(3)[1].value
    return [(None, 2), (None,), (2,), (batch, 1)]


@register_shape("CTCBeamSearchDecoder")
def _ctc_beam(op: Operation) -> list[Any]:
    paths = op.attr("top_paths")
    batch = op.inputs[0].shape.with_rank(3)[1].value
    return [*[(None, 2)] * paths, *[(None,)] * paths, *[(2,)] * paths, (batch, paths)]


@register_shape("BlockLSTM", "BlockLSTMV2")
def _block_lstm(op: Operation) -> list[Any]:
    x, cs = op.inputs[1].shape.with_rank(3), op.inputs[2].shape.with_rank(2)
    return [x[:2].concatenate(cs[1:])] * 7


@register_shape("FractionalAvgPoolGrad")
def _fractional_avg_pool_grad(op: Operation) -> Any:
    return [constant_value_as_shape(op.inputs[0])]
