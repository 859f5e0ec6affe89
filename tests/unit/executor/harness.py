"""Runs graphs through the executor alone: one device, feeds and fetches by a rendezvous, no compiler and no session."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from dtfctl.protocol import graph_pb2
from dtfctl.runtime.executor import Executor, KernelCache, StepTrace
from dtfctl.runtime.framework.attrs import encode_attr
from dtfctl.runtime.framework.cancellation import CancellationToken
from dtfctl.runtime.framework.device import Device
from dtfctl.runtime.framework.dtypes import DType
from dtfctl.runtime.framework.errors import OpError
from dtfctl.runtime.framework.node_graph import Edge, Node, NodeGraph, make_node, parse_input
from dtfctl.runtime.framework.op_signature import get_signature
from dtfctl.runtime.framework.resource_manager import ResourceManager
from dtfctl.runtime.kernels.context import StepContext

DEVICE = "/job:localhost/replica:0/task:0/device:CPU:0"
_STEP_IDS = itertools.count(1)


class GraphText:
    """Builds a GraphDef node by node; attribute values are Python values."""

    def __init__(self) -> None:
        self.proto = graph_pb2.GraphDef()

    def add(self, name: str, op: str, *inputs: str, **attrs: Any) -> str:
        node = self.proto.node.add(name=name, op=op, input=inputs)
        function = next((f for f in self.proto.library.function if f.signature.name == op), None)
        if function is None:
            kinds = {a.name: a.kind for a in get_signature(op).attrs}
            for key, value in attrs.items():
                node.attr[key].CopyFrom(encode_attr(kinds[key], value))
        return name

    def const(self, name: str, value: Any, dtype: Any = None, after: Sequence[str] = ()) -> str:
        array = np.asarray(value, dtype)
        return self.add(name, "Const", *(f"^{a}" for a in after), value=array, dtype=array.dtype)


class LocalRendezvous:
    """A table of tensors with waiters."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._values: dict[str, list[tuple[Any, bool]]] = {}
        self._waiting: dict[str, list[Callable[[Any, bool, OpError | None], None]]] = {}

    def send(self, key: str, value: Any, dead: bool) -> None:
        with self._condition:
            waiting = self._waiting.get(key)
            done = waiting.pop(0) if waiting else None
            if done is None:
                self._values.setdefault(key, []).append((value, dead))
                self._condition.notify_all()
        if done is not None:
            done(value, dead, None)

    def recv(self, key: str, cancellation: CancellationToken) -> tuple[Any, bool]:
        with self._condition:
            cancellation.wait(self._condition, lambda: bool(self._values.get(key)))
            return self._values[key].pop(0)

    def first(self, keys: Sequence[str], cancellation: CancellationToken) -> int:
        with self._condition:
            cancellation.wait(self._condition, lambda: any(self._values.get(key) for key in keys))
            return next(n for n, key in enumerate(keys) if self._values.get(key))

    def recv_async(self, key: str, done: Callable[[Any, bool, OpError | None], None]) -> None:
        with self._condition:
            held = self._values.get(key)
            if not held:
                self._waiting.setdefault(key, []).append(done)
                return
            value, dead = held.pop(0)
        done(value, dead, None)

    def wait(self, came: Callable[[], str]) -> None:
        came()


class Runner:
    """A graph on one device, with state that lasts from step to step."""

    def __init__(self, graph_def: graph_pb2.GraphDef, device: str = DEVICE) -> None:
        self.graph_def = graph_def
        self.device = Device(device)
        self.resources = ResourceManager()
        self.kernels = KernelCache()
        self._executors: dict[Any, Executor] = {}
        self.trace: StepTrace | None = None

    def executor(self, feeds: Sequence[str], fetches: Sequence[str], targets: Sequence[str] = ()) -> Executor:
        key = tuple(feeds), tuple(fetches), tuple(targets)
        if key not in self._executors:
            graph = client_graph(NodeGraph.from_graph_def(self.graph_def), feeds, fetches, targets)
            self._executors[key] = Executor(graph, self.device, self.resources, self.kernels)
        return self._executors[key]

    def step(self, rendezvous: LocalRendezvous, token: CancellationToken | None = None) -> StepContext:
        return StepContext(
            next(_STEP_IDS),
            self.device,
            self.resources,
            ResourceManager(),
            token or CancellationToken(),
            rendezvous,
            None,  # type: ignore[arg-type]
            trace=self.trace,
        )

    def run(
        self, fetches: Sequence[str], feeds: Mapping[str, Any] | None = None, targets: Sequence[str] = ()
    ) -> list[Any]:
        feeds = feeds or {}
        executor = self.executor(list(feeds), fetches, targets)
        rendezvous, token = LocalRendezvous(), CancellationToken()
        for name, value in feeds.items():
            rendezvous.send(f"client;{name}", np.asarray(value), False)
        step = self.step(rendezvous, token)
        try:
            executor.run(step)
        finally:
            step.step_resources.clear()
        values = {name: rendezvous.recv(f"client;{name}", token)[0] for name in dict.fromkeys(fetches)}
        return [values[name] for name in fetches]


def client_graph(graph: NodeGraph, feeds: Sequence[str], fetches: Sequence[str], targets: Sequence[str]) -> NodeGraph:
    """The nodes a client's step needs, with feeds and fetches as receives and sends, ranked."""

    def edge(name: str) -> Edge:
        node, slot = parse_input(name)
        return Edge(graph.nodes[node], slot)

    fed: dict[Edge, Edge] = {}
    for name in feeds:
        source = edge(name)
        recv = graph.add(_transfer(f"_recv_{len(fed)}", "_Recv", name, {"tensor_type": source.dtype.base_dtype}))
        fed[source] = Edge(recv, 0)
    for node in graph:
        node.inputs = [fed.get(e, e) for e in node.inputs]
    roots = [graph.nodes[t] for t in targets]
    for i, name in enumerate(dict.fromkeys(fetches)):
        source = fed.get(edge(name), edge(name))
        send = graph.add(_transfer(f"_send_{i}", "_Send", name, {"T": source.dtype.base_dtype}))
        send.inputs = [source]
        roots.append(send)
    roots += [e.node for e in fed.values()]
    out = NodeGraph(graph.library)
    for rank, node in enumerate(_topological(roots)):
        node.rank = rank
        out.add(node)
    return out


def _transfer(name: str, op: str, tensor: str, types: Mapping[str, DType]) -> Node:
    attrs = {"tensor_name": tensor.encode(), "send_device": b"", "recv_device": b""}
    values = {k: graph_pb2.AttrValue(s=v) for k, v in attrs.items()}
    values["send_device_incarnation"] = graph_pb2.AttrValue(i=0)
    values["client_terminated"] = graph_pb2.AttrValue(b=True)
    for attr, dtype in types.items():
        values[attr] = graph_pb2.AttrValue(type=dtype.as_datatype_enum)  # type: ignore[arg-type]
    return make_node(name, op, values)


def _topological(roots: Sequence[Node]) -> list[Node]:
    """Everything the roots need, sources first; a loop's back edge does not count."""
    order: list[Node] = []
    seen: set[Node] = set()
    late: list[Node] = []
    stack: list[tuple[Node, bool]] = [(r, False) for r in reversed(roots)]
    while stack or late:
        if not stack:
            stack.append((late.pop(), False))
        node, done = stack.pop()
        if done:
            order.append(node)
            continue
        if node in seen:
            continue
        seen.add(node)
        stack.append((node, True))
        for source in [e.node for e in node.inputs] + node.control_inputs:
            if node.op in ("Merge", "RefMerge") and source.op in ("NextIteration", "RefNextIteration"):
                late.append(source)
            elif source not in seen:
                stack.append((source, False))
    return order


def executors_of(session: Any) -> list[Executor]:
    """List the executors of a session of this process."""
    return [e for step in session._backend._session.signatures._compiled.values() for e in step.local.executors]
