"""What the compiler makes of a graph, one stage after the other."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TypeAlias

import numpy as np

from dtfctl.protocol import graph_pb2
from dtfctl.runtime.compiler.compile import CompileOptions, compile_step, prepare
from dtfctl.runtime.compiler.devices import DeviceSet, task_of
from dtfctl.runtime.framework.device_spec import DeviceSpec
from dtfctl.runtime.framework.dtypes import DType
from dtfctl.runtime.framework.errors import OpError
from dtfctl.runtime.framework.graph import Graph
from dtfctl.runtime.framework.importer import import_graph_def
from dtfctl.runtime.framework.node_graph import Node, NodeGraph
from dtfctl.runtime.framework.structural_ops import RECVS, SENDS
from dtfctl.runtime.framework.tensor_codec import decode_tensor

_MOST_SHOWN = 4
"""A constant of at most so many elements is shown by its value."""
_LONGEST_VALUE = 40
Shapes: TypeAlias = Mapping[str, Sequence[int]]
"""Sizes by a tensor's name; -1 where one is known only when a step runs."""


@dataclass(frozen=True)
class ShownNode:
    """A node as it was in a stage.

    Attributes:
        device: the full name, or what was asked for before it was placed.
        inputs: "name:slot" of each; controls: names.
        types: what it gives, such as "float32[8,8]"; for a constant its value.
        tensor: of a Send or Receive, what it transfers, alike at both ends.
        other: of a Send or Receive, the task at the other end.
    """

    name: str
    op: str
    device: str
    inputs: tuple[str, ...]
    controls: tuple[str, ...]
    types: str = field(compare=False, default="")
    tensor: str = field(compare=False, default="")
    other: str = field(compare=False, default="")

    @property
    def task(self) -> str:
        return short(task_of(self.device)) if self.device else ""


@dataclass(frozen=True)
class Stage:
    """The graph at one moment.

    Attributes:
        name: what was done last.
        why: in a sentence.
        nodes: by name; where there are parts, of all of them.
    """

    name: str
    why: str
    nodes: Mapping[str, ShownNode]

    def tasks(self) -> list[str]:
        """List the tasks that have nodes; "" for those without a device."""
        return sorted({node.task for node in self.nodes.values()})


WHY = {
    "given": "as the program built it",
    "placed": "every node has a device; calls that spread over devices are expanded",
    "pruned": "only what the step's fetches and targets need; feeds and fetches are nodes of their own",
    "fuse as written": "one op for what a pattern says (tf.register_fused), before other rewrites change it",
    "fold constants": "what depends on constants only is computed now",
    "choose branches": "branches of constant conditions are dropped",
    "drop loop variables": "loop variables that lead to nothing are dropped",
    "simplify": "nodes that give what they got are bypassed",
    "fuse": "one op for what a pattern says when it was rewritten as the graph was",
    "merge common": "equal nodes are one",
    "drop idle": "what is only waited for is not computed",
    "lower precision": "float32 is computed in fewer bits where little is lost by it",
    "drop unused": "what nobody needs any more is gone",
    "partitioned": "one part a task; an edge between tasks is a Send and a Receive",
}


def stages(
    graph_def: graph_pb2.GraphDef,
    devices: DeviceSet,
    options: CompileOptions,
    feeds: Sequence[str],
    fetches: Sequence[str],
    targets: Sequence[str],
    everywhere: bool = False,
) -> list[Stage]:
    """Compile a step and note the graph at each stage.

    Args:
        everywhere: see `compile_step`.

    Raises:
        OpError: the graph cannot be placed, or the request is at fault.
    """
    shapes = shapes_of(graph_def)
    graph = NodeGraph.from_graph_def(graph_def)
    found = [_stage("given", graph, shapes)]
    prepared = prepare(graph, devices, options)
    found.append(_stage("placed", prepared.graph, shapes, prepared.placement))
    compiled = compile_step(
        prepared,
        feeds,
        fetches,
        targets,
        devices,
        options,
        everywhere,
        seen=lambda name, now: found.append(_stage(name, now, shapes)),
    )
    parts = {node.name: shown(node, shapes) for part in compiled.partitions.values() for node in part}
    found.append(_received(Stage("partitioned", WHY["partitioned"], parts)))
    return found


def _received(stage: Stage) -> Stage:
    """Say of each Receive what its Send is given."""
    types = {pair.receive: "no value" if pair.is_control else pair.types for pair in transfers(stage)}
    return replace(stage, nodes={n: replace(node, types=types.get(n, node.types)) for n, node in stage.nodes.items()})


def shapes_of(graph_def: graph_pb2.GraphDef) -> Shapes:
    """Find the static shape of each tensor that has one, by its name ("a:0"); of a graph with unknown ops none."""
    try:
        with Graph().as_default() as graph:
            import_graph_def(graph_def, name="")
    except (ValueError, OpError):
        return {}
    known = ((tensor.name, tensor.shape) for op in graph.get_operations() for tensor in op.outputs)
    return {
        name: [-1 if size is None else size for size in shape.as_list()]
        for name, shape in known
        if shape.rank is not None
    }


def _stage(name: str, graph: NodeGraph, shapes: Shapes, placement: Mapping[str, str] | None = None) -> Stage:
    return Stage(name, WHY[name], {node.name: shown(node, shapes, (placement or {}).get(node.name)) for node in graph})


def shown(node: Node, shapes: Shapes, device: str | None = None) -> ShownNode:
    """Copy what is to be seen of a node."""
    transfers = node.op in SENDS or node.op in RECVS
    tensor = other = ""
    if transfers:
        ends = node.text_attr("send_device"), node.text_attr("recv_device")
        tensor = f"{node.text_attr('tensor_name')} {short(ends[0])} {short(ends[1])}"
        is_client = bool(node.attr("client_terminated"))
        other = "the client" if is_client else short(task_of(ends[1] if node.op in SENDS else ends[0]))
    return ShownNode(
        node.name,
        node.op,
        node.device if device is None else device,
        tuple(str(edge) for edge in node.inputs),
        tuple(before.name for before in node.control_inputs),
        _types(node, shapes),
        tensor,
        other,
    )


def _types(node: Node, shapes: Shapes) -> str:
    if node.op == "Const":
        proto = node.raw_attrs["value"].tensor
        shape = [dim.size for dim in proto.tensor_shape.dim]
        if 0 < math.prod(shape) <= _MOST_SHOWN:
            # As many digits as its own type has: 0.1, not 0.10000000149011612.
            text = " ".join(
                np.array2string(decode_tensor(proto), separator=", ", formatter={"float_kind": str}).split()
            )
            return text if len(text) <= _LONGEST_VALUE else text[:_LONGEST_VALUE] + "…"
        return _typed(node.output_types[0], shape)
    raw = node.raw_attrs.get("shape")
    if raw is not None and raw.HasField("shape") and not raw.shape.unknown_rank and len(node.output_types) == 1:
        declared = node.attr("dtype")
        dtype = declared if isinstance(declared, DType) else node.output_types[0]
        return _typed(dtype, [dim.size for dim in raw.shape.dim])
    # What is fed has the name of the tensor that it stands for.
    names = [node.text_attr("tensor_name")] if node.op in RECVS else [f"{node.name}:{slot}" for slot in range(3)]
    return ", ".join(_typed(dtype, shapes.get(name)) for dtype, name in zip(node.output_types, names, strict=False))


def _typed(dtype: DType, shape: Sequence[int] | None) -> str:
    if shape is None:
        return dtype.base_dtype.name
    return f"{dtype.base_dtype.name}[{','.join('?' if size < 0 else str(size) for size in shape)}]"


def short(device: str) -> str:
    """Shorten a device's or task's name: "ps/0", "ps/0 GPU:1"; the first CPU goes without saying."""
    try:
        spec = DeviceSpec.from_string(device)
    except ValueError:
        return device
    if spec.job is None and spec.task is None:
        return device
    task = f"{spec.job or '*'}/{'*' if spec.task is None else spec.task}"
    if spec.device_type is None or (spec.device_type, spec.device_index) == ("CPU", 0):
        return task
    return f"{task} {spec.device_type}:{'*' if spec.device_index is None else spec.device_index}"


@dataclass(frozen=True)
class Change:
    """What a stage did to the one before: names of nodes."""

    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[str, ...]


def change(before: Stage, after: Stage) -> Change:
    """Compare two stages."""
    old, new = before.nodes, after.nodes
    return Change(
        tuple(name for name in new if name not in old),
        tuple(name for name in old if name not in new),
        tuple(name for name, node in new.items() if name in old and old[name] != node),
    )


@dataclass(frozen=True)
class Transfer:
    """A tensor that one task sends to another; `tensor` is its name, a control edge's begins with "^"."""

    source: str
    target: str
    tensor: str
    types: str
    send: str
    receive: str

    @property
    def is_control(self) -> bool:
        return self.tensor.startswith("^")


def transfers(stage: Stage) -> list[Transfer]:
    """Pair Sends with Receives, in the order of their tasks."""
    sends = {node.tensor: node for node in stage.nodes.values() if node.op in SENDS}
    found = []
    for node in stage.nodes.values():
        send = sends.get(node.tensor) if node.op in RECVS else None
        if send is None:
            continue
        source = send.inputs[0] if send.inputs else ""
        from_node = stage.nodes.get(source.rpartition(":")[0])
        tensor, types = source, from_node.types if from_node is not None else ""
        if from_node is not None and from_node.op == "Const" and from_node.controls:
            # Sent so that the other end knows that something has run.
            tensor, types = f"^{from_node.controls[0]}", ""
        found.append(Transfer(send.task, node.task, tensor or send.tensor.split(" ")[0], types, send.name, node.name))
    return sorted(found, key=lambda item: (item.source, item.target, item.tensor))


def sinks(graph_def: graph_pb2.GraphDef) -> list[str]:
    """Find the nodes whose outputs nobody takes and for which nobody waits."""
    used = {text.lstrip("^").partition(":")[0] for text in chain.from_iterable(node.input for node in graph_def.node)}
    return [node.name for node in graph_def.node if node.name not in used]
