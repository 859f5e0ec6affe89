"""Write a timeline as JSON that chrome://tracing, Perfetto and speedscope read ("Trace Event Format")."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import IO, Any

from dtfctl.runtime.profiler.capture import TaskRecord
from dtfctl.runtime.profiler.tracks import bars
from dtfctl.runtime.steps.recording import Kind

# A bar that an arrow leads to or from needs some length.
_LEAST_NS = 3


def write_chrome(records: Sequence[TaskRecord], file: IO[str]) -> None:
    """Write all events, one a line; times are microseconds from the first one on."""
    events = [event for record in records for event in record.events]
    first = min((event.start for event in events), default=0)
    sent = {event.flow for event in events if event.kind is Kind.SEND}
    both = sent & {event.flow for event in events if event.kind is Kind.ARRIVAL}
    lines: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": record.name}}
        for pid, record in enumerate(records, 1)
    ]
    for bar in bars(records):
        event = bar.event
        at: dict[str, Any] = {"pid": bar.process, "tid": bar.row}
        start, spent = event.start - first, max(event.spent, _LEAST_NS)
        args = {k: v for k, v in (("step", f"{event.step:x}"), ("about", event.about), ("bytes", event.bytes)) if v}
        what = {"cat": event.kind.name.lower(), "name": bar.label, "args": args}
        lines.append({"ph": "X", "ts": _us(start), "dur": _us(spent), **what, **at})
        if event.flow in both and event.kind in (Kind.SEND, Kind.ARRIVAL):
            flow = {"ph": "s"} if event.kind is Kind.SEND else {"ph": "f", "bp": "e"}
            # Within its bar: at its edge it may be taken for one of the bar before.
            inside = {"id": f"{event.flow:x}", "ts": _us(start + 1)}
            lines.append({"cat": "tensor", "name": "tensor", **inside, **flow, **at})
    file.write('{"traceEvents": [\n')
    file.write(",\n".join(json.dumps(line) for line in lines))
    file.write("\n]}\n")


def _us(ns: int) -> float:
    """Give microseconds of which a reader that cuts off parts of a nanosecond gets all of these."""
    return (ns + 0.5) / 1000
