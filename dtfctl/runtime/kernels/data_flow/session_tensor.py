"""Tensors a session keeps between steps: GetSessionHandle, GetSessionTensor, DeleteSessionTensor."""

from __future__ import annotations

import itertools
import threading
from typing import Any

from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.framework.resource_manager import Resource
from dtfctl.runtime.framework.tensor_codec import object_scalar
from dtfctl.runtime.kernels.arguments import text_of
from dtfctl.runtime.kernels.context import StepContext
from dtfctl.runtime.kernels.data_flow.handles import handle_scalar
from dtfctl.runtime.kernels.registry import CPU_GPU, Kernel, KernelBuild, register_kernel

_CONTAINER = "_session_state"
_IDS = itertools.count(1)


class SessionTensors(Resource):
    """One session's tensors, by handle."""

    type_name = "SessionState"

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tensors: dict[str, Any] = {}

    def add(self, handle: str, value: Any) -> None:
        with self._lock:
            self._tensors[handle] = value

    def get(self, handle: str) -> Any:
        with self._lock:
            if handle not in self._tensors:
                raise InvalidArgumentError(f"The tensor with handle '{handle}' is not in the session store.")
            return self._tensors[handle]

    def delete(self, handle: str) -> None:
        with self._lock:
            if self._tensors.pop(handle, None) is None:
                raise InvalidArgumentError(f"Failed to delete a tensor with handle '{handle}' in the session store.")


def _state(step: StepContext) -> SessionTensors:
    name = step.session_handle or "_"
    return step.resources.lookup_or_create(_CONTAINER, name, SessionTensors, SessionTensors)


@register_kernel(("GetSessionHandle", "GetSessionHandleV2"), step=True, devices=CPU_GPU, host_outputs=("handle",))
def get_session_handle(k: KernelBuild) -> Kernel:
    as_resource = k.node.output_types[0].kind == "resource"

    def run(step: StepContext, value: Any) -> Any:
        handle = f"{k.node.name};{next(_IDS)};{k.device.name}"
        _state(step).add(handle, value)
        if as_resource:
            return handle_scalar(k.device.name, _CONTAINER, handle, "TensorHandle")
        return object_scalar(handle.encode())

    return run


def _handle(value: Any, shown: str) -> str:
    if value.shape != ():
        raise InvalidArgumentError(f"{shown} must be scalar")
    return text_of(value)


@register_kernel("GetSessionTensor", step=True, devices=CPU_GPU, host_inputs=("handle",))
def get_session_tensor(k: KernelBuild) -> Kernel:
    return lambda step, handle: _state(step).get(_handle(handle, "handle"))


@register_kernel("DeleteSessionTensor", step=True, devices=CPU_GPU, host_inputs=("handle",))
def delete_session_tensor(k: KernelBuild) -> Kernel:
    return lambda step, handle: _state(step).delete(_handle(handle, "`handle`"))
