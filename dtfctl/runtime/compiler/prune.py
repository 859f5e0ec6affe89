"""What a step needs of a graph: feeds and fetches become receives and sends, the rest is dropped.

As in TensorFlow, a feed replaces one output of a node, all that leads only to replaced outputs falls away, and nothing
is kept only because it is stateful.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from dtfctl.protocol import graph_pb2
from dtfctl.runtime.framework.dtypes import DType
from dtfctl.runtime.framework.errors import InvalidArgumentError, NotFoundError
from dtfctl.runtime.framework.node_graph import Edge, Node, NodeGraph, as_edge, make_node
from dtfctl.runtime.framework.structural_ops import PLACEHOLDERS

# Marks the node that kept the name of a call that was expanded (see `expand`).
STANDS_FOR_CALL = "_stands_for_call"


def parse_tensor(text: str) -> tuple[str, int]:
    """Node name and output of "name" or "name:1"; anything else is a name, of output 0."""
    name, colon, index = text.rpartition(":")
    if colon and index.isascii() and index.isdigit() and len(index) < 10:
        return name, int(index)
    return text, 0


def prune(
    graph: NodeGraph,
    feeds: Sequence[str],
    fetches: Sequence[str],
    targets: Sequence[str],
    client_device: str,
    incarnation: int,
    placement: Mapping[str, str] | None = None,
    ends: Mapping[str, tuple[str, int]] | None = None,
) -> NodeGraph:
    """Make a new graph of what the fetches and targets need, given the feeds.

    Args:
        graph: the whole graph; left as it is.
        feeds, fetches: tensors, "name" or "name:index".
        targets: names of nodes to run.
        client_device: where feeds arrive and fetches leave: the master's first CPU; `incarnation` is its own.
        placement: devices of nodes by name; by default the devices the nodes have.
        ends: for each device the one, and its incarnation, where what is fed to it arrives and what is fetched from it
            leaves, instead of `client_device`. Where a fed tensor is used on devices with different ends, it arrives
            where it would have been computed.

    Raises:
        InvalidArgumentError: nothing is asked for, a tensor is fed twice or both fed and fetched, an output does not
            exist.
        NotFoundError: a node does not exist.
    """
    _check_request(feeds, fetches, targets)
    fed, fed_controls = _make_feeds(graph, feeds, client_device, incarnation)
    sends = _make_fetches(graph, fetches, client_device, incarnation)
    roots = _find_targets(graph, targets)

    kept: set[Node] = set()
    stack = [*roots, *sends]
    while stack:
        node = stack.pop()
        if node not in kept:
            kept.add(node)
            if not node.inputs and not node.control_inputs:
                continue
            if fed:
                stack += [fed.get(edge) or edge[0] for edge in node.inputs]
                stack += [fed_controls.get(source) or source for source in node.control_inputs]
            else:
                stack += [edge[0] for edge in node.inputs]
                if node.control_inputs:
                    stack += node.control_inputs

    if ends is not None:
        _move_ends(fed, fed_controls, sends, kept, placement or {}, ends)
    out = NodeGraph(graph.library)
    out.versions = graph.versions
    copies: dict[Node, Node] = {}
    nodes = out.nodes
    for recv in fed.values():
        if recv in kept:
            copies[recv] = _add_endpoint(recv, graph, out)
    for name, node in graph.nodes.items():
        if node in kept:
            copy = copies[node] = nodes[name] = node.copy()
            if placement is not None:
                copy.device = placement[name]
    for send in sends:
        copies[send] = _add_endpoint(send, graph, out)
    for node, copy in copies.items():
        if fed:
            for edge in node.inputs:
                feed = fed.get(edge)
                copy.inputs.append(Edge(copies[edge.node], edge.slot) if feed is None else Edge(copies[feed], 0))
        elif node.inputs:
            copy.inputs = [as_edge((copies[source], slot)) for source, slot in node.inputs]
        if node.control_inputs:
            controls = [copies[fed_controls.get(source) or source] for source in node.control_inputs]
            copy.control_inputs = list(dict.fromkeys(controls))
    return out


def _move_ends(
    fed: Mapping[Edge, Node],
    fed_controls: Mapping[Node, Node],
    sends: Sequence[Node],
    kept: set[Node],
    placement: Mapping[str, str],
    ends: Mapping[str, tuple[str, int]],
) -> None:
    """Let feeds arrive where they are used and fetches leave where they are computed."""

    def end(node: Node) -> tuple[str, int]:
        return ends[placement.get(node.name, node.device)]

    for send in sends:
        _move(send, *end(send.inputs[0].node))
    if not fed:
        return
    made: dict[Node, tuple[str, int]] = {}
    users: dict[Node, set[tuple[str, int]]] = {}
    for edge, recv in fed.items():
        made.setdefault(recv, end(edge.node))
        users[recv] = set()
    for node in kept.difference(users, sends):
        for edge in node.inputs:
            if edge in fed:
                users[fed[edge]].add(end(node))
        for source in node.control_inputs:
            if source in fed_controls:
                users[fed_controls[source]].add(end(node))
    for recv, found in users.items():
        _move(recv, *(found.pop() if len(found) == 1 else made[recv]))


def _move(endpoint: Node, device: str, incarnation: int) -> None:
    endpoint.device = device
    name = graph_pb2.AttrValue(s=device.encode())
    life = graph_pb2.AttrValue(i=signed(incarnation))
    endpoint.raw_attrs = {
        **endpoint.raw_attrs,
        "send_device": name,
        "recv_device": name,
        "send_device_incarnation": life,
    }


def _add_endpoint(node: Node, graph: NodeGraph, out: NodeGraph) -> Node:
    copy = node.copy()
    copy.name = _unused(copy.name, graph, out)
    return out.add(copy)


def _unused(name: str, *graphs: NodeGraph) -> str:
    unused, n = name, 0
    while any(unused in g.nodes for g in graphs):
        n += 1
        unused = f"{name}_{n}"
    return unused


def _check_request(feeds: Sequence[str], fetches: Sequence[str], targets: Sequence[str]) -> None:
    if not fetches and not targets:
        raise InvalidArgumentError("Must specify at least one target to fetch or execute.")
    seen: set[str] = set()
    for feed in feeds:
        if feed in seen:
            raise InvalidArgumentError(f'Endpoint "{feed}" fed more than once.')
        seen.add(feed)
    for fetch in fetches:
        if fetch in seen:
            raise InvalidArgumentError(f"{fetch} is both fed and fetched.")


def _make_feeds(
    graph: NodeGraph, feeds: Sequence[str], device: str, incarnation: int
) -> tuple[dict[Edge, Node], dict[Node, Node]]:
    """Receives by the output they replace, and by the placeholder whose control edges they take over."""
    fed: dict[Edge, Node] = {}
    controls: dict[Node, Node] = {}
    for feed in feeds:
        name, index = parse_tensor(feed)
        node = graph.find(name)
        if node is None:
            raise NotFoundError(f"FeedInputs: unable to find feed output {feed}")
        if index >= len(node.output_types):
            raise InvalidArgumentError(f"FeedInputs: {feed} should have output index < {len(node.output_types)}")
        edge = Edge(node, index)
        if edge in fed:
            raise InvalidArgumentError(f'Endpoint "{feed}" fed more than once.')
        dtype = node.output_types[index].base_dtype
        recv = _endpoint(f"_recv_{name}_{index}", "_Recv", "tensor_type", dtype, feed, device, incarnation)
        fed[edge] = recv
        if STANDS_FOR_CALL in node.raw_attrs:
            # Consumers of an expanded call are connected to the call's results, not to the node that kept its name.
            fed[node.inputs[index]] = recv
        if node.op in PLACEHOLDERS:
            controls[node] = recv
    return fed, controls


def _make_fetches(graph: NodeGraph, fetches: Sequence[str], device: str, incarnation: int) -> list[Node]:
    sends = []
    for fetch in dict.fromkeys(fetches):
        name, index = parse_tensor(fetch)
        node = graph.find(name)
        if node is None:
            raise NotFoundError(f"FetchOutputs node {fetch}: not found")
        count = len(node.output_types)
        if not count:
            raise InvalidArgumentError(
                f"Tried to fetch data for '{fetch}', which produces no output.  To run to a node but not fetch any "
                f"data, pass '{fetch}' as an argument to the 'target_node_names' argument of the Session::Run API."
            )
        if index >= count:
            raise InvalidArgumentError(f"FetchOutputs {fetch}: output index too large, must be < {count}")
        dtype = node.output_types[index].base_dtype
        send = _endpoint(f"_send_{name}_{index}", "_Send", "T", dtype, fetch, device, incarnation)
        send.inputs.append(Edge(node, index))
        sends.append(send)
    return sends


def _find_targets(graph: NodeGraph, targets: Iterable[str]) -> list[Node]:
    roots, missing = [], []
    for target in targets:
        node = graph.find(parse_tensor(target)[0])
        if node is None:
            missing.append(target)
        else:
            roots.append(node)
    if missing:
        names = "".join(f"{name} " for name in missing)
        raise NotFoundError(f"PruneForTargets: Some target nodes not found: {names}")
    return roots


def _endpoint(name: str, op: str, type_attr: str, dtype: DType, tensor: str, device: str, incarnation: int) -> Node:
    attrs = {
        type_attr: graph_pb2.AttrValue(type=dtype.as_datatype_enum),  # type: ignore[arg-type]
        "tensor_name": graph_pb2.AttrValue(s=tensor.encode()),
        "send_device": graph_pb2.AttrValue(s=device.encode()),
        "recv_device": graph_pb2.AttrValue(s=device.encode()),
        "send_device_incarnation": graph_pb2.AttrValue(i=signed(incarnation)),
        "client_terminated": graph_pb2.AttrValue(b=True),
    }
    return make_node(name, op, attrs, device=device)


def signed(incarnation: int) -> int:
    """Turn an unsigned 64-bit number into the int64 of the same bits, which is how attributes hold incarnations."""
    incarnation &= 0xFFFFFFFFFFFFFFFF
    return incarnation - (1 << 64) if incarnation >= 1 << 63 else incarnation


def check_partial_fetches(
    graph: NodeGraph, fetches: Iterable[str], fed: Collection[str], pending: Collection[str]
) -> None:
    """Check that the fetches of a partial run need none of the feeds still to come.

    Raises:
        InvalidArgumentError: one does.
        NotFoundError: a fetched node does not exist.
    """
    waiting = {parse_tensor(p) for p in pending}
    given = {parse_tensor(f) for f in fed}
    for fetch in fetches:
        name, index = parse_tensor(fetch)
        start = graph.find(name)
        if start is None:
            raise NotFoundError(f"Fetch {fetch}: not found")
        seen: set[Node] = set()
        edges = [(start, index)]
        while edges:
            node, slot = edges.pop()
            if (node.name, slot) in waiting or (slot < 0 and node.op in PLACEHOLDERS and (node.name, 0) in waiting):
                raise InvalidArgumentError(f"Fetch {fetch} can't be computed from the feeds that have been fed so far.")
            if (node.name, slot) in given or node in seen:
                continue
            seen.add(node)
            edges += [(e.node, e.slot) for e in node.inputs]
            edges += [(source, -1) for source in node.control_inputs]
