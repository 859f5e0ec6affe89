"""What is known of each node of a graph: its type, what it holds, and what it took in the steps that were traced."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any

from dtfctl.protocol import config_pb2, stats_pb2
from dtfctl.runtime.framework.graph import Graph
from dtfctl.runtime.framework.graph_keys import GraphKeys
from dtfctl.runtime.framework.operation import Operation
from dtfctl.runtime.framework.structural_ops import VARIABLES
from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.profiler.model.float_ops import float_ops
from dtfctl.runtime.profiler.model.options import TRAINABLE


@dataclass
class Figures:
    """What is counted of a node, or of several together; times are microseconds.

    Attributes:
        occurrence: nodes of the graph. run_count: how often they ran in the traced steps.
    """

    micros: int = 0
    accelerator_micros: int = 0
    cpu_micros: int = 0
    bytes: int = 0
    peak_bytes: int = 0
    residual_bytes: int = 0
    output_bytes: int = 0
    params: int = 0
    float_ops: int = 0
    occurrence: int = 0
    run_count: int = 0

    def add(self, other: Figures) -> None:
        for name in _NAMES:
            setattr(self, name, getattr(self, name) + getattr(other, name))


_NAMES = [item.name for item in fields(Figures)]


@dataclass
class Node:
    """A node of the graph.

    Attributes:
        types: what options choose by: its op, its devices, "_trainable_variables".
    """

    name: str
    op: str
    types: set[str]
    inputs: list[str]
    figures: Figures
    devices: list[str] = field(default_factory=list)
    shapes: list[TensorShape] = field(default_factory=list)
    input_shapes: list[TensorShape] = field(default_factory=list)
    variable_shape: tuple[int, ...] = ()
    made_by: Operation | None = None

    def is_counted(self, regexes: Sequence[str]) -> bool:
        return any(re.fullmatch(regex, kind) for regex in regexes for kind in self.types)

    def lines(self) -> list[str]:
        """List the calls of the program that made it, outermost first, as TensorFlow writes them."""
        frames = self.made_by.traceback if self.made_by is not None else []
        return [f"{Path(frame.filename).name}:{frame.lineno}:{frame.name}" for frame in frames]


def nodes_of(graph: Graph, steps: Iterable[config_pb2.RunMetadata]) -> dict[str, Node]:
    """Gather what is known of a graph's nodes, by name.

    Args:
        steps: metadata of traced steps; times and memory are those of an average one.
    """
    ran = _ran([stats for step in steps for stats in (step.step_stats,)])
    trainable = {
        getattr(variable, "handle", variable).op.name
        for variable in graph.get_collection(GraphKeys.TRAINABLE_VARIABLES)
    }
    shapes = {op.name: _shapes(op, ran.get(op.name)) for op in graph.get_operations()}
    found = {}
    for op in graph.get_operations():
        known = ran.get(op.name) or _Ran()
        kinds = {op.type, *known.devices, *([TRAINABLE] if op.name in trainable else [])}
        if not known.devices and op.device:
            kinds.add(op.device.lower())
        sources = [shapes[t.op.name][t.value_index] for t in op.inputs]
        figures = known.figures()
        figures.occurrence = 1
        figures.params = math.prod(_variable_shape(op)) if op.type in VARIABLES else 0
        figures.float_ops = float_ops(op.type, sources, shapes[op.name], partial(_attr, op))
        found[op.name] = Node(
            op.name,
            op.type,
            kinds,
            [t.op.name for t in op.inputs],
            figures,
            sorted(known.devices),
            shapes[op.name],
            sources,
            _variable_shape(op),
            op,
        )
    return found


class _Ran:
    """What runs of a node took."""

    def __init__(self) -> None:
        self.devices: set[str] = set()
        self.steps = 0
        self._sums = Figures()
        self.shapes: dict[int, TensorShape] = {}

    def add(self, device: str, stats: stats_pb2.NodeExecStats) -> None:
        self.devices.add(device)
        micros = max(stats.op_end_rel_micros, 1)
        on_gpu = "/device:gpu" in device
        outputs = [output.tensor_description for output in stats.output]
        size = sum(output.allocation_description.requested_bytes for output in outputs)
        requested = sum(memory.total_bytes for memory in stats.memory) if stats.memory else size
        peak = sum(memory.peak_bytes for memory in stats.memory) if stats.memory else size
        residual = sum(memory.live_bytes for memory in stats.memory) if stats.memory else size
        self._sums.add(
            Figures(
                micros=micros,
                accelerator_micros=micros if on_gpu else 0,
                cpu_micros=0 if on_gpu else micros,
                bytes=requested,
                peak_bytes=peak,
                residual_bytes=residual,
                output_bytes=size,
                run_count=1,
            )
        )
        for output in stats.output:
            self.shapes[output.slot] = TensorShape(output.tensor_description.shape)

    def figures(self) -> Figures:
        """Give those of an average step."""
        count = max(self.steps, 1)
        return Figures(**{name: getattr(self._sums, name) // count for name in _NAMES})


def _ran(steps: Sequence[stats_pb2.StepStats]) -> Mapping[str, _Ran]:
    found: dict[str, _Ran] = {}
    for step in steps:
        seen = set()
        for device in step.dev_stats:
            for stats in device.node_stats:
                ran = found.setdefault(stats.node_name, _Ran())
                ran.add(device.device.lower(), stats)
                seen.add(stats.node_name)
        for name in seen:
            found[name].steps += 1
    return found


def _shapes(op: Operation, ran: _Ran | None) -> list[TensorShape]:
    seen = ran.shapes if ran is not None else {}
    return [
        output.shape if output.shape.is_fully_defined() else seen.get(slot, output.shape)
        for slot, output in enumerate(op.outputs)
    ]


def _variable_shape(op: Operation) -> tuple[int, ...]:
    shape = TensorShape(_attr(op, "shape")) if op.type in VARIABLES else TensorShape([])
    return tuple(shape.known()) if shape.is_fully_defined() else ()


def _attr(op: Operation, name: str) -> Any:
    try:
        return op.get_attr(name)
    except ValueError:
        return None
