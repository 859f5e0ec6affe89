"""Operators put together of blocks: along the diagonal, and below it.

Their products and solutions take one tensor, or a list with one for each block, and then return such a list.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.framework.tensor_shape import Dimension, TensorShape
from dtfctl.runtime.ops import array_ops, linalg_ops, math_ops
from dtfctl.runtime.ops.grouping import group
from dtfctl.runtime.ops.linear_operators import broadcasting
from dtfctl.runtime.ops.linear_operators.base import LinearOperator
from dtfctl.runtime.ops.linear_operators.described import Hints, all_of, arguments_of, checked_hint, dimension


class _Blocks(LinearOperator):
    """What takes one tensor, or one for each block."""

    def _on_diagonal(self) -> list[LinearOperator]:
        raise NotImplementedError

    def _multiplied(self, parts: list[Tensor], adjoint: bool) -> list[Tensor]:
        raise NotImplementedError

    def _solved(self, parts: list[Tensor], adjoint: bool) -> list[Tensor]:
        raise NotImplementedError

    def matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False, name: str = "matmul") -> Any:
        if not self._is_blockwise(x):
            return super().matmul(x, adjoint, adjoint_arg, name)
        with self._scope(name):
            return self._multiplied(self._parts_of(x, adjoint_arg), adjoint)

    def matvec(self, x: Any, adjoint: bool = False, name: str = "matvec") -> Any:
        if not self._is_blockwise(x):
            return super().matvec(x, adjoint, name)
        with self._scope(name):
            wide = [array_ops.expand_dims(self._converted(part), -1) for part in x]
            return [array_ops.squeeze(part, axis=[-1]) for part in self._multiplied(wide, adjoint)]

    def solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False, name: str = "solve") -> Any:
        if not self._is_blockwise(rhs):
            return super().solve(rhs, adjoint, adjoint_arg, name)
        self._check_solvable()
        with self._scope(name):
            return self._solved(self._parts_of(rhs, adjoint_arg), adjoint)

    def solvevec(self, rhs: Any, adjoint: bool = False, name: str = "solve") -> Any:
        if not self._is_blockwise(rhs):
            return super().solvevec(rhs, adjoint, name)
        self._check_solvable()
        with self._scope(name):
            wide = [array_ops.expand_dims(self._converted(part), -1) for part in rhs]
            return [array_ops.squeeze(part, axis=[-1]) for part in self._solved(wide, adjoint)]

    def _is_blockwise(self, x: Any) -> bool:
        """Tell a list of blocks from one nested list of numbers: its items are tensors or arrays of their own."""
        is_list = isinstance(x, (list, tuple)) and len(x) == len(self._on_diagonal())
        return is_list and all(hasattr(part, "dtype") and hasattr(part, "shape") and len(part.shape) for part in x)

    def _parts_of(self, x: Sequence[Any], adjoint_arg: bool) -> list[Tensor]:
        parts = [self._converted(part) for part in x]
        return [linalg_ops.adjoint(part) for part in parts] if adjoint_arg else parts

    def _split(self, x: Tensor, by_rows: bool) -> list[Tensor]:
        """Split the rows of `x` as the blocks' rows are, or their columns."""
        known = self._block_range_dimensions() if by_rows else self._block_domain_dimensions()
        sizes: Any = [None if item is None else item.value for item in known]
        if None in sizes:
            place = -2 if by_rows else -1
            sizes = array_ops.stack([item.shape_tensor()[place] for item in self._on_diagonal()])
        found: list[Tensor] = array_ops.split(x, sizes, axis=-2, num=len(known))
        return found

    def _block_range_dimensions(self) -> list[Any]:
        return [item.range_dimension for item in self._on_diagonal()]

    def _block_domain_dimensions(self) -> list[Any]:
        return [item.domain_dimension for item in self._on_diagonal()]

    def _joined(self, parts: list[Tensor]) -> Tensor:
        found: Tensor = array_ops.concat(broadcasting_columns(parts), -2)
        return found

    def _matmul(self, x: Tensor, adjoint: bool) -> Tensor:
        return self._joined(self._multiplied(self._split(x, adjoint), adjoint))

    def _solve(self, rhs: Tensor, adjoint: bool) -> Tensor:
        return self._joined(self._solved(self._split(rhs, not adjoint), adjoint))

    def _shape_of(self, blocks: Sequence[LinearOperator]) -> TensorShape:
        known = [item.shape for item in blocks]
        if any(item.ndims is None for item in known):
            return TensorShape(None)
        inner = [item.shape for item in self._on_diagonal()]
        rows, columns = (sum((dimension(item, place) for item in inner), Dimension(0)) for place in (-2, -1))
        return broadcasting.static([item[:-2] for item in known]).concatenate([rows, columns])

    def _shape_tensor_of(self, blocks: Sequence[LinearOperator]) -> Tensor:
        batch = broadcasting.dynamic([item.batch_shape_tensor() for item in blocks])
        inner = math_ops.add_n([item.shape_tensor()[-2:] for item in self._on_diagonal()])
        return array_ops.concat([batch, inner], 0)

    def _demand_square(self, what: str) -> None:
        if not all(item.is_square for item in self._on_diagonal()):
            raise NotImplementedError(f"`{what}` not implemented for an operator whose blocks are not square.")

    def _in_batch(self, parts: list[Tensor], ndims: int) -> list[Tensor]:
        batch = self.batch_shape_tensor()
        return [broadcasting.to_batch(part, batch, ndims) for part in parts]

    def _diag_part(self) -> Tensor:
        self._demand_square("diag_part")
        return array_ops.concat(self._in_batch([item.diag_part() for item in self._on_diagonal()], 1), -1)

    def _trace(self) -> Tensor:
        self._demand_square("trace")
        return sum_of([item.trace() for item in self._on_diagonal()])

    def _determinant(self) -> Tensor:
        parts = [item.determinant() for item in self._on_diagonal()]
        found = parts[0]
        for part in parts[1:]:
            found = found * part
        return found

    def _log_abs_determinant(self) -> Tensor:
        return sum_of([math_ops.cast(item.log_abs_determinant(), self._dtype) for item in self._on_diagonal()])

    def _eigvals(self) -> Tensor:
        self._demand_square("eigvals")
        return array_ops.concat(self._in_batch([item.eigvals() for item in self._on_diagonal()], 1), -1)

    def _assert_non_singular(self) -> Operation:
        return group(*(item.assert_non_singular() for item in self._on_diagonal()))


def sum_of(parts: Sequence[Tensor]) -> Tensor:
    """Add tensors that are broadcast."""
    found = parts[0]
    for part in parts[1:]:
        found = found + part
    return found


def broadcasting_columns(parts: list[Tensor]) -> list[Tensor]:
    """Give matrices [..., r, c] of different rows one batch."""
    return broadcasting.matrices(*parts)


class LinearOperatorBlockDiag(_Blocks):
    """Operators along the diagonal, zeros elsewhere."""

    def __init__(
        self,
        operators: Sequence[LinearOperator],
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = True,
        name: str | None = None,
    ) -> None:
        parameters = arguments_of(locals())
        self._operators = list(operators)
        if not self._operators:
            raise ValueError(f"Expected a non-empty list of operators. Found: {operators}")
        if len({item.dtype for item in self._operators}) > 1:
            described = [f"{item.name} {item.dtype}" for item in self._operators]
            raise TypeError(f"Expected all operators to have the same dtype.  Found {described}")
        given = Hints(
            is_non_singular=is_non_singular, is_self_adjoint=is_self_adjoint, is_positive_definite=is_positive_definite
        )
        hints = all_of(self._operators, given, "The direct sum of {0} operators is always {0}.")
        if any(item.is_square is False for item in self._operators):
            is_square = None if is_square is True else is_square
        hints["is_square"] = is_square
        name = name or "_ds_".join(item.name for item in self._operators)
        super().__init__(self._operators[0].dtype, name=name, parameters=parameters, **hints)

    @property
    def operators(self) -> list[LinearOperator]:
        """The blocks."""
        return self._operators

    @property
    def ndims_of_parameters(self) -> dict[str, Any]:  # type: ignore[override]
        return {"operators": [0] * len(self._operators)}

    def _on_diagonal(self) -> list[LinearOperator]:
        return self._operators

    def _shape(self) -> TensorShape:
        return self._shape_of(self._operators)

    def _shape_tensor(self) -> Tensor:
        return self._shape_tensor_of(self._operators)

    def _multiplied(self, parts: list[Tensor], adjoint: bool) -> list[Tensor]:
        return [item.matmul(part, adjoint=adjoint) for item, part in zip(self._operators, parts, strict=True)]

    def _solved(self, parts: list[Tensor], adjoint: bool) -> list[Tensor]:
        return [item.solve(part, adjoint=adjoint) for item, part in zip(self._operators, parts, strict=True)]

    def _adjoint(self) -> LinearOperator:
        return LinearOperatorBlockDiag([item.adjoint() for item in self._operators], **self._hints())

    def _inverse(self) -> LinearOperator:
        return LinearOperatorBlockDiag([item.inverse() for item in self._operators], **self._hints_as_non_singular())

    def _cholesky(self) -> LinearOperator:
        if not all(item.is_positive_definite and item.is_self_adjoint for item in self._operators):
            return super()._cholesky()
        return LinearOperatorBlockDiag([item.cholesky() for item in self._operators], is_non_singular=True)

    def _assert_positive_definite(self) -> Operation:
        return group(*(item.assert_positive_definite() for item in self._operators))

    def _assert_self_adjoint(self) -> Operation:
        return group(*(item.assert_self_adjoint() for item in self._operators))


class LinearOperatorBlockLowerTriangular(_Blocks):
    """Operators on the diagonal, which are square, and below it: row i of `operators` has i + 1 of them."""

    def __init__(
        self,
        operators: Sequence[Sequence[LinearOperator]],
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = None,
        name: str = "LinearOperatorBlockLowerTriangular",
    ) -> None:
        parameters = arguments_of(locals())
        self._operators = [list(row) for row in operators]
        if not self._operators or not self._operators[0]:
            raise ValueError(f"Argument `operators` must be a list of >=1 operators. Found: {operators}.")
        for place, row in enumerate(self._operators):
            if len(row) != place + 1:
                raise ValueError(
                    f"Argument `operators[{place}]` must contain `{place + 1}` blocks. Found: {len(row)} blocks."
                )
        every = [item for row in self._operators for item in row]
        if len({item.dtype for item in every}) > 1:
            raise TypeError(f"Expected all operators to have the same dtype.  Found {[item.dtype for item in every]}")
        checked_hint(is_square, True, "`LinearOperatorBlockLowerTriangular` must be square.")
        diagonal = self._on_diagonal()
        if any(item.is_square is False for item in diagonal):
            raise ValueError("Matrices on the diagonal of a `LinearOperatorBlockLowerTriangular` must be square.")
        self._check_sizes()
        if all(item.is_non_singular for item in diagonal):
            message = "A blockwise lower-triangular operator with non-singular diagonal is always non-singular."
            is_non_singular = checked_hint(is_non_singular, True, message)
        elif any(item.is_non_singular is False for item in diagonal):
            message = "A blockwise lower-triangular operator with a singular diagonal operator is always singular."
            is_non_singular = checked_hint(is_non_singular, False, message)
        super().__init__(
            every[0].dtype, None, is_non_singular, is_self_adjoint, is_positive_definite, True, name, parameters
        )

    def _check_sizes(self) -> None:
        for place, row in enumerate(self._operators):
            for column, item in enumerate(row[:-1]):
                pairs = {
                    "domain": (item.domain_dimension, self._operators[column][column].domain_dimension),
                    "range": (item.range_dimension, row[-1].range_dimension),
                }
                for which, (mine, wanted) in pairs.items():
                    if mine is not None and wanted is not None and not mine.is_compatible_with(wanted):
                        raise ValueError(
                            f"Argument `operators[{place}][{column}].{which}_dimension` ({mine}) must be the same as "
                            f"the diagonal's ({wanted})."
                        )

    @property
    def operators(self) -> list[list[LinearOperator]]:
        """The blocks, by rows."""
        return self._operators

    @property
    def ndims_of_parameters(self) -> dict[str, Any]:  # type: ignore[override]
        return {"operators": [[0] * len(row) for row in self._operators]}

    def _every(self) -> list[LinearOperator]:
        return [item for row in self._operators for item in row]

    def _on_diagonal(self) -> list[LinearOperator]:
        return [row[-1] for row in self._operators]

    def _shape(self) -> TensorShape:
        return self._shape_of(self._every())

    def _shape_tensor(self) -> Tensor:
        return self._shape_tensor_of(self._every())

    def _multiplied(self, parts: list[Tensor], adjoint: bool) -> list[Tensor]:
        count = len(self._operators)
        if adjoint:
            return [
                sum_of([self._operators[row][place].matmul(parts[row], adjoint=True) for row in range(place, count)])
                for place in range(count)
            ]
        return [sum_of([item.matmul(part) for item, part in zip(row, parts, strict=False)]) for row in self._operators]

    def _solved(self, parts: list[Tensor], adjoint: bool) -> list[Tensor]:
        """Substitute forward, or with the adjoint backward."""
        count = len(self._operators)
        found: dict[int, Tensor] = {}
        for place in reversed(range(count)) if adjoint else range(count):
            right = parts[place]
            for known, value in found.items():
                block = self._operators[known][place] if adjoint else self._operators[place][known]
                right = right - block.matmul(value, adjoint=adjoint)
            found[place] = self._operators[place][place].solve(right, adjoint=adjoint)
        return [found[place] for place in range(count)]
