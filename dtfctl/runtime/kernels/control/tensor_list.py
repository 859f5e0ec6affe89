"""TensorList: the variant behind TensorArrays and accumulators of functional loops."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from dtfctl.protocol import tensor_pb2
from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.dtypes import DType
from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.framework.tensor_codec import register_variant
from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.kernels.admission import admit
from dtfctl.runtime.kernels.control.persistent_list import PersistentList
from dtfctl.runtime.kernels.control.tensor_list_wire import TENSOR_LIST, decode_tensor_list, encode_tensor_list


class TensorList:
    """An immutable list of tensors of one type; an item is None until it is set.

    Attributes:
        element_dtype: type of all items.
        element_shape: what every item's shape is compatible with.
        max_num_elements: how long it may grow by pushing, -1 for any length.
    """

    __slots__ = ("element_dtype", "element_shape", "items", "max_num_elements")

    def __init__(
        self,
        element_dtype: DType,
        element_shape: TensorShape,
        items: PersistentList | Iterable[Any] = (),
        max_num_elements: int = -1,
    ) -> None:
        self.element_dtype = element_dtype
        self.element_shape = element_shape
        self.items = items if isinstance(items, PersistentList) else PersistentList(items)
        self.max_num_elements = max_num_elements

    def __len__(self) -> int:
        return len(self.items)

    def takes(self, shape: tuple[int, ...]) -> bool:
        """Tell whether an item of this shape may be in the list."""
        dims = self.element_shape.dims_or_none
        return dims is None or dims == shape or self.element_shape.is_compatible_with(shape)

    def pushed(self, value: Any) -> Any:
        """Give the scalar variant of the list with one more item."""
        return box(self.with_items(self.items.append(value)))

    def popped(self) -> Any:
        """Give the scalar variant of the list without its last item."""
        return box(self.with_items(self.items.pop()))

    def replaced(self, index: int, value: Any) -> Any:
        """Give the scalar variant of the list with another item at `index`, unset ones before it if it was shorter."""
        if index < len(self.items):
            return box(self.with_items(self.items.set(index, value)))
        return box(self.with_items([*resized(self.items.to_list(), index), value]))

    def with_items(self, items: PersistentList | Iterable[Any]) -> TensorList:
        """Make a list of the same kind with other items."""
        made: TensorList = _new(TensorList)
        made.element_dtype, made.element_shape = self.element_dtype, self.element_shape
        made.items = items if isinstance(items, PersistentList) else PersistentList(items)
        made.max_num_elements = self.max_num_elements
        return made

    def moved_variant(self, move: Callable[[Any], Any]) -> TensorList:
        """Copy the list, with its tensors brought to another memory by `move`."""
        return self.with_items([None if t is None else move(t) for t in self.items.to_list()])

    def zeros_like_variant(self) -> TensorList:
        """ZerosLike: zeros where there are items."""
        zeros = [None if t is None else zeros_for(self.element_dtype, t.shape, t) for t in self.items.to_list()]
        return TensorList(self.element_dtype, self.element_shape, zeros)

    def add_variant(self, other: Any) -> TensorList:
        """AddN of two lists: item by item, an unset item counting as zero.

        Raises:
            InvalidArgumentError: they differ in type, shape or length.
        """
        if not isinstance(other, TensorList):
            raise InvalidArgumentError(f"Cannot add a TensorList and {other!r}")
        if self.element_dtype is not other.element_dtype:
            raise InvalidArgumentError(
                "Trying to add two lists of tensors of different dtypes. One is "
                f"{type_name(self.element_dtype)} and the other is {type_name(other.element_dtype)}"
            )
        if not self.element_shape.is_compatible_with(other.element_shape):
            raise InvalidArgumentError(
                "Trying to add two lists of tensors with incompatible element shapes. One is "
                f"{shape_text(self.element_shape)} and the other is {shape_text(other.element_shape)}"
            )
        if len(self) != len(other):
            raise InvalidArgumentError(
                "Trying to add two lists of tensors with different lengths. One is "
                f"{len(self)} and the other is {len(other)}"
            )
        sums = [_add(a, b) for a, b in zip(self.items.to_list(), other.items.to_list())]
        return TensorList(self.element_dtype, self.element_shape.merge_with(other.element_shape), sums)

    def to_variant_proto(self) -> tensor_pb2.VariantTensorDataProto:
        """Encode the list to travel to another task."""
        return encode_tensor_list(self.element_dtype, self.element_shape, self.items.to_list(), self.max_num_elements)

    def __repr__(self) -> str:
        return f"TensorList({type_name(self.element_dtype)}, {shape_text(self.element_shape)}, {len(self)} items)"


# Loops make thousands of them a second.
_new: Any = TensorList.__new__
register_variant(TENSOR_LIST, lambda proto: TensorList(*decode_tensor_list(proto)))


def _add(a: Any, b: Any) -> Any:
    if a is None or b is None:
        return b if a is None else a
    if a.dtype.hasobject:
        out = np.empty(a.shape, object)
        for position in np.ndindex(a.shape):
            add = getattr(a[position], "add_variant", None)
            if add is None:
                raise InvalidArgumentError(f"Trying to add {type(a[position]).__name__} items of two TensorLists")
            out[position] = add(b[position])
        return out
    if a.shape != b.shape:
        raise InvalidArgumentError(
            f"Trying to add two tensors with incompatible element shapes. One is "
            f"{shape_text(a.shape)} and the other is {shape_text(b.shape)}"
        )
    if isinstance(a, (np.ndarray, np.generic)) != isinstance(b, (np.ndarray, np.generic)):
        # In a GPU's plan some items are still in host memory.
        a, b = (x.get() if hasattr(x, "get") else x for x in (a, b))
    return a + b


def zeros_for(dtype: DType, shape: Any, like: Any = None) -> Any:
    """Make a tensor of zeros (empty strings, empty variants); variants follow `like` where they can."""
    admit(shape, 8 if dtype.is_object else np.dtype(dtype.np).itemsize)
    if dtype is dtypes.string:
        out = np.empty(shape, object)
        out.fill(b"")
        return out
    if dtype.is_object:
        out = np.empty(shape, object)
        for position in np.ndindex(out.shape):
            zeros = getattr(like[position], "zeros_like_variant", None) if like is not None else None
            out[position] = zeros() if zeros is not None else None
        return out
    return np.zeros(shape, dtype.np)


def box(value: Any) -> Any:
    """Make a scalar tensor of one variant."""
    out = np.empty((), object)
    out[()] = value
    return out


def type_name(dtype: DType) -> str:
    return dtypes.WIRE_NAME[dtype]


def shape_text(shape: Any) -> str:
    """Write a shape the way TensorFlow's errors show it: [2,?], <unknown>."""
    if isinstance(shape, TensorShape):
        if shape.rank is None:
            return "<unknown>"
        return "[" + ",".join("?" if d is None else str(d) for d in shape.as_list()) + "]"
    return "[" + ",".join(map(str, shape)) + "]"


def shape_from(value: Any) -> TensorShape:
    """Read the partial shape in a tensor: a vector of sizes (-1 is unknown), or -1 for any shape at all.

    Raises:
        InvalidArgumentError: it is none.
    """
    if value.ndim == 0:
        if int(value) == -1:
            return TensorShape(None)
        raise InvalidArgumentError("The only valid scalar shape tensor is the fully unknown shape specified as -1.")
    if value.ndim != 1:
        raise InvalidArgumentError(f"Shape must be at most rank 1 but is rank {value.ndim}")
    sizes = value.tolist()
    if any(s < -1 for s in sizes):
        raise InvalidArgumentError(f"Dimension {min(sizes)} must be >= -1")
    return TensorShape([None if s == -1 else s for s in sizes])


def merged(a: TensorShape, b: Any) -> TensorShape:
    """Merge what two partial shapes say.

    Raises:
        InvalidArgumentError: they contradict each other.
    """
    b = b if isinstance(b, TensorShape) else TensorShape(b)
    if not a.is_compatible_with(b):
        if a.rank is not None and b.rank is not None and a.rank != b.rank:
            raise InvalidArgumentError(f"PartialTensorShape: Incompatible ranks during merge: {a.rank} vs. {b.rank}")
        raise InvalidArgumentError(
            f"PartialTensorShape: Incompatible shapes during merge: {shape_text(a)} vs. {shape_text(b)}"
        )
    return a.merge_with(b)


def list_in(handle: Any, dtype: DType | None = None) -> TensorList:
    """Take the TensorList out of a scalar variant, of the element type an op expects.

    Raises:
        InvalidArgumentError: it is something else.
    """
    if handle.ndim:
        raise InvalidArgumentError(f"Input list must be a scalar saw: {shape_text(handle.shape)}")
    found = handle[()]
    if found.__class__ is not TensorList:
        raise InvalidArgumentError(f"Input handle is not a list. Saw: '{found!r}'")
    if dtype is not None and found.element_dtype is not dtype:
        check_dtype(found, dtype)
    return found


def check_dtype(found: Any, dtype: DType) -> None:
    if found.element_dtype is not dtype:
        raise InvalidArgumentError(
            f"Invalid data types; op elements {type_name(dtype)} but list elements {type_name(found.element_dtype)}"
        )


def resized(items: list[Any], size: int) -> list[Any]:
    """Cut the items, or fill them up with unset ones, to `size` of them."""
    admit((size,), 8)
    return items[:size] + [None] * (size - len(items))
