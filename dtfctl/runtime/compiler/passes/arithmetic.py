"""Arithmetic identities that hold for every value, NaN, infinities and the sign of zero included."""

from __future__ import annotations

import math
from functools import cache

from dtfctl.runtime.compiler.passes.fold import constant_of
from dtfctl.runtime.compiler.passes.rewrite import follow, reconnect
from dtfctl.runtime.framework.node_graph import Edge, Node, NodeGraph
from dtfctl.runtime.framework.structural_ops import CONTROL_FLOW
from dtfctl.runtime.kernels.registry import find_kernel, kernels_of, op_promises


def simplify(graph: NodeGraph) -> bool:
    """Let consumers bypass nodes that give what they got; True when there were any."""
    moved: dict[Edge, Edge] = {}
    for node in graph:
        if len(node.output_types) != 1 or node.control_inputs or not node.inputs:
            continue
        same = _equal_input(node, moved)
        if same is None:
            continue
        same = follow(moved, same)
        # A consumer elsewhere would get another transfer, and one of a variable would read it at another time.
        if same.node is not node and same.node.device == node.device and not same.dtype.is_ref:
            moved[Edge(node, 0)] = same
    reconnect(graph, moved)
    return bool(moved)


def _equal_input(node: Node, moved: dict[Edge, Edge]) -> Edge | None:
    """Return the edge whose value the node's output always equals."""
    op, inputs = node.op, node.inputs
    if op_promises(op, "passes"):
        return None if op in CONTROL_FLOW or op_promises(op, "reads_outside") else inputs[0]
    if op == "Cast":
        return inputs[0] if node.attr("SrcT") is node.attr("DstT") else None
    if op == "Transpose":
        return _transposed(node, moved)
    if op == "Reshape":
        return _reshaped(node, moved)
    kernel = find_kernel(node, "CPU") if _may_give_back(op) else None
    if kernel is None:
        return None
    if kernel.promises.undoes_itself:
        inner = follow(moved, inputs[0]).node
        return inner.inputs[0] if inner.op == op and not inner.control_inputs else None
    for at, number in enumerate(kernel.promises.neutral):
        if number is not None and _is_scalar(inputs[at], number):
            return inputs[1 - at]
    return None


@cache
def _may_give_back(op: str) -> bool:
    """Tell whether a kernel of the op promises to give back what it got for some operands."""
    return any(s.promises.undoes_itself or s.promises.neutral for s in kernels_of(op))


def _is_scalar(edge: Edge, number: float) -> bool:
    """Tell whether an edge is a constant without dimensions and of this value, with this sign if it is a float.

    Then the other operand's shape is the result's. Complex ones do not count: infinite parts would become NaN.
    """
    if edge.node.op != "Const" or edge.node.control_inputs or edge.dtype.kind not in ("float", "int", "uint"):
        return False
    value = constant_of(edge)
    if value is None or value.ndim or not bool(value == number):
        return False
    return edge.dtype.kind != "float" or math.copysign(1, float(value)) == math.copysign(1, number)


def _transposed(node: Node, moved: dict[Edge, Edge]) -> Edge | None:
    order = _permutation(node.inputs[1])
    if order is None:
        return None
    if order == sorted(order):
        # The rank is checked by the op: only a constant of as many dimensions as the tensor has is right.
        return None
    inner = follow(moved, node.inputs[0]).node
    if inner.op != "Transpose" or inner.control_inputs:
        return None
    first = _permutation(inner.inputs[1])
    if first is None or len(first) != len(order) or [first[i] for i in order] != list(range(len(order))):
        return None
    return inner.inputs[0]


def _permutation(edge: Edge) -> list[int] | None:
    value = constant_of(edge)
    if value is None or value.ndim != 1 or edge.node.control_inputs:
        return None
    order = [int(i) for i in value]
    return order if sorted(order) == list(range(len(order))) else None


def _reshaped(node: Node, moved: dict[Edge, Edge]) -> Edge | None:
    """Skip the first of two reshapes to known shapes of one size, which does not matter."""
    edge = follow(moved, node.inputs[0])
    inner = edge.node
    if inner.op != "Reshape" or inner.control_inputs or inner.device != node.device:
        return None
    first, second = _shape(inner.inputs[1]), _shape(node.inputs[1])
    source = follow(moved, inner.inputs[0])
    if first is None or second is None or source.dtype.is_ref or source.node.device != node.device:
        return None
    if math.prod(first) == math.prod(second):
        node.inputs[0] = source
    return None


def _shape(edge: Edge) -> list[int] | None:
    value = constant_of(edge)
    if value is None or value.ndim != 1:
        return None
    shape = [int(d) for d in value]
    return shape if all(d >= 0 for d in shape) else None
