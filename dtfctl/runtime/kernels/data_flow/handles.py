"""How ops that make named resources and ops that use them find each other.

A resource op (queue, table, accumulator, reader, ...) outputs either a resource handle or, in its first version, a
reference to a string vector [container, name].
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.dtypes import WIRE_NAME, DType
from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.framework.resource_handle import ResourceHandle
from dtfctl.runtime.framework.resource_manager import Resource, ResourceManager
from dtfctl.runtime.framework.tensor_codec import object_array, object_scalar
from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.kernels.context import StepContext
from dtfctl.runtime.kernels.registry import KernelBuild
from dtfctl.runtime.kernels.variable import Variable

R = TypeVar("R", bound=Resource)
_PRIVATE_IDS = itertools.count()


def string_ref(container: str, name: str) -> Variable:
    """Make the reference output of a first-version resource op: a string vector [container, name]."""
    handle = Variable(dtypes.string, TensorShape([2]), name)
    handle.assign(object_array([container.encode(), name.encode()], (2,)))
    return handle


def handle_scalar(device: str, container: str, name: str, type_name: str) -> Any:
    return object_scalar(ResourceHandle(device, container, name, type_name))


def handle_key(handle: Any, what: str = "Queue") -> tuple[str, str]:
    """(container, name) a handle input stands for: a reference, a string vector or a resource scalar.

    Raises:
        InvalidArgumentError: the input is no handle.
    """
    value = handle.read() if isinstance(handle, Variable) else handle
    items = np.asarray(value, object).reshape(-1)
    if items.size == 1 and isinstance(items[0], ResourceHandle):
        return items[0].container, items[0].name
    if items.size != 2 or not isinstance(items[0], bytes):
        raise InvalidArgumentError(
            f"{what} handle must have two elements, but had shape: {shape_text(np.shape(value))}"
        )
    return items[0].decode(), items[1].decode()


def lookup(step: StepContext, handle: Any, kind: type[R]) -> R:
    """Find the resource a handle input names, on this device."""
    container, name = handle_key(handle, kind.type_name)
    return step.resources.lookup(container, name, kind)


class ResourceKernel:
    """Kernel of an op that makes a resource on first use, or finds the one of its shared name.

    Without `shared_name` the resource is private: its name is made unique and it is removed when the kernel goes,
    which is when its session is closed.

    Args:
        make: builds the resource from its name.
        verify: raises when a found resource does not fit this node.
        by_node_name: name it after the node instead of making it private.
    """

    def __init__(
        self,
        k: KernelBuild,
        kind: type[R],
        make: Callable[[str], R],
        verify: Callable[[R], None] | None = None,
        by_node_name: bool = False,
    ) -> None:
        self._kind, self._make, self._verify = kind, make, verify
        self._container = k.container
        self._as_ref = k.node.output_types[0].is_ref
        self._device = k.device.name
        shared = k.text_attr("shared_name")
        self._private = not shared and not by_node_name
        self._name = f"_{next(_PRIVATE_IDS)}_{k.node.name}" if self._private else shared or k.node.name
        self._known: weakref.ref[Any] | None = None
        self._output: Any = None

    def resource(self, step: StepContext) -> Any:
        found = step.resources.lookup_or_create(self._container, self._name, self._kind, lambda: self._make(self._name))
        if self._known is None or self._known() is not found:
            if self._verify is not None:
                self._verify(found)
            if self._private and self._known is None:
                # Interpreter exit removes everything anyway.
                weakref.finalize(self, _drop, step.resources, self._container, self._name).atexit = False
            self._known = weakref.ref(found)
        return found

    def __call__(self, step: StepContext) -> Any:
        self.resource(step)
        if self._output is None:
            self._output = (
                string_ref(self._container, self._name)
                if self._as_ref
                else handle_scalar(self._device, self._container, self._name, self._kind.type_name)
            )
        return self._output


def _drop(resources: ResourceManager, container: str, name: str) -> None:
    if name in resources.names(container):
        resources.delete(container, name)


def shape_text(shape: Any) -> str:
    """Write a shape as TensorFlow's messages show it: [2,3], [?,3], <unknown>."""
    if isinstance(shape, TensorShape):
        if shape.dims_or_none is None:
            return "<unknown>"
        shape = shape.dims_or_none
    return f"[{','.join('?' if d is None else str(d) for d in shape)}]"


def type_text(dtype: DType) -> str:
    return WIRE_NAME[dtype]


def scalar(value: Any, what: str) -> int:
    """Read a 0-d integer input.

    Raises:
        InvalidArgumentError: it is not 0-d; `what` begins the message.
    """
    if value.shape != ():
        raise InvalidArgumentError(f"{what}{shape_text(value.shape)}")
    return int(value)
