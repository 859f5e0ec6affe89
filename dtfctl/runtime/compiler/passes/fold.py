"""Constant folding: what depends on constants only is computed once, by the kernels the step would run."""

from __future__ import annotations

import logging
import math
from typing import Any

import numpy as np

from dtfctl.protocol import graph_pb2
from dtfctl.runtime.compiler.order import topological_order
from dtfctl.runtime.compiler.passes.rewrite import become, is_pure, reconnect, type_attr
from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.device import Device
from dtfctl.runtime.framework.dtypes import DType
from dtfctl.runtime.framework.node_graph import Edge, Node, NodeGraph, make_node
from dtfctl.runtime.framework.resource_manager import ResourceManager
from dtfctl.runtime.framework.tensor_codec import encode_tensor
from dtfctl.runtime.kernels.admission import result_bytes
from dtfctl.runtime.kernels.registry import KernelBuild, as_outputs, find_kernel

log = logging.getLogger(__name__)
# TensorFlow's default for `max_folded_constant_in_bytes`.
DEFAULT_LIMIT = 10 << 20
# Elements that inputs of a folded node may multiply to: broadcasting and products of matrices stay small.
_MAX_WORK = 1 << 24


def fold_constants(graph: NodeGraph, limit: int = DEFAULT_LIMIT) -> bool:
    """Replace nodes whose inputs are constants by constants of at most `limit` bytes; True when there were any.

    A constant that waits for other nodes (in a branch of a conditional, say) is folded too: its consumers then wait for
    the same nodes, and are dead when they are.
    """
    values: dict[Edge, np.ndarray[Any, Any]] = {}
    devices: dict[str, Device] = {}
    moved: dict[Edge, Edge] = {}
    changed = False
    for node in topological_order(graph):
        if not node.inputs or not all(e.node.op == "Const" or e in values for e in node.inputs) or not is_pure(node):
            continue
        inputs = [_value(e, values) for e in node.inputs]
        if not _is_bounded(node, inputs, limit):
            continue
        outputs = _compute(node, inputs, devices)
        if outputs is None or sum(_size(o) for o in outputs) > limit:
            continue
        controls = list(dict.fromkeys([*node.control_inputs, *(c for e in node.inputs for c in e.node.control_inputs)]))
        if len(outputs) == 1:
            _become_const(node, outputs[0], node.output_types[0], controls)
            values[Edge(node, 0)] = outputs[0]
        else:
            for i, (value, dtype) in enumerate(zip(outputs, node.output_types)):
                name = f"{node.name}/folded_{i}"
                if name in graph.nodes:
                    break
                const = graph.add(make_node(name, "NoOp", {}, device=node.device))
                _become_const(const, value, dtype, controls)
                values[Edge(const, 0)] = value
                moved[Edge(node, i)] = Edge(const, 0)
                values[Edge(node, i)] = value
        changed = True
    reconnect(graph, moved)
    return changed


def _value(edge: Edge, values: dict[Edge, np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    value = values.get(edge)
    if value is None:
        value = values[edge] = edge.node.attr("value")
    return value


def _is_bounded(node: Node, inputs: list[np.ndarray[Any, Any]], limit: int) -> bool:
    if "/device:CPU:" not in node.device:
        return False
    if math.prod(max(i.size, 1) for i in inputs) > _MAX_WORK and len(inputs) > 1:
        return False
    if sum(map(_size, inputs)) > limit:
        return False
    # What may make much of little says how much before it is run.
    return result_bytes(KernelBuild(node, Device(node.device), ResourceManager()), inputs) <= limit


def _size(value: np.ndarray[Any, Any]) -> int:
    if value.dtype == object:
        return sum(len(v) + 8 for v in value.reshape(-1) if isinstance(v, bytes))
    return int(value.nbytes)


def _compute(
    node: Node, inputs: list[np.ndarray[Any, Any]], devices: dict[str, Device]
) -> list[np.ndarray[Any, Any]] | None:
    """Compute the node's outputs, or None when that is better left to the step: it would fail,
    or has to be run in one."""
    spec = find_kernel(node, "CPU")
    if spec is None or spec.step or spec.blocking:
        return None
    device = devices.get(node.device)
    if device is None:
        device = devices[node.device] = Device(node.device)
    try:
        with np.errstate(all="ignore"):
            results = as_outputs(spec.factory(KernelBuild(node, device, ResourceManager()))(*inputs))
    except Exception as e:
        # Whatever a kernel raises (parsers have errors of their own): the step reports it, if it needs the node at all.
        log.debug("Not folding '%s': %s", node.name, e)
        return None
    if len(results) != len(node.output_types):
        return None
    out = []
    for value, dtype in zip(results, node.output_types):
        array = np.asarray(value)
        if array.dtype != dtype.np:
            return None
        out.append(array)
    return out


def _become_const(node: Node, value: np.ndarray[Any, Any], dtype: DType, controls: list[Node]) -> None:
    attr = graph_pb2.AttrValue()
    attr.tensor.CopyFrom(encode_tensor(value, dtype))
    become(node, "Const", {"value": attr, "dtype": type_attr(dtype)})
    node.inputs = []
    node.control_inputs = controls


def constant_of(edge: Edge) -> np.ndarray[Any, Any] | None:
    """Return the value on an edge that comes from a constant."""
    if edge.node.op != "Const" or edge.dtype in (dtypes.resource, dtypes.variant):
        return None
    value: np.ndarray[Any, Any] = edge.node.attr("value")
    return value
