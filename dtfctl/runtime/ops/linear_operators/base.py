"""What all linear operators do: products, solutions and numbers, by way of the whole matrix."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dtfctl.runtime.framework.convert import convert_to_tensor
from dtfctl.runtime.framework.dtypes import DType
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.ops import array_ops, check_ops, linalg_ops, math_ops
from dtfctl.runtime.ops.grouping import group
from dtfctl.runtime.ops.linear_operators import broadcasting
from dtfctl.runtime.ops.linear_operators.described import Described, dimension
from dtfctl.runtime.ops.op_defs.linalg import cholesky, matrix_determinant, matrix_solve

SINGULAR = "Exact solve not implemented for an operator that is expected to be singular."
NOT_SQUARE = "{} not implemented for an operator that is expected to not be square."
FORMS: dict[str, Callable[..., LinearOperator]] = {}
"""What operators are made of operators: told by `forms.py`, which knows all of them."""


class LinearOperator(Described):
    """A batch of matrices [..., rows, columns] that is known by its form.

    A subclass says its static shape, its shape while the graph runs, and how it multiplies (`_shape`, `_shape_tensor`,
    `_matmul`); what is quicker for its form than by the whole matrix it does otherwise.
    """

    # ------------------------------------------------------------------ products

    def matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False, name: str = "matmul") -> Any:
        """Multiply from the left: [..., columns, n] -> [..., rows, n]; by another operator it gives one."""
        if isinstance(x, LinearOperator):
            left, right = (self.adjoint() if adjoint else self), (x.adjoint() if adjoint_arg else x)
            _check_sizes(left, right)
            with self._scope(name):
                return FORMS["product"](left, right)
        with self._scope(name):
            return self._matmul(self._argument(x, -2, adjoint, adjoint_arg), adjoint)

    def __matmul__(self, other: Any) -> Any:
        return self.matmul(other)

    def matvec(self, x: Any, adjoint: bool = False, name: str = "matvec") -> Any:
        """Multiply vectors from the left: [..., columns] -> [..., rows]."""
        with self._scope(name):
            wide = array_ops.expand_dims(self._converted(x), -1)
            return array_ops.squeeze(self._matmul(self._argument(wide, -2, adjoint, False), adjoint), axis=[-1])

    def solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False, name: str = "solve") -> Any:
        """Return what multiplied gives `rhs` [..., rows, n]; of another operator it gives one.

        Raises:
            NotImplementedError: a hint says that it is singular or not square.
        """
        self._check_solvable()
        if isinstance(rhs, LinearOperator):
            left, right = (self.adjoint() if adjoint else self), (rhs.adjoint() if adjoint_arg else rhs)
            _check_sizes(left, right)
            with self._scope(name):
                return FORMS["quotient"](left, right)
        with self._scope(name):
            return self._solve(self._argument(rhs, -1, adjoint, adjoint_arg), adjoint)

    def solvevec(self, rhs: Any, adjoint: bool = False, name: str = "solve") -> Any:
        """Return the vectors that multiplied give `rhs` [..., rows]."""
        self._check_solvable()
        with self._scope(name):
            wide = array_ops.expand_dims(self._converted(rhs), -1)
            return array_ops.squeeze(self._solve(self._argument(wide, -1, adjoint, False), adjoint), axis=[-1])

    def _matmul(self, x: Tensor, adjoint: bool) -> Tensor:
        product: Tensor = math_ops.matmul(self._to_dense(), x, adjoint_a=adjoint)
        return product

    def _solve(self, rhs: Tensor, adjoint: bool) -> Tensor:
        """Solve by the whole matrix."""
        if self._has_factor:
            factor, right = broadcasting.matrices(cholesky(self._to_dense()), rhs)
            return linalg_ops.cholesky_solve(factor, right)
        dense, right = broadcasting.matrices(self._to_dense(), rhs)
        found: Tensor = matrix_solve(dense, right, adjoint=adjoint)
        return found

    def _check_solvable(self) -> None:
        if self.is_non_singular is False:
            raise NotImplementedError(SINGULAR)
        if self.is_square is False:
            raise NotImplementedError(NOT_SQUARE.format("Exact solve"))

    # ------------------------------------------------------------------ other operators

    def adjoint(self, name: str = "adjoint") -> LinearOperator:
        """Return the operator of the conjugated and transposed matrices."""
        if self.is_self_adjoint is True:
            return self
        with self._scope(name):
            return self._adjoint()

    @property
    def H(self) -> LinearOperator:
        """The adjoint."""
        return self.adjoint()

    def inverse(self, name: str = "inverse") -> LinearOperator:
        """Return the operator of the inverses.

        Raises:
            ValueError: a hint says that there is none.
        """
        if self.is_square is False:
            raise ValueError("Cannot take the Inverse: This operator represents a non square matrix.")
        if self.is_non_singular is False:
            raise ValueError("Cannot take the Inverse: This operator represents a singular matrix.")
        with self._scope(name):
            return self._inverse()

    def cholesky(self, name: str = "cholesky") -> LinearOperator:
        """Return the operator L, lower triangular, for which L L^H is this one.

        Raises:
            ValueError: it is not promised to be positive definite and self-adjoint.
        """
        if not self._has_factor:
            raise ValueError("Cannot take the Cholesky decomposition: Not a positive definite self adjoint matrix.")
        with self._scope(name):
            return self._cholesky()

    def _adjoint(self) -> LinearOperator:
        return FORMS["adjoint"](self)

    def _inverse(self) -> LinearOperator:
        return FORMS["inverse"](self)

    def _cholesky(self) -> LinearOperator:
        return FORMS["triangular"](cholesky(self._to_dense()))

    @property
    def _has_factor(self) -> bool:
        return bool(self.is_self_adjoint and self.is_positive_definite)

    # ------------------------------------------------------------------ numbers

    def to_dense(self, name: str = "to_dense") -> Tensor:
        """Return the whole matrices."""
        with self._scope(name):
            return self._to_dense()

    def diag_part(self, name: str = "diag_part") -> Tensor:
        """Return the diagonals, [..., min(rows, columns)]."""
        with self._scope(name):
            return self._diag_part()

    def trace(self, name: str = "trace") -> Tensor:
        """Return the sums of the diagonals."""
        with self._scope(name):
            return self._trace()

    def determinant(self, name: str = "det") -> Tensor:
        """Return the determinants."""
        if self.is_square is False:
            raise NotImplementedError(NOT_SQUARE.format("Determinant"))
        with self._scope(name):
            return self._determinant()

    def log_abs_determinant(self, name: str = "log_abs_det") -> Tensor:
        """Return the logarithms of the determinants' magnitudes.

        They are of the operator's type, but real of triangles, scaled identities, and adjoints and inverses of these.
        """
        if self.is_square is False:
            raise NotImplementedError(NOT_SQUARE.format("Determinant"))
        with self._scope(name):
            found = self._log_abs_determinant()
            return found if self._has_real_logarithm else math_ops.cast(found, self._dtype)

    @property
    def _has_real_logarithm(self) -> bool:
        # TensorFlow's forms differ in this, and programs add its result to what they have.
        return False

    def eigvals(self, name: str = "eigvals") -> Tensor:
        """Return the eigenvalues, which are real, in ascending order where the form does not say another.

        Raises:
            NotImplementedError: it is not promised to be self-adjoint.
        """
        if not self.is_self_adjoint:
            raise NotImplementedError("Only self-adjoint matrices are supported.")
        with self._scope(name):
            return self._eigvals()

    def cond(self, name: str = "cond") -> Tensor:
        """Return the condition numbers in the 2-norm."""
        with self._scope(name):
            return self._cond()

    def add_to_tensor(self, x: Any, name: str = "add_to_tensor") -> Tensor:
        """Add matrices."""
        with self._scope(name):
            return self._add_to_tensor(self._converted(x))

    def _to_dense(self) -> Tensor:
        shape = self._whole_shape()
        return self._matmul(_eye(shape, self._dtype), False)

    def _diag_part(self) -> Tensor:
        found: Tensor = array_ops.matrix_diag_part(self._to_dense())
        return found

    def _trace(self) -> Tensor:
        return math_ops.reduce_sum(self._diag_part(), axis=-1)

    def _determinant(self) -> Tensor:
        if self._has_factor:
            return math_ops.cast(math_ops.exp(self._log_abs_determinant()), self._dtype)
        found: Tensor = matrix_determinant(self._to_dense())
        return found

    def _log_abs_determinant(self) -> Tensor:
        if self._has_factor:
            diagonal = array_ops.matrix_diag_part(cholesky(self._to_dense()))
            return 2.0 * math_ops.reduce_sum(math_ops.log(math_ops.abs(diagonal)), axis=-1)
        found: Tensor = linalg_ops.log_matrix_determinant(self._to_dense())[1]
        return math_ops.real(found)

    def _eigvals(self) -> Tensor:
        return linalg_ops.self_adjoint_eigvals(self._to_dense())

    def _cond(self) -> Tensor:
        if self.is_self_adjoint:
            values = math_ops.abs(self._eigvals())
        else:
            values = linalg_ops.svd(self._to_dense(), compute_uv=False)
        return math_ops.reduce_max(values, axis=-1) / math_ops.reduce_min(values, axis=-1)

    def _add_to_tensor(self, x: Tensor) -> Tensor:
        return math_ops.add(self._to_dense(), x)

    # ------------------------------------------------------------------ checks while the graph runs

    def assert_non_singular(self, name: str = "assert_non_singular") -> Operation:
        """Return an op that fails where a matrix has no inverse, up to the type's precision."""
        with self._scope(name):
            return self._assert_non_singular()

    def assert_positive_definite(self, name: str = "assert_positive_definite") -> Operation:
        """Return an op that fails where the real part of x^H A x is not always positive."""
        with self._scope(name):
            return self._assert_positive_definite()

    def assert_self_adjoint(self, name: str = "assert_self_adjoint") -> Operation:
        """Return an op that fails where a matrix is not its own adjoint."""
        with self._scope(name):
            return self._assert_self_adjoint()

    def _assert_non_singular(self) -> Operation:
        real = self._dtype.real_dtype
        limit = np.asarray(0.1 / np.finfo(real.as_numpy_dtype).eps, real.as_numpy_dtype)
        return check_ops.assert_less(self.cond(), limit, message="Singular matrix up to precision epsilon.")

    def _assert_positive_definite(self) -> Operation:
        if not self.is_self_adjoint:
            raise NotImplementedError("assert_positive_definite is not implemented where it is not self-adjoint.")
        return group(cholesky(self._to_dense()))

    def _assert_self_adjoint(self) -> Operation:
        dense = self._to_dense()
        message = "Matrix was not equal to its adjoint."
        return check_ops.assert_equal(dense, linalg_ops.adjoint(dense), message=message)

    # ------------------------------------------------------------------ parts of the batch

    def __getitem__(self, slices: Any) -> LinearOperator:
        """Take a part of the batch, by the indices that a tensor takes."""
        return FORMS["part"](self, slices)

    # ------------------------------------------------------------------ for subclasses

    def _converted(self, x: Any) -> Tensor:
        found: Tensor = convert_to_tensor(x)
        if found.dtype.base_dtype != self._dtype:
            raise TypeError(
                f"Expected argument to have dtype {self._dtype}. Found: {found.dtype.base_dtype} in tensor {found}"
            )
        return found

    def _argument(self, x: Any, place: int, adjoint: bool, adjoint_arg: bool) -> Tensor:
        """Make what is multiplied; dimension `place` of the adjoint is what its rows have to be as many as."""
        found = self._converted(x)
        if adjoint_arg:
            found = linalg_ops.adjoint(found)
        rows, wanted = dimension(found.shape, -2), dimension(self.shape, -1 if (place == -2) != adjoint else -2)
        if rows is not None and wanted is not None:
            rows.assert_is_compatible_with(wanted)
        return found


def _eye(shape: Tensor, dtype: DType) -> Tensor:
    """Make the identity of as many rows as matrices of `shape` have columns, in a batch as theirs."""
    diagonal = array_ops.ones(array_ops.concat([shape[:-2], shape[-1:]], 0), dtype)
    found: Tensor = array_ops.matrix_diag(diagonal)
    return found


def _check_sizes(left: LinearOperator, right: LinearOperator) -> None:
    columns, rows = left.domain_dimension, right.range_dimension
    if columns is not None and rows is not None and not columns.is_compatible_with(rows):
        raise ValueError(f"Operators are incompatible. Expected `x` to have dimension {columns} but got {rows}.")
