"""A variable's storage, behind ref variables (VariableV2) and resource variables (VarHandleOp) alike.

Who has its value, and who may write into it, is the business of `memory/held_value.py`.
"""

from __future__ import annotations

import functools
from typing import Any

from dtfctl.runtime.checkpoint.mapped import copy_soon, is_mapped
from dtfctl.runtime.checkpoint.preserved import ArraySnapshot
from dtfctl.runtime.framework.dtypes import DType
from dtfctl.runtime.framework.resource_manager import Resource
from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.memory.held_value import HeldValue


class Variable(HeldValue, Resource):
    """A mutable tensor.

    Attributes:
        dtype: base element type.
        shape: declared static shape; a value may be of any shape compatible with it where validation is off.
    """

    type_name = "Variable"
    __slots__ = ("dtype", "shape")

    def __init__(self, dtype: DType, shape: TensorShape, name: str = "") -> None:
        super().__init__(name)
        self.dtype = dtype.base_dtype
        self.shape = shape

    def assign(self, value: Any) -> None:
        """Set the value. The array is shared with the caller, who must not write into it.

        One that is part of a file is copied into memory when there is time.
        """
        mapped = getattr(value, "base", None) is not None and is_mapped(value)
        self.hold(value, mapped)
        if mapped:
            copy_soon(value, self.room_for, functools.partial(self.moved, value))

    @property
    def memory_bytes(self) -> int:
        """The bytes of its value; by its shape, while it is written in place."""
        if not self._has_value:
            return 0
        value = self._value
        if value is None:
            return (self.shape.num_elements() or 0) * self.dtype.size
        return int(value.nbytes)

    def snapshot(self, value: Any) -> Any:
        """Make a snapshot that keeps a value while rows are updated; the value itself where there can be none."""
        snapshot = self.begin_snapshot(value, ArraySnapshot)
        return value if snapshot is None else snapshot

    def describe(self) -> str:
        return f"<Variable {self.name} {self.dtype.name} {self.shape}>"
