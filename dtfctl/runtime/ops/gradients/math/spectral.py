"""Gradients of Fourier transforms."""

from __future__ import annotations

import math
from typing import Any

from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.framework.registries import register_gradient
from dtfctl.runtime.ops import array_ops, math_ops
from dtfctl.runtime.ops.gradients.common import number_like


def _size_of(x: Tensor, rank: int) -> Tensor:
    count = apply_op("Prod", input=apply_op("Shape", input=x)[-rank:], reduction_indices=[0])
    return math_ops.cast(count, x.dtype)


for _suffix, _rank in (("", 1), ("2D", 2), ("3D", 3)):

    @register_gradient(f"FFT{_suffix}")
    def _fft(op: Operation, grad: Tensor, inverse: str = f"IFFT{_suffix}", rank: int = _rank) -> Any:
        return apply_op(inverse, input=grad) * _size_of(op.inputs[0], rank)

    @register_gradient(f"IFFT{_suffix}")
    def _ifft(op: Operation, grad: Tensor, forward: str = f"FFT{_suffix}", rank: int = _rank) -> Any:
        size = math_ops.cast(_size_of(op.inputs[0], rank), grad.dtype)
        return apply_op(forward, input=grad) * math_ops.reciprocal(size)


@register_gradient("RFFT")
def _rfft(op: Operation, grad: Tensor) -> Any:
    """Compute from the inverse transform, which counts inner bins twice, the first (and an even length's last) once."""
    x, length = op.inputs
    n = length[0]
    even = math_ops.cast(1 - n % 2, x.dtype)
    full = apply_op("IRFFT", input=grad, fft_length=length, Treal=x.dtype.base_dtype)
    places = math_ops.cast(math_ops.range(n), x.dtype)
    first, last = math_ops.real(grad[..., 0:1]), math_ops.real(grad[..., -1:])
    alternating = math_ops.cos(places * number_like(math.pi, x))
    out = number_like(0.5, x) * (full * math_ops.cast(n, x.dtype) + first + even * alternating * last)
    return [apply_op("Reshape", tensor=out, shape=apply_op("Shape", input=x)), None]


@register_gradient("IRFFT")
def _irfft(op: Operation, grad: Tensor) -> Any:
    x, length = op.inputs
    out_type = x.dtype.base_dtype
    size = math_ops.cast(length[0], grad.dtype)
    transformed = apply_op("RFFT", input=grad, fft_length=length, Tcomplex=out_type)
    odd = length[0] % 2
    inner = apply_op("Shape", input=transformed)[-1]
    ones = apply_op("Fill", dims=array_ops.stack([1]), value=number_like(1, grad))
    twos = apply_op("Fill", dims=array_ops.stack([inner - 2 + odd]), value=number_like(2, grad))
    tail = apply_op("Fill", dims=array_ops.stack([1 - odd]), value=number_like(1, grad))
    mask = array_ops.concat([ones, twos, tail], 0)
    scaled = transformed * math_ops.cast(mask / size, out_type)
    return [scaled, None]
