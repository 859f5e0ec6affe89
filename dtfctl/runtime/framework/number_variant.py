"""Variants that hold one number: the types `int`, `float`, `double` and `bool` of TensorFlow's registry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dtfctl.protocol import tensor_pb2
from dtfctl.runtime.framework.errors import InvalidArgumentError

NUMBER_TYPES: dict[str, np.dtype[Any]] = {
    "int": np.dtype("<i4"),
    "float": np.dtype("<f4"),
    "double": np.dtype("<f8"),
    "bool": np.dtype("?"),
}


@dataclass(frozen=True)
class NumberVariant:
    """One number of a C++ type; on the wire its bytes are the variant's metadata."""

    type_name: str
    value: Any

    @classmethod
    def from_variant_proto(cls, proto: tensor_pb2.VariantTensorDataProto) -> NumberVariant:
        """Read the number in `proto`.

        Raises:
            InvalidArgumentError: its metadata has not the size of the type.
        """
        dtype = NUMBER_TYPES[proto.type_name]
        if len(proto.metadata) != dtype.itemsize:
            raise InvalidArgumentError(
                f"Malformed variant of type {proto.type_name}: {len(proto.metadata)} bytes instead of {dtype.itemsize}"
            )
        return cls(proto.type_name, np.frombuffer(proto.metadata, dtype)[0])

    def to_variant_proto(self) -> tensor_pb2.VariantTensorDataProto:
        data = np.asarray(self.value, NUMBER_TYPES[self.type_name]).tobytes()
        return tensor_pb2.VariantTensorDataProto(type_name=self.type_name, metadata=data)

    def zeros_like_variant(self) -> NumberVariant:
        return NumberVariant(self.type_name, NUMBER_TYPES[self.type_name].type(0))

    def add_variant(self, other: Any) -> NumberVariant:
        """Add another number, for AddN.

        Raises:
            InvalidArgumentError: `other` is of another type.
        """
        if not isinstance(other, NumberVariant) or other.type_name != self.type_name:
            raise InvalidArgumentError(f"Cannot add variants of different types: {self} and {other}")
        return NumberVariant(self.type_name, self.value + other.value)

    def __str__(self) -> str:
        return f"Variant<type: {self.type_name} value: {self.value}>"
