"""TensorArray: per-step arrays of tensors that loops write to and read from, with gradients that add up."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from dtfctl.runtime.framework.dtypes import DType
from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.framework.resource_manager import Resource
from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.kernels.admission import admit
from dtfctl.runtime.kernels.data_flow.handles import shape_text, type_text
from dtfctl.runtime.kernels.result_sizes import SLOT_BYTES


class _Slot:
    __slots__ = ("cleared", "read", "shape", "tensor", "written")

    def __init__(self) -> None:
        self.tensor: Any = None
        self.shape: tuple[int, ...] = ()
        self.written = self.read = self.cleared = False


class TensorArray(Resource):
    """A list of tensors, each written once (or added up, in a gradient array) and read.

    Attributes:
        element_shape: what every element must be compatible with.
        marked_size: elements a gradient array packs, as its source was unpacked; -1 when it was not.
    """

    type_name = "TensorArray"

    def __init__(
        self,
        name: str,
        dtype: DType,
        size: int,
        element_shape: TensorShape,
        *,
        identical_element_shapes: bool = False,
        dynamic_size: bool = False,
        is_grad: bool = False,
        marked_size: int = -1,
        clear_after_read: bool = True,
    ) -> None:
        self.name, self.dtype, self.element_shape = name, dtype, element_shape
        self.identical_element_shapes = identical_element_shapes
        self.dynamic_size = dynamic_size
        self.is_grad = is_grad
        self.marked_size = marked_size
        self.clear_after_read = clear_after_read
        self.gradients_allowed = True
        self._closed = False
        self._slots = [_Slot() for _ in range(size)]
        self._lock = threading.Lock()

    def close(self) -> None:
        with self._lock:
            self._slots.clear()
            self._closed = True

    def _check_open(self) -> None:
        if self._closed:
            raise InvalidArgumentError(f"TensorArray {self.name} has already been closed.")

    def size(self) -> int:
        with self._lock:
            self._check_open()
            return len(self._slots)

    def pack_size(self) -> int:
        with self._lock:
            self._check_open()
            return self.marked_size if self.is_grad else len(self._slots)

    def set_marked_size(self, size: int) -> None:
        with self._lock:
            self._check_open()
            if not self.is_grad:
                self.marked_size = size

    def merge_element_shape(self, shape: TensorShape) -> None:
        with self._lock:
            try:
                self.element_shape = self.element_shape.merge_with(shape)
            except ValueError:
                raise InvalidArgumentError(
                    f"Incompatible shapes during merge: {shape_text(self.element_shape)} vs. {shape_text(shape)}"
                ) from None

    def gradient_shapes_from(self, source: TensorArray, prepend: tuple[int, ...]) -> None:
        """Take over the shapes of what was written to `source`; what is never added to then reads as zeros."""
        with source._lock:
            self._check_open()
            source._check_open()
            if len(self._slots) != len(source._slots):
                raise InvalidArgumentError(
                    f"TensorArray sizes do not match during CopyShapesFrom: {self.name} has size {len(self._slots)} "
                    f"but rhs {source.name} has size {len(source._slots)}"
                )
            for mine, theirs in zip(self._slots, source._slots):
                if theirs.written:
                    mine.shape = prepend + theirs.shape
                    mine.written = True

    def write(self, index: int, value: Any) -> None:
        with self._lock:
            self._write(index, value)

    def write_many(self, indices: list[int], values: list[Any]) -> None:
        with self._lock:
            for index, value in zip(indices, values):
                self._write(index, value)

    def _write(self, index: int, value: Any) -> None:
        self._check_open()
        slots = self._slots
        if index < 0 or (not self.dynamic_size and index >= len(slots)):
            raise InvalidArgumentError(
                f"TensorArray {self.name}: Tried to write to index {index} but array is not resizeable and size is: "
                f"{len(slots)}"
            )
        if index > len(slots):
            admit((index,), SLOT_BYTES)
        while index >= len(slots):
            slots.append(_Slot())
        slot = slots[index]
        where = f"TensorArray {self.name}: Could not write to TensorArray index {index} because"
        if not self.element_shape.is_compatible_with(value.shape):
            raise InvalidArgumentError(
                f"{where} the value shape is {shape_text(value.shape)} which is incompatible with the TensorArray's "
                f"inferred element shape: {shape_text(self.element_shape)} (consider setting infer_shape=False)."
            )
        if self.identical_element_shapes and not self.element_shape.is_fully_defined():
            self.element_shape = TensorShape(value.shape)
        if slot.read:
            raise InvalidArgumentError(f"{where} it has already been read.")
        if slot.written and not self.is_grad:
            raise InvalidArgumentError(f"{where} it has already been written to.")
        if not slot.written:
            slot.tensor, slot.shape, slot.written = value, value.shape, True
            return
        if value.shape != slot.shape:
            raise InvalidArgumentError(
                f"TensorArray {self.name}: Could not aggregate to TensorArray index {index} because the existing shape "
                f"is {shape_text(slot.shape)} but the new input shape is {shape_text(value.shape)}."
            )
        if slot.tensor is None:
            slot.tensor = value
            return
        if self.dtype.is_object or self.dtype.is_bool:
            raise InvalidArgumentError(
                f"tensor_array::AddToTensor type not supported: {type_text(self.dtype)}",
            )
        slot.tensor = slot.tensor + value
        self.gradients_allowed = False

    def read(self, index: int, xp: Any) -> Any:
        with self._lock:
            return self._read(index, xp)

    def read_many(self, indices: list[int], xp: Any) -> list[Any]:
        with self._lock:
            return [self._read(i, xp) for i in indices]

    def _read(self, index: int, xp: Any) -> Any:
        self._check_open()
        slots = self._slots
        if index < 0 or (not self.is_grad and index >= len(slots)):
            raise InvalidArgumentError(f"Tried to read from index {index} but array size is: {len(slots)}")
        if index >= len(slots) or not slots[index].written:
            shape = self._zeros_shape(index)
            while index >= len(slots):
                slot = _Slot()
                slot.shape, slot.written = shape, True
                slots.append(slot)
            slots[index].shape, slots[index].written = shape, True
        slot = slots[index]
        if slot.cleared:
            raise InvalidArgumentError(
                f"TensorArray {self.name}: Could not read index {index} twice because it was cleared after a previous "
                "read (perhaps try setting clear_after_read = false?)."
            )
        value = slot.tensor
        if value is None:
            value = self._zeros(slot.shape, xp)
        slot.tensor = None if self.clear_after_read else value
        slot.cleared = self.clear_after_read
        slot.read = True
        return value

    def _zeros(self, shape: tuple[int, ...], xp: Any) -> Any:
        if self.dtype.is_object:
            if np.prod(shape) > 0:
                raise InvalidArgumentError(
                    f"tensor_array::TensorSetZero type not supported: {type_text(self.dtype)}",
                )
            return np.empty(shape, object)
        return xp.zeros(shape, self.dtype.np)

    def _zeros_shape(self, index: int) -> tuple[int, ...]:
        if self.is_grad and index < len(self._slots) and self._slots[index].shape:
            return self._slots[index].shape
        if not self.element_shape.is_fully_defined():
            raise InvalidArgumentError(
                f"TensorArray {self.name}: Could not read from TensorArray index {index}.  Furthermore, the element "
                f"shape is not fully defined: {shape_text(self.element_shape)}.  It is possible you are working with a "
                "resizeable TensorArray and stop_gradients is not allowing the gradients to be written.  If you set "
                "the full element_shape property on the forward TensorArray, the proper all-zeros tensor will be "
                "returned instead of incurring this error."
            )
        return self.element_shape.known()
