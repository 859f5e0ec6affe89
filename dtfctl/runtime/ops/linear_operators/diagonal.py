"""Operators that are 0 off their diagonals: diagonal ones, multiples of the identity, zeros."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.constant_value import constant_value
from dtfctl.runtime.framework.convert import convert_to_tensor
from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.framework.graph_keys import control_dependencies
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.ops import array_ops, check_ops, math_ops
from dtfctl.runtime.ops.grouping import group
from dtfctl.runtime.ops.linear_operators import broadcasting
from dtfctl.runtime.ops.linear_operators.base import LinearOperator
from dtfctl.runtime.ops.linear_operators.described import Hints, arguments_of, check_rank, checked_hint


class LinearOperatorDiag(LinearOperator):
    """Square matrices that are 0 but for their diagonals [..., n]."""

    ndims_of_parameters = {"diag": 1}

    def __init__(
        self,
        diag: Any,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = None,
        name: str = "LinearOperatorDiag",
    ) -> None:
        parameters = arguments_of(locals())
        self._diag: Tensor = convert_to_tensor(diag, name="diag")
        check_rank("diag", self._diag, 1)
        if not self._diag.dtype.base_dtype.is_complex:
            message = "A real diagonal operator is always self adjoint."
            is_self_adjoint = checked_hint(is_self_adjoint, True, message)
        square = checked_hint(is_square, True, "Only square diagonal operators currently supported.")
        super().__init__(
            self._diag.dtype, None, is_non_singular, is_self_adjoint, is_positive_definite, square, name, parameters
        )

    @property
    def diag(self) -> Tensor:
        """The diagonals."""
        return self._diag

    def _shape(self) -> TensorShape:
        known = self._diag.shape
        return TensorShape(None) if known.ndims is None else known.concatenate(known[-1:])

    def _shape_tensor(self) -> Tensor:
        shape = array_ops.shape(self._diag)
        return array_ops.concat([shape, shape[-1:]], 0)

    def _matmul(self, x: Tensor, adjoint: bool) -> Tensor:
        return array_ops.expand_dims(math_ops.conj(self._diag) if adjoint else self._diag, -1) * x

    def _solve(self, rhs: Tensor, adjoint: bool) -> Tensor:
        return rhs / array_ops.expand_dims(math_ops.conj(self._diag) if adjoint else self._diag, -1)

    def _to_dense(self) -> Tensor:
        found: Tensor = array_ops.matrix_diag(self._diag)
        return found

    def _diag_part(self) -> Tensor:
        return self._diag

    def _determinant(self) -> Tensor:
        return math_ops.reduce_prod(self._diag, axis=-1)

    def _log_abs_determinant(self) -> Tensor:
        return math_ops.reduce_sum(math_ops.log(math_ops.abs(self._diag)), axis=-1)

    def _eigvals(self) -> Tensor:
        return self._diag

    def _cond(self) -> Tensor:
        sizes = math_ops.abs(self._diag)
        return math_ops.reduce_max(sizes, axis=-1) / math_ops.reduce_min(sizes, axis=-1)

    def _add_to_tensor(self, x: Tensor) -> Tensor:
        return math_ops.add(self._to_dense(), x)

    def _assert_non_singular(self) -> Operation:
        message = "Singular operator:  Diagonal contained zero values."
        return check_ops.assert_positive(math_ops.abs(self._diag), message=message)

    def _assert_positive_definite(self) -> Operation:
        message = "Operator not positive definite:  Diagonal contained non-positive real part."
        return check_ops.assert_positive(math_ops.real(self._diag), message=message)

    def _assert_self_adjoint(self) -> Operation:
        if not self._diag.dtype.base_dtype.is_complex:
            return group()
        imaginary = math_ops.imag(self._diag)
        message = "This diagonal operator contained non-zero imaginary values.  Thus it was not self-adjoint."
        return check_ops.assert_equal(imaginary, array_ops.zeros_like(imaginary), message=message)


class _OfSize(LinearOperator):
    """Matrices of given numbers of rows and columns, in a batch of a given shape."""

    def _take_sizes(self, rows: Any, columns: Any, batch: Any, checks: bool) -> None:
        self._rows = _size("num_rows", rows, checks)
        self._columns = self._rows if columns is None else _size("num_columns", columns, checks)
        self._batch: Tensor | None = None
        if batch is not None:
            self._batch = convert_to_tensor(batch, dtypes.int32, name="batch_shape_arg")
            known = constant_value(self._batch)
            if self._batch.shape.ndims not in (None, 1):
                raise ValueError(f"Argument batch_shape must be a 1-D Tensor.  Found: {known}")
            if known is not None and (known < 0).any():
                raise ValueError(f"Argument batch_shape must be non-negative.  Found:{known}")

    def _shape(self) -> TensorShape:
        rows, columns = (constant_value(item) for item in (self._rows, self._columns))
        inner = [None if item is None else int(item) for item in (rows, columns)]
        if self._batch is None:
            return TensorShape(inner)
        known = constant_value(self._batch)
        if known is not None:
            return TensorShape([int(item) for item in known]).concatenate(inner)
        rank = self._batch.shape.as_list()[0]
        return TensorShape(None) if rank is None else TensorShape([None] * rank).concatenate(inner)

    def _shape_tensor(self) -> Tensor:
        inner = array_ops.stack([self._rows, self._columns])
        return inner if self._batch is None else array_ops.concat([self._batch, inner], 0)

    def add_to_tensor(self, mat: Any, name: str = "add_to_tensor") -> Tensor:
        """Add matrices."""
        return super().add_to_tensor(mat, name)

    def _in_batch(self, x: Tensor) -> Tensor:
        """Broadcast matrices to the operator's batch."""
        if self._batch is None:
            return x
        batch = broadcasting.dynamic([self._batch, array_ops.shape(x)[:-2]])
        return broadcasting.to_batch(x, batch, 2)

    def _ones(self) -> Tensor:
        size = array_ops.reshape(math_ops.minimum(self._rows, self._columns), [1])
        shape = size if self._batch is None else array_ops.concat([self._batch, size], 0)
        found: Tensor = array_ops.ones(shape, self._dtype)
        return found


class LinearOperatorIdentity(_OfSize):
    """The identity of `num_rows` rows, in a batch of shape `batch_shape`."""

    def __init__(
        self,
        num_rows: Any,
        batch_shape: Any = None,
        dtype: Any = None,
        is_non_singular: bool | None = True,
        is_self_adjoint: bool | None = True,
        is_positive_definite: bool | None = True,
        is_square: bool | None = True,
        assert_proper_shapes: bool = False,
        name: str = "LinearOperatorIdentity",
    ) -> None:
        parameters = arguments_of(locals())
        checked_hint(is_self_adjoint, True, "An identity operator is always self adjoint.")
        checked_hint(is_non_singular, True, "An identity operator is always non-singular.")
        checked_hint(is_positive_definite, True, "An identity operator is always positive-definite.")
        checked_hint(is_square, True, "An identity operator is always square.")
        super().__init__(dtype or dtypes.float32, None, True, True, True, True, name, parameters)
        self._take_sizes(num_rows, None, batch_shape, assert_proper_shapes)

    def _matmul(self, x: Tensor, adjoint: bool) -> Tensor:
        return self._in_batch(x)

    def _solve(self, rhs: Tensor, adjoint: bool) -> Tensor:
        return self._in_batch(rhs)

    def _inverse(self) -> LinearOperator:
        return self

    def _cholesky(self) -> LinearOperator:
        return self

    def _diag_part(self) -> Tensor:
        return self._ones()

    _eigvals = _diag_part

    def _trace(self) -> Tensor:
        return math_ops.reduce_sum(self._ones(), axis=-1)

    def _determinant(self) -> Tensor:
        return array_ops.ones(self.batch_shape_tensor(), self._dtype)

    def _log_abs_determinant(self) -> Tensor:
        return array_ops.zeros(self.batch_shape_tensor(), self._dtype.real_dtype)

    def _cond(self) -> Tensor:
        return array_ops.ones(self.batch_shape_tensor(), self._dtype)

    def _add_to_tensor(self, x: Tensor) -> Tensor:
        whole = self._in_batch(x)
        found: Tensor = array_ops.matrix_set_diag(whole, array_ops.matrix_diag_part(whole) + 1)
        return found

    def _assert_non_singular(self) -> Operation:
        return group()

    _assert_positive_definite = _assert_self_adjoint = _assert_non_singular


class LinearOperatorScaledIdentity(_OfSize):
    """The identity of `num_rows` rows times `multiplier`, whose shape is that of the batch."""

    ndims_of_parameters = {"multiplier": 0}

    def __init__(
        self,
        num_rows: Any,
        multiplier: Any,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = True,
        assert_proper_shapes: bool = False,
        name: str = "LinearOperatorScaledIdentity",
    ) -> None:
        parameters = arguments_of(locals())
        self._multiplier: Tensor = convert_to_tensor(multiplier, name="multiplier")
        if not self._multiplier.dtype.base_dtype.is_complex:
            message = "A real diagonal operator is always self adjoint."
            is_self_adjoint = checked_hint(is_self_adjoint, True, message)
        checked_hint(is_square, True, "A ScaledIdentity operator is always square.")
        super().__init__(
            self._multiplier.dtype, None, is_non_singular, is_self_adjoint, is_positive_definite, True, name, parameters
        )
        self._take_sizes(num_rows, None, array_ops.shape(self._multiplier), assert_proper_shapes)

    @property
    def multiplier(self) -> Tensor:
        """What the identity is multiplied by, of the batch's shape."""
        return self._multiplier

    def _shape(self) -> TensorShape:
        rows = constant_value(self._rows)
        size = None if rows is None else int(rows)
        return TensorShape(self._multiplier.shape).concatenate([size, size])

    def _factor(self, adjoint: bool, ndims: int = 2) -> Tensor:
        found = math_ops.conj(self._multiplier) if adjoint else self._multiplier
        for _ in range(ndims):
            found = array_ops.expand_dims(found, -1)
        return found

    def _matmul(self, x: Tensor, adjoint: bool) -> Tensor:
        return x * self._factor(adjoint)

    def _solve(self, rhs: Tensor, adjoint: bool) -> Tensor:
        return rhs / self._factor(adjoint)

    def _like(self, multiplier: Tensor, hints: Hints) -> LinearOperator:
        return LinearOperatorScaledIdentity(self._rows, multiplier, **hints)

    def _adjoint(self) -> LinearOperator:
        return self._like(math_ops.conj(self._multiplier), self._hints())

    def _inverse(self) -> LinearOperator:
        return self._like(1.0 / self._multiplier, self._hints_as_non_singular())

    def _cholesky(self) -> LinearOperator:
        return self._like(math_ops.sqrt(self._multiplier), self._hints_as_non_singular())

    def _diag_part(self) -> Tensor:
        return self._ones() * self._factor(False, 1)

    _eigvals = _diag_part

    def _trace(self) -> Tensor:
        return self._multiplier * math_ops.cast(self._rows, self._dtype)

    def _determinant(self) -> Tensor:
        return math_ops.pow(self._multiplier, math_ops.cast(self._rows, self._dtype))

    @property
    def _has_real_logarithm(self) -> bool:
        return True

    def _log_abs_determinant(self) -> Tensor:
        return math_ops.log(math_ops.abs(self._multiplier)) * math_ops.cast(self._rows, self._dtype.real_dtype)

    def _cond(self) -> Tensor:
        ones = array_ops.ones_like(math_ops.abs(self._multiplier))
        nan = ones * float("nan")
        at_zero = array_ops.where(math_ops.equal(self._multiplier, 0), nan, ones)
        return math_ops.cast(at_zero, self._dtype)

    def _add_to_tensor(self, x: Tensor) -> Tensor:
        whole = self._in_batch(x)
        found: Tensor = array_ops.matrix_set_diag(whole, array_ops.matrix_diag_part(whole) + self._factor(False, 1))
        return found

    def _assert_non_singular(self) -> Operation:
        return check_ops.assert_positive(math_ops.abs(self._multiplier), message="LinearOperator was singular")

    def _assert_positive_definite(self) -> Operation:
        message = "LinearOperator was not positive definite."
        return check_ops.assert_positive(math_ops.real(self._multiplier), message=message)

    def _assert_self_adjoint(self) -> Operation:
        imaginary = math_ops.imag(self._multiplier)
        message = "LinearOperator was not self-adjoint"
        return check_ops.assert_equal(imaginary, array_ops.zeros_like(imaginary), message=message)


class LinearOperatorZeros(_OfSize):
    """Matrices of zeros, `num_rows` by `num_columns` (or square), in a batch of shape `batch_shape`."""

    def __init__(
        self,
        num_rows: Any,
        num_columns: Any = None,
        batch_shape: Any = None,
        dtype: Any = None,
        is_non_singular: bool | None = False,
        is_self_adjoint: bool | None = True,
        is_positive_definite: bool | None = False,
        is_square: bool | None = True,
        assert_proper_shapes: bool = False,
        name: str = "LinearOperatorZeros",
    ) -> None:
        parameters = arguments_of(locals())
        if is_self_adjoint is False and is_square is not False:
            raise ValueError("A zero operator is always self adjoint.")
        checked_hint(is_non_singular, False, "A zero operator is always singular.")
        checked_hint(is_positive_definite, False, "A zero operator is always not positive-definite.")
        super().__init__(
            dtype or dtypes.float32, None, False, is_self_adjoint and is_square, False, is_square, name, parameters
        )
        self._take_sizes(num_rows, num_columns, batch_shape, assert_proper_shapes)
        rows, columns = (constant_value(item) for item in (self._rows, self._columns))
        if is_square and rows is not None and columns is not None and rows != columns:
            raise ValueError(
                f"LinearOperatorZeros initialized as is_square=True, but got num_rows({rows}) != num_columns({columns})"
            )

    def _matmul(self, x: Tensor, adjoint: bool) -> Tensor:
        wide = self._in_batch(array_ops.zeros_like(x))[..., :1, :]
        shape = array_ops.shape(wide)
        rows = array_ops.reshape(self._columns if adjoint else self._rows, [1])
        found: Tensor = array_ops.zeros(array_ops.concat([shape[:-2], rows, shape[-1:]], 0), self._dtype)
        inner = [(self.domain_dimension if adjoint else self.range_dimension), x.shape[-1]]
        if x.shape.ndims is not None and self.shape.ndims is not None:
            batch = broadcasting.static([self.batch_shape, TensorShape(x.shape)[:-2]])
            found.set_shape(batch.concatenate(inner))
        return found

    def _to_dense(self) -> Tensor:
        found: Tensor = array_ops.zeros(self._whole_shape(), self._dtype)
        return found

    def _diag_part(self) -> Tensor:
        return array_ops.zeros_like(self._ones())

    _eigvals = _diag_part

    def _trace(self) -> Tensor:
        return array_ops.zeros(self.batch_shape_tensor(), self._dtype)

    _determinant = _trace

    def _add_to_tensor(self, x: Tensor) -> Tensor:
        return self._in_batch(x)

    def _assert_non_singular(self) -> Operation:
        raise InvalidArgumentError("Zero operators are always non-invertible.")

    def _assert_positive_definite(self) -> Operation:
        raise InvalidArgumentError("Zero operators are always non-positive definite.")

    def _assert_self_adjoint(self) -> Operation:
        return group()


def _size(name: str, given: Any, checks: bool) -> Tensor:
    found: Tensor = convert_to_tensor(given, name=name)
    if not found.dtype.base_dtype.is_integer:
        raise TypeError(f"Argument {name} must be integer type.  Found: {found}")
    found = math_ops.cast(found, dtypes.int32)
    known = constant_value(found)
    if found.shape.ndims not in (None, 0):
        raise ValueError(f"Argument {name} must be a 0-D Tensor.  Found: {known}")
    if known is not None and known < 0:
        raise ValueError(f"Argument {name} must be non-negative.  Found: {known}")
    if checks and known is None:
        with control_dependencies(
            [check_ops.assert_non_negative(found, message=f"Argument {name} must be non-negative.")]
        ):
            found = array_ops.identity(found)
    return found
