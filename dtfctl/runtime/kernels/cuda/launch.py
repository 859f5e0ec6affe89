"""Compiling a CUDA source at first use and launching its kernels through the device's array module (cupy)."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from dtfctl.runtime.kernels.cuda.sources import source_text

_BLOCK = 256
_MAX_BLOCKS = 65535
_modules: dict[tuple[Any, str, str, str], Any] = {}
_lock = threading.Lock()


def launch(
    xp: Any, source: str, kernel: str, count: int, args: tuple[Any, ...], *, element: str, index: str = "int64"
) -> None:
    """Run `kernel` with a thread for each of `count` elements (fewer where there are very many).

    Args:
        args: C-contiguous device arrays, numpy scalars, and ints, which arrive as `long long`.
    """
    _start(xp, source, kernel, -(-count // _BLOCK), args, element, index)


def launch_rows(
    xp: Any, source: str, kernel: str, rows: int, args: tuple[Any, ...], *, element: str, index: str = "int64"
) -> None:
    """Run `kernel` with a block of threads for each of `rows` rows."""
    _start(xp, source, kernel, rows, args, element, index)


def _start(xp: Any, source: str, kernel: str, blocks: int, args: tuple[Any, ...], element: str, index: str) -> None:
    if blocks == 0:
        return
    given = tuple(np.int64(a) if isinstance(a, int) else a for a in args)
    _module(xp, source, element, index).get_function(kernel)((min(blocks, _MAX_BLOCKS),), (_BLOCK,), given)


def _module(xp: Any, source: str, element: str, index: str) -> Any:
    key = (xp, source, element, index)
    with _lock:
        module = _modules.get(key)
        if module is None:
            # cupy keeps one handle for each device of a module by itself, and compiled programs in its disk cache.
            module = _modules[key] = xp.RawModule(code=source_text(source, element, index))
    return module
