"""`tf.nn`: activations, convolutions, pooling, normalization and losses with TF1's names and argument orders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.constant_value import constant_value
from dtfctl.runtime.framework.convert import SparseTensor, constant, convert_to_tensor
from dtfctl.runtime.framework.dtypes import as_dtype
from dtfctl.runtime.framework.graph_keys import get_seed, name_scope
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.operation import Tensor


def _call(op: str, x: Any, y: Any = None, name: str | None = None) -> Tensor:
    """An elementwise op; a Python number as `y` takes the type of `x`."""
    if y is None:
        return apply_op(op, x=x, name=name)  # type: ignore[no-any-return]
    if isinstance(x, Tensor) and not isinstance(y, Tensor):
        y = convert_to_tensor(y, x.dtype.base_dtype)
    elif isinstance(y, Tensor) and not isinstance(x, Tensor):
        x = convert_to_tensor(x, y.dtype.base_dtype)
    return apply_op(op, x=x, y=y, name=name)  # type: ignore[no-any-return]


def _reduce(op: str, x: Any, axes: Any, keep_dims: bool = False, name: str | None = None) -> Tensor:
    axes = list(axes) if isinstance(axes, (list, tuple, range)) else axes
    index = convert_to_tensor(axes, dtypes.int32)
    return apply_op(op, input=x, reduction_indices=index, keep_dims=keep_dims, name=name)  # type: ignore[no-any-return]


def _reshape(x: Any, shape: Any, name: str | None = None) -> Tensor:
    return apply_op("Reshape", tensor=x, shape=shape, name=name)  # type: ignore[no-any-return]


def _shape(x: Tensor) -> Tensor:
    return apply_op("Shape", input=x)  # type: ignore[no-any-return]


# Activations.


def relu(features: Any, name: str | None = None) -> Tensor:
    return apply_op("Relu", features=features, name=name)  # type: ignore[no-any-return]


def relu6(features: Any, name: str | None = None) -> Tensor:
    return apply_op("Relu6", features=features, name=name)  # type: ignore[no-any-return]


def elu(features: Any, name: str | None = None) -> Tensor:
    return apply_op("Elu", features=features, name=name)  # type: ignore[no-any-return]


def selu(features: Any, name: str | None = None) -> Tensor:
    return apply_op("Selu", features=features, name=name)  # type: ignore[no-any-return]


def softplus(features: Any, name: str | None = None) -> Tensor:
    return apply_op("Softplus", features=features, name=name)  # type: ignore[no-any-return]


def softsign(features: Any, name: str | None = None) -> Tensor:
    return apply_op("Softsign", features=features, name=name)  # type: ignore[no-any-return]


def leaky_relu(features: Any, alpha: Any = 0.2, name: str | None = None) -> Tensor:
    with name_scope(name, "LeakyRelu") as scope:
        features = convert_to_tensor(features, name="features")
        if features.dtype.base_dtype.is_integer:
            features = apply_op("Cast", x=features, DstT=dtypes.float32)
        if isinstance(alpha, (int, float, np.number)):
            return apply_op("LeakyRelu", features=features, alpha=float(alpha), name=scope)  # type: ignore[no-any-return]
        return _call("Maximum", _call("Mul", alpha, features), features, name=scope)


def crelu(features: Any, name: str | None = None, axis: int = -1) -> Tensor:
    """Relu of the features and of their negation, side by side (Shang et al. 2016)."""
    with name_scope(name, "CRelu") as scope:
        features = convert_to_tensor(features, name="features")
        both = apply_op("ConcatV2", values=[features, _call("Neg", features)], axis=axis, name=scope)
        return relu(both)


def swish(features: Any, beta: Any = 1.0) -> Tensor:
    features = convert_to_tensor(features, name="features")
    return _call("Mul", features, _call("Sigmoid", _call("Mul", features, beta)))


silu = swish


def relu_layer(x: Any, weights: Any, biases: Any, name: str | None = None) -> Tensor:
    with name_scope(name, "relu_layer") as scope:
        return relu(apply_op("BiasAdd", value=apply_op("MatMul", a=x, b=weights), bias=biases), name=scope)


def xw_plus_b(x: Any, weights: Any, biases: Any, name: str | None = None) -> Tensor:
    with name_scope(name, "xw_plus_b") as scope:
        return apply_op("BiasAdd", value=apply_op("MatMul", a=x, b=weights), bias=biases, name=scope)  # type: ignore[no-any-return]


def bias_add(value: Any, bias: Any, data_format: str | None = None, name: str | None = None) -> Tensor:
    if data_format is not None:
        if data_format not in ("NHWC", "NCHW", "NWC", "NCW", "NDHWC", "NCDHW", "N...C", "NC..."):
            raise ValueError(
                "`data_format` must be of the form `N...C` or `NC...`. " + f"Received: data_format={data_format}"
            )
        data_format = "NCHW" if data_format.startswith("NC") else "NHWC"
    with name_scope(name, "BiasAdd") as scope:
        value = convert_to_tensor(value, name="input")
        bias = convert_to_tensor(bias, value.dtype.base_dtype, name="bias")
        return apply_op("BiasAdd", value=value, bias=bias, data_format=data_format, name=scope)  # type: ignore[no-any-return]


def l2_loss(t: Any, name: str | None = None) -> Tensor:
    return apply_op("L2Loss", t=t, name=name)  # type: ignore[no-any-return]


def dropout(
    x: Any,
    keep_prob: Any = None,
    noise_shape: Any = None,
    seed: int | None = None,
    name: str | None = None,
    rate: Any = None,
) -> Tensor:
    """Elements set to zero with probability `rate`, the others scaled to keep the sum.

    Raises:
        ValueError: neither or both of keep_prob and rate, or a rate outside [0, 1), or x is not floating.
    """
    if keep_prob is not None:
        if rate is not None:
            raise ValueError("Only one of `rate` and `keep_prob` can be given to dropout")
        rate = 1 - keep_prob if isinstance(keep_prob, (int, float)) else _call("Sub", 1.0, keep_prob)
    if rate is None:
        raise ValueError("`rate` must be provided to dropout")
    number = isinstance(rate, (int, float))
    if number and not 0 <= rate < 1:
        raise ValueError(f"`rate` must be a scalar tensor or a float in the range [0, 1). Received: rate={rate}")
    with name_scope(name, "dropout"):
        x = convert_to_tensor(x, name="x")
        dtype = x.dtype.base_dtype
        if not dtype.is_floating:
            raise ValueError(
                "`x.dtype` must be a floating point tensor as `x` will be scaled. " + f"Received: x.dtype={dtype}"
            )
        if number and rate == 0:
            return x  # type: ignore[no-any-return]
        if number:
            scaled = _call("Mul", x, 1 / (1 - rate))
        else:
            rate = convert_to_tensor(rate, dtype, name="rate")
            scaled = _call("RealDiv", x, _call("Sub", 1.0, rate))
        shape = _noise_shape(x, noise_shape)
        seed1, seed2 = get_seed(seed)
        noise = apply_op("RandomUniform", shape=shape, dtype=dtype, seed=seed1, seed2=seed2)
        keep = _call("GreaterEqual", noise, rate)
        out: Tensor = apply_op("SelectV2", condition=keep, t=scaled, e=constant(0, dtype))
        out.set_shape(x.shape)
        return out


def _noise_shape(x: Tensor, noise_shape: Any) -> Any:
    if noise_shape is None:
        return constant(list(x.shape.known()), dtypes.int32) if x.shape.is_fully_defined() else _shape(x)
    if isinstance(noise_shape, (list, tuple)) and None in noise_shape and x.shape.rank == len(noise_shape):
        filled = [x.shape[i].value if d is None else d for i, d in enumerate(noise_shape)]
        if None not in filled:
            return constant(filled, dtypes.int32)
    return noise_shape


# Softmax and losses.


def softmax(logits: Any, axis: int | None = None, name: str | None = None, dim: int | None = None) -> Tensor:
    return _along_last("Softmax", logits, axis if axis is not None else dim, name)


def log_softmax(logits: Any, axis: int | None = None, name: str | None = None, dim: int | None = None) -> Tensor:
    return _along_last("LogSoftmax", logits, axis if axis is not None else dim, name)


def _along_last(op: str, logits: Any, axis: int | None, name: str | None) -> Tensor:
    """Ops of the last dimension on any: that dimension is moved there and back."""
    logits = convert_to_tensor(logits)
    rank = logits.shape.rank
    axis = -1 if axis is None else axis
    if axis == -1 or (rank is not None and axis == rank - 1):
        return apply_op(op, logits=logits, name=name)  # type: ignore[no-any-return]
    if rank is None:
        raise ValueError(f"{op} of axis {axis} needs logits of known rank")
    if not -rank <= axis < rank:
        raise ValueError(f"`axis` must be in the range [{-rank}, {rank}) where {rank} is the number of dimensions")
    order = list(range(rank))
    order[axis % rank], order[-1] = order[-1], order[axis % rank]
    with name_scope(name, op.lower()):
        moved = apply_op(op, logits=apply_op("Transpose", x=logits, perm=order))
        out: Tensor = apply_op("Transpose", x=moved, perm=order)
    out.set_shape(logits.shape)
    return out


def softmax_cross_entropy_with_logits_v2(
    labels: Any = None, logits: Any = None, axis: int | None = None, name: str | None = None, dim: int | None = None
) -> Tensor:
    """Cross entropy of each distribution along `axis`; gradients go to logits and labels."""
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
        labels = _as(labels, precise.dtype.base_dtype)
        rank = logits.shape.rank
        if rank == 2 and axis in (-1, 1):
            cost = apply_op("SoftmaxCrossEntropyWithLogits", features=precise, labels=labels, name=scope)[0]
        else:
            cost = _xent_of_any_rank(precise, labels, axis, scope)
        return _as(cost, dtype)


def _as(x: Tensor, dtype: Any) -> Tensor:
    return x if x.dtype.base_dtype is dtype else apply_op("Cast", x=x, DstT=dtype)


def _xent_of_any_rank(logits: Tensor, labels: Tensor, axis: Any, scope: str) -> Tensor:
    rank = logits.shape.rank
    if rank is None:
        raise ValueError("softmax_cross_entropy_with_logits needs logits of known rank")
    if axis % rank != rank - 1:
        order = [i for i in range(rank) if i != axis % rank] + [axis % rank]
        logits = apply_op("Transpose", x=logits, perm=order)
        labels = apply_op("Transpose", x=labels, perm=order)
    lead = apply_op("StridedSlice", input=_shape(logits), begin=[0], end=[-1], strides=[1], begin_mask=1)
    static_lead = logits.shape[:-1]

    def flatten(x: Tensor) -> Tensor:
        last = apply_op("StridedSlice", input=_shape(x), begin=[-1], end=[0], strides=[1], end_mask=1)
        return _reshape(x, apply_op("ConcatV2", values=[constant([-1]), last], axis=0))

    cost = apply_op("SoftmaxCrossEntropyWithLogits", features=flatten(logits), labels=flatten(labels), name=scope)[0]
    out = _reshape(cost, lead)
    out.set_shape(static_lead)
    return out


def softmax_cross_entropy_with_logits(
    _sentinel: Any = None,
    labels: Any = None,
    logits: Any = None,
    dim: int = -1,
    name: str | None = None,
    axis: int | None = None,
) -> Tensor:
    """Like the second version, but no gradient goes to the labels."""
    _only_named("softmax_cross_entropy_with_logits", _sentinel, labels, logits)
    with name_scope(name, "softmax_cross_entropy_with_logits_sg"):
        labels = apply_op("StopGradient", input=convert_to_tensor(labels), name="labels_stop_gradient")
    return softmax_cross_entropy_with_logits_v2(labels, logits, axis if axis is not None else dim, name)


def _only_named(function: str, sentinel: Any, labels: Any, logits: Any) -> None:
    if sentinel is not None:
        raise ValueError(f"Only call `{function}` with named arguments (labels=..., logits=..., ...).")
    if labels is None or logits is None:
        raise ValueError("Both `labels` and `logits` must be provided.")


def sparse_softmax_cross_entropy_with_logits(
    _sentinel: Any = None, labels: Any = None, logits: Any = None, name: str | None = None
) -> Tensor:
    """Cross entropy with one class number for each distribution.

    Raises:
        ValueError: the static shapes do not fit.
    """
    _only_named("sparse_softmax_cross_entropy_with_logits", _sentinel, labels, logits)
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
        if rank == 2:
            cost = apply_op("SparseSoftmaxCrossEntropyWithLogits", features=precise, labels=labels)[0]
            return _as(cost, dtype)
        classes = apply_op(
            "StridedSlice", input=_shape(precise), begin=[-1], end=[0], strides=[1], shrink_axis_mask=1, end_mask=1
        )
        flat = _reshape(precise, apply_op("Pack", values=[constant(-1), classes]))
        cost = apply_op("SparseSoftmaxCrossEntropyWithLogits", features=flat, labels=_reshape(labels, constant([-1])))[
            0
        ]
        out = _reshape(cost, _shape(labels))
        out.set_shape(labels.shape)
        return _as(out, dtype)


def sigmoid_cross_entropy_with_logits(
    _sentinel: Any = None, labels: Any = None, logits: Any = None, name: str | None = None
) -> Tensor:
    """max(x, 0) - x z + log(1 + exp(-|x|)): independent classes."""
    _only_named("sigmoid_cross_entropy_with_logits", _sentinel, labels, logits)
    with name_scope(name, "logistic_loss") as scope:
        logits = convert_to_tensor(logits, name="logits")
        labels = convert_to_tensor(labels, logits.dtype.base_dtype, name="labels")
        labels.shape.assert_is_compatible_with(logits.shape)
        zeros = apply_op("ZerosLike", x=logits)
        positive = _call("GreaterEqual", logits, zeros)
        clipped = apply_op("Select", condition=positive, t=logits, e=zeros)
        negative_abs = apply_op("Select", condition=positive, t=_call("Neg", logits), e=logits)
        linear = _call("Sub", clipped, _call("Mul", logits, labels))
        return _call("AddV2", linear, _call("Log1p", _call("Exp", negative_abs)), name=scope)


def weighted_cross_entropy_with_logits(
    labels: Any = None, logits: Any = None, pos_weight: Any = None, name: str | None = None, targets: Any = None
) -> Tensor:
    """Sigmoid cross entropy whose positive examples count `pos_weight` times."""
    labels = labels if labels is not None else targets
    with name_scope(name, "logistic_loss") as scope:
        logits = convert_to_tensor(logits, name="logits")
        labels = convert_to_tensor(labels, logits.dtype.base_dtype, name="targets")
        weight = convert_to_tensor(pos_weight, logits.dtype.base_dtype)
        log_weight = _call("AddV2", 1.0, _call("Mul", _call("Sub", weight, 1.0), labels))
        soft = _call(
            "AddV2",
            _call("Log1p", _call("Exp", _call("Neg", _call("Abs", logits)))),
            relu(_call("Neg", logits)),
        )
        linear = _call("Mul", _call("Sub", 1.0, labels), logits)
        return _call("AddV2", linear, _call("Mul", log_weight, soft), name=scope)


def log_poisson_loss(targets: Any, log_input: Any, compute_full_loss: bool = False, name: str | None = None) -> Tensor:
    """exp(log_input) - log_input * targets, with Stirling's terms when asked."""
    with name_scope(name, "log_poisson_loss"):
        log_input = convert_to_tensor(log_input, name="log_input")
        targets = convert_to_tensor(targets, log_input.dtype.base_dtype, name="targets")
        result = _call("Sub", _call("Exp", log_input), _call("Mul", log_input, targets))
        if not compute_full_loss:
            return result
        stirling = _call("Sub", _call("Mul", targets, _call("Log", targets)), targets)
        stirling = _call("AddV2", stirling, _call("Mul", _call("Log", _call("Mul", targets, 2.0 * float(np.pi))), 0.5))
        zeros, ones = apply_op("ZerosLike", x=targets), apply_op("OnesLike", x=targets)
        inside = apply_op("LogicalAnd", x=_call("GreaterEqual", targets, zeros), y=_call("LessEqual", targets, ones))
        return _call("AddV2", result, apply_op("Select", condition=inside, t=zeros, e=stirling))


def zero_fraction(value: Any, name: str | None = None) -> Tensor:
    with name_scope(name, "zero_fraction"):
        value = convert_to_tensor(value, name="value")
        zero = _call("Equal", value, constant(0, value.dtype.base_dtype))
        flat = _reshape(apply_op("Cast", x=zero, DstT=dtypes.float32), constant([-1]))
        return _reduce("Mean", flat, [0], name="fraction")


# Convolutions.


def _pair(value: Any, count: int, data_format: str, name: str) -> list[int]:
    """Per-dimension attribute of a window from one number, one a spatial dimension, or all."""
    values = [1] if value is None else [int(v) for v in np.ravel(value)]
    first = data_format.startswith("NC")
    if len(values) == count + 2:
        return values
    if len(values) == 1:
        values = values * count
    if len(values) != count:
        raise ValueError(f"{name} should be of length 1, {count} or {count + 2}. Received: {value}")
    return [1, 1, *values] if first else [1, *values, 1]


def _padding(padding: Any) -> dict[str, Any]:
    if isinstance(padding, (list, tuple)):
        return {"padding": "EXPLICIT", "explicit_paddings": [int(p) for pair in padding for p in pair]}
    return {"padding": padding}


def conv2d(
    input: Any,
    filter: Any = None,
    strides: Any = None,
    padding: Any = None,
    use_cudnn_on_gpu: bool = True,
    data_format: str = "NHWC",
    dilations: Any = (1, 1, 1, 1),
    name: str | None = None,
    filters: Any = None,
) -> Tensor:
    filter = filter if filters is None else filters
    if padding is None:
        raise ValueError("`padding` must be provided.")
    data_format = data_format or "NHWC"
    return apply_op(  # type: ignore[no-any-return]
        "Conv2D",
        input=input,
        filter=filter,
        strides=_pair(strides, 2, data_format, "strides"),
        use_cudnn_on_gpu=use_cudnn_on_gpu,
        data_format=data_format,
        dilations=_pair(dilations, 2, data_format, "dilations"),
        name=name,
        **_padding(padding),
    )


def conv2d_backprop_input(
    input_sizes: Any,
    filter: Any = None,
    out_backprop: Any = None,
    strides: Any = None,
    padding: Any = None,
    use_cudnn_on_gpu: bool = True,
    data_format: str = "NHWC",
    dilations: Any = (1, 1, 1, 1),
    name: str | None = None,
    filters: Any = None,
) -> Tensor:
    return apply_op(  # type: ignore[no-any-return]
        "Conv2DBackpropInput",
        input_sizes=input_sizes,
        filter=filter if filters is None else filters,
        out_backprop=out_backprop,
        strides=strides,
        use_cudnn_on_gpu=use_cudnn_on_gpu,
        data_format=data_format,
        dilations=list(dilations),
        name=name,
        **_padding(padding),
    )


def conv2d_backprop_filter(
    input: Any,
    filter_sizes: Any,
    out_backprop: Any,
    strides: Any = None,
    padding: Any = None,
    use_cudnn_on_gpu: bool = True,
    data_format: str = "NHWC",
    dilations: Any = (1, 1, 1, 1),
    name: str | None = None,
) -> Tensor:
    return apply_op(  # type: ignore[no-any-return]
        "Conv2DBackpropFilter",
        input=input,
        filter_sizes=filter_sizes,
        out_backprop=out_backprop,
        strides=strides,
        use_cudnn_on_gpu=use_cudnn_on_gpu,
        data_format=data_format,
        dilations=list(dilations),
        name=name,
        **_padding(padding),
    )


def conv2d_transpose(
    value: Any = None,
    filter: Any = None,
    output_shape: Any = None,
    strides: Any = None,
    padding: Any = "SAME",
    data_format: str = "NHWC",
    name: str | None = None,
    input: Any = None,
    filters: Any = None,
    dilations: Any = None,
) -> Tensor:
    """The gradient of a convolution, used forward."""
    value = value if input is None else input
    filter = filter if filters is None else filters
    with name_scope(name, "conv2d_transpose") as scope:
        return apply_op(  # type: ignore[no-any-return]
            "Conv2DBackpropInput",
            input_sizes=output_shape,
            filter=filter,
            out_backprop=value,
            strides=_pair(strides, 2, data_format, "strides"),
            data_format=data_format,
            dilations=_pair(dilations, 2, data_format, "dilations"),
            name=scope,
            **_padding(padding),
        )


def conv1d(
    value: Any = None,
    filters: Any = None,
    stride: Any = None,
    padding: Any = None,
    use_cudnn_on_gpu: bool | None = None,
    data_format: str | None = None,
    name: str | None = None,
    input: Any = None,
    dilations: Any = None,
) -> Tensor:
    """A convolution of one dimension, done as one of two."""
    value = value if input is None else input
    with name_scope(name, "conv1d"):
        first = data_format in ("NCW", "NCHW")
        axis = 2 if first else 1
        value = convert_to_tensor(value, name="input")
        steps = [int(s) for s in np.ravel(stride)]
        step = steps[0] if len(steps) == 1 else steps[axis]
        spread = [1] if dilations is None else [int(d) for d in np.ravel(dilations)]
        rate = spread[0] if len(spread) == 1 else spread[axis]
        out = apply_op(
            "Conv2D",
            input=apply_op("ExpandDims", input=value, dim=axis),
            filter=apply_op("ExpandDims", input=filters, dim=0),
            strides=[1, 1, 1, step] if first else [1, 1, step, 1],
            dilations=[1, 1, 1, rate] if first else [1, 1, rate, 1],
            data_format="NCHW" if first else "NHWC",
            use_cudnn_on_gpu=True if use_cudnn_on_gpu is None else use_cudnn_on_gpu,
            **_padding(padding),
        )
        return apply_op("Squeeze", input=out, squeeze_dims=[axis])  # type: ignore[no-any-return]


def conv3d(
    input: Any,
    filter: Any = None,
    strides: Any = None,
    padding: Any = None,
    data_format: str = "NDHWC",
    dilations: Any = (1, 1, 1, 1, 1),
    name: str | None = None,
    filters: Any = None,
) -> Tensor:
    return apply_op(  # type: ignore[no-any-return]
        "Conv3D",
        input=input,
        filter=filter if filters is None else filters,
        strides=strides,
        padding=padding,
        data_format=data_format,
        dilations=list(dilations),
        name=name,
    )


def conv3d_transpose(
    value: Any = None,
    filter: Any = None,
    output_shape: Any = None,
    strides: Any = None,
    padding: str = "SAME",
    data_format: str = "NDHWC",
    name: str | None = None,
    input: Any = None,
    filters: Any = None,
    dilations: Any = None,
) -> Tensor:
    with name_scope(name, "conv3d_transpose") as scope:
        return apply_op(  # type: ignore[no-any-return]
            "Conv3DBackpropInputV2",
            input_sizes=output_shape,
            filter=filter if filters is None else filters,
            out_backprop=value if input is None else input,
            strides=_pair(strides, 3, data_format, "strides"),
            padding=padding,
            data_format=data_format,
            dilations=_pair(dilations, 3, data_format, "dilations"),
            name=scope,
        )


def depthwise_conv2d_native(
    input: Any,
    filter: Any,
    strides: Any,
    padding: Any,
    data_format: str = "NHWC",
    dilations: Any = (1, 1, 1, 1),
    name: str | None = None,
) -> Tensor:
    return apply_op(  # type: ignore[no-any-return]
        "DepthwiseConv2dNative",
        input=input,
        filter=filter,
        strides=strides,
        data_format=data_format,
        dilations=list(dilations),
        name=name,
        **_padding(padding),
    )


def depthwise_conv2d(
    input: Any,
    filter: Any,
    strides: Any,
    padding: Any,
    rate: Any = None,
    name: str | None = None,
    data_format: str | None = None,
    dilations: Any = None,
) -> Tensor:
    rate = rate if dilations is None else dilations
    data_format = data_format or "NHWC"
    with name_scope(name, "depthwise") as scope:
        return depthwise_conv2d_native(
            convert_to_tensor(input, name="tensor_in"),
            convert_to_tensor(filter, name="filter_in"),
            strides,
            padding,
            data_format,
            _pair(rate, 2, data_format, "rate"),
            scope,
        )


def separable_conv2d(
    input: Any,
    depthwise_filter: Any,
    pointwise_filter: Any,
    strides: Any,
    padding: Any,
    rate: Any = None,
    name: str | None = None,
    data_format: str | None = None,
    dilations: Any = None,
) -> Tensor:
    """A depthwise convolution, then one of 1 x 1."""
    data_format = data_format or "NHWC"
    with name_scope(name, "separable_conv2d") as scope:
        inner = depthwise_conv2d(input, depthwise_filter, strides, padding, rate, "depthwise", data_format, dilations)
        return conv2d(inner, pointwise_filter, [1, 1, 1, 1], "VALID", data_format=data_format, name=scope)


def atrous_conv2d(value: Any, filters: Any, rate: int, padding: Any, name: str | None = None) -> Tensor:
    return conv2d(value, filters, [1, 1, 1, 1], padding, dilations=[1, rate, rate, 1], name=name)


def convolution(
    input: Any,
    filter: Any = None,
    padding: Any = "VALID",
    strides: Any = None,
    dilation_rate: Any = None,
    name: str | None = None,
    data_format: str | None = None,
    filters: Any = None,
    dilations: Any = None,
) -> Tensor:
    """Convolution of as many dimensions as the filter has."""
    filter = convert_to_tensor(filter if filters is None else filters)
    rank = filter.shape.rank
    rate = dilation_rate if dilations is None else dilations
    if rank not in (3, 4, 5):
        raise ValueError(f"`filter` must be of rank 3, 4 or 5, got {rank}")
    with name_scope(name, "convolution") as scope:
        if rank == 3:
            step = 1 if strides is None else strides
            return conv1d(input, filter, step, padding, data_format=data_format, dilations=rate, name=scope)
        form = data_format or ("NHWC" if rank == 4 else "NDHWC")
        steps, spread = _pair(strides, rank - 2, form, "strides"), _pair(rate, rank - 2, form, "dilations")
        if rank == 4:
            return conv2d(input, filter, steps, padding, data_format=form, dilations=spread, name=scope)
        return conv3d(input, filter, steps, padding, form, spread, scope)


def dilation2d(input: Any, filter: Any, strides: Any, rates: Any, padding: str, name: str | None = None) -> Tensor:
    return apply_op(  # type: ignore[no-any-return]
        "Dilation2D", input=input, filter=filter, strides=strides, rates=rates, padding=padding, name=name
    )


def erosion2d(value: Any, kernel: Any, strides: Any, rates: Any, padding: str, name: str | None = None) -> Tensor:
    with name_scope(name, "erosion2d") as scope:
        turned = apply_op("ReverseV2", tensor=kernel, axis=[0, 1])
        return _call("Neg", dilation2d(_call("Neg", value), turned, strides, rates, padding), name=scope)


# Pooling.


def avg_pool(
    value: Any = None,
    ksize: Any = None,
    strides: Any = None,
    padding: Any = None,
    data_format: str = "NHWC",
    name: str | None = None,
    input: Any = None,
) -> Tensor:
    with name_scope(name, "AvgPool") as scope:
        return apply_op(  # type: ignore[no-any-return]
            "AvgPool",
            value=value if input is None else input,
            ksize=_pair(ksize, 2, data_format, "ksize"),
            strides=_pair(strides, 2, data_format, "strides"),
            padding=padding,
            data_format=data_format,
            name=scope,
        )


avg_pool2d = avg_pool


def max_pool(
    value: Any,
    ksize: Any = None,
    strides: Any = None,
    padding: Any = None,
    data_format: str = "NHWC",
    name: str | None = None,
    input: Any = None,
) -> Tensor:
    with name_scope(name, "MaxPool") as scope:
        return apply_op(  # type: ignore[no-any-return]
            "MaxPool",
            input=value if input is None else input,
            ksize=_pair(ksize, 2, data_format, "ksize"),
            strides=_pair(strides, 2, data_format, "strides"),
            data_format=data_format,
            name=scope,
            **_padding(padding),
        )


def max_pool2d(
    input: Any, ksize: Any, strides: Any, padding: Any, data_format: str = "NHWC", name: str | None = None
) -> Tensor:
    return max_pool(input, ksize, strides, padding, data_format, name)


def avg_pool3d(
    input: Any, ksize: Any, strides: Any, padding: str, data_format: str = "NDHWC", name: str | None = None
) -> Tensor:
    return _pool3d("AvgPool3D", input, ksize, strides, padding, data_format, name)


def max_pool3d(
    input: Any, ksize: Any, strides: Any, padding: str, data_format: str = "NDHWC", name: str | None = None
) -> Tensor:
    return _pool3d("MaxPool3D", input, ksize, strides, padding, data_format, name)


def _pool3d(op: str, x: Any, ksize: Any, strides: Any, padding: str, data_format: str, name: str | None) -> Tensor:
    return apply_op(  # type: ignore[no-any-return]
        op,
        input=x,
        ksize=_pair(ksize, 3, data_format, "ksize"),
        strides=_pair(strides, 3, data_format, "strides"),
        padding=padding,
        data_format=data_format,
        name=name,
    )


def avg_pool1d(
    input: Any, ksize: Any, strides: Any, padding: str, data_format: str = "NWC", name: str | None = None
) -> Tensor:
    return _pool1d(avg_pool, input, ksize, strides, padding, data_format, name or "AvgPool1D")


def max_pool1d(
    input: Any, ksize: Any, strides: Any, padding: str, data_format: str = "NWC", name: str | None = None
) -> Tensor:
    return _pool1d(max_pool, input, ksize, strides, padding, data_format, name or "MaxPool1D")


def _pool1d(function: Any, x: Any, ksize: Any, strides: Any, padding: str, data_format: str, name: str) -> Tensor:
    first = data_format == "NCW"
    axis = 2 if first else 1
    with name_scope(name):
        wide = [int(np.ravel(v)[0 if np.size(v) == 1 else axis]) for v in (ksize, strides)]
        window, step = ([1, 1, 1, w] if first else [1, 1, w, 1] for w in wide)
        out = function(apply_op("ExpandDims", input=x, dim=axis), window, step, padding, "NCHW" if first else "NHWC")
        return apply_op("Squeeze", input=out, squeeze_dims=[axis])  # type: ignore[no-any-return]


def max_pool_with_argmax(
    input: Any,
    ksize: Any,
    strides: Any,
    padding: str,
    data_format: str = "NHWC",
    Targmax: Any = None,
    name: str | None = None,
    output_dtype: Any = None,
    include_batch_in_index: bool = False,
) -> Any:
    if data_format != "NHWC":
        raise ValueError(f"`data_format` values other than 'NHWC' are not supported. Received: {data_format}")
    return apply_op(
        "MaxPoolWithArgmax",
        input=input,
        ksize=ksize,
        strides=strides,
        padding=padding,
        Targmax=as_dtype(output_dtype or Targmax or dtypes.int64),
        include_batch_in_index=include_batch_in_index,
        name=name,
    )


def pool(
    input: Any,
    window_shape: Sequence[int],
    pooling_type: str,
    padding: str,
    dilation_rate: Any = None,
    strides: Any = None,
    name: str | None = None,
    data_format: str | None = None,
    dilations: Any = None,
) -> Tensor:
    """Pooling of one to three dimensions.

    Raises:
        ValueError: an unknown type, or dilations, which pooling ops do not have.
    """
    rate = dilation_rate if dilations is None else dilations
    if rate is not None and any(int(r) != 1 for r in np.ravel(rate)):
        raise ValueError("Dilated pooling is not supported; use tf.nn.max_pool on a strided slice of the input instead")
    size = len(window_shape)
    if size not in (1, 2, 3) or pooling_type not in ("MAX", "AVG"):
        raise ValueError(f"Unsupported pooling: {pooling_type} over {size} dimensions")
    table: dict[tuple[str, int], Any] = {
        ("MAX", 1): max_pool1d,
        ("MAX", 2): max_pool,
        ("MAX", 3): max_pool3d,
        ("AVG", 1): avg_pool1d,
        ("AVG", 2): avg_pool,
        ("AVG", 3): avg_pool3d,
    }
    form = data_format or ("NWC", "NHWC", "NDHWC")[size - 1]
    steps = [1] * size if strides is None else list(np.ravel(strides))
    return table[pooling_type, size](input, list(window_shape), steps, padding, form, name)  # type: ignore[no-any-return]


# Normalization.


def l2_normalize(x: Any, axis: Any = None, epsilon: float = 1e-12, name: str | None = None, dim: Any = None) -> Tensor:
    axis = axis if axis is not None else dim
    with name_scope(name, "l2_normalize") as scope:
        x = convert_to_tensor(x, name="x")
        axes = _all_axes(x) if axis is None else axis
        square = _reduce("Sum", _call("Square", x), axes, True)
        return _call("Mul", x, _call("Rsqrt", _call("Maximum", square, epsilon)), name=scope)


def _all_axes(x: Tensor) -> Any:
    if x.shape.rank is not None:
        return list(range(x.shape.rank))
    return apply_op("Range", start=0, limit=apply_op("Rank", input=x), delta=1)


def local_response_normalization(
    input: Any,
    depth_radius: int = 5,
    bias: float = 1.0,
    alpha: float = 1.0,
    beta: float = 0.5,
    name: str | None = None,
) -> Tensor:
    return apply_op(  # type: ignore[no-any-return]
        "LRN", input=input, depth_radius=depth_radius, bias=bias, alpha=alpha, beta=beta, name=name
    )


lrn = local_response_normalization


def moments(
    x: Any,
    axes: Any,
    shift: Any = None,
    name: str | None = None,
    keep_dims: bool | None = None,
    keepdims: bool | None = None,
) -> tuple[Tensor, Tensor]:
    """Mean and variance over `axes`; half is computed in float32."""
    keep = bool(keepdims if keepdims is not None else keep_dims)
    with name_scope(name, "moments"):
        x = convert_to_tensor(x, name="x")
        dtype = x.dtype.base_dtype
        y = apply_op("Cast", x=x, DstT=dtypes.float32) if dtype in (dtypes.float16, dtypes.bfloat16) else x
        mean = _reduce("Mean", y, axes, True, name="mean")
        held = apply_op("StopGradient", input=mean)
        variance = _reduce("Mean", apply_op("SquaredDifference", x=y, y=held), axes, True, name="variance")
        if not keep:
            squeezed = [int(a) for a in np.ravel(axes)] if not isinstance(axes, Tensor) else None
            if squeezed is None:
                value = constant_value(axes)
                if value is None:
                    raise ValueError("moments without keep_dims needs axes known while the graph is built")
                squeezed = [int(a) for a in value.reshape(-1)]
            mean = apply_op("Squeeze", input=mean, squeeze_dims=squeezed)
            variance = apply_op("Squeeze", input=variance, squeeze_dims=squeezed)
        return _as(mean, dtype), _as(variance, dtype)


def sufficient_statistics(
    x: Any,
    axes: Any,
    shift: Any = None,
    keep_dims: bool | None = None,
    name: str | None = None,
    keepdims: bool | None = None,
) -> tuple[Tensor, Tensor, Tensor, Any]:
    """Count, sum and sum of squares over `axes`, all shifted."""
    keep = bool(keepdims if keepdims is not None else keep_dims)
    axes = sorted({int(a) for a in np.ravel(axes)})
    with name_scope(name, "sufficient_statistics"):
        x = convert_to_tensor(x, name="x")
        dtype = x.dtype.base_dtype
        dims = x.shape.dims_or_none
        if dims is not None and all(dims[a] is not None for a in axes):
            count = constant(float(np.prod([dims[a] for a in axes])), dtype, name="count")
        else:
            picked = apply_op("GatherV2", params=_shape(x), indices=constant(axes), axis=0)
            count = _reduce("Prod", apply_op("Cast", x=picked, DstT=dtype), [0], name="count")
        if shift is not None:
            shift = convert_to_tensor(shift, dtype, name="shift")
            centered = _call("Sub", x, shift)
            squares = apply_op("SquaredDifference", x=x, y=shift)
        else:
            centered, squares = x, _call("Square", x)
        return (
            count,
            _reduce("Sum", centered, axes, keep, name="mean_ss"),
            _reduce("Sum", squares, axes, keep, name="var_ss"),
            shift,
        )


def normalize_moments(
    counts: Any, mean_ss: Any, variance_ss: Any, shift: Any, name: str | None = None
) -> tuple[Tensor, Tensor]:
    with name_scope(name, "normalize"):
        divisor = _call("Reciprocal", convert_to_tensor(counts), name="divisor")
        if shift is not None:
            shifted = _call("Mul", mean_ss, divisor, name="shifted_mean")
            mean = _call("AddV2", shifted, shift, name="mean")
        else:
            shifted = mean = _call("Mul", mean_ss, divisor, name="mean")
        spread = _call("Mul", variance_ss, divisor)
        return mean, _call("Sub", spread, _call("Square", shifted), name="variance")


def weighted_moments(
    x: Any,
    axes: Any,
    frequency_weights: Any,
    name: str | None = None,
    keep_dims: bool | None = None,
    keepdims: bool | None = None,
) -> tuple[Tensor, Tensor]:
    keep = bool(keepdims if keepdims is not None else keep_dims)
    with name_scope(name, "weighted_moments"):
        x = convert_to_tensor(x, name="x")
        weights = _as(convert_to_tensor(frequency_weights, name="frequency_weights"), x.dtype.base_dtype)
        spread = _call("AddV2", weights, apply_op("ZerosLike", x=x))
        total = _reduce("Sum", spread, axes, True)
        mean = _call("RealDiv", _reduce("Sum", _call("Mul", weights, x), axes, True), total)
        squares = apply_op("SquaredDifference", x=x, y=mean)
        variance = _call("RealDiv", _reduce("Sum", _call("Mul", weights, squares), axes, True), total)
        if not keep:
            squeezed = [int(a) for a in np.ravel(axes)]
            mean = apply_op("Squeeze", input=mean, squeeze_dims=squeezed)
            variance = apply_op("Squeeze", input=variance, squeeze_dims=squeezed)
        return mean, variance


def batch_normalization(
    x: Any, mean: Any, variance: Any, offset: Any, scale: Any, variance_epsilon: float, name: str | None = None
) -> Tensor:
    with name_scope(name, "batchnorm"):
        x = convert_to_tensor(x)
        inverse = _call("Rsqrt", _call("AddV2", variance, variance_epsilon))
        if scale is not None:
            inverse = _call("Mul", inverse, scale)
        shift = _call("Neg", _call("Mul", mean, inverse))
        if offset is not None:
            shift = _call("AddV2", shift, offset)
        dtype = x.dtype.base_dtype
        return _call("AddV2", _call("Mul", x, _as(inverse, dtype)), _as(shift, dtype))


def fused_batch_norm(
    x: Any,
    scale: Any,
    offset: Any,
    mean: Any = None,
    variance: Any = None,
    epsilon: float = 0.001,
    data_format: str = "NHWC",
    is_training: bool = True,
    name: str | None = None,
    exponential_avg_factor: float = 1.0,
) -> tuple[Tensor, Tensor, Tensor]:
    """Output, running mean and running variance.

    Raises:
        ValueError: inference without mean and variance.
    """
    if (not is_training or exponential_avg_factor != 1.0) and (mean is None or variance is None):
        raise ValueError("Both `mean` and `variance` must be given when `is_training` is False")
    x = convert_to_tensor(x, name="input")
    empty = constant([], dtypes.float32)
    # TensorFlow's bound for cuDNN, kept because it changes values.
    epsilon = max(epsilon, 1.001e-5)
    y, running_mean, running_variance, *_ = apply_op(
        "FusedBatchNormV3",
        x=x,
        scale=convert_to_tensor(scale, dtypes.float32, name="scale"),
        offset=convert_to_tensor(offset, dtypes.float32, name="offset"),
        mean=empty if mean is None else mean,
        variance=empty if variance is None else variance,
        epsilon=epsilon,
        exponential_avg_factor=exponential_avg_factor,
        data_format=data_format,
        is_training=is_training,
        name=name,
    )
    return y, running_mean, running_variance


def batch_norm_with_global_normalization(
    t: Any = None,
    m: Any = None,
    v: Any = None,
    beta: Any = None,
    gamma: Any = None,
    variance_epsilon: Any = None,
    scale_after_normalization: Any = None,
    name: str | None = None,
    input: Any = None,
    mean: Any = None,
    variance: Any = None,
) -> Tensor:
    return batch_normalization(
        t if input is None else input,
        m if mean is None else mean,
        v if variance is None else variance,
        beta,
        gamma if scale_after_normalization else None,
        variance_epsilon,
        name,
    )


# Ranking.


class TopK(NamedTuple):
    """What `top_k` gives."""

    values: Tensor
    indices: Tensor


def top_k(input: Any, k: Any = 1, sorted: bool = True, name: str | None = None) -> Any:
    """Values and indices of the k largest entries of each row."""
    values, indices = apply_op("TopKV2", input=input, k=k, sorted=sorted, name=name)
    return TopK(values, indices)


def in_top_k(predictions: Any, targets: Any, k: Any, name: str | None = None) -> Tensor:
    with name_scope(name, "in_top_k"):
        targets = convert_to_tensor(targets, name="targets")
        k = k if isinstance(k, Tensor) else constant(k, targets.dtype.base_dtype)
        return apply_op("InTopKV2", predictions=predictions, targets=targets, k=k)  # type: ignore[no-any-return]


def nth_element(input: Any, n: Any, reverse: bool = False, name: str | None = None) -> Tensor:
    return apply_op("NthElement", input=input, n=n, reverse=reverse, name=name)  # type: ignore[no-any-return]


# Connectionist temporal classification.


def ctc_loss(
    labels: Any,
    inputs: Any = None,
    sequence_length: Any = None,
    preprocess_collapse_repeated: bool = False,
    ctc_merge_repeated: bool = True,
    ignore_longer_outputs_than_inputs: bool = False,
    time_major: bool = True,
    logits: Any = None,
) -> Tensor:
    """CTC loss (Graves et al. 2006); the last class is the blank.

    Raises:
        TypeError: `labels` is no SparseTensor.
    """
    if not isinstance(labels, SparseTensor):
        raise TypeError("Expected argument `labels` to be a SparseTensor. Received " + type(labels).__name__)
    x = convert_to_tensor(inputs if logits is None else logits)
    if not time_major:
        x = apply_op("Transpose", x=x, perm=[1, 0, 2])
    loss, _ = apply_op(
        "CTCLoss",
        inputs=x,
        labels_indices=labels.indices,
        labels_values=labels.values,
        sequence_length=sequence_length,
        preprocess_collapse_repeated=preprocess_collapse_repeated,
        ctc_merge_repeated=ctc_merge_repeated,
        ignore_longer_outputs_than_inputs=ignore_longer_outputs_than_inputs,
    )
    return loss  # type: ignore[no-any-return]


def ctc_greedy_decoder(
    inputs: Any, sequence_length: Any, merge_repeated: bool = True, blank_index: int | None = None
) -> tuple[list[SparseTensor], Tensor]:
    indices, values, shape, probability = apply_op(
        "CTCGreedyDecoder",
        inputs=inputs,
        sequence_length=sequence_length,
        merge_repeated=merge_repeated,
        blank_index=-1 if blank_index is None else blank_index,
    )
    return [SparseTensor(indices, values, shape)], probability


def ctc_beam_search_decoder(
    inputs: Any, sequence_length: Any, beam_width: int = 100, top_paths: int = 1, merge_repeated: bool = True
) -> tuple[list[SparseTensor], Tensor]:
    indices, values, shapes, probability = apply_op(
        "CTCBeamSearchDecoder",
        inputs=inputs,
        sequence_length=sequence_length,
        beam_width=beam_width,
        top_paths=top_paths,
        merge_repeated=merge_repeated,
    )
    return [SparseTensor(*parts) for parts in zip(indices, values, shapes)], probability
