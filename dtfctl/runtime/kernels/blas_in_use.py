"""Which BLAS numpy multiplies with in this process: what was asked for in the environment need not be what runs."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from pathlib import Path

import numpy as np

_MAPS = Path("/proc/self/maps")


def blas_in_use() -> str:
    """The core type whose kernels OpenBLAS runs and its threads, such as `SkylakeX x2`; empty for any other BLAS."""
    for path in _loaded():
        library = ctypes.CDLL(path)
        for prefix in ("scipy_openblas_", "openblas_"):
            for suffix in ("64_", ""):
                core = getattr(library, f"{prefix}get_corename{suffix}", None)
                threads = getattr(library, f"{prefix}get_num_threads{suffix}", None)
                if core is not None and threads is not None:
                    core.restype = ctypes.c_char_p
                    return f"{core().decode()} x{threads()}"
    return ""


def _loaded() -> Iterator[str]:
    np.dot(np.ones((4, 4), "f4"), np.ones((4, 4), "f4"))
    if _MAPS.exists():
        yield from sorted({line.split()[-1] for line in _MAPS.read_text().splitlines() if "openblas" in line})
