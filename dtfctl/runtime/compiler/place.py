"""Placement: which device each node of a graph runs on."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from dtfctl.runtime.compiler.colocation import ColocationGraph
from dtfctl.runtime.compiler.devices import DeviceInfo, DeviceSet
from dtfctl.runtime.framework.node_graph import Node, NodeGraph
from dtfctl.runtime.kernels.registry import op_promises

log = logging.getLogger(__name__)
# What they give stands for their input, which stays where it is.
_SESSION_HANDLES = frozenset(("GetSessionHandle", "GetSessionHandleV2"))


def place(
    graph: NodeGraph,
    devices: DeviceSet,
    pinned: Mapping[str, str] | None = None,
    allow_soft_placement: bool = False,
) -> dict[str, str]:
    """Choose the full device name of every node, by node name.

    Args:
        graph: the whole graph; nodes hold the devices they ask for.
        pinned: devices of nodes that were placed before and must stay: the stateful ones.
        allow_soft_placement: use another kind of device where the one asked for does not exist or has no kernel.

    Raises:
        InvalidArgumentError: a node cannot be placed; the message and the error's node say which and why.
    """
    groups = ColocationGraph(graph, devices, dict(pinned or {}), allow_soft_placement)
    assigned: dict[Node, DeviceInfo] = {}
    users = _Users(graph)
    generators: list[Node] = []
    for node in graph:
        fixed = groups.assigned(node)
        if fixed is not None:
            assigned[node] = fixed
        elif _is_generator(node):
            generators.append(node)
        else:
            candidates = groups.candidates(node)
            chosen = candidates[0]
            if len(candidates) > 1 and node.inputs and _follows_input(node, users):
                beside = assigned.get(node.inputs[0].node)
                if beside in candidates:
                    assert beside is not None
                    chosen = beside
            assigned[node] = chosen
            groups.assign(node, chosen)
    for node in generators:
        fixed = groups.assigned(node)
        if fixed is not None:
            assigned[node] = fixed
            continue
        candidates = groups.candidates(node)
        chosen = candidates[0]
        if len(candidates) > 1:
            beside_users = {assigned.get(c) for c in users.of(node)}
            if len(beside_users) == 1:
                (only,) = beside_users
                if only is not None and only in candidates:
                    chosen = only
        assigned[node] = chosen
        groups.assign(node, chosen)
    return {node.name: device.name for node, device in assigned.items()}


class _Users:
    """Who takes what a node gives, or waits for it; found when that is first asked for, which it need not be."""

    def __init__(self, graph: NodeGraph) -> None:
        self._graph = graph
        self._users: dict[Node, list[Node]] = {}

    def of(self, node: Node) -> Sequence[Node]:
        if not self._users:
            for user in self._graph:
                for source, _ in user.inputs:
                    self._users.setdefault(source, []).append(user)
                for source in user.control_inputs:
                    self._users.setdefault(source, []).append(user)
        return self._users.get(node, ())


def placement_log(graph: NodeGraph, placement: Mapping[str, str]) -> list[str]:
    """Write a line a node, as `log_device_placement` prints them."""
    return [f"{node.name}: ({node.op}): {placement[node.name]}" for node in graph]


def _is_generator(node: Node) -> bool:
    return not node.inputs and len(node.output_types) == 1 and not node.output_types[0].is_ref


def _follows_input(node: Node, consumers: _Users) -> bool:
    """Tell whether a node goes with its input: it asks for its shape only, or stands for it.

    So does an Identity that nobody placed, between two nodes that ask for the same. Where nobody consumes it, it counts
    as consumed by something that asks for nothing.
    """
    if node.op in _SESSION_HANDLES or op_promises(node.op, "of_shapes"):
        return True
    if node.op != "Identity" or node.device or node.control_inputs:
        return False
    users = consumers.of(node)
    if len(users) > 1:
        return False
    return node.inputs[0].node.device == (users[0].device if users else "")
