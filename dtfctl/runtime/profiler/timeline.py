"""Step statistics as a Chrome trace (chrome://tracing, Perfetto)."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from dtfctl.protocol import stats_pb2

# An arrow begins and ends within a bar, and not at its edge, where it may be taken for another's (microseconds).
_INSIDE = 0.1
_ALLOCATORS = 0
_LABEL = re.compile(r"(.*) = (.*)\((.*)\)", re.DOTALL)
# What a task gets is named after what another sends.
_RECEIVED = re.compile(r"(.+)_S\d+")

Event = dict[str, Any]


@dataclass
class _Bar:
    """A node that ran; times are microseconds."""

    name: str
    op: str
    inputs: list[str]
    at: dict[str, int]
    start: int
    end: int


@dataclass
class _Held:
    """A tensor, until the last that takes it has ended."""

    number: int
    pid: int
    made: int
    until: int
    size: int
    allocator: str
    described: str


class Timeline:
    """A traced step.

    Args:
        step_stats: `RunMetadata.step_stats` of a run with FULL_TRACE.
    """

    def __init__(self, step_stats: stats_pb2.StepStats, graph: Any = None) -> None:
        self._stats = step_stats

    def generate_chrome_trace_format(self, show_dataflow: bool = True, show_memory: bool = False) -> str:
        """Write JSON with TensorFlow's names: a bar a node, called as its op; times in microseconds.

        A device has two processes, "Compute" and "Tensors"; "Allocators" has counters.

        Args:
            show_dataflow: an arrow from each node to those that take its values, also in other tasks.
            show_memory: each tensor from when it is made until the last that takes it has ended, and how many bytes
                there are by allocator.
        """
        events = [_process(_ALLOCATORS, "Allocators")]
        bars: list[_Bar] = []
        tensors: dict[str, _Held] = {}
        for number, device in enumerate(self._stats.dev_stats):
            compute, held = 2 * number + 1, 2 * number + 2
            events += [_process(compute, f"{device.device} Compute"), _process(held, f"{device.device} Tensors")]
            for bar, node in _bars(device, compute):
                bars.append(bar)
                for output in node.output:
                    name = f"{bar.name}:{output.slot}" if output.slot else bar.name
                    what = output.tensor_description.allocation_description
                    described = str(output.tensor_description).replace('"', "")
                    tensors[name] = _Held(
                        len(tensors), held, bar.start, bar.end, what.requested_bytes, what.allocator_name, described
                    )
        made = {bar.name: bar for bar in bars}
        events += [_drawn(bar) for bar in bars]
        flows = 0
        for bar in bars:
            for source in _sources(bar, made):
                if source in tensors:
                    tensors[source].until = max(tensors[source].until, bar.end)
                of = made.get(source.partition(":")[0])
                if show_dataflow and of is not None:
                    events += _arrow(flows, source, of, bar)
                    flows += 1
        if show_memory:
            events += _memory(tensors)
        return json.dumps({"traceEvents": events}, separators=(",", ":"))


def _process(pid: int, name: str) -> Event:
    return {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}}


def _bars(device: stats_pb2.DeviceStepStats, pid: int) -> Iterator[tuple[_Bar, stats_pb2.NodeExecStats]]:
    """Yield nodes in rows: each in the first that is free when it begins."""
    free: list[int] = []
    for node in sorted(device.node_stats, key=lambda node: node.all_start_micros):
        start = node.all_start_micros
        end = start + max(node.all_end_rel_micros, 1)
        row = next((row for row, until in enumerate(free) if until <= start), len(free))
        free[row : row + 1] = [end]
        found = _LABEL.fullmatch(node.timeline_label)
        op, inputs = (found[2], found[3]) if found is not None else ("unknown", "")
        at = {"pid": pid, "tid": row}
        yield _Bar(node.node_name, op, inputs.split(", ") if inputs else [], at, start, end), node


def _drawn(bar: _Bar) -> Event:
    args = {"name": bar.name, "op": bar.op, **{f"input{place}": name for place, name in enumerate(bar.inputs)}}
    return {"ph": "X", "cat": "Op", "name": bar.op, **bar.at, "ts": bar.start, "dur": bar.end - bar.start, "args": args}


def _sources(bar: _Bar, made: dict[str, _Bar]) -> list[str]:
    """Name what a node takes; what it receives comes from the node in another process that made it."""
    sent = _RECEIVED.fullmatch(bar.name) if bar.op == "_Recv" else None
    if sent is None or sent[1] not in made or made[sent[1]].at["pid"] == bar.at["pid"]:
        return bar.inputs
    return [sent[1]]


def _arrow(number: int, source: str, of: _Bar, to: _Bar) -> Iterator[Event]:
    tie = {"cat": "DataFlow", "name": source, "id": number}
    begins = of.end - _INSIDE
    yield {"ph": "s", **tie, **of.at, "ts": begins}
    yield {"ph": "f", "bp": "e", **tie, **to.at, "ts": max(to.start + _INSIDE, begins)}


def _memory(tensors: dict[str, _Held]) -> Iterator[Event]:
    changes: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for name, held in tensors.items():
        at = {"cat": "Tensor", "name": name, "pid": held.pid, "tid": 0, "id": held.number}
        yield {"ph": "N", **at, "ts": held.made}
        yield {"ph": "O", **at, "ts": held.made, "args": {"snapshot": {"tensor_description": held.described}}}
        yield {"ph": "D", **at, "ts": held.until}
        changes[held.allocator] += [(held.made, held.size), (held.until, -held.size)]
    for allocator, steps in changes.items():
        total = 0
        for when, size in sorted(steps):
            total += size
            counter = {"cat": "Memory", "name": allocator, "pid": _ALLOCATORS, "tid": 0}
            yield {"ph": "C", **counter, "ts": when, "args": {allocator: total}}
