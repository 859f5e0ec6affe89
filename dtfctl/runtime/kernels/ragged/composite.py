"""Composite tensors (ragged, sparse and others' types) inside a variant: their parts, and what the type is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from google.protobuf.message import DecodeError

from dtfctl.protocol import tensor_pb2, type_spec_pb2
from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.dtypes import DType
from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.framework.tensor_codec import decode_tensor, encode_tensor, object_scalar, register_variant
from dtfctl.runtime.kernels.registry import Kernel, KernelBuild, register_kernel

TYPE_NAME = "CompositeTensorVariant"


@dataclass(frozen=True, eq=False)
class CompositeTensorVariant:
    """The tensors of a composite value, and what its type is, in a variant.

    Attributes:
        metadata: a serialized CompositeTensorVariantMetadata.
        kind: the type's number in it.
    """

    metadata: bytes
    kind: int
    components: tuple[Any, ...]
    types: tuple[DType, ...]

    def to_variant_proto(self) -> tensor_pb2.VariantTensorDataProto:
        proto = tensor_pb2.VariantTensorDataProto(type_name=TYPE_NAME, metadata=self.metadata)
        proto.tensors.extend(encode_tensor(c, t) for c, t in zip(self.components, self.types, strict=True))
        return proto


def _kind(metadata: bytes) -> int:
    try:
        parsed = type_spec_pb2.CompositeTensorVariantMetadata.FromString(metadata)
    except DecodeError as e:
        raise InvalidArgumentError("Error parsing metadata") from e
    return parsed.type_spec_proto.type_spec_class


def _decode(proto: tensor_pb2.VariantTensorDataProto) -> CompositeTensorVariant:
    types = tuple(dtypes.as_dtype(t.dtype) for t in proto.tensors)
    return CompositeTensorVariant(
        proto.metadata, _kind(proto.metadata), tuple(decode_tensor(t) for t in proto.tensors), types
    )


register_variant(TYPE_NAME, _decode)


def _name(kind: int) -> str:
    known = type_spec_pb2.TypeSpecProto.TypeSpecClass
    return known.Name(kind) if kind in known.values() else str(kind)


def _type_name(dtype: DType) -> str:
    return tensor_pb2.DataType.Name(dtype.as_datatype_enum)


@register_kernel("CompositeTensorVariantFromComponents")
def _from_components(k: KernelBuild) -> Kernel:
    metadata, types = k.attr("metadata"), tuple(k.attr("Tcomponents"))
    kind = _kind(metadata)
    return lambda *components: object_scalar(CompositeTensorVariant(metadata, kind, components, types))


@register_kernel("CompositeTensorVariantToComponents")
def _to_components(k: KernelBuild) -> Kernel:
    kind, types = _kind(k.attr("metadata")), tuple(k.attr("Tcomponents"))

    def kernel(encoded: Any) -> Any:
        if not encoded.size:
            raise InvalidArgumentError("Input `encoded` must not be an empty variant tensor")
        held = encoded.reshape(-1)[0]
        if not isinstance(held, CompositeTensorVariant):
            raise InvalidArgumentError(
                f"The input `encoded` is not a valid CompositeTensorVariant tensor, got {type(held).__name__}"
            )
        if held.kind != kind:
            raise InvalidArgumentError(
                f"Expected a {_name(kind)} (based on `type_spec`), but `encoded` contains a {_name(held.kind)}"
            )
        if len(held.components) != len(types):
            raise InvalidArgumentError(
                f"Encoded value has {len(held.components)} tensor components; expected {len(types)} components based "
                "on type_spec"
            )
        for i, (has, wanted) in enumerate(zip(held.types, types)):
            if has is not wanted:
                raise InvalidArgumentError(
                    f"Tensor component {i} had dtype {_type_name(has)}; expected dtype {_type_name(wanted)}"
                )
        return held.components

    return kernel
