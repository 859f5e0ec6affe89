"""Loops of Enter and Exit in MetaGraphs, made loops of functions, which have gradients here.

A MetaGraph says which of its loops `tf.while_loop` built (its `while_context` collection); those TensorFlow
differentiates after `import_meta_graph`, and so must we. Each becomes one While, and its Exits take what that gives;
the nodes inside are in its functions, where nobody could have fetched them either.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field

from dtfctl.protocol import graph_pb2, tensor_pb2
from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.attrs import arg_dtypes, decode_attr, encode_attr
from dtfctl.runtime.framework.node_graph import parse_input
from dtfctl.runtime.framework.op_signature import find_signature
from dtfctl.runtime.framework.structural_ops import ENTERS, EXITS, NEXTS, REF_LOOP_OPS

_COUNTER = "loop_counter"
Nodes = dict[str, graph_pb2.NodeDef]


@dataclass
class _Loop:
    """The nodes of one frame."""

    name: str
    enters: list[graph_pb2.NodeDef]
    merges: list[graph_pb2.NodeDef] = field(default_factory=list)
    switches: list[str] = field(default_factory=list)
    nexts: list[graph_pb2.NodeDef] = field(default_factory=list)
    exits: list[list[graph_pb2.NodeDef]] = field(default_factory=list)
    condition: str = ""

    @property
    def variables(self) -> list[graph_pb2.NodeDef]:
        """The Enters of loop variables, in the order of their Merges; the others are constants."""
        by_name = {e.name: e for e in self.enters}
        return [by_name[parse_input(m.input[0])[0]] for m in self.merges]

    @property
    def constants(self) -> list[graph_pb2.NodeDef]:
        varying = {e.name for e in self.variables}
        return [e for e in self.enters if e.name not in varying]


def lift_loops(graph_def: graph_pb2.GraphDef) -> set[str]:
    """Make the loops of a GraphDef functional, inner ones first; gives the names of the nodes that are gone.

    A loop that hands on references, or is not what `tf.while_loop` builds, stays as it is.
    """
    gone: set[str] = set()
    refused: set[str] = set()
    while True:
        nodes = {n.name: n for n in graph_def.node}
        frames: dict[str, list[graph_pb2.NodeDef]] = {}
        for node in graph_def.node:
            if node.op in ENTERS:
                frames.setdefault(node.attr["frame_name"].s.decode(), []).append(node)
        lifted = False
        for name, enters in frames.items():
            if name in refused:
                continue
            loop = _read(name, enters, nodes, graph_def.node)
            if loop is None:
                refused.add(name)
                continue
            inside = _inside(loop, nodes)
            if inside is None:
                # A loop within it is lifted first.
                continue
            merges = [nodes[n] for n in dict.fromkeys((*inside[0], *inside[1])) if nodes[n].op == "Merge"]
            taken = _lift_branches(graph_def, merges, nodes) if merges else _replace(graph_def, loop, inside, nodes)
            if taken is None:
                refused.add(name)
                continue
            gone |= taken
            lifted = True
            break
        if not lifted:
            return gone


def _read(
    name: str, enters: list[graph_pb2.NodeDef], nodes: Nodes, everything: Iterable[graph_pb2.NodeDef]
) -> _Loop | None:
    """Find a frame's parts; None where it has others than `tf.while_loop` makes."""
    loop = _Loop(name, enters)
    if any(e.op in REF_LOOP_OPS for e in enters):
        return None
    names = {e.name for e in enters}
    by_data: dict[str, list[graph_pb2.NodeDef]] = {}
    for node in everything:
        if node.op in ("Switch", *EXITS) and node.input:
            by_data.setdefault(node.input[0], []).append(node)
        if node.op == "Merge" and len(node.input) == 2 and node.input[0] in names:
            back = nodes.get(parse_input(node.input[1])[0])
            if back is None or back.op not in NEXTS:
                return None
            loop.merges.append(node)
            loop.nexts.append(back)
    for merge in loop.merges:
        switches = by_data.get(merge.name, [])
        if len(switches) != 1:
            return None
        condition = parse_input(switches[0].input[1])[0]
        if nodes[condition].op != "LoopCond" or loop.condition not in ("", condition):
            return None
        loop.condition = condition
        loop.switches.append(switches[0].name)
        loop.exits.append([e for e in by_data.get(switches[0].name, []) if e.op in EXITS])
    return loop if loop.condition else None


def _inside(loop: _Loop, nodes: Nodes) -> tuple[list[str], list[str]] | None:
    """List the nodes of condition and body; None where there is another loop among them."""
    stops = {e.name for e in loop.enters} | {m.name for m in loop.merges} | set(loop.switches)
    found = []
    for roots in ([nodes[loop.condition].input[0]], [i for n in loop.nexts for i in n.input]):
        seen: dict[str, None] = {}
        wanted = [_node_of(r) for r in roots]
        while wanted:
            name = wanted.pop()
            if name in seen or name in stops:
                continue
            node = nodes[name]
            if node.op in EXITS or node.op in ENTERS:
                return None
            seen[name] = None
            wanted += [_node_of(i) for i in node.input]
        found.append(list(seen))
    return found[0], found[1]


def _node_of(text: str) -> str:
    return parse_input(text.removeprefix("^"))[0]


def _replace(graph_def: graph_pb2.GraphDef, loop: _Loop, inside: tuple[list[str], list[str]], nodes: Nodes) -> set[str]:
    sources = [*loop.variables, *loop.constants]
    types = [dtypes.int32, *(dtypes.as_dtype(e.attr["T"].type) for e in sources)]
    base = loop.name.rpartition("/")[0] or loop.name
    arguments = {e.name: f"constant_{i}" for i, e in enumerate(loop.constants)}
    at_condition, at_body = dict(arguments), dict(arguments)
    for i, (merge, switch) in enumerate(zip(loop.merges, loop.switches)):
        at_condition[merge.name] = at_body[merge.name] = f"variable_{i}"
        at_body[f"{switch}:1"] = f"variable_{i}"
    names = [_COUNTER, *(f"variable_{i}" for i in range(len(loop.merges)))]
    names += [f"constant_{i}" for i in range(len(loop.constants))]
    condition = _Function(f"{_flat(base)}_condition", names, types, at_condition, nodes)
    condition.add(inside[0])
    condition.give("go_on", nodes[loop.condition].input[0], dtypes.bool_)
    body = _Function(f"{_flat(base)}_body", names, types, at_body, nodes)
    body.add(inside[1])
    body.count()
    for i, back in enumerate(loop.nexts):
        body.give(f"next_{i}", back.input[0], types[i + 1])
    for i in range(len(loop.constants)):
        body.proto.ret[f"same_{i}"] = f"constant_{i}"
        body.proto.signature.output_arg.add(name=f"same_{i}", type=types[1 + len(loop.merges) + i].as_datatype_enum)
    shapes = [tensor_pb2.TensorShapeProto()]
    shapes += [_shape(exits[0] if exits else merge) for exits, merge in zip(loop.exits, loop.merges)]
    shapes += [_shape(e) for e in loop.constants]
    made = graph_pb2.NodeDef(name=f"{base}/lifted", op="While", device=loop.enters[0].device)
    start = graph_pb2.NodeDef(name=f"{base}/{_COUNTER}", op="Const", device=loop.enters[0].device)
    start.attr["dtype"].CopyFrom(encode_attr("type", dtypes.int32))
    start.attr["value"].CopyFrom(encode_attr("tensor", dtypes.int32.np.type(0)))
    made.input.extend([start.name, *(e.input[0] for e in sources)])
    made.input.extend(dict.fromkeys(i for e in sources for i in e.input[1:]))
    made.attr["T"].CopyFrom(encode_attr("list(type)", types))
    made.attr["cond"].func.name, made.attr["body"].func.name = condition.finish(), body.finish()
    made.attr["output_shapes"].list.shape.extend(shapes)
    made.attr["parallel_iterations"].CopyFrom(loop.enters[0].attr["parallel_iterations"])
    gone = {*inside[0], *inside[1], loop.condition, *loop.switches}
    gone |= {n.name for n in (*loop.enters, *loop.merges, *loop.nexts)}
    _add_unused(gone, {e.name for exits in loop.exits for e in exits}, graph_def)
    left = [n for n in graph_def.node if n.name not in gone]
    for i, exits in enumerate(loop.exits):
        for node in exits:
            node.op = "Identity"
            node.input[0] = f"{made.name}:{i + 1}"
    kept = [graph_pb2.NodeDef.FromString(n.SerializeToString()) for n in left]
    del graph_def.node[:]
    graph_def.node.extend([*kept, start, made])
    graph_def.library.function.extend([condition.proto, body.proto])
    return gone


def _lift_branches(graph_def: graph_pb2.GraphDef, merges: list[graph_pb2.NodeDef], nodes: Nodes) -> set[str] | None:
    """Make one condition inside a loop functional: its Merges take what an If gives. None where there is none such."""
    by_predicate: dict[str, list[tuple[graph_pb2.NodeDef, list[_Side]]]] = {}
    open_: set[str] = set()
    for merge in merges:
        sides = [_side(text, nodes) for text in merge.input]
        predicates = {p for s in sides for p in s.predicates}
        if len(sides) != 2 or any(s.merges for s in sides) or len(predicates) != 1:
            open_ |= predicates
            continue
        by_predicate.setdefault(predicates.pop(), []).append((merge, sides))
    ready = [p for p in by_predicate if p not in open_]
    if not ready:
        return None
    found = by_predicate[ready[0]]
    base = found[0][0].name.rpartition("/")[0] or found[0][0].name
    switches = list(dict.fromkeys(s for _, sides in found for side in sides for s in side.switches))
    types = [dtypes.as_dtype(nodes[s].attr["T"].type) for s in switches]
    results = [dtypes.as_dtype(m.attr["T"].type) for m, _ in found]
    made = graph_pb2.NodeDef(name=f"{base}/lifted", op="If", device=found[0][0].device)
    made.input.extend([ready[0], *(nodes[s].input[0] for s in switches)])
    made.attr["Tcond"].CopyFrom(encode_attr("type", dtypes.bool_))
    made.attr["Tin"].CopyFrom(encode_attr("list(type)", types))
    made.attr["Tout"].CopyFrom(encode_attr("list(type)", results))
    made.attr["output_shapes"].list.shape.extend(_shape(m) for m, _ in found)
    gone = set(switches)
    names = [f"given_{i}" for i in range(len(switches))]
    for side, branch in ((1, "then_branch"), (0, "else_branch")):
        at = {(f"{s}:1" if side else s): name for s, name in zip(switches, names)}
        function = _Function(f"{_flat(base)}_{branch}", names, types, at, nodes)
        inside = list(dict.fromkeys(n for _, sides in found for n in sides[side].inside))
        function.add(inside)
        for i, ((merge, _), dtype) in enumerate(zip(found, results)):
            function.give(f"result_{i}", merge.input[side], dtype)
        made.attr[branch].func.name = function.finish()
        graph_def.library.function.append(function.proto)
        gone |= set(inside)
    kept = {m.name for m, _ in found}
    _add_unused(gone, kept, graph_def)
    for i, (merge, _) in enumerate(found):
        merge.op = "Identity"
        del merge.input[:]
        merge.input.append(f"{made.name}:{i}" if i else made.name)
        merge.attr.pop("N", None)
    left = [graph_pb2.NodeDef.FromString(n.SerializeToString()) for n in graph_def.node if n.name not in gone]
    del graph_def.node[:]
    graph_def.node.extend([*left, made])
    return gone


@dataclass
class _Side:
    """What leads to an input of a Merge: nodes of the branch, the Switches and predicates it begins at, and Merges."""

    inside: list[str] = field(default_factory=list)
    switches: list[str] = field(default_factory=list)
    predicates: set[str] = field(default_factory=set)
    merges: list[str] = field(default_factory=list)


def _side(text: str, nodes: Nodes) -> _Side:
    side = _Side()
    seen: set[str] = set()
    wanted = [_node_of(text)]
    while wanted:
        name = wanted.pop()
        if name in seen:
            continue
        seen.add(name)
        node = nodes[name]
        if node.op == "Switch":
            side.switches.append(name)
            side.predicates.add(_predicate(node, nodes))
        elif node.op == "Merge":
            side.merges.append(name)
        else:
            side.inside.append(name)
            wanted += [_node_of(i) for i in node.input]
    return side


def _predicate(switch: graph_pb2.NodeDef, nodes: Nodes) -> str:
    """Name what a Switch asks: those of one condition ask it directly or by the condition's `pred_id`."""
    text = switch.input[1]
    while nodes[_node_of(text)].op == "Identity":
        text = nodes[_node_of(text)].input[0]
    return text


def _flat(name: str) -> str:
    return name.replace("/", "_").replace(".", "_").replace("-", "_")


def _add_unused(gone: set[str], exits: set[str], graph_def: graph_pb2.GraphDef) -> None:
    """Add nodes inside that lead to no result: they have data from there, or wait for what chooses a branch there."""
    grown = True
    while grown:
        more = {
            n.name
            for n in graph_def.node
            if n.name not in gone and n.name not in exits and any(_node_of(i) in gone for i in n.input)
        }
        grown = bool(more)
        gone |= more


def _shape(node: graph_pb2.NodeDef) -> tensor_pb2.TensorShapeProto:
    shapes = node.attr["_output_shapes"].list.shape if "_output_shapes" in node.attr else []
    return shapes[0] if shapes else tensor_pb2.TensorShapeProto(unknown_rank=True)


class _Function:
    """A FunctionDef made of nodes of a graph, some of whose tensors are its arguments."""

    def __init__(
        self, name: str, names: list[str], types: list[dtypes.DType], arguments: dict[str, str], nodes: Nodes
    ) -> None:
        self.proto = graph_pb2.FunctionDef()
        self.proto.signature.name = name
        for argument, dtype in zip(names, types):
            self.proto.signature.input_arg.add(name=argument, type=dtype.as_datatype_enum)
        self._arguments, self._nodes = arguments, nodes

    def add(self, names: list[str]) -> None:
        """Copy nodes; those they wait for are inside, or are what the loop is made of."""
        here = set(names)
        for name in names:
            node = self._nodes[name]
            made = self.proto.node_def.add(name=name, op=node.op, device=node.device)
            for key, value in node.attr.items():
                made.attr[key].CopyFrom(value)
            made.input.extend(self._reference(i) for i in node.input if not i.startswith("^"))
            made.input.extend(i for i in node.input if i.startswith("^") and i[1:] in here)
            signature = find_signature(node.op)
            self.proto.signature.is_stateful |= signature is not None and signature.is_stateful

    def count(self) -> None:
        """Add one to the counter."""
        one = self.proto.node_def.add(name=f"{_COUNTER}/one", op="Const")
        one.attr["dtype"].CopyFrom(encode_attr("type", dtypes.int32))
        one.attr["value"].CopyFrom(encode_attr("tensor", dtypes.int32.np.type(1)))
        more = self.proto.node_def.add(name=f"{_COUNTER}/next", op="AddV2", input=[_COUNTER, f"{one.name}:output:0"])
        more.attr["T"].CopyFrom(encode_attr("type", dtypes.int32))
        self.proto.signature.output_arg.add(name="counted", type=dtypes.int32.as_datatype_enum)
        self.proto.ret["counted"] = f"{more.name}:z:0"

    def give(self, name: str, tensor: str, dtype: dtypes.DType) -> None:
        """Add a result."""
        self.proto.signature.output_arg.add(name=name, type=dtype.as_datatype_enum)
        self.proto.ret[name] = self._reference(tensor)

    def finish(self) -> str:
        """Give the function a name that no other function has."""
        content = self.proto.SerializeToString(deterministic=True)
        self.proto.signature.name += "_" + hashlib.sha256(content).hexdigest()[:16]
        return self.proto.signature.name

    def _reference(self, text: str) -> str:
        known = self._arguments.get(text)
        if known is not None:
            return known
        name, position = parse_input(text)
        node = self._nodes[name]
        signature = find_signature(node.op)
        if signature is None:
            raise ValueError(f"Node '{name}' is of an op that is not there: {node.op}")
        attrs = {key: decode_attr(value) for key, value in node.attr.items()}
        for arg in signature.outputs:
            size = len(arg_dtypes(arg, attrs))
            if position < size:
                return f"{name}:{arg.name}:{position}"
            position -= size
        raise ValueError(f"'{text}' is not an output of node '{name}' ({node.op})")
