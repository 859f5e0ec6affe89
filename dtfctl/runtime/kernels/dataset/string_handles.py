"""Handles of iterators as strings: what a feed chooses an iterator by."""

from __future__ import annotations

from typing import Any

from dtfctl.protocol import tensor_pb2
from dtfctl.runtime.framework.dtypes import DType
from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.framework.resource_handle import ResourceHandle
from dtfctl.runtime.framework.resource_manager import Resource
from dtfctl.runtime.framework.tensor_codec import object_scalar
from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.kernels.context import StepContext
from dtfctl.runtime.kernels.data_flow.handles import lookup
from dtfctl.runtime.kernels.dataset.core import check_shapes, check_types
from dtfctl.runtime.kernels.registry import Kernel, KernelBuild


class Typed(Resource):
    """An iterator, of one device or of several: it says what elements it gives."""

    types: tuple[DType, ...]
    shapes: tuple[TensorShape, ...]


def to_string_handle(kind: type[Typed]) -> Kernel:
    def run(step: StepContext, handle: Any) -> Any:
        lookup(step, handle, kind)
        return object_scalar(handle.reshape(-1)[0].to_proto().SerializeToString())

    return run


def from_string_handle(k: KernelBuild, kind: type[Typed]) -> Kernel:
    types, shapes = k.attr("output_types"), k.attr("output_shapes")

    def run(step: StepContext, text: Any) -> Any:
        if text.shape != ():
            raise InvalidArgumentError("string_handle must be a scalar")
        try:
            handle = ResourceHandle.from_proto(tensor_pb2.ResourceHandleProto.FromString(text.reshape(-1)[0]))
        except Exception as e:
            raise InvalidArgumentError("Could not parse string_handle as a valid ResourceHandle") from e
        if handle.device != k.device.name:
            raise InvalidArgumentError(
                f'Attempted create an iterator on device "{k.device.name}" from handle defined on device '
                f'"{handle.device}"'
            )
        found = step.resources.lookup(handle.container, handle.name, kind)
        if types:
            check_types(types, found.types)
        if shapes:
            check_shapes(shapes, found.shapes)
        return object_scalar(handle)

    return run
