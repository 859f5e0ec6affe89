"""The views of `tf.profiler.profile`: nodes as a tree by scope, inputs or lines of code, or a list by type of op."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from dtfctl.protocol import tfprof_output_pb2
from dtfctl.runtime.profiler.model.nodes import Figures, Node
from dtfctl.runtime.profiler.model.options import Options

ROOT = "_TFProfRoot"
_LEAST = {
    "min_bytes": "bytes",
    "min_peak_bytes": "peak_bytes",
    "min_residual_bytes": "residual_bytes",
    "min_output_bytes": "output_bytes",
    "min_micros": "micros",
    "min_accelerator_micros": "accelerator_micros",
    "min_cpu_micros": "cpu_micros",
    "min_params": "params",
    "min_float_ops": "float_ops",
    "min_occurrence": "occurrence",
}
# TensorFlow judges a line by its own of these, and by all that is below it of the others.
_OWN = ("params", "float_ops")
_FIELDS = {
    "micros": "exec_micros",
    "accelerator_micros": "accelerator_exec_micros",
    "cpu_micros": "cpu_exec_micros",
    "bytes": "requested_bytes",
    "peak_bytes": "peak_bytes",
    "residual_bytes": "residual_bytes",
    "output_bytes": "output_bytes",
    "params": "parameters",
    "float_ops": "float_ops",
}


@dataclass
class Place:
    """A line of a view.

    Attributes:
        own: what is counted of it; total: with all that is below it.
        nodes: what it stands for.
    """

    name: str
    own: Figures = field(default_factory=Figures)
    total: Figures = field(default_factory=Figures)
    nodes: list[Node] = field(default_factory=list)
    children: list[Place] = field(default_factory=list)
    is_counted: bool = False


def by_scope(nodes: Iterable[Node], options: Options) -> Place:
    """Arrange nodes below their name scopes."""
    root = Place(ROOT)
    places = {"": root}
    # Lines of one size are in the order of their names.
    for node in sorted(nodes, key=lambda node: node.name):
        parts = node.name.split("/")
        for depth in range(1, len(parts) + 1):
            name = "/".join(parts[:depth])
            if name not in places:
                places[name] = Place(name)
                places["/".join(parts[: depth - 1])].children.append(places[name])
        _hold(places[node.name], node, options)
    return _shown(root, options)


def by_inputs(nodes: Iterable[Node], options: Options) -> Place:
    """Arrange nodes below those that take what they give; each once, below the first."""
    known = {node.name: Place(node.name) for node in nodes}
    held = {node.name: node for node in nodes}
    taken = {name for node in held.values() for name in node.inputs}
    root = Place(ROOT)
    visited: set[str] = set()

    def visit(parent: Place, first: str) -> None:
        stack = [(parent, first)]
        while stack:
            above, name = stack.pop()
            if name in visited or name not in known:
                continue
            visited.add(name)
            place = known[name]
            _hold(place, held[name], options)
            above.children.append(place)
            stack.extend((place, source) for source in reversed(held[name].inputs))

    for name in held:
        if name not in taken:
            visit(root, name)
    # What is left goes round in a loop.
    for name in held:
        visit(root, name)
    return _shown(root, options)


def by_code(nodes: Iterable[Node], options: Options) -> Place:
    """Arrange nodes below the lines of the program that made them, outermost call first."""
    root = Place(ROOT)
    places: dict[tuple[str, ...], Place] = {(): root}
    for node in nodes:
        path: tuple[str, ...] = ()
        for line in node.lines():
            above = places[path]
            path = (*path, line)
            if path not in places:
                places[path] = Place(line)
                above.children.append(places[path])
        if path:
            _hold(places[path], node, options)
    return _shown(root, options)


def by_op(nodes: Iterable[Node], options: Options) -> Place:
    """Sum nodes up by type of op. A line's total is its own and that of all lines below it, which are within it."""
    places: dict[str, Place] = {}
    for node in nodes:
        place = places.setdefault(node.op, Place(node.op))
        _hold(place, node, options)
    counted = [place for place in places.values() if place.is_counted]
    for place in counted:
        place.total = place.own
    ordered = _ordered(sorted(counted, key=lambda place: place.name), options)
    below = Figures()
    for place in reversed(ordered):
        below.add(place.own)
        place.total = replace(below)
    # The root is a level of its own.
    kept = [place for place in ordered if _is_shown(place, options, ())][: options["max_depth"] + 1]
    summed = kept if options["account_displayed_op_only"] else counted
    root = Place(ROOT)
    for place in summed:
        root.total.add(place.own)
    above, rest = root, root.total
    for place in kept:
        place.total = rest
        above.children.append(place)
        rest = Figures(**{name: getattr(rest, name) - getattr(place.own, name) for name in vars(rest)})
        above = place
    return root


def _hold(place: Place, node: Node, options: Options) -> None:
    place.nodes.append(node)
    if node.is_counted(options["account_type_regexes"]):
        place.is_counted = True
        place.own.add(node.figures)


def _shown(root: Place, options: Options) -> Place:
    """Leave out what is not to be shown; what is below it moves up."""
    _sum(root)
    whole = root.total
    starts = options["start_name_regexes"]
    begin = root.children if not starts or ".*" in starts else [*_begins(root, starts)]
    shown = Place(ROOT, children=[kept for place in begin for kept in _kept(place, 2, options)])
    shown.children = _ordered(shown.children, options)
    if options["account_displayed_op_only"]:
        _sum(shown)
    else:
        shown.total = whole
    return shown


def _begins(place: Place, regexes: Sequence[str]) -> Iterable[Place]:
    for child in place.children:
        if _matches(child.name, regexes):
            yield child
        else:
            yield from _begins(child, regexes)


def _sum(root: Place) -> None:
    order, stack = [], [root]
    while stack:
        place = stack.pop()
        order.append(place)
        stack.extend(place.children)
    for place in reversed(order):
        place.total = Figures()
        place.total.add(place.own)
        for child in place.children:
            place.total.add(child.total)


def _kept(place: Place, depth: int, options: Options) -> list[Place]:
    if depth > options["max_depth"] or not _is_counted_within(place):
        return []
    below: list[Place] = []
    if not _matches(place.name, options["trim_name_regexes"]):
        below = [kept for child in place.children for kept in _kept(child, depth + 1, options)]
    below = _ordered(below, options)
    if not _is_shown(place, options):
        return below
    place.children = below
    return [place]


def _is_counted_within(place: Place) -> bool:
    return place.is_counted or any(_is_counted_within(child) for child in place.children)


def _is_shown(place: Place, options: Options, by_own: Sequence[str] = _OWN) -> bool:
    for least, figure in _LEAST.items():
        if getattr(place.own if figure in by_own else place.total, figure) < options[least]:
            return False
    return _matches(place.name, options["show_name_regexes"]) and not _matches(place.name, options["hide_name_regexes"])


def _matches(name: str, regexes: Sequence[str]) -> bool:
    return any(re.fullmatch(regex, name) for regex in regexes)


def _ordered(places: list[Place], options: Options) -> list[Place]:
    order = options["order_by"]
    if order == "depth":
        return places
    if order == "name":
        return sorted(places, key=lambda place: place.name)
    return sorted(places, key=lambda place: -getattr(place.total, order))


# As TensorFlow's messages ---------------------------------------------------------------------------------------------


def to_graph_proto(root: Place) -> tfprof_output_pb2.GraphNodeProto:
    """Write a tree as TensorFlow's message."""
    proto = tfprof_output_pb2.GraphNodeProto()
    _write(root, proto, _write_node)
    return proto


def to_multi_proto(root: Place) -> tfprof_output_pb2.MultiGraphNodeProto:
    """Write a list as TensorFlow's message: each line within the one before."""
    proto = tfprof_output_pb2.MultiGraphNodeProto()

    def more(place: Place, line: Any) -> None:
        for node in place.nodes:
            single = line.graph_nodes.add()
            _fill(single, node.name, node.figures, node.figures)
            _write_node(Place(node.name, nodes=[node]), single)

    _write(root, proto, more)
    return proto


def _write(root: Place, proto: Any, more: Callable[[Place, Any], None]) -> None:
    stack = [(root, proto)]
    while stack:
        place, line = stack.pop()
        _fill(line, place.name, place.own, place.total)
        more(place, line)
        stack.extend([(child, line.children.add()) for child in place.children])


def _fill(proto: Any, name: str, own: Figures, total: Figures) -> None:
    proto.name = name
    for figure, field_name in _FIELDS.items():
        setattr(proto, field_name, getattr(own, figure))
        setattr(proto, f"total_{field_name}", getattr(total, figure))
    if isinstance(proto, tfprof_output_pb2.GraphNodeProto):
        proto.run_count, proto.total_run_count = own.run_count, total.run_count
        proto.total_definition_count = total.occurrence


def _write_node(place: Place, proto: Any) -> None:
    for node in place.nodes:
        proto.devices.extend(node.devices)
        proto.shapes.extend(shape.as_proto() for shape in node.shapes)
        for number, shape in enumerate(node.input_shapes):
            proto.input_shapes[number].CopyFrom(shape.as_proto())
