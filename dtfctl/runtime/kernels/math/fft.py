"""Discrete Fourier transforms over the innermost dimensions, or over chosen axes."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.dtypes import DType
from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.kernels.array.common import axis_of, ints, text, vector
from dtfctl.runtime.kernels.registry import Kernel, KernelBuild, register_kernel

_COMPLEX = {"FFT": 1, "FFT2D": 2, "FFT3D": 3, "IFFT": 1, "IFFT2D": 2, "IFFT3D": 3}


@register_kernel(tuple(_COMPLEX) + tuple(f"Batch{op}" for op in _COMPLEX))
def _complex_fft(k: KernelBuild) -> Kernel:
    op = k.node.op.removeprefix("Batch")
    rank, out = _COMPLEX[op], k.node.output_types[0].np
    axes = tuple(range(-rank, 0))

    def kernel(x: Any) -> Any:
        if x.ndim < rank:
            raise InvalidArgumentError(f"Input must have rank of at least {rank} but got: {text(x.shape)}")
        if x.size == 0:
            return x
        from scipy import fft

        return (fft.ifftn if op.startswith("I") else fft.fftn)(x, axes=axes).astype(out, copy=False)

    return kernel


def _lengths(fft_length: Any, rank: int) -> tuple[int, ...]:
    if fft_length.ndim != 1 or fft_length.shape[0] != rank:
        raise InvalidArgumentError(f"fft_length must have shape [{rank}]")
    sizes = ints(fft_length)
    for i, size in enumerate(sizes):
        if size < 0:
            raise InvalidArgumentError(f"fft_length[{i}] must >= 0, but got: {size}")
    return sizes


def _check_precision(k: KernelBuild, direction: str, given: DType, out: DType) -> None:
    """Raises InvalidArgumentError when the complex type is not twice the real one."""
    if {given, out} not in ({dtypes.float32, dtypes.complex64}, {dtypes.float64, dtypes.complex128}):
        raise InvalidArgumentError(
            f"Wrong types for {direction} real FFT: in={given.as_datatype_enum} out={out.as_datatype_enum}",
            k.node.name,
        )


def _fit(x: Any, axes: tuple[int, ...], sizes: tuple[int, ...]) -> Any:
    """Crop or zero-pad the given axes to the given sizes."""
    index: list[Any] = [slice(None)] * x.ndim
    pads = [(0, 0)] * x.ndim
    for axis, size in zip(axes, sizes):
        index[axis] = slice(0, size)
        pads[axis] = (0, max(0, size - x.shape[axis]))
    x = x[tuple(index)]
    return np.pad(x, pads) if any(p != (0, 0) for p in pads) else x


@register_kernel(("RFFT", "RFFT2D", "RFFT3D"))
def _rfft(k: KernelBuild) -> Kernel:
    rank = {"RFFT": 1, "RFFT2D": 2, "RFFT3D": 3}[k.node.op]
    out, axes = k.dtype("Tcomplex").np, tuple(range(-rank, 0))
    _check_precision(k, "forward", k.dtype("Treal"), k.dtype("Tcomplex"))

    def kernel(x: Any, fft_length: Any) -> Any:
        if x.ndim < rank:
            raise InvalidArgumentError(f"Input must have rank of at least {rank} but got: {text(x.shape)}")
        sizes = _lengths(fft_length, rank)
        for i, size in enumerate(sizes):
            if size and x.shape[i - rank] and x.shape[i - rank] < size:
                raise InvalidArgumentError(
                    f"Input dimension {x.ndim - rank + i} must have length of at least {size} but got: "
                    f"{x.shape[i - rank]}"
                )
        shape = (*x.shape[: x.ndim - rank], *sizes[:-1], sizes[-1] // 2 + 1 if sizes[-1] > 0 else 0)
        if 0 in shape or x.size == 0:
            return np.zeros(shape, out)
        from scipy import fft

        return fft.rfftn(_fit(x, axes, sizes), axes=axes).astype(out, copy=False)

    return kernel


@register_kernel(("IRFFT", "IRFFT2D", "IRFFT3D"))
def _irfft(k: KernelBuild) -> Kernel:
    rank = {"IRFFT": 1, "IRFFT2D": 2, "IRFFT3D": 3}[k.node.op]
    out, axes = k.dtype("Treal").np, tuple(range(-rank, 0))
    _check_precision(k, "backward", k.dtype("Tcomplex"), k.dtype("Treal"))

    def kernel(x: Any, fft_length: Any) -> Any:
        if x.ndim < rank:
            raise InvalidArgumentError(f"Input must have rank of at least {rank} but got: {text(x.shape)}")
        sizes = _lengths(fft_length, rank)
        for i, size in enumerate(sizes):
            need = size // 2 + 1 if i == rank - 1 else size
            if size and x.shape[i - rank] and x.shape[i - rank] < need:
                raise InvalidArgumentError(
                    f"Input dimension {x.ndim - rank + i} must have length of at least {need} but got: "
                    f"{x.shape[i - rank]}"
                )
        shape = (*x.shape[: x.ndim - rank], *sizes)
        if 0 in shape or x.size == 0:
            return np.zeros(shape, out)
        from scipy import fft

        half = _fit(x, axes, (*sizes[:-1], sizes[-1] // 2 + 1))
        for axis in axes[:-1]:
            half = fft.ifft(half, axis=axis)
        return fft.irfft(half, sizes[-1], axis=-1).astype(out, copy=False)

    return kernel


@register_kernel(("FFTND", "IFFTND", "RFFTND", "IRFFTND"))
def _nd(k: KernelBuild) -> Kernel:
    op, out = k.node.op, k.node.output_types[0].np

    def kernel(x: Any, fft_length: Any, axes: Any) -> Any:
        from scipy import fft

        chosen = tuple(axis_of(a, x.ndim) for a in vector(axes, "axes"))
        sizes = _lengths(fft_length, len(chosen))
        if len(set(chosen)) != len(chosen):
            raise InvalidArgumentError("Axes must be unique")
        if op == "RFFTND":
            result = fft.rfftn(_fit(x, chosen, sizes), axes=chosen)
        elif op == "IRFFTND":
            half = _fit(x, chosen, (*sizes[:-1], sizes[-1] // 2 + 1))
            for axis in chosen[:-1]:
                half = fft.ifft(half, axis=axis)
            result = fft.irfft(half, sizes[-1], axis=chosen[-1])
        else:
            result = (fft.fftn if op == "FFTND" else fft.ifftn)(_fit(x, chosen, sizes), axes=chosen)
        return result.astype(out, copy=False)

    return kernel
