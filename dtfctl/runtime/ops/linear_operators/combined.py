"""Operators made of one other or of several: adjoints, inverses, products."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.ops import array_ops, linalg_ops, math_ops
from dtfctl.runtime.ops.grouping import group
from dtfctl.runtime.ops.linear_operators import broadcasting
from dtfctl.runtime.ops.linear_operators.base import LinearOperator
from dtfctl.runtime.ops.linear_operators.described import Hints, arguments_of, checked_hint

HINTS = ("is_non_singular", "is_self_adjoint", "is_positive_definite", "is_square")


def _common(operator: LinearOperator, given: Sequence[bool | None], what: str) -> Hints:
    """Take the hints of an operator for one that has the same."""
    found: dict[str, Any] = {}
    for hint, value in zip(HINTS, given, strict=True):
        known = getattr(operator, hint)
        if known is not None and value is not None and known != value:
            form = hint.removeprefix("is_").replace("_", "-")
            raise ValueError(f"An operator is {form} if and only if its {what} is {form}.")
        found[hint] = known if value is None else value
    hints: Any = found
    taken: Hints = hints
    return taken


class LinearOperatorAdjoint(LinearOperator):
    """The conjugated and transposed matrices of an operator."""

    ndims_of_parameters = {"operator": 0}

    def __init__(
        self,
        operator: LinearOperator,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = None,
        name: str | None = None,
    ) -> None:
        parameters = arguments_of(locals())
        given = (is_non_singular, is_self_adjoint, is_positive_definite, is_square)
        self._operator = operator
        hints = _common(operator, given, "adjoint")
        super().__init__(operator.dtype, name=name or operator.name + "_adjoint", parameters=parameters, **hints)

    @property
    def operator(self) -> LinearOperator:
        """What this is the adjoint of."""
        return self._operator

    def _shape(self) -> TensorShape:
        known = self._operator.shape
        return known if known.ndims is None else known[:-2].concatenate([known[-1], known[-2]])

    def _shape_tensor(self) -> Tensor:
        shape = self._operator.shape_tensor()
        return array_ops.concat([shape[:-2], shape[-1:], shape[-2:-1]], 0)

    def _adjoint(self) -> LinearOperator:
        return self._operator

    def _matmul(self, x: Tensor, adjoint: bool) -> Tensor:
        found: Tensor = self._operator.matmul(x, adjoint=not adjoint)
        return found

    def _solve(self, rhs: Tensor, adjoint: bool) -> Tensor:
        found: Tensor = self._operator.solve(rhs, adjoint=not adjoint)
        return found

    def _to_dense(self) -> Tensor:
        return linalg_ops.adjoint(self._operator.to_dense())

    def _diag_part(self) -> Tensor:
        return math_ops.conj(self._operator.diag_part())

    def _trace(self) -> Tensor:
        return math_ops.conj(self._operator.trace())

    def _determinant(self) -> Tensor:
        return math_ops.conj(self._operator.determinant())

    @property
    def _has_real_logarithm(self) -> bool:
        return self._operator._has_real_logarithm

    def _log_abs_determinant(self) -> Tensor:
        return self._operator.log_abs_determinant()

    def _eigvals(self) -> Tensor:
        return self._operator.eigvals()

    def _cond(self) -> Tensor:
        return self._operator.cond()

    def _assert_non_singular(self) -> Operation:
        return self._operator.assert_non_singular()

    def _assert_positive_definite(self) -> Operation:
        return self._operator.assert_positive_definite()

    def _assert_self_adjoint(self) -> Operation:
        return self._operator.assert_self_adjoint()


class LinearOperatorInversion(LinearOperator):
    """The inverses of an operator's matrices; they are never made: a product solves."""

    ndims_of_parameters = {"operator": 0}

    def __init__(
        self,
        operator: LinearOperator,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = None,
        name: str | None = None,
    ) -> None:
        parameters = arguments_of(locals())
        if operator.is_square is False:
            raise ValueError(f"Operator should be a square operator.  Found: {operator.name}")
        if operator.is_non_singular is False or is_non_singular is False:
            raise ValueError(f"Operator should be non-singular to have an inverse.  Found: {operator.name}")
        given = (is_non_singular, is_self_adjoint, is_positive_definite, is_square)
        self._operator = operator
        hints = _common(operator, given, "inverse")
        super().__init__(operator.dtype, name=name or operator.name + "_inv", parameters=parameters, **hints)

    @property
    def operator(self) -> LinearOperator:
        """What this is the inverse of."""
        return self._operator

    def _shape(self) -> TensorShape:
        return self._operator.shape

    def _shape_tensor(self) -> Tensor:
        return self._operator.shape_tensor()

    def _inverse(self) -> LinearOperator:
        return self._operator

    def _matmul(self, x: Tensor, adjoint: bool) -> Tensor:
        found: Tensor = self._operator.solve(x, adjoint=adjoint)
        return found

    def _solve(self, rhs: Tensor, adjoint: bool) -> Tensor:
        found: Tensor = self._operator.matmul(rhs, adjoint=adjoint)
        return found

    def _determinant(self) -> Tensor:
        return 1.0 / self._operator.determinant()

    @property
    def _has_real_logarithm(self) -> bool:
        return self._operator._has_real_logarithm

    def _log_abs_determinant(self) -> Tensor:
        return -1.0 * self._operator.log_abs_determinant()

    def _eigvals(self) -> Tensor:
        return 1.0 / self._operator.eigvals()

    def _cond(self) -> Tensor:
        return self._operator.cond()

    def _assert_non_singular(self) -> Operation:
        return self._operator.assert_non_singular()

    def _assert_positive_definite(self) -> Operation:
        return self._operator.assert_positive_definite()

    def _assert_self_adjoint(self) -> Operation:
        return self._operator.assert_self_adjoint()


class LinearOperatorComposition(LinearOperator):
    """Products of operators, the last of which is applied first."""

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
            raise ValueError(f"Expected a non-empty list of operators. Found: {operators}")
        if len({item.dtype for item in self._operators}) > 1:
            described = [f"{item.name} {item.dtype}" for item in self._operators]
            raise TypeError(f"Expected all operators to have the same dtype.  Found {described}")
        if all(item.is_non_singular for item in self._operators):
            message = "The composition of non-singular operators is always non-singular."
            is_non_singular = checked_hint(is_non_singular, True, message)
        if _is_square_of_one(self._operators):
            message = "The composition was determined to be self-adjoint but user provided incorrect `False` hint."
            is_self_adjoint = checked_hint(is_self_adjoint, True, message)
            message = "The composition was determined have the form A @ A.H, hence it must be square."
            is_square = checked_hint(is_square, True, message)
            if is_non_singular:
                message = "The composition was determined to be non-singular and have the form A @ A.H."
                is_positive_definite = checked_hint(is_positive_definite, True, message)
        name = name or "_o_".join(item.name for item in self._operators)
        dtype = self._operators[0].dtype
        super().__init__(
            dtype, None, is_non_singular, is_self_adjoint, is_positive_definite, is_square, name, parameters
        )
        self._shape()

    @property
    def operators(self) -> list[LinearOperator]:
        """The factors."""
        return self._operators

    @property
    def ndims_of_parameters(self) -> dict[str, Any]:  # type: ignore[override]
        return {"operators": [0] * len(self._operators)}

    def _shape(self) -> TensorShape:
        known = [item.shape for item in self._operators]
        for left, right in zip(self._operators, self._operators[1:], strict=False):
            if left.domain_dimension is not None and right.range_dimension is not None:
                left.domain_dimension.assert_is_compatible_with(right.range_dimension)
        if any(item.ndims is None for item in known):
            return TensorShape(None)
        return broadcasting.static([item[:-2] for item in known]).concatenate([known[0][-2], known[-1][-1]])

    def _shape_tensor(self) -> Tensor:
        shapes = [item.shape_tensor() for item in self._operators]
        batch = broadcasting.dynamic([item[:-2] for item in shapes])
        return array_ops.concat([batch, shapes[0][-2:-1], shapes[-1][-1:]], 0)

    def _adjoint(self) -> LinearOperator:
        factors = [item.adjoint() for item in reversed(self._operators)]
        return LinearOperatorComposition(factors, **self._hints())

    def _inverse(self) -> LinearOperator:
        factors = [item.inverse() for item in reversed(self._operators)]
        return LinearOperatorComposition(factors, **self._hints_as_non_singular())

    def _matmul(self, x: Tensor, adjoint: bool) -> Tensor:
        for item in self._operators if adjoint else reversed(self._operators):
            x = item.matmul(x, adjoint=adjoint)
        return x

    def _solve(self, rhs: Tensor, adjoint: bool) -> Tensor:
        for item in reversed(self._operators) if adjoint else self._operators:
            rhs = item.solve(rhs, adjoint=adjoint)
        return rhs

    def _determinant(self) -> Tensor:
        if not all(item.is_square for item in self._operators):
            return super()._determinant()
        found = self._operators[0].determinant()
        for item in self._operators[1:]:
            found = found * item.determinant()
        return found

    def _log_abs_determinant(self) -> Tensor:
        if not all(item.is_square for item in self._operators):
            return super()._log_abs_determinant()
        found = math_ops.cast(self._operators[0].log_abs_determinant(), self._dtype)
        for item in self._operators[1:]:
            found = found + math_ops.cast(item.log_abs_determinant(), self._dtype)
        return found

    def _assert_non_singular(self) -> Operation:
        if all(item.is_square for item in self._operators):
            return group(*(item.assert_non_singular() for item in self._operators))
        return super()._assert_non_singular()


def _is_square_of_one(operators: Sequence[LinearOperator]) -> bool:
    """Tell whether the factors are A ... B B^H ... A^H."""
    if len(operators) % 2:
        return False
    half = len(operators) // 2
    for left, right in zip(operators[:half], reversed(operators[half:]), strict=True):
        pair = (left, right)
        if not any(
            isinstance(one, LinearOperatorAdjoint) and one.operator is other for one, other in (pair, pair[::-1])
        ):
            return False
    return True
