"""Quantized tensors, and floats rounded as if they were quantized."""

from __future__ import annotations

import builtins
from typing import Any

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.op_builder import apply_op, apply_op_outputs
from dtfctl.runtime.framework.operation import Tensor


def quantize(
    input: Any,
    min_range: Any,
    max_range: Any,
    T: Any,
    mode: str = "MIN_COMBINED",
    round_mode: str = "HALF_AWAY_FROM_ZERO",
    name: str | None = None,
    narrow_range: bool = False,
    axis: int | None = None,
    ensure_minimum_range: float = 0.01,
) -> Any:
    """Quantize floats: (quantized, its lowest float, its highest float)."""
    out = apply_op_outputs(
        "QuantizeV2",
        name,
        input=input,
        min_range=min_range,
        max_range=max_range,
        T=T,
        mode=mode,
        round_mode=round_mode,
        narrow_range=narrow_range,
        axis=-1 if axis is None else axis,
        ensure_minimum_range=ensure_minimum_range,
    )
    return builtins.tuple(out)


def quantize_v2(
    input: Any,
    min_range: Any,
    max_range: Any,
    T: Any,
    mode: str = "MIN_COMBINED",
    name: str | None = None,
    round_mode: str = "HALF_AWAY_FROM_ZERO",
    narrow_range: bool = False,
    axis: int | None = None,
    ensure_minimum_range: float = 0.01,
) -> Any:
    """Quantize floats, by the older order of arguments."""
    kinds = (round_mode, name, narrow_range, axis, ensure_minimum_range)
    return quantize(input, min_range, max_range, T, mode, *kinds)


def dequantize(
    input: Any,
    min_range: Any,
    max_range: Any,
    mode: str = "MIN_COMBINED",
    name: str | None = None,
    axis: int | None = None,
    narrow_range: bool = False,
    dtype: Any = dtypes.float32,
) -> Tensor:
    """Convert quantized values to floats."""
    return apply_op(
        "Dequantize",
        name,
        input=input,
        min_range=min_range,
        max_range=max_range,
        mode=mode,
        axis=-1 if axis is None else axis,
        narrow_range=narrow_range,
        dtype=dtype,
    )


def quantize_and_dequantize(
    input: Any,
    input_min: Any,
    input_max: Any,
    signed_input: bool = True,
    num_bits: int = 8,
    range_given: bool = False,
    round_mode: str = "HALF_TO_EVEN",
    name: str | None = None,
    narrow_range: bool = False,
    axis: int | None = None,
) -> Tensor:
    """Round floats as if they were quantized."""
    return apply_op(
        "QuantizeAndDequantizeV2",
        name,
        input=input,
        input_min=input_min,
        input_max=input_max,
        signed_input=signed_input,
        num_bits=num_bits,
        range_given=range_given,
        round_mode=round_mode,
        narrow_range=narrow_range,
        axis=-1 if axis is None else axis,
    )
