"""Functions of the library, run inside a step."""

from __future__ import annotations

import hashlib
import sys
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dtfctl.protocol import graph_pb2
from dtfctl.runtime.compiler.functions import FunctionBody, instantiate
from dtfctl.runtime.compiler.passes.fuse import fuse_patterns
from dtfctl.runtime.compiler.passes.rewrite import is_pure
from dtfctl.runtime.executor import loop_lists
from dtfctl.runtime.executor.kernel_cache import KernelCache
from dtfctl.runtime.framework.device import Device
from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.framework.function_library import FunctionLibrary
from dtfctl.runtime.framework.node_graph import Edge, Node, NodeGraph
from dtfctl.runtime.framework.resource_manager import ResourceManager
from dtfctl.runtime.framework.structural_ops import BOUNDARIES
from dtfctl.runtime.kernels.context import PreparedFunction, StepContext

if TYPE_CHECKING:
    from dtfctl.runtime.executor.executor import Executor

# Calls inside calls. Python needs about six frames for each.
MAX_DEPTH = 400
_PYTHON_FRAMES = 20_000
_DEPTH = threading.local()


class _TooDeepError(InvalidArgumentError):
    """A function calls itself without end."""


class FunctionRunner:
    """Implements `FunctionCaller` for the functions of a library, on one device.

    Each (function, attributes) is instantiated and planned once, at its first call.

    Args:
        fuses: whether users' fused ops (`compiler/fused_ops.py`) are put into the functions' bodies.
    """

    def __init__(
        self,
        library: FunctionLibrary,
        device: Device,
        resources: ResourceManager,
        kernels: KernelCache,
        make_executor: type[Executor],
        fuses: bool = True,
    ) -> None:
        self.fuses = fuses
        self.library = library
        self.device = device
        self.resources = resources
        self.kernels = kernels
        self.make_executor = make_executor
        self._lock = threading.RLock()
        self._functions: dict[bytes, _Function] = {}

    def prepare(self, function: graph_pb2.NameAttrList) -> PreparedFunction:
        return self._find(function)

    def call(self, function: graph_pb2.NameAttrList, inputs: Sequence[Any], step: StepContext) -> list[Any]:
        return self._find(function)(inputs, step)

    def of_graph(self, graph: graph_pb2.GraphDef) -> tuple[FunctionRunner, PreparedFunction]:
        key = b"/graph/" + hashlib.sha256(graph.SerializeToString(deterministic=True)).hexdigest().encode()
        with self._lock:
            found = self._functions.get(key)
            if not isinstance(found, _Graph):
                found = self._functions[key] = _Graph(self, graph, key)
        return found.runner, found

    def may_block(self, function: graph_pb2.NameAttrList) -> bool:
        return self._find(function).may_block()

    def retire(self) -> None:
        """Break the cycles that the functions' plans are part of; see `Executor.retire`."""
        with self._lock:
            for function in self._functions.values():
                function.retire()

    def iteration(self, loop: _Function, condition: _Function) -> _Function | None:
        """Find or make what runs a loop's body and then its condition; None where that is not to be done at once."""
        key = loop.key + b"/then/" + condition.key
        with self._lock:
            found = self._functions.get(key)
            if found is None:
                found = _Iteration.of(loop, condition, key)
                if found is not None:
                    self._functions[key] = found
            return found

    def _find(self, function: graph_pb2.NameAttrList) -> _Function:
        key = function.SerializeToString(deterministic=True)
        with self._lock:
            found = self._functions.get(key)
            if found is None:
                found = self._functions[key] = _Function(self, function, key)
            return found


class _Function:
    """One instantiation. Planned when first needed, since functions may call themselves."""

    def __init__(self, runner: FunctionRunner, function: graph_pb2.NameAttrList, key: bytes) -> None:
        self.key = key
        self._runner = runner
        self._function = function
        self._scope = f"{function.name}/{key.hex()}" if function.attr else function.name
        self._lock = threading.RLock()
        self._executor: Executor | None = None
        self._planning = False
        self._inputs = 0
        self._outputs = 0
        self._changed: frozenset[int] = frozenset()
        self._unread: frozenset[int] = frozenset()

    def __call__(self, inputs: Sequence[Any], step: StepContext) -> list[Any]:
        executor = self._executor or self._plan()
        if len(inputs) != self._inputs:
            raise InvalidArgumentError(
                f"Function takes {self._inputs} argument(s) but {len(inputs)} argument(s) were passed: "
                f"{self._function.name}"
            )
        if step.cancellation.reason is not None:
            step.cancellation.check()
        depth = getattr(_DEPTH, "value", 0)
        if depth >= MAX_DEPTH:
            raise _TooDeepError(
                f"Function call stack is deeper than {MAX_DEPTH}: function {self._function.name} recurses too far"
            )
        results: list[Any] = [None] * self._outputs
        _DEPTH.value = depth + 1
        try:
            executor.plan.run(step, inputs, results)
        except _TooDeepError as e:
            if depth:
                raise
            # Nobody is helped by the thousands of frames that it came through.
            raise InvalidArgumentError(e.message, e.node) from None
        finally:
            _DEPTH.value = depth
        return results

    def then(self, condition: PreparedFunction) -> PreparedFunction | None:
        assert isinstance(condition, _Function)
        return self._runner.iteration(self, condition)

    def body(self) -> FunctionBody:
        """Instantiate it."""
        return instantiate(self._runner.library, self._function.name, self._function.attr)

    def lists_of_loop(self, condition: PreparedFunction) -> frozenset[int]:
        self._plan()
        return self._changed & condition.unread()

    def unread(self) -> frozenset[int]:
        self._plan()
        return self._unread

    def may_block(self) -> bool:
        with self._lock:
            if self._executor is None and self._planning:
                return False
            return (self._executor or self._plan()).may_block

    def retire(self) -> None:
        if self._executor is not None:
            self._executor.retire()

    def _plan(self) -> Executor:
        with self._lock:
            if self._executor is None:
                sys.setrecursionlimit(max(sys.getrecursionlimit(), _PYTHON_FRAMES))
                self._planning = True
                try:
                    self._executor = self._make()
                finally:
                    self._planning = False
            return self._executor

    def _make(self) -> Executor:
        runner = self._runner
        body = self.body()
        self._inputs, self._outputs = len(body.args), len(body.results)
        self._changed, self._unread = loop_lists.changed(body), loop_lists.unread(body)
        graph = _needed(body)
        if runner.fuses and fuse_patterns(graph, {*body.results, *body.controls}, runner.device.device_type):
            graph = _needed(body, graph)
        return runner.make_executor(
            graph, runner.device, runner.resources, runner.kernels, runner.library, runner, self._scope
        )


class _Graph(_Function):
    """A graph with a library of its own."""

    def __init__(self, runner: FunctionRunner, graph: graph_pb2.GraphDef, key: bytes) -> None:
        nodes = NodeGraph.from_graph_def(graph)
        self.runner = FunctionRunner(
            nodes.library, runner.device, runner.resources, runner.kernels, runner.make_executor, runner.fuses
        )
        super().__init__(self.runner, graph_pb2.NameAttrList(name=key.decode()), key)
        results = sorted((node for node in nodes if node.op == "_Retval"), key=lambda node: int(node.attr("index")))
        self._body = FunctionBody(key.decode(), nodes, (), tuple(results), ())

    def body(self) -> FunctionBody:
        return self._body

    def retire(self) -> None:
        super().retire()
        self.runner.retire()


class _Iteration(_Function):
    """A loop's body and then, of what it gives, the loop's condition: one plan for both."""

    def __init__(self, loop: _Function, key: bytes, body: FunctionBody) -> None:
        super().__init__(loop._runner, loop._function, key)
        self._scope = f"{loop._scope}/then"
        self._body = body

    @classmethod
    def of(cls, loop: _Function, condition: _Function, key: bytes) -> _Iteration | None:
        """Make it; None where the condition is more than one value of what the loop's variables are then."""
        body, asked = loop.body(), condition.body()
        if len(asked.results) != 1 or asked.controls or len(asked.args) != len(body.results):
            return None
        if any(n.op not in BOUNDARIES and not is_pure(n) for n in asked.graph):
            return None
        return cls(loop, key, _joined(body, asked))

    def body(self) -> FunctionBody:
        return self._body


def _joined(body: FunctionBody, asked: FunctionBody) -> FunctionBody:
    graph = body.graph
    given = dict(zip(asked.args, (result.inputs[0] for result in body.results)))
    last = max((node.rank for node in graph), default=0) + 1
    copies: dict[Node, Node] = {}
    for node in asked.graph:
        if node in given:
            continue
        name = node.name
        while name in graph.nodes:
            name += "_"
        copies[node] = graph.add(node.copy(name))
        copies[node].rank += last
    for node, copy in copies.items():
        copy.inputs = [given[e.node] if e.node in given else Edge(copies[e.node], e.slot) for e in node.inputs]
        copy.control_inputs = [given[c].node if c in given else copies[c] for c in node.control_inputs]
    result = copies[asked.results[0]]
    result.turn_into(result.signature, {**result.raw_attrs, "index": graph_pb2.AttrValue(i=len(body.results))})
    return FunctionBody(body.name, graph, body.args, (*body.results, result), body.controls)


def _needed(body: FunctionBody, whole: NodeGraph | None = None) -> NodeGraph:
    """Find the nodes a call has to run: what results and control outputs depend on, and whatever has state."""
    whole = whole or body.graph
    stateful = [n for n in whole if n.signature.is_stateful and n.op != "_Arg"]
    stack: list[Node] = [*body.results, *body.controls, *stateful]
    needed: set[Node] = set()
    while stack:
        node = stack.pop()
        if node not in needed:
            needed.add(node)
            stack += [e.node for e in node.inputs]
            stack += node.control_inputs
    graph = NodeGraph(whole.library)
    for node in whole:
        if node in needed:
            graph.add(node)
    return graph
