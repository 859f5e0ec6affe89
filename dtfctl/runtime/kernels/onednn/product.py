"""Products of float32 or bfloat16 matrices of known sizes, and rounding of one to the other."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from typing import Any

from dtfctl.runtime.kernels.onednn.library import (
    QUERY_DST,
    QUERY_SRC,
    QUERY_WEIGHTS,
    SLOW,
    Library,
    OneDnnError,
    arguments,
)
from dtfctl.runtime.kernels.onednn.passes import Pass, adapted


class Product:
    """The product of contiguous matrices, transposed where the flags say so, plus a row for each of its rows if wanted.

    Unlike the library's `sgemm` it reads factors where they are, also transposed ones.

    Args:
        sizes: rows of the product, inner dimension, columns. biased: whether a row is added.
        is_bfloat16: whether arrays are, instead of float32; sums are float32's all the same.
        claimed: the same in parts that threads claim.
        is_shared: whether the second factor comes as a `Factor`, which keeps it in the layout that suits best.

    Raises:
        OneDnnError: the library has nothing good for that.
    """

    def __init__(
        self,
        library: Library,
        sizes: tuple[int, int, int],
        ta: bool,
        tb: bool,
        biased: bool,
        is_bfloat16: bool = False,
        claimed: Callable[..., None] | None = None,
        is_shared: bool = False,
    ) -> None:
        rows, inner, columns = sizes
        self._wanted = library.any_layout((inner, columns), is_bfloat16) if is_shared else None
        self._library = library
        self._a = library.strided((rows, inner), (1, rows) if ta else (inner, 1), is_bfloat16)
        self._b = library.strided((inner, columns), (1, inner) if tb else (columns, 1), is_bfloat16)
        self._bias = library.strided((1, columns), (columns, 1)) if biased else None
        self._out = library.strided((rows, columns), (columns, 1), is_bfloat16)
        self._run = adapted(library, self._make, claimed)

    def __call__(self, *arrays: Any) -> None:
        """Compute the product. Arrays are both factors, the row to add if there is one, and what gets the product."""
        self._run(*arrays)

    def _make(self) -> Pass:
        library, pd = self._library, ctypes.c_void_p()
        operands = (self._a, self._wanted or self._b, self._bias, self._out)
        library.call("matmul_primitive_desc_create", ctypes.byref(pd), library.engine, *operands, None)
        if library.implementation(pd).startswith(SLOW):
            raise OneDnnError("a product has a slow implementation only")
        bias = {} if self._bias is None else {"bias": (self._bias, QUERY_WEIGHTS, 1)}
        return Pass(
            library,
            pd,
            1,
            ("weights",) if self._wanted else (),
            src=(self._a, QUERY_SRC, 0),
            weights=(self._b, QUERY_WEIGHTS, 0),
            **bias,
            dst=(self._out, QUERY_DST, 0),
        )


class Rounding:
    """Rounds contiguous float32 arrays of one size to bfloat16, to the nearest and of two to the even.

    Raises:
        OneDnnError: the library does not.
    """

    def __init__(self, library: Library, size: int) -> None:
        source, target = library.vector(size), library.strided((size,), (1,), True)
        self._library = library
        self._from, self._to = library.memory(source), library.memory(target)
        self._reorder = library.reorder(source, target)
        self._args = arguments(src=self._from, dst=self._to)
        self._lock = threading.Lock()

    def __call__(self, x: Any, out: Any) -> None:
        with self._lock:
            self._library.point(self._from, x)
            self._library.point(self._to, out)
            self._library.execute(self._reorder, self._args)
