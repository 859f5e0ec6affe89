"""GraphDefs cut down: to what some nodes need, and by what only training needs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from dtfctl.protocol import graph_pb2
from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.graph import Graph
from dtfctl.runtime.framework.operation import Operation
from dtfctl.runtime.framework.structural_ops import VARIABLES
from dtfctl.runtime.framework.tensor_shape import TensorShape

_VARIABLES_AND_READS = VARIABLES | {"AutoReloadVariable", "ReadVariableOp", "_ReadVariablesOp"}
_COLOCATION = b"loc:@"


def node_of(name: str) -> str:
    """Find the node an input like `^a`, `a:1` or `a` refers to."""
    return name[1:] if name.startswith("^") else name.partition(":")[0]


def _colocated(node: graph_pb2.NodeDef) -> list[str]:
    classes = node.attr["_class"].list.s if "_class" in node.attr else []
    return [c[len(_COLOCATION) :].decode() for c in classes if c.startswith(_COLOCATION)]


def extract_sub_graph(graph_def: graph_pb2.GraphDef, dest_nodes: Iterable[str]) -> graph_pb2.GraphDef:
    """Copy the nodes that `dest_nodes` depend on, these included, in the order they have; with library and versions.

    Raises:
        TypeError: an argument is of the wrong type; AssertionError: a node is not in the graph.
    """
    if not isinstance(graph_def, graph_pb2.GraphDef):
        raise TypeError(f"graph_def must be a graph_pb2.GraphDef proto, but got type {type(graph_def)}.")
    if isinstance(dest_nodes, str):
        raise TypeError(f"dest_nodes must be an iterable of strings, but got type {type(dest_nodes)}.")
    nodes = {node.name: node for node in graph_def.node}
    pending = list(dest_nodes)
    for name in pending:
        if name not in nodes:
            raise AssertionError(f"{name} is not in graph")
    kept: set[str] = set()
    while pending:
        name = pending.pop()
        if name in kept or name not in nodes:
            continue
        kept.add(name)
        pending += [node_of(i) for i in nodes[name].input] + _colocated(nodes[name])
    out = graph_pb2.GraphDef(node=[node for node in graph_def.node if node.name in kept])
    out.library.CopyFrom(graph_def.library)
    out.versions.CopyFrom(graph_def.versions)
    return out


def remove_training_nodes(
    input_graph: graph_pb2.GraphDef, protected_nodes: Sequence[str] | None = None
) -> graph_pb2.GraphDef:
    """Copy a graph without its CheckNumerics, and without Identity and StopGradient where nothing waits for them.

    What a node took from a removed Identity it takes from that one's input. Nodes in `protected_nodes`, with control
    inputs or outputs, or that others are colocated with stay.
    """
    protected = set(protected_nodes or ())
    dropped = {n.name for n in input_graph.node if n.op == "CheckNumerics" and n.name not in protected}
    nodes = []
    for original in input_graph.node:
        if original.name in dropped:
            continue
        node = graph_pb2.NodeDef()
        node.CopyFrom(original)
        node.input[:] = [i for i in original.input if (i[1:] if i.startswith("^") else i) not in dropped]
        nodes.append(node)
    waited_for = {i[1:] for node in nodes for i in node.input if i.startswith("^")}
    waiting = {node.name for node in nodes if any(i.startswith("^") for i in node.input)}
    kept = protected | waited_for | waiting | {name for node in nodes for name in _colocated(node)}
    source = {n.name: n.input[0] for n in nodes if n.op in ("Identity", "StopGradient") and n.name not in kept}
    out = graph_pb2.GraphDef()
    for node in nodes:
        if node.name not in source:
            node.input[:] = [_end(i, source) for i in node.input]
            out.node.append(node)
    return out


def _end(name: str, source: dict[str, str]) -> str:
    while name in source:
        name = source[name]
    return name


def must_run_on_cpu(node: Any, pin_variables_on_cpu: bool = False) -> bool:
    """Tell whether a node (an operation or a NodeDef) has no GPU kernel: strings and int32 constants and casts.

    Args:
        pin_variables_on_cpu: count variables too.
    """
    node_def: graph_pb2.NodeDef = node.node_def if isinstance(node, Operation) else node
    if pin_variables_on_cpu and node_def.op in _VARIABLES_AND_READS:
        return True
    int32 = dtypes.int32.as_datatype_enum
    if node_def.op == "Const":
        return node_def.attr["dtype"].type in (dtypes.string.as_datatype_enum, int32)
    if node_def.op in ("DynamicStitch", "ParallelDynamicStitch"):
        return node_def.attr["T"].type == int32
    return node_def.op == "Cast" and node_def.attr["SrcT"].type == int32


def tensor_shape_from_node_def_name(graph: Graph, input_name: str) -> TensorShape:
    """Find the static shape of a tensor, or of a node's first output.

    Raises:
        KeyError: there is no such tensor.
    """
    return graph.get_tensor_by_name(input_name if ":" in input_name else f"{input_name}:0").shape
