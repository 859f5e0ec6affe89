"""Which library multiplies matrices, with how many threads, and products that are added to what is there.

Small products are BLAS's, by the calling thread alone. From a size on OpenBLAS gives a part to threads of its own,
which then look for work for 25 ms, on cores that others need. oneDNN's threads sleep after half a millisecond, and on
two cores it is the faster one for large products; so a plan that has large ones, or oneDNN's convolutions, leaves all
but the small ones to it, where it is installed. Kernels for any shapes do the same by the sizes they are called with,
and have OpenBLAS's threads for the largest only.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from dtfctl.runtime.kernels.blas_in_use import open_blas
from dtfctl.runtime.kernels.into.blas import find_blas
from dtfctl.runtime.kernels.into.registry import Into, Spec, Unfit
from dtfctl.runtime.kernels.into.threads import at_once, by_one, threaded
from dtfctl.runtime.kernels.onednn.library import Library, OneDnnError, find_library
from dtfctl.runtime.kernels.onednn.product import Product

# OpenBLAS's threads help with products of more multiplications than this.
_MOST_ALONE = 1 << 18
# From this on products are worth loading oneDNN, which takes some 25 MB.
_LARGE = 1 << 22
# From this on, without oneDNN, OpenBLAS's threads gain more than what they cost whoever comes next.
_HUGE = 1 << 26
_FLOAT32 = np.dtype(np.float32)

dot = np.dot
contiguous = np.ascontiguousarray

_BY_NUMPY: dict[tuple[bool, bool], Callable[..., Any]] = {
    (False, False): dot,
    (True, False): lambda a, b, out: dot(a.T, b, out),
    (False, True): lambda a, b, out: dot(a, b.T, out),
    (True, True): lambda a, b, out: dot(a.T, b.T, out),
}


def dimensions(a: Spec, b: Spec, ta: bool, tb: bool) -> tuple[int, int, int]:
    """Rows, inner dimension and columns of a product of matrices, transposed where the flags say so."""
    (rows, inner), columns = (a.shape[::-1] if ta else a.shape), b.shape[0 if tb else 1]
    return rows, inner, columns


def is_large(a: Spec, b: Spec, ta: bool, tb: bool) -> bool:
    """Tell whether the product is worth oneDNN being loaded for it, and oneDNN is there."""
    rows, inner, columns = dimensions(a, b, ta, tb)
    return a.dtype == _FLOAT32 and rows * inner * columns >= _LARGE and find_library() is not None


def product(a: Spec, b: Spec, ta: bool, tb: bool) -> Into:
    """Make the product of matrices of one type, transposed where the flags say so."""
    rows, inner, columns = dimensions(a, b, ta, tb)
    by_numpy = _BY_NUMPY[ta, tb]
    if rows * inner * columns <= _MOST_ALONE:
        return Into(by_numpy)
    usual = Into(_with_threads_of_blas(by_numpy))
    return Into(usual.call, beside_onednn=lambda: product_by_onednn(a, b, ta, tb, False) or usual)


def product_by_onednn(a: Spec, b: Spec, ta: bool, tb: bool, biased: bool) -> Into | None:
    """Make a product by oneDNN, a row added to each of its rows if `biased`; None where that is no gain."""
    sizes = dimensions(a, b, ta, tb)
    library = find_library() if a.dtype == _FLOAT32 and prod(sizes) > _MOST_ALONE else None
    if library is None:
        return None
    if ta:
        # Its general routine, which copies pieces of the factors in the order it needs them, is faster here.
        return None if biased else Into(_with_threads_of_onednn(lambda a, b, out: _put_product(a, b, out, ta, tb)))
    try:
        run = Product(library, sizes, ta, tb, biased)
    except OneDnnError:
        return None

    def call(a: Any, b: Any, *rest: Any) -> None:
        _library()
        run(contiguous(a), contiguous(b), *rest)

    return Into(call)


def multiply(a: Any, b: Any, ta: bool, tb: bool) -> Any:
    """Multiply matrices of one type and any shapes that fit, transposed where the flags say so."""
    x, y = (a.T if ta else a), (b.T if tb else b)
    size = x.size * y.shape[1]
    if size <= _MOST_ALONE:
        return np.matmul(x, y)
    library = find_library() if size >= _LARGE and a.dtype == b.dtype == _FLOAT32 else None
    if library is not None and not library.is_forked:
        out = np.empty((x.shape[0], y.shape[1]), _FLOAT32)
        a, b = contiguous(a), contiguous(b)
        count = library.threads()
        at_once(_put_product, by_one(_put_product, library.set_threads, count), count, a, b, out, ta, tb)
        return out
    return multiply_stacks(x, y)


def multiply_stacks(a: Any, b: Any) -> Any:
    """Multiply as `numpy.matmul` does, with OpenBLAS's threads for very large matrices only."""
    size = a.shape[-2] * a.shape[-1] * b.shape[-1] if a.ndim > 1 else 0
    found = open_blas() if size > _MOST_ALONE else None
    if found is None:
        return np.matmul(a, b)
    count = found.threads()
    if size < _HUGE:
        return by_one(np.matmul, found.set_threads, count)(a, b)
    return at_once(np.matmul, by_one(np.matmul, found.set_threads, count), count, a, b)


def _put_product(a: Any, b: Any, out: Any, ta: bool, tb: bool) -> None:
    _library().add_product(1.0, contiguous(a), contiguous(b), out, ta, tb, 0.0)


def _with_threads_of_blas(call: Callable[..., Any]) -> Callable[..., None]:
    found = open_blas()
    if found is None:
        return call
    count = found.threads()
    return threaded(call, by_one(call, found.set_threads, count), count)


def _with_threads_of_onednn(call: Callable[..., Any]) -> Callable[..., None]:
    library = find_library()
    if library is None:
        return call
    count = library.threads()
    return threaded(call, by_one(call, library.set_threads, count), count)


def _library() -> Library:
    """Return the library, which works for the process that has loaded it.

    Raises:
        Unfit: this is a child of that process; its threads are not here.
    """
    library = find_library()
    if library is None or library.is_forked:
        raise Unfit
    return library


def adder(a: Spec, b: Spec, ta: bool, tb: bool, beside_onednn: bool) -> Callable[..., None] | None:
    """Make a call that adds a product of matrices to a matrix; None where nothing does that at once.

    It takes the factor of the product, its two factors and the matrix.

    Args:
        beside_onednn: whether the plan has work for oneDNN's threads.
    """
    rows, inner, columns = dimensions(a, b, ta, tb)
    if rows * inner * columns <= _MOST_ALONE:
        by_numpy, scratch = _BY_NUMPY[ta, tb], np.empty((rows, columns), a.dtype)

        def add(factor: float, a: Any, b: Any, c: Any) -> None:
            by_numpy(a, b, scratch)
            np.multiply(scratch, scratch.dtype.type(factor), scratch)
            np.add(c, scratch, c)

        return add
    if beside_onednn and a.dtype == _FLOAT32:

        def add_by_onednn(factor: float, a: Any, b: Any, c: Any) -> None:
            _library().add_product(factor, a, b, c, ta, tb)

        return _with_threads_of_onednn(add_by_onednn)
    blas = find_blas()
    if blas is None:
        return None

    def add_by_blas(factor: float, a: Any, b: Any, c: Any) -> None:
        blas.add_product(factor, a, b, c, ta, tb)

    return _with_threads_of_blas(add_by_blas)
