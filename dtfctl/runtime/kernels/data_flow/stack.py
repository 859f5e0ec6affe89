"""Stacks: what loops push in their forward pass and their gradients pop."""

from __future__ import annotations

import itertools
import threading
from typing import Any

from dtfctl.runtime.framework.dtypes import DType
from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.framework.resource_manager import Resource
from dtfctl.runtime.kernels.context import StepContext
from dtfctl.runtime.kernels.data_flow.handles import handle_key, handle_scalar, scalar, string_ref, type_text
from dtfctl.runtime.kernels.registry import CPU_GPU, Kernel, KernelBuild, register_kernel

_GROUP = "_stacks"
_COUNTER = itertools.count()


class Stack(Resource):
    """Last in, first out; `max_size` < 0 means unbounded."""

    type_name = "Stack"

    def __init__(self, dtype: DType, name: str, max_size: int) -> None:
        self.dtype, self.name, self.max_size = dtype, name, max_size
        self._items: list[Any] = []
        self._closed = False
        self._lock = threading.Lock()

    def _check_open(self) -> None:
        if self._closed:
            raise InvalidArgumentError(f"Stack[{self.name}] has already been closed.")

    def push(self, value: Any) -> None:
        with self._lock:
            self._check_open()
            if 0 <= self.max_size <= len(self._items):
                raise InvalidArgumentError(f"Stack[{self.name}] overflowed its max_size ({self.max_size})")
            self._items.append(value)

    def pop(self) -> Any:
        with self._lock:
            self._check_open()
            if not self._items:
                raise InvalidArgumentError(f"Stack[{self.name}] is empty when calling Pop().")
            return self._items.pop()

    def close(self) -> None:
        with self._lock:
            self._items.clear()
            self._closed = True


def _find(step: StepContext, handle: Any) -> Stack:
    container, name = handle_key(handle, "Stack")
    key = name if container.startswith("__per_step") else container + name
    return step.step_resources.lookup("", key, Stack)


@register_kernel(("Stack", "StackV2"), step=True, devices=CPU_GPU, host_inputs=("max_size",), host_outputs=("handle",))
def stack(k: KernelBuild) -> Kernel:
    dtype, stem = k.dtype("elem_type"), k.text_attr("stack_name") or k.node.name
    as_ref = k.node.output_types[0].is_ref

    def run(step: StepContext, max_size: Any = None) -> Any:
        limit = -1 if max_size is None else scalar(max_size, "Stack size must be a scalar, but had shape: ")
        name = f"{stem}_{next(_COUNTER)}"
        step.step_resources.create("", _GROUP + name, Stack(dtype, name, limit))
        if as_ref:
            return string_ref(_GROUP, name)
        return handle_scalar(k.device.name, f"__per_step_{step.step_id}", _GROUP + name, Stack.type_name)

    return run


@register_kernel(("StackPush", "StackPushV2"), step=True, devices=CPU_GPU, host_inputs=("handle",))
def stack_push(k: KernelBuild) -> Kernel:
    dtype = k.dtype("T")

    def run(step: StepContext, handle: Any, value: Any) -> Any:
        found = _find(step, handle)
        if dtype is not found.dtype:
            raise InvalidArgumentError(f"Must have type {type_text(found.dtype)} but got {type_text(dtype)}")
        found.push(value)
        return value

    return run


@register_kernel(("StackPop", "StackPopV2"), step=True, devices=CPU_GPU, host_inputs=("handle",))
def stack_pop(k: KernelBuild) -> Kernel:
    return lambda step, handle: _find(step, handle).pop()


@register_kernel(("StackClose", "StackCloseV2"), step=True, devices=CPU_GPU, host_inputs=("handle",))
def stack_close(k: KernelBuild) -> Kernel:
    return lambda step, handle: _find(step, handle).close()
