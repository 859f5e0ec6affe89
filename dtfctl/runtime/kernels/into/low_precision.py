"""Products of bfloat16 and rounding to it, by oneDNN where the CPU has instructions for them."""

from __future__ import annotations

import logging
from functools import lru_cache
from typing import Any

import ml_dtypes
import numpy as np

from dtfctl.runtime.kernels.onednn.find import find_library
from dtfctl.runtime.kernels.onednn.library import Library, OneDnnError, multiplies_bfloat16
from dtfctl.runtime.kernels.onednn.product import Product, Rounding

log = logging.getLogger(__name__)

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
# Multiplications, and numbers, below which making up a call costs more than it saves.
_LEAST_WORK, _LEAST_ROUNDED = 1 << 16, 1 << 13


def multiply_bfloat16(a: Any, b: Any, ta: bool, tb: bool) -> Any:
    """Multiply bfloat16 matrices that fit, transposed where the flags say so; None where that is left to others."""
    (rows, inner), columns = (a.shape[::-1] if ta else a.shape), b.shape[0 if tb else 1]
    library = _library()
    if library is None or rows * inner * columns < _LEAST_WORK:
        return None
    run = _product((rows, inner, columns), ta, tb)
    if run is None:
        return None
    out = np.empty((rows, columns), BFLOAT16)
    run(np.ascontiguousarray(a), np.ascontiguousarray(b), out)
    return out


def rounded_to_bfloat16(x: Any) -> Any:
    """Round a float32 array; denormal numbers may become zero."""
    if x.size < _LEAST_ROUNDED or _library() is None:
        return x.astype(BFLOAT16)
    run = _rounding(x.size)
    if run is None:
        return x.astype(BFLOAT16)
    out = np.empty(x.shape, BFLOAT16)
    run(np.ascontiguousarray(x), out)
    return out


def gains() -> bool:
    """Tell whether bfloat16 is computed as such here; once, a warning says why not."""
    return _library() is not None


def _library() -> Library | None:
    if not multiplies_bfloat16():
        _say_once("this CPU has neither AVX512-BF16 nor AMX")
        return None
    library = find_library()
    if library is None:
        _say_once("oneDNN is not installed (pip install 'dtfctl[fast]')")
        return None
    return None if library.is_forked else library


@lru_cache(4)
def _say_once(reason: str) -> None:
    log.warning("bfloat16 gains nothing here: %s; it is computed in float32 and rounded", reason)


@lru_cache(512)
def _product(sizes: tuple[int, int, int], ta: bool, tb: bool) -> Product | None:
    library = find_library()
    try:
        return None if library is None else Product(library, sizes, ta, tb, False, True)
    except OneDnnError:
        return None


@lru_cache(512)
def _rounding(size: int) -> Rounding | None:
    library = find_library()
    try:
        return None if library is None else Rounding(library, size)
    except OneDnnError:
        return None
