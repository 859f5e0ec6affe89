"""Pooling over windows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.convert import convert_to_tensor
from dtfctl.runtime.framework.dtypes import as_dtype
from dtfctl.runtime.framework.graph_keys import name_scope
from dtfctl.runtime.framework.op_builder import apply_op, apply_op_outputs
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.ops.nn_ops.common import padding_attrs, window
from dtfctl.runtime.ops.nn_ops.spread import with_space_to_batch


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
        ValueError: an unknown type, or a window, strides and dilations that do not go together.
    """
    size = len(window_shape)
    if not 1 <= size <= 3:
        raise ValueError(f"`len(window_shape)` must be 1, 2, or 3. Received: window_shape={window_shape}")
    table: dict[tuple[str, int], Callable[..., Tensor]] = {
        ("MAX", 1): max_pool1d,
        ("MAX", 2): max_pool,
        ("MAX", 3): max_pool3d,
        ("AVG", 1): avg_pool1d,
        ("AVG", 2): avg_pool,
        ("AVG", 3): avg_pool3d,
    }
    if (pooling_type, size) not in table:
        raise ValueError(f"{size}-D {pooling_type} pooling is not supported.")
    form = data_format or ("NWC", "NHWC", "NDHWC")[size - 1]
    steps, rate = _steps_and_rates(size, strides, dilation_rate if dilations is None else dilations)
    if padding == "SAME" and max(rate) > 1:
        raise ValueError(
            "pooling with 'SAME' padding is not implemented for `dilation_rate` > 1. "
            f"Received: padding={padding} and dilation_rate={rate}"
        )
    if any(s > w for s, w in zip(steps, window_shape)):
        raise ValueError(
            "`strides` > `window_shape` not supported due to inconsistency between CPU and GPU implementations. "
            f"Received: strides={steps} and window_shape={window_shape}"
        )
    first = 2 if form.startswith("NC") else 1
    with name_scope(name, f"{pooling_type.lower()}_pool") as scope:

        def apply(x: Tensor, _: int, scheme: str) -> Tensor:
            inner = scope if max(rate) == 1 else None
            return table[pooling_type, size](x, list(window_shape), steps, scheme, form, inner)

        return with_space_to_batch(
            convert_to_tensor(input, name="input"), rate, padding, apply, window_shape, range(first, first + size)
        )


def _steps_and_rates(size: int, strides: Any, rates: Any) -> tuple[list[int], list[int]]:
    """Fill strides and dilations up with ones.

    Raises:
        ValueError: another number of them, one below 1, or both above 1.
    """
    found = []
    for name, values in (("dilation_rate", rates), ("strides", strides)):
        given = [1] * size if values is None else [int(v) for v in np.ravel(values)]
        if len(given) != size:
            raise ValueError(f"`len({name})` should be {size}. Received: {name}={values} of length {len(given)}")
        if min(given) < 1:
            raise ValueError(f"all values of `{name}` must be positive. Received: {name}={values}")
        found.append(given)
    if max(found[0]) > 1 and max(found[1]) > 1:
        raise ValueError(
            "`strides > 1` not supported in conjunction with `dilation_rate > 1`. "
            f"Received: strides={strides} and dilation_rate={rates}"
        )
    return found[1], found[0]


def _by_rank(table: Sequence[Callable[..., Tensor]], op: str) -> Callable[..., Tensor]:
    """Make the function that pools over as many dimensions as its input has between batch and channels."""

    def pool_any(
        input: Any, ksize: Any, strides: Any, padding: Any, data_format: str | None = None, name: str | None = None
    ) -> Tensor:
        x = convert_to_tensor(input)
        if x.shape.rank is None and data_format is None:
            raise ValueError(
                f"`input` must have a static shape or a data format must be given. Received: input.shape={x.shape}"
            )
        size = (len(data_format or "") if x.shape.rank is None else x.shape.rank) - 2
        if not 1 <= size <= 3:
            raise ValueError(f"`input.shape.rank` must be 3, 4 or 5. Received: input.shape={x.shape}")
        if size == 3 and isinstance(padding, (list, tuple)):
            raise ValueError(f"Explicit padding is not supported with an input tensor of rank 5. Received: {padding}")
        form = data_format or ("NWC", "NHWC", "NDHWC")[size - 1]
        return table[size - 1](x, ksize, strides, padding, form, name or op)

    pool_any.__doc__ = f"Apply {op}1D, {op}2D or {op}3D, whichever fits the rank of the input."
    return pool_any


max_pool_v2 = _by_rank([max_pool1d, max_pool2d, max_pool3d], "MaxPool")
avg_pool_v2 = _by_rank([avg_pool1d, avg_pool2d, avg_pool3d], "AvgPool")


def fractional_max_pool(
    value: Any,
    pooling_ratio: Sequence[float],
    pseudo_random: bool = False,
    overlapping: bool = False,
    deterministic: bool = False,
    seed: int = 0,
    seed2: int = 0,
    name: str | None = None,
) -> Any:
    """Take maxima over windows whose places are drawn; return them, and where rows and columns were cut."""
    return _fractional("FractionalMaxPool", **locals())


def fractional_avg_pool(
    value: Any,
    pooling_ratio: Sequence[float],
    pseudo_random: bool = False,
    overlapping: bool = False,
    deterministic: bool = False,
    seed: int = 0,
    seed2: int = 0,
    name: str | None = None,
) -> Any:
    """Take means over windows whose places are drawn; return them, and where rows and columns were cut."""
    return _fractional("FractionalAvgPool", **locals())


class FractionalPool(NamedTuple):
    """What fractional pooling returns: means or maxima, and the rows and columns at which windows begin and end."""

    output: Tensor
    row_pooling_sequence: Tensor
    col_pooling_sequence: Tensor


def _fractional(op: str, **arguments: Any) -> FractionalPool:
    return FractionalPool(*apply_op_outputs(op, **arguments))
