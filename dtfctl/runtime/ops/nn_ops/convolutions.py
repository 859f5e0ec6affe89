"""Convolutions, their transposes, and morphology."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfctl.runtime.framework.convert import convert_to_tensor
from dtfctl.runtime.framework.graph_keys import name_scope
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.ops.nn_ops.common import padding_attrs, window
from dtfctl.runtime.ops.op_defs.nn import dilation2d
from dtfctl.runtime.ops.operands import apply_mixed


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
    """Convolve images with [height, width, in, out] filters."""
    filter = filter if filters is None else filters
    if padding is None:
        raise ValueError("`padding` must be provided.")
    data_format = data_format or "NHWC"
    return apply_op(
        "Conv2D",
        input=input,
        filter=filter,
        strides=window(strides, 2, data_format, "strides"),
        use_cudnn_on_gpu=use_cudnn_on_gpu,
        data_format=data_format,
        dilations=window(dilations, 2, data_format, "dilations"),
        name=name,
        **padding_attrs(padding),
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
    """Compute the gradient of a convolution with respect to its input."""
    return apply_op(
        "Conv2DBackpropInput",
        input_sizes=input_sizes,
        filter=filter if filters is None else filters,
        out_backprop=out_backprop,
        strides=strides,
        use_cudnn_on_gpu=use_cudnn_on_gpu,
        data_format=data_format,
        dilations=list(dilations),
        name=name,
        **padding_attrs(padding),
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
    """Compute the gradient of a convolution with respect to its filter."""
    return apply_op(
        "Conv2DBackpropFilter",
        input=input,
        filter_sizes=filter_sizes,
        out_backprop=out_backprop,
        strides=strides,
        use_cudnn_on_gpu=use_cudnn_on_gpu,
        data_format=data_format,
        dilations=list(dilations),
        name=name,
        **padding_attrs(padding),
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
    """Apply the gradient of a convolution forward."""
    value = value if input is None else input
    filter = filter if filters is None else filters
    with name_scope(name, "conv2d_transpose") as scope:
        return apply_op(
            "Conv2DBackpropInput",
            input_sizes=output_shape,
            filter=filter,
            out_backprop=value,
            strides=window(strides, 2, data_format, "strides"),
            data_format=data_format,
            dilations=window(dilations, 2, data_format, "dilations"),
            name=scope,
            **padding_attrs(padding),
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
    """Convolve over one dimension, done as over two."""
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
            **padding_attrs(padding),
        )
        return apply_op("Squeeze", input=out, squeeze_dims=[axis])


def conv1d_transpose(
    input: Any,
    filters: Any,
    output_shape: Any,
    strides: Any,
    padding: Any = "SAME",
    data_format: str | None = "NWC",
    dilations: Any = None,
    name: str | None = None,
) -> Tensor:
    """Apply the transpose of `conv1d`: a longer sequence from a shorter one, done as over two dimensions.

    Raises:
        ValueError: an unknown data format.
    """
    if data_format not in (None, "NWC", "NCW"):
        raise ValueError(f"`data_format` must be 'NWC' or 'NCW'. Received: data_format={data_format}")
    with name_scope(name, "conv1d_transpose"):
        axis = 2 if data_format == "NCW" else 1
        form = "NCHW" if data_format == "NCW" else "NHWC"
        steps, spread = ([int(n) for n in np.ravel(1 if v is None else v)] for v in (strides, dilations))
        step, rate = (v[0] if len(v) == 1 else v[axis] for v in (steps, spread))
        sizes = output_shape if isinstance(output_shape, Tensor) else list(output_shape)
        parts = [sizes[:axis], [1], sizes[axis:]]
        wide = (
            apply_op("ConcatV2", values=parts, axis=0) if isinstance(sizes, Tensor) else [n for p in parts for n in p]
        )
        out = apply_op(
            "Conv2DBackpropInput",
            input_sizes=wide,
            filter=apply_op("ExpandDims", input=filters, dim=0),
            out_backprop=apply_op("ExpandDims", input=input, dim=axis),
            strides=window([1, step], 2, form, "strides"),
            dilations=window([1, rate], 2, form, "dilations"),
            data_format=form,
            **padding_attrs(padding),
        )
        return apply_op("Squeeze", input=out, squeeze_dims=[axis])


def conv_transpose(
    input: Any,
    filters: Any,
    output_shape: Any,
    strides: Any,
    padding: Any = "SAME",
    data_format: str | None = None,
    dilations: Any = None,
    name: str | None = None,
) -> Tensor:
    """Apply the transpose of a convolution over one to three dimensions, by the length of `output_shape`.

    Raises:
        ValueError: it is of another length.
    """
    rank = int(output_shape.shape[0]) if isinstance(output_shape, Tensor) else len(output_shape)
    if not 3 <= rank <= 5:
        raise ValueError(f"`output_shape` must be of length 3, 4 or 5. Received: output_shape={output_shape}")
    with name_scope(name, "conv_transpose") as scope:
        op = (conv1d_transpose, conv2d_transpose, conv3d_transpose)[rank - 3]
        form = data_format or ("NWC", "NHWC", "NDHWC")[rank - 3]
        return op(input, filters, output_shape, strides, padding, form, dilations=dilations, name=scope)


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
    """Convolve volumes with [depth, height, width, in, out] filters."""
    return apply_op(
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
    """Apply the transpose of `conv3d`: a larger volume from a smaller one."""
    with name_scope(name, "conv3d_transpose") as scope:
        return apply_op(
            "Conv3DBackpropInputV2",
            input_sizes=output_shape,
            filter=filter if filters is None else filters,
            out_backprop=value if input is None else input,
            strides=window(strides, 3, data_format, "strides"),
            padding=padding,
            data_format=data_format,
            dilations=window(dilations, 3, data_format, "dilations"),
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
    """Convolve each channel with filters of its own, as one op."""
    return apply_op(
        "DepthwiseConv2dNative",
        input=input,
        filter=filter,
        strides=strides,
        data_format=data_format,
        dilations=list(dilations),
        name=name,
        **padding_attrs(padding),
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
    """Convolve each channel with filters of its own."""
    rate = rate if dilations is None else dilations
    data_format = data_format or "NHWC"
    with name_scope(name, "depthwise") as scope:
        return depthwise_conv2d_native(
            convert_to_tensor(input, name="tensor_in"),
            convert_to_tensor(filter, name="filter_in"),
            strides,
            padding,
            data_format,
            window(rate, 2, data_format, "rate"),
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
    """Convolve each channel by itself, then all with a filter of 1 x 1."""
    data_format = data_format or "NHWC"
    with name_scope(name, "separable_conv2d") as scope:
        inner = depthwise_conv2d(input, depthwise_filter, strides, padding, rate, "depthwise", data_format, dilations)
        return conv2d(inner, pointwise_filter, [1, 1, 1, 1], "VALID", data_format=data_format, name=scope)


def atrous_conv2d(value: Any, filters: Any, rate: int, padding: Any, name: str | None = None) -> Tensor:
    """Convolve with holes of `rate` - 1 pixels between the filter's elements."""
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
    """Convolve over as many dimensions as the filter has."""
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
        steps, spread = window(strides, rank - 2, form, "strides"), window(rate, rank - 2, form, "dilations")
        if rank == 4:
            return conv2d(input, filter, steps, padding, data_format=form, dilations=spread, name=scope)
        return conv3d(input, filter, steps, padding, form, spread, scope)


def erosion2d(value: Any, kernel: Any, strides: Any, rates: Any, padding: str, name: str | None = None) -> Tensor:
    """Erode grayscale images: the minimum of input minus filter."""
    with name_scope(name, "erosion2d") as scope:
        turned = apply_op("ReverseV2", tensor=kernel, axis=[0, 1])
        return apply_mixed("Neg", dilation2d(apply_mixed("Neg", value), turned, strides, rates, padding), name=scope)
