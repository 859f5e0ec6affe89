"""Timings of a traced step, as StepStats."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any

from dtfctl.protocol import stats_pb2
from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.node_graph import Node
from dtfctl.runtime.framework.tensor_shape import TensorShape


class StepTrace:
    """Collects one NodeExecStats a node that ran; used from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._devices: dict[str, list[stats_pb2.NodeExecStats]] = {}
        self._epoch_ns = time.time_ns() - time.monotonic_ns()

    def add(self, device: str, node: Node, started: int, ended: int, outputs: Sequence[Any]) -> None:
        """Record a node that ran from `started` to `ended` (monotonic ns)."""
        start_ns = self._epoch_ns + started
        spent = ended - started
        inputs = ", ".join(str(e) if e.slot else e.node.name for e in node.inputs)
        stats = stats_pb2.NodeExecStats(
            node_name=node.name,
            all_start_micros=start_ns // 1000,
            op_end_rel_micros=spent // 1000,
            all_end_rel_micros=spent // 1000,
            all_start_nanos=start_ns,
            op_end_rel_nanos=spent,
            all_end_rel_nanos=spent,
            scheduled_micros=start_ns // 1000,
            scheduled_nanos=start_ns,
            thread_id=threading.get_ident() & 0xFFFFFFFF,
            timeline_label=f"{node.name} = {node.op}({inputs})",
        )
        for slot, (value, dtype) in enumerate(zip(outputs, node.output_types)):
            if not hasattr(value, "nbytes") or dtype.is_ref:
                continue
            described = stats.output.add(slot=slot).tensor_description
            described.dtype = dtypes.as_dtype(dtype.base_dtype).as_datatype_enum  # type: ignore[assignment]
            described.shape.CopyFrom(TensorShape(value.shape).as_proto())
            described.allocation_description.requested_bytes = int(value.nbytes)
            described.allocation_description.allocator_name = "cpu"
        with self._lock:
            self._devices.setdefault(device, []).append(stats)

    def to_proto(self) -> stats_pb2.StepStats:
        with self._lock:
            proto = stats_pb2.StepStats()
            for device, nodes in sorted(self._devices.items()):
                proto.dev_stats.add(device=device, node_stats=nodes)
            return proto
