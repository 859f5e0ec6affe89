"""Machine code, callable from Python without a wrapper in between.

A compiled region is a built-in function (`METH_FASTCALL`) that takes arrays as they are and looks itself at what they
are: their type, shape and order. Addresses of the interpreter's are in a table that it gets as `self`, so the code
itself has none and is the same for every process. `DTF_NATIVE=0` turns regions off.
"""

from __future__ import annotations

import ctypes
import importlib.util
import logging
import mmap
import os
import platform
import sys
import sysconfig
import threading
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from dtfctl import later
from dtfctl.runtime.kernels.native import kept
from dtfctl.runtime.kernels.native.image import OUTSIDE, Image

log = logging.getLogger(__name__)

_METH_FASTCALL = 0x80
# Where a numpy array has what: its own memory, and offsets in bytes that numpy's C ABI fixes for 64 bits.
DATA, RANK, DIMENSIONS, DESCRIPTOR, FLAGS = 16, 24, 32, 56, 64
CONTIGUOUS, WRITABLE = 0x101, 0x400
# What the table has at which place; data types follow, and numbers: how far behind `NUMBERS` descriptions of arrays
# begin, those that the code is generic in, and the descriptions (code.py).
ARRAY_TYPE, TRUE, FALSE, INCREF, SAVE_THREAD, RESTORE_THREAD, DTYPES = range(7)
# How many libraries use one thread while a tape runs: oneDNN and BLAS.
TAPE_POOLS = 2
# How many arrays a step that is no region gets at most.
MOST_OF_STEP = 6
# Functions of images that the interpreter calls; others are called by tapes, or are none.
_BUILT_IN = ("region", "part")
TYPES = ("f4", "f8", "i4", "i8", "b1", "u1")
NUMBERS = DTYPES + len(TYPES)


def is_available() -> bool:
    """Tell whether regions are to be compiled; nothing is imported for that. On a host llvmlite may come later."""
    return not _refused.is_set() and os.environ.get("DTF_NATIVE", "1") != "0" and can_compile()


def can_compile() -> bool:
    """Tell whether there is what compiles regions."""
    return later.arrived("fast") and _is_usable()


@lru_cache(1)
def _is_usable() -> bool:
    return (
        sys.implementation.name == "cpython"
        and ctypes.sizeof(ctypes.c_void_p) == 8
        and sys.byteorder == "little"
        and not sysconfig.get_config_var("Py_GIL_DISABLED")
        and not hasattr(sys, "getobjects")
        and platform.machine() in ("x86_64", "AMD64")
        and "fma" in kept.processor().split()
        and importlib.util.find_spec("llvmlite") is not None
        and _lies_as_expected()
    )


def _lies_as_expected() -> bool:
    """Tell whether arrays have what compiled code reads where it reads it."""
    array = np.zeros((3, 5), np.float32)
    at = id(array)
    word = ctypes.c_void_p.from_address
    return (
        word(at + DATA).value == array.ctypes.data
        and ctypes.c_int.from_address(at + RANK).value == 2
        and list((ctypes.c_int64 * 2).from_address(word(at + DIMENSIONS).value or at)) == [3, 5]
        and word(at + DESCRIPTOR).value == id(array.dtype)
        and ctypes.c_int.from_address(at + FLAGS).value & (CONTIGUOUS | WRITABLE) == CONTIGUOUS | WRITABLE
    )


class _Table(np.ndarray[Any, Any]):
    """What a compiled function gets as `self`; it holds what the function is made of."""

    held: Any = None


class _MethodDef(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    ]


# Set once the system has let nobody run what they have written.
_refused = threading.Event()


def refused(why: OSError) -> None:
    """Go on without regions, and say so, once."""
    if not _refused.is_set():
        _refused.set()
        log.warning("compiled code may not be run here: %s; steps go on by numpy", why.strerror)


def numbers_of(own: Sequence[int], described: Sequence[int]) -> tuple[int, ...]:
    """Return the numbers of a code's table: those that it is generic in, and descriptions of the arrays it gets."""
    return (1 + len(own), *own, *described)


def load(image: Image, numbers: Sequence[int]) -> dict[str, Callable[..., bool]]:
    """Make the functions of an image callable; each has the signature of a built-in one, and holds the image.

    Args:
        numbers: see `numbers_of`.

    Raises:
        OSError: the system lets nobody run what they have written.
    """
    held, start = _mapped(image)
    return {name: built_in(start + at, numbers, held) for name, at in image.entries.items() if name in _BUILT_IN}


def built_in(entry: int, numbers: Sequence[int], held: Any) -> Callable[..., bool]:
    """Make the code at an address a built-in function of the interpreter's, which holds what it is made of."""
    method = _MethodDef(b"region", entry, _METH_FASTCALL, None)
    table = table_of(numbers).view(_Table)
    table.held = held, method
    return _new_function(ctypes.byref(method), table, None)  # type: ignore[no-any-return]


def table_of(numbers: Sequence[int]) -> Any:
    """Make the table of a code."""
    return np.array([*_addresses(), *numbers], np.int64)


def entry(image: Image, name: str) -> tuple[int, Any]:
    """Return the address of one of an image's functions, and what must be held as long as it may be called.

    Raises:
        OSError: the system lets nobody run what they have written.
    """
    held, start = _mapped(image)
    return start + image.entries[name], held


def function(image: Image, name: str) -> Callable[[bytes], int]:
    """Make a function of an image callable that gets the address of bytes; it runs without the interpreter's lock.

    Raises:
        OSError: the system lets nobody run what they have written.
        AttributeError: the interpreter has not got a function from outside that it calls.
    """
    held, start = _mapped(image)
    made: Any = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p)(start + image.entries[name])
    made.held = held
    return made  # type: ignore[no-any-return]


@lru_cache(256)
def _mapped(image: Image) -> tuple[mmap.mmap, int]:
    """Put an image where it can be run; the memory, and where it is."""
    held = mmap.mmap(-1, len(image.code), prot=mmap.PROT_READ | mmap.PROT_WRITE)
    held.write(image.code)
    for name, at in image.entries.items():
        if name.startswith(OUTSIDE):
            address = ctypes.cast(getattr(_PROGRAM, name.removeprefix(OUTSIDE)), ctypes.c_void_p).value or 0
            held[at : at + 8] = address.to_bytes(8, "little")
    start = ctypes.addressof(ctypes.c_char.from_buffer(held))
    if _protect(start, len(image.code), mmap.PROT_READ | mmap.PROT_EXEC):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return held, start


# With the C library and its mathematics, which the interpreter itself uses.
_PROGRAM = ctypes.CDLL(None, use_errno=True)
_protect = _PROGRAM.mprotect
_protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_new_function = ctypes.pythonapi.PyCFunction_NewEx
_new_function.restype = ctypes.py_object
_new_function.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]


@lru_cache(1)
def _addresses() -> list[int]:
    def of(name: str) -> int:
        return ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0

    functions = [of("Py_IncRef"), of("PyEval_SaveThread"), of("PyEval_RestoreThread")]
    return [id(np.ndarray), id(True), id(False), *functions, *(id(np.dtype(t)) for t in TYPES)]
