"""Numbers too small for a full mantissa count as zero in the threads of a server, as they do in TensorFlow's.

Processors work on them many times slower than on others. Whether they do is a flag of each thread, and a thread starts
with the flag of the one that started it.
"""

from __future__ import annotations

import ctypes
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

# Where glibc's and musl's fenv_t has the SSE control word, and the bits in it that flush results and operands.
_WORDS, _MXCSR, _FLUSH = 8, 7, 0x8040


@cache
def _libm() -> ctypes.CDLL | None:
    """Load the C library's floating point environment; None where it is not that of x86-64 Linux."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return None
    return ctypes.CDLL(None) if hasattr(ctypes.CDLL(None), "fesetenv") else ctypes.CDLL("libm.so.6")


def flush_denormals(flush: bool = True) -> None:
    """Count denormal numbers as zero from now on, or no longer, in this thread and in those it starts."""
    _exchange(_FLUSH if flush else 0)


@contextmanager
def denormals_flushed() -> Iterator[None]:
    """Count denormal numbers as zero for as long as the context lasts; threads started in it keep it."""
    before = _exchange(_FLUSH)
    try:
        yield
    finally:
        _exchange(before)


def flushes_denormals() -> bool:
    """Tell whether this thread counts denormal numbers as zero."""
    libm = _libm()
    if libm is None:
        return False
    words = (ctypes.c_uint32 * _WORDS)()
    libm.fegetenv(words)
    return bool(words[_MXCSR] & _FLUSH)


def _exchange(flags: int) -> int:
    """Make those flags of this thread be `flags`; what they were."""
    libm = _libm()
    if libm is None:
        return 0
    words = (ctypes.c_uint32 * _WORDS)()
    libm.fegetenv(words)
    before = words[_MXCSR] & _FLUSH
    words[_MXCSR] = (words[_MXCSR] & ~_FLUSH) | flags
    libm.fesetenv(words)
    return before
