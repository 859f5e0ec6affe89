"""Products that share a factor, or are added up over the iterations of a loop.

A cell of a recurrent net multiplies by the same weights in each of its steps, and libraries put a factor in the order
in which they read it before they multiply: that is done once for all products by a `_Factor`. The gradient of weights
that a loop uses is the sum of a product of few rows in each iteration; a `_SumOfProducts` puts the rows below each
other and multiplies many at once. Both hold what a task computes in one step, so they are its own affair: this changes
parts of graphs, not what is sent.

    w ─► MatMul, MatMul, ...            w ─► _Factor ─► _MatMulByFactor, _MatMulByFactor, ...

    0 ─► While: sum + MatMul(a, b)      0 ─► _SumOfProducts ─► While: _AddProduct(sum, a, b) ─► _EndSumOfProducts
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

from dtfctl.protocol import graph_pb2, tensor_pb2
from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.node_graph import Edge, Node, NodeGraph, make_node
from dtfctl.runtime.framework.op_signature import get_signature
from dtfctl.runtime.framework.structural_ops import WHILES

# Products of one factor outside of loops from which on it is worth being held: those of three steps and of their
# gradients. A discriminator that is applied twice has four, of more rows, and adds its biases at once.
_LEAST_SHARED = 6
# Elements of a sum from which on gathering rows pays: smaller ones are in the caches that products add to.
_LEAST_SUM = 1 << 16
_TYPES = {dtypes.float32, dtypes.float64}
_TYPE_NUMBERS = {kind.as_datatype_enum for kind in _TYPES}
_VARIANT: Any = dtypes.variant.as_datatype_enum


def share_products(graph: NodeGraph) -> None:
    """Let products of a part of a graph on a CPU share what they can.

    The part has another library then, where loops have changed.
    """
    _hold_factors(graph)
    for node in [n for n in graph if n.op in WHILES]:
        _change_loop(graph, node)


# Outside of loops ----------------------------------------------------------------------------------------------------


def _hold_factors(graph: NodeGraph) -> None:
    products: dict[Edge, list[Node]] = defaultdict(list)
    for node in graph:
        # A variable itself may be another one for each of them.
        if node.op == "MatMul" and node.inputs[1].dtype in _TYPES and not node.attr("transpose_a"):
            products[node.inputs[1]].append(node)
    for edge, nodes in products.items():
        if len(nodes) < _LEAST_SHARED or edge.node.op == "Const" or edge in (n.inputs[0] for n in nodes):
            continue
        factor = _held(graph, edge, nodes[0], f"{nodes[0].name}/factor")
        for node in nodes:
            node.inputs = [node.inputs[0], Edge(factor, 0)]
            node.turn_into(
                get_signature("_MatMulByFactor"), {n: node.raw_attrs[n] for n in ("T", "transpose_b")} | _marks(node)
            )


def _held(graph: NodeGraph, edge: Edge, beside: Node, name: str) -> Node:
    factor = make_node(
        _free(graph, name), "_Factor", {"T": _type(edge.dtype.as_datatype_enum)}, [edge], device=beside.device
    )
    graph.add(factor)
    return factor


def _free(graph: NodeGraph, name: str) -> str:
    while name in graph.nodes:
        name += "_"
    return name


def _type(number: int) -> graph_pb2.AttrValue:
    return graph_pb2.AttrValue(type=number)  # type: ignore[arg-type]


def _marks(node: Node) -> dict[str, graph_pb2.AttrValue]:
    """Return what is said of a node beside its attributes."""
    return {name: value for name, value in node.raw_attrs.items() if name.startswith("_")}


# Loops ----------------------------------------------------------------------------------------------------------------


@dataclass
class _Change:
    """What becomes of a loop.

    Attributes:
        factors: variables that stay what they are, and that products alone take; sums: to which products are added.
        made: nodes of the body in the place of those of the same name; left_out: those that are not needed then.
    """

    factors: set[int] = field(default_factory=set)
    sums: set[int] = field(default_factory=set)
    made: dict[str, graph_pb2.NodeDef] = field(default_factory=dict)
    left_out: set[str] = field(default_factory=set)


class _Body:
    """A loop's body: who takes which values."""

    def __init__(self, function: graph_pb2.FunctionDef) -> None:
        self.function = function
        self.nodes = {node.name: node for node in function.node_def}
        self.arguments = [a.name for a in function.signature.input_arg]
        self.results = [function.ret[a.name] for a in function.signature.output_arg]
        self.takers: dict[str, list[graph_pb2.NodeDef]] = defaultdict(list)
        for node in function.node_def:
            for text in node.input:
                self.takers[text.removeprefix("^")].append(node)
        self.controlled = {t.removeprefix("^") for n in function.node_def for t in n.input if t.startswith("^")}
        self.controlled |= set(function.control_ret.values())

    def changes(self, read_by_condition: Collection[int], sizes: Sequence[int]) -> _Change:
        """Find what may be done otherwise.

        Args:
            sizes: elements of each variable; 0 where that is not known.
        """
        change = _Change()
        for n, name in enumerate(self.arguments):
            if n in read_by_condition or name in self.controlled:
                continue
            if self.results[n] == name and self.results.count(name) == 1:
                self._factor(n, name, change)
            elif sizes[n] >= _LEAST_SUM:
                self._sum(n, name, change)
        return change

    def _factor(self, n: int, name: str, change: _Change) -> None:
        takers = self.takers[name]
        if not takers or not all(self._multiplies_by(node, name) for node in takers):
            return
        change.factors.add(n)
        for node in takers:
            made = change.made[node.name] = _like(node, "_MatMulByFactor", "T", "transpose_b")
            made.input.extend(node.input)

    @staticmethod
    def _multiplies_by(node: graph_pb2.NodeDef, name: str) -> bool:
        return (
            node.op == "MatMul"
            and node.attr["T"].type in _TYPE_NUMBERS
            and not node.attr["transpose_a"].b
            and node.input[1] == name
            and node.input[0] != name
        )

    def _sum(self, n: int, name: str, change: _Change) -> None:
        """Find a sum that grows by a product in each iteration and is looked at by nobody."""
        takers = self.takers[name]
        if len(takers) != 1 or takers[0].op != "AddN" or takers[0].attr["N"].i != 2:
            return
        added = takers[0]
        result = f"{added.name}:sum:0"
        values = [text for text in added.input if not text.startswith("^")]
        if self.results[n] != result or self.results.count(result) != 1 or self.takers[result]:
            return
        if added.name in self.controlled or added.attr["T"].type not in _TYPE_NUMBERS or values.count(name) != 1:
            return
        product = self.nodes.get(values[1 - values.index(name)].split(":")[0])
        if product is None or product.op != "MatMul" or product.name in self.controlled or product.name in change.made:
            return
        if not product.attr["transpose_a"].b or product.attr["transpose_b"].b:
            return
        whole = f"{product.name}:product:0"
        if len(self.takers[whole]) != 1 or whole in self.results:
            return
        change.sums.add(n)
        change.left_out.add(product.name)
        made = change.made[added.name] = _like(added, "_AddProduct", "T")
        controls = [t for node in (added, product) for t in node.input if t.startswith("^")]
        made.input.extend([name, product.input[0], product.input[1], *dict.fromkeys(controls)])

    def changed(self, change: _Change, mark: str) -> graph_pb2.FunctionDef:
        made = graph_pb2.FunctionDef()
        made.CopyFrom(self.function)
        made.signature.name += mark
        variants = sorted(change.factors | change.sums)
        _make_variants(made, variants, self.arguments)
        for n in variants:
            made.signature.output_arg[n].type = _VARIANT
        del made.node_def[:]
        for node in self.function.node_def:
            if node.name not in change.left_out:
                made.node_def.append(change.made.get(node.name, node))
        for n in change.sums:
            made.ret[made.signature.output_arg[n].name] = self.results[n].replace(":sum:0", ":result:0")
        return made


def _like(node: graph_pb2.NodeDef, op: str, *attributes: str) -> graph_pb2.NodeDef:
    """Make a node of another op in the place of one, with some attributes of it and all that is said beside them."""
    made = graph_pb2.NodeDef(name=node.name, op=op, device=node.device)
    for key, value in node.attr.items():
        if key in attributes or key.startswith("_"):
            made.attr[key].CopyFrom(value)
    return made


def _make_variants(function: graph_pb2.FunctionDef, arguments: list[int], names: list[str]) -> None:
    for n in arguments:
        argument = function.signature.input_arg[n]
        function.signature.input_arg[n].CopyFrom(type(argument)(name=names[n], type=_VARIANT))
        function.arg_attr.pop(n, None)


def _change_loop(graph: NodeGraph, loop: Node) -> None:
    functions = [loop.raw_attrs[name].func for name in ("cond", "body")]
    cond, body = (graph.library.find(f.name) for f in functions)
    count = len(loop.inputs)
    if cond is None or body is None or not _is_plain(cond, count) or not _is_plain(body, count):
        return
    if len(body.signature.output_arg) != count or any(e.dtype.is_ref for e in loop.inputs):
        return
    names = [a.name for a in cond.signature.input_arg]
    read = {t.removeprefix("^") for t in (*_inputs(cond), *cond.ret.values(), *cond.control_ret.values())}
    held = _Body(body)
    shapes = loop.raw_attrs.get("output_shapes")
    known = shapes.list.shape if shapes is not None and len(shapes.list.shape) == count else ()
    sizes = [_elements(shape) for shape in known]
    change = held.changes([n for n, name in enumerate(names) if name in read], sizes or [0] * count)
    variants = sorted(change.factors | change.sums)
    if not variants:
        return
    mark = f"_products_{sum(1 << n for n in change.factors):x}_{sum(1 << n for n in change.sums):x}"
    asked = graph_pb2.FunctionDef()
    asked.CopyFrom(cond)
    asked.signature.name += mark
    _make_variants(asked, variants, names)
    made = [asked, held.changed(change, mark)]
    if any(graph.library.find(f.signature.name) not in (None, f) for f in made):
        return
    graph.library = graph.library.extended(graph_pb2.FunctionDefLibrary(function=made))
    types = [e.dtype for e in loop.inputs]
    _put_around(graph, loop, change)
    attrs = dict(loop.raw_attrs)
    for name, function in zip(("cond", "body"), functions):
        attrs[name] = graph_pb2.AttrValue()
        attrs[name].func.CopyFrom(function)
        attrs[name].func.name += mark
    attrs["T"] = graph_pb2.AttrValue()
    attrs["T"].list.type.extend(
        _VARIANT if n in variants else dtype.as_datatype_enum  # type: ignore[misc]
        for n, dtype in enumerate(types)
    )
    if shapes is not None and known:
        attrs["output_shapes"] = graph_pb2.AttrValue()
        attrs["output_shapes"].CopyFrom(shapes)
        for n in variants:
            attrs["output_shapes"].list.shape[n].Clear()
    attrs.pop("_output_shapes", None)
    loop.turn_into(loop.signature, attrs)


def _elements(shape: tensor_pb2.TensorShapeProto) -> int:
    """Count the elements of what has a shape; 0 where that is not known."""
    dims = [d.size for d in shape.dim]
    return prod(dims) if dims and min(dims) > 0 else 0


def _inputs(function: graph_pb2.FunctionDef) -> Iterator[str]:
    for node in function.node_def:
        yield from node.input


def _is_plain(function: graph_pb2.FunctionDef, inputs: int) -> bool:
    """Tell whether each argument and result of a function is one tensor."""
    signature = function.signature
    if len(signature.input_arg) != inputs:
        return False
    return not any(a.number_attr or a.type_list_attr for a in (*signature.input_arg, *signature.output_arg))


def _put_around(graph: NodeGraph, loop: Node, change: _Change) -> None:
    """Let the loop's inputs be held, and who takes its results have what they were."""
    users = [n for n in graph if any(e.node is loop for e in n.inputs)]
    instead: dict[int, Edge] = {}
    inputs = list(loop.inputs)
    for n in sorted(change.factors):
        instead[n] = inputs[n]
        inputs[n] = Edge(_held(graph, inputs[n], loop, f"{loop.name}/factor_{n}"), 0)
    for n in sorted(change.sums):
        kind = {"T": _type(inputs[n].dtype.as_datatype_enum)}
        begin = make_node(_free(graph, f"{loop.name}/sum_{n}"), "_SumOfProducts", kind, [inputs[n]], device=loop.device)
        end = make_node(
            _free(graph, f"{loop.name}/end_{n}"), "_EndSumOfProducts", kind, [Edge(loop, n)], device=loop.device
        )
        graph.add(begin)
        graph.add(end)
        inputs[n], instead[n] = Edge(begin, 0), Edge(end, 0)
    loop.inputs = inputs
    for node in users:
        node.inputs = [instead.get(e.slot, e) if e.node is loop else e for e in node.inputs]
