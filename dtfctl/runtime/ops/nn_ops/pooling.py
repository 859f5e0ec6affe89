"""Pooling over windows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.dtypes import as_dtype
from dtfctl.runtime.framework.graph_keys import name_scope
from dtfctl.runtime.framework.op_builder import apply_op, apply_op_outputs
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.ops.nn_ops.common import padding_attrs, window


def avg_pool(
    value: Any = None,
    ksize: Any = None,
    strides: Any = None,
    padding: Any = None,
    data_format: str = "NHWC",
    name: str | None = None,
    input: Any = None,
) -> Tensor:
    """Take means over windows of images."""
    with name_scope(name, "AvgPool") as scope:
        return apply_op(
            "AvgPool",
            value=value if input is None else input,
            ksize=window(ksize, 2, data_format, "ksize"),
            strides=window(strides, 2, data_format, "strides"),
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
    """Take maxima over windows of images."""
    with name_scope(name, "MaxPool") as scope:
        return apply_op(
            "MaxPool",
            input=value if input is None else input,
            ksize=window(ksize, 2, data_format, "ksize"),
            strides=window(strides, 2, data_format, "strides"),
            data_format=data_format,
            name=scope,
            **padding_attrs(padding),
        )


def max_pool2d(
    input: Any, ksize: Any, strides: Any, padding: Any, data_format: str = "NHWC", name: str | None = None
) -> Tensor:
    """Take maxima over windows of images."""
    return max_pool(input, ksize, strides, padding, data_format, name)


def avg_pool3d(
    input: Any, ksize: Any, strides: Any, padding: str, data_format: str = "NDHWC", name: str | None = None
) -> Tensor:
    """Take means over windows of volumes."""
    return _pool3d("AvgPool3D", input, ksize, strides, padding, data_format, name)


def max_pool3d(
    input: Any, ksize: Any, strides: Any, padding: str, data_format: str = "NDHWC", name: str | None = None
) -> Tensor:
    """Take maxima over windows of volumes."""
    return _pool3d("MaxPool3D", input, ksize, strides, padding, data_format, name)


def _pool3d(op: str, x: Any, ksize: Any, strides: Any, padding: str, data_format: str, name: str | None) -> Tensor:
    return apply_op(
        op,
        input=x,
        ksize=window(ksize, 3, data_format, "ksize"),
        strides=window(strides, 3, data_format, "strides"),
        padding=padding,
        data_format=data_format,
        name=name,
    )


def avg_pool1d(
    input: Any, ksize: Any, strides: Any, padding: str, data_format: str = "NWC", name: str | None = None
) -> Tensor:
    """Take means over windows of sequences."""
    return _pool1d(avg_pool, input, ksize, strides, padding, data_format, name or "AvgPool1D")


def max_pool1d(
    input: Any, ksize: Any, strides: Any, padding: str, data_format: str = "NWC", name: str | None = None
) -> Tensor:
    """Take maxima over windows of sequences."""
    return _pool1d(max_pool, input, ksize, strides, padding, data_format, name or "MaxPool1D")


def _pool1d(function: Any, x: Any, ksize: Any, strides: Any, padding: str, data_format: str, name: str) -> Tensor:
    first = data_format == "NCW"
    axis = 2 if first else 1
    with name_scope(name):
        wide = [int(np.ravel(v)[0 if np.size(v) == 1 else axis]) for v in (ksize, strides)]
        window, step = ([1, 1, 1, w] if first else [1, 1, w, 1] for w in wide)
        out = function(apply_op("ExpandDims", input=x, dim=axis), window, step, padding, "NCHW" if first else "NHWC")
        return apply_op("Squeeze", input=out, squeeze_dims=[axis])


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
    """Take maxima over windows of images, and find their flat positions."""
    if data_format != "NHWC":
        raise ValueError(f"`data_format` values other than 'NHWC' are not supported. Received: {data_format}")
    return apply_op_outputs(
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
    """Pool over one to three dimensions.

    Raises:
        ValueError: an unknown type, or dilations, which pooling ops do not have.
    """
    rate = dilation_rate if dilations is None else dilations
    if rate is not None and any(int(r) != 1 for r in np.ravel(rate)):
        raise ValueError("Dilated pooling is not supported; use tf.nn.max_pool on a strided slice of the input instead")
    size = len(window_shape)
    if size not in (1, 2, 3) or pooling_type not in ("MAX", "AVG"):
        raise ValueError(f"Unsupported pooling: {pooling_type} over {size} dimensions")
    table: dict[tuple[str, int], Callable[..., Tensor]] = {
        ("MAX", 1): max_pool1d,
        ("MAX", 2): max_pool,
        ("MAX", 3): max_pool3d,
        ("AVG", 1): avg_pool1d,
        ("AVG", 2): avg_pool,
        ("AVG", 3): avg_pool3d,
    }
    form = data_format or ("NWC", "NHWC", "NDHWC")[size - 1]
    steps = [1] * size if strides is None else list(np.ravel(strides))
    return table[pooling_type, size](input, list(window_shape), steps, padding, form, name)
