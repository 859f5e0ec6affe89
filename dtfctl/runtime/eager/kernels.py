"""Runs single ops in this process: kernels of the CPU, bound once for each op with its attributes."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dtfctl.protocol import graph_pb2
from dtfctl.runtime.eager.tensor import DEVICE
from dtfctl.runtime.executor.executor import Executor
from dtfctl.runtime.executor.functions import FunctionRunner
from dtfctl.runtime.executor.kernel_cache import KernelCache
from dtfctl.runtime.executor.node_errors import located
from dtfctl.runtime.framework.cancellation import CancellationToken
from dtfctl.runtime.framework.device import Device
from dtfctl.runtime.framework.dtypes import DType
from dtfctl.runtime.framework.errors import OpError
from dtfctl.runtime.framework.function_library import FunctionLibrary
from dtfctl.runtime.framework.node_graph import Node
from dtfctl.runtime.framework.op_signature import OpSignature
from dtfctl.runtime.framework.resource_manager import ResourceManager
from dtfctl.runtime.kernels.context import StepContext
from dtfctl.runtime.kernels.registry import Kernel, KernelBuild, as_outputs, require_kernel
from dtfctl.runtime.rendezvous.local import LocalRendezvous


@dataclass(frozen=True, slots=True)
class Bound:
    """A kernel with what its node says of it."""

    call: Kernel
    takes_step: bool
    output_types: tuple[DType, ...]
    name: str


class EagerKernels:
    """A CPU device of the program's own, with its state and its bound kernels.

    Attributes:
        library: functions traced by the program.
        resources: variables, tables, queues and iterators.
    """

    def __init__(self, library: FunctionLibrary) -> None:
        self.library = library
        self.device = Device(DEVICE)
        self.resources: ResourceManager = self.device.resources
        self._kernels = KernelCache()
        self._functions = FunctionRunner(library, self.device, self.resources, self._kernels, Executor)
        self._step = StepContext(
            step_id=1,
            device=self.device,
            resources=self.resources,
            step_resources=ResourceManager(),
            cancellation=CancellationToken(),
            rendezvous=LocalRendezvous(),
            functions=self._functions,
        )
        self._bound: dict[tuple[Any, ...], Bound] = {}
        self._numbers = itertools.count()
        self._lock = threading.Lock()

    def unique(self, name: str) -> str:
        """Make a name that no resource of this program has."""
        return f"{name}_{next(self._numbers)}"

    def forget_random_state(self) -> None:
        """Let random ops begin their sequences again, as after a new global seed."""
        with self._lock:
            self._bound.clear()
            self._kernels.clear()

    def bind(self, signature: OpSignature, attrs: Mapping[str, graph_pb2.AttrValue]) -> Bound:
        """Bind the kernel of an op with these attributes.

        Raises:
            NotFoundError: there is none for the types. OpError: the kernel refuses the attributes.
        """
        if "shared_name" in attrs:
            # The node's name, or the shared name, is what the resource will be called: nothing to share between calls.
            return self._make(signature, attrs)
        key = (signature.name, *((k, v.SerializeToString(deterministic=True)) for k, v in sorted(attrs.items())))
        bound = self._bound.get(key)
        if bound is None:
            bound = self._bound[key] = self._make(signature, attrs)
        return bound

    def _make(self, signature: OpSignature, attrs: Mapping[str, graph_pb2.AttrValue]) -> Bound:
        node = Node(self.unique(signature.name), signature, dict(attrs))
        try:
            spec = require_kernel(node, self.device.device_type)
            build = KernelBuild(node, self.device, self.resources, self.library, self._functions)
            return Bound(spec.factory(build), spec.step, node.output_types, node.name)
        except Exception as e:
            raise _raised(e, signature.name) from e

    def run(self, op: str, bound: Bound, inputs: Sequence[Any]) -> list[Any]:
        """Run an op; return the arrays it gives.

        Raises:
            OpError: it fails.
        """
        try:
            results = as_outputs(bound.call(self._step, *inputs) if bound.takes_step else bound.call(*inputs))
        except Exception as e:
            raise _raised(e, op) from e
        return [r if isinstance(r, np.ndarray) else _as_array(r, t) for r, t in zip(results, bound.output_types)]

    def call_function(self, name: str, inputs: Sequence[Any]) -> list[Any]:
        """Call a function of the library; return its results.

        Raises:
            OpError: one of its ops fails.
        """
        return self._functions.call(graph_pb2.NameAttrList(name=name), inputs, self._step)


def _as_array(value: Any, dtype: DType) -> Any:
    if not dtype.is_object:
        return np.asarray(value)
    out = np.empty((), object)
    out[()] = value
    return out


def _raised(error: BaseException, op: str) -> OpError:
    """Return the error as TensorFlow raises it eagerly: it names the op it is of, and no node."""
    if isinstance(error, OpError):
        return error if "[Op:" in error.message else type(error)(f"{error.text} [Op:{op}]")
    found = located(error, op)
    return type(found)(f"{found.message} [Op:{op}]")
