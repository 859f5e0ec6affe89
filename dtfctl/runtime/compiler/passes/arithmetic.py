"""Arithmetic identities that hold for every value, NaN, infinities and the sign of zero included."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dtfctl.runtime.compiler.order import CONTROL_FLOW
from dtfctl.runtime.compiler.passes.fold import constant_of
from dtfctl.runtime.compiler.passes.rewrite import follow, reconnect
from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.node_graph import Edge, Node, NodeGraph
from dtfctl.runtime.kernels.registry import op_promises

_INVOLUTIONS = frozenset(("Neg", "LogicalNot", "Conj", "Invert"))


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
    if op in _INVOLUTIONS:
        inner = follow(moved, inputs[0]).node
        return inner.inputs[0] if inner.op == op and not inner.control_inputs else None
    if op in ("Add", "AddV2"):
        for at in (0, 1):
            if _is_scalar(inputs[at], _adds_nothing):
                return inputs[1 - at]
    elif op == "Mul":
        for at in (0, 1):
            if _is_scalar(inputs[at], _is_one):
                return inputs[1 - at]
    elif op == "Sub":
        return inputs[0] if _is_scalar(inputs[1], _subtracts_nothing) else None
    elif op in ("Div", "RealDiv", "Pow"):
        return inputs[0] if _is_scalar(inputs[1], _is_one) else None
    elif op == "Transpose":
        return _transposed(node, moved)
    elif op == "Reshape":
        return _reshaped(node, moved)
    return None


def _is_scalar(edge: Edge, test: Any) -> bool:
    """Tell whether an edge is a constant without dimensions that passes `test`:
    the other operand's shape is the result's."""
    if edge.node.op != "Const" or edge.node.control_inputs:
        return False
    if edge.dtype.kind not in ("float", "int", "uint", "complex") or edge.dtype is dtypes.string:
        return False
    value = constant_of(edge)
    return value is not None and value.ndim == 0 and bool(test(value))


def _is_one(value: np.ndarray[Any, Any]) -> bool:
    # With a complex one, infinite parts would become NaN.
    return value.dtype.kind != "c" and bool(value == 1)


def _adds_nothing(value: np.ndarray[Any, Any]) -> bool:
    """Tell whether a constant adds nothing: for floats minus zero is the neutral element, as -0 + 0 is 0."""
    if value.dtype.kind in "iu":
        return bool(value == 0)
    return value.dtype.kind != "c" and float(value) == 0 and math.copysign(1, float(value)) < 0


def _subtracts_nothing(value: np.ndarray[Any, Any]) -> bool:
    if value.dtype.kind in "iu":
        return bool(value == 0)
    return value.dtype.kind != "c" and float(value) == 0 and math.copysign(1, float(value)) > 0


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
