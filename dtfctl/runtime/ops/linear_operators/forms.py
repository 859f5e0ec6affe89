"""What operators are made of operators, by their forms; what has no rule is a composition of both."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework.convert import convert_to_tensor
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.ops import array_ops
from dtfctl.runtime.ops.linear_operators import broadcasting
from dtfctl.runtime.ops.linear_operators.base import FORMS, LinearOperator
from dtfctl.runtime.ops.linear_operators.blocks import LinearOperatorBlockDiag
from dtfctl.runtime.ops.linear_operators.circulant import (
    LinearOperatorCirculant,
    LinearOperatorCirculant2D,
    LinearOperatorCirculant3D,
)
from dtfctl.runtime.ops.linear_operators.combined import (
    LinearOperatorAdjoint,
    LinearOperatorComposition,
    LinearOperatorInversion,
)
from dtfctl.runtime.ops.linear_operators.dense import LinearOperatorLowerTriangular
from dtfctl.runtime.ops.linear_operators.described import Hints
from dtfctl.runtime.ops.linear_operators.diagonal import (
    LinearOperatorDiag,
    LinearOperatorIdentity,
    LinearOperatorScaledIdentity,
    LinearOperatorZeros,
)

CIRCULANTS = (LinearOperatorCirculant, LinearOperatorCirculant2D, LinearOperatorCirculant3D)
DIAGONALS = (LinearOperatorDiag, LinearOperatorScaledIdentity, LinearOperatorIdentity)


def _hints(left: LinearOperator, right: LinearOperator, *, commute: bool) -> Hints:
    """Say what a product is, where both have it; a product of self-adjoint ones is if they commute."""

    def both(hint: str) -> bool | None:
        return True if getattr(left, hint) and getattr(right, hint) else None

    non_singular = both("is_non_singular")
    if left.is_non_singular is False or right.is_non_singular is False:
        non_singular = False if left.is_square and right.is_square else None
    self_adjoint = both("is_self_adjoint") if commute else None
    return Hints(
        is_non_singular=non_singular,
        is_self_adjoint=self_adjoint,
        is_positive_definite=both("is_positive_definite") if commute and self_adjoint else None,
        is_square=both("is_square"),
    )


def product(left: LinearOperator, right: LinearOperator) -> LinearOperator:
    """Multiply two operators."""
    if isinstance(left, LinearOperatorIdentity):
        return right
    if isinstance(right, LinearOperatorIdentity):
        return left
    if isinstance(left, LinearOperatorZeros) or isinstance(right, LinearOperatorZeros):
        if not (left.is_square and right.is_square):
            raise ValueError(
                "Matmul with non-square `LinearOperator`s or non-square `LinearOperatorZeros` not supported at this "
                "time."
            )
        return left if isinstance(left, LinearOperatorZeros) else right
    commuting = _hints(left, right, commute=True)
    if isinstance(left, LinearOperatorScaledIdentity) and isinstance(right, LinearOperatorScaledIdentity):
        return LinearOperatorScaledIdentity(
            left.domain_dimension_tensor(), left.multiplier * right.multiplier, **commuting
        )
    if isinstance(left, DIAGONALS) and isinstance(right, DIAGONALS):
        return LinearOperatorDiag(left.diag_part() * right.diag_part(), **commuting)
    if isinstance(left, DIAGONALS) and isinstance(right, LinearOperatorLowerTriangular):
        rows = array_ops.expand_dims(left.diag_part(), -1)
        return LinearOperatorLowerTriangular(rows * right.to_dense(), **_hints(left, right, commute=False))
    if isinstance(left, LinearOperatorLowerTriangular) and isinstance(right, DIAGONALS):
        columns = array_ops.expand_dims(right.diag_part(), -2)
        return LinearOperatorLowerTriangular(left.to_dense() * columns, **_hints(left, right, commute=False))
    if isinstance(left, LinearOperatorLowerTriangular) and isinstance(right, LinearOperatorLowerTriangular):
        return LinearOperatorLowerTriangular(left.matmul(right.to_dense()), **_hints(left, right, commute=False))
    if isinstance(left, CIRCULANTS) and type(left) is type(right):
        return left.like(left.spectrum * right.spectrum, commuting)
    if isinstance(left, LinearOperatorBlockDiag) and isinstance(right, LinearOperatorBlockDiag):
        _check_blocks(left, right)
        blocks = [mine.matmul(other) for mine, other in zip(left.operators, right.operators, strict=True)]
        return LinearOperatorBlockDiag(blocks, **_hints(left, right, commute=False))
    return LinearOperatorComposition([left, right], **_composed(left, right))


def quotient(left: LinearOperator, right: LinearOperator) -> LinearOperator:
    """Return what multiplied by `left` gives `right`."""
    if isinstance(left, LinearOperatorIdentity):
        return right
    if isinstance(left, LinearOperatorInversion):
        return product(left.operator, right)
    commuting = _hints(left, right, commute=True)
    if isinstance(left, LinearOperatorScaledIdentity) and isinstance(right, LinearOperatorScaledIdentity):
        return LinearOperatorScaledIdentity(
            left.domain_dimension_tensor(), right.multiplier / left.multiplier, **commuting
        )
    if isinstance(left, DIAGONALS) and isinstance(right, DIAGONALS):
        return LinearOperatorDiag(right.diag_part() / left.diag_part(), **commuting)
    if isinstance(right, LinearOperatorLowerTriangular) and isinstance(left, (*DIAGONALS, type(right))):
        return LinearOperatorLowerTriangular(left.solve(right.to_dense()), **_hints(left, right, commute=False))
    if isinstance(left, CIRCULANTS) and type(left) is type(right):
        return left.like(right.spectrum / left.spectrum, commuting)
    if isinstance(left, LinearOperatorBlockDiag) and isinstance(right, LinearOperatorBlockDiag):
        _check_blocks(left, right)
        blocks = [mine.solve(other) for mine, other in zip(left.operators, right.operators, strict=True)]
        return LinearOperatorBlockDiag(blocks, **_hints(left, right, commute=False))
    inverse = left.inverse()
    return LinearOperatorComposition([inverse, right], **_composed(inverse, right))


def _composed(left: LinearOperator, right: LinearOperator) -> Hints:
    found = _hints(left, right, commute=False)
    return Hints(is_non_singular=found["is_non_singular"], is_square=found["is_square"])


def _check_blocks(left: LinearOperatorBlockDiag, right: LinearOperatorBlockDiag) -> None:
    if len(left.operators) != len(right.operators):
        raise ValueError(
            "Can not efficiently multiply two `LinearOperatorBlockDiag`s together when number of blocks differ."
        )
    for mine, other in zip(left.operators, right.operators, strict=True):
        rows, columns = mine.domain_dimension, other.range_dimension
        if rows is not None and columns is not None and not rows.is_compatible_with(columns):
            raise ValueError(f"Blocks are incompatible. Expected `x` to have dimension {rows} but got {columns}.")


def _adjoint(operator: LinearOperator) -> LinearOperator:
    return LinearOperatorAdjoint(
        operator,
        is_non_singular=operator.is_non_singular,
        is_self_adjoint=operator.is_self_adjoint,
        is_positive_definite=operator.is_positive_definite,
        is_square=operator.is_square,
    )


def _inverse(operator: LinearOperator) -> LinearOperator:
    return LinearOperatorInversion(
        operator,
        is_non_singular=True,
        is_self_adjoint=operator.is_self_adjoint,
        is_positive_definite=operator.is_positive_definite,
        is_square=True,
    )


def _triangular(factor: Tensor) -> LinearOperator:
    return LinearOperatorLowerTriangular(factor, is_non_singular=True, is_square=True)


def part(operator: LinearOperator, slices: Any) -> LinearOperator:
    """Take a part of the batch of an operator, by the indices that a tensor takes."""
    chosen = tuple(slices) if isinstance(slices, (tuple, list)) else (slices,)
    batch = operator.batch_shape_tensor()
    parameters = operator.parameters

    def cut(value: Any, ndims: Any) -> Any:
        if value is None:
            return None
        if isinstance(ndims, (list, tuple)):
            return [cut(item, inner) for item, inner in zip(value, ndims, strict=True)]
        if isinstance(value, LinearOperator):
            return part(value, slices) if value.batch_shape.ndims == operator.batch_shape.ndims else value
        whole = broadcasting.to_batch(convert_to_tensor(value), batch, ndims)
        return whole[(*chosen, *([slice(None)] * ndims))] if Ellipsis in chosen else whole[chosen]

    known = operator.ndims_of_parameters
    if not known and "batch_shape" in parameters:
        ones = array_ops.ones(batch)[chosen]
        return type(operator)(**dict(parameters, batch_shape=array_ops.shape(ones)))
    return type(operator)(
        **{name: cut(value, known[name]) if name in known else value for name, value in parameters.items()}
    )


FORMS.update(
    {
        "product": product,
        "quotient": quotient,
        "adjoint": _adjoint,
        "inverse": _inverse,
        "triangular": _triangular,
        "part": part,
    }
)
