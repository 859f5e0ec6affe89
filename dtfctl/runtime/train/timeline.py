"""Step statistics as a Chrome trace (chrome://tracing, Perfetto)."""

from __future__ import annotations

import json
from typing import Any

from dtfctl.protocol import stats_pb2


class Timeline:
    """A traced step.

    Args:
        step_stats: `RunMetadata.step_stats` of a run with FULL_TRACE.
    """

    def __init__(self, step_stats: stats_pb2.StepStats, graph: Any = None) -> None:
        self._stats = step_stats

    def generate_chrome_trace_format(self, show_dataflow: bool = True, show_memory: bool = False) -> str:
        """JSON: a process a device, a row a thread, a bar a node; times in microseconds."""
        events: list[dict[str, Any]] = []
        for pid, device in enumerate(self._stats.dev_stats):
            events.append({"ph": "M", "name": "process_name", "pid": pid, "args": {"name": device.device}})
            for node in device.node_stats:
                events.append(
                    {
                        "ph": "X",
                        "cat": "Op",
                        "name": node.timeline_label or node.node_name,
                        "pid": pid,
                        "tid": node.thread_id,
                        "ts": node.all_start_micros,
                        "dur": max(node.all_end_rel_micros, 1),
                        "args": {"name": node.node_name},
                    }
                )
        return json.dumps({"traceEvents": events}, indent=2)
