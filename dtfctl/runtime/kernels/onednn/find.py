"""The oneDNN library of this host.

It is the one that the package onednn-cpu-gomp brings, or one on the loader's path; `DTF_ONEDNN` names another, and if
empty, none. It is loaded at the first use, and used only if it then computes a small convolution right.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from dtfctl import later
from dtfctl.runtime.kernels.onednn.convolution import Convolution
from dtfctl.runtime.kernels.onednn.library import Library, OneDnnError

log = logging.getLogger(__name__)

_PACKAGES = ("onednn-cpu-gomp",)
_NAME = "libdnnl.so.3"


def _candidates() -> Iterator[str]:
    named = os.environ.get("DTF_ONEDNN")
    if named is not None:
        if named:
            yield named
        return
    from importlib import metadata  # Here: it takes as long to import as all kernels of a family.

    for package in _PACKAGES:
        try:
            files = metadata.files(package) or ()
        except metadata.PackageNotFoundError:
            continue
        yield from (str(f.locate()) for f in files if f.name == _NAME)
    yield _NAME


def find_library() -> Library | None:
    """Find the library, loaded and tested; None where none works, or while it is on its way to this host."""
    return _found() if later.arrived("fast") else None


@lru_cache(1)
def _found() -> Library | None:
    for path in _candidates():
        try:
            library = Library(path)
            _test(library)
        except (OSError, OneDnnError) as e:
            log.debug("not using oneDNN at %s: %s", path, e)
            continue
        log.debug("convolutions by oneDNN at %s", path)
        return library
    return None


def _test(library: Library) -> None:
    """Raise OneDnnError unless a small convolution and its gradients come out right."""
    x = np.arange(2 * 5 * 4 * 3, dtype=np.float32).reshape(2, 5, 4, 3) % 7
    w = np.arange(3 * 2 * 3 * 4, dtype=np.float32).reshape(3, 2, 3, 4) % 5
    convolution = Convolution(library, x.shape, w.shape, (5, 4), (1, 1), (1, 1), ((1, 1), (0, 1)))
    y = np.empty((2, 5, 4, 4), np.float32)
    convolution.forward(x, w, y)
    padded = np.zeros((2, 7, 5, 3), np.float32)
    padded[:, 1:6, :4] = x
    want = np.zeros_like(y)
    dw, dx = np.zeros_like(w), np.zeros_like(padded)
    for i in range(3):
        for j in range(2):
            tap = padded[:, i : i + 5, j : j + 4]
            want += tap @ w[i, j]
            dw[i, j] = tap.reshape(-1, 3).T @ x.repeat(2, -1)[..., :4].reshape(-1, 4)
            dx[:, i : i + 5, j : j + 4] += x.repeat(2, -1)[..., :4] @ w[i, j].T
    dy = np.ascontiguousarray(x.repeat(2, -1)[..., :4])
    got_dw, got_dx = np.empty_like(w), np.empty_like(x)
    convolution.filter_gradient(x, dy, got_dw)
    convolution.input_gradient(dy, w, got_dx)
    for got, expected in ((y, want), (got_dw, dw), (got_dx, dx[:, 1:6, :4])):
        if not np.allclose(got, expected, rtol=1e-4, atol=1e-3):
            raise OneDnnError("a small convolution comes out wrong")
