"""`tf.layers`: transposed, separable, 1-D and 3-D convolutions and poolings."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework import context
from dtfctl.runtime.framework.convert import constant, convert_to_tensor
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.ops import init_ops, nn_ops
from dtfctl.runtime.ops.layer_arguments import grown_length, layer_scope, sized
from dtfctl.runtime.ops.layer_variables import layer_variable
from dtfctl.runtime.ops.layers import Activation, _finish, _format, _kernel, _last_dimension, _windows


def _transposed(
    rank: int,
    inputs: Any,
    filters: int,
    kernel_size: Any,
    strides: Any,
    padding: str,
    data_format: str,
    activation: Activation | None,
    use_bias: bool,
    kernel_initializer: Any,
    bias_initializer: Any,
    kernel_regularizer: Any,
    bias_regularizer: Any,
    activity_regularizer: Any,
    kernel_constraint: Any,
    bias_constraint: Any,
    trainable: bool,
    name: Any,
    reuse: Any,
) -> Tensor:
    x = convert_to_tensor(inputs)
    wire = _format(data_format, "NHWC", "NCHW")
    first = 1 if data_format == "channels_last" else 2
    size, steps = sized(kernel_size, rank, "kernel_size"), sized(strides, rank, "strides")
    channels = _last_dimension(x, -1 if data_format == "channels_last" else 1)
    with layer_scope(name, f"conv{rank}d_transpose", reuse):
        shape = [*size, filters, channels]
        kernel = _kernel(x, shape, kernel_initializer, kernel_regularizer, trainable, kernel_constraint)
        known = x.shape.as_list()
        dynamic = apply_op("Shape", input=x)

        def dimension(axis: int) -> Any:
            if known[axis] is not None:
                return known[axis]
            return apply_op(
                "StridedSlice", input=dynamic, begin=[axis], end=[axis + 1], strides=[1], shrink_axis_mask=1
            )

        grown = [grown_length(dimension(first + i), size[i], steps[i], padding) for i in range(rank)]
        static = [None if isinstance(g, Tensor) else g for g in grown]
        dims = [dimension(0), *grown, filters] if first == 1 else [dimension(0), filters, *grown]
        wanted = apply_op("Pack", values=[convert_to_tensor(d) for d in dims])
        function: Any = nn_ops.conv2d_transpose if rank == 2 else nn_ops.conv3d_transpose
        layout = wire if rank == 2 else ("NDHWC" if first == 1 else "NCDHW")
        out = function(x, kernel, wanted, _windows(steps, data_format), padding.upper(), layout)
        out.set_shape([known[0], *static, filters] if first == 1 else [known[0], filters, *static])
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


def conv2d_transpose(
    inputs: Any,
    filters: int,
    kernel_size: Any,
    strides: Any = (1, 1),
    padding: str = "valid",
    data_format: str = "channels_last",
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
    """Convolve transposed in two dimensions: [batch, height, width, channels] -> larger ones of `filters` channels."""
    return _transposed(2, **locals())


def conv3d_transpose(
    inputs: Any,
    filters: int,
    kernel_size: Any,
    strides: Any = (1, 1, 1),
    padding: str = "valid",
    data_format: str = "channels_last",
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
    """Convolve transposed in three dimensions: [batch, depth, height, width, channels] -> a larger volume."""
    return _transposed(3, **locals())


def conv3d(
    inputs: Any,
    filters: int,
    kernel_size: Any,
    strides: Any = (1, 1, 1),
    padding: str = "valid",
    data_format: str = "channels_last",
    dilation_rate: Any = (1, 1, 1),
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
    """Convolve in three dimensions: [batch, depth, height, width, channels] -> [batch, ..., filters]."""
    x = convert_to_tensor(inputs)
    channels = _last_dimension(x, -1 if data_format == "channels_last" else 1)
    shape = [*sized(kernel_size, 3, "kernel_size"), channels, filters]
    with layer_scope(name, "conv3d", reuse):
        kernel = _kernel(x, shape, kernel_initializer, kernel_regularizer, trainable, kernel_constraint)
        out = apply_op(
            "Conv3D",
            input=x,
            filter=kernel,
            strides=_windows(sized(strides, 3, "strides"), data_format),
            padding=padding.upper(),
            data_format=_format(data_format, "NDHWC", "NCDHW"),
            dilations=_windows(sized(dilation_rate, 3, "dilation_rate"), data_format),
        )
        return _finish(
            out,
            filters,
            _format(data_format, "NHWC", "NCHW"),
            use_bias,
            bias_initializer,
            bias_regularizer,
            trainable,
            bias_constraint,
            activation,
            activity_regularizer,
        )


def separable_conv2d(
    inputs: Any,
    filters: int,
    kernel_size: Any,
    strides: Any = (1, 1),
    padding: str = "valid",
    data_format: str = "channels_last",
    dilation_rate: Any = (1, 1),
    depth_multiplier: int = 1,
    activation: Activation | None = None,
    use_bias: bool = True,
    depthwise_initializer: Any = None,
    pointwise_initializer: Any = None,
    bias_initializer: Any = init_ops.Zeros,
    depthwise_regularizer: Any = None,
    pointwise_regularizer: Any = None,
    bias_regularizer: Any = None,
    activity_regularizer: Any = None,
    depthwise_constraint: Any = None,
    pointwise_constraint: Any = None,
    bias_constraint: Any = None,
    trainable: bool = True,
    name: str | None = None,
    reuse: Any = None,
) -> Tensor:
    """Convolve each channel by itself, then all with a kernel of 1 x 1."""
    x = convert_to_tensor(inputs)
    dtype = x.dtype.base_dtype
    channels = _last_dimension(x, -1 if data_format == "channels_last" else 1)
    size, wire = sized(kernel_size, 2, "kernel_size"), _format(data_format, "NHWC", "NCHW")
    with layer_scope(name, "separable_conv2d", reuse):
        depthwise = layer_variable(
            "depthwise_kernel",
            [*size, channels, depth_multiplier],
            dtype,
            depthwise_initializer,
            depthwise_regularizer,
            trainable,
            constraint=depthwise_constraint,
        )
        pointwise = layer_variable(
            "pointwise_kernel",
            [1, 1, channels * depth_multiplier, filters],
            dtype,
            pointwise_initializer,
            pointwise_regularizer,
            trainable,
            constraint=pointwise_constraint,
        )
        out = nn_ops.separable_conv2d(
            x,
            depthwise,
            pointwise,
            _windows(sized(strides, 2, "strides"), data_format),
            padding.upper(),
            sized(dilation_rate, 2, "dilation_rate"),
            data_format=wire,
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


def separable_conv1d(
    inputs: Any,
    filters: int,
    kernel_size: Any,
    strides: Any = 1,
    padding: str = "valid",
    data_format: str = "channels_last",
    dilation_rate: Any = 1,
    depth_multiplier: int = 1,
    activation: Activation | None = None,
    use_bias: bool = True,
    depthwise_initializer: Any = None,
    pointwise_initializer: Any = None,
    bias_initializer: Any = init_ops.Zeros,
    depthwise_regularizer: Any = None,
    pointwise_regularizer: Any = None,
    bias_regularizer: Any = None,
    activity_regularizer: Any = None,
    depthwise_constraint: Any = None,
    pointwise_constraint: Any = None,
    bias_constraint: Any = None,
    trainable: bool = True,
    name: str | None = None,
    reuse: Any = None,
) -> Tensor:
    """Apply `separable_conv2d` to sequences [batch, length, channels].

    Raises:
        NotImplementedError: the channels come first.
    """
    x = convert_to_tensor(inputs)
    if data_format != "channels_last":
        raise NotImplementedError("tf.layers.separable_conv1d: only data_format='channels_last'; transpose the inputs")
    dtype, channels = x.dtype.base_dtype, _last_dimension(x)
    (size,), (stride,), (dilation,) = (sized(v, 1, "kernel_size") for v in (kernel_size, strides, dilation_rate))
    with layer_scope(name, "separable_conv1d", reuse):
        depthwise = layer_variable(
            "depthwise_kernel",
            [size, channels, depth_multiplier],
            dtype,
            depthwise_initializer,
            depthwise_regularizer,
            trainable,
            constraint=depthwise_constraint,
        )
        pointwise = layer_variable(
            "pointwise_kernel",
            [1, channels * depth_multiplier, filters],
            dtype,
            pointwise_initializer,
            pointwise_regularizer,
            trainable,
            constraint=pointwise_constraint,
        )
        wide = nn_ops.separable_conv2d(
            apply_op("ExpandDims", input=x, dim=1),
            apply_op("ExpandDims", input=depthwise, dim=0),
            apply_op("ExpandDims", input=pointwise, dim=0),
            [1, stride, stride, 1],
            padding.upper(),
            (1, dilation),
        )
        out = apply_op("Squeeze", input=wide, squeeze_dims=[1])
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


def _pool1d(op: str, inputs: Any, size: Any, strides: Any, padding: str, data_format: str, name: str) -> Tensor:
    x = convert_to_tensor(inputs)
    (width,), (step,) = sized(size, 1, "pool_size"), sized(strides, 1, "strides")
    axis = 2 if _format(data_format, "", "first") else 1
    wire = _format(data_format, "NHWC", "NCHW")
    key = "input" if op == "MaxPool" else "value"
    ksize, steps = (_windows((n, 1), data_format) for n in (width, step))
    with context.get_default_graph().name_scope(name):
        wide = apply_op("ExpandDims", input=x, dim=constant(axis + 1))
        arguments: dict[str, Any] = {key: wide, "ksize": ksize, "strides": steps, "data_format": wire}
        pooled = apply_op(op, padding=padding.upper(), **arguments)
        return apply_op("Squeeze", input=pooled, squeeze_dims=[axis + 1])


def max_pooling1d(
    inputs: Any,
    pool_size: Any,
    strides: Any,
    padding: str = "valid",
    data_format: str = "channels_last",
    name: str | None = None,
) -> Tensor:
    """Take maxima over windows of sequences."""
    return _pool1d("MaxPool", inputs, pool_size, strides, padding, data_format, name or "max_pooling1d")


def average_pooling1d(
    inputs: Any,
    pool_size: Any,
    strides: Any,
    padding: str = "valid",
    data_format: str = "channels_last",
    name: str | None = None,
) -> Tensor:
    """Take means over windows of sequences."""
    return _pool1d("AvgPool", inputs, pool_size, strides, padding, data_format, name or "average_pooling1d")


def _pool3d(op: str, inputs: Any, size: Any, strides: Any, padding: str, data_format: str, name: str) -> Tensor:
    return apply_op(
        op,
        input=convert_to_tensor(inputs),
        ksize=_windows(sized(size, 3, "pool_size"), data_format),
        strides=_windows(sized(strides, 3, "strides"), data_format),
        padding=padding.upper(),
        data_format=_format(data_format, "NDHWC", "NCDHW"),
        name=name,
    )


def max_pooling3d(
    inputs: Any,
    pool_size: Any,
    strides: Any,
    padding: str = "valid",
    data_format: str = "channels_last",
    name: str | None = None,
) -> Tensor:
    """Take maxima over windows of volumes."""
    return _pool3d("MaxPool3D", inputs, pool_size, strides, padding, data_format, name or "max_pooling3d")


def average_pooling3d(
    inputs: Any,
    pool_size: Any,
    strides: Any,
    padding: str = "valid",
    data_format: str = "channels_last",
    name: str | None = None,
) -> Tensor:
    """Take means over windows of volumes."""
    return _pool3d("AvgPool3D", inputs, pool_size, strides, padding, data_format, name or "average_pooling3d")
