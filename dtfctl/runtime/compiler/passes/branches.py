"""Conditionals whose predicate is constant: the branch not taken goes, the one taken loses its Switch and Merge."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfctl.protocol import graph_pb2
from dtfctl.runtime.compiler.order import find_frames, topological_order
from dtfctl.runtime.compiler.passes.fold import constant_of
from dtfctl.runtime.compiler.passes.rewrite import become, reconnect
from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.node_graph import Edge, Node, NodeGraph, make_node
from dtfctl.runtime.framework.structural_ops import ENTERS, IFS, MERGES
from dtfctl.runtime.framework.tensor_codec import encode_tensor

_CALL = {
    "If": "StatefulPartitionedCall",
    "StatelessIf": "PartitionedCall",
    "Case": "StatefulPartitionedCall",
    "StatelessCase": "PartitionedCall",
}


def choose_branches(graph: NodeGraph, protected: set[Node]) -> bool:
    """Resolve conditionals of constant predicates; True when there were any. `protected` nodes stay as they are."""
    changed = False
    for node in graph:
        if node.op in _CALL and node not in protected:
            changed |= _call_branch(node)
    return _choose_switches(graph, protected) or changed


def _call_branch(node: Node) -> bool:
    value = constant_of(node.inputs[0])
    if value is None or value.ndim or node.inputs[0].node.control_inputs:
        return False
    if node.op in IFS:
        function = node.attr("then_branch" if _truth(value) else "else_branch")
        types = node.attr("Tin")
    else:
        branches = node.attr("branches")
        index = int(value)
        function = branches[index if 0 <= index < len(branches) else len(branches) - 1]
        types = node.attr("Tin")
    listed = graph_pb2.AttrValue()
    listed.list.SetInParent()
    listed.list.type.extend(t.as_datatype_enum for t in types)
    attrs = {"Tin": listed, "Tout": node.raw_attrs["Tout"], "f": graph_pb2.AttrValue(func=function)}
    become(node, _CALL[node.op], attrs)
    node.inputs = node.inputs[1:]
    return True


def _truth(value: np.ndarray[Any, Any]) -> bool:
    item = value[()]
    return len(item) > 0 if isinstance(item, bytes) else bool(item)


def _choose_switches(graph: NodeGraph, protected: set[Node]) -> bool:
    known: dict[Node, bool] = {}
    for node in graph:
        if node.op == "Switch" and not node.inputs[1].node.control_inputs:
            value = constant_of(node.inputs[1])
            if value is not None and value.ndim == 0:
                known[node] = bool(value)
    if not known:
        return False
    if any(node.op in ENTERS for node in graph):
        frames = find_frames(graph)
        known = {node: side for node, side in known.items() if frames[node].is_root}
    dead = _dead_nodes(graph, known)
    if not known or dead & protected:
        return False
    merges = []
    for node in graph:
        if node.op in MERGES and node not in dead:
            live = [i for i, e in enumerate(node.inputs) if not _is_dead(e, known, dead)]
            if len(live) == 1 and len(node.inputs) > 1:
                merges.append((node, live[0]))
            elif len(live) < len(node.inputs):
                # Which of the inputs it took is an output of the node, so none may go.
                return False
    moved: dict[Edge, Edge] = {}
    for node, side in known.items():
        if node not in dead and not node.control_inputs:
            moved[Edge(node, int(side))] = node.inputs[0]
    for node, index in merges:
        moved.update(_resolve_merge(graph, node, index))
    reconnect(graph, moved)
    graph.nodes = {name: node for name, node in graph.nodes.items() if node not in dead}
    for node in graph:
        if any(n in dead for n in node.control_inputs):
            # Only a ControlTrigger lives on.
            node.control_inputs = [n for n in node.control_inputs if n not in dead]
    return True


def _is_dead(edge: Edge, known: dict[Node, bool], dead: set[Node]) -> bool:
    return edge.node in dead or (edge.node in known and edge.slot != int(known[edge.node]))


def _dead_nodes(graph: NodeGraph, known: dict[Node, bool]) -> set[Node]:
    dead: set[Node] = set()
    for node in topological_order(graph):
        controls = any(n in dead for n in node.control_inputs)
        if node.op in MERGES:
            gone = controls or all(_is_dead(e, known, dead) for e in node.inputs)
        else:
            gone = controls or any(_is_dead(e, known, dead) for e in node.inputs)
        if gone and node.op != "ControlTrigger":
            dead.add(node)
    return dead


def _resolve_merge(graph: NodeGraph, node: Node, index: int) -> dict[Edge, Edge]:
    """Make a Merge of one live input an Identity; where its second output, the index, is to be found then."""
    edge = node.inputs[index]
    attr = graph_pb2.AttrValue()
    attr.tensor.CopyFrom(encode_tensor(np.asarray(index, np.int32)))
    dtype = graph_pb2.AttrValue(type=dtypes.int32.as_datatype_enum)  # type: ignore[arg-type]
    name = f"{node.name}/value_index"
    while name in graph.nodes:
        name += "_"
    const = make_node(name, "Const", {"value": attr, "dtype": dtype}, (), [node], node.device)
    if node.op == "Merge":
        become(node, "Identity", {"T": node.raw_attrs["T"]})
        node.inputs = [edge]
    else:
        node.turn_into(node.signature, {**node.raw_attrs, "N": graph_pb2.AttrValue(i=1)})
        node.inputs = [edge]
    graph.add(const)
    return {Edge(node, 1): Edge(const, 0)}
