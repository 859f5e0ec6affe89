"""Splitting a placed graph: by task in the master, by device in the worker.

An edge that crosses becomes a `_Send` on one side and a `_Recv` on the other, one pair for all consumers of a tensor on
a side. A control edge is sent as an empty constant. Loops that cross devices get their driver loops first (see
`control_loops`). The structure is TensorFlow's, so that its partitions and ours can be compared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter

from dtfctl.protocol import graph_pb2
from dtfctl.runtime.compiler.collectives import mark_conditional
from dtfctl.runtime.compiler.control_loops import LoopGuards, add_control_loops
from dtfctl.runtime.compiler.devices import cpu_of, task_of
from dtfctl.runtime.compiler.library import reachable_library
from dtfctl.runtime.compiler.naming import Namer
from dtfctl.runtime.compiler.order import assign_ranks
from dtfctl.runtime.compiler.prune import signed
from dtfctl.runtime.compiler.urgency import Transfer, mark_by_urgency
from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.attrs import arg_dtypes
from dtfctl.runtime.framework.dtypes import DType
from dtfctl.runtime.framework.errors import InternalError, InvalidArgumentError
from dtfctl.runtime.framework.node_graph import CONTROL, Edge, Node, NodeGraph, make_node
from dtfctl.runtime.framework.op_signature import Arg
from dtfctl.runtime.framework.structural_ops import AHEAD_ATTR, RECVS, SWITCHES
from dtfctl.runtime.framework.transfer_names import transfer_name
from dtfctl.runtime.kernels.registry import find_kernel

# Between the ranks of two nodes there is room for what a split puts between them.
RANK_STEP = 16
_CONST, _SEND, _RECV, _IDENTITY = 1, 2, 3, 4
_RANK = attrgetter("rank")


def split_by_task(
    graph: NodeGraph,
    incarnations: Mapping[str, int],
    suffix: str = "S",
    bfloat16: bool = False,
    is_far: Callable[[str, str], bool] | None = None,
) -> dict[str, NodeGraph]:
    """Parts by task. The graph is used up: its nodes become those of the parts.

    Args:
        graph: every node has a full device name.
        incarnations: of the devices, by full name.
        bfloat16: send 32-bit floats with half their bits (`GraphOptions.enable_bfloat16_sendrecv`).
        is_far: whether two tasks are on different hosts, so that a CompressedTransfer between them is one; by default
            all are.

    Raises:
        InvalidArgumentError: there is a cycle, or a loop that crosses devices has no condition.
    """
    namer = Namer(graph, suffix)
    guards = add_control_loops(graph, namer)
    assign_ranks(graph)
    mark_conditional(graph)
    return _Splitter(graph, incarnations, task_of, namer, guards, bfloat16, is_far or (lambda _a, _b: True)).split()


def split_by_device(graph: NodeGraph, incarnations: Mapping[str, int], suffix: str = "G") -> dict[str, NodeGraph]:
    """Parts of a task's part by device, which is used up; driver loops and ranks are there already."""
    return _Splitter(graph, incarnations, lambda device: device, Namer(graph, suffix), {}).split()


class _Splitter:
    def __init__(
        self,
        graph: NodeGraph,
        incarnations: Mapping[str, int],
        location: Callable[[str], str],
        namer: Namer,
        guards: LoopGuards,
        bfloat16: bool = False,
        is_far: Callable[[str, str], bool] | None = None,
    ) -> None:
        self.graph = graph
        self.incarnations = incarnations
        self.location = location
        self.namer = namer
        self.bfloat16 = bfloat16
        self.is_far = is_far
        # For a node with inputs from other devices inside a loop: the driver loop's Merge.
        self.guards = guards
        if not guards:
            self.guards = _guards_of(graph)
        self.parts: dict[str, NodeGraph] = {}
        # The same by device.
        self.here: dict[str, NodeGraph] = {}
        self.pairs: dict[tuple[Node, int, str, bool], Node] = {}
        # What comes from elsewhere outside of loops, and the rank of who needs it first.
        self.needed: dict[Node, int] = {}
        # By device: those of its sends that can begin at once, with the node that stands for each at the other end.
        self.at_once: dict[str, list[tuple[Node, Node]]] = {}
        self.shared: dict[tuple[str, str], dict[str, graph_pb2.AttrValue]] = {}
        # Between tasks, outside of loops.
        self.transfers: list[Transfer] = []
        self.edges = 0

    def split(self) -> dict[str, NodeGraph]:
        nodes = list(self.graph)
        for node in nodes:
            device = node.device
            if not device:
                raise InternalError(f"Node '{node.name}' is not placed", node.name)
            node.rank *= RANK_STEP
            part = self.here.get(device) or self._part(device)
            part.nodes[node.name] = node
        if len(self.parts) > 1 or self.guards:
            for node in nodes:
                if node in self.guards or _is_crossed(node):
                    self._connect(node)
                else:
                    self.edges += len(node.inputs) + len(node.control_inputs)
        self._rank_receives()
        self._rank_sends()
        if self.location is task_of:
            mark_by_urgency(self.transfers, list(self.parts.values()))
        for part in self.parts.values():
            # Inputs first, loops aside, where what was added came last: whoever reads or orders them needs one pass.
            part.nodes = {node.name: node for node in sorted(part, key=_RANK)}
            part.versions = self.graph.versions
            part.library = reachable_library(part, self.graph.library)
        return self.parts

    def _part(self, device: str) -> NodeGraph:
        where = self.location(device)
        part = self.parts.get(where)
        if part is None:
            part = self.parts[where] = NodeGraph(self.graph.library)
        self.here[device] = part
        return part

    def _connect(self, node: Node) -> None:
        """Have the node receive what comes from elsewhere."""
        inputs: list[Edge] = []
        controls: list[Node] = []
        here = self.location(node.device)
        guard = self.guards.get(node)
        received = False
        late: list[Node] = []
        early: list[Node] = []
        for position, edge in enumerate(node.inputs):
            self.edges += 1
            source = edge.node
            if self.location(source.device) == here:
                inputs.append(edge)
                if not edge.dtype.is_ref:
                    early.append(source)
                continue
            host = _is_host_input(node, position)
            key = (source, edge.slot, here, host)
            # References are read when the consumer is ready to run, so such an edge has a pair of its own.
            recv = None if edge.dtype.is_ref else self.pairs.get(key)
            if recv is None:
                recv = self._transfer(node, source, edge.slot, host, guard)
                received = True
                if edge.dtype.is_ref:
                    recv.rank = node.rank - 1
                    late.append(recv)
                else:
                    self.pairs[key] = recv
            inputs.append(Edge(recv, 0))
            if not edge.dtype.is_ref:
                early.append(recv)
                self._note_need(recv, node, guard)
        for source in node.control_inputs:
            if source is guard:
                continue
            self.edges += 1
            if self.location(source.device) == here:
                before = source
            else:
                key = (source, CONTROL, here, False)
                known = self.pairs.get(key)
                if known is None:
                    known = self.pairs[key] = self._transfer(node, source, CONTROL, False, guard)
                    received = True
                before = known
                self._note_need(known, node, guard)
            controls.append(before)
            early.append(before)
        for recv in late:
            recv.control_inputs += [n for n in dict.fromkeys(early) if n not in recv.control_inputs]
        if guard is not None and (
            not received or any(before.device != node.device for before in (*(e.node for e in inputs), *controls))
        ):
            # It is a receive itself, or has inputs that are still to be split by device.
            controls.append(guard)
        node.inputs, node.control_inputs = inputs, controls

    def _note_need(self, received: Node, node: Node, guard: Node | None) -> None:
        if guard is None:
            self.needed[received] = min(self.needed.get(received, node.rank), node.rank)

    def _rank_receives(self) -> None:
        """Let what is received be waited for when it is needed: what comes before in an order by ranks, computing above
        all, runs while it is on its way."""
        for received, rank in self.needed.items():
            received.rank = rank - 1
            if received.op not in RECVS:
                received.inputs[0].node.rank = rank - 2

    def _rank_sends(self) -> None:
        """Let what can be sent at once, parameters above all, go in the order in which it is needed."""
        for device, sends in self.at_once.items():
            nodes = self._part(device).nodes
            rank = max(send.rank for send, _ in sends)
            for send, _ in sorted(sends, key=lambda pair: self.needed.get(pair[1], pair[1].rank)):
                send.rank = rank
                # Among equals the order of the part counts.
                nodes[send.name] = nodes.pop(send.name)

    def _transfer(self, node: Node, source: Node, slot: int, host: bool, guard: Node | None) -> Node:
        """Make a send and a receive of an output of `source`, or of its completion;
        return the node that stands for it here."""
        codec = slot != CONTROL and self._is_compressed(source, node)
        # Who decodes computes with bytes, on a CPU.
        device = cpu_of(node.device) if codec else node.device
        sender = self._part(source.device)
        receiver = self._part(device)
        rank = source.rank
        is_ahead = AHEAD_ATTR in node.raw_attrs
        attrs = {
            "tensor_name": _text(transfer_name(self.edges, source.name, is_ahead=is_ahead)),
            **self._between(source.device, device),
            "_src": _text(source.name),
            "_dst": _text(node.name),
        }
        if slot == CONTROL:
            dtype = dtypes.float32
            empty = make_node(
                self.namer(f"{source.name}/ctrl"),
                "Const",
                _EMPTY,
                control_inputs=[source],
                device=source.device,
                rank=rank + _CONST,
            )
            sent = Edge(sender.add(empty), 0)
        else:
            dtype = source.output_types[slot].base_dtype
            sent = Edge(source, slot)
        short = self.bfloat16 and not codec and slot != CONTROL and source.output_types[slot] is dtypes.float32
        if short:
            dtype = dtypes.bfloat16
            sent = Edge(sender.add(self._cast(source, sent, dtype, source.device, rank + _CONST, truncate=True)), 0)
        elif codec:
            dtype = dtypes.uint8
            named = {"codec": source.raw_attrs["codec"], "shape": source.raw_attrs["shape"]}
            encoding = {**named, "N": source.raw_attrs["N"]}
            if not source.attr("always"):
                # Who encodes and who decodes measure whether it pays on their link.
                encoding |= {"edge": _text(source.name), "peer": _text(self.location(node.device))}
                named["peer"] = _text(self.location(source.device))
            inputs = [sent, *source.inputs[1:]]
            name = self.namer(source.name)
            encoded = make_node(name, "EncodeTensor", encoding, inputs, device=source.device, rank=rank + _CONST)
            sent = Edge(sender.add(encoded), 0)
        type_value = graph_pb2.AttrValue(type=dtype.as_datatype_enum)  # type: ignore[arg-type]
        send_op = "_HostSend" if slot != CONTROL and _is_host_output(source, slot) else "_Send"
        name = self.namer(source.name)
        send = sender.add(
            make_node(name, send_op, {**attrs, "T": type_value}, [sent], device=source.device, rank=rank + _SEND)
        )
        if guard is not None:
            rank = max(rank, guard.rank)
        recv_op = "_HostRecv" if host else "_Recv"
        attrs["tensor_type"] = type_value
        name = self.namer(source.name)
        received = recv = receiver.add(make_node(name, recv_op, attrs, device=device, rank=rank + _RECV))
        if guard is not None:
            recv.control_inputs.append(guard)
        if short:
            received = self._cast(source, Edge(recv, 0), dtypes.float32, device, rank + _IDENTITY)
        elif codec:
            name = self.namer(source.name)
            received = make_node(name, "DecodeTensor", named, [Edge(recv, 0)], device=device, rank=rank + _IDENTITY)
        elif slot == CONTROL:
            received = make_node(
                self.namer(source.name),
                "Identity",
                {"T": type_value},
                [Edge(recv, 0)],
                device=node.device,
                rank=rank + _IDENTITY,
            )
        if received is not recv:
            receiver.add(received)
        if guard is None and slot != CONTROL and self.location is task_of:
            way = self.location(source.device), self.location(device)
            self.transfers.append(Transfer(send, recv, way, source.name, self.edges, is_ahead))
        if guard is None and slot != CONTROL and _is_at_once(source):
            self.at_once.setdefault(source.device, []).append((send, received))
        return received

    def _is_compressed(self, source: Node, node: Node) -> bool:
        """Tell whether what goes from `source` to `node` is made smaller on its way."""
        if source.op != "CompressedTransfer" or self.is_far is None:
            return False
        return bool(source.attr("always")) or self.is_far(self.location(source.device), self.location(node.device))

    def _cast(self, source: Node, edge: Edge, to: DType, device: str, rank: int, truncate: bool = False) -> Node:
        attrs = {
            "SrcT": graph_pb2.AttrValue(type=edge.dtype.as_datatype_enum),  # type: ignore[arg-type]
            "DstT": graph_pb2.AttrValue(type=to.as_datatype_enum),  # type: ignore[arg-type]
            "Truncate": graph_pb2.AttrValue(b=truncate),
        }
        return make_node(self.namer(source.name), "Cast", attrs, [edge], device=device, rank=rank)

    def _between(self, sender: str, receiver: str) -> dict[str, graph_pb2.AttrValue]:
        """Attributes all sends and receives between two devices share."""
        known = self.shared.get((sender, receiver))
        if known is None:
            incarnation = self.incarnations.get(sender)
            if incarnation is None:
                raise InvalidArgumentError(f"Device {sender} is not part of this session")
            known = self.shared[sender, receiver] = {
                "send_device": _text(sender),
                "send_device_incarnation": graph_pb2.AttrValue(i=signed(incarnation)),
                "recv_device": _text(receiver),
                "client_terminated": _NOT_THE_CLIENT,
            }
        return known


def _is_at_once(node: Node, depth: int = 3) -> bool:
    """Tell whether a node needs nothing but variables and constants, and a step or two from them."""
    if not node.inputs and not node.control_inputs:
        return True
    return depth > 0 and all(
        _is_at_once(source, depth - 1) for source in (*(e.node for e in node.inputs), *node.control_inputs)
    )


def _is_crossed(node: Node) -> bool:
    """Tell whether the node needs something of another device."""
    device = node.device
    for source, _ in node.inputs:
        if source.device != device:
            return True
    return any(source.device != device for source in node.control_inputs) if node.control_inputs else False


def _guards_of(graph: NodeGraph) -> LoopGuards:
    """Driver loops' Merges before nodes, where the split by task left them for the split by device."""
    found: LoopGuards = {}
    for node in graph:
        for source in node.control_inputs:
            if source.op == "Merge" and source.name.startswith("_cloop"):
                found[node] = source
    return found


def _empty_value() -> dict[str, graph_pb2.AttrValue]:
    value = graph_pb2.AttrValue()
    value.tensor.dtype = dtypes.float32.as_datatype_enum  # type: ignore[assignment]
    value.tensor.tensor_shape.dim.add(size=0)
    return {"value": value, "dtype": graph_pb2.AttrValue(type=dtypes.float32.as_datatype_enum)}  # type: ignore[arg-type]


_EMPTY = _empty_value()
_NOT_THE_CLIENT = graph_pb2.AttrValue(b=False)


def _text(value: str) -> graph_pb2.AttrValue:
    return graph_pb2.AttrValue(s=value.encode())


def _is_host_input(node: Node, position: int) -> bool:
    if node.op in SWITCHES:
        return position == 1
    return _on_host(node, node.signature.inputs, position, inputs=True)


def _is_host_output(node: Node, slot: int) -> bool:
    return _on_host(node, node.signature.outputs, slot, inputs=False)


def _on_host(node: Node, args: tuple[Arg, ...], at: int, inputs: bool) -> bool:
    """Tell whether a kernel on another kind of device than CPU takes or gives a tensor in the host's memory."""
    if "/device:CPU:" in node.device:
        return False
    kernel = find_kernel(node, node.device.rsplit(":", 2)[1])
    if kernel is None:
        return False
    names = kernel.host_inputs if inputs else kernel.host_outputs
    for arg in args:
        types: list[DType] = arg_dtypes(arg, node.attrs)
        if at < len(types):
            return arg.name in names
        at -= len(types)
    return False
