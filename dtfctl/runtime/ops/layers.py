"""`tf.layers`: functions that make variables by name and apply them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dtfctl.runtime.framework import context, dtypes
from dtfctl.runtime.framework.convert import constant, convert_to_tensor
from dtfctl.runtime.framework.graph_keys import GraphKeys
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.ops import init_ops, math_ops, nn_ops
from dtfctl.runtime.ops.batch_normalization import can_be_fused, normalize_batch
from dtfctl.runtime.ops.cond import smart_cond
from dtfctl.runtime.ops.layer_arguments import layer_scope, sized
from dtfctl.runtime.ops.layer_variables import layer_variable
from dtfctl.runtime.ops.variables import VariableAggregation, VariableSynchronization

Activation = Callable[[Tensor], Tensor]


def _last_dimension(tensor: Tensor, axis: int = -1) -> int:
    if tensor.shape.rank is None or tensor.shape[axis].value is None:
        raise ValueError(f"The axis {axis} of the inputs must have a known size, got {tensor.shape}")
    return int(tensor.shape[axis].value)


def _activated(tensor: Tensor, activation: Activation | None, regularizer: Any) -> Tensor:
    out = tensor if activation is None else activation(tensor)
    if regularizer is not None:
        context.get_default_graph().add_to_collection(GraphKeys.REGULARIZATION_LOSSES, regularizer(out))
    return out


def _kernel(x: Tensor, shape: list[int], initializer: Any, regularizer: Any, trainable: bool, constraint: Any) -> Any:
    return layer_variable(
        "kernel", shape, x.dtype.base_dtype, initializer, regularizer, trainable, constraint=constraint
    )


def _finish(
    out: Tensor,
    filters: int,
    wire: str,
    use_bias: bool,
    initializer: Any,
    regularizer: Any,
    trainable: bool,
    constraint: Any,
    activation: Activation | None,
    activity_regularizer: Any,
) -> Tensor:
    """Add the bias, apply the activation and charge for it."""
    if use_bias:
        dtype = out.dtype.base_dtype
        bias = layer_variable("bias", [filters], dtype, initializer, regularizer, trainable, constraint=constraint)
        out = apply_op("BiasAdd", value=out, bias=bias, data_format=wire)
    return _activated(out, activation, activity_regularizer)


def dense(
    inputs: Any,
    units: int,
    activation: Activation | None = None,
    use_bias: bool = True,
    kernel_initializer: Any = None,
    bias_initializer: Any = init_ops.Zeros,
    kernel_regularizer: Any = None,
    bias_regularizer: Any = None,
    activity_regularizer: Any = None,
    kernel_constraint: Any = None,
    bias_constraint: Any = None,
    trainable: bool = True,
    name: str | None = None,
    reuse: Any = None,
) -> Tensor:
    """Compute activation(inputs . kernel + bias) over the last axis: [..., n] -> [..., units]."""
    x = convert_to_tensor(inputs)
    if x.shape.rank is not None and x.shape.rank < 2:
        raise ValueError(
            f"Inputs to `dense` should have rank >= 2: expected min_ndim=2, found ndim={x.shape.rank}. "
            f"Full shape received: {x.shape}"
        )
    if not (x.dtype.is_floating or x.dtype.is_complex):
        raise TypeError(f"A dense layer has weights of its inputs' type, a floating-point one, not {x.dtype.name}")
    size = _last_dimension(x)
    with layer_scope(name, "dense", reuse):
        kernel = _kernel(x, [size, units], kernel_initializer, kernel_regularizer, trainable, kernel_constraint)
        if x.shape.rank == 2:
            out = apply_op("MatMul", a=x, b=kernel)
        else:
            # The size of the last dimension is known, so the rank is.
            out = math_ops.tensordot(x, kernel, [[len(x.shape.as_list()) - 1], [0]])
            out.set_shape(x.shape[:-1].concatenate([units]))
        return _finish(
            out,
            units,
            "NHWC",
            use_bias,
            bias_initializer,
            bias_regularizer,
            trainable,
            bias_constraint,
            activation,
            activity_regularizer,
        )


def _format(data_format: str, channels_last: str, channels_first: str) -> str:
    if data_format not in ("channels_last", "channels_first"):
        raise ValueError(f"data_format must be 'channels_last' or 'channels_first', got {data_format!r}")
    return channels_last if data_format == "channels_last" else channels_first


def _windows(values: Sequence[int], data_format: str) -> list[int]:
    return [1, *values, 1] if data_format == "channels_last" else [1, 1, *values]


def conv2d(
    inputs: Any,
    filters: int,
    kernel_size: Any,
    strides: Any = (1, 1),
    padding: str = "valid",
    data_format: str = "channels_last",
    dilation_rate: Any = (1, 1),
    activation: Activation | None = None,
    use_bias: bool = True,
    kernel_initializer: Any = None,
    bias_initializer: Any = init_ops.Zeros,
    kernel_regularizer: Any = None,
    bias_regularizer: Any = None,
    activity_regularizer: Any = None,
    kernel_constraint: Any = None,
    bias_constraint: Any = None,
    trainable: bool = True,
    name: str | None = None,
    reuse: Any = None,
) -> Tensor:
    """Convolve in two dimensions: [batch, height, width, channels] -> [batch, new_height, new_width, filters]."""
    x = convert_to_tensor(inputs)
    wire = _format(data_format, "NHWC", "NCHW")
    channels = _last_dimension(x, -1 if data_format == "channels_last" else 1)
    size = sized(kernel_size, 2, "kernel_size")
    with layer_scope(name, "conv2d", reuse):
        shape = [*size, channels, filters]
        kernel = _kernel(x, shape, kernel_initializer, kernel_regularizer, trainable, kernel_constraint)
        out = apply_op(
            "Conv2D",
            input=x,
            filter=kernel,
            strides=_windows(sized(strides, 2, "strides"), data_format),
            padding=padding.upper(),
            data_format=wire,
            dilations=_windows(sized(dilation_rate, 2, "dilation_rate"), data_format),
        )
        return _finish(
            out,
            filters,
            wire,
            use_bias,
            bias_initializer,
            bias_regularizer,
            trainable,
            bias_constraint,
            activation,
            activity_regularizer,
        )


def conv1d(
    inputs: Any,
    filters: int,
    kernel_size: Any,
    strides: Any = 1,
    padding: str = "valid",
    data_format: str = "channels_last",
    dilation_rate: Any = 1,
    activation: Activation | None = None,
    use_bias: bool = True,
    kernel_initializer: Any = None,
    bias_initializer: Any = init_ops.Zeros,
    kernel_regularizer: Any = None,
    bias_regularizer: Any = None,
    activity_regularizer: Any = None,
    kernel_constraint: Any = None,
    bias_constraint: Any = None,
    trainable: bool = True,
    name: str | None = None,
    reuse: Any = None,
) -> Tensor:
    """Convolve in one dimension: [batch, length, channels] -> [batch, new_length, filters]."""
    x = convert_to_tensor(inputs)
    if data_format != "channels_last":
        raise NotImplementedError("tf.layers.conv1d: only data_format='channels_last'; transpose the inputs")
    (size,), (stride,), (dilation,) = (
        sized(v, 1, w)
        for v, w in ((kernel_size, "kernel_size"), (strides, "strides"), (dilation_rate, "dilation_rate"))
    )
    with layer_scope(name, "conv1d", reuse):
        shape = [size, _last_dimension(x), filters]
        kernel = _kernel(x, shape, kernel_initializer, kernel_regularizer, trainable, kernel_constraint)
        out = apply_op(
            "Conv2D",
            input=apply_op("ExpandDims", input=x, dim=1),
            filter=apply_op("ExpandDims", input=kernel, dim=0),
            strides=[1, 1, stride, 1],
            padding=padding.upper(),
            dilations=[1, 1, dilation, 1],
        )
        out = apply_op("Squeeze", input=out, squeeze_dims=[1])
        return _finish(
            out,
            filters,
            "NHWC",
            use_bias,
            bias_initializer,
            bias_regularizer,
            trainable,
            bias_constraint,
            activation,
            activity_regularizer,
        )


def _pool2d(op: str, inputs: Any, size: Any, strides: Any, padding: str, data_format: str, name: str | None) -> Tensor:
    x = convert_to_tensor(inputs)
    arguments: dict[str, Any] = {"input" if op == "MaxPool" else "value": x}
    with context.get_default_graph().name_scope(name):
        return apply_op(
            op,
            ksize=_windows(sized(size, 2, "pool_size"), data_format),
            strides=_windows(sized(strides, 2, "strides"), data_format),
            padding=padding.upper(),
            data_format=_format(data_format, "NHWC", "NCHW"),
            **arguments,
        )


def max_pooling2d(
    inputs: Any,
    pool_size: Any,
    strides: Any,
    padding: str = "valid",
    data_format: str = "channels_last",
    name: str | None = None,
) -> Tensor:
    return _pool2d("MaxPool", inputs, pool_size, strides, padding, data_format, name or "max_pooling2d")


def average_pooling2d(
    inputs: Any,
    pool_size: Any,
    strides: Any,
    padding: str = "valid",
    data_format: str = "channels_last",
    name: str | None = None,
) -> Tensor:
    return _pool2d("AvgPool", inputs, pool_size, strides, padding, data_format, name or "average_pooling2d")


def flatten(inputs: Any, name: str | None = None, data_format: str = "channels_last") -> Tensor:
    """Flatten [batch, ...] to [batch, n]."""
    x = convert_to_tensor(inputs)
    dims = x.shape.dims_or_none
    rest = None if dims is None else TensorShape(dims[1:]).num_elements()
    out: Tensor
    with context.get_default_graph().name_scope(name or "flatten"):
        if rest is not None:
            out = apply_op("Reshape", tensor=x, shape=constant([-1, rest], dtypes.int32))
        else:
            batch = apply_op("StridedSlice", input=apply_op("Shape", input=x), begin=[0], end=[1], strides=[1])
            shape = apply_op("ConcatV2", values=[batch, constant([-1])], axis=0)
            out = apply_op("Reshape", tensor=x, shape=shape)
    out.set_shape([None if dims is None else dims[0], rest])
    return out


def dropout(
    inputs: Any,
    rate: Any = 0.5,
    noise_shape: Any = None,
    seed: int | None = None,
    training: Any = False,
    name: str | None = None,
) -> Tensor:
    """Zero a fraction `rate` of the elements while training, and scale up the others."""
    x = convert_to_tensor(inputs)
    with context.get_default_graph().name_scope(name or "dropout"):
        return smart_cond(
            training,
            lambda: nn_ops.dropout(x, rate=rate, noise_shape=noise_shape, seed=seed),
            lambda: apply_op("Identity", input=x),
        )


def batch_normalization(
    inputs: Any,
    axis: int | Sequence[int] = -1,
    momentum: float = 0.99,
    epsilon: float = 1e-3,
    center: bool = True,
    scale: bool = True,
    beta_initializer: Any = init_ops.Zeros,
    gamma_initializer: Any = init_ops.Ones,
    moving_mean_initializer: Any = init_ops.Zeros,
    moving_variance_initializer: Any = init_ops.Ones,
    beta_regularizer: Any = None,
    gamma_regularizer: Any = None,
    beta_constraint: Any = None,
    gamma_constraint: Any = None,
    training: Any = False,
    trainable: bool = True,
    name: str | None = None,
    reuse: Any = None,
    renorm: bool = False,
    renorm_clipping: Any = None,
    renorm_momentum: float = 0.99,
    fused: bool | None = None,
    virtual_batch_size: int | None = None,
    adjustment: Any = None,
) -> Tensor:
    """Normalize each channel over the batch (Ioffe & Szegedy, 2015).

    While training it uses the batch's moments and adds ops to UPDATE_OPS that move the averages used otherwise; run
    those together with the train op. Inputs of half precision are normalized in float32.

    Args:
        axis: that of the channels, or a list with it alone.
        fused: False to add up the moments by elementary ops: the variance that is kept is then that of the batch, and
            not the unbiased one of what it is taken from. One op does all where the inputs have 4 dimensions and are
            not of float64, unless this is False.
        renorm, virtual_batch_size, adjustment: refused; `renorm_clipping` and `renorm_momentum` are of `renorm` alone.

    Raises:
        ValueError: the batch is to be renormalized, cut or adjusted.
    """
    if renorm or virtual_batch_size is not None or adjustment is not None:
        raise ValueError(
            "batch_normalization does not renormalize, cut or adjust batches: leave renorm, virtual_batch_size and "
            "adjustment out, or write it with tf.nn.moments and tf.nn.batch_normalization"
        )
    x = convert_to_tensor(inputs)
    rank = x.shape.rank
    if rank is None:
        raise ValueError("batch_normalization needs inputs of known rank")
    if not isinstance(axis, int):
        if len(axis) != 1:
            raise ValueError(f"batch_normalization takes one axis of channels, not {list(axis)}")
        axis = axis[0]
    axis %= rank
    size = _last_dimension(x, axis)
    given = x.dtype.base_dtype
    dtype = dtypes.float64 if given is dtypes.float64 else dtypes.float32
    with layer_scope(name, "batch_normalization", reuse) as opened:
        gamma = (
            layer_variable(
                "gamma", [size], dtype, gamma_initializer, gamma_regularizer, trainable, constraint=gamma_constraint
            )
            if scale
            else None
        )
        beta = (
            layer_variable(
                "beta", [size], dtype, beta_initializer, beta_regularizer, trainable, constraint=beta_constraint
            )
            if center
            else None
        )
        # What is not trained is not cut into parts.
        opened.set_partitioner(None)
        # Under a strategy every replica moves its own.
        own: dict[str, Any] = {
            "trainable": False,
            "synchronization": VariableSynchronization.ON_READ,
            "aggregation": VariableAggregation.MEAN,
        }
        mean = layer_variable("moving_mean", [size], dtype, moving_mean_initializer, **own)
        variance = layer_variable("moving_variance", [size], dtype, moving_variance_initializer, **own)
        return normalize_batch(
            x,
            axis,
            gamma,
            beta,
            mean,
            variance,
            epsilon,
            momentum,
            training,
            can_be_fused(rank, axis, dtype, fused),
            lambda update: context.get_default_graph().add_to_collection(GraphKeys.UPDATE_OPS, update.op),
        )
