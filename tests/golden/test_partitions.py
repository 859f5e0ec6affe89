"""Our placement and our partitions of client graphs have the results of TensorFlow's.

data/partitions has partitions over two tasks. data/placements has random graphs with partial device names,
colocations, variables, conditionals and loops, and the partitions over two devices of each of two tasks that TensorFlow
2.21 made of them (a RunMetadata each: the client graph is `function_graphs[0].pre_optimization_graph`).

Node names and edge ids may differ, so nodes are compared by what they are: a node's fingerprint is made of its op, the
attributes that matter, and the fingerprints around it (colour refinement, which tells all nodes of these graphs apart
that are not interchangeable).
"""

from __future__ import annotations

import hashlib
from collections import Counter
from pathlib import Path

import pytest
from google.protobuf import text_format

from dtfctl.protocol import config_pb2, graph_pb2
from dtfctl.runtime.compiler.compile import CompileOptions, compile_step, prepare
from dtfctl.runtime.compiler.devices import DeviceInfo, DeviceSet
from dtfctl.runtime.compiler.partition import split_by_device
from dtfctl.runtime.framework.node_graph import Node, NodeGraph, parse_input

DATA = Path(__file__).parent / "data" / "partitions"
WORKER = "/job:worker/replica:0/task:0"
PS = "/job:ps/replica:0/task:0"
CASES = {
    "dedupe": ([], ["c:0"]),
    "control_edge": ([], ["z:0"]),
    "feed_fetch": (["x:0"], ["y:0"]),
    "cond": (["p:0"], ["cond/Merge:0"]),
    "loop": ([], ["while/Exit_1:0"]),
}
# Attributes of TensorFlow's nodes that say what they do. Names of edges and numbers of lives may differ.
ATTRS = ("T", "N", "dtype", "tensor_type", "frame_name", "parallel_iterations", "is_constant", "send_device")
MORE_ATTRS = ("recv_device", "client_terminated", "_src", "value")


def read(name: str) -> graph_pb2.GraphDef:
    text = (DATA / f"{name}.pbtxt").read_text()
    return text_format.Parse(text, graph_pb2.GraphDef(), allow_unknown_field=True)


def fingerprints(graph: graph_pb2.GraphDef, originals: set[str]) -> Counter[str]:
    by_name = {n.name: n for n in graph.node}
    colour: dict[str, str] = {}
    for n in graph.node:
        text = [n.op, n.device, n.name if n.name in originals else ""]
        for attr in (*ATTRS, *MORE_ATTRS):
            if attr in n.attr:
                text.append(f"{attr}={n.attr[attr].SerializeToString(deterministic=True)!r}")
        colour[n.name] = digest(text)
    for _ in range(12):
        around = {}
        users: dict[str, list[str]] = {name: [] for name in by_name}
        for n in graph.node:
            data, controls = [], []
            for i, text_input in enumerate(n.input):
                source, slot = parse_input(text_input)
                if slot < 0:
                    controls.append(colour[source])
                    users[source].append(f"^{colour[n.name]}")
                else:
                    data.append(f"{colour[source]}:{slot}")
                    users[source].append(f"{slot}>{i}{colour[n.name]}")
            around[n.name] = [colour[n.name], *data, "^", *sorted(controls)]
        colour = {name: digest([*around[name], "|", *sorted(users[name])]) for name in by_name}
    return Counter(colour.values())


def digest(parts: list[str]) -> str:
    return hashlib.blake2b("\n".join(parts).encode(), digest_size=12).hexdigest()


def normal(graph: graph_pb2.GraphDef) -> graph_pb2.GraphDef:
    """Without what says nothing.

    TensorFlow counts control edges from driver loops and leaves some on nodes whose receives have them already; and it
    calls receives of 32-bit integers host receives, also on CPUs, where they are the same.
    """
    for n in graph.node:
        n.op = {"_HostRecv": "_Recv", "_HostSend": "_Send"}.get(n.op, n.op)
        # The source may be a node of the first split, with a number in its name.
        if "_src" in n.attr:
            del n.attr["_src"]
        if n.op != "_Recv":
            for text in [i for i in n.input if i.startswith("^_cloop")]:
                n.input.remove(text)
    return graph


PLACEMENTS = sorted((DATA.parent / "placements").glob("*.pb"))


@pytest.mark.parametrize("path", PLACEMENTS, ids=lambda p: p.stem)
def test_random_graphs_are_placed_and_split_as_tensorflow_does(path: Path) -> None:
    metadata = config_pb2.RunMetadata.FromString(path.read_bytes())
    client = metadata.function_graphs[0].pre_optimization_graph
    theirs = {part.node[0].device: normal(part) for part in metadata.partition_graphs}
    ends = [n for part in theirs.values() for n in part.node if "client_terminated" in n.attr]
    fetches = [n.attr["tensor_name"].s.decode() for n in ends if n.op == "_Send" and n.attr["client_terminated"].b]
    names = [f"{task}/device:CPU:{i}" for task in (PS, WORKER) for i in (0, 1)]
    devices = DeviceSet([DeviceInfo(n, "CPU", i + 1) for i, n in enumerate(names)], WORKER)
    options = CompileOptions()
    options.graph_options.rewrite_options.disable_meta_optimizer = True
    prepared = prepare(NodeGraph.from_graph_def(client), devices, options)
    step = compile_step(prepared, ["p:0", "b:0"], fetches, [], devices, options)
    ours = {}
    for part in step.partitions.values():
        for device, piece in split_by_device(part, devices.incarnations()).items():
            ours[device] = normal(piece.to_graph_def())
    assert ours.keys() == theirs.keys()
    originals = {n.name for n in client.node}
    for device, want in theirs.items():
        assert fingerprints(ours[device], originals) == fingerprints(want, originals)


def partitions_of(name: str) -> dict[str, NodeGraph]:
    feeds, fetches = CASES[name]
    graph = NodeGraph.from_graph_def(read(f"{name}.client"))
    devices = DeviceSet(
        [
            DeviceInfo(f"{PS}/device:CPU:0", "CPU", 8297945785105701502),
            DeviceInfo(f"{WORKER}/device:CPU:0", "CPU", (1 << 64) - 3173805634562534932),
        ],
        WORKER,
    )
    options = CompileOptions()
    # The data shows what the partitioner does, so nothing is optimised away before.
    options.graph_options.rewrite_options.disable_meta_optimizer = True
    return compile_step(prepare(graph, devices), feeds, fetches, [], devices, options).partitions


@pytest.mark.parametrize("name", CASES)
def test_partitions_have_tensorflows_structure(name: str) -> None:
    ours = {task: part.to_graph_def() for task, part in partitions_of(name).items()}
    theirs = {}
    for part in (read(f"{name}.part0"), read(f"{name}.part1")):
        theirs[part.node[0].device.split("/device:")[0]] = part
    assert ours.keys() == theirs.keys()
    originals = {n.name for n in read(f"{name}.client").node}
    for task, want in theirs.items():
        assert len(ours[task].node) == len(want.node)
        assert fingerprints(ours[task], originals) == fingerprints(want, originals)


@pytest.mark.parametrize("name", CASES)
def test_every_send_has_a_receive_under_the_same_key(name: str) -> None:
    parts = partitions_of(name)

    def keys(kind: str) -> Counter[tuple[object, ...]]:
        return Counter(key(n) for part in parts.values() for n in part if n.op.endswith(kind))

    def key(node: Node) -> tuple[object, ...]:
        names = ("send_device", "send_device_incarnation", "recv_device", "tensor_name")
        return tuple(node.attr(a) for a in names)

    client = {key(n) for part in parts.values() for n in part if n.attr("client_terminated")}
    sends = {k: c for k, c in keys("Send").items() if k not in client}
    receives = {k: c for k, c in keys("Recv").items() if k not in client}
    assert sends == receives
    assert set(sends.values()) <= {1}


@pytest.mark.parametrize("name", CASES)
def test_ranks_follow_edges_also_between_tasks(name: str) -> None:
    parts = partitions_of(name)
    sends = {n.attr("tensor_name"): n.rank for p in parts.values() for n in p if n.op in ("_Send", "_HostSend")}
    for part in parts.values():
        for node in part:
            for edge in node.inputs:
                if edge.node.op != "NextIteration":
                    assert edge.node.rank < node.rank
            assert all(source.rank < node.rank for source in node.control_inputs)
            if node.op in ("_Recv", "_HostRecv") and not node.attr("client_terminated"):
                assert sends[node.attr("tensor_name")] < node.rank
