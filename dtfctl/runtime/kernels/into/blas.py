"""The matrix product of the BLAS that numpy uses, with what numpy has no words for: adding to what is there.

numpy's own library is in the process already; its `cblas_sgemm` and `cblas_dgemm` are found in it by the names that
numpy's wheels and the usual packages give them, and used once they have computed a small product right.
"""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from dtfctl.runtime.kernels.blas_in_use import blas_libraries, open_blas
from dtfctl.runtime.kernels.into.registry import Spec, Unfit
from dtfctl.runtime.kernels.native import tape
from dtfctl.runtime.kernels.native.matrices import Matrices
from dtfctl.runtime.kernels.native.tape import Pool, Step

log = logging.getLogger(__name__)

_ROW_MAJOR, _AS_IS, _TRANSPOSED = 101, 111, 112
# (prefix, suffix, integers): as in the wheels of numpy, and as in distributions of BLAS with long and usual integers.
_NAMES = (
    ("scipy_cblas_", "64_", ctypes.c_int64),
    ("cblas_", "64_", ctypes.c_int64),
    ("scipy_cblas_", "", ctypes.c_int32),
    ("cblas_", "", ctypes.c_int32),
)


class Blas:
    """`cblas_?gemm` of one library."""

    def __init__(self, dll: Any, prefix: str, suffix: str, integer: Any) -> None:
        self._calls = {
            np.dtype(np.float32): _declared(getattr(dll, f"{prefix}sgemm{suffix}"), integer, ctypes.c_float),
            np.dtype(np.float64): _declared(getattr(dll, f"{prefix}dgemm{suffix}"), integer, ctypes.c_double),
        }

    def address(self, dtype: np.dtype[Any]) -> int:
        """Return where the function for a type is, float32 or float64."""
        return ctypes.cast(self._calls[dtype], ctypes.c_void_p).value or 0

    def add_product(self, alpha: float, a: Any, b: Any, c: Any, ta: bool, tb: bool) -> None:
        """c += alpha * a @ b, of a and b transposed where the flags say so; matrices of one type, all contiguous."""
        rows, columns = c.shape
        inner = a.shape[0] if ta else a.shape[1]
        self._calls[c.dtype](
            _ROW_MAJOR,
            _TRANSPOSED if ta else _AS_IS,
            _TRANSPOSED if tb else _AS_IS,
            rows,
            columns,
            inner,
            alpha,
            a.__array_interface__["data"][0],
            a.shape[1],
            b.__array_interface__["data"][0],
            b.shape[1],
            1.0,
            c.__array_interface__["data"][0],
            columns,
        )


def step_by_blas(matrices: Matrices, may_use_threads: bool, is_shared: bool = False) -> Step | None:
    """Make products of matrices a step of a tape; None where that cannot be.

    Args:
        may_use_threads: whether one is so large that the library might use more than the caller's.
        is_shared: whether the second factor comes as a `Factor`.

    Raises:
        KeyError: the code of tapes was not compiled yet.
        OSError: the system lets nobody run what they have written.
    """
    blas, code, pool = find_blas(), tape.image(), open_blas()
    if blas is None or code is None or (may_use_threads and pool is None):
        return None
    makes: dict[int, Callable[[Any], Any]] = {}
    dtype = matrices.specs[-1].dtype
    if is_shared:
        a, b, out = matrices.specs
        makes[1] = _Held((b.shape[0], b.shape[1]), dtype, matrices.tb)
        # A factor gives itself as it is, and the other way round.
        b = Spec((b.shape[1], b.shape[0]), dtype) if matrices.tb else b
        matrices = replace(matrices, tb=False, specs=[a, b, out])
    one = Pool(pool.address, pool.usual_threads, False) if may_use_threads and pool is not None else None
    flags = [_TRANSPOSED if t else _AS_IS for t in (matrices.ta, matrices.tb)]
    head = [blas.address(dtype), _ROW_MAJOR, *flags]
    return matrices.step(code, "sgemm" if dtype == np.float32 else "dgemm", head, one, blas, makes)


@dataclass(frozen=True)
class _Held:
    """Makes of a `Factor`, in an array without dimensions, what BLAS multiplies with."""

    shape: tuple[int, int]
    dtype: np.dtype[Any]
    is_transposed: bool

    def __call__(self, value: Any) -> Any:
        factor = value.item()
        if factor.array.shape != self.shape or factor.array.dtype != self.dtype:
            raise Unfit
        return factor.transposed() if self.is_transposed else factor.array


def _declared(function: Any, integer: Any, real: Any) -> Any:
    pointer = ctypes.c_void_p
    matrix = [pointer, integer]
    function.argtypes = [ctypes.c_int] * 3 + [integer] * 3 + [real, *matrix, *matrix, real, *matrix]
    function.restype = None
    return function


@lru_cache(1)
def find_blas() -> Blas | None:
    """numpy's BLAS, tested; None where it is not to be found."""
    for path in blas_libraries():
        try:
            dll = ctypes.CDLL(path)
        except OSError as e:
            log.debug("not using BLAS at %s: %s", path, e)
            continue
        for prefix, suffix, integer in _NAMES:
            if hasattr(dll, f"{prefix}sgemm{suffix}") and hasattr(dll, f"{prefix}dgemm{suffix}"):
                blas = Blas(dll, prefix, suffix, integer)
                if _works(blas):
                    return blas
                log.debug("not using %ssgemm%s of %s: a small product comes out wrong", prefix, suffix, path)
    return None


def _works(blas: Blas) -> bool:
    for dtype in (np.float32, np.float64):
        a: Any = np.arange(15, dtype=dtype).reshape(5, 3)
        b: Any = np.arange(20, dtype=dtype).reshape(5, 4)
        c = np.ones((3, 4), dtype)
        blas.add_product(-0.5, a, b, c, True, False)
        d = np.ones((5, 5), dtype)
        blas.add_product(2.0, a, a, d, False, True)
        if not np.allclose(c, 1 - 0.5 * (a.T @ b)) or not np.allclose(d, 1 + 2 * (a @ a.T)):
            return False
    return True
