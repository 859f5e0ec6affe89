"""A reference interpreter: runs an acyclic NodeGraph one node after the other, straight from the kernel registry.

It exists to test kernels by themselves: no pruning, placement, plans or control flow. State lives in the object, so
successive `run` calls are steps of one session.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfctl.protocol import graph_pb2
from dtfctl.runtime.executor.binding import placing_inputs
from dtfctl.runtime.executor.device_memory import is_gpu, to_host
from dtfctl.runtime.executor.executor import Executor
from dtfctl.runtime.executor.functions import FunctionRunner
from dtfctl.runtime.executor.kernel_cache import BoundKernel, KernelCache
from dtfctl.runtime.framework.attrs import encode_attr
from dtfctl.runtime.framework.cancellation import CancellationToken
from dtfctl.runtime.framework.device import Device
from dtfctl.runtime.framework.node_graph import Edge, Node, NodeGraph, make_node, parse_input
from dtfctl.runtime.framework.op_signature import get_signature
from dtfctl.runtime.framework.resource_manager import ResourceManager
from dtfctl.runtime.kernels.context import StepContext
from dtfctl.runtime.kernels.registry import KernelBuild, run_kernel
from dtfctl.runtime.kernels.variable import Variable


class Interpreter:
    def __init__(self, graph: NodeGraph | graph_pb2.GraphDef) -> None:
        self.graph = graph if isinstance(graph, NodeGraph) else NodeGraph.from_graph_def(graph)
        self.device = self.make_device()
        self._kernels: dict[Node, BoundKernel] = {}
        self._orders: dict[tuple[tuple[str, ...], frozenset[tuple[str, int]]], list[list[Node]]] = {}
        kernels = KernelCache()
        self._functions = FunctionRunner(self.graph.library, self.device, self.device.resources, kernels, Executor)

    @staticmethod
    def make_device() -> Device:
        """The device everything runs on; tests of GPU kernels give another."""
        return Device("/job:localhost/replica:0/task:0/device:CPU:0")

    def run(
        self, fetches: list[str], feeds: dict[str, Any] | None = None, targets: list[str] | None = None
    ) -> list[Any]:
        step = StepContext(
            1,
            self.device,
            self.device.resources,
            ResourceManager(),
            CancellationToken(),
            rendezvous=None,  # type: ignore[arg-type]
            functions=self._functions,
        )
        values: dict[tuple[str, int], Any] = {}
        for name, value in (feeds or {}).items():
            values[parse_input(name)] = np.asarray(value)
        fed, slots = frozenset(values), [parse_input(fetch) for fetch in fetches]
        roots = (*(name for name, _ in slots), *(targets or []))
        orders = self._orders.get((roots, fed))
        if orders is None:
            known, done = set(fed), set[str]()
            orders = self._orders[roots, fed] = [self._order_of(name, known, done) for name in roots]
        out = []
        for at, order in enumerate(orders):
            for node in order:
                if node not in self._kernels:
                    self._kernels[node] = self._bind(node)
                bound = self._kernels[node]
                inputs = [
                    values[e.node.name, e.slot] if want.is_ref else _deref(values[e.node.name, e.slot])
                    for e, want in zip(node.inputs, node.input_types)
                ]
                for i, value in enumerate(run_kernel(bound.spec, bound.call, step, inputs)):
                    values.setdefault((node.name, i), value)
            if at < len(slots):
                out.append(to_host(_deref(values[slots[at]])))
        return out

    def _order_of(self, root: str, known: set[tuple[str, int]], done: set[str]) -> list[Node]:
        """Sort what `root` needs that has not been run: each node after its own inputs."""
        order: list[Node] = []
        stack = [self.graph.nodes[root]]
        while stack:
            node = stack[-1]
            is_fed = all((node.name, i) in known for i in range(len(node.output_types))) and node.output_types
            if node.name in done or is_fed:
                stack.pop()
                continue
            waiting = [e.node for e in node.inputs if e.node.name not in done and (e.node.name, e.slot) not in known]
            waiting += [n for n in node.control_inputs if n.name not in done and (n.name, 0) not in known]
            if waiting:
                stack += waiting
                continue
            stack.pop()
            done.add(node.name)
            known.update((node.name, i) for i in range(len(node.output_types)))
            order.append(node)
        return order

    def _bind(self, node: Node) -> BoundKernel:
        bound = KernelCache().get(KernelBuild(node, self.device, self.device.resources, self.graph.library))
        if not is_gpu(self.device):
            return bound
        return BoundKernel(bound.spec, placing_inputs(node, bound, self.device.array_module))


def _deref(value: Any) -> Any:
    return value.read() if isinstance(value, Variable) else value


def run_op(op: str, *inputs: Any, dtypes: dict[str, Any] | None = None, **attrs: Any) -> Any:
    """Run one op on arrays and return its output (a list when it has several).

    Type and number attributes are inferred from the inputs; give them in `dtypes`/`attrs` where they cannot be.
    A list argument is passed as a Python list of arrays.
    """
    interpreter, fetches, feeds = graph_of_op(op, *inputs, dtypes=dtypes, **attrs)
    result = interpreter.run(fetches, feeds, [] if fetches else ["op"])
    outputs = get_signature(op).outputs
    return result[0] if len(outputs) == 1 and not outputs[0].is_list else result


def graph_of_op(
    op: str, *inputs: Any, dtypes: dict[str, Any] | None = None, **attrs: Any
) -> tuple[Interpreter, list[str], dict[str, Any]]:
    """The graph that `run_op` runs, with what it fetches and feeds: for ops that keep state from step to step."""
    from dtfctl.runtime.framework import dtypes as types

    signature = get_signature(op)
    graph = NodeGraph()
    given: dict[str, Any] = {**attrs, **(dtypes or {})}
    edges: list[Edge] = []
    feeds: dict[str, Any] = {}
    for arg, value in zip(signature.inputs, inputs, strict=True):
        items = list(value) if arg.is_list else [value]
        arrays = [np.asarray(v) for v in items]
        arrays = [a.astype(object) if a.dtype.kind in "SU" else a for a in arrays]
        if arg.number_attr:
            given.setdefault(arg.number_attr, len(arrays))
        if arg.type_list_attr:
            given.setdefault(arg.type_list_attr, [types.as_dtype(a.dtype) for a in arrays])
        elif arg.type_attr:
            given.setdefault(arg.type_attr, types.as_dtype(arrays[0].dtype))
        for array in arrays:
            dtype = arg.dtype or types.as_dtype(array.dtype)
            name = f"in{len(edges)}"
            source = graph.add(make_node(name, "Placeholder", {"dtype": encode_attr("type", dtype)}))
            edges.append(Edge(source, 0))
            feeds[f"{name}:0"] = array
    raw = {k: encode_attr(signature.attr_by_name[k].kind, v) for k, v in given.items()}
    node = graph.add(make_node("op", op, raw, edges))
    return Interpreter(graph), [f"op:{i}" for i in range(len(node.output_types))], feeds
