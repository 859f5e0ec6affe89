"""A handle names a resource: which device holds it, and its container and name there."""

from __future__ import annotations

from dataclasses import dataclass

from dtfctl.protocol import tensor_pb2
from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.dtypes import DType
from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.framework.tensor_shape import TensorShape


@dataclass(frozen=True, slots=True)
class ResourceHandle:
    """Value of a DT_RESOURCE element.

    Attributes:
        device: full name of the device whose resource manager holds the resource.
        container, name: its key there.
        type_name: kind of resource ("Variable", "Queue", ...), checked on look-up.
        dtypes_and_shapes: what a variable holds, known without reading it.
    """

    device: str
    container: str
    name: str
    type_name: str
    dtypes_and_shapes: tuple[tuple[DType, TensorShape], ...] = ()

    def to_proto(self) -> tensor_pb2.ResourceHandleProto:
        proto = tensor_pb2.ResourceHandleProto(
            device=self.device, container=self.container, name=self.name, maybe_type_name=self.type_name
        )
        for dtype, shape in self.dtypes_and_shapes:
            proto.dtypes_and_shapes.add(dtype=dtype.as_datatype_enum, shape=shape.as_proto())
        return proto

    @classmethod
    def from_proto(cls, proto: tensor_pb2.ResourceHandleProto) -> ResourceHandle:
        try:
            held = tuple((dtypes.as_dtype(d.dtype), TensorShape(d.shape)) for d in proto.dtypes_and_shapes)
        except TypeError as e:
            raise InvalidArgumentError(f"Resource handle {proto.name!r}: {e}") from e
        return cls(proto.device, proto.container, proto.name, proto.maybe_type_name, held)
