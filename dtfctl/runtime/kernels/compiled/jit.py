"""numba, if it is there: loops compiled when a plan or a kernel first wants them, and kept in the user's cache folder.

numba takes some 100 MB and a moment to import, so it is left alone until there are arrays of a size that is worth that.
`DTF_NUMBA=0` turns it off. Whether a loop is compiled depends on sizes and types only, so that the same program rounds
the same way every time.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import logging
import os
import stat
import threading
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from dtfctl import later
from dtfctl.durable import whole_file
from dtfctl.runtime.kernels.compiled import loops

log = logging.getLogger(__name__)

# Bytes of an array below which numpy's passes stay in cache and do well enough.
LEAST_BYTES = 2 << 20
_LOCK = threading.Lock()


def is_available() -> bool:
    """Tell whether numba is installed and not turned off; it is not imported for that. On a host it may come later."""
    return later.arrived("fast") and _is_installed()


@lru_cache(1)
def _is_installed() -> bool:
    return os.environ.get("DTF_NUMBA", "1") != "0" and importlib.util.find_spec("numba") is not None


def compiled(
    loop: Callable[..., None], dtype: np.dtype[Any], nbytes: int, least: int = LEAST_BYTES
) -> Callable[..., None] | None:
    """Compile a loop of `loops` for arrays of `nbytes` bytes; None where numpy is to do it, as below `least`."""
    if nbytes < least or dtype not in (np.float32, np.float64) or not is_available():
        return None
    with _LOCK:
        return _compile(loop)


def jitted(source: str, streams: bool = False) -> Callable[..., None] | None:
    """Compile the only function of a source; None where there is no numba.

    Args:
        streams: whether it uses `ahead`, `stream` and `fence` of streams.py.
    """
    if not is_available():
        return None
    with _LOCK:
        return _compile_source(source, streams)


@lru_cache(256)
def _compile_source(source: str, streams: bool) -> Callable[..., None] | None:
    if _numba() is None:
        return None
    names: dict[str, Any] = {"__name__": __name__, "np": np}
    parts = source.encode()
    if streams:
        module = importlib.import_module("dtfctl.runtime.kernels.compiled.streams")
        names.update(ahead=module.ahead, stream=module.stream, fence=module.fence)
        # It becomes part of the machine code.
        parts += Path(module.__file__ or "").read_bytes()
    # Machine code is kept beside a file of the same age; nothing is read from it.
    path = _folder() / f"{hashlib.sha256(parts).hexdigest()[:32]}.py"
    known = set(names)
    exec(compile(source, str(path), "exec"), names)
    try:
        if _is_kept() and not path.exists():
            with whole_file(path) as file:
                file.write(source.encode())
    except OSError as e:
        log.warning("loops cannot be kept in %s: %s", path.parent, e)
        return None
    (function,) = (value for name, value in names.items() if name not in known and callable(value))
    return _compile(function)


@lru_cache(256)
def _compile(loop: Callable[..., None]) -> Callable[..., None] | None:
    numba = _numba()
    if numba is None:
        return None
    function: Callable[..., None] = numba.njit(nogil=True, cache=_is_kept(), error_model="numpy")(loop)
    return function


@lru_cache(1)
def _numba() -> Any:
    """Import numba, told where to keep machine code; None where it cannot be used."""
    os.environ.setdefault("NUMBA_CACHE_DIR", str(_folder()))
    try:
        import numba

        # Which tells numba what `loops.soon` is.
        importlib.import_module("dtfctl.runtime.kernels.compiled.prefetch")
    except (ImportError, OSError) as e:
        log.warning("numba is installed, but cannot be used: %s", e)
        return None
    return numba


@lru_cache(1)
def _is_kept() -> bool:
    """Tell whether machine code may be kept: what is read from the folder is run, so it has to be this user's alone."""
    for folder in {_folder(), Path(os.environ.get("NUMBA_CACHE_DIR") or _folder())}:
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            why = not_private(folder)
        except OSError as e:
            why = e.strerror or str(e)
        if why:
            log.warning("loops are compiled anew by each process, as %s %s", folder, why)
            return False
    return True


def not_private(folder: Path) -> str:
    """Say why others may have written in a folder; empty: nobody else can. It is closed to readers meanwhile.

    Raises:
        OSError: it cannot be looked at.
    """
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode):
        return "is no folder"
    if found.st_uid != os.geteuid():
        return "belongs to another user"
    if stat.S_IMODE(found.st_mode) & 0o022:
        return f"can be written by others (mode {stat.S_IMODE(found.st_mode):04o}): remove it"
    if stat.S_IMODE(found.st_mode) & 0o055:
        folder.chmod(0o700)
    return ""


def _folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "dtfctl" / "numba"


__all__ = ["LEAST_BYTES", "compiled", "is_available", "jitted", "loops"]
