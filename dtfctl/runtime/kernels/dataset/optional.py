"""Optionals: a variant that holds the components of a value, or nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dtfctl.protocol import tensor_pb2
from dtfctl.runtime.framework.dtypes import DType, as_dtype
from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.framework.tensor_codec import decode_tensor, encode_tensor, object_scalar, register_variant
from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.kernels.control.tensor_list import zeros_for
from dtfctl.runtime.kernels.dataset.core import check_shapes, check_types
from dtfctl.runtime.kernels.registry import Kernel, KernelBuild, register_kernel


class Optional:
    """`components` is None when there is no value."""

    TYPE_NAME = "tensorflow::data::Optional"

    def __init__(self, components: Sequence[Any] | None, types: Sequence[DType]) -> None:
        self.components = None if components is None else tuple(components)
        self.types = tuple(types)

    def to_variant_proto(self) -> tensor_pb2.VariantTensorDataProto:
        has = self.components is not None
        proto = tensor_pb2.VariantTensorDataProto(type_name=self.TYPE_NAME, metadata=bytes([has]))
        for value, dtype in zip(self.components or (), self.types):
            proto.tensors.append(encode_tensor(value, dtype))
        return proto

    @classmethod
    def from_variant_proto(cls, proto: tensor_pb2.VariantTensorDataProto) -> Optional:
        if not any(proto.metadata):
            return cls(None, ())
        return cls([decode_tensor(t) for t in proto.tensors], [as_dtype(int(t.dtype)) for t in proto.tensors])

    def zeros_like_variant(self) -> Optional:
        """ZerosLike: zeros where there are values."""
        if self.components is None:
            return self
        zeros = [zeros_for(d, np.shape(c), c) for d, c in zip(self.types, self.components)]
        return Optional(zeros, self.types)

    def add_variant(self, other: Any) -> Optional:
        """AddN of two optionals: the sums of their values.

        Raises:
            InvalidArgumentError: one has values and the other has none, or of another number.
        """
        if not isinstance(other, Optional):
            raise InvalidArgumentError(f"Cannot add an Optional and {other!r}")
        mine, others = self.components, other.components
        if mine is None and others is None:
            return self
        if mine is None or others is None:
            raise InvalidArgumentError("Cannot add optionals because one has a value and the other doesn't.")
        if len(mine) != len(others):
            raise InvalidArgumentError(
                "Cannot add optionals because they have different numbers of components "
                f"({len(mine)} vs. {len(others)})."
            )
        return Optional([a + b for a, b in zip(mine, others)], self.types)


register_variant(Optional.TYPE_NAME, Optional.from_variant_proto)


def _optional(value: Any) -> Optional:
    item = np.asarray(value, object).reshape(-1)[0]
    if not isinstance(item, Optional):
        raise InvalidArgumentError("Input is not an optional")
    return item


@register_kernel("OptionalFromValue")
def optional_from_value(k: KernelBuild) -> Kernel:
    types = k.attr("Toutput_types")
    return lambda *components: object_scalar(Optional([np.asarray(c) for c in components], types))


@register_kernel("OptionalNone")
def optional_none(k: KernelBuild) -> Kernel:
    return lambda: object_scalar(Optional(None, ()))


@register_kernel("OptionalHasValue")
def optional_has_value(k: KernelBuild) -> Kernel:
    return lambda value: np.bool_(_optional(value).components is not None)


@register_kernel("OptionalGetValue")
def optional_get_value(k: KernelBuild) -> Kernel:
    types, shapes = k.attr("output_types"), k.attr("output_shapes")

    def run(value: Any) -> Any:
        found = _optional(value)
        if found.components is None:
            raise InvalidArgumentError("The given optional does not have a value.")
        check_types(types, found.types)
        check_shapes(shapes, [TensorShape(c.shape) for c in found.components])
        return found.components

    return run
