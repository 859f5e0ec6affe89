"""Optionals: an element, or nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dtfctl.runtime.data.leaves import Leaf, as_element, register_leaf
from dtfctl.runtime.data.structure import Structure
from dtfctl.runtime.framework.op_builder import apply_op, apply_op_outputs
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.framework.tensor_shape import TensorShape


class Optional:
    """An element of a dataset that may not be there: a step can ask before it takes it.

    Attributes:
        variant: the tensor that stands for it in the graph.
        structure: types and shapes of the element.
    """

    def __init__(self, variant: Tensor, structure: Structure) -> None:
        self.variant, self.structure = variant, structure

    @staticmethod
    def from_value(value: Any) -> Optional:
        """Make an optional that has a value: a structure of tensors, or of what becomes them."""
        element = as_element(value)
        structure = Structure.of(element)
        variant = apply_op("OptionalFromValue", components=structure.flat(element))
        return Optional(variant, structure)

    @staticmethod
    def empty(element_spec: Any) -> Optional:
        """Make an optional that has no value.

        Args:
            element_spec: a structure of TensorSpecs and other specs, of the value that it has not.
        """
        return Optional(apply_op("OptionalNone"), Structure.of(element_spec))

    # What TensorFlow 1 calls it.
    none_from_structure = empty

    def has_value(self, name: str | None = None) -> Tensor:
        """Tell whether there is a value: a bool scalar."""
        found = apply_op("OptionalHasValue", name, optional=self.variant)
        found.set_shape([])
        return found

    def get_value(self, name: str | None = None) -> Any:
        """Return the value; a step fails with InvalidArgumentError where there is none."""
        flat = apply_op_outputs("OptionalGetValue", name, optional=self.variant, **self.structure.attrs)
        for tensor, shape in zip(flat, self.structure.shapes):
            tensor.set_shape(shape)
        return self.structure.pack(flat)

    @property
    def element_spec(self) -> Any:
        """The structure of the value, with what describes each leaf."""
        return self.structure.spec

    # What TensorFlow 1 calls it.
    value_structure = element_spec


class OptionalSpec:
    """Structure of the value of an optional that is an element itself."""

    def __init__(self, element_spec: Any) -> None:
        self.element_spec = element_spec

    @property
    def value_type(self) -> type:
        return Optional

    @classmethod
    def from_value(cls, value: Optional) -> OptionalSpec:
        """Describe an optional."""
        return cls(value.element_spec)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OptionalSpec) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))

    def __repr__(self) -> str:
        return f"OptionalSpec({self.element_spec!r},)"


@dataclass(frozen=True)
class OptionalLeaf(Leaf):
    """An optional that is a leaf of the elements of a dataset."""

    element: Structure

    @property
    def spec(self) -> Any:
        return OptionalSpec(self.element.spec)

    @property
    def carrier_shape(self) -> TensorShape:
        return TensorShape([])

    @property
    def legacy_type(self) -> Any:
        return self.spec

    @property
    def legacy_shape(self) -> Any:
        return self.spec

    def pack(self, value: Any) -> Tensor:
        variant: Tensor = value.variant
        return variant

    def unpack(self, variant: Tensor) -> Any:
        return Optional(variant, self.element)


register_leaf(Optional, lambda optional: OptionalLeaf(optional.structure))
register_leaf(OptionalSpec, lambda spec: OptionalLeaf(Structure.of(spec.element_spec)))
