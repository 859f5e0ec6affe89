"""Loop variables that nobody wants: a `While` computes, in each iteration, only what leads to what is used of it.

Gradients of loops have many: they add up what everything that was read in the loop would have to change by, and of
that only the variables' part is asked for. An iteration that keeps such a sum goes through all of a list each time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from dtfctl.protocol import graph_pb2
from dtfctl.runtime.compiler.order import inputs_first
from dtfctl.runtime.framework.node_graph import Edge, Node, NodeGraph
from dtfctl.runtime.framework.op_signature import find_signature
from dtfctl.runtime.framework.structural_ops import WHILES
from dtfctl.runtime.kernels.registry import op_promises


def drop_dead_variables(graph: NodeGraph, protected: Collection[Node]) -> bool:
    """Take loop variables away that lead to nothing; True when there were any. The graph has another library then."""
    used: dict[Node, set[int]] = {n: set() for n in graph if n.op in WHILES and n not in protected}
    if not used:
        return False
    for node in graph:
        for edge in node.inputs:
            if edge.node in used:
                used[edge.node].add(edge.slot)
    changed = False
    for node in reversed(inputs_first(graph)):
        if node not in used:
            continue
        before = list(node.inputs)
        if _narrow(graph, node, used[node]):
            changed = True
            for edge in before:
                if edge.node in used and not _takes(graph, edge):
                    used[edge.node].discard(edge.slot)
    return changed


def _takes(graph: NodeGraph, edge: Edge) -> bool:
    return any(edge in node.inputs for node in graph)


def _narrow(graph: NodeGraph, loop: Node, used: set[int]) -> bool:
    """Take the dead variables of one loop away."""
    count = len(loop.inputs)
    functions = [loop.raw_attrs[name].func for name in ("cond", "body")]
    cond, body = (graph.library.find(f.name) for f in functions)
    if cond is None or body is None or len(used) == count:
        return False
    if not _is_plain(cond, count, 1) or not _is_plain(body, count, count):
        return False
    live = _live(cond, body, used)
    if len(live) == count:
        return False
    kept = sorted(live)
    mark = f"_live_{sum(1 << n for n in kept):x}"
    made = [_narrowed(cond, kept, [0], mark), _narrowed(body, kept, kept, mark)]
    if any(graph.library.find(f.signature.name) not in (None, f) for f in made):
        return False
    graph.library = graph.library.extended(graph_pb2.FunctionDefLibrary(function=made))
    attrs = dict(loop.raw_attrs)
    for name, function in zip(("cond", "body"), functions):
        attrs[name] = graph_pb2.AttrValue()
        attrs[name].func.CopyFrom(function)
        attrs[name].func.name += mark
    types = attrs["T"].list.type
    attrs["T"] = graph_pb2.AttrValue()
    attrs["T"].list.type.extend(types[n] for n in kept)
    shapes = attrs.get("output_shapes")
    if shapes is not None and len(shapes.list.shape) == count:
        attrs["output_shapes"] = graph_pb2.AttrValue()
        attrs["output_shapes"].list.shape.extend(shapes.list.shape[n] for n in kept)
    attrs.pop("_output_shapes", None)
    loop.inputs = [loop.inputs[n] for n in kept]
    loop.turn_into(loop.signature, attrs)
    now = {n: i for i, n in enumerate(kept)}
    for node in graph:
        if any(edge.node is loop for edge in node.inputs):
            node.inputs = [Edge(loop, now[e.slot]) if e.node is loop else e for e in node.inputs]
    return True


def _is_plain(function: graph_pb2.FunctionDef, inputs: int, outputs: int) -> bool:
    """Tell whether each argument and result of a function is one tensor."""
    signature = function.signature
    if len(signature.input_arg) != inputs or len(signature.output_arg) != outputs:
        return False
    return not any(a.number_attr or a.type_list_attr for a in (*signature.input_arg, *signature.output_arg))


class _Needs:
    """What values of a function are computed from."""

    def __init__(self, function: graph_pb2.FunctionDef) -> None:
        self.function = function
        self.nodes = {n.name: n for n in function.node_def}
        self.arguments = {a.name: i for i, a in enumerate(function.signature.input_arg)}

    def of(self, values: Iterable[str]) -> set[str]:
        """Return the names of the nodes and arguments that these values need, and all effects."""
        found: set[str] = set()
        stack = [*values, *self.function.control_ret.values(), *(n.name for n in self.nodes.values() if _acts(n))]
        while stack:
            name = stack.pop().removeprefix("^").split(":")[0]
            if name not in found:
                found.add(name)
                stack += self.nodes[name].input if name in self.nodes else ()
        return found


def _acts(node: graph_pb2.NodeDef) -> bool:
    """Tell whether a node may do more than to give values."""
    signature = find_signature(node.op)
    return signature is None or signature.is_stateful or signature.takes_functions or op_promises(node.op, "checks")


def _results(function: graph_pb2.FunctionDef, kept: Iterable[int]) -> list[str]:
    outputs = function.signature.output_arg
    return [function.ret[outputs[n].name] for n in kept]


def _live(cond: graph_pb2.FunctionDef, body: graph_pb2.FunctionDef, used: set[int]) -> set[int]:
    asked, given = _Needs(cond), _Needs(body)
    live = used | {asked.arguments[n] for n in asked.of(_results(cond, [0])) if n in asked.arguments}
    while True:
        needed = given.of(_results(body, sorted(live)))
        more = {given.arguments[n] for n in needed if n in given.arguments} - live
        if not more:
            return live
        live |= more


def _narrowed(
    function: graph_pb2.FunctionDef, arguments: list[int], results: list[int], mark: str
) -> graph_pb2.FunctionDef:
    """Make the function of some arguments that gives some results."""
    needed = _Needs(function).of(_results(function, results))
    made = graph_pb2.FunctionDef()
    made.CopyFrom(function)
    signature = made.signature
    signature.name += mark
    inputs, outputs = list(function.signature.input_arg), list(function.signature.output_arg)
    del signature.input_arg[:], signature.output_arg[:], made.node_def[:]
    signature.input_arg.extend(inputs[n] for n in arguments)
    signature.output_arg.extend(outputs[n] for n in results)
    made.node_def.extend(n for n in function.node_def if n.name in needed)
    made.ret.clear()
    made.arg_attr.clear()
    made.resource_arg_unique_id.clear()
    for n in results:
        made.ret[outputs[n].name] = function.ret[outputs[n].name]
    for at, n in enumerate(arguments):
        if n in function.arg_attr:
            made.arg_attr[at].CopyFrom(function.arg_attr[n])
        if n in function.resource_arg_unique_id:
            made.resource_arg_unique_id[at] = function.resource_arg_unique_id[n]
    return made
