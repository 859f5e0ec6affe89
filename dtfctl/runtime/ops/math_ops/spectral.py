"""Fourier transforms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.constant_value import constant_value
from dtfctl.runtime.framework.convert import convert_to_tensor
from dtfctl.runtime.framework.graph_keys import name_scope
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.ops.op_defs.binary import maximum


def _filled_up(x: Tensor, rank: int, fft_length: Tensor, inverse: bool) -> Tensor:
    """Fill the input with zeros up to what a transform of `fft_length` reads, in its last `rank` dimensions.

    Without one of its elements there is nothing to fill up, which the op then says.
    """
    if x.shape.rank is not None and 0 in x.shape.as_list():
        return x
    wanted: Any = constant_value(fft_length)
    if wanted is not None and wanted.shape == (rank,) and x.shape.rank is not None and x.shape.rank >= rank:
        dims = [d for d in x.shape.as_list()[-rank:] if d is not None]
        if len(dims) == rank:
            if inverse:
                wanted = np.append(wanted[:-1], wanted[-1] // 2 + 1)
            missing = [max(int(w) - d, 0) for w, d in zip(wanted, dims)]
            if not any(missing):
                return x
            paddings = [[0, 0]] * (x.shape.rank - rank) + [[0, m] for m in missing]
            return apply_op("Pad", input=x, paddings=np.array(paddings, np.int32))
    reads: Any = fft_length
    if inverse:
        front = apply_op("StridedSlice", input=reads, begin=[0], end=[-1], strides=[1], begin_mask=1)
        last = apply_op("StridedSlice", input=reads, begin=[-1], end=[0], strides=[1], end_mask=1)
        reads = apply_op("ConcatV2", values=[front, last // 2 + 1], axis=0)
    shape = apply_op("Shape", input=x)
    inner = apply_op("StridedSlice", input=shape, begin=[-rank], end=[0], strides=[1], end_mask=1)
    outer = apply_op("StridedSlice", input=shape, begin=[0], end=[-rank], strides=[1], begin_mask=1)
    after = apply_op("ConcatV2", values=[apply_op("ZerosLike", x=outer), maximum(reads - inner, 0)], axis=0)
    wide = apply_op("Pack", values=[apply_op("ZerosLike", x=after), after], axis=1)
    return apply_op("Pad", input=x, paddings=wide)


def _real_fft(op_type: str, rank: int) -> Callable[..., Tensor]:
    inverse = op_type.startswith("I")

    def function(input_tensor: Any, fft_length: Any = None, name: str | None = None) -> Tensor:
        with name_scope(name, op_type.lower()) as scope:
            x = convert_to_tensor(input_tensor, preferred_dtype=dtypes.complex64 if inverse else dtypes.float32)
            if fft_length is None:
                dims = apply_op("Shape", input=x)
                size = apply_op("StridedSlice", input=dims, begin=[-rank], end=[0], strides=[1], end_mask=1)
                if inverse:
                    last = apply_op("StridedSlice", input=size, begin=[-1], end=[0], strides=[1], end_mask=1)
                    front = apply_op("StridedSlice", input=size, begin=[0], end=[-1], strides=[1], begin_mask=1)
                    size = apply_op("ConcatV2", values=[front, maximum(2 * (last - 1), 0)], axis=0)
                fft_length = size
            else:
                fft_length = convert_to_tensor(fft_length, dtypes.int32)
                x = _filled_up(x, rank, fft_length, inverse)
            if inverse:
                return apply_op(op_type, scope, input=x, fft_length=fft_length, Treal=x.dtype.real_dtype)
            out = {dtypes.float32: dtypes.complex64, dtypes.float64: dtypes.complex128}[x.dtype.base_dtype]
            return apply_op(op_type, scope, input=x, fft_length=fft_length, Tcomplex=out)

    function.__name__ = function.__qualname__ = op_type.lower()
    return function


rfft, rfft2d, rfft3d = _real_fft("RFFT", 1), _real_fft("RFFT2D", 2), _real_fft("RFFT3D", 3)
irfft, irfft2d, irfft3d = _real_fft("IRFFT", 1), _real_fft("IRFFT2D", 2), _real_fft("IRFFT3D", 3)
