"""Between host memory and a GPU's: what leaves or reaches a GPU passes here.

Tensors travel in host memory. Sends of a GPU's plan copy to the host, receives of more than a few numbers copy to the
GPU at once; small ones go there when a kernel wants them there, since most of them are shapes and predicates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from dtfctl.runtime.compression.payoff import Ledger
from dtfctl.runtime.framework.cancellation import CancellationToken
from dtfctl.runtime.framework.device import Device
from dtfctl.runtime.framework.errors import OpError
from dtfctl.runtime.framework.spans import Span, clock, note
from dtfctl.runtime.framework.tensor_codec import object_array
from dtfctl.runtime.kernels.context import Rendezvous

# Received arrays of fewer bytes stay in host memory.
_LEAST_UPLOAD = 1024


def is_gpu(device: Device) -> bool:
    return device.device_type == "GPU"


def device_scope(device: Device) -> AbstractContextManager[Any]:
    """Inside it the calling thread's kernels run on that device."""
    if not is_gpu(device):
        return nullcontext()
    scope: AbstractContextManager[Any] = device.array_module.cuda.Device(device.physical_index)
    return scope


def to_host(value: Any) -> Any:
    """Copy a GPU array to a numpy array; anything else is returned as it is."""
    if isinstance(value, (np.ndarray, np.generic)) or not hasattr(value, "get"):
        return value
    began = clock()
    copied = value.get()
    note(Span.COPY, "to the host", began, size=copied.nbytes)
    return copied


def _variants_to_host(value: Any) -> Any:
    """Bring the tensors that a tensor of variants holds to host memory; any other value is returned as it is."""
    if not isinstance(value, np.ndarray) or not value.dtype.hasobject:
        return value
    items = value.reshape(-1).tolist()
    if not any(hasattr(item, "moved_variant") for item in items):
        return value
    moved = [item.moved_variant(to_host) if hasattr(item, "moved_variant") else item for item in items]
    return object_array(moved, value.shape)


def to_device(value: Any, xp: Any) -> Any:
    """Bring a value to the memory `xp` computes in; object arrays stay on the host."""
    if isinstance(value, (np.ndarray, np.generic)) and not value.dtype.hasobject:
        began = clock()
        copied = xp.asarray(value)
        note(Span.COPY, "to the device", began, size=value.nbytes)
        return copied
    return value


class DeviceRendezvous:
    """A step's rendezvous as a GPU's plan sees it."""

    __slots__ = ("_device", "_inner")

    def __init__(self, inner: Rendezvous, device: Device) -> None:
        self._inner = inner
        self._device = device

    def send(self, key: str, value: Any, dead: bool) -> None:
        with device_scope(self._device):
            value = _variants_to_host(to_host(value))
        self._inner.send(key, value, dead)

    def recv(self, key: str, cancellation: CancellationToken) -> tuple[Any, bool]:
        value, dead = self._inner.recv(key, cancellation)
        return self._received(value), dead

    def first(self, keys: Sequence[str], cancellation: CancellationToken) -> int:
        return self._inner.first(keys, cancellation)

    def recv_async(self, key: str, done: Callable[[Any, bool, OpError | None], None]) -> None:
        # Uploaded by the kernels that want it there: this may be called in any thread.
        self._inner.recv_async(key, done)

    def wait(self, came: Callable[[], str]) -> None:
        self._inner.wait(came)

    def ledger(self, task: str) -> Ledger | None:
        return self._inner.ledger(task)

    def _received(self, value: Any) -> Any:
        if getattr(value, "nbytes", 0) < _LEAST_UPLOAD:
            return value
        with device_scope(self._device):
            return to_device(value, self._device.array_module)
