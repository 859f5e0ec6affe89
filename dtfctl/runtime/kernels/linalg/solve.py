"""Factorizations, inverses and solutions of (batches of) linear systems."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.kernels.array.common import is_low_precision, text
from dtfctl.runtime.kernels.registry import Kernel, KernelBuild, register_kernel


def matrices(x: Any, square: bool = True) -> None:
    """Raise InvalidArgumentError unless x is [..., M, N] (M == N when `square`)."""
    if x.ndim < 2:
        raise InvalidArgumentError(f"Input tensor 0 must have rank >= 2, got {x.ndim}")
    if square and x.shape[-1] != x.shape[-2]:
        raise InvalidArgumentError("Input matrix must be square.")


def widened(function: Callable[..., Any]) -> Kernel:
    """Make a function compute half and bfloat16 arrays in float32, and round its results back."""

    def kernel(*args: Any) -> Any:
        dtype = args[0].dtype
        if not is_low_precision(dtype):
            return function(*args)
        result = function(*(a.astype(np.float32) if a.dtype == dtype else a for a in args))
        if isinstance(result, tuple):
            return tuple(r.astype(dtype) if r.dtype == np.float32 else r for r in result)
        return result.astype(dtype)

    return kernel


def adjoint(x: Any) -> Any:
    return x.swapaxes(-1, -2).conj() if x.dtype.kind == "c" else x.swapaxes(-1, -2)


def _rhs_checks(matrix: Any, rhs: Any, square: bool = True) -> None:
    if matrix.ndim < 2 or rhs.ndim < 2:
        raise InvalidArgumentError("Input tensors must have rank >= 2")
    if matrix.ndim != rhs.ndim:
        raise InvalidArgumentError("All input tensors must have the same rank.")
    if matrix.shape[:-2] != rhs.shape[:-2]:
        raise InvalidArgumentError("All input tensors must have the same outer dimensions.")
    if square and matrix.shape[-1] != matrix.shape[-2]:
        raise InvalidArgumentError("Input matrix must be square.")
    if matrix.shape[-2] != rhs.shape[-2]:
        raise InvalidArgumentError("Input matrix and rhs are incompatible.")


@register_kernel(("Cholesky", "BatchCholesky"))
def _cholesky(k: KernelBuild) -> Kernel:
    def kernel(x: Any) -> Any:
        matrices(x)
        if x.size == 0:
            return x
        try:
            return np.linalg.cholesky(x)
        except np.linalg.LinAlgError:
            return _cholesky_each(x)

    return widened(kernel)


def _cholesky_each(x: Any) -> Any:
    """Matrix by matrix: NaN in the lower triangle of those that are not positive definite."""
    out = np.zeros_like(x)
    nan = np.tril(np.full(x.shape[-2:], np.nan, x.dtype))
    for i in np.ndindex(x.shape[:-2]):
        try:
            out[i] = np.linalg.cholesky(x[i])
        except np.linalg.LinAlgError:
            out[i] = nan
    return out


@register_kernel(("CholeskyGrad", "BatchCholeskyGrad"))
def _cholesky_grad(k: KernelBuild) -> Kernel:
    """Iain Murray's reverse-mode formula (arXiv:1602.07527): 1/2 (P + P^T), P = L^-T Phi(L^T Lbar) L^-1."""

    def kernel(l: Any, grad: Any) -> Any:  # noqa: E741
        matrices(l)
        if l.shape != grad.shape:
            raise InvalidArgumentError(f"Inputs must have the same shape: {text(l.shape)} vs. {text(grad.shape)}")
        if l.size == 0:
            return l
        l = np.tril(l)  # noqa: E741
        middle = np.tril(np.matmul(l.swapaxes(-1, -2), np.tril(grad)))
        d = np.arange(l.shape[-1])
        middle[..., d, d] *= l.dtype.type(0.5)
        inverse = np.linalg.inv(l)
        p = np.matmul(np.matmul(inverse.swapaxes(-1, -2), middle), inverse)
        return ((p + p.swapaxes(-1, -2)) / 2).astype(l.dtype)

    return widened(kernel)


_SINGULAR = "Input matrix is not invertible."
_NO_INVERSE = "Input is not invertible."


@register_kernel(("MatrixInverse", "BatchMatrixInverse"))
def _inverse(k: KernelBuild) -> Kernel:
    adj = bool(k.attr("adjoint"))

    def kernel(x: Any) -> Any:
        matrices(x)
        if x.size == 0:
            return x
        try:
            result = np.linalg.inv(adjoint(x) if adj else x)
        except np.linalg.LinAlgError:
            raise InvalidArgumentError(_NO_INVERSE) from None
        return result.astype(x.dtype, copy=False)

    return widened(kernel)


def _eliminated(x: Any) -> Any:
    """Compute a matrix's determinant by elimination; infinities and NaNs go where arithmetic takes them."""
    a, sign = np.array(x), 1
    with np.errstate(all="ignore"):
        for i in range(a.shape[0]):
            pivot = i + int(np.argmax(np.nan_to_num(np.abs(a[i:, i]), nan=np.inf)))
            if pivot != i:
                a[[i, pivot]] = a[[pivot, i]]
                sign = -sign
            factors = a[i + 1 :, i] / a[i, i]
            a[i + 1 :, i:] -= factors[:, None] * a[i, i:]
        return sign * np.prod(np.diagonal(a))


@register_kernel(("MatrixDeterminant", "BatchMatrixDeterminant"))
def _determinant(k: KernelBuild) -> Kernel:
    def kernel(x: Any) -> Any:
        matrices(x)
        out = np.array(np.linalg.det(x), x.dtype)
        if not np.isfinite(x).all():
            # LAPACK calls matrices with infinities singular.
            for place in np.argwhere(~np.isfinite(x).all((-2, -1))):
                out[tuple(place)] = _eliminated(x[tuple(place)])
        return out

    return widened(kernel)


@register_kernel("LogMatrixDeterminant")
def _log_determinant(k: KernelBuild) -> Kernel:
    def kernel(x: Any) -> Any:
        matrices(x)
        sign, logdet = np.linalg.slogdet(x)
        if not np.isfinite(x).all():
            sign, logdet = np.array(sign), np.array(logdet)
            for place in map(tuple, np.argwhere(~np.isfinite(x).all((-2, -1)))):
                det = _eliminated(x[place])
                sign[place], logdet[place] = np.sign(det), np.log(np.abs(det))
        return np.asarray(sign).astype(x.dtype), np.asarray(logdet).astype(x.dtype)

    return widened(kernel)


@register_kernel(("MatrixSolve", "BatchMatrixSolve"))
def _solve(k: KernelBuild) -> Kernel:
    adj = bool(k.attr("adjoint"))

    def kernel(a: Any, b: Any) -> Any:
        _rhs_checks(a, b)
        if a.size == 0 or b.size == 0:
            return np.zeros((*a.shape[:-2], a.shape[-1], b.shape[-1]), a.dtype)
        try:
            return np.linalg.solve(adjoint(a) if adj else a, b)
        except np.linalg.LinAlgError:
            raise InvalidArgumentError(_SINGULAR) from None

    return widened(kernel)


def _triangular(a: Any, b: Any, lower: bool, adj: bool) -> Any:
    """Solve one or many triangular systems of equal batch shape by substitution; a zero pivot gives infinities."""
    from scipy.linalg import blas

    trsm = blas.get_blas_funcs("trsm", dtype=b.dtype)
    out = np.empty((*a.shape[:-2], a.shape[-1], b.shape[-1]), b.dtype)
    for i in np.ndindex(a.shape[:-2]):
        out[i] = trsm(1.0, a[i], b[i], lower=lower, trans_a=2 if adj else 0)
    return out


@register_kernel(("MatrixTriangularSolve", "BatchMatrixTriangularSolve"))
def _triangular_solve(k: KernelBuild) -> Kernel:
    """Batch dimensions broadcast."""
    lower, adj = bool(k.attr("lower")), bool(k.attr("adjoint"))

    def kernel(a: Any, b: Any) -> Any:
        if a.ndim < 2:
            raise InvalidArgumentError(f"In[0] ndims must be >= 2: {a.ndim}")
        if b.ndim < 2:
            raise InvalidArgumentError(f"In[1] ndims must be >= 2: {b.ndim}")
        if a.shape[-1] != a.shape[-2]:
            raise InvalidArgumentError(f"In[0] matrices in the last two dimensions must be square: {text(a.shape)}")
        if a.shape[-1] != b.shape[-2]:
            raise InvalidArgumentError(
                f"In[0] and In[1] matrix shapes incompatible: {text(a.shape)} vs. {text(b.shape)}"
            )
        try:
            batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        except ValueError:
            raise InvalidArgumentError(
                f"In[0] and In[1] must have compatible batch dimensions: {text(a.shape)} vs. {text(b.shape)}"
            ) from None
        if a.size == 0 or b.size == 0:
            return np.zeros((*batch, *b.shape[-2:]), b.dtype)
        a = np.broadcast_to(a, (*batch, *a.shape[-2:]))
        b = np.broadcast_to(b, (*batch, *b.shape[-2:]))
        return _triangular(a, b, lower, adj).astype(b.dtype, copy=False)

    return widened(kernel)


@register_kernel("BandedTriangularSolve")
def _banded_triangular_solve(k: KernelBuild) -> Kernel:
    """matrix [..., bands, M]: the main diagonal is the first band when lower, else the last."""
    lower, adj = bool(k.attr("lower")), bool(k.attr("adjoint"))

    def kernel(a: Any, b: Any) -> Any:
        if a.ndim < 2 or b.ndim < 2:
            raise InvalidArgumentError(f"In[0] ndims must be >= 2: {a.ndim}")
        bands, m = a.shape[-2:]
        if bands == 0:
            raise InvalidArgumentError(f"matrix must not have zero bands: {text(a.shape)}")
        if bands > m:
            raise InvalidArgumentError(f"Number of bands cannot exceed the matrix size: {text(a.shape)}")
        if m != b.shape[-2]:
            raise InvalidArgumentError(
                f"In[0] and In[1] matrix shapes incompatible: {text(a.shape)} vs. {text(b.shape)}"
            )
        full = np.zeros((*a.shape[:-2], m, m), a.dtype)
        for d in range(bands):
            i = np.arange(d, m)
            if lower:
                full[..., i, i - d] = a[..., d, d:]
            else:
                full[..., i - d, i] = a[..., bands - 1 - d, : m - d]
        try:
            batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        except ValueError:
            raise InvalidArgumentError(
                f"In[0] and In[1] must have compatible batch dimensions: {text(a.shape)} vs. {text(b.shape)}"
            ) from None
        if np.any(np.diagonal(full, axis1=-2, axis2=-1) == 0):
            raise InvalidArgumentError(_SINGULAR)
        full = np.broadcast_to(full, (*batch, m, m))
        return _triangular(full, np.broadcast_to(b, (*batch, *b.shape[-2:])), lower, adj).astype(b.dtype, copy=False)

    return widened(kernel)


@register_kernel(("MatrixSolveLs", "BatchMatrixSolveLs"))
def _solve_ls(k: KernelBuild) -> Kernel:
    """Least squares: regularized normal equations when `fast`, else the solution of least norm."""
    fast = bool(k.attr("fast"))

    def kernel(a: Any, b: Any, l2: Any) -> Any:
        _rhs_checks(a, b, square=False)
        if l2.ndim != 0:
            raise InvalidArgumentError(f"l2_regularizer must be a scalar, got shape {text(l2.shape)}")
        if float(l2) < 0:
            raise InvalidArgumentError("l2_regularizer must be >= 0.")
        m, n = a.shape[-2:]
        if a.size == 0 or b.size == 0:
            return np.zeros((*a.shape[:-2], n, b.shape[-1]), a.dtype)
        if not fast:
            return np.matmul(np.linalg.pinv(a), b).astype(a.dtype, copy=False)
        over = m >= n
        ah = adjoint(a)
        gram = np.matmul(ah, a) if over else np.matmul(a, ah)
        if float(l2) > 0:
            gram = gram + np.eye(min(m, n), dtype=a.dtype) * a.dtype.type(float(l2))
        try:
            np.linalg.cholesky(gram)
            if over:
                return np.linalg.solve(gram, np.matmul(ah, b))
            return np.matmul(ah, np.linalg.solve(gram, b))
        except np.linalg.LinAlgError:
            raise InvalidArgumentError(
                "Input matrix was rank deficient or ill-conditioned. Try setting fast=False or provide a larger "
                "l2_regularizer > 0."
            ) from None

    def typed(a: Any, b: Any, l2: Any) -> Any:
        dtype = a.dtype
        if is_low_precision(dtype):
            return kernel(a.astype(np.float32), b.astype(np.float32), l2).astype(dtype)
        return kernel(a, b, l2)

    return typed


# --- tridiagonal ---


@register_kernel("TridiagonalMatMul")
def _tridiagonal_matmul(k: KernelBuild) -> Kernel:
    """Diagonals are [..., 1, M]; the superdiagonal's last and the subdiagonal's first item are ignored."""

    def kernel(upper: Any, main: Any, lower: Any, rhs: Any) -> Any:
        for name, d in (("superdiag", upper), ("maindiag", main), ("subdiag", lower)):
            if d.ndim < 2 or d.shape[-2] != 1 or d.shape[-1] != rhs.shape[-2] or d.shape[:-2] != rhs.shape[:-2]:
                raise InvalidArgumentError(
                    f"{name} must have shape [..., 1, M] to match right hand side, got {text(d.shape)} and "
                    f"{text(rhs.shape)}"
                )
        out = main[..., 0, :, None] * rhs
        out[..., :-1, :] += upper[..., 0, :-1, None] * rhs[..., 1:, :]
        out[..., 1:, :] += lower[..., 0, 1:, None] * rhs[..., :-1, :]
        return out

    return kernel


@register_kernel("TridiagonalSolve")
def _tridiagonal_solve(k: KernelBuild) -> Kernel:
    pivot = bool(k.attr("partial_pivoting"))
    if k.attr("perturb_singular"):
        raise InvalidArgumentError("perturb_singular is not supported on CPU", k.node.name)

    def kernel(diagonals: Any, rhs: Any) -> Any:
        if diagonals.ndim < 2 or rhs.ndim < 2:
            raise InvalidArgumentError("Input tensors must have rank >= 2")
        if diagonals.shape[-2] != 3:
            raise InvalidArgumentError(f"Expected 3 diagonals got {diagonals.shape[-2]}")
        m = diagonals.shape[-1]
        if rhs.shape[-2] != m:
            raise InvalidArgumentError(
                f"Expected the same number of left-hand sides and right-hand sides, got {m} and {rhs.shape[-2]}."
            )
        if diagonals.shape[:-2] != rhs.shape[:-2]:
            raise InvalidArgumentError("All input tensors must have the same outer dimensions.")
        if m == 0 or rhs.size == 0:
            return np.zeros(rhs.shape, rhs.dtype)
        upper, main, lower = (diagonals[..., i, :] for i in range(3))
        if not pivot:
            return _thomas(upper, main, lower, rhs)
        out = np.empty(rhs.shape, rhs.dtype)
        from scipy.linalg import lapack

        gtsv = lapack.get_lapack_funcs("gtsv", dtype=rhs.dtype)
        for i in np.ndindex(rhs.shape[:-2]):
            if m == 1:
                out[i] = rhs[i] / main[i][0] if main[i][0] != 0 else np.nan
                continue
            *_, x, info = gtsv(lower[i][1:], main[i], upper[i][:-1], rhs[i])
            out[i] = np.nan if info > 0 else x
        return out

    return kernel


def _thomas(upper: Any, main: Any, lower: Any, rhs: Any) -> Any:
    """Elimination without pivoting, all systems of the batch at once; NaN where a pivot is zero."""
    m = main.shape[-1]
    u = np.zeros_like(main)
    x = np.array(rhs)
    singular = main[..., 0] == 0
    main = np.where(singular[..., None], 1, main).astype(main.dtype)
    u[..., 0] = upper[..., 0] / main[..., 0]
    x[..., 0, :] = x[..., 0, :] / main[..., 0, None]
    for i in range(1, m):
        denominator = main[..., i] - lower[..., i] * u[..., i - 1]
        singular = singular | (denominator == 0)
        denominator = np.where(denominator == 0, 1, denominator).astype(denominator.dtype)
        u[..., i] = upper[..., i] / denominator
        x[..., i, :] = (x[..., i, :] - lower[..., i, None] * x[..., i - 1, :]) / denominator[..., None]
    for i in range(m - 2, -1, -1):
        x[..., i, :] -= u[..., i, None] * x[..., i + 1, :]
    x[singular] = np.nan
    return x
