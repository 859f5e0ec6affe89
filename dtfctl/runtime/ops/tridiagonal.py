"""Tridiagonal matrices: products and systems of equations, given in one of three forms."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework.convert import convert_to_tensor
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.ops import array_ops, math_ops


def tridiagonal_solve(
    diagonals: Any,
    rhs: Any,
    diagonals_format: str = "compact",
    transpose_rhs: bool = False,
    conjugate_rhs: bool = False,
    name: str | None = None,
    partial_pivoting: bool = True,
    perturb_singular: bool = False,
) -> Tensor:
    """Solve systems of equations with tridiagonal matrices.

    Args:
        diagonals: "compact": [..., 3, M], the upper (its last element is not used), the main and the lower
            diagonal (its first is not used); "sequence": these three, upper and lower of M or M - 1; "matrix":
            [..., M, M].
        rhs: [..., M, K], or [..., M] for one right side.

    Raises:
        ValueError: a form that is not known, or shapes that do not fit.
    """
    if perturb_singular and not partial_pivoting:
        raise ValueError("partial_pivoting must be True if perturb_singular is.")
    if diagonals_format == "compact":
        compact = convert_to_tensor(diagonals)
    elif diagonals_format == "sequence":
        compact = _stacked(diagonals)
    elif diagonals_format == "matrix":
        compact = _diagonals_of(diagonals)
    else:
        raise ValueError(f"Unrecognized diagonals_format: {diagonals_format}")
    right = convert_to_tensor(rhs, compact.dtype.base_dtype)
    single = _check(compact, right)
    if transpose_rhs and not single:
        right = array_ops.matrix_transpose(right, conjugate=conjugate_rhs)
    elif conjugate_rhs:
        right = math_ops.conj(right)
    if single:
        right = array_ops.expand_dims(right, -1)
    _check_sizes(compact, right)
    solved = apply_op(
        "TridiagonalSolve",
        name,
        diagonals=compact,
        rhs=right,
        partial_pivoting=partial_pivoting,
        perturb_singular=perturb_singular,
    )
    return array_ops.squeeze(solved, -1) if single else solved


def _check(diagonals: Tensor, rhs: Tensor) -> bool:
    """Check ranks and batches; tell whether there is one right side."""
    rank, other = diagonals.shape.rank, rhs.shape.rank
    if rank is None:
        return False
    if rank < 2:
        raise ValueError(f"Expected diagonals to have rank at least 2, got {rank}")
    if other is not None and other not in (rank, rank - 1):
        raise ValueError(f"Expected the rank of rhs to be {rank - 1} or {rank}, got {other}")
    if other is not None and not diagonals.shape[:-2].is_compatible_with(rhs.shape[: rank - 2]):
        raise ValueError(f"Batch shapes {diagonals.shape[:-2]} and {rhs.shape[: rank - 2]} are incompatible")
    if not diagonals.shape[-2].is_compatible_with(3):
        raise ValueError(f"Expected 3 diagonals got {diagonals.shape[-2]}")
    return other == rank - 1


def _check_sizes(diagonals: Tensor, rhs: Tensor) -> None:
    if diagonals.shape.rank is None or rhs.shape.rank is None:
        return
    if not diagonals.shape[-1].is_compatible_with(rhs.shape[-2]):
        raise ValueError(
            "Expected number of left-hand sided and right-hand sides to be equal, got "
            f"{diagonals.shape[-1]} and {rhs.shape[-2]}"
        )


def _stacked(diagonals: Any) -> Tensor:
    if not isinstance(diagonals, (tuple, list)) or len(diagonals) != 3:
        raise ValueError("Expected diagonals to be a sequence of length 3.")
    upper, main, lower = (convert_to_tensor(d) for d in diagonals)
    if not all(d.shape[:-1].is_compatible_with(main.shape[:-1]) for d in (upper, lower)):
        raise ValueError(
            "Tensors representing the three diagonals must have the same shape,except for the last dimension, got "
            f"{lower.shape}, {main.shape}, {upper.shape}"
        )
    size: Any = main.shape[-1].value

    def filled(diagonal: Tensor, what: str, sides: list[int]) -> Tensor:
        count = diagonal.shape[-1].value
        if not count or count == size:
            return diagonal
        if count + 1 != size:
            raise ValueError(f"Expected {what} to be have length {size} or one less, got {count}.")
        return array_ops.pad(diagonal, [[0, 0]] * (int(diagonal.shape.rank or 1) - 1) + [sides])

    parts = [filled(upper, "superdiagonal", [0, 1]), main, filled(lower, "subdiagonal", [1, 0])]
    return array_ops.stack(parts, axis=-2)


def _diagonals_of(matrix: Any) -> Tensor:
    whole = convert_to_tensor(matrix)
    if not whole.shape[-1].is_compatible_with(whole.shape[-2]):
        raise ValueError(
            f"Expected last two dimensions of diagonals to be same, got {whole.shape[-1]} and {whole.shape[-2]}"
        )
    return apply_op("MatrixDiagPartV3", input=whole, k=[-1, 1], padding_value=0.0, align="LEFT_RIGHT")


def tridiagonal_matmul(diagonals: Any, rhs: Any, diagonals_format: str = "compact", name: str | None = None) -> Tensor:
    """Multiply tridiagonal matrices by rhs, [..., M, K]; the forms are those of `tridiagonal_solve`.

    Raises:
        ValueError: a form that is not known, or a matrix that is not square.
    """
    if diagonals_format == "sequence":
        parts = [convert_to_tensor(d) for d in diagonals]
    elif diagonals_format in ("compact", "matrix"):
        whole = convert_to_tensor(diagonals) if diagonals_format == "compact" else _diagonals_of(diagonals)
        parts = [whole[..., i, :] for i in range(3)]
    else:
        raise ValueError(f"Unrecognized diagonals_format: {diagonals_format}")
    upper, main, lower = (array_ops.expand_dims(d, -2) for d in parts)
    return apply_op("TridiagonalMatMul", name, superdiag=upper, maindiag=main, subdiag=lower, rhs=rhs)
