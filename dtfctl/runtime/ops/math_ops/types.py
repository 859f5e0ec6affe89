"""Conversion between types, and complex numbers and their parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, overload

import numpy as np

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.convert import IndexedSlices, SparseTensor, constant, convert_to_tensor
from dtfctl.runtime.framework.dtypes import DType, as_dtype
from dtfctl.runtime.framework.graph_keys import name_scope
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.ops import array_ops
from dtfctl.runtime.ops.op_defs.binary import less


@overload
def cast(x: Tensor, dtype: Any, name: str | None = None) -> Tensor: ...
@overload
def cast(x: Any, dtype: Any, name: str | None = None) -> Any: ...
def cast(x: Any, dtype: Any, name: str | None = None) -> Any:
    """Convert x to another type; sparse values stay sparse."""
    wanted = as_dtype(dtype).base_dtype
    if isinstance(x, SparseTensor):
        return SparseTensor(x.indices, cast(x.values, wanted, name), x.dense_shape)
    if isinstance(x, IndexedSlices):
        return IndexedSlices(cast(x.values, wanted, name), x.indices, x.dense_shape)
    x = convert_to_tensor(x, name="x")
    if x.dtype.base_dtype is wanted:
        return x
    return apply_op("Cast", name, x=x, DstT=wanted)


def _caster(dtype: DType, python_name: str) -> Callable[..., Any]:
    def function(x: Any, name: str = python_name) -> Any:
        return cast(x, dtype, name)

    function.__name__ = function.__qualname__ = python_name
    return function


to_float, to_double = _caster(dtypes.float32, "ToFloat"), _caster(dtypes.float64, "ToDouble")
to_int32, to_int64 = _caster(dtypes.int32, "ToInt32"), _caster(dtypes.int64, "ToInt64")
to_bfloat16 = _caster(dtypes.bfloat16, "ToBFloat16")
to_complex64, to_complex128 = (
    _caster(dtypes.complex64, "ToComplex64"),
    _caster(dtypes.complex128, "ToComplex128"),
)


def saturate_cast(value: Any, dtype: Any, name: str | None = None) -> Any:
    """Cast with values outside the target's range clamped to it."""
    with name_scope(name, "saturate_cast") as scope:
        value = convert_to_tensor(value, name="value")
        wanted, have = as_dtype(dtype).base_dtype, value.dtype.base_dtype
        if have.is_complex and not wanted.is_complex:
            value = real(value)
            have = value.dtype.base_dtype
        if have.is_complex:
            low, high = _common_range(have.real_dtype, wanted.real_dtype)
            if low > have.real_dtype.min or high < have.real_dtype.max:
                low, high = low * (1 + 1j), high * (1 + 1j)
                value = _clamped(value, low, high)
        else:
            value = _clamped(value, *_common_range(have, wanted.real_dtype))
        return cast(value, wanted, scope)


def _common_range(have: DType, wanted: DType) -> tuple[Any, Any]:
    """Give the least and the largest number of one type that another can take, too."""
    kind, number = have.np.type, int if have.is_integer else float
    least, most = _number(wanted.min), _number(wanted.max)
    low, high = kind(number(max(_number(have.min), least))), kind(number(min(_number(have.max), most)))
    # Rounded to fewer digits a bound may be past what can be taken: then it is the number before.
    if _number(low) < least:
        low = np.nextafter(low, kind(0))
    if _number(high) > most:
        high = np.nextafter(high, kind(0))
    return low, high


def _number(value: Any) -> int | float:
    return int(value) if isinstance(value, (int, np.integer)) else float(value)


def _clamped(value: Tensor, low: Any, high: Any) -> Tensor:
    kind = value.dtype.base_dtype
    return apply_op(
        "ClipByValue", "clamp", t=value, clip_value_min=constant(low, kind), clip_value_max=constant(high, kind)
    )


def complex(real: Any, imag: Any, name: str | None = None) -> Tensor:
    """Make a complex tensor of its parts."""
    real = convert_to_tensor(real, name="real")
    imag = convert_to_tensor(imag, real.dtype.base_dtype, name="imag")
    out = {dtypes.float32: dtypes.complex64, dtypes.float64: dtypes.complex128}.get(real.dtype.base_dtype)
    if out is None:
        raise TypeError(f"The `real` and `imag` components have incorrect types: {real.dtype.name} {imag.dtype.name}.")
    return apply_op("Complex", name, real=real, imag=imag, Tout=out)


def _part(op_type: str) -> Callable[..., Tensor]:
    def function(input: Any, name: str | None = None) -> Tensor:
        x = convert_to_tensor(input, name="input")
        if not x.dtype.is_complex:
            if op_type == "Real":
                return x

            if op_type == "Imag":
                return array_ops.zeros_like(x)
            return where_negative_pi(x)
        return apply_op(op_type, name, input=x, Tout=x.dtype.real_dtype)

    function.__name__ = function.__qualname__ = op_type.lower()
    return function


def where_negative_pi(x: Tensor) -> Tensor:
    """Compute the angle of real numbers: pi where negative, else 0."""
    return apply_op(
        "SelectV2", condition=less(x, 0), t=constant(np.pi, x.dtype.base_dtype), e=constant(0, x.dtype.base_dtype)
    )


real, imag, angle = _part("Real"), _part("Imag"), _part("Angle")
