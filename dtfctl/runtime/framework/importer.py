"""`import_graph_def`: a GraphDef's nodes become operations of the default graph."""

from __future__ import annotations

import contextlib
import heapq
from collections.abc import Mapping, Sequence
from typing import Any

from dtfctl.protocol import graph_pb2
from dtfctl.runtime.framework import context
from dtfctl.runtime.framework.attrs import check_attr, encode_attr
from dtfctl.runtime.framework.convert import convert_to_tensor
from dtfctl.runtime.framework.errors import InvalidArgumentError, OpError
from dtfctl.runtime.framework.graph import Graph
from dtfctl.runtime.framework.node_graph import CONTROL, parse_input
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.framework.structural_ops import MERGES, NEXTS


def import_graph_def(
    graph_def: graph_pb2.GraphDef,
    input_map: Mapping[str, Any] | None = None,
    return_elements: Sequence[str] | None = None,
    name: str | None = None,
    op_dict: Any = None,
    producer_op_list: Any = None,
) -> list[Any] | None:
    """Add the nodes of a GraphDef.

    Args:
        input_map: tensors of the default graph to use in place of tensors of the GraphDef, by name.
        return_elements: names of operations ("a") and tensors ("a:0") to return.
        name: scope for the new names; "import" when None, no scope when "".

    Returns:
        The elements asked for, or None.

    Raises:
        TypeError: graph_def is no GraphDef; ValueError: it is malformed, or a name asked for or mapped is not in it.
    """
    if not isinstance(graph_def, graph_pb2.GraphDef):
        raise TypeError(f"Argument `graph_def` must be a GraphDef proto, got {type(graph_def).__name__}")
    graph = context.get_default_graph()
    graph.library.add(graph_def.library)
    scope: Any = graph.name_scope("import" if name is None else name) if name != "" else contextlib.nullcontext("")
    with scope as prefix, graph.control_dependencies(None):
        mapped = {_tensor_name(k): convert_to_tensor(v) for k, v in (input_map or {}).items()}
        importer = _Importer(graph, graph_def, graph.get_name_scope() + "/" if prefix else "", mapped)
        try:
            importer.run()
        except OpError as e:
            raise ValueError(str(e)) from e
    unused = set(mapped) - importer.used
    if unused:
        names = ", ".join(sorted(f"{n}:{i}" for n, i in unused))
        raise ValueError("Attempted to map inputs that were not found in graph_def: [" + names + "]")
    if return_elements is None:
        return None
    return [importer.element(e) for e in return_elements]


def _tensor_name(name: str) -> tuple[str, int]:
    return (name[1:], CONTROL) if name.startswith("^") else parse_input(name)


class _Importer:
    def __init__(
        self, graph: Graph, graph_def: graph_pb2.GraphDef, prefix: str, mapped: dict[tuple[str, int], Tensor]
    ) -> None:
        self.graph, self.graph_def, self.prefix, self.mapped = graph, graph_def, prefix, mapped
        self.nodes = {n.name: n for n in graph_def.node}
        self.made: dict[str, Operation] = {}
        self.used: set[tuple[str, int]] = set()
        if len(self.nodes) != len(graph_def.node):
            raise ValueError("graph_def has two nodes of the same name")

    def run(self) -> None:
        late: list[tuple[str, int, tuple[str, int]]] = []
        for node in self._ordered():
            inputs: list[Tensor] = []
            controls: list[Operation] = []
            for i, text in enumerate(node.input):
                source, slot = parse_input(text)
                if slot == CONTROL:
                    if (source, CONTROL) in self.mapped:
                        self.used.add((source, CONTROL))
                        controls.append(self.mapped[source, CONTROL].op)
                    else:
                        controls.append(self.made[source])
                elif (source, slot) in self.mapped:
                    self.used.add((source, slot))
                    inputs.append(self.mapped[source, slot])
                elif source in self.made:
                    inputs.append(self._output(node.name, source, slot))
                else:
                    late.append((node.name, i, (source, slot)))
            self._make(node, inputs, controls)
        for name, i, (source, slot) in late:
            op = self.made[name]
            op._inputs.insert(i, self._output(op.name, source, slot))
            self.graph._changed(op)

    def _output(self, user: str, source: str, slot: int) -> Tensor:
        outputs = self.made[source].outputs
        if slot >= len(outputs):
            raise ValueError(
                f"Node '{user}': Connecting to invalid output {slot} of source node {source} which has {len(outputs)} "
                "outputs."
            )
        return outputs[slot]

    def _ordered(self) -> list[graph_pb2.NodeDef]:
        """Order nodes after their inputs, else as they stand, as TensorFlow does; edges that close loops come later."""
        waiting: dict[str, int] = {}
        users: dict[str, list[str]] = {n: [] for n in self.nodes}
        for node in self.graph_def.node:
            count = 0
            for text in node.input:
                source, slot = parse_input(text)
                if (source, slot) in self.mapped:
                    continue
                if source not in self.nodes:
                    raise ValueError(f"Node '{node.name}': Unknown input node '{text}'")
                if self.nodes[source].op in NEXTS and node.op in MERGES:
                    continue
                users[source].append(node.name)
                count += 1
            waiting[node.name] = count
        place = {n.name: i for i, n in enumerate(self.graph_def.node)}
        # Sorted, so that it is a heap.
        ready = [place[n.name] for n in self.graph_def.node if waiting[n.name] == 0]
        out = []
        while ready:
            node = self.graph_def.node[heapq.heappop(ready)]
            out.append(node)
            for user in users[node.name]:
                waiting[user] -= 1
                if waiting[user] == 0:
                    heapq.heappush(ready, place[user])
        if len(out) != len(self.nodes):
            stuck = next(n for n in self.nodes if waiting[n])
            raise ValueError(f"The graph couldn't be sorted in topological order: node '{stuck}' is part of a cycle")
        return out

    def _make(self, node: graph_pb2.NodeDef, inputs: list[Tensor], controls: list[Operation]) -> Operation:
        signature = self.graph.library.signature(node.op)
        attrs = dict(node.attr)
        for attr in signature.attrs:
            value = attrs.get(attr.name)
            if value is not None:
                check_attr(signature, attr, value)
            elif attr.default is not None:
                attrs[attr.name] = attr.default
            else:
                raise InvalidArgumentError(f"NodeDef missing attr '{attr.name}' from Op<name={node.op}>", node.name)
        if "_class" in attrs and self.prefix:
            groups = [g.decode() for g in attrs["_class"].list.s]
            renamed = [
                f"loc:@{self.prefix}{g[5:]}" if g.startswith("loc:@") and g[5:] in self.nodes else g for g in groups
            ]
            attrs["_class"] = encode_attr("list(string)", renamed)
        op = self.graph.add_op(signature, inputs, attrs, name=f"{self._name(node.name)}/", compute_device=False)
        op._device = node.device
        self.graph.apply_device_scopes(op)
        for source in controls:
            op._control_inputs.append(source)
        if len(inputs) == len(op.input_types):
            self._check_types(op)
        self.made[node.name] = op
        return op

    def _name(self, name: str) -> str:
        full = f"{self.prefix}{name}"
        if full in self.graph._operations:
            if self.prefix:
                return full
            raise ValueError(f"Node name '{name}' already exists in the Graph")
        return full

    @staticmethod
    def _check_types(op: Operation) -> None:
        for i, (tensor, want) in enumerate(zip(op._inputs, op.input_types)):
            if tensor.dtype.base_dtype is not want.base_dtype:
                raise ValueError(
                    f"Input {i} of node {op.name} was passed {tensor.dtype.base_dtype.name} from {tensor.name} "
                    f"incompatible with expected {want.name}."
                )

    def element(self, name: str) -> Any:
        if not isinstance(name, str):
            raise TypeError("Argument `return_elements` must be a list of strings.")
        if ":" in name:
            op_name, _, index = name.rpartition(":")
            if op_name in self.made and index.isdigit() and int(index) < len(self.made[op_name].outputs):
                return self.made[op_name].outputs[int(index)]
        elif name in self.made:
            return self.made[name]
        raise ValueError(f"Requested return_element {name!r} not found in graph_def.")
