"""Linear algebra functions with TF1's names (tf.linalg and the older top-level ones)."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.convert import constant, convert_to_tensor
from dtfctl.runtime.framework.graph_keys import name_scope
from dtfctl.runtime.framework.op_builder import apply_op, apply_op_outputs
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.ops import array_ops, check_ops, math_ops
from dtfctl.runtime.ops.grouping import with_dependencies
from dtfctl.runtime.ops.op_defs.linalg import (
    cholesky,
    matrix_triangular_solve,
)


def cholesky_solve(chol: Any, rhs: Any, name: str | None = None) -> Tensor:
    """Solve A X = rhs for X, given the Cholesky factor of A."""
    with name_scope(name, "cholesky_solve"):
        y = matrix_triangular_solve(chol, rhs, adjoint=False, lower=True)
        return matrix_triangular_solve(chol, y, adjoint=True, lower=True)


def log_matrix_determinant(input: Any, name: str | None = None) -> Any:
    """Compute the sign and logarithm of the determinant of (each) square matrix."""
    return tuple(apply_op_outputs("LogMatrixDeterminant", name, input=input))


slogdet = log_matrix_determinant


def logdet(matrix: Any, name: str | None = None) -> Tensor:
    """log of the determinant of a positive definite matrix."""
    with name_scope(name, "logdet"):
        factor = cholesky(matrix)
        diagonal = apply_op("MatrixDiagPart", input=factor)
        return 2.0 * math_ops.reduce_sum(math_ops.log(math_ops.real(diagonal)), axis=[-1])


def matrix_solve_ls(
    matrix: Any, rhs: Any, l2_regularizer: Any = 0.0, fast: bool = True, name: str | None = None
) -> Tensor:
    """Solve a x = rhs for x by least squares."""
    l2 = convert_to_tensor(l2_regularizer, dtypes.float64)
    return apply_op("MatrixSolveLs", name, matrix=matrix, rhs=rhs, l2_regularizer=l2, fast=fast)


def self_adjoint_eig(tensor: Any, name: str | None = None) -> Any:
    """Compute the eigenvalues and eigenvectors of self-adjoint matrices."""
    return tuple(apply_op_outputs("SelfAdjointEigV2", name, input=tensor, compute_v=True))


def self_adjoint_eigvals(tensor: Any, name: str | None = None) -> Tensor:
    """Compute the eigenvalues of self-adjoint matrices."""
    return apply_op_outputs("SelfAdjointEigV2", name, input=tensor, compute_v=False)[0]


eigh, eigvalsh = self_adjoint_eig, self_adjoint_eigvals


def _complex_of(tensor: Tensor) -> Any:
    wide = (dtypes.float64, dtypes.complex128)
    return dtypes.complex128 if tensor.dtype.base_dtype in wide else dtypes.complex64


def eig(tensor: Any, name: str | None = None) -> Any:
    """Compute the eigenvalues and eigenvectors of square matrices."""
    x = convert_to_tensor(tensor)
    return tuple(apply_op_outputs("Eig", name, input=x, compute_v=True, Tout=_complex_of(x)))


def eigvals(tensor: Any, name: str | None = None) -> Tensor:
    """Compute the eigenvalues of square matrices."""
    x = convert_to_tensor(tensor)
    return apply_op_outputs("Eig", name, input=x, compute_v=False, Tout=_complex_of(x))[0]


def svd(tensor: Any, full_matrices: bool = False, compute_uv: bool = True, name: str | None = None) -> Any:
    """Compute the singular values and vectors (s, u, v), or s alone; v is not transposed."""
    s, u, v = apply_op_outputs("Svd", name, input=tensor, compute_uv=compute_uv, full_matrices=full_matrices)
    kind = s.dtype.real_dtype
    s = math_ops.cast(math_ops.real(s), kind) if s.dtype.is_complex else s
    return (s, u, v) if compute_uv else s


def qr(input: Any, full_matrices: bool = False, name: str | None = None) -> Any:
    """Compute orthogonal and upper triangular factors."""
    return tuple(apply_op_outputs("Qr", name, input=input, full_matrices=full_matrices))


def lu(input: Any, output_idx_type: Any = dtypes.int32, name: str | None = None) -> Any:
    """Compute triangular factors and the permutation of rows."""
    return tuple(apply_op_outputs("Lu", name, input=input, output_idx_type=output_idx_type))


def adjoint(matrix: Any, name: str | None = None) -> Tensor:
    """Transpose and conjugate (each) matrix."""
    return array_ops.matrix_transpose(matrix, name=name or "adjoint", conjugate=True)


def norm(
    tensor: Any,
    ord: Any = "euclidean",
    axis: Any = None,
    keepdims: bool | None = None,
    name: str | None = None,
    keep_dims: bool | None = None,
) -> Tensor:
    """Compute vector norms ("euclidean", 1, 2, inf, p), or matrix norms for a pair of axes ("fro", 1, 2, inf).

    Raises:
        ValueError: a norm or axes that are not known, or the 2-norm of matrices in a tensor of unknown rank.
    """
    if keepdims is not None and keep_dims is not None:
        raise ValueError("Cannot specify both 'keep_dims' and 'keepdims'.")
    keep = bool(keep_dims if keepdims is None else keepdims)
    pair = isinstance(axis, (tuple, list)) and len(axis) == 2
    if pair:
        if not all(isinstance(a, int) for a in axis) or axis[0] == axis[1]:
            raise ValueError(f"'axis' must be None, an integer, or a tuple of 2 unique integers, got {axis}")
        if ord not in ("euclidean", "fro", 1, 2, np.inf):
            supported = ["euclidean", "fro", 1, 2, np.inf]
            raise ValueError(f"'ord' must be a supported matrix norm in {supported}, got {ord}")
    elif not (isinstance(axis, int) or axis is None):
        raise ValueError(f"'axis' must be None, an integer, or a tuple of 2 unique integers, got {axis}")
    elif ord != "euclidean" and (isinstance(ord, str) or not np.isreal(ord) or ord <= 0):
        raise ValueError(f"'ord' must be a supported vector norm, got {ord}")
    with name_scope(name, "norm"):
        x = convert_to_tensor(tensor)
        axes = list(axis) if pair else axis
        out = _matrix_norm(x, ord, axes) if pair and ord in (1, 2, np.inf) else _vector_norm(x, ord, axes)
        return out if keep else array_ops.squeeze(out, axis=axes)


def _vector_norm(x: Tensor, ord: Any, axis: Any) -> Tensor:
    if ord in ("fro", "euclidean", 2):
        return math_ops.sqrt(math_ops.reduce_sum(x * math_ops.conj(x), axis=axis, keepdims=True))
    size = math_ops.abs(x)
    if ord == 1:
        return math_ops.reduce_sum(size, axis=axis, keepdims=True)
    if ord == np.inf:
        return math_ops.reduce_max(size, axis=axis, keepdims=True)
    total = math_ops.reduce_sum(math_ops.pow(size, ord), axis=axis, keepdims=True)
    return math_ops.pow(total, constant(1.0 / ord, total.dtype.base_dtype))


def _matrix_norm(x: Tensor, ord: Any, axis: list[int]) -> Tensor:
    if ord != 2:
        first, last = axis if ord == 1 else reversed(axis)
        sums = math_ops.reduce_sum(math_ops.abs(x), axis=first, keepdims=True)
        return math_ops.reduce_max(sums, axis=last, keepdims=True)
    if x.shape.rank is None:
        raise ValueError("The 2-norm of matrices needs a tensor of known rank; give it one with set_shape")
    at = [a % x.shape.rank for a in axis]
    order = [i for i in range(x.shape.rank) if i not in at] + at
    values = svd(array_ops.transpose(x, order), compute_uv=False)
    largest = array_ops.expand_dims(math_ops.reduce_max(math_ops.abs(values), axis=-1, keepdims=True), -1)
    return array_ops.transpose(largest, [int(i) for i in np.argsort(order)])


def einsum(equation: str, *inputs: Any, name: str | None = None, **kwargs: Any) -> Tensor:
    """Sum any number of tensors by Einstein's convention, two at a time."""
    kwargs.pop("optimize", None)
    if kwargs:
        raise TypeError(f"Invalid keyword arguments for einsum: {', '.join(sorted(kwargs))}")
    tensors: list[Any] = list(inputs[0]) if len(inputs) == 1 and isinstance(inputs[0], (list, tuple)) else list(inputs)
    left, arrow, right = equation.replace(" ", "").partition("->")
    labels = left.split(",")
    if len(labels) != len(tensors):
        raise ValueError(f"Got {len(tensors)} inputs for equation {equation!r}, expecting {len(labels)}")
    if not arrow:
        letters = [c for c in left if c.isalpha()]
        right = ("..." if "..." in left else "") + "".join(sorted(c for c in set(letters) if letters.count(c) == 1))
    with name_scope(name, "einsum"):
        while len(tensors) > 2:
            keep = "".join(labels[2:]) + right
            shared = "".join(dict.fromkeys(c for c in labels[0] + labels[1] if c.isalpha() and c in keep))
            dots = "..." if "..." in labels[0] + labels[1] else ""
            out = apply_op("Einsum", inputs=tensors[:2], equation=f"{labels[0]},{labels[1]}->{dots}{shared}")
            tensors, labels = [out, *tensors[2:]], [dots + shared, *labels[2:]]
        return apply_op("Einsum", inputs=tensors, equation=f"{','.join(labels)}->{right}")


def _matrices(a: Any, validate_args: bool) -> Tensor:
    x = convert_to_tensor(a, name="a")
    if not x.dtype.is_floating:
        raise TypeError(f"Input `a` must have `float`-like `dtype` (saw {x.dtype.name}).")
    if x.shape.rank is not None and x.shape.rank < 2:
        raise ValueError(f"Input `a` must have at least 2 dimensions (saw: {x.shape.rank}).")
    if validate_args and x.shape.rank is None:
        checked: Tensor = with_dependencies([check_ops.assert_rank_at_least(x, 2)], x)
        return checked
    return x


def pinv(a: Any, rcond: Any = None, validate_args: bool = False, name: str | None = None) -> Tensor:
    """Compute the Moore-Penrose inverse of real matrices, from their singular values."""
    with name_scope(name, "pinv"):
        x = _matrices(a, validate_args)
        kind = x.dtype.base_dtype
        if rcond is None:
            dims = [d for d in (x.shape.dims_or_none or (None,))[-2:] if d is not None]
            rcond = 10.0 * max(dims, default=1) * float(np.finfo(kind.np).eps)
        s, u, v = svd(x)
        limit = convert_to_tensor(rcond, kind) * math_ops.reduce_max(s, axis=-1, keepdims=True)
        inverse = apply_op(
            "SelectV2",
            condition=math_ops.greater(s, limit),
            t=math_ops.reciprocal(s),
            e=array_ops.zeros_like(s),
        )
        return math_ops.matmul(v * array_ops.expand_dims(inverse, -2), u, adjoint_b=True)


def matrix_rank(a: Any, tol: Any = None, validate_args: bool = False, name: str | None = None) -> Tensor:
    """Count the singular values that are not negligible."""
    with name_scope(name, "matrix_rank"):
        x = _matrices(a, validate_args)
        s = svd(x, compute_uv=False)
        if tol is None:
            dims = [d for d in (x.shape.dims_or_none or (None,))[-2:] if d is not None]
            eps = float(np.finfo(s.dtype.base_dtype.np).eps)
            tol = max(dims, default=1) * eps * math_ops.reduce_max(s, axis=-1, keepdims=True)
        return math_ops.reduce_sum(math_ops.cast(math_ops.greater(s, tol), "int32"), axis=-1)


def normalize(tensor: Any, ord: Any = "euclidean", axis: Any = None, name: str | None = None) -> tuple[Tensor, Tensor]:
    """Divide a tensor by its norm; give the norm too."""
    with name_scope(name, "normalize"):
        x = convert_to_tensor(tensor)
        length = norm(x, ord=ord, axis=axis, keepdims=True)
        return x / length, length
