"""Products of float32 matrices of known sizes."""

from __future__ import annotations

import ctypes
from typing import Any

from dtfctl.runtime.kernels.onednn.library import QUERY_DST, QUERY_SRC, QUERY_WEIGHTS, Library, OneDnnError
from dtfctl.runtime.kernels.onednn.passes import Pass, adapted

# Implementations that are for lack of a better one.
_SLOW = "ref"


class Product:
    """The product of contiguous matrices, transposed where the flags say so, plus a row for each of its rows if wanted.

    Unlike the library's `sgemm` it reads factors where they are, also transposed ones.

    Args:
        sizes: rows of the product, inner dimension, columns. biased: whether a row is added.

    Raises:
        OneDnnError: the library has nothing good for that.
    """

    def __init__(self, library: Library, sizes: tuple[int, int, int], ta: bool, tb: bool, biased: bool) -> None:
        rows, inner, columns = sizes
        self._library = library
        self._a = library.strided((rows, inner), (1, rows) if ta else (inner, 1))
        self._b = library.strided((inner, columns), (1, inner) if tb else (columns, 1))
        self._bias = library.strided((1, columns), (columns, 1)) if biased else None
        self._out = library.strided((rows, columns), (columns, 1))
        self._run = adapted(library, self._make)

    def __call__(self, *arrays: Any) -> None:
        """Compute the product. Arrays are both factors, the row to add if there is one, and what gets the product."""
        self._run(*arrays)

    def _make(self) -> Pass:
        library, pd = self._library, ctypes.c_void_p()
        operands = (self._a, self._b, self._bias, self._out)
        library.call("matmul_primitive_desc_create", ctypes.byref(pd), library.engine, *operands, None)
        if library.implementation(pd).startswith(_SLOW):
            raise OneDnnError("a product has a slow implementation only")
        bias = {} if self._bias is None else {"bias": (self._bias, QUERY_WEIGHTS, 1)}
        return Pass(
            library,
            pd,
            1,
            src=(self._a, QUERY_SRC, 0),
            weights=(self._b, QUERY_WEIGHTS, 0),
            **bias,
            dst=(self._out, QUERY_DST, 0),
        )
