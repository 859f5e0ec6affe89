"""Step statistics as a Chrome trace (chrome://tracing, Perfetto)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from dtfctl.protocol import stats_pb2

# An arrow begins and ends within a bar, and not at its edge, where it may be taken for another's (microseconds).
_INSIDE = 0.1


class Timeline:
    """A traced step.

    Args:
        step_stats: `RunMetadata.step_stats` of a run with FULL_TRACE.
    """

    def __init__(self, step_stats: stats_pb2.StepStats, graph: Any = None) -> None:
        self._stats = step_stats

    def generate_chrome_trace_format(self, show_dataflow: bool = True, show_memory: bool = False) -> str:
        """Write JSON: a process a device, a row a thread, a bar a node; times in microseconds.

        Args:
            show_dataflow: an arrow from each node to those that take its values.
            show_memory: how many bytes the outputs of nodes have come to.
        """
        events: list[dict[str, Any]] = []
        made: dict[str, tuple[dict[str, Any], float]] = {}
        inputs: list[tuple[str, dict[str, Any], float]] = []
        for pid, device in enumerate(self._stats.dev_stats):
            events.append({"ph": "M", "name": "process_name", "pid": pid, "args": {"name": device.device}})
            for node in device.node_stats:
                at = {"pid": pid, "tid": node.thread_id}
                start, spent = node.all_start_micros, max(node.all_end_rel_micros, 1)
                name = node.timeline_label or node.node_name
                args = {"name": node.node_name}
                events.append({"ph": "X", "cat": "Op", "name": name, **at, "ts": start, "dur": spent, "args": args})
                made[node.node_name] = at, start + spent - _INSIDE
                inputs += [(source, at, start + _INSIDE) for source in _inputs(node.timeline_label)]
            if show_memory:
                events += _memory(pid, device)
        if show_dataflow:
            for flow, (source, to, ends) in enumerate(inputs):
                if source in made:
                    of, begins = made[source]
                    tie = {"cat": "DataFlow", "name": source, "id": flow}
                    events.append({"ph": "s", **tie, **of, "ts": begins})
                    events.append({"ph": "f", "bp": "e", **tie, **to, "ts": max(ends, begins)})
        return json.dumps({"traceEvents": events}, indent=2)


def _inputs(label: str) -> list[str]:
    """Read the nodes whose values a node takes from what is written on it.

    >>> _inputs("sum = AddV2(a, b/read)")
    ['a', 'b/read']
    """
    _, opens, rest = label.partition("(")
    return [name for name in rest.removesuffix(")").split(", ") if name] if opens else []


def _memory(pid: int, device: stats_pb2.DeviceStepStats) -> Iterator[dict[str, Any]]:
    """Yield how many bytes nodes have made until then, whenever one has ended."""
    total = 0
    for node in sorted(device.node_stats, key=lambda node: node.all_start_micros + node.all_end_rel_micros):
        total += sum(o.tensor_description.allocation_description.requested_bytes for o in node.output)
        when = node.all_start_micros + node.all_end_rel_micros
        yield {"ph": "C", "name": "bytes of outputs", "pid": pid, "ts": when, "args": {"bytes": total}}
