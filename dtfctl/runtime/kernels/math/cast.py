"""Cast between all numeric types."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.errors import UnimplementedError
from dtfctl.runtime.kernels.into.low_precision import rounded_to_bfloat16
from dtfctl.runtime.kernels.promises import FIRST, Promises
from dtfctl.runtime.kernels.registry import CPU_GPU, Kernel, KernelBuild, register_kernel

# Explicit mantissa bits of each float type.
_MANTISSA = {dtypes.float64: 52, dtypes.float32: 23, dtypes.float16: 10, dtypes.bfloat16: 7}


def _truncate_mantissa(x: Any, drop: int) -> Any:
    """Clear the lowest `drop` bits of a float32 or float64 array's mantissa."""
    bits = np.dtype(f"u{x.dtype.itemsize}")
    mask = bits.type(~((1 << drop) - 1) & ((1 << (bits.itemsize * 8)) - 1))
    return (np.asarray(x).view(bits) & mask).view(x.dtype)


@register_kernel("Cast", devices=CPU_GPU, promises=Promises(shape_from=FIRST))
def _cast(k: KernelBuild) -> Kernel:
    source, target = k.dtype("SrcT"), k.dtype("DstT")
    if source is target:
        return lambda x: x
    if source.is_object or target.is_object:
        raise UnimplementedError(
            f"Cast {dtypes.WIRE_NAME[source]} to {dtypes.WIRE_NAME[target]} is not supported", k.node.name
        )
    to = target.np
    if k.attr("Truncate") and _MANTISSA.get(source, 0) > _MANTISSA.get(target, 99):
        drop = _MANTISSA[source] - _MANTISSA[target]
        return lambda x: _truncate_mantissa(x, drop).astype(to)
    if target is dtypes.bool_:
        zero = source.np.type(0)
        return lambda x: x != zero
    if source.is_complex and not target.is_complex:
        return lambda x: x.real.astype(to)
    if source is dtypes.float32 and target is dtypes.bfloat16 and k.xp is np:
        return lambda x: rounded_to_bfloat16(np.asarray(x))
    if source.is_floating and target.is_integer and source.np.itemsize <= 2:
        return lambda x: x.astype(np.float32).astype(to)
    return lambda x: x.astype(to)
