"""Static shapes: each dimension known or not, or the whole rank unknown."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, SupportsIndex, cast

from dtfctl.protocol import tensor_pb2


class Dimension:
    """One dimension of a static shape, as TF1 scripts see it (`shape[0].value`); arithmetic keeps "unknown"."""

    __slots__ = ("_value",)

    def __init__(self, value: Any) -> None:
        self._value: int | None = value.value if isinstance(value, Dimension) else None if value is None else int(value)
        if self._value is not None and self._value < 0:
            raise ValueError(f"Dimension {self._value} must be >= 0")

    @property
    def value(self) -> int | None:
        return self._value

    def _binary(self, other: Any, function: Callable[[int, int], int]) -> Dimension:
        try:
            other = Dimension(other)
        except (TypeError, ValueError):
            return cast(Dimension, NotImplemented)
        if self._value is None or other._value is None:
            return Dimension(None)
        return Dimension(function(self._value, other._value))

    def _compared(self, other: Any, function: Callable[[int, int], bool]) -> Any:
        """Compare as TF1 does: None where one of the two is unknown."""
        try:
            other = Dimension(other)
        except (TypeError, ValueError):
            return NotImplemented
        return None if self._value is None or other._value is None else function(self._value, other._value)

    def __add__(self, other: Any) -> Dimension:
        return self._binary(other, operator.add)

    def __sub__(self, other: Any) -> Dimension:
        return self._binary(other, operator.sub)

    def __mul__(self, other: Any) -> Dimension:
        return self._binary(other, operator.mul)

    def __floordiv__(self, other: Any) -> Dimension:
        return self._binary(other, operator.floordiv)

    def __mod__(self, other: Any) -> Dimension:
        return self._binary(other, operator.mod)

    def __rsub__(self, other: Any) -> Dimension:
        return Dimension(other) - self

    def __rfloordiv__(self, other: Any) -> Dimension:
        return Dimension(other) // self

    def __rmod__(self, other: Any) -> Dimension:
        return Dimension(other) % self

    def __truediv__(self, other: Any) -> Dimension:
        raise TypeError(f"A Dimension is a whole number: divide {self!r} and {other!r} by // instead of /")

    __radd__, __rmul__, __div__, __rtruediv__ = __add__, __mul__, __floordiv__, __truediv__

    def __lt__(self, other: Any) -> Any:
        return self._compared(other, operator.lt)

    def __le__(self, other: Any) -> Any:
        return self._compared(other, operator.le)

    def __gt__(self, other: Any) -> Any:
        return self._compared(other, operator.gt)

    def __ge__(self, other: Any) -> Any:
        return self._compared(other, operator.ge)

    def __eq__(self, other: object) -> Any:
        return self._compared(other, operator.eq)

    def __ne__(self, other: object) -> Any:
        return self._compared(other, operator.ne)

    def __hash__(self) -> int:
        return hash(self._value)

    def __bool__(self) -> bool:
        return bool(self._value)

    def __reduce__(self) -> tuple[type[Dimension], tuple[int | None]]:
        return Dimension, (self._value,)

    def __int__(self) -> int:
        if self._value is None:
            raise ValueError("Cannot convert an unknown Dimension to an integer.")
        return self._value

    __index__ = __int__

    def assert_is_compatible_with(self, other: Any) -> None:
        """Do nothing where both can be the same number; ValueError else."""
        if not self.is_compatible_with(other):
            raise ValueError(f"Dimensions {self} and {other} are not compatible")

    def is_compatible_with(self, other: Any) -> bool:
        other = Dimension(other)
        return self._value is None or other._value is None or self._value == other._value

    def merge_with(self, other: Any) -> Dimension:
        """Give what both say together; ValueError where they are different numbers."""
        other = Dimension(other)
        self.assert_is_compatible_with(other)
        return other if self._value is None else self

    def __repr__(self) -> str:
        return f"Dimension({self._value})"

    def __str__(self) -> str:
        return "?" if self._value is None else str(self._value)


def dimension_value(dimension: Any) -> int | None:
    return dimension.value if isinstance(dimension, Dimension) else dimension


def dimension_at_index(shape: TensorShape, index: int) -> Dimension:
    """Return one Dimension of a shape, unknown where its rank is."""
    dims = shape.dims
    return Dimension(None) if dims is None else dims[index]


def _size(dimension: Any) -> int | None:
    return None if isinstance(dimension, int) and dimension == -1 else Dimension(dimension).value


class TensorShape:
    """A possibly partial shape. `TensorShape(None)` has unknown rank; `TensorShape([None, 3])` an unknown dimension.

    Indexing and iterating give `Dimension`s as TF1 does; `dims_or_none` is the plain tuple of ints and Nones.
    """

    __slots__ = ("dims_or_none",)

    dims_or_none: tuple[int | None, ...] | None

    def __init__(self, dims: Any = None) -> None:
        if dims is None:
            self.dims_or_none = None
        elif type(dims) is tuple or type(dims) is list:
            self.dims_or_none = tuple([d if d is None or (type(d) is int and d >= 0) else _size(d) for d in dims])
        elif isinstance(dims, TensorShape):
            self.dims_or_none = dims.dims_or_none
        elif isinstance(dims, tensor_pb2.TensorShapeProto):
            self.dims_or_none = (
                None if dims.unknown_rank else tuple(None if d.size < 0 else int(d.size) for d in dims.dim)
            )
        elif isinstance(dims, (SupportsIndex, Dimension)) and not getattr(dims, "ndim", 0):  # arrays are sequences
            self.dims_or_none = (Dimension(dims).value,)
        else:
            self.dims_or_none = tuple(map(_size, dims))

    @property
    def dims(self) -> list[Dimension] | None:
        return None if self.dims_or_none is None else [Dimension(d) for d in self.dims_or_none]

    # Programs of TensorFlow 1 read it in the shapes of tensors.
    _dims = dims

    @property
    def rank(self) -> int | None:
        return None if self.dims_or_none is None else len(self.dims_or_none)

    ndims = rank

    def is_fully_defined(self) -> bool:
        return self.dims_or_none is not None and None not in self.dims_or_none

    def num_elements(self) -> int | None:
        if not self.is_fully_defined():
            return None
        count = 1
        for d in self.known():
            count *= d
        return count

    def known(self) -> tuple[int, ...]:
        """Get the shape as a tuple of ints.

        Raises:
            ValueError: some dimension is unknown.
        """
        if self.dims_or_none is None or None in self.dims_or_none:
            raise ValueError(f"Shape {self} is not fully defined")
        return self.dims_or_none  # type: ignore[return-value]

    def as_list(self) -> list[int | None]:
        if self.dims_or_none is None:
            raise ValueError("as_list() is not defined on an unknown TensorShape.")
        return list(self.dims_or_none)

    def as_proto(self) -> tensor_pb2.TensorShapeProto:
        if self.dims_or_none is None:
            return tensor_pb2.TensorShapeProto(unknown_rank=True)
        dim = tensor_pb2.TensorShapeProto.Dim
        return tensor_pb2.TensorShapeProto(dim=[dim(size=-1 if d is None else d) for d in self.dims_or_none])

    def is_compatible_with(self, other: Any) -> bool:
        """Tell whether some fully known shape satisfies both."""
        a, b = self.dims_or_none, as_shape(other).dims_or_none
        if a is None or b is None:
            return True
        return len(a) == len(b) and all(x is None or y is None or x == y for x, y in zip(a, b))

    def assert_is_compatible_with(self, other: Any) -> None:
        if not self.is_compatible_with(other):
            raise ValueError(f"Shapes {self} and {as_shape(other)} are incompatible")

    def assert_has_rank(self, rank: int) -> None:
        if self.rank not in (None, rank):
            raise ValueError(f"Shape {self} must have rank {rank}")

    def assert_is_fully_defined(self) -> None:
        if not self.is_fully_defined():
            raise ValueError(f"Shape {self} is not fully defined")

    def assert_same_rank(self, other: Any) -> None:
        other = as_shape(other)
        if self.rank is not None and other.rank is not None and self.rank != other.rank:
            raise ValueError(f"Shapes {self} and {other} must have the same rank")

    def merge_with(self, other: Any) -> TensorShape:
        """Find the most specific shape both agree with.

        Raises:
            ValueError: they contradict each other.
        """
        wanted = as_shape(other)
        if not self.is_compatible_with(wanted):
            raise ValueError(f"Shapes {self} and {wanted} are not compatible")
        a, b = self.dims_or_none, wanted.dims_or_none
        if a is None:
            return wanted
        return self if b is None else TensorShape([y if x is None else x for x, y in zip(a, b)])

    def with_rank(self, rank: int) -> TensorShape:
        try:
            return self.merge_with(unknown_shape(rank))
        except ValueError as e:
            raise ValueError(f"Shape {self} must have rank {rank}") from e

    def with_rank_at_least(self, rank: int) -> TensorShape:
        if self.rank is not None and self.rank < rank:
            raise ValueError(f"Shape {self} must have rank at least {rank}")
        return self

    def with_rank_at_most(self, rank: int) -> TensorShape:
        if self.rank is not None and self.rank > rank:
            raise ValueError(f"Shape {self} must have rank at most {rank}")
        return self

    def concatenate(self, other: Any) -> TensorShape:
        a, b = self.dims_or_none, as_shape(other).dims_or_none
        return TensorShape(None) if a is None or b is None else TensorShape(a + b)

    def most_specific_compatible_shape(self, other: Any) -> TensorShape:
        """Return the narrowest shape that both fit: what differs is unknown."""
        a, b = self.dims_or_none, as_shape(other).dims_or_none
        if a is None or b is None or len(a) != len(b):
            return TensorShape(None)
        return TensorShape([x if x == y else None for x, y in zip(a, b)])

    def __bool__(self) -> bool:
        return self.dims_or_none is not None

    def __len__(self) -> int:
        if self.dims_or_none is None:
            raise ValueError("Cannot take the length of shape with unknown rank.")
        return len(self.dims_or_none)

    def __iter__(self) -> Iterator[Dimension]:
        if self.dims_or_none is None:
            raise ValueError("Cannot iterate over a shape with unknown rank.")
        return iter([Dimension(d) for d in self.dims_or_none])

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            if self.dims_or_none is not None:
                return TensorShape(self.dims_or_none[key])
            start, stop = key.start or 0, key.stop
            if stop is None or key.step is not None or start < 0 or stop < 0:
                return TensorShape(None)
            return unknown_shape(max(stop - start, 0))
        return Dimension(None if self.dims_or_none is None else self.dims_or_none[key])

    def __add__(self, other: Any) -> TensorShape:
        return self.concatenate(other)

    def __radd__(self, other: Any) -> TensorShape:
        return as_shape(other).concatenate(self)

    def __eq__(self, other: object) -> bool:
        try:
            return self.dims_or_none == as_shape(other).dims_or_none
        except (TypeError, ValueError):
            return NotImplemented

    def __hash__(self) -> int:
        return hash(self.dims_or_none)

    def __repr__(self) -> str:
        return f"TensorShape({None if self.dims_or_none is None else [Dimension(d) for d in self.dims_or_none]})"

    def __str__(self) -> str:
        if self.dims_or_none is None:
            return "<unknown>"
        names = ["?" if d is None else str(d) for d in self.dims_or_none]
        return f"({names[0]},)" if len(names) == 1 else f"({', '.join(names)})"


def as_shape(shape: Any) -> TensorShape:
    return shape if isinstance(shape, TensorShape) else TensorShape(shape)


def unknown_shape(rank: int | None = None) -> TensorShape:
    return TensorShape(None) if rank is None else TensorShape([None] * rank)


def broadcast_static(a: TensorShape, b: TensorShape) -> TensorShape:
    """Compute the static shape of numpy broadcasting.

    Raises:
        ValueError: two known dimensions differ and neither is 1.
    """
    x, y = a.dims_or_none, b.dims_or_none
    if x is None or y is None:
        return TensorShape(None)
    size = max(len(x), len(y))
    xs: Sequence[int | None] = (1,) * (size - len(x)) + x
    ys: Sequence[int | None] = (1,) * (size - len(y)) + y
    return TensorShape(_broadcast_dims(xs, ys, a, b))


def _broadcast_dims(
    xs: Iterable[int | None], ys: Iterable[int | None], a: TensorShape, b: TensorShape
) -> list[int | None]:
    out: list[int | None] = []
    for p, q in zip(xs, ys):
        if p == 1:
            out.append(q)
        elif q == 1 or p == q:
            out.append(p)
        elif p is None or q is None:
            out.append(p if q is None else q)
        else:
            raise ValueError(f"Incompatible shapes for broadcasting: {a} and {b}")
    return out
