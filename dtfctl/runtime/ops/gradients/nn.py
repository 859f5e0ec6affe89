"""Gradients of nn ops, as TensorFlow's nn_grad builds them."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.convert import constant
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.framework.registries import not_differentiable, register_gradient

not_differentiable("InTopK", "InTopKV2", "CTCGreedyDecoder", "CTCBeamSearchDecoder", "DataFormatDimMap")
not_differentiable("FractionalAvgPoolGrad", "FractionalMaxPoolGrad", "ApproxTopK")


def static_shape(tensor: Tensor, dtype: Any = dtypes.int32) -> Tensor:
    """The shape of a tensor: a constant when it is known, else computed."""
    dims = tensor.shape.dims_or_none
    if dims is not None and None not in dims:
        return constant(list(dims), dtype)
    return apply_op("Shape", input=tensor, out_type=dtype)  # type: ignore[no-any-return]


def _mul(x: Any, y: Any) -> Tensor:
    return apply_op("Mul", x=x, y=y)  # type: ignore[no-any-return]


def _add(x: Any, y: Any) -> Tensor:
    return apply_op("AddV2", x=x, y=y)  # type: ignore[no-any-return]


def _sub(x: Any, y: Any) -> Tensor:
    return apply_op("Sub", x=x, y=y)  # type: ignore[no-any-return]


def _neg(x: Any) -> Tensor:
    return apply_op("Neg", x=x)  # type: ignore[no-any-return]


def _zeros(x: Tensor) -> Tensor:
    return apply_op("ZerosLike", x=x)  # type: ignore[no-any-return]


def _like(value: float, x: Tensor) -> Tensor:
    """A scalar constant of x's type."""
    return constant(value, x.dtype.base_dtype)


def _sum(x: Any, axes: Any, keep_dims: bool = False) -> Tensor:
    return apply_op("Sum", input=x, reduction_indices=constant(axes, dtypes.int32), keep_dims=keep_dims)  # type: ignore[no-any-return]


def _is_zeros(grad: Tensor) -> bool:
    return grad.op.type in ("Zeros", "ZerosLike")


def _attrs(op: Operation, *names: str) -> dict[str, Any]:
    """Attributes to hand on, those the op has."""
    return {name: op.attr(name) for name in names if name in op.signature.attr_by_name}


# Activations.


@register_gradient("Relu")
def _relu(op: Operation, grad: Tensor) -> Any:
    return apply_op("ReluGrad", gradients=grad, features=op.outputs[0])


@register_gradient("ReluGrad")
def _relu_grad(op: Operation, grad: Tensor) -> Any:
    return apply_op("ReluGrad", gradients=grad, features=op.inputs[1]), _zeros(op.inputs[1])


@register_gradient("Relu6")
def _relu6(op: Operation, grad: Tensor) -> Any:
    return apply_op("Relu6Grad", gradients=grad, features=op.outputs[0])


@register_gradient("Relu6Grad")
def _relu6_grad(op: Operation, grad: Tensor) -> Any:
    return apply_op("Relu6Grad", gradients=grad, features=op.inputs[1]), _zeros(op.inputs[1])


@register_gradient("LeakyRelu")
def _leaky_relu(op: Operation, grad: Tensor) -> Any:
    return apply_op("LeakyReluGrad", gradients=grad, features=op.inputs[0], alpha=op.attr("alpha"))


@register_gradient("LeakyReluGrad")
def _leaky_relu_grad(op: Operation, grad: Tensor) -> Any:
    x = op.inputs[1]
    return apply_op("LeakyReluGrad", gradients=grad, features=x, alpha=op.attr("alpha")), _zeros(x)


@register_gradient("Elu")
def _elu(op: Operation, grad: Tensor) -> Any:
    return apply_op("EluGrad", gradients=grad, outputs=op.outputs[0])


def _where_negative(condition: Tensor, grad: Tensor, incoming: Tensor) -> Tensor:
    negative = apply_op("Less", x=condition, y=_like(0, condition))
    return apply_op("SelectV2", condition=negative, t=_mul(grad, incoming), e=_zeros(condition))  # type: ignore[no-any-return]


@register_gradient("EluGrad")
def _elu_grad(op: Operation, grad: Tensor) -> Any:
    y = op.inputs[1]
    return apply_op("EluGrad", gradients=grad, outputs=y), _where_negative(y, grad, op.inputs[0])


@register_gradient("Selu")
def _selu(op: Operation, grad: Tensor) -> Any:
    return apply_op("SeluGrad", gradients=grad, outputs=op.outputs[0])


@register_gradient("SeluGrad")
def _selu_grad(op: Operation, grad: Tensor) -> Any:
    y = op.inputs[1]
    return apply_op("SeluGrad", gradients=grad, outputs=y), _where_negative(y, grad, op.inputs[0])


@register_gradient("Softplus")
def _softplus(op: Operation, grad: Tensor) -> Any:
    return _mul(grad, apply_op("Sigmoid", x=op.inputs[0]))


@register_gradient("SoftplusGrad")
def _softplus_grad(op: Operation, grad: Tensor) -> Any:
    dy, x = op.inputs
    around = _add(_add(apply_op("Exp", x=_neg(x)), _like(2, x)), apply_op("Exp", x=x))
    second = apply_op("RealDiv", x=_mul(grad, dy), y=around)
    return apply_op("SoftplusGrad", gradients=grad, features=x), second


@register_gradient("Softsign")
def _softsign(op: Operation, grad: Tensor) -> Any:
    return apply_op("SoftsignGrad", gradients=grad, features=op.inputs[0])


# Softmax and losses.


@register_gradient("Softmax")
def _softmax(op: Operation, grad: Tensor) -> Any:
    softmax = op.outputs[0]
    return _mul(_sub(grad, _sum(_mul(grad, softmax), [-1], True)), softmax)


@register_gradient("LogSoftmax")
def _log_softmax(op: Operation, grad: Tensor) -> Any:
    return _sub(grad, _mul(_sum(grad, [-1], True), apply_op("Exp", x=op.outputs[0])))


def _per_row(vector: Tensor, matrix: Tensor) -> Tensor:
    """Rows of a matrix times the elements of a vector."""
    return _mul(apply_op("ExpandDims", input=vector, dim=constant(-1, dtypes.int32)), matrix)


def _second_order(grad: Tensor, grad_grad: Tensor, logits: Tensor) -> Tensor:
    softmax = apply_op("Softmax", logits=logits)
    along = _sum(_mul(grad_grad, softmax), [1], True)
    return _add(grad, _mul(_sub(grad_grad, along), softmax))


@register_gradient("SoftmaxCrossEntropyWithLogits")
def _softmax_xent(op: Operation, grad_loss: Tensor, grad_grad: Tensor) -> Any:
    logits = op.inputs[0]
    grad = _per_row(grad_loss, op.outputs[1])
    if not _is_zeros(grad_grad):
        grad = _second_order(grad, grad_grad, logits)
    return grad, _per_row(grad_loss, _neg(apply_op("LogSoftmax", logits=logits)))


@register_gradient("SparseSoftmaxCrossEntropyWithLogits")
def _sparse_softmax_xent(op: Operation, grad_loss: Tensor, grad_grad: Tensor) -> Any:
    grad = _per_row(grad_loss, op.outputs[1])
    if not _is_zeros(grad_grad):
        grad = _second_order(grad, grad_grad, op.inputs[0])
    return grad, None


@register_gradient("CTCLoss", "CTCLossV2")
def _ctc_loss(op: Operation, grad_loss: Tensor, _: Tensor) -> Any:
    scale = apply_op("ExpandDims", input=grad_loss, dim=constant(-1, dtypes.int32))
    return _mul(scale, op.outputs[1]), None, None, None


@register_gradient("L2Loss")
def _l2_loss(op: Operation, grad: Tensor) -> Any:
    return _mul(op.inputs[0], grad)


# Bias.


@register_gradient("BiasAdd")
def _bias_add(op: Operation, grad: Tensor) -> Any:
    return grad, apply_op("BiasAddGrad", out_backprop=grad, data_format=op.attr("data_format"))


@register_gradient("BiasAddGrad")
def _bias_add_grad(op: Operation, grad: Tensor) -> Any:
    x = op.inputs[0]
    if op.text_attr("data_format") == "NCHW":
        rank = x.shape.rank
        if rank is None:
            raise ValueError("The gradient of BiasAddGrad in NCHW needs an input of known rank")
        grad = apply_op("Reshape", tensor=grad, shape=constant([1, -1] + [1] * (rank - 2), dtypes.int32))
    return apply_op("BroadcastTo", input=grad, shape=static_shape(x))


@register_gradient("BiasAddV1")
def _bias_add_v1(op: Operation, grad: Tensor) -> Any:
    rank = op.inputs[0].shape.rank
    if rank is None:
        raise ValueError("The gradient of BiasAddV1 needs an input of known rank")
    return grad, _sum(grad, list(range(rank - 1)))


# Convolutions.

_CONV = ("strides", "padding", "explicit_paddings", "use_cudnn_on_gpu", "data_format", "dilations")


@register_gradient("Conv2D")
def _conv2d(op: Operation, grad: Tensor) -> Any:
    x, w = op.inputs
    attrs = _attrs(op, *_CONV)
    return (
        apply_op("Conv2DBackpropInput", input_sizes=static_shape(x), filter=w, out_backprop=grad, **attrs),
        apply_op("Conv2DBackpropFilter", input=x, filter_sizes=static_shape(w), out_backprop=grad, **attrs),
    )


@register_gradient("Conv2DBackpropInput")
def _conv2d_backprop_input(op: Operation, grad: Tensor) -> Any:
    attrs = _attrs(op, *_CONV)
    w, dy = op.inputs[1], op.inputs[2]
    return (
        None,
        apply_op("Conv2DBackpropFilter", input=grad, filter_sizes=static_shape(w), out_backprop=dy, **attrs),
        apply_op("Conv2D", input=grad, filter=w, **attrs),
    )


@register_gradient("Conv2DBackpropFilter")
def _conv2d_backprop_filter(op: Operation, grad: Tensor) -> Any:
    attrs = _attrs(op, *_CONV)
    x, dy = op.inputs[0], op.inputs[2]
    return (
        apply_op("Conv2DBackpropInput", input_sizes=static_shape(x), filter=grad, out_backprop=dy, **attrs),
        None,
        apply_op("Conv2D", input=x, filter=grad, **attrs),
    )


@register_gradient("DepthwiseConv2dNative")
def _depthwise(op: Operation, grad: Tensor) -> Any:
    x, w = op.inputs
    attrs = _attrs(op, *_CONV)
    return (
        apply_op(
            "DepthwiseConv2dNativeBackpropInput", input_sizes=static_shape(x), filter=w, out_backprop=grad, **attrs
        ),
        apply_op(
            "DepthwiseConv2dNativeBackpropFilter", input=x, filter_sizes=static_shape(w), out_backprop=grad, **attrs
        ),
    )


@register_gradient("DepthwiseConv2dNativeBackpropInput")
def _depthwise_backprop_input(op: Operation, grad: Tensor) -> Any:
    attrs = _attrs(op, *_CONV)
    w, dy = op.inputs[1], op.inputs[2]
    return (
        None,
        apply_op(
            "DepthwiseConv2dNativeBackpropFilter", input=grad, filter_sizes=static_shape(w), out_backprop=dy, **attrs
        ),
        apply_op("DepthwiseConv2dNative", input=grad, filter=w, **attrs),
    )


@register_gradient("DepthwiseConv2dNativeBackpropFilter")
def _depthwise_backprop_filter(op: Operation, grad: Tensor) -> Any:
    attrs = _attrs(op, *_CONV)
    x, dy = op.inputs[0], op.inputs[2]
    return (
        apply_op(
            "DepthwiseConv2dNativeBackpropInput", input_sizes=static_shape(x), filter=grad, out_backprop=dy, **attrs
        ),
        None,
        apply_op("DepthwiseConv2dNative", input=x, filter=grad, **attrs),
    )


@register_gradient("Conv3D")
def _conv3d(op: Operation, grad: Tensor) -> Any:
    x, w = op.inputs
    attrs = _attrs(op, *_CONV)
    return (
        apply_op("Conv3DBackpropInputV2", input_sizes=static_shape(x), filter=w, out_backprop=grad, **attrs),
        apply_op("Conv3DBackpropFilterV2", input=x, filter_sizes=static_shape(w), out_backprop=grad, **attrs),
    )


@register_gradient("Conv3DBackpropInputV2")
def _conv3d_backprop_input(op: Operation, grad: Tensor) -> Any:
    attrs = _attrs(op, *_CONV)
    w, dy = op.inputs[1], op.inputs[2]
    return (
        None,
        apply_op("Conv3DBackpropFilterV2", input=grad, filter_sizes=static_shape(w), out_backprop=dy, **attrs),
        apply_op("Conv3D", input=grad, filter=w, **attrs),
    )


@register_gradient("Conv3DBackpropFilterV2")
def _conv3d_backprop_filter(op: Operation, grad: Tensor) -> Any:
    attrs = _attrs(op, *_CONV)
    x, dy = op.inputs[0], op.inputs[2]
    return (
        apply_op("Conv3DBackpropInputV2", input_sizes=static_shape(x), filter=grad, out_backprop=dy, **attrs),
        None,
        apply_op("Conv3D", input=x, filter=grad, **attrs),
    )


@register_gradient("Dilation2D")
def _dilation(op: Operation, grad: Tensor) -> Any:
    attrs = _attrs(op, "strides", "rates", "padding")
    x, w = op.inputs
    return (
        apply_op("Dilation2DBackpropInput", input=x, filter=w, out_backprop=grad, **attrs),
        apply_op("Dilation2DBackpropFilter", input=x, filter=w, out_backprop=grad, **attrs),
    )


# Pooling.

_POOL = ("ksize", "strides", "padding", "explicit_paddings", "data_format")


@register_gradient("AvgPool", "AvgPool3D")
def _avg_pool(op: Operation, grad: Tensor) -> Any:
    x = op.inputs[0]
    return apply_op(f"{op.type}Grad", orig_input_shape=static_shape(x), grad=grad, **_attrs(op, *_POOL))


@register_gradient("AvgPoolGrad")
def _avg_pool_grad(op: Operation, grad: Tensor) -> Any:
    return None, apply_op("AvgPool", value=grad, **_attrs(op, *_POOL))


@register_gradient("AvgPool3DGrad")
def _avg_pool_3d_grad(op: Operation, grad: Tensor) -> Any:
    return None, apply_op("AvgPool3D", input=grad, **_attrs(op, *_POOL))


@register_gradient("MaxPool", "MaxPool3D")
def _max_pool(op: Operation, grad: Tensor) -> Any:
    return apply_op(
        f"{op.type}Grad", orig_input=op.inputs[0], orig_output=op.outputs[0], grad=grad, **_attrs(op, *_POOL)
    )


@register_gradient("MaxPoolV2")
def _max_pool_v2(op: Operation, grad: Tensor) -> Any:
    x, ksize, strides = op.inputs
    dx = apply_op(
        "MaxPoolGradV2",
        orig_input=x,
        orig_output=op.outputs[0],
        grad=grad,
        ksize=ksize,
        strides=strides,
        **_attrs(op, "padding", "data_format"),
    )
    return dx, None, None


@register_gradient("MaxPoolWithArgmax")
def _max_pool_with_argmax(op: Operation, grad: Tensor, _: Any) -> Any:
    return apply_op(
        "MaxPoolGradWithArgmax",
        input=op.inputs[0],
        grad=grad,
        argmax=op.outputs[1],
        **_attrs(op, "ksize", "strides", "padding", "include_batch_in_index"),
    )


def _pool_grad_grads(op: Operation, forward: str, grad: Tensor) -> Any:
    names = ("ksize", "strides", "padding", "data_format")
    x, y = op.inputs[0], op.inputs[1]
    second = apply_op(forward, orig_input=x, orig_output=y, grad=grad, **_attrs(op, *names))
    return _zeros(x), _zeros(y), second


@register_gradient("MaxPoolGrad", "MaxPool3DGrad")
def _max_pool_grad(op: Operation, grad: Tensor) -> Any:
    return _pool_grad_grads(op, f"{op.type}Grad", grad)


@register_gradient("MaxPoolGradGrad", "MaxPool3DGradGrad")
def _max_pool_grad_grad(op: Operation, grad: Tensor) -> Any:
    return _pool_grad_grads(op, op.type[: -len("Grad")], grad)


@register_gradient("MaxPoolGradV2")
def _max_pool_grad_v2(op: Operation, grad: Tensor) -> Any:
    x, y, _, ksize, strides = op.inputs
    second = apply_op(
        "MaxPoolGradGradV2",
        orig_input=x,
        orig_output=y,
        grad=grad,
        ksize=ksize,
        strides=strides,
        **_attrs(op, "padding", "data_format"),
    )
    return _zeros(x), _zeros(y), second, None, None


@register_gradient("FractionalMaxPool")
def _fractional_max_pool(op: Operation, grad: Tensor, rows: Any, columns: Any) -> Any:
    return apply_op(
        "FractionalMaxPoolGrad",
        orig_input=op.inputs[0],
        orig_output=op.outputs[0],
        out_backprop=grad,
        row_pooling_sequence=op.outputs[1],
        col_pooling_sequence=op.outputs[2],
        overlapping=op.attr("overlapping"),
    )


@register_gradient("FractionalAvgPool")
def _fractional_avg_pool(op: Operation, grad: Tensor, rows: Any, columns: Any) -> Any:
    return apply_op(
        "FractionalAvgPoolGrad",
        orig_input_tensor_shape=apply_op("Shape", input=op.inputs[0], out_type=dtypes.int64),
        out_backprop=grad,
        row_pooling_sequence=op.outputs[1],
        col_pooling_sequence=op.outputs[2],
        overlapping=op.attr("overlapping"),
    )


# Normalization.


@register_gradient("LRN")
def _lrn(op: Operation, grad: Tensor) -> Any:
    return apply_op(
        "LRNGrad",
        input_grads=grad,
        input_image=op.inputs[0],
        output_image=op.outputs[0],
        **_attrs(op, "depth_radius", "bias", "alpha", "beta"),
    )


@register_gradient("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")
def _fused_batch_norm(op: Operation, grad: Tensor, *_: Any) -> Any:
    training = op.attr("is_training")
    suffix = op.type[len("FusedBatchNorm") :]
    reserved = (op.outputs[3], op.outputs[4]) if training else (op.inputs[3], op.inputs[4])
    third: dict[str, Any] = {"reserve_space_3": op.outputs[5]} if suffix == "V3" else {}
    dx, d_scale, d_offset, _, _ = apply_op(
        f"FusedBatchNormGrad{suffix}",
        y_backprop=grad,
        x=op.inputs[0],
        scale=op.inputs[1],
        reserve_space_1=reserved[0],
        reserve_space_2=reserved[1],
        **third,
        **_attrs(op, "epsilon", "data_format", "is_training"),
    )
    return dx, d_scale, d_offset, None, None


@register_gradient("FusedBatchNormGrad", "FusedBatchNormGradV2", "FusedBatchNormGradV3")
def _fused_batch_norm_grad(op: Operation, *grads: Any) -> Any:
    """Differentiates the same gradient written out in elementary ops."""
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
        return apply_op("Reshape", tensor=vector, shape=broadcast)  # type: ignore[no-any-return]

    dtype = x.dtype.base_dtype
    wide = dtypes.float32
    dy32, x32 = (apply_op("Cast", x=t, DstT=wide) if dtype is not wide else t for t in (dy, x))
    epsilon = constant(op.attr("epsilon"), wide)
    training = op.attr("is_training")
    if training:
        average = apply_op("Mean", input=x32, reduction_indices=constant(axes, dtypes.int32))
        centered = _sub(x32, widen(average))
        spread = apply_op("Mean", input=_mul(centered, centered), reduction_indices=constant(axes, dtypes.int32))
    else:
        centered, spread = _sub(x32, widen(mean)), variance
    inverse = apply_op("Rsqrt", x=_add(spread, epsilon))
    d_offset = _sum(dy32, axes)
    along = _sum(_mul(dy32, centered), axes)
    d_scale = _mul(along, inverse)
    factor = widen(_mul(scale, inverse))
    if training:
        count = apply_op(
            "RealDiv",
            x=apply_op("Cast", x=apply_op("Size", input=x), DstT=wide),
            y=apply_op("Cast", x=apply_op("Size", input=scale), DstT=wide),
        )
        mean_dy = widen(apply_op("RealDiv", x=d_offset, y=count))
        mean_along = widen(apply_op("RealDiv", x=_mul(along, _mul(inverse, inverse)), y=count))
        dx = _mul(factor, _sub(_sub(dy32, mean_dy), _mul(centered, mean_along)))
    else:
        dx = _mul(factor, dy32)
    if dtype is not wide:
        dx = apply_op("Cast", x=dx, DstT=dtype)
    return [dx, d_scale, d_offset]


@register_gradient("BatchNormWithGlobalNormalization")
def _batch_norm_global(op: Operation, grad: Tensor) -> Any:
    t, m, v, _, gamma = op.inputs
    dx, dm, dv, db, dg = apply_op(
        "BatchNormWithGlobalNormalizationGrad",
        t=t,
        m=m,
        v=v,
        gamma=gamma,
        backprop=grad,
        **_attrs(op, "variance_epsilon", "scale_after_normalization"),
    )
    return dx, dm, dv, db, dg


# Ranking.


@register_gradient("TopK", "TopKV2")
def _top_k(op: Operation, grad: Tensor, _: Any) -> Any:
    x, indices = op.inputs[0], op.outputs[1]
    size = apply_op("Size", input=x)
    last = apply_op(
        "StridedSlice",
        input=apply_op("Shape", input=x),
        begin=[-1],
        end=[0],
        strides=[1],
        shrink_axis_mask=1,
        end_mask=1,
    )
    if indices.dtype.base_dtype is not dtypes.int32:
        indices = apply_op("Cast", x=indices, DstT=dtypes.int32)
    rows = apply_op("FloorDiv", x=size, y=apply_op("Maximum", x=last, y=constant(1)))
    starts = apply_op(
        "Range", start=constant(0), limit=_mul(rows, last), delta=apply_op("Maximum", x=last, y=constant(1))
    )
    table = apply_op(
        "Reshape",
        tensor=indices,
        shape=apply_op("Pack", values=[rows, _shape_element(indices, -1)]),
    )
    flat = apply_op(
        "Reshape", tensor=_add(table, apply_op("ExpandDims", input=starts, dim=constant(-1))), shape=constant([-1, 1])
    )
    scattered = apply_op(
        "ScatterNd",
        indices=flat,
        updates=apply_op("Reshape", tensor=grad, shape=constant([-1])),
        shape=apply_op("Reshape", tensor=size, shape=constant([1])),
    )
    dx = apply_op("Reshape", tensor=scattered, shape=static_shape(x))
    return dx if op.type == "TopK" else (dx, None)


def _shape_element(tensor: Tensor, position: int) -> Tensor:
    return apply_op(  # type: ignore[no-any-return]
        "StridedSlice",
        input=apply_op("Shape", input=tensor),
        begin=[position],
        end=[0],
        strides=[1],
        shrink_axis_mask=1,
        end_mask=1,
    )


@register_gradient("NthElement")
def _nth_element(op: Operation, grad: Tensor) -> Any:
    x, y = op.inputs[0], op.outputs[0]
    last = constant(-1, dtypes.int32)
    same = apply_op("Equal", x=apply_op("ExpandDims", input=y, dim=last), y=x)
    chosen = apply_op("Cast", x=same, DstT=grad.dtype.base_dtype)
    spread = apply_op("ExpandDims", input=grad, dim=last)
    return _mul(apply_op("RealDiv", x=chosen, y=_sum(chosen, [-1], True)), spread), None


# Recurrent blocks.


@register_gradient("BlockLSTM", "BlockLSTMV2")
def _block_lstm(op: Operation, *grads: Any) -> Any:
    names = ("seq_len_max", "x", "cs_prev", "h_prev", "w", "wci", "wcf", "wco", "b")
    outputs = ("i", "cs", "f", "o", "ci", "co", "h")
    given: dict[str, Any] = dict(zip(names, op.inputs)) | dict(zip(outputs, op.outputs))
    results = apply_op(
        "BlockLSTMGrad" if op.type == "BlockLSTM" else "BlockLSTMGradV2",
        **given,
        cs_grad=grads[1],
        h_grad=grads[6],
        use_peephole=op.attr("use_peephole"),
    )
    return [None, *results]
