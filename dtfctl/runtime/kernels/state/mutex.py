"""MutexV2, MutexLock, ConsumeMutexLock: a lock held from one op of a step to another (critical sections)."""

from __future__ import annotations

import threading
from typing import Any

from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.framework.resource_handle import ResourceHandle
from dtfctl.runtime.framework.resource_manager import Resource
from dtfctl.runtime.framework.tensor_codec import object_scalar
from dtfctl.runtime.kernels.context import StepContext
from dtfctl.runtime.kernels.registry import Kernel, KernelBuild, register_kernel
from dtfctl.runtime.kernels.state.common import check_device, handle_of, shape_text


class Mutex(Resource):
    """A lock that steps take in turn."""

    type_name = "Mutex"

    def __init__(self, name: str) -> None:
        self.name = name
        self.condition = threading.Condition()
        self.locked = False

    def describe(self) -> str:
        return f"Mutex {self.name}"


class LockReleaser:
    """Holds a mutex until `release`, or until nothing refers to it any more."""

    def __init__(self, mutex: Mutex) -> None:
        self._mutex: Mutex | None = mutex

    def release(self) -> None:
        mutex, self._mutex = self._mutex, None
        if mutex is not None:
            with mutex.condition:
                mutex.locked = False
                mutex.condition.notify()

    def __del__(self) -> None:
        self.release()


@register_kernel("MutexV2")
def mutex_v2(k: KernelBuild) -> Kernel:
    handle = object_scalar(ResourceHandle(k.device.name, k.container, k.resource_name, Mutex.type_name))

    def kernel() -> Any:
        k.resources.lookup_or_create(k.container, k.resource_name, Mutex, lambda: Mutex(k.resource_name))
        return handle

    return kernel


@register_kernel("MutexLock", step=True, blocking=True)
def mutex_lock(k: KernelBuild) -> Kernel:
    def kernel(step: StepContext, resource: Any) -> Any:
        handle = handle_of(resource)
        check_device(k, handle)
        mutex = k.resources.lookup_or_create(handle.container, handle.name, Mutex, lambda: Mutex(handle.name))
        with mutex.condition:
            step.cancellation.wait(mutex.condition, lambda: not mutex.locked)
            mutex.locked = True
        return object_scalar(LockReleaser(mutex))

    return kernel


@register_kernel("ConsumeMutexLock")
def consume_mutex_lock(k: KernelBuild) -> Kernel:
    def kernel(lock: Any) -> None:
        if lock.ndim:
            raise InvalidArgumentError(f"Expected input to be a scalar, saw shape: {shape_text(lock.shape)}")
        held = lock[()]
        if not isinstance(held, LockReleaser):
            raise InvalidArgumentError(
                f"Expected input to contain a SharedLockReleaser object, but saw variant: '{held!r}'"
            )
        held.release()

    return kernel
