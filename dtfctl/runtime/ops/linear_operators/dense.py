"""Operators that keep a matrix, or its diagonals."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.convert import convert_to_tensor
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.ops import array_ops, check_ops, math_ops
from dtfctl.runtime.ops.linear_operators import broadcasting
from dtfctl.runtime.ops.linear_operators.base import LinearOperator
from dtfctl.runtime.ops.linear_operators.described import arguments_of, check_rank, checked_hint
from dtfctl.runtime.ops.op_defs.linalg import matrix_triangular_solve
from dtfctl.runtime.ops.tridiagonal import tridiagonal_matmul, tridiagonal_solve


class LinearOperatorFullMatrix(LinearOperator):
    """Matrices of any form, [..., rows, columns]."""

    ndims_of_parameters = {"matrix": 2}

    def __init__(
        self,
        matrix: Any,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = None,
        name: str = "LinearOperatorFullMatrix",
    ) -> None:
        parameters = arguments_of(locals())
        self._matrix: Tensor = convert_to_tensor(matrix, name="matrix")
        check_rank("matrix", self._matrix, 2)
        super().__init__(
            self._matrix.dtype,
            None,
            is_non_singular,
            is_self_adjoint,
            is_positive_definite,
            is_square,
            name,
            parameters,
        )

    @property
    def matrix(self) -> Tensor:
        """The matrices."""
        return self._matrix

    def _shape(self) -> TensorShape:
        return TensorShape(self._matrix.shape)

    def _shape_tensor(self) -> Tensor:
        return array_ops.shape(self._matrix)

    def _to_dense(self) -> Tensor:
        return self._matrix


class LinearOperatorLowerTriangular(LinearOperator):
    """Square matrices that are 0 above their diagonals; what `tril` has there is not read."""

    ndims_of_parameters = {"tril": 2}

    def __init__(
        self,
        tril: Any,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = None,
        name: str = "LinearOperatorLowerTriangular",
    ) -> None:
        parameters = arguments_of(locals())
        square = checked_hint(is_square, True, "Only square lower triangular operators supported at this time.")
        self._tril: Tensor = convert_to_tensor(tril, name="tril")
        check_rank("tril", self._tril, 2)
        self._lower: Tensor = array_ops.matrix_band_part(self._tril, -1, 0)
        super().__init__(
            self._tril.dtype, None, is_non_singular, is_self_adjoint, is_positive_definite, square, name, parameters
        )

    @property
    def tril(self) -> Tensor:
        """The matrices as they were given."""
        return self._tril

    def _shape(self) -> TensorShape:
        return TensorShape(self._tril.shape)

    def _shape_tensor(self) -> Tensor:
        return array_ops.shape(self._tril)

    def _to_dense(self) -> Tensor:
        return self._lower

    def _diag_part(self) -> Tensor:
        found: Tensor = array_ops.matrix_diag_part(self._tril)
        return found

    def _solve(self, rhs: Tensor, adjoint: bool) -> Tensor:
        found: Tensor = matrix_triangular_solve(self._lower, rhs, lower=True, adjoint=adjoint)
        return found

    def _determinant(self) -> Tensor:
        return math_ops.reduce_prod(self._diag_part(), axis=-1)

    @property
    def _has_real_logarithm(self) -> bool:
        return True

    def _log_abs_determinant(self) -> Tensor:
        return math_ops.reduce_sum(math_ops.log(math_ops.abs(self._diag_part())), axis=-1)

    def _eigvals(self) -> Tensor:
        return self._diag_part()

    def _assert_non_singular(self) -> Operation:
        message = "Singular operator:  Diagonal contained zero values."
        return check_ops.assert_positive(math_ops.abs(self._diag_part()), message=message)


class LinearOperatorTridiag(LinearOperator):
    """Square matrices that are 0 but for three diagonals.

    `diagonals` are "compact": [..., 3, n], the upper (its last element is not read), the main and the lower one (its
    first is not read); "sequence": a list of these three; "matrix": [..., n, n].
    """

    def __init__(
        self,
        diagonals: Any,
        diagonals_format: str = "compact",
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = None,
        name: str = "LinearOperatorTridiag",
    ) -> None:
        parameters = arguments_of(locals())
        known = ("compact", "sequence", "matrix")
        if diagonals_format not in known:
            raise ValueError(
                f"Argument `diagonals_format` must be one of {', '.join(known)}. Found: {diagonals_format}"
            )
        square = checked_hint(is_square, True, "A tridiagonal operator is always square.")
        self._format = diagonals_format
        self._given: Any
        if diagonals_format == "sequence":
            self._given = [convert_to_tensor(item, name="diagonal") for item in diagonals]
            dtype = self._given[0].dtype
        else:
            self._given = convert_to_tensor(diagonals, name="diagonals")
            dtype = self._given.dtype
        super().__init__(dtype, None, is_non_singular, is_self_adjoint, is_positive_definite, square, name, parameters)

    @property
    def ndims_of_parameters(self) -> dict[str, Any]:  # type: ignore[override]
        return {"diagonals": [1, 1, 1] if self._format == "sequence" else 2}

    @property
    def diagonals(self) -> Any:
        """The diagonals as they were given."""
        return self._given

    @property
    def diagonals_format(self) -> str:
        """How they were given."""
        return self._format

    def _main(self) -> Tensor:
        if self._format == "sequence":
            main: Tensor = self._given[1]
        elif self._format == "compact":
            main = self._given[..., 1, :]
        else:
            main = array_ops.matrix_diag_part(self._given)
        return main

    def _three(self) -> list[Tensor]:
        """Make upper, main and lower of one shape; what the upper has last and the lower first is 0."""
        if self._format == "matrix":
            main = array_ops.matrix_diag_part(self._given)
            zero = array_ops.zeros_like(main[..., :1])
            upper = array_ops.matrix_diag_part(self._given[..., :-1, 1:])
            lower = array_ops.matrix_diag_part(self._given[..., 1:, :-1])
            return [array_ops.concat([upper, zero], -1), main, array_ops.concat([zero, lower], -1)]
        if self._format == "compact":
            upper, main, lower = (self._given[..., place, :] for place in range(3))
        else:
            shape = broadcasting.dynamic([array_ops.shape(item) for item in self._given])
            upper, main, lower = (array_ops.broadcast_to(item, shape) for item in self._given)
        zero = array_ops.zeros_like(main[..., :1])
        return [array_ops.concat([upper[..., :-1], zero], -1), main, array_ops.concat([zero, lower[..., 1:]], -1)]

    def _shape(self) -> TensorShape:
        if self._format == "matrix":
            return TensorShape(self._given.shape)
        if self._format == "compact":
            known = self._given.shape
            return TensorShape(None) if known.ndims is None else known[:-2].concatenate([known[-1], known[-1]])
        known = broadcasting.static([item.shape for item in self._given])
        return TensorShape(None) if known.ndims is None else known.concatenate(known[-1:])

    def _shape_tensor(self) -> Tensor:
        if self._format == "matrix":
            return array_ops.shape(self._given)
        if self._format == "compact":
            shape = array_ops.shape(self._given)
            return array_ops.concat([shape[:-2], shape[-1:], shape[-1:]], 0)
        shape = broadcasting.dynamic([array_ops.shape(item) for item in self._given])
        return array_ops.concat([shape, shape[-1:]], 0)

    def _operands(self, right: Tensor, adjoint: bool) -> tuple[Tensor, Tensor]:
        upper, main, lower = self._three()
        if adjoint:
            zero = array_ops.zeros_like(main[..., :1])
            turned = array_ops.concat([lower[..., 1:], zero], -1), array_ops.concat([zero, upper[..., :-1]], -1)
            upper, main, lower = (math_ops.conj(item) for item in (turned[0], main, turned[1]))
        stacked, wide = broadcasting.matrices(array_ops.stack([upper, main, lower], axis=-2), right)
        return stacked, wide

    def _matmul(self, x: Tensor, adjoint: bool) -> Tensor:
        return tridiagonal_matmul(*self._operands(x, adjoint))

    def _solve(self, rhs: Tensor, adjoint: bool) -> Tensor:
        return tridiagonal_solve(*self._operands(rhs, adjoint))

    def _diag_part(self) -> Tensor:
        return self._three()[1]

    def _to_dense(self) -> Tensor:
        if self._format == "matrix":
            found: Tensor = self._given
            return found
        upper, main, lower = self._three()
        return (
            _placed(array_ops.matrix_diag(upper[..., :-1]), 1)
            + array_ops.matrix_diag(main)
            + _placed(array_ops.matrix_diag(lower[..., 1:]), -1)
        )

    def _assert_self_adjoint(self) -> Operation:
        upper, main, lower = self._three()
        message = "This tridiagonal operator has non-conjugate subdiagonal and superdiagonal."
        return check_ops.assert_equal(
            array_ops.concat([upper[..., :-1], main], -1),
            math_ops.conj(array_ops.concat([lower[..., 1:], main], -1)),
            message=message,
        )


def _placed(block: Tensor, above: int) -> Tensor:
    """Put [..., n-1, n-1] into [..., n, n], a column to the right (1) or a row down (-1)."""
    rank = array_ops.rank(block)
    outer = array_ops.zeros(array_ops.stack([rank - 2, 2]), dtypes.int32)
    inner = [[0, 1], [1, 0]] if above > 0 else [[1, 0], [0, 1]]
    found: Tensor = array_ops.pad(block, array_ops.concat([outer, inner], 0))
    return found
