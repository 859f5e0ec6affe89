"""Matrix products and sums over rows, into given arrays."""

from __future__ import annotations

from functools import partial
from math import prod
from typing import Any

import numpy as np

from dtfctl.runtime.kernels.into.elementwise import is_float
from dtfctl.runtime.kernels.into.registry import Into, Spec, Unfit, makes
from dtfctl.runtime.kernels.onednn.library import find_library
from dtfctl.runtime.kernels.registry import KernelBuild

dot = np.dot
contiguous = np.ascontiguousarray


@makes("MatMul")
def _matmul(k: KernelBuild, inputs: list[Any], outputs: list[Spec]) -> Into | None:
    a, b = inputs
    if not is_float(a) or not is_float(b) or len(a.shape) != 2 or len(b.shape) != 2:
        return None
    ta, tb = bool(k.attr("transpose_a")), bool(k.attr("transpose_b"))
    own = None
    if outputs[0].dtype == np.float32 and 0 not in a.shape and 0 not in b.shape:
        own = partial(_by_onednn, ta, tb)
    return Into(_PRODUCTS[ta, tb], beside_onednn=own)


def _by_onednn(ta: bool, tb: bool, a: Any, b: Any, out: Any) -> None:
    library = find_library()
    if library is None:
        raise Unfit
    library.add_product(1.0, contiguous(a), contiguous(b), out, ta, tb, 0.0)


_PRODUCTS: dict[tuple[bool, bool], Any] = {
    (False, False): dot,
    (True, False): lambda a, b, out: dot(a.T, b, out),
    (False, True): lambda a, b, out: dot(a, b.T, out),
    (True, True): lambda a, b, out: dot(a.T, b.T, out),
}


@makes("BiasAddGrad")
def _bias_add_grad(k: KernelBuild, inputs: list[Any], outputs: list[Spec]) -> Into | None:
    g = inputs[0]
    if not is_float(g) or k.text_attr("data_format", "NHWC") != "NHWC" or len(g.shape) < 2:
        return None
    return _sum_of_rows(g)


@makes("Sum")
def _sum(k: KernelBuild, inputs: list[Any], outputs: list[Spec]) -> Into | None:
    x = inputs[0]
    lead = len(x.shape) - 1 if is_float(x) else 0
    if lead < 1 or outputs[0].shape != x.shape[-1:]:
        return None
    # All axes but the last, which the shapes alone tell apart only where no other gives the same.
    if any(size == x.shape[-1] for size in x.shape[:-1]):
        return None
    return _sum_of_rows(x)


def _sum_of_rows(x: Spec) -> Into:
    """One row of ones times the matrix: what BLAS does fastest, and it adds in blocks."""
    ones = np.ones(prod(x.shape[:-1]), x.dtype)
    columns = x.shape[-1]
    own = _rows_by_onednn if x.dtype == np.float32 and x.nbytes else None
    if len(x.shape) == 2:
        return Into(_rows, extras=(ones,), beside_onednn=own)
    return Into(lambda x, *rest: _rows(x.reshape(-1, columns), *rest[-2:]), extras=(ones,), beside_onednn=own)


def _rows_by_onednn(x: Any, *rest: Any) -> None:
    ones, out = rest[-2:]
    _by_onednn(False, False, ones.reshape(1, -1), x.reshape(ones.size, -1), out.reshape(1, -1))


def _rows(x: Any, *rest: Any) -> None:
    # A sum has its axes as an input besides.
    ones, out = rest[-2:]
    dot(ones, x, out)
