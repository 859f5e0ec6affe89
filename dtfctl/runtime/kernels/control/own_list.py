"""Tensor lists that a loop alone has, which it changes in place.

What a loop stacks up for its gradient, and what a TensorArray gets item by item, goes through the loop as a value that
each iteration makes anew from the last one's. Where nothing else looks at it, nobody can tell a list that is changed,
and that takes a fifth of the time.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from dtfctl.runtime.framework.dtypes import DType
from dtfctl.runtime.kernels.control.tensor_list import TensorList, box, check_dtype, list_in, resized


class OwnList:
    """A list of tensors that is changed; what takes values of steps sees a scalar variant.

    Attributes: as of `TensorList`; items: those it has now.
    """

    __slots__ = ("element_dtype", "element_shape", "items", "max_num_elements")
    shape: tuple[int, ...] = ()
    ndim, size, nbytes = 0, 1, 8
    dtype = np.dtype(object)

    def __init__(self, held: TensorList) -> None:
        self.element_dtype, self.element_shape = held.element_dtype, held.element_shape
        self.items = held.items.to_list()
        self.max_num_elements = held.max_num_elements

    def __len__(self) -> int:
        return len(self.items)

    def takes(self, shape: tuple[int, ...]) -> bool:
        """Tell whether an item of this shape may be in the list."""
        dims = self.element_shape.dims_or_none
        return dims is None or dims == shape or self.element_shape.is_compatible_with(shape)

    def pushed(self, value: Any) -> Any:
        self.items.append(value)
        return self

    def popped(self) -> Any:
        del self.items[-1]
        return self

    def replaced(self, index: int, value: Any) -> Any:
        if index < len(self.items):
            self.items[index] = value
        else:
            self.items = [*resized(self.items, index), value]
        return self


def changeable(handle: Any, dtype: DType | None = None) -> TensorList | OwnList:
    """Take out of a handle the list that an op changes, of the element type that it expects.

    Raises:
        InvalidArgumentError: it is something else.
    """
    if handle.__class__ is not OwnList:
        return list_in(handle, dtype)
    found: OwnList = handle
    if dtype is not None and found.element_dtype is not dtype:
        check_dtype(found, dtype)
    return found


def own(values: Sequence[Any], places: Collection[int]) -> list[Any]:
    """Give a loop lists of its own in place of some of its first values; what is no list is left for ops to refuse."""
    owned = list(values)
    for i in places:
        handle = values[i]
        held: Any = handle[()] if isinstance(handle, np.ndarray) and not handle.ndim else None
        if held.__class__ is TensorList:
            owned[i] = OwnList(held)
    return owned


def released(values: Sequence[Any], places: Collection[int]) -> list[Any]:
    """Make what a loop gives out of the values of its last iteration."""
    given = list(values)
    for i in places:
        held = values[i]
        if held.__class__ is OwnList:
            given[i] = box(TensorList(held.element_dtype, held.element_shape, held.items, held.max_num_elements))
    return given
