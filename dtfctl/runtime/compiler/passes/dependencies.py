"""Nodes that others only wait for: what has no effect and gives nothing anybody takes need not be computed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection

from dtfctl.runtime.compiler.order import inputs_first
from dtfctl.runtime.compiler.passes.rewrite import become, is_pure
from dtfctl.runtime.framework.node_graph import Node, NodeGraph
from dtfctl.runtime.framework.structural_ops import SWITCHES_OF_ANY
from dtfctl.runtime.kernels.registry import op_promises


def drop_idle(graph: NodeGraph, protected: Collection[Node]) -> bool:
    """Make a NoOp of every node that is waited for but not used; True when there were any.

    Gradients are full of them: all gradients of an op wait for each other, also for those nobody wants.
    """
    users: dict[Node, int] = defaultdict(int)
    for node in graph:
        for edge in node.inputs:
            users[edge.node] += 1
    changed = False
    for node in reversed(inputs_first(graph)):
        if users[node] or node in protected or not node.inputs or not is_pure(node):
            continue
        if op_promises(node.op, "checks"):
            continue
        sources = [e.node for e in node.inputs]
        # Who waits for one output of these waits for one branch; who waits for the node itself waits for neither.
        if any(source.op in SWITCHES_OF_ANY for source in sources):
            continue
        for source in sources:
            users[source] -= 1
        node.control_inputs = list(dict.fromkeys([*node.control_inputs, *sources]))
        node.inputs = []
        become(node, "NoOp", {})
        changed = True
    return changed
