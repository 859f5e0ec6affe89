"""Times of an op in a session, beside the tests of a program."""

from __future__ import annotations

import contextlib
import statistics
import time
from typing import Any

from dtfctl.protocol import config_pb2
from dtfctl.runtime.client.default_session import get_default_session
from dtfctl.runtime.client.session import Session
from dtfctl.runtime.profiler.timeline import Timeline


class Benchmark:
    """A class whose methods `benchmark...` time ops; what they report is printed, and kept in `reports`."""

    def __init__(self) -> None:
        self.reports: list[dict[str, Any]] = []

    def report_benchmark(
        self,
        iters: int | None = None,
        cpu_time: float | None = None,
        wall_time: float | None = None,
        throughput: float | None = None,
        extras: dict[str, Any] | None = None,
        name: str | None = None,
        metrics: list[dict[str, Any]] | None = None,
    ) -> None:
        """Print and keep what was measured: times in seconds, throughput in MB/s."""
        given = {
            "name": f"{type(self).__name__}.{name or 'benchmark'}",
            "iters": iters,
            "cpu_time": cpu_time,
            "wall_time": wall_time,
            "throughput": throughput,
            "extras": extras,
            "metrics": metrics,
        }
        self.reports.append({key: value for key, value in given.items() if value is not None})
        print(self.reports[-1], flush=True)

    def run_op_benchmark(
        self,
        sess: Session,
        op_or_tensor: Any,
        feed_dict: dict[Any, Any] | None = None,
        burn_iters: int = 2,
        min_iters: int = 10,
        store_trace: bool = False,
        store_memory_usage: bool = True,
        name: str | None = None,
        extras: dict[str, Any] | None = None,
        mbs: float = 0,
    ) -> dict[str, Any]:
        """Time steps and report their median wall time in seconds.

        Args:
            burn_iters, min_iters: steps before those that are timed, and how many are timed.
            store_trace: run one more step and return its timeline under extras["full_trace_chrome_format"].
            store_memory_usage: run one more step and report each device's greatest bytes.
            mbs: megabytes that a step moves, for its throughput.
        """
        for _ in range(burn_iters):
            sess.run(op_or_tensor, feed_dict)
        seconds = []
        for _ in range(min_iters):
            began = time.perf_counter()
            sess.run(op_or_tensor, feed_dict)
            seconds.append(time.perf_counter() - began)
        reported, unreported = dict(extras or {}), dict[str, Any]()
        if store_trace or store_memory_usage:
            metadata = config_pb2.RunMetadata()
            options = config_pb2.RunOptions(trace_level=config_pb2.RunOptions.FULL_TRACE)
            sess.run(op_or_tensor, feed_dict, options=options, run_metadata=metadata)
            if store_trace:
                unreported["full_trace_chrome_format"] = Timeline(metadata.step_stats).generate_chrome_trace_format()
            if store_memory_usage:
                reported.update(_peaks(metadata))
        median = statistics.median(seconds)
        values = {"iters": min_iters, "wall_time": median, "extras": reported, "name": name, "throughput": mbs / median}
        self.report_benchmark(**values)  # type: ignore[arg-type]
        unreported["wall_time_mean"] = statistics.mean(seconds)
        unreported["wall_time_stdev"] = statistics.stdev(seconds) if len(seconds) > 1 else -1
        return {**values, "extras": {**reported, **unreported}}

    def evaluate(self, tensors: Any) -> Any:
        """Evaluate tensors in the default session, else in one of their own."""
        with contextlib.ExitStack() as stack:
            session = get_default_session() or stack.enter_context(Session())
            return session.run(tensors)


def benchmark_config() -> config_pb2.ConfigProto:
    """Return a session's config that keeps all dependencies between ops, so that steps run what they say."""
    config = config_pb2.ConfigProto()
    config.graph_options.rewrite_options.dependency_optimization = config_pb2.RewriterConfig.OFF
    return config


def _peaks(metadata: config_pb2.RunMetadata) -> dict[str, int]:
    """Return the greatest number of bytes that an op of a step held, by allocator."""
    found: dict[str, int] = {}
    for device in metadata.step_stats.dev_stats:
        for node in device.node_stats:
            for memory in node.memory:
                key = f"allocator_maximum_num_bytes_{memory.allocator_name}"
                found[key] = max(found.get(key, 0), memory.peak_bytes)
    return found
