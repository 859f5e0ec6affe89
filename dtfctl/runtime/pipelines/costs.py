"""Measures what the ops of a micro-batch take, forwards and backwards, to cut a model into stages by that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dtfctl.protocol import config_pb2, graph_pb2
from dtfctl.runtime.client.session import Session
from dtfctl.runtime.framework.gradients import gradients
from dtfctl.runtime.framework.graph import Graph
from dtfctl.runtime.framework.graph_keys import GraphKeys
from dtfctl.runtime.framework.importer import import_graph_def
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.framework.structural_ops import VARIABLES
from dtfctl.runtime.pipelines.cuts import balanced, crossing_bytes, stage_at
from dtfctl.runtime.pipelines.microbatches import Call
from dtfctl.runtime.pipelines.stages import Devices, relevant_ops

_RUNS = 3


@dataclass(frozen=True)
class Cut:
    """A model's stages.

    Attributes:
        stages: of the ops that depend on the micro-batch, by their names within it.
        seconds: what each stage takes for one micro-batch, forwards and backwards.
        sent: bytes between each stage and the next, forwards.
    """

    stages: dict[str, int]
    seconds: tuple[float, ...]
    sent: tuple[int, ...]

    def place(self, call: Call, devices: Devices) -> None:
        """Give the ops of a call the devices of their stages.

        Raises:
            ValueError: the model has placed an op itself.
        """
        order, dependent = relevant_ops(call)
        for op in order:
            if op not in dependent:
                continue
            if op.device:
                raise ValueError(
                    f"{op.name} is on {op.device}: where a model is cut as measured, it places no op itself"
                )
            stage = self.stages.get(_within(op.name, call.scope))
            if stage is not None:
                op._set_device(devices.names[stage])


def _within(name: str, scope: str) -> str:
    return name.removeprefix(scope)


def measure(call: Call, stages: int) -> Cut:
    """Run a micro-batch of zeros in this process, op by op, and cut its model where that balances the stages.

    Raises:
        ValueError: the shape of an argument is not known, or there are fewer ops than stages.
        LookupError: an op has no gradient that could be measured.
    """
    order, dependent = relevant_ops(call)
    row = sorted((op for op in order if op in dependent), key=lambda op: op._id)
    seconds, sizes = _traced(call, order)
    costs = [seconds.get(op.name, 0.0) for op in row]
    place = {op: i for i, op in enumerate(row)}
    last = list(range(len(row)))
    for i, op in enumerate(row):
        for source in {t.op for t in op.inputs} & place.keys():
            last[place[source]] = max(last[place[source]], i)
    crossing = crossing_bytes([sizes.get(op.name, 0) for op in row], last)
    begins = balanced(costs, crossing, stages)
    ends = [*begins[1:], len(row)]
    return Cut(
        {_within(op.name, call.scope): stage_at(begins, i) for i, op in enumerate(row)},
        tuple(sum(costs[a:b]) for a, b in zip(begins, ends)),
        tuple(crossing[b] for b in begins[1:]),
    )


def _traced(call: Call, order: Sequence[Operation]) -> tuple[dict[str, float], dict[str, int]]:
    """Return the seconds that each op takes, with its gradient, and the bytes that it gives, by its name."""
    feeds = {t.name: _sample(t) for t in call.inputs}
    graph = Graph()
    with graph.as_default():
        import_graph_def(_without_devices(call.loss.graph), name="")
        handles = [op.outputs[0].name for op in order if op.type in VARIABLES]
        wanted = [graph.get_tensor_by_name(name) for name in handles]
        floating = [t for t in wanted if t.dtype.name == "resource" or t.dtype.base_dtype.is_floating]
        loss = graph.get_tensor_by_name(call.loss.name)
        found = [g for g in gradients(loss, floating, name="gradients") if g is not None]
        targets = [loss.op, *((g.op if isinstance(g, Tensor) else g.values.op) for g in found)]
        with Session(graph=graph) as session:
            session.run([graph.get_operation_by_name(name) for name in _initializers(call, handles)])
            session.run(targets, feeds)
            runs = []
            for _ in range(_RUNS):
                told = config_pb2.RunMetadata()
                options = config_pb2.RunOptions(trace_level=config_pb2.RunOptions.FULL_TRACE)
                session.run(targets, feeds, options=options, run_metadata=told)
                runs.append(told)
    return _by_forward_op(runs, {op.name for op in order})


def context_graph(call: Call) -> Graph:
    return call.loss.graph


def _sample(tensor: Tensor) -> Any:
    if not tensor.shape.is_fully_defined():
        raise ValueError(
            f"The shape of {tensor.name} is {tensor.shape}: to be cut as measured, a model is given batches of known "
            "shape (set_shape, or batch(n, drop_remainder=True))"
        )
    return np.zeros(tensor.shape.as_list(), tensor.dtype.as_numpy_dtype)


def _without_devices(graph: Graph) -> graph_pb2.GraphDef:
    definition = graph.as_graph_def()
    for node in definition.node:
        node.device = ""
    return definition


def _initializers(call: Call, handles: Sequence[str]) -> list[str]:
    """List the ops that initialize a call's variables."""
    graph, wanted = call.loss.graph, {name.rpartition(":")[0] for name in handles}
    keys = (GraphKeys.GLOBAL_VARIABLES, GraphKeys.LOCAL_VARIABLES)
    known = {v.op.name: v for key in keys for v in graph.get_collection(key)}
    return [known[name].initializer.name for name in sorted(wanted & known.keys())]


def _by_forward_op(runs: Sequence[Any], names: set[str]) -> tuple[dict[str, float], dict[str, int]]:
    """Add up what ops and their gradients took, each at its fastest."""
    fastest: dict[str, float] = {}
    sizes: dict[str, int] = {}
    for run in runs:
        for device in run.step_stats.dev_stats:
            for node in device.node_stats:
                took = node.all_end_rel_nanos / 1e9
                fastest[node.node_name] = min(took, fastest.get(node.node_name, took))
                if node.node_name in names:
                    sizes[node.node_name] = sum(
                        o.tensor_description.allocation_description.requested_bytes for o in node.output
                    )
    seconds: dict[str, float] = {}
    for name, took in fastest.items():
        forward = name if name in names else _differentiated(name, names)
        if forward is not None:
            seconds[forward] = seconds.get(forward, 0.0) + took
    return seconds, sizes


def _differentiated(name: str, names: set[str]) -> str | None:
    """Find the op whose gradient a node is part of, by its name."""
    if not name.startswith("gradients/"):
        return None
    rest, at = name.removeprefix("gradients/"), 0
    while (at := rest.find("_grad", at)) >= 0:
        if rest[:at] in names:
            return rest[:at]
        at += 1
    return None
