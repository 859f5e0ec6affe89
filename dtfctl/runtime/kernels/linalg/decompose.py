"""QR, SVD, eigenvalues, LU, and functions of matrices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.kernels.linalg.logarithm import matrix_logarithm
from dtfctl.runtime.kernels.linalg.solve import matrices, widened
from dtfctl.runtime.kernels.registry import Kernel, KernelBuild, register_kernel


@register_kernel("Qr")
def _qr(k: KernelBuild) -> Kernel:
    full = bool(k.attr("full_matrices"))

    def kernel(x: Any) -> Any:
        matrices(x, square=False)
        m, n = x.shape[-2:]
        p = m if full else min(m, n)
        if x.size == 0:
            q = np.zeros((*x.shape[:-2], m, p), x.dtype)
            d = np.arange(min(m, p))
            q[..., d, d] = 1
            return q, np.zeros((*x.shape[:-2], p, n), x.dtype)
        q, r = np.linalg.qr(x, mode="complete" if full else "reduced")
        return q, r

    return widened(kernel)


@register_kernel(("Svd", "BatchSvd"))
def _svd(k: KernelBuild) -> Kernel:
    """Singular values in descending order; u and v with the vectors as columns, scalars unless `compute_uv`."""
    compute, full = bool(k.attr("compute_uv")), bool(k.attr("full_matrices"))

    def kernel(x: Any) -> Any:
        matrices(x, square=False)
        m, n = x.shape[-2:]
        batch, p = x.shape[:-2], min(m, n)
        real = x.real.dtype
        none = np.zeros((), x.dtype)
        if x.size == 0:
            s = np.zeros((*batch, p), x.dtype)
            if not compute:
                return s, none, none
            u = np.zeros((*batch, m, m if full else p), x.dtype)
            v = np.zeros((*batch, n, n if full else p), x.dtype)
            for w in (u, v):
                d = np.arange(min(w.shape[-2:]))
                w[..., d, d] = 1
            return s, u, v
        if not np.isfinite(x).all():
            bad = np.full((*batch, p), np.nan, x.dtype)
            if not compute:
                return bad, none, none
            return (
                bad,
                np.full((*batch, m, m if full else p), np.nan, x.dtype),
                np.full((*batch, n, n if full else p), np.nan, x.dtype),
            )
        if not compute:
            return np.linalg.svd(x, compute_uv=False).astype(x.dtype), none, none
        u, s, vh = np.linalg.svd(x, full_matrices=full)
        v = vh.swapaxes(-1, -2).conj() if real != x.dtype else vh.swapaxes(-1, -2)
        return s.astype(x.dtype), u, v

    return widened(kernel)


_NO_CONVERGENCE = "Self-adjoint eigen decomposition was not successful. The input might not be valid."


def _eigh(x: Any, vectors: bool) -> Any:
    matrices(x)
    try:
        return np.linalg.eigh(x) if vectors else np.linalg.eigvalsh(x)
    except np.linalg.LinAlgError:
        raise InvalidArgumentError(_NO_CONVERGENCE) from None


@register_kernel(("SelfAdjointEigV2", "BatchSelfAdjointEigV2"))
def _self_adjoint_eig(k: KernelBuild) -> Kernel:
    compute = bool(k.attr("compute_v"))

    def kernel(x: Any) -> Any:
        matrices(x)
        if x.size == 0:
            return np.zeros(x.shape[:-1], x.dtype), np.zeros(x.shape if compute else (), x.dtype)
        if not compute:
            return _eigh(x, False).astype(x.dtype), np.zeros((), x.dtype)
        e, v = _eigh(x, True)
        return e.astype(x.dtype), v

    return widened(kernel)


@register_kernel(("SelfAdjointEig", "BatchSelfAdjointEig"))
def _self_adjoint_eig_v1(k: KernelBuild) -> Kernel:
    """[..., M+1, M]: the eigenvalues above the eigenvectors."""

    def kernel(x: Any) -> Any:
        e, v = _eigh(x, True)
        return np.concatenate([e[..., None, :], v], axis=-2)

    return widened(kernel)


@register_kernel("Eig")
def _eig(k: KernelBuild) -> Kernel:
    compute, out = bool(k.attr("compute_v")), k.dtype("Tout").np
    expected = np.result_type(k.dtype("T").np, np.complex64)
    if out != expected:
        raise InvalidArgumentError(f"Invalid output dtype {np.dtype(out).name}, expected {expected.name}", k.node.name)

    def kernel(x: Any) -> Any:
        matrices(x)
        none = np.zeros((), out)
        if x.size == 0:
            return np.zeros(x.shape[:-1], out), np.zeros(x.shape, out) if compute else none
        try:
            if not compute:
                return np.linalg.eigvals(x).astype(out), none
            e, v = np.linalg.eig(x)
        except np.linalg.LinAlgError:
            raise InvalidArgumentError(
                "Eigen decomposition was not successful. The input might not be valid."
            ) from None
        return e.astype(out), v.astype(out)

    return kernel


@register_kernel("Lu")
def _lu(k: KernelBuild) -> Kernel:
    """Packed L\\U and the permutation p with P*L*U = input[p inverse]."""
    index = k.dtype("output_idx_type").np

    def kernel(x: Any) -> Any:
        from scipy.linalg import lapack

        matrices(x)
        lu = np.empty(x.shape, x.dtype)
        perm = np.empty(x.shape[:-1], index)
        if x.size == 0:
            return lu, perm
        getrf = lapack.get_lapack_funcs("getrf", dtype=x.dtype)
        for i in np.ndindex(x.shape[:-2]):
            packed, pivots, info = getrf(x[i])
            if info > 0:
                raise InvalidArgumentError("Input is not invertible.")
            order = np.arange(x.shape[-1])
            for row, other in enumerate(pivots.tolist()):
                order[[row, other]] = order[[other, row]]
            lu[i], perm[i] = packed, order
        return lu, perm

    return widened(kernel)


def _each(function: Callable[[Any], Any], x: Any) -> Any:
    matrices(x)
    out = np.empty(x.shape, x.dtype)
    for i in np.ndindex(x.shape[:-2]):
        if x[i].size:
            found = function(x[i])
            # A real matrix may have none that is real.
            out[i] = np.nan if np.iscomplexobj(found) and not np.iscomplexobj(out) else found
    return out


@register_kernel("MatrixExponential")
def _exponential(k: KernelBuild) -> Kernel:
    from scipy.linalg import expm

    return widened(lambda x: _each(expm, x))


@register_kernel("MatrixLogarithm")
def _logarithm(k: KernelBuild) -> Kernel:
    return lambda x: _each(matrix_logarithm, x)


@register_kernel("MatrixSquareRoot")
def _square_root(k: KernelBuild) -> Kernel:
    from scipy.linalg import sqrtm

    return widened(lambda x: _each(sqrtm, x))
