"""Counts and latencies of requests, as Prometheus reads them."""

from __future__ import annotations

import bisect
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dtfctl.serve.model import Model

BOUNDS_S = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0)


class Figures:
    """Any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[tuple[str, str], int] = {}
        self._buckets: dict[str, list[int]] = {}
        self._sums: dict[str, float] = {}

    def note(self, verb: str, code: str, seconds: float) -> None:
        """Count a request that was answered, by what was asked and how it ended."""
        with self._lock:
            self._counts[verb, code] = self._counts.get((verb, code), 0) + 1
            buckets = self._buckets.setdefault(verb, [0] * (len(BOUNDS_S) + 1))
            buckets[bisect.bisect_left(BOUNDS_S, seconds)] += 1
            self._sums[verb] = self._sums.get(verb, 0.0) + seconds

    @property
    def answered(self) -> int:
        with self._lock:
            return sum(self._counts.values())

    def text(self, model: Model) -> bytes:
        """Write them down."""
        lines = ["# TYPE dtfctl_serve_requests_total counter"]
        with self._lock:
            for (verb, code), count in sorted(self._counts.items()):
                lines.append(f'dtfctl_serve_requests_total{{verb="{verb}",code="{code}"}} {count}')
            lines.append("# TYPE dtfctl_serve_seconds histogram")
            for verb, buckets in sorted(self._buckets.items()):
                total = 0
                for bound, count in zip((*BOUNDS_S, "+Inf"), buckets):
                    total += count
                    lines.append(f'dtfctl_serve_seconds_bucket{{verb="{verb}",le="{bound}"}} {total}')
                lines.append(f'dtfctl_serve_seconds_sum{{verb="{verb}"}} {self._sums[verb]:.6f}')
                lines.append(f'dtfctl_serve_seconds_count{{verb="{verb}"}} {total}')
        versions = sorted(model.versions.items())
        for name, kind, of in (
            ("steps_total", "counter", lambda version: version.steps),
            ("waiting", "gauge", lambda version: version.waiting),
            ("tasks", "gauge", lambda version: len(version.tasks)),
        ):
            lines.append(f"# TYPE dtfctl_serve_{name} {kind}")
            lines += [f'dtfctl_serve_{name}{{version="{number}"}} {of(version)}' for number, version in versions]
        return ("\n".join(lines) + "\n").encode()
