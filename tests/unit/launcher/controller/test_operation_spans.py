"""Events of hosts, tasks and jobs as spans."""

from __future__ import annotations

import pytest

from dtfctl import tracing
from dtfctl.launcher.controller.decisions.operation_spans import OperationSpans
from dtfctl.launcher.model import Event

trace_sdk = pytest.importorskip("opentelemetry.sdk.trace")

CAUSE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def exported(monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter, provider = InMemorySpanExporter(), trace_sdk.TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(tracing, "_tracer", provider.get_tracer("test"))
    return exporter


def told(exporter, *events: str, cause: bool = True):  # type: ignore[no-untyped-def]
    """Follow events `kind subject`, a second apart; (name, from, to, error, parent's name) of each span."""
    spans = OperationSpans("c")
    if cause:
        spans.caused(["cluster"], CAUSE)
    for at, event in enumerate(events):
        spans.take(Event(at, float(at), *event.split()))
    spans.close(99.0)
    found = exporter.get_finished_spans()
    names = {span.context.span_id: span.name for span in found}
    return [
        (
            span.name,
            span.start_time // 10**9,
            span.end_time // 10**9,
            span.attributes.get("error.type", ""),
            names.get(span.parent.span_id, "cause") if span.parent else "",
        )
        for span in found
    ]


def test_a_host_that_comes_up_over_ssh_has_a_span_for_each_stage(exported) -> None:  # type: ignore[no-untyped-def]
    events = [f"host.{word} host:a" for word in ("connecting", "installing", "note", "starting", "up")]
    assert told(exported, *events) == [
        ("host: connecting", 0, 1, "", "bring up host"),
        ("host: installing", 1, 3, "", "bring up host"),
        ("host: starting", 3, 4, "", "bring up host"),
        ("bring up host", 0, 4, "", "cause"),
    ]


def test_what_a_cluster_does_by_itself_later_is_a_trace_of_its_own(exported) -> None:  # type: ignore[no-untyped-def]
    words = ("starting", "running", "failed", "starting", "crashed")
    found = told(exported, *(f"task.{word} worker/0" for word in words))
    assert [span for span in found if span[0] == "start task"] == [
        ("start task", 0, 1, "", "cause"),
        ("start task", 3, 4, "crashed", ""),
    ]


def test_a_job_waits_runs_recovers_and_ends(exported) -> None:  # type: ignore[no-untyped-def]
    events = [f"job.{word} job:j-1" for word in ("queued", "running", "note", "recovering", "running", "cancelled")]
    assert told(exported, *events, "job.running job:older") == [
        ("job: queued", 0, 1, "", "job"),
        ("job: running", 1, 3, "", "job"),
        ("job: recovering", 3, 4, "", "job"),
        ("job: running", 4, 5, "", "job"),
        ("job", 0, 5, "cancelled", "cause"),
    ]


def test_what_is_open_at_the_end_of_the_controller_ends_with_it(exported) -> None:  # type: ignore[no-untyped-def]
    assert told(exported, "task.stopping ps/0", cause=False) == [
        ("task: stopping", 0, 99, "", "stop task"),
        ("stop task", 0, 99, "", ""),
    ]
