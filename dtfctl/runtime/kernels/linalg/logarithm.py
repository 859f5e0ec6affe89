"""The principal logarithm of a matrix, by square roots of its Schur form: the number of roots is bounded."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

# The logarithm of any nonzero float64 is below 750, and each root halves it.
_MOST_ROOTS = 40
# Closer to the identity than that, the approximant below is exact to double precision.
_CLOSE = 0.25
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(8)
# Triangles up to that size are done element by element, larger ones in halves.
_SMALL = 16


def matrix_logarithm(x: Any) -> Any:
    """Compute the logarithm of a complex square matrix; NaN where it has none, as when it is singular."""
    from scipy import linalg

    nothing = np.full(x.shape, np.nan * (1 + 1j), np.complex128)
    largest = float(np.max(np.maximum(abs(x.real), abs(x.imag)))) if np.isfinite(x).all() else 0.0
    if largest == 0.0:
        return nothing
    # Nothing overflows on the way: log(c A) = log(A) + log(c).
    scale = math.frexp(largest)[1]
    scaled = np.ldexp(x.real.astype(np.float64), -scale) + 1j * np.ldexp(x.imag.astype(np.float64), -scale)
    try:
        triangle, unitary = linalg.schur(scaled, output="complex")
    except linalg.LinAlgError:
        return nothing
    eigenvalues = np.diagonal(triangle)
    if not eigenvalues.all():
        return nothing
    with np.errstate(all="ignore"):
        logarithm = _of_triangle(triangle) + math.log(2.0) * scale * np.eye(len(x))
        result = unitary @ logarithm @ unitary.conj().T
    return result if np.isfinite(result).all() else nothing


def _of_triangle(t: Any) -> Any:
    from scipy import linalg

    n = len(t)
    one, root, roots = np.eye(n), t, 0
    if np.array_equal(t, np.diag(np.diagonal(t))):
        return np.diag(np.log(np.diagonal(t)))
    while not abs(root - one).sum(axis=0).max() < _CLOSE and roots < _MOST_ROOTS:
        root, roots = _root(root), roots + 1
        if not np.isfinite(root).all():
            return root
    rest = root - one
    out = np.zeros_like(t)
    # Gauss' and Legendre's quadrature of X (I + s X)^-1 over s from 0 to 1: the diagonal Pade approximant.
    for node, weight in zip((1 + _NODES) / 2, _WEIGHTS / 2):
        out += weight * linalg.solve_triangular(one + node * rest, rest, check_finite=False)
    out *= 2.0**roots
    exact = np.log(np.diagonal(t))
    np.fill_diagonal(out, exact)
    return out


def _root(t: Any) -> Any:
    """Compute the square root of an upper triangle."""
    from scipy.linalg import lapack

    n = len(t)
    if n > _SMALL:
        half = n // 2
        first, last = _root(t[:half, :half]), _root(t[half:, half:])
        out = np.zeros_like(t)
        between, scale, _ = lapack.ztrsyl(first, last, t[:half, half:])
        out[:half, :half], out[half:, half:] = first, last
        out[:half, half:] = between / scale if scale else np.nan
        return out
    out = np.zeros_like(t)
    np.fill_diagonal(out, np.sqrt(np.diagonal(t)))
    for column in range(1, n):
        for row in range(column - 1, -1, -1):
            known = out[row, row + 1 : column] @ out[row + 1 : column, column]
            out[row, column] = (t[row, column] - known) / (out[row, row] + out[column, column])
    return out
