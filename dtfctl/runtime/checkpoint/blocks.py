"""Large tensors to and from a file: in pieces, by several threads, each piece checked while it is in a core's cache."""

from __future__ import annotations

import ctypes
import functools
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import google_crc32c
import numpy as np

from dtfctl.runtime.checkpoint.direct import DirectFile, buffer, whole_pages
from dtfctl.runtime.checkpoint.preserved import ArraySnapshot

# Tensors of fewer bytes are not worth a thread.
LARGE = 4 << 20
# What one thread does at a time, and what it reads or writes in one call.
PIECE = 16 << 20
_CALL = 1 << 20
# In the background each call costs the training three times the way through the interpreter's lock, 0.1 ms each.
_BACKGROUND_CALL = 16 << 20
_POLYNOMIAL = 0x82F63B78


@functools.cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(min(os.cpu_count() or 1, 8), "checkpoint", _yield_to_others)


@functools.cache
def _background() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, "snapshot", _yield_to_others)


@functools.cache
def _background_buffer() -> np.ndarray[Any, Any]:
    """Return the buffer of the one thread that writes in the background."""
    return buffer(_BACKGROUND_CALL)


def _yield_to_others() -> None:
    """Let threads of training steps go first where there are fewer cores than work; a nice value is a thread's here."""
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 10)


@functools.cache
def _unlocked_extend() -> Any:
    """Return the checksum's C function, which ctypes calls without the interpreter's lock;
    None where it is not to be had.

    The package's own function gives the lock away for `bytes` only, and those would have to be copied.
    """
    try:
        from google_crc32c import _crc32c

        function = ctypes.CDLL(_crc32c.__file__).crc32c_extend
    except (ImportError, OSError, AttributeError):
        return None
    function.restype = ctypes.c_uint32
    function.argtypes = (ctypes.c_uint32, ctypes.c_void_p, ctypes.c_size_t)
    return function


def _extend(crc: int, part: np.ndarray[Any, Any]) -> int:
    function = _unlocked_extend()
    if function is None:
        return int(google_crc32c.extend(crc, part))
    return int(function(crc, part.ctypes.data, part.size))


def write_block(handle: int, data: np.ndarray[Any, Any], offset: int) -> Future[int]:
    """Start writing bytes at an offset of a file; the future has their CRC-32C, or the OSError.

    Args:
        data: contiguous bytes that nobody changes meanwhile.
    """

    def piece(start: int, stop: int) -> int:
        crc = 0
        for at in range(start, stop, _CALL):
            part = data[at : min(at + _CALL, stop)]
            crc = _extend(crc, part)
            view = part.data
            done = 0
            while done < len(view):
                done += os.pwrite(handle, view[done:], offset + at + done)
        return crc

    return _in_pieces(piece, data.size)


def write_behind(file: DirectFile, data: np.ndarray[Any, Any] | ArraySnapshot, offset: int) -> Future[int]:
    """Write behind: the same in the background, by one thread, what else computes here goes first. Takes whole pages.

    Args:
        data: bytes that nobody changes meanwhile, or what an array held that is updated.
        offset: of a page.
    """

    def work() -> int:
        crc = 0
        room = _background_buffer()
        try:
            for at in range(0, data.size, _BACKGROUND_CALL):
                stop = min(at + _BACKGROUND_CALL, data.size)
                part, pages = room[: stop - at], room[: whole_pages(stop - at)]
                if isinstance(data, ArraySnapshot):
                    data.read(at, stop, part)
                else:
                    np.copyto(part, data[at:stop])
                pages[part.size :] = 0
                crc = _extend(crc, part)
                file.write(pages, offset + at)
        finally:
            if isinstance(data, ArraySnapshot):
                data.end()
        return crc

    return _background().submit(work)


def read_block(handle: int, data: np.ndarray[Any, Any], offset: int) -> Future[int]:
    """Start filling bytes from an offset of a file; the future has their CRC-32C, or an OSError.

    Raises (the future):
        EOFError: the file ends before.
    """

    def piece(start: int, stop: int) -> int:
        crc = 0
        for at in range(start, stop, _CALL):
            part = data[at : min(at + _CALL, stop)]
            view = part.data
            done = 0
            while done < len(view):
                count = os.preadv(handle, [view[done:]], offset + at + done)
                if not count:
                    raise EOFError
                done += count
            crc = _extend(crc, part)
        return crc

    return _in_pieces(piece, data.size)


def check_block(data: np.ndarray[Any, Any]) -> Future[int]:
    """Start reading bytes where they are; the future has their CRC-32C."""
    return _in_pieces(lambda start, stop: _extend(0, data[start:stop]), data.size)


def _in_pieces(work: Callable[[int, int], int], size: int) -> Future[int]:
    """Run `work` on all pieces in threads; the CRC of the whole."""
    whole: Future[int] = Future()
    parts = [_threads().submit(work, at, min(at + PIECE, size)) for at in range(0, size, PIECE)]
    missing = len(parts)
    lock = threading.Lock()

    def ended(_: Future[int]) -> None:
        nonlocal missing
        with lock:
            missing -= 1
            if missing:
                return
        try:
            crc = 0
            for at, part in zip(range(0, size, PIECE), parts):
                crc = combine(crc, part.result(), min(PIECE, size - at))
        except (OSError, EOFError) as e:
            whole.set_exception(e)
        else:
            whole.set_result(crc)

    for part in parts:
        part.add_done_callback(ended)
    return whole


def combine(first: int, second: int, length: int) -> int:
    """Combine the CRC-32C of two byte strings one after the other, from theirs and the second's length."""
    return _times(_zeros(length), first) ^ second


@functools.lru_cache(maxsize=64)
def _zeros(length: int) -> tuple[int, ...]:
    """Return what `length` zero bytes do to a CRC: a matrix over GF(2), a column a bit."""
    # One zero bit shifts, and folds the bit that falls out into the polynomial.
    power = (_POLYNOMIAL, *(1 << i for i in range(31)))
    out = tuple(1 << i for i in range(32))
    bits = length * 8
    while bits:
        if bits & 1:
            out = tuple(_times(power, column) for column in out)
        power = tuple(_times(power, column) for column in power)
        bits >>= 1
    return out


def _times(matrix: tuple[int, ...], vector: int) -> int:
    out = 0
    for column in matrix:
        if not vector:
            break
        if vector & 1:
            out ^= column
        vector >>= 1
    return out
