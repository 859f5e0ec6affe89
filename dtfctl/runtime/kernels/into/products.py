"""Which library multiplies matrices, with how many threads, and products that are added to what is there.

Small products are BLAS's, by the calling thread alone. From a size on OpenBLAS gives a part to threads of its own,
which then look for work for 25 ms, on cores that others need; so it is left to one thread but for the largest of sums
that only it can do. oneDNN's threads sleep after half a millisecond, and on two cores it is the faster one for large
products; so a plan that has large ones, or oneDNN's convolutions, leaves all but the small ones to it, where it is
installed. Kernels for any shapes do the same by the sizes they are called with. What oneDNN does not multiply, stacks
of matrices and other types, is cut into parts for threads of our own.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from dtfctl.runtime.kernels.blas_in_use import open_blas
from dtfctl.runtime.kernels.into.blas import find_blas, step_by_blas
from dtfctl.runtime.kernels.into.parallel import shared_pool
from dtfctl.runtime.kernels.into.registry import Into, Spec, Unfit
from dtfctl.runtime.kernels.into.threads import by_one, threaded
from dtfctl.runtime.kernels.native.matrices import Matrices
from dtfctl.runtime.kernels.native.tape import Step
from dtfctl.runtime.kernels.onednn.find import find_library
from dtfctl.runtime.kernels.onednn.library import Library, OneDnnError
from dtfctl.runtime.kernels.onednn.product import Product
from dtfctl.runtime.kernels.onednn.steps import gemm_step, product_step

# OpenBLAS's threads help with products of more multiplications than this.
_MOST_ALONE = 1 << 18
# From this on products are worth loading oneDNN, which takes some 25 MB.
_LARGE = 1 << 22
# From this on a factor that several products have is kept as oneDNN reads it.
_PACKED = 1 << 20
# From this on, without oneDNN, OpenBLAS's threads gain more than what they cost whoever comes next.
_HUGE = 1 << 26
# Of how many shapes it is known how they are multiplied best, at most.
_MOST_SHAPES = 4096
_FLOAT32 = np.dtype(np.float32)
_FLOAT64 = np.dtype(np.float64)

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
    step = _step(a, (rows, inner, columns), ta, tb, False)
    if rows * inner * columns <= _MOST_ALONE:
        return Into(by_numpy, step=step)
    usual = Into(_with_threads_of_ours(by_numpy, ta) if rows * inner * columns >= _LARGE else _alone(by_numpy))
    return Into(usual.call, beside_onednn=lambda: product_by_onednn(a, b, ta, tb, False) or usual, step=step)


def product_by_onednn(a: Spec, b: Spec, ta: bool, tb: bool, biased: bool) -> Into | None:
    """Make a product by oneDNN, a row added to each of its rows if `biased`; None where that is no gain."""
    sizes = dimensions(a, b, ta, tb)
    library = find_library() if a.dtype == _FLOAT32 and prod(sizes) > _MOST_ALONE else None
    if library is None:
        return None
    parts = _in_parts(_BY_NUMPY[ta, tb], ta) if prod(sizes) >= _LARGE else None
    if ta:
        # Its general routine, which copies pieces of the factors in the order it needs them, is faster here.
        if biased:
            return None
        step = _step(a, sizes, ta, tb, True)
        return Into(_with_threads_of_onednn(lambda a, b, out: _put_product(a, b, out, ta, tb), parts), step=step)
    try:
        run = Product(library, sizes, ta, tb, biased, claimed=parts)
    except OneDnnError:
        return None

    def call(a: Any, b: Any, *rest: Any) -> None:
        _library()
        run(contiguous(a), contiguous(b), *rest)

    return Into(call, step=_step(a, sizes, ta, tb, True, biased))


def product_by_factor(a: Spec, b: Spec, tb: bool) -> Into:
    """Make the product of a matrix with a `Factor`, transposed if the flag says so."""
    sizes = dimensions(a, b, False, tb)

    def by(product: Callable[..., None]) -> Callable[..., None]:
        def call(a: Any, held: Any, out: Any) -> None:
            factor = held.item()
            if factor.array.shape != b.shape or factor.array.dtype != b.dtype:
                raise Unfit
            product(a, factor, out)

        return call

    def by_numpy(a: Any, factor: Any, out: Any) -> None:
        dot(a, factor.transposed() if tb else factor.array, out)

    def by_onednn() -> Into:
        library = find_library() if a.dtype == _FLOAT32 and prod(sizes) >= _PACKED else None
        if library is None:
            return usual
        parts = _in_parts(_BY_NUMPY[False, tb], False)
        claimed = None if prod(sizes) < _LARGE else (lambda a, factor, out: parts(a, factor.array, out))
        try:
            run = Product(library, sizes, False, tb, False, claimed=claimed, is_shared=True)
        except OneDnnError:
            return usual

        def by_library(a: Any, factor: Any, out: Any) -> None:
            _library()
            run(contiguous(a), factor, out)

        step = _step(a, sizes, False, tb, True, is_shared=True)
        return Into(by(by_library), is_guarded=True, step=step)

    step = _step(a, sizes, False, tb, False, is_shared=True)
    alone = by_numpy if prod(sizes) <= _MOST_ALONE else _alone(by_numpy)
    usual = Into(by(alone), is_guarded=True, beside_onednn=by_onednn, step=step)
    return usual


def _step(
    a: Spec,
    sizes: tuple[int, int, int],
    ta: bool,
    tb: bool,
    beside_onednn: bool,
    biased: bool = False,
    is_shared: bool = False,
) -> Callable[[], Step | None] | None:
    """Make what makes a product a step of a tape.

    Args:
        beside_onednn: whether the plan has work for oneDNN.
    """
    rows, inner, columns = sizes
    shapes = [(inner, rows) if ta else (rows, inner), (columns, inner) if tb else (inner, columns), (rows, columns)]
    matrices = Matrices(sizes, ta, tb, [Spec(shape, a.dtype) for shape in shapes])
    if not (is_shared or biased):
        return step_of_matrices(matrices, beside_onednn)
    if a.dtype not in (_FLOAT32, _FLOAT64) or not prod(sizes):
        return None

    def make() -> Step | None:
        library = (
            find_library() if a.dtype == _FLOAT32 and beside_onednn and (biased or prod(sizes) >= _PACKED) else None
        )
        try:
            if library is None or library.is_forked:
                return None if biased else step_by_blas(matrices, prod(sizes) > _MOST_ALONE, True)
            return product_step(library, sizes, tb, biased, is_shared)
        except (OneDnnError, OSError):
            return None

    return make


def step_of_matrices(matrices: Matrices, beside_onednn: bool) -> Callable[[], Step | None] | None:
    """Make what makes products a step of a tape, none of whose factors several products have.

    Args:
        beside_onednn: whether the plan has work for oneDNN.
    """
    size, dtype = prod(matrices.sizes), matrices.specs[-1].dtype
    if dtype not in (_FLOAT32, _FLOAT64) or not size:
        return None

    def make() -> Step | None:
        # A primitive copies a factor that is not shared, and as slowly by two threads as by one.
        library = find_library() if dtype == _FLOAT32 and beside_onednn and size >= _PACKED else None
        try:
            if library is None or library.is_forked:
                return step_by_blas(matrices, size > _MOST_ALONE)
            return gemm_step(library, matrices)
        except OSError:
            return None

    return make


def product_of_stacks(a: Spec, b: Spec, ta: bool, tb: bool) -> Into:
    """Make the product of stacks of matrices of one type, transposed where the flags say so."""
    shapes = [(*s.shape[:-2], *s.shape[:-3:-1]) if t else s.shape for s, t in ((a, ta), (b, tb))]
    size = prod(np.broadcast_shapes(*(s[:-2] for s in shapes))) * prod(shapes[0][-2:]) * shapes[1][-1]

    def by_numpy(a: Any, b: Any, out: Any) -> None:
        np.matmul(a.swapaxes(-1, -2) if ta else a, b.swapaxes(-1, -2) if tb else b, out)

    step = _step_of_stacks(a, b, ta, tb) if a.shape[:-2] == b.shape[:-2] else None
    if size <= _MOST_ALONE:
        return Into(by_numpy, step=step)
    if size < _LARGE or len(shapes[0]) == 2 or shapes[0][0] == 1 or shapes[0][:-2] != shapes[1][:-2]:
        return Into(_alone(by_numpy), step=step)
    # Each part has some of the stacks.
    return Into(_with_threads_of_ours(by_numpy, False), step=step)


def _step_of_stacks(a: Spec, b: Spec, ta: bool, tb: bool) -> Callable[[], Step | None] | None:
    """Make what makes products of stacks of as many matrices a step of a tape."""
    sizes = dimensions(Spec(a.shape[-2:], a.dtype), Spec(b.shape[-2:], b.dtype), ta, tb)
    out = Spec((*a.shape[:-2], sizes[0], sizes[2]), a.dtype)
    count = prod(a.shape[:-2])
    return step_of_matrices(Matrices(sizes, ta, tb, [a, b, out], count=count), False) if count else None


def multiply(a: Any, b: Any, ta: bool, tb: bool) -> Any:
    """Multiply matrices of one type and any shapes that fit, transposed where the flags say so."""
    x, y = (a.T if ta else a), (b.T if tb else b)
    size = x.size * y.shape[1]
    if size <= _MOST_ALONE:
        return np.matmul(x, y)
    library = find_library() if size >= _LARGE and a.dtype == b.dtype == _FLOAT32 else None
    if library is None or library.is_forked:
        return multiply_stacks(x, y)
    out = np.empty((x.shape[0], y.shape[1]), _FLOAT32)
    key = (a.shape, b.shape, ta, tb)

    def make() -> Callable[..., None]:
        parts = _in_parts(_BY_NUMPY[ta, tb], ta)
        return _with_threads_of_onednn(_put_product, lambda a, b, out, ta, tb: parts(a, b, out))

    _chosen(key, make)(contiguous(a), contiguous(b), out, ta, tb)
    return out


def add_product(a: Any, b: Any, total: Any) -> None:
    """Add the product of matrices `a.T @ b` of one type, with rows one after the other, to a matrix."""
    size = a.size * b.shape[1]
    if size <= _MOST_ALONE:
        np.add(total, np.dot(a.T, b), total)
        return
    specs = Spec(a.shape, a.dtype), Spec(b.shape, b.dtype)
    library = find_library() if size >= _LARGE and a.dtype == b.dtype == _FLOAT32 else None
    is_onednns = library is not None and not library.is_forked

    def make() -> Callable[..., Any]:
        found = adder(*specs, True, False, is_onednns)
        return found or (lambda factor, a, b, total: np.add(total, np.dot(a.T, b), total))

    _chosen(("sum", is_onednns, *specs), make)(1.0, a, b, total)


def multiply_stacks(a: Any, b: Any) -> Any:
    """Multiply as `numpy.matmul` does, large matrices and many of them by several threads."""
    size = prod(a.shape) * b.shape[-1] if a.ndim > 1 and b.ndim > 1 else 0
    if size < _LARGE or not a.shape[0] > 1 or not (a.ndim == b.ndim == 2 or _are_pairs(a, b)):
        return _alone(np.matmul)(a, b) if size > _MOST_ALONE else np.matmul(a, b)
    out = np.empty((*a.shape[:-1], b.shape[-1]), np.result_type(a, b))
    key = (a.shape, b.shape, a.dtype, a.strides)
    _chosen(key, lambda: _with_threads_of_ours(np.matmul, False))(a, b, out)
    return out


def _are_pairs(a: Any, b: Any) -> bool:
    """Tell whether stacks have a matrix for each of the other's, and fit."""
    return bool(a.shape[:-2] == b.shape[:-2] and a.shape[-1] == b.shape[-2])


# How products of any shapes are done, by what is known of their factors.
_CHOSEN: dict[Any, Callable[..., Any]] = {}


def _chosen(key: Any, make: Callable[[], Callable[..., Any]]) -> Callable[..., Any]:
    found = _CHOSEN.get(key)
    if found is None:
        if len(_CHOSEN) >= _MOST_SHAPES:
            _CHOSEN.clear()
        found = _CHOSEN[key] = make()
    return found


def _put_product(a: Any, b: Any, out: Any, ta: bool, tb: bool) -> None:
    _library().add_product(1.0, contiguous(a), contiguous(b), out, ta, tb, 0.0)


def _alone(call: Callable[..., Any]) -> Callable[..., Any]:
    """Make products of OpenBLAS the calling thread's alone."""
    found = open_blas()
    return call if found is None else by_one(call, found.set_threads, found.threads())


def _with_threads_of_ours(call: Callable[..., Any], ta: bool) -> Callable[..., Any]:
    """Make a product of BLAS that our threads have parts of, where that is the faster.

    Args:
        ta: whether it transposes its first factor.
    """
    parts = _in_parts(call, ta)
    return threaded(parts, _alone(call), shared_pool().size, claimed=parts)


def _in_parts(call: Callable[..., Any], ta: bool) -> Callable[..., Any]:
    """Make a product of BLAS, plus a row if one is given, in parts of its rows, which our threads claim."""
    pool = shared_pool()

    def parts(a: Any, b: Any, *rest: Any) -> None:
        *bias, out = rest

        def part(rows: slice) -> None:
            call(a[:, rows] if ta else a[rows], b if b.ndim == 2 else b[rows], out[rows])
            if bias:
                np.add(out[rows], bias[0], out[rows])

        pool.share(len(out), part)

    return _alone(parts)


def _with_threads_of_blas(call: Callable[..., Any], size: int) -> Callable[..., None]:
    found = open_blas()
    if found is None:
        return call
    if size < _HUGE:
        return _alone(call)
    count = found.threads()
    return threaded(call, _alone(call), count)


def _with_threads_of_onednn(call: Callable[..., Any], claimed: Callable[..., Any] | None = None) -> Callable[..., None]:
    library = find_library()
    if library is None:
        return call
    count = library.threads()
    return threaded(call, by_one(call, library.set_threads, count), count, claimed=claimed)


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

        def add_in_parts(factor: float, a: Any, b: Any, c: Any) -> None:
            def part(rows: slice) -> None:
                add_alone(factor, contiguous(a[:, rows]) if ta else a[rows], b, c[rows])

            shared_pool().share(rows, part)

        library = _library()
        add_alone = by_one(add_by_onednn, library.set_threads, library.threads())
        is_long = rows * inner * columns >= _LARGE
        return _with_threads_of_onednn(add_by_onednn, add_in_parts if is_long else None)
    blas = find_blas()
    if blas is None:
        return None

    def add_by_blas(factor: float, a: Any, b: Any, c: Any) -> None:
        blas.add_product(factor, a, b, c, ta, tb)

    return _with_threads_of_blas(add_by_blas, rows * inner * columns)
