"""Operators of few numbers: reflections, permutations, Kronecker products, updates of low rank."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.convert import convert_to_tensor
from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.ops import array_ops, linalg_ops, math_ops
from dtfctl.runtime.ops.grouping import group
from dtfctl.runtime.ops.linear_operators import broadcasting
from dtfctl.runtime.ops.linear_operators.base import LinearOperator
from dtfctl.runtime.ops.linear_operators.described import (
    Hints,
    all_of,
    arguments_of,
    check_rank,
    checked_hint,
    dimension,
    leading,
)
from dtfctl.runtime.ops.linear_operators.diagonal import LinearOperatorDiag, LinearOperatorIdentity
from dtfctl.runtime.ops.op_defs.linalg import cholesky, matrix_solve
from dtfctl.runtime.ops.sort_ops import argsort, sort


class LinearOperatorHouseholder(LinearOperator):
    """Reflections at the hyperplanes that are orthogonal to `reflection_axis` [..., n], of any length but 0."""

    ndims_of_parameters = {"reflection_axis": 1}

    def __init__(
        self,
        reflection_axis: Any,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = None,
        name: str = "LinearOperatorHouseholder",
    ) -> None:
        parameters = arguments_of(locals())
        self._axis: Tensor = convert_to_tensor(reflection_axis, name="reflection_axis")
        check_rank("reflection_axis", self._axis, 1)
        checked_hint(is_self_adjoint, True, "A Householder operator is always self adjoint.")
        checked_hint(is_positive_definite, False, "A Householder operator is always non-positive definite.")
        checked_hint(is_square, True, "A Householder operator is always square.")
        super().__init__(self._axis.dtype, None, is_non_singular, True, False, True, name, parameters)

    @property
    def reflection_axis(self) -> Tensor:
        """The normals of the hyperplanes."""
        return self._axis

    def _shape(self) -> TensorShape:
        known = self._axis.shape
        return TensorShape(None) if known.ndims is None else known.concatenate(known[-1:])

    def _shape_tensor(self) -> Tensor:
        shape = array_ops.shape(self._axis)
        return array_ops.concat([shape, shape[-1:]], 0)

    def _unit(self) -> Tensor:
        square = math_ops.reduce_sum(math_ops.square(math_ops.abs(self._axis)), axis=-1, keepdims=True)
        return self._axis / math_ops.cast(math_ops.sqrt(square), self._dtype)

    def _matmul(self, x: Tensor, adjoint: bool) -> Tensor:
        unit = array_ops.expand_dims(self._unit(), -1)
        return x - 2 * math_ops.matmul(unit, math_ops.matmul(unit, x, adjoint_a=True))

    def _solve(self, rhs: Tensor, adjoint: bool) -> Tensor:
        return self._matmul(rhs, adjoint)

    def _inverse(self) -> LinearOperator:
        return self

    def _diag_part(self) -> Tensor:
        unit = self._unit()
        return 1 - 2 * unit * math_ops.conj(unit)

    def _trace(self) -> Tensor:
        size = math_ops.cast(self.domain_dimension_tensor(), self._dtype)
        return size - 2 * array_ops.ones(self.batch_shape_tensor(), self._dtype)

    def _determinant(self) -> Tensor:
        return -array_ops.ones(self.batch_shape_tensor(), self._dtype)

    def _log_abs_determinant(self) -> Tensor:
        return array_ops.zeros(self.batch_shape_tensor(), self._dtype.real_dtype)

    def _eigvals(self) -> Tensor:
        ones = array_ops.ones_like(self._axis)
        return array_ops.concat([-ones[..., :1], ones[..., 1:]], -1)

    def _cond(self) -> Tensor:
        return array_ops.ones(self.batch_shape_tensor(), self._dtype)

    def _assert_non_singular(self) -> Operation:
        return group()

    _assert_self_adjoint = _assert_non_singular

    def _assert_positive_definite(self) -> Operation:
        raise InvalidArgumentError("Householder operators are always non-positive definite.")


class LinearOperatorPermutation(LinearOperator):
    """Permutations: row i of a product is row `perm[..., i]` of what was multiplied."""

    ndims_of_parameters = {"perm": 1}

    def __init__(
        self,
        perm: Any,
        dtype: Any = dtypes.float32,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = None,
        name: str = "LinearOperatorPermutation",
    ) -> None:
        parameters = arguments_of(locals())
        checked_hint(is_non_singular, True, "A Permutation operator is always non-singular.")
        checked_hint(is_square, True, "A Permutation operator is always square.")
        self._perm: Tensor = convert_to_tensor(perm, name="perm")
        if self._perm.shape.ndims == 0:
            raise ValueError(f"Argument `perm` must have at least 1 dimension. Found: {self._perm}.")
        if not self._perm.dtype.base_dtype.is_integer:
            raise TypeError(f"Argument `perm` must be integer dtype. Found: {self._perm}.")
        super().__init__(dtype, None, True, is_self_adjoint, is_positive_definite, True, name, parameters)

    @property
    def perm(self) -> Tensor:
        """Which row goes where."""
        return self._perm

    def _shape(self) -> TensorShape:
        known = self._perm.shape
        return TensorShape(None) if known.ndims is None else known.concatenate(known[-1:])

    def _shape_tensor(self) -> Tensor:
        shape = array_ops.shape(self._perm)
        return array_ops.concat([shape, shape[-1:]], 0)

    def _matmul(self, x: Tensor, adjoint: bool) -> Tensor:
        shape = array_ops.shape(x)
        batch = broadcasting.dynamic([array_ops.shape(self._perm)[:-1], shape[:-2]])
        rows = array_ops.reshape(broadcasting.to_batch(self._perm, batch, 1), array_ops.stack([-1, shape[-2]]))
        if adjoint:
            rows = argsort(rows, axis=-1)
        flat = array_ops.reshape(broadcasting.to_batch(x, batch, 2), array_ops.stack([-1, shape[-2], shape[-1]]))
        found: Tensor = array_ops.gather(flat, rows, axis=1, batch_dims=1)
        found = array_ops.reshape(found, array_ops.concat([batch, shape[-2:]], 0))
        if x.shape.ndims is not None and self._perm.shape.ndims is not None:
            known = broadcasting.static([self.batch_shape, TensorShape(x.shape)[:-2]])
            found.set_shape(known.concatenate(TensorShape(x.shape)[-2:]))
        return found

    def _solve(self, rhs: Tensor, adjoint: bool) -> Tensor:
        return self._matmul(rhs, not adjoint)

    def _to_dense(self) -> Tensor:
        found: Tensor = array_ops.one_hot(self._perm, self.domain_dimension_tensor(), dtype=self._dtype)
        return found

    def _log_abs_determinant(self) -> Tensor:
        return array_ops.zeros(self.batch_shape_tensor(), self._dtype.real_dtype)

    def _cond(self) -> Tensor:
        return array_ops.ones(self.batch_shape_tensor(), self._dtype)

    def _assert_non_singular(self) -> Operation:
        return group()


class LinearOperatorKronecker(LinearOperator):
    """Kronecker products of operators: each element of the first is multiplied by the whole of those after it."""

    def __init__(
        self,
        operators: Sequence[LinearOperator],
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = None,
        name: str | None = None,
    ) -> None:
        parameters = arguments_of(locals())
        self._operators = list(operators)
        if not self._operators:
            raise ValueError(f"Argument `operators` must be a list of >=1 operators. Found: {operators}.")
        if len({item.dtype for item in self._operators}) > 1:
            raise TypeError(f"Expected every operation in argument `operators` to have the same dtype. {operators}")
        if all(item.is_square for item in self._operators):
            is_square = checked_hint(is_square, True, "The Kronecker product of square operators is square.")
        given = Hints(
            is_non_singular=is_non_singular, is_self_adjoint=is_self_adjoint, is_positive_definite=is_positive_definite
        )
        hints = all_of(self._operators, given, "The Kronecker product of {0} operators is always {0}.")
        hints["is_square"] = is_square
        name = name or "_x_".join(item.name for item in self._operators)
        super().__init__(self._operators[0].dtype, name=name, parameters=parameters, **hints)

    @property
    def operators(self) -> list[LinearOperator]:
        """The factors."""
        return self._operators

    @property
    def ndims_of_parameters(self) -> dict[str, Any]:  # type: ignore[override]
        return {"operators": [0] * len(self._operators)}

    def _shape(self) -> TensorShape:
        rows, columns = 1, 1
        known = [item.shape for item in self._operators]
        if any(item.ndims is None for item in known):
            return TensorShape(None)
        for item in known:
            r, c = item.as_list()[-2:]
            rows = None if rows is None or r is None else rows * r  # type: ignore[assignment]
            columns = None if columns is None or c is None else columns * c  # type: ignore[assignment]
        return broadcasting.static([item[:-2] for item in known]).concatenate([rows, columns])

    def _shape_tensor(self) -> Tensor:
        shapes = [item.shape_tensor() for item in self._operators]
        inner = math_ops.reduce_prod(array_ops.stack([item[-2:] for item in shapes]), axis=0)
        return array_ops.concat([broadcasting.dynamic([item[:-2] for item in shapes]), inner], 0)

    def _by_factor(self, x: Tensor, apply: Callable[[LinearOperator, Tensor], Tensor], adjoint: bool) -> Tensor:
        """Apply each factor to its part of the rows: the first part goes to the end of them, in turns."""
        outer = x
        count = array_ops.shape(x)[-1]
        for factor in self._operators:
            shape = array_ops.shape(x)
            first = factor.range_dimension_tensor() if adjoint else factor.domain_dimension_tensor()
            wide = array_ops.reshape(x, array_ops.concat([shape[:-2], array_ops.stack([first, -1])], 0))
            done = apply(factor, wide)
            batch, rows = array_ops.shape(done)[:-2], array_ops.shape(done)[-2]
            apart = array_ops.reshape(done, array_ops.concat([batch, array_ops.stack([rows, -1, count])], 0))
            rank = array_ops.rank(apart)
            order = array_ops.concat([math_ops.range(rank - 3), array_ops.stack([rank - 2, rank - 3, rank - 1])], 0)
            turned = array_ops.transpose(apart, order)
            x = array_ops.reshape(turned, array_ops.concat([batch, array_ops.stack([-1, count])], 0))
        known = TensorShape(outer.shape)
        if known.ndims is not None and self.shape.ndims is not None:
            size = self.shape.as_list()[-1 if adjoint else -2]
            x.set_shape(broadcasting.static([self.batch_shape, known[:-2]]).concatenate([size]).concatenate(known[-1:]))
        return x

    def _matmul(self, x: Tensor, adjoint: bool) -> Tensor:
        return self._by_factor(x, lambda factor, part: factor.matmul(part, adjoint=adjoint), adjoint)

    def _solve(self, rhs: Tensor, adjoint: bool) -> Tensor:
        return self._by_factor(rhs, lambda factor, part: factor.solve(part, adjoint=adjoint), not adjoint)

    def _adjoint(self) -> LinearOperator:
        return LinearOperatorKronecker([item.adjoint() for item in self._operators], **self._hints())

    def _inverse(self) -> LinearOperator:
        return LinearOperatorKronecker([item.inverse() for item in self._operators], **self._hints_as_non_singular())

    def _cholesky(self) -> LinearOperator:
        if not all(item.is_positive_definite and item.is_self_adjoint for item in self._operators):
            return super()._cholesky()
        return LinearOperatorKronecker([item.cholesky() for item in self._operators], is_non_singular=True)

    def _powers(self) -> list[Tensor]:
        whole = self.domain_dimension_tensor()
        return [whole // item.domain_dimension_tensor() for item in self._operators]

    def _determinant(self) -> Tensor:
        found: Any = 1
        for item, power in zip(self._operators, self._powers(), strict=True):
            found = found * math_ops.pow(item.determinant(), math_ops.cast(power, self._dtype))
        whole: Tensor = found
        return whole

    def _log_abs_determinant(self) -> Tensor:
        found: Any = 0
        for item, power in zip(self._operators, self._powers(), strict=True):
            part = math_ops.cast(item.log_abs_determinant(), self._dtype)
            found = found + part * math_ops.cast(power, self._dtype)
        whole: Tensor = found
        return whole

    def _trace(self) -> Tensor:
        found: Any = 1
        for item in self._operators:
            found = found * item.trace()
        whole: Tensor = found
        return whole

    def _diag_part(self) -> Tensor:
        if not all(item.is_square for item in self._operators):
            return super()._diag_part()
        return _outer([item.diag_part() for item in self._operators])

    def _eigvals(self) -> Tensor:
        values: Tensor = _outer([item.eigvals() for item in self._operators])
        if values.dtype.base_dtype.is_complex:
            return values
        found: Tensor = sort(values, axis=-1)
        return found

    def _assert_non_singular(self) -> Operation:
        self._demand_square("non-singular")
        return group(*(item.assert_non_singular() for item in self._operators))

    def _assert_self_adjoint(self) -> Operation:
        self._demand_square("self-adjoint")
        return group(*(item.assert_self_adjoint() for item in self._operators))

    def _demand_square(self, form: str) -> None:
        if any(item.is_square is False for item in self._operators):
            raise InvalidArgumentError(f"A Kronecker product of operators that are not square is not {form}.")


def _outer(parts: Sequence[Tensor]) -> Tensor:
    """Multiply all of the last dimensions with one another."""
    found = parts[0]
    for part in parts[1:]:
        both = array_ops.expand_dims(found, -1) * array_ops.expand_dims(part, -2)
        shape = array_ops.shape(both)
        found = array_ops.reshape(both, array_ops.concat([shape[:-2], shape[-2:-1] * shape[-1:]], 0))
    return found


class LinearOperatorLowRankUpdate(LinearOperator):
    """Operators L + U D V^H: `base_operator` L, `u` U [..., m, k],
    `diag_update` D's diagonal [..., k], `v` V [..., n, k].

    Without `v`, V is U; without `diag_update`, D is the identity.
    """

    ndims_of_parameters = {"base_operator": 0, "u": 2, "diag_update": 1, "v": 2}

    def __init__(
        self,
        base_operator: LinearOperator,
        u: Any,
        diag_update: Any = None,
        v: Any = None,
        is_diag_update_positive: bool | None = None,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = None,
        name: str = "LinearOperatorLowRankUpdate",
    ) -> None:
        parameters = arguments_of(locals())
        dtype = base_operator.dtype
        if diag_update is None:
            message = "Default diagonal is the identity, which is positive."
            is_diag_update_positive = checked_hint(is_diag_update_positive, True, message)
        symmetric = base_operator.is_self_adjoint and v is None and (is_diag_update_positive or not dtype.is_complex)
        if symmetric:
            message = "A = L + UDU^H, with L self-adjoint and D real diagonal: this must be a self-adjoint operator."
            is_self_adjoint = checked_hint(is_self_adjoint, True, message)
            if base_operator.is_positive_definite and is_diag_update_positive:
                message = "Arguments imply this is self-adjoint positive-definite operator."
                is_positive_definite = checked_hint(is_positive_definite, True, message)
        self._base = base_operator
        self._u: Tensor = convert_to_tensor(u, dtype, name="u")
        self._v: Tensor = self._u if v is None else convert_to_tensor(v, dtype, name="v")
        self._update: Tensor | None = None if diag_update is None else convert_to_tensor(diag_update, dtype)
        self._positive = is_diag_update_positive
        self._middle: LinearOperator
        if self._update is None:
            self._middle = LinearOperatorIdentity(array_ops.shape(self._u)[-1], dtype=dtype)
        else:
            self._middle = LinearOperatorDiag(
                self._update, is_non_singular=True if is_diag_update_positive else None,
                is_positive_definite=is_diag_update_positive,
            )  # fmt: skip
        self._is_symmetric = v is None
        super().__init__(
            dtype, None, is_non_singular, is_self_adjoint, is_positive_definite, is_square, name, parameters
        )
        self._shape()

    @property
    def base_operator(self) -> LinearOperator:
        """What is updated."""
        return self._base

    @property
    def u(self) -> Tensor:
        """The left factor of the update."""
        return self._u

    @property
    def v(self) -> Tensor:
        """The right factor of the update."""
        return self._v

    @property
    def diag_update(self) -> Tensor | None:
        """The middle factor's diagonal, where one was given."""
        return self._update

    @property
    def diag_operator(self) -> LinearOperator:
        """The middle factor."""
        return self._middle

    @property
    def is_diag_update_positive(self) -> bool | None:
        """Whether the middle factor is promised to be positive."""
        return self._positive

    def _shape(self) -> TensorShape:
        base, batches = self._base.shape, [self._base.batch_shape, leading(self._u.shape, 2), leading(self._v.shape, 2)]
        pairs = [
            (dimension(base, -2), dimension(self._u.shape, -2)),
            (dimension(base, -1), dimension(self._v.shape, -2)),
            (dimension(self._u.shape, -1), dimension(self._v.shape, -1)),
        ]
        if self._update is not None:
            batches.append(leading(self._update.shape, 1))
            pairs.append((dimension(self._update.shape, -1), dimension(self._u.shape, -1)))
        for mine, other in pairs:
            if mine is not None and other is not None:
                mine.assert_is_compatible_with(other)
        return broadcasting.static(batches).concatenate([dimension(base, -2), dimension(base, -1)])

    def _shape_tensor(self) -> Tensor:
        base = self._base.shape_tensor()
        batches = [base[:-2], array_ops.shape(self._u)[:-2], array_ops.shape(self._v)[:-2]]
        if self._update is not None:
            batches.append(array_ops.shape(self._update)[:-1])
        return array_ops.concat([broadcasting.dynamic(batches), base[-2:]], 0)

    def _matmul(self, x: Tensor, adjoint: bool) -> Tensor:
        left, right = (self._v, self._u) if adjoint else (self._u, self._v)
        inner = self._middle.matmul(math_ops.matmul(right, x, adjoint_a=True), adjoint=adjoint)
        mine: Tensor = self._base.matmul(x, adjoint=adjoint)
        return mine + math_ops.matmul(left, inner)

    def _capacitance(self) -> Tensor:
        """Return D^-1 + V^H L^-1 U, of the update's rank."""
        reached = math_ops.matmul(self._v, self._base.solve(self._u), adjoint_a=True)
        return self._middle.inverse().add_to_tensor(reached)

    @property
    def _use_cholesky(self) -> bool:
        base = self._base
        return bool(base.is_positive_definite and base.is_self_adjoint and self._is_symmetric and self._positive)

    def _determinant(self) -> Tensor:
        if self.is_positive_definite:
            return math_ops.cast(math_ops.exp(self._log_abs_determinant()), self._dtype)
        small = linalg_ops.log_matrix_determinant(self._capacitance())
        sign, size = small[0], math_ops.real(small[1])
        inner: Tensor = sign * math_ops.cast(math_ops.exp(size), self._dtype)
        return inner * self._middle.determinant() * self._base.determinant()

    def _log_abs_determinant(self) -> Tensor:
        if self._use_cholesky:
            diagonal = array_ops.matrix_diag_part(cholesky(self._capacitance()))
            inner = 2 * math_ops.reduce_sum(math_ops.log(math_ops.abs(diagonal)), axis=-1)
        else:
            inner = math_ops.real(linalg_ops.log_matrix_determinant(self._capacitance())[1])
        outer = (self._middle.log_abs_determinant(), self._base.log_abs_determinant())
        first, second, third = (math_ops.cast(part, self._dtype) for part in (inner, *outer))
        return first + second + third

    def _diag_part(self) -> Tensor:
        left = self._u if self._update is None else self._u * array_ops.expand_dims(self._update, -2)
        product = math_ops.reduce_sum(left * math_ops.conj(self._v), axis=-1)
        return self._base.diag_part() + product

    def _solve(self, rhs: Tensor, adjoint: bool) -> Tensor:
        if self._base.is_non_singular is False:
            raise ValueError("Solve not implemented unless this is a perturbation of a non-singular LinearOperator.")
        left, right = (self._v, self._u) if adjoint else (self._u, self._v)
        first: Tensor = self._base.solve(rhs, adjoint=adjoint)
        small, wide = broadcasting.matrices(self._capacitance(), math_ops.matmul(right, first, adjoint_a=True))
        inner = matrix_solve(small, wide, adjoint=adjoint)
        rest: Tensor = self._base.solve(math_ops.matmul(left, inner), adjoint=adjoint)
        return first - rest
