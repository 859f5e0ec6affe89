"""Kernels of one session, made once where they keep state."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace

import numpy as np

from dtfctl.runtime.framework.structural_ops import FUNCTIONAL
from dtfctl.runtime.kernels.admission import admitting
from dtfctl.runtime.kernels.noted import noted
from dtfctl.runtime.kernels.pieces import in_step
from dtfctl.runtime.kernels.registry import Kernel, KernelBuild, KernelSpec, find_kernel, require_kernel


@dataclass(slots=True)
class BoundKernel:
    """A kernel with what its registration says about it."""

    spec: KernelSpec
    call: Kernel


class KernelCache:
    """Kernels of stateful ops by device, scope, node and op; those of other ops are made anew each time.

    A session has one on each task: what a stateful kernel keeps in its closure lasts as long as the session. `scope`
    tells nodes of functions apart from nodes of the graph.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._stateful: dict[tuple[str, str, str, str], BoundKernel] = {}

    def get(self, build: KernelBuild, scope: str = "") -> BoundKernel:
        """Return the kernel of a node: the one made before where the op keeps state, else a new one.

        Raises:
            NotFoundError: none is registered for the op, its types and the device.
            OpError: the factory refuses the node's attributes.
        """
        node = build.node
        # What control flow keeps is in its functions. Graphs of one session may leave out other variables of the same
        # loop, and have other bodies once it has grown.
        if not node.signature.is_stateful or node.op in FUNCTIONAL:
            return _make(build)
        key = build.device.name, scope, node.name, node.op
        with self._lock:
            found = self._stateful.get(key)
            if found is None:
                found = self._stateful[key] = _make(build)
            return found

    def clear(self) -> None:
        """Forget all kernels; their state goes with them."""
        with self._lock:
            self._stateful.clear()


def _make(build: KernelBuild) -> BoundKernel:
    node, device = build.node, build.device
    if device.device_type == "GPU" and find_kernel(node, "GPU") is None:
        on_host = find_kernel(node, "CPU")
        if on_host is not None:
            # A body of a function is on the caller's device, also those of its nodes that only a CPU can run.
            inputs = tuple(a.name for a in node.signature.inputs)
            on_host, kernel = _in_step(on_host, replace(build, device=replace(device, array_module=np)))
            return BoundKernel(replace(on_host, host_inputs=inputs), admitting(build, kernel, on_host.step))
    spec, kernel = _in_step(require_kernel(build.node, build.device.device_type), build)
    if device.device_type == "CPU":
        kernel = admitting(build, kernel, spec.step)
    return BoundKernel(spec, kernel)


def _in_step(spec: KernelSpec, build: KernelBuild) -> tuple[KernelSpec, Kernel]:
    """Make a kernel that ends with its step if it works in pieces."""
    kernel = noted(build, spec.factory(build), spec.step)
    if not spec.pieces:
        return spec, kernel
    return replace(spec, step=True), in_step(kernel, spec.step)
