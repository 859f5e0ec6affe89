"""The graph the runtime works on: nodes with resolved inputs, built from a GraphDef and written back to one.

Clients build graphs with `framework.graph.Graph`; a GraphDef travels; the compiler and the executor see a `NodeGraph`.
Building one checks everything a stranger's GraphDef can get wrong: names, ops, attributes, inputs, types.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from dtfctl.protocol import graph_pb2, tensor_pb2
from dtfctl.runtime.framework.attrs import check_attr, decode_attr, types_of
from dtfctl.runtime.framework.dtypes import WIRE_NAME, DType
from dtfctl.runtime.framework.errors import InvalidArgumentError, OpError
from dtfctl.runtime.framework.function_library import FunctionLibrary
from dtfctl.runtime.framework.graph_wire import NodeWriter, nodes_of
from dtfctl.runtime.framework.op_signature import OpSignature, get_signature
from dtfctl.runtime.framework.structural_ops import FUNCTIONAL, MERGES, NEXTS

CONTROL = -1
# The version of TensorFlow's graph format that is understood here (2.21.0's).
GRAPH_DEF_VERSION = 2474
# Names that begin with an underscore are the runtime's own.
_NODE_NAME = re.compile(r"[A-Za-z0-9._][A-Za-z0-9_.\\/>-]*\Z")
# Combinations of types an op is remembered with.
_MOST_TYPES = 1000
# Larger nodes are not looked for among those read before.
_SMALL_NODE = 512
_new = object.__new__


class Edge(NamedTuple):
    """Output `slot` of `node`."""

    node: Node
    slot: int

    @property
    def dtype(self) -> DType:
        return self.node.output_types[self.slot]

    def __str__(self) -> str:
        return f"{self.node.name}:{self.slot}"


# Makes an Edge of a pair; calling the class takes twice as long.
as_edge = partial(tuple.__new__, Edge)


class Node:
    """One operation of a graph.

    Attributes:
        inputs: data inputs, in argument order.
        control_inputs: nodes that must have run before.
        device: the device asked for, or assigned once placed.
        op: the signature's name.
        raw_attrs: attributes as they travel; `attr` decodes one. Defaults of the signature are filled in. Nodes share
            them: replace, never write.
        rank: position in a topological order of the whole graph before partitioning. Every partition runs its nodes in
            rank order, which is what keeps receives between partitions free of deadlock.
        output_types, input_types: declared types (of an input a reference only where the op takes a reference).
    """

    # There are tens of thousands of them, in several graphs at a time.
    __slots__ = (
        "_decoded",
        "control_inputs",
        "device",
        "input_types",
        "inputs",
        "name",
        "op",
        "output_types",
        "rank",
        "raw_attrs",
        "signature",
    )

    input_types: tuple[DType, ...]
    output_types: tuple[DType, ...]

    def __init__(
        self,
        name: str,
        signature: OpSignature,
        raw_attrs: dict[str, graph_pb2.AttrValue],
        device: str = "",
        inputs: list[Edge] | None = None,
        control_inputs: list[Node] | None = None,
        rank: int = 0,
    ) -> None:
        self.name = name
        self.signature = signature
        # Not a property: nothing else is asked for as often.
        self.op = signature.name
        self.raw_attrs = raw_attrs
        self.device = device
        self.inputs = [] if inputs is None else inputs
        self.control_inputs = [] if control_inputs is None else control_inputs
        self.rank = rank
        self._decoded: dict[str, Any] = {}

    def copy(self, name: str | None = None) -> Node:
        """Copy the node for another graph, or under another name for this; its inputs are still to be set.

        Attributes are shared: replace, never write.
        """
        node = _new(Node)
        node.name = self.name if name is None else name
        node.signature, node.op = self.signature, self.op
        node.raw_attrs, node._decoded = self.raw_attrs, self._decoded
        node.device, node.rank = self.device, self.rank
        node.inputs, node.control_inputs = [], []
        node.input_types, node.output_types = self.input_types, self.output_types
        return node

    def __getattr__(self, name: str) -> Any:
        """Work types out when they are first asked for."""
        if name not in ("input_types", "output_types"):
            raise AttributeError(name)
        self.input_types, self.output_types = types = self._types()
        return types[name == "output_types"]

    def turn_into(self, signature: OpSignature, raw_attrs: dict[str, graph_pb2.AttrValue]) -> None:
        """Make this node another op, or give it other attributes; its inputs stay."""
        self.signature, self.raw_attrs, self.op = signature, raw_attrs, signature.name
        self._decoded = {}
        self.input_types, self.output_types = self._types()

    def attr(self, name: str, default: Any = None) -> Any:
        """Decode an attribute; `default` when the node has none of that name."""
        if name in self._decoded:
            return self._decoded[name]
        raw = self.raw_attrs.get(name)
        if raw is None:
            return default
        value = self._decoded[name] = decode_attr(raw)
        return value

    def text_attr(self, name: str, default: str = "") -> str:
        """Read a string attribute as text."""
        value = self.attr(name)
        return default if value is None else value.decode(errors="backslashreplace")

    @property
    def attrs(self) -> Mapping[str, Any]:
        return _AttrView(self)

    def _types(self) -> tuple[tuple[DType, ...], tuple[DType, ...]]:
        """Find the types of the inputs and of the outputs."""
        signature = self.signature
        key = tuple(map(self.attr, signature.typing_attrs))
        found = signature.known_types.get(key)
        if found is None:
            found = types_of(signature.inputs, self.attrs), types_of(signature.outputs, self.attrs)
            if len(signature.known_types) < _MOST_TYPES:
                signature.known_types[key] = found
        return found

    def __repr__(self) -> str:
        return f"<Node {self.name} op={self.op} device={self.device!r}>"


class _AttrView(Mapping[str, Any]):
    """A node's attributes, decoded on access."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def __getitem__(self, name: str) -> Any:
        if name not in self._node.raw_attrs:
            raise KeyError(name)
        return self._node.attr(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._node.raw_attrs)

    def __len__(self) -> int:
        return len(self._node.raw_attrs)


def _has_grown(old: Node, new: Node) -> bool:
    """Tell whether a node of control flow is one that is there, with more outputs behind those that it has."""
    count = len(old.output_types)
    same = new.op == old.op and new.output_types[:count] == old.output_types
    return same and old.op in FUNCTIONAL and len(new.output_types) > count


@dataclass(frozen=True)
class Extension:
    """What a GraphDef has added to a graph.

    Attributes:
        nodes: those that are new.
        grown: nodes that have more outputs now, and as they were, the last one last.
    """

    nodes: list[Node]
    grown: list[tuple[Node, Node]]

    def undo(self, graph: NodeGraph) -> None:
        """Take the nodes back; functions stay, which nobody calls then."""
        for node in self.nodes:
            graph.nodes.pop(node.name, None)
        for node, was in reversed(self.grown):
            node.turn_into(was.signature, was.raw_attrs)
            node.inputs, node.control_inputs = was.inputs, was.control_inputs


class NodeGraph:
    """Nodes by name, in insertion order, with the library their calls refer to."""

    def __init__(self, library: FunctionLibrary | None = None) -> None:
        self.nodes: dict[str, Node] = {}
        self.library = library or FunctionLibrary()
        self.versions = graph_pb2.GraphDef().versions

    def add(self, node: Node) -> Node:
        if node.name in self.nodes:
            raise InvalidArgumentError(f"Node '{node.name}' is not unique")
        self.nodes[node.name] = node
        return node

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes.values())

    def __len__(self) -> int:
        return len(self.nodes)

    def find(self, name: str) -> Node | None:
        return self.nodes.get(name)

    def consumers(self) -> dict[Node, list[tuple[Node, int]]]:
        """Find for each node the (consumer, input position) pairs; position is CONTROL for a control edge."""
        out: dict[Node, list[tuple[Node, int]]] = {n: [] for n in self}
        for node in self:
            for i, edge in enumerate(node.inputs):
                out[edge.node].append((node, i))
            for source in node.control_inputs:
                out[source].append((node, CONTROL))
        return out

    def extend(self, graph_def: graph_pb2.GraphDef) -> Extension:
        """Add a GraphDef's nodes and functions; inputs may name nodes that are here already.

        A node of control flow that is here already may come again with more outputs, which gradients of it need.

        Raises:
            InvalidArgumentError, NotFoundError: the GraphDef is malformed, as TensorFlow would say; nothing is added.
        """
        check_versions(graph_def.versions)
        library = self.library.extended(graph_def.library) if graph_def.HasField("library") else self.library
        added: dict[str, Node] = {}
        # Nodes that others were like, by all that is said of them but names and inputs; graphs repeat themselves.
        known: dict[bytes, Node] = {}
        # Nodes that come before one of their inputs.
        early: list[tuple[Node, Iterable[str]]] = []
        # Nodes that have grown: as they are here, and as they were; and as they come.
        grown: list[tuple[Node, Node]] = []
        again: dict[Node, Node] = {}
        name = ""
        valid, here, find = _NODE_NAME.match, self.nodes, added.get
        try:
            for name, inputs, rest in nodes_of(graph_def):
                if not valid(name):
                    raise InvalidArgumentError(f"Node '{name}': Node name contains invalid characters")
                if name in here and name not in added:
                    node, new = here[name], _read_node(name, rest, library)
                    if node not in again and _has_grown(node, new):
                        was = node.copy()
                        was.inputs, was.control_inputs = node.inputs, node.control_inputs
                        grown.append((node, was))
                        again[node] = new
                        early.append((new, inputs))
                        node.turn_into(new.signature, new.raw_attrs)
                        continue
                if name in here or name in added:
                    raise InvalidArgumentError(f"Node '{name}' is not unique")
                like = known.get(rest) if len(rest) < _SMALL_NODE else None
                if like is None:
                    node = _read_node(name, rest, library)
                    if len(rest) < _SMALL_NODE:
                        known[rest] = node
                else:
                    node = like.copy(name)
                if inputs or node.input_types:
                    edges = _first_outputs([*map(find, inputs)], node.input_types)
                    if edges is not None:
                        node.inputs = edges
                    elif not self._connect(node, inputs, added):
                        early.append((node, inputs))
                added[name] = node
            for node, texts in early:
                name = node.name
                if not self._connect(node, texts, added):
                    raise InvalidArgumentError(f"Node '{name}': Unknown input node '{self._unknown(texts, added)}'")
            name = ""
            for node, new in again.items():
                node.inputs, node.control_inputs = new.inputs, new.control_inputs
            # In a list that has inputs first, as clients send it, there is nothing to find.
            if early:
                # Nodes that are here already know new ones only where they have grown.
                _check_cycles({**here, **added} if grown else added)
        except Exception as e:
            Extension([], grown).undo(self)
            if isinstance(e, OpError):
                raise (e.at(name) if name else e) from None
            raise
        self.library.take(library)
        self.nodes.update(added)
        if graph_def.HasField("versions"):
            self.versions = graph_def.versions
        return Extension(list(added.values()), grown)

    def _connect(self, node: Node, inputs: Iterable[str], added: Mapping[str, Node]) -> bool:
        """Find and check a node's inputs; False when one is not there, and then nothing is done."""
        data: list[Edge] = []
        controls: list[Node] = []
        seen_control = False
        for text in inputs:
            source = added.get(text)
            name, index = text, 0
            if source is None:
                name, index = parse_input(text)
                source = added.get(name) or self.nodes.get(name)
            if source is None:
                return False
            if index == CONTROL:
                seen_control = True
                controls.append(source)
                continue
            if seen_control:
                raise InvalidArgumentError(
                    f"Node '{node.name}': Control dependencies must come after regular dependencies: '{text}'"
                )
            if index >= len(source.output_types):
                raise InvalidArgumentError(
                    f"Node '{node.name}': Connecting to invalid output {index} of source node {source.name} which has "
                    f"{len(source.output_types)} outputs. Try using "
                    "tf.compat.v1.experimental.output_all_intermediates(True)."
                )
            data.append(Edge(source, index))
        node.inputs, node.control_inputs = data, controls
        _check_inputs(node)
        return True

    def _unknown(self, inputs: Iterable[str], added: Mapping[str, Node]) -> str:
        """Find the first input that does not exist."""
        return next(t for t in inputs if (name := parse_input(t)[0]) not in added and name not in self.nodes)

    @classmethod
    def from_graph_def(cls, graph_def: graph_pb2.GraphDef) -> NodeGraph:
        graph = cls()
        graph.extend(graph_def)
        return graph

    def to_graph_def(self) -> graph_pb2.GraphDef:
        out = graph_pb2.GraphDef()
        self.write(out)
        return out

    def write(self, out: graph_pb2.GraphDef) -> None:
        """Fill an empty message: one inside another would have to be copied there."""
        writer = NodeWriter()
        rests: dict[tuple[str, int], bytes] = {}
        for node in self:
            inputs = [e[0].name if e[1] == 0 else str(e) for e in node.inputs]
            if node.control_inputs:
                inputs += [f"^{n.name}" for n in node.control_inputs]
            key = node.device, id(node.raw_attrs)
            rest = rests.get(key)
            if rest is None:
                rest = rests[key] = writer.rest(node.device, node.raw_attrs)
            writer.add(node.name, node.op, inputs, rest)
        writer.write(out)
        out.versions.CopyFrom(self.versions)
        out.library.CopyFrom(self.library.to_proto())


def make_node(
    name: str,
    op: str,
    attrs: Mapping[str, graph_pb2.AttrValue],
    inputs: Iterable[Edge] = (),
    control_inputs: Iterable[Node] = (),
    device: str = "",
    rank: int = 0,
) -> Node:
    """Make a node of the runtime's own; defaults of missing attributes are filled in."""
    signature = get_signature(op)
    raw = {a.name: a.default for a in signature.attrs if a.default is not None}
    raw.update(attrs)
    return Node(name, signature, raw, device, list(inputs), list(control_inputs), rank)


def parse_input(text: str) -> tuple[str, int]:
    """Split "name", "name:1" or "^name" into a node name and output index (CONTROL for control inputs)."""
    if text.startswith("^"):
        return text[1:], CONTROL
    name, colon, index = text.rpartition(":")
    if not colon:
        return text, 0
    if not (index.isascii() and index.isdigit() and len(index) < 10):
        raise InvalidArgumentError(f"Malformed input '{text}'")
    return name, int(index)


def _first_outputs(sources: list[Node | None], types: tuple[DType, ...]) -> list[Edge] | None:
    """Take the first outputs of nodes, if these are there and give exactly what is wanted: what most inputs are."""
    if len(sources) != len(types):
        return None
    edges = []
    for source, wanted in zip(sources, types):
        if source is None or not source.output_types or source.output_types[0] is not wanted:
            return None
        edges.append(as_edge((source, 0)))
    return edges


def _read_node(name: str, rest: bytes, library: FunctionLibrary) -> Node:
    """Read a node without its inputs; its attributes are checked."""
    proto = graph_pb2.NodeDef.FromString(rest)
    signature = library.signature(proto.op)
    raw: dict[str, graph_pb2.AttrValue] = dict(proto.attr)
    decoded: dict[str, Any] = {}
    for attr in signature.attrs:
        value = raw.get(attr.name)
        if value is None:
            if attr.default is None:
                raise InvalidArgumentError(
                    f"NodeDef missing attr '{attr.name}' from Op<name={signature.name}>; NodeDef: {{{{node {name}}}}}"
                )
            raw[attr.name] = attr.default
        else:
            checked = check_attr(signature, attr, value)
            if attr.kind != "tensor":
                decoded[attr.name] = checked
    names = signature.attr_by_name
    for attr_name in raw:
        if attr_name not in names and not attr_name.startswith("_") and proto.op not in library.functions:
            raise InvalidArgumentError(
                f"NodeDef mentions attribute {attr_name} not in the op definition: Op<name={signature.name}>"
            )
    node = Node(name, signature, raw, proto.device)
    node._decoded = decoded
    node.input_types, node.output_types = node._types()
    return node


def check_versions(versions: tensor_pb2.VersionDef) -> None:
    """Raise InvalidArgumentError unless a GraphDef says that a runtime of this version may read it."""
    if versions.min_consumer > GRAPH_DEF_VERSION:
        raise InvalidArgumentError(
            f"GraphDef min consumer version {versions.min_consumer} above current version {GRAPH_DEF_VERSION} for "
            "TensorFlow 2.21.0, which this runtime follows.  Please upgrade."
        )
    if GRAPH_DEF_VERSION in versions.bad_consumers:
        raise InvalidArgumentError(
            f"GraphDef disallows consumer version {GRAPH_DEF_VERSION}.  Please upgrade: this version is likely buggy."
        )


def _check_cycles(added: Mapping[str, Node]) -> None:
    """Raise InvalidArgumentError unless all cycles go from a NextIteration to a Merge.

    Args:
        added: nodes that may be in new cycles: new ones, where older ones do not know them.
    """
    position = set(added.values())
    waiting: dict[Node, int] = {}
    consumers: dict[Node, list[Node]] = {}
    for node in position:
        sources = [e.node for e in node.inputs if not _is_back_edge(e, node)] + node.control_inputs
        sources = [s for s in sources if s in position]
        waiting[node] = len(sources)
        for source in sources:
            consumers.setdefault(source, []).append(node)
    ready = [node for node, count in waiting.items() if not count]
    while ready:
        for consumer in consumers.get(ready.pop(), ()):
            waiting[consumer] -= 1
            if not waiting[consumer]:
                ready.append(consumer)
    stuck = [node.name for node, count in waiting.items() if count]
    if stuck:
        raise InvalidArgumentError(f"{len(stuck)} nodes in a cycle, among them or before them: {', '.join(stuck[:5])}")


def _is_back_edge(edge: Edge, node: Node) -> bool:
    return edge.node.op in NEXTS and node.op in MERGES


def _check_inputs(node: Node) -> None:
    expected = node.input_types
    inputs = node.inputs
    if len(expected) != len(inputs):
        raise InvalidArgumentError(
            f"NodeDef expected inputs '{', '.join(WIRE_NAME[t] for t in expected)}' do not match "
            f"{len(node.inputs)} inputs specified; Op<name={node.op}>; NodeDef: {{{{node {node.name}}}}}"
        )
    for i, want in enumerate(expected):
        edge = inputs[i]
        have = edge[0].output_types[edge[1]]
        if have is not want and (have.base_dtype is not want.base_dtype or (want.is_ref and not have.is_ref)):
            raise InvalidArgumentError(
                f"Input {i} of node {node.name} was passed {WIRE_NAME[have]} from {edge} incompatible with expected "
                f"{WIRE_NAME[want]}."
            )
