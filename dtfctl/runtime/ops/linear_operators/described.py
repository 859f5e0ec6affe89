"""What a linear operator is: its hints, parameters and shapes, and the tensors that it is made of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Self, TypedDict

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.composite import CompositeTensor
from dtfctl.runtime.framework.convert import convert_to_tensor
from dtfctl.runtime.framework.dtypes import as_dtype
from dtfctl.runtime.framework.graph_keys import name_scope
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.ops import array_ops


class Hints(TypedDict, total=False):
    """What is promised of an operator."""

    is_non_singular: bool | None
    is_self_adjoint: bool | None
    is_positive_definite: bool | None
    is_square: bool | None


class Described(CompositeTensor):
    """A batch of matrices [..., rows, columns]: its type, hints, parameters and shapes.

    Hints (`is_non_singular`, `is_self_adjoint`, `is_positive_definite`, `is_square`) are promises of the caller, not
    checked: True, False, or None where nothing is promised.
    """

    ndims_of_parameters: Mapping[str, int] = {}
    """How many of a parameter's last dimensions are the matrices'; those before them are the batch's."""

    def __init__(
        self,
        dtype: Any,
        graph_parents: Any = None,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = None,
        name: str | None = None,
        parameters: Mapping[str, Any] | None = None,
    ) -> None:
        if is_positive_definite:
            if is_non_singular is False:
                raise ValueError("A positive definite matrix is always non-singular.")
            is_non_singular = True
        if is_non_singular:
            if is_square is False:
                raise ValueError("A non-singular matrix is always square.")
            is_square = True
        if is_self_adjoint:
            if is_square is False:
                raise ValueError("A self-adjoint matrix is always square.")
            is_square = True
        self._dtype: Any = None if dtype is None else as_dtype(dtype).base_dtype
        self._graph_parents = [] if graph_parents is None else list(graph_parents)
        self._is_non_singular, self._is_self_adjoint = is_non_singular, is_self_adjoint
        self._is_positive_definite, self._is_square = is_positive_definite, is_square
        self._name = name or type(self).__name__
        self._parameters = dict(parameters or {})

    # ------------------------------------------------------------------ what it is

    @property
    def dtype(self) -> Any:
        """The type of its elements."""
        return self._dtype

    @property
    def name(self) -> str:
        """The name that those of its ops begin with."""
        return self._name

    @property
    def parameters(self) -> dict[str, Any]:
        """The arguments that it was made with."""
        return dict(self._parameters)

    @property
    def graph_parents(self) -> list[Any]:
        """The tensors that it was said to depend on."""
        return self._graph_parents

    @property
    def is_non_singular(self) -> bool | None:
        """Whether it is promised to have an inverse."""
        return self._is_non_singular

    @property
    def is_self_adjoint(self) -> bool | None:
        """Whether it is promised to equal its adjoint."""
        return self._is_self_adjoint

    @property
    def is_positive_definite(self) -> bool | None:
        """Whether the real part of x^H A x is promised to be positive."""
        return self._is_positive_definite

    @property
    def is_square(self) -> bool | None:
        """Whether it is square, by its shape or else by the promise.

        Raises:
            ValueError: its shape is not what was promised.
        """
        rows, columns = self.range_dimension, self.domain_dimension
        if rows is None or columns is None or rows.value is None or columns.value is None:
            return self._is_square
        known: bool = rows.value == columns.value
        if self._is_square is not None and self._is_square != known:
            raise ValueError(
                f"User provided hint is_square={self._is_square}, but this operator's static shape {self.shape} "
                f"is {'square' if known else 'not square'}."
            )
        return known

    # ------------------------------------------------------------------ shapes

    @property
    def shape(self) -> TensorShape:
        """The static shape, [..., rows, columns]."""
        return self._shape()

    @property
    def batch_shape(self) -> TensorShape:
        """The static shape without the last two dimensions."""
        return leading(self.shape, 2)

    @property
    def tensor_rank(self) -> int | None:
        """The number of dimensions of the batch and the matrices together."""
        return self.shape.ndims

    @property
    def domain_dimension(self) -> Any:
        """The number of columns."""
        return dimension(self.shape, -1)

    @property
    def range_dimension(self) -> Any:
        """The number of rows."""
        return dimension(self.shape, -2)

    def shape_tensor(self, name: str = "shape_tensor") -> Tensor:
        """Return the shape: int32, a constant where it is known before the graph runs."""
        with self._scope(name):
            return self._whole_shape()

    def batch_shape_tensor(self, name: str = "batch_shape_tensor") -> Tensor:
        """Return the shape of the batch: int32."""
        with self._scope(name):
            return self._whole_shape()[:-2]

    def tensor_rank_tensor(self, name: str = "tensor_rank_tensor") -> Tensor:
        """Return the number of dimensions of the batch and the matrices together: int32, a scalar."""
        with self._scope(name):
            return array_ops.size(self._whole_shape())

    def domain_dimension_tensor(self, name: str = "domain_dimension_tensor") -> Tensor:
        """Return the number of columns: int32, a scalar."""
        with self._scope(name):
            return self._whole_shape()[-1]

    def range_dimension_tensor(self, name: str = "range_dimension_tensor") -> Tensor:
        """Return the number of rows: int32, a scalar."""
        with self._scope(name):
            return self._whole_shape()[-2]

    def _whole_shape(self) -> Tensor:
        known = self.shape
        if known.is_fully_defined():
            return convert_to_tensor(known.as_list(), dtypes.int32)
        return self._shape_tensor()

    def _shape(self) -> TensorShape:
        raise NotImplementedError("_shape is not implemented.")

    def _shape_tensor(self) -> Tensor:
        raise NotImplementedError("_shape_tensor is not implemented.")

    # ------------------------------------------------------------------ its tensors

    def components(self) -> list[Any]:
        return [part for name in self.ndims_of_parameters for part in _tensors(self._parameters[name])]

    def with_components(self, components: Iterator[Any]) -> Self:
        known = self.ndims_of_parameters
        found = {name: _replaced(value, components) for name, value in self._parameters.items() if name in known}
        return type(self)(**{**self._parameters, **found})

    def component_shapes(self, invariant: TensorShape | None) -> list[TensorShape]:
        if invariant is not None:
            raise ValueError("A linear operator takes no shape invariant.")
        return [TensorShape(convert_to_tensor(item).shape) for item in self.components()]

    # ------------------------------------------------------------------ for subclasses

    @contextmanager
    def _scope(self, name: str) -> Iterator[None]:
        with name_scope(f"{self._name}/{name}"):
            yield

    def _hints(self) -> Hints:
        return Hints(
            is_non_singular=self.is_non_singular,
            is_self_adjoint=self.is_self_adjoint,
            is_positive_definite=self.is_positive_definite,
            is_square=self.is_square,
        )

    def _hints_as_non_singular(self) -> Hints:
        return {**self._hints(), "is_non_singular": True, "is_square": True}


def _tensors(value: Any) -> list[Any]:
    if value is None:
        return []
    if isinstance(value, Described):
        return value.components()
    if isinstance(value, (list, tuple)) and any(isinstance(item, (Described, Tensor, list, tuple)) for item in value):
        return [part for item in value for part in _tensors(item)]
    return [convert_to_tensor(value)]


def _replaced(value: Any, components: Iterator[Any]) -> Any:
    if value is None:
        return None
    if isinstance(value, Described):
        return value.with_components(components)
    if isinstance(value, (list, tuple)) and any(isinstance(item, (Described, Tensor, list, tuple)) for item in value):
        return [_replaced(item, components) for item in value]
    return next(components)


def dimension(shape: Any, place: int) -> Any:
    """Return one of the last dimensions of a static shape; None: it has none, or they are not known."""
    dims = TensorShape(shape).dims
    return None if dims is None or len(dims) < -place else dims[place]


def leading(shape: Any, count: int) -> TensorShape:
    """Return a static shape without its last dimensions."""
    dims = TensorShape(shape).dims
    return TensorShape(None if dims is None else dims[:-count])


def checked_hint(value: bool | None, known: bool, message: str) -> bool:
    """Return what is known of the form.

    Raises:
        ValueError: the caller says otherwise.
    """
    if value is not None and value != known:
        raise ValueError(message)
    return known


def all_of(operators: Sequence[Described], given: Hints, message: str) -> Hints:
    """Take as known each hint that all operators have; `message` names it at {0}.

    Raises:
        ValueError: the caller says otherwise.
    """
    found: dict[str, Any] = dict(given)
    for hint, value in given.items():
        if all(getattr(item, hint) for item in operators):
            form = hint.removeprefix("is_").replace("_", "-")
            found[hint] = checked_hint(bool(value) if value is not None else None, True, message.format(form))
    hints: Any = found
    taken: Hints = hints
    return taken


def arguments_of(found: Mapping[str, Any]) -> dict[str, Any]:
    """Take the arguments of a constructor from its local names, before it has others."""
    return {name: value for name, value in found.items() if name not in ("self", "__class__")}


def check_rank(name: str, found: Tensor, least: int) -> None:
    """Check what a constructor was given.

    Raises:
        ValueError: it has fewer dimensions than `least`.
        TypeError: its elements are not floating or complex.
    """
    if found.shape.ndims is not None and found.shape.ndims < least:
        raise ValueError(f"Argument {name} must have at least {least} dimensions.  Found: {found}")
    if not (found.dtype.base_dtype.is_floating or found.dtype.base_dtype.is_complex):
        raise TypeError(f"Argument {name} must have a floating or complex dtype.  Found: {found.dtype}")
