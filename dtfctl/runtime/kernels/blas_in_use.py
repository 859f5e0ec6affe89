"""Which BLAS numpy multiplies with in this process: what was asked for in the environment need not be what runs."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from dtfctl.cores import available

_MAPS = Path("/proc/self/maps")


@dataclass(frozen=True)
class OpenBlas:
    """The functions of a loaded OpenBLAS that say and set how it multiplies.

    Attributes:
        address: where `set_threads` is, for machine code.
        usual_threads: how many threads it has where nobody has set less for a while.
    """

    core_name: Callable[[], bytes]
    threads: Callable[[], int]
    set_threads: Callable[[int], None]
    address: int
    usual_threads: int


@lru_cache(1)
def open_blas() -> OpenBlas | None:
    """numpy's OpenBLAS; None where numpy has another BLAS."""
    for path in blas_libraries():
        library = ctypes.CDLL(path)
        for prefix in ("scipy_openblas_", "openblas_"):
            for suffix in ("64_", ""):
                names = [f"{prefix}{name}{suffix}" for name in ("get_corename", "get_num_threads", "set_num_threads")]
                core, threads, set_threads = (getattr(library, name, None) for name in names)
                if core is not None and threads is not None and set_threads is not None:
                    core.restype, set_threads.restype = ctypes.c_char_p, None
                    # It obeys the environment, but counts cores, not what control groups leave of them.
                    if threads() > available():
                        set_threads(available())
                    address = ctypes.cast(set_threads, ctypes.c_void_p).value or 0
                    return OpenBlas(core, threads, set_threads, address, threads())
    return None


def blas_in_use() -> str:
    """Name the core type OpenBLAS runs kernels for and its threads, such as `SkylakeX x2`; empty for any other BLAS."""
    found = open_blas()
    return "" if found is None else f"{found.core_name().decode()} x{found.threads()}"


def blas_libraries() -> Iterator[str]:
    """Paths of the BLAS libraries that lie with numpy, then of others that are loaded."""
    beside = Path(np.__file__).parent.parent / "numpy.libs"
    yield from (str(path) for path in sorted(beside.glob("*openblas*")))
    if _MAPS.exists():
        # One that is not numpy's own is there when it has multiplied something.
        np.dot(np.ones((4, 4), "f4"), np.ones((4, 4), "f4"))
        lines = _MAPS.read_text().splitlines()
        yield from sorted({line.split()[-1] for line in lines if "blas" in line.rpartition("/")[2]})
