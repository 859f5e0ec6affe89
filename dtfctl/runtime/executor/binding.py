"""From a node to what a plan calls: its kernel, bound to the device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from dtfctl.protocol import graph_pb2
from dtfctl.runtime.executor.device_memory import is_gpu, to_device, to_host
from dtfctl.runtime.executor.kernel_cache import BoundKernel, KernelCache
from dtfctl.runtime.executor.keys import ClientEnds
from dtfctl.runtime.executor.node_errors import located
from dtfctl.runtime.framework.attrs import arg_dtypes
from dtfctl.runtime.framework.device import Device
from dtfctl.runtime.framework.function_library import FunctionLibrary
from dtfctl.runtime.framework.node_graph import Node
from dtfctl.runtime.framework.op_signature import Arg, find_signature
from dtfctl.runtime.framework.resource_manager import ResourceManager
from dtfctl.runtime.kernels.context import FunctionCaller, StepContext
from dtfctl.runtime.kernels.registry import KernelBuild, KernelSpec


@dataclass
class Environment:
    """Where a plan's nodes run.

    Attributes:
        scope: names the function instantiation whose body this is, "" for a graph.
        ends: which feeds are arguments and which fetches results; the others go through the rendezvous.
    """

    device: Device
    resources: ResourceManager
    kernels: KernelCache
    library: FunctionLibrary
    functions: FunctionCaller
    scope: str = ""
    ends: ClientEnds = field(default_factory=ClientEnds)
    _bound: dict[Node, BoundKernel] = field(default_factory=dict)
    # Kernels nodes may share, by op and identity of the attributes, which the nodes bound to them hold.
    _alike: dict[tuple[str, int], BoundKernel] = field(default_factory=dict)
    _function_attrs: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def build(self, node: Node) -> KernelBuild:
        """Gather what makers of kernels want to know of a node."""
        return KernelBuild(node, self.device, self.resources, self.library, self.functions)

    def bind(self, node: Node) -> BoundKernel:
        """Make the node's kernel, once a plan.

        Raises:
            OpError: there is none, or it refuses the node; located at the node.
        """
        bound = self._bound.get(node)
        if bound is not None:
            return bound
        key = node.op, id(node.raw_attrs)
        bound = self._alike.get(key)
        if bound is not None:
            self._bound[node] = bound
            return bound
        if find_signature(node.op) is None:
            bound = self._bind_call(node)
        else:
            try:
                bound = self.kernels.get(self.build(node), self.scope)
            except Exception as e:
                raise located(e, node.name) from e
            if is_gpu(self.device):
                bound = BoundKernel(bound.spec, placing_inputs(node, bound, self.device.array_module))
            elif bound.spec.alike:
                self._alike[key] = bound
        self._bound[node] = bound
        return bound

    def adopt(self, node: Node, kernel: BoundKernel) -> None:
        """Bind a node the executor made itself."""
        self._bound[node] = kernel

    def add_plain_op(self, op: str) -> None:
        """Let an op be known that has no registered signature and calls no functions."""
        self._function_attrs[op] = ()

    def _bind_call(self, node: Node) -> BoundKernel:
        """Make a kernel that calls a function of the library, for a node whose op is its name."""
        body = self.functions.prepare(_called(node))
        is_single = len(node.output_types) == 1

        def call(step: StepContext, *inputs: Any) -> Any:
            outputs = body(inputs, step)
            return outputs[0] if is_single else outputs

        return BoundKernel(KernelSpec(node.op, lambda k: call, (self.device.device_type,), {}, step=True), call)

    def may_block(self, node: Node) -> bool:
        """Tell whether running the node may wait for other nodes or steps."""
        if self.bind(node).spec.blocking:
            return True
        functions = self._function_attrs.get(node.op)
        if functions is None:
            if find_signature(node.op) is None:
                return self.functions.may_block(_called(node))
            functions = tuple(a.name for a in node.signature.attrs if a.kind in ("func", "list(func)"))
            self._function_attrs[node.op] = functions
        for name in functions:
            value = node.attr(name)
            for function in value if isinstance(value, tuple) else (value,):
                if function is not None and function.name and self.functions.may_block(function):
                    return True
        return False


def _called(node: Node) -> graph_pb2.NameAttrList:
    """Return the function that a node calls by having its name as op, with its attributes."""
    attrs = {k: v for k, v in node.raw_attrs.items() if not k.startswith("_")}
    return graph_pb2.NameAttrList(name=node.op, attr=attrs)


def argument_positions(node: Node, args: tuple[Arg, ...], names: tuple[str, ...]) -> list[int]:
    """Positions, in the flat list of tensors, of the arguments of these names."""
    out: list[int] = []
    at = 0
    for arg in args:
        count = len(arg_dtypes(arg, node.attrs))
        if arg.name in names:
            out += range(at, at + count)
        at += count
    return out


def ref_positions(node: Node) -> tuple[int, ...]:
    """Input positions whose argument is declared a reference and so takes the `Variable`."""
    if not node.signature.has_ref_input:
        return ()
    return tuple(i for i, t in enumerate(node.input_types) if t.is_ref)


def reads_of(node: Node) -> tuple[int, ...]:
    """Input positions where a reference arrives but the value is wanted."""
    for source, _ in node.inputs:
        # A function's argument is a reference where its call captured one.
        if source.signature.has_ref_output or source.op == "_Arg":
            break
    else:
        return ()
    return tuple(i for i, (e, t) in enumerate(zip(node.inputs, node.input_types)) if e.dtype.is_ref and not t.is_ref)


def has_list_output(node: Node) -> bool:
    return node.signature.has_list_output


def single(result: Any) -> Any:
    """Unpack the only output of a kernel whose outputs may be a list."""
    return result[0] if isinstance(result, (tuple, list)) else result


def placing_inputs(node: Node, bound: BoundKernel, xp: Any) -> Callable[..., Any]:
    """Wrap a kernel so that its inputs are brought to the memory it wants them in: the host's, or the one of `xp`."""
    host = frozenset(argument_positions(node, node.signature.inputs, bound.spec.host_inputs))
    count = len(node.inputs)
    call, skip = bound.call, int(bound.spec.step)

    def placed(*args: Any) -> Any:
        values = enumerate(args[skip : skip + count])
        inputs = [to_host(value) if i in host else to_device(value, xp) for i, value in values]
        return call(*args[:skip], *inputs)

    return placed
