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
from dtfctl.runtime.ops.op_defs.binary import less, maximum, minimum


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
        wanted = as_dtype(dtype).base_dtype
        have = value.dtype.base_dtype
        low, high = max(have.min, wanted.min), min(have.max, wanted.max)
        if have.min < wanted.min:
            value = maximum(value, constant(have.np.type(low), have))
        if have.max > wanted.max:
            value = minimum(value, constant(have.np.type(high), have))
        return cast(value, wanted, scope)


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
