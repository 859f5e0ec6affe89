"""Which functions of a library a graph needs."""

from __future__ import annotations

from collections.abc import Iterable

from dtfctl.protocol import graph_pb2
from dtfctl.runtime.framework.function_library import FunctionLibrary
from dtfctl.runtime.framework.node_graph import NodeGraph


def called_functions(op: str, attrs: Iterable[graph_pb2.AttrValue]) -> list[str]:
    """Names of functions a node may call: its op, and those its attributes name. Some may not exist."""
    names = [op]
    for value in attrs:
        which = value.WhichOneof("value")
        if which == "func":
            names += _names(value.func)
        elif which == "list":
            for function in value.list.func:
                names += _names(function)
    return names


def _names(function: graph_pb2.NameAttrList) -> list[str]:
    names = [function.name]
    for value in function.attr.values():
        if value.WhichOneof("value") == "func":
            names.append(value.func.name)
    return names


def reachable_library(graph: NodeGraph, library: FunctionLibrary) -> FunctionLibrary:
    """Return the functions the graph's nodes call, directly or through others, with their gradients."""
    out = FunctionLibrary()
    if not library.functions:
        return out
    work = [n for node in graph for n in called_functions(node.op, _function_attrs(node.raw_attrs))]
    while work:
        name = work.pop()
        function = library.find(name)
        if function is None or name in out.functions:
            continue
        out.functions[name] = function
        gradient = library.gradients.get(name)
        if gradient is not None:
            out.gradients[name] = gradient
            work.append(gradient)
        for node in function.node_def:
            work += called_functions(node.op, node.attr.values())
    return out


def _function_attrs(raw: dict[str, graph_pb2.AttrValue]) -> list[graph_pb2.AttrValue]:
    return [v for v in raw.values() if v.WhichOneof("value") in ("func", "list")]
