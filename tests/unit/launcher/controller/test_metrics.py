"""The metrics page, read by Prometheus's own parser."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from prometheus_client.parser import text_string_to_metric_families

from dtfctl.launcher.controller.serve.metrics import render
from dtfctl.launcher.model import JobStatus, Progress
from tests.doubles.launcher import status, task
from tests.support.examples import examples


def read(text: str) -> dict[str, dict[frozenset[tuple[str, str]], float]]:
    found: dict[str, dict[frozenset[tuple[str, str]], float]] = {}
    for family in text_string_to_metric_families(text):
        assert family.documentation and family.type in ("gauge", "counter")
        for sample in family.samples:
            series = found.setdefault(sample.name, {})
            labels = frozenset(sample.labels.items())
            assert labels not in series, f"{sample.name} {labels} twice"
            series[labels] = sample.value
    return found


def labels(**values: str) -> frozenset[tuple[str, str]]:
    return frozenset(values.items())


def job(**changes: Any) -> JobStatus:
    return replace(JobStatus("j-1", "j", "running", "between-graph", "j.py"), **changes)


def test_what_a_cluster_says() -> None:
    crashed = task("worker/1", state="crashed", restarts=5, rss_bytes=None, cpu_percent=None)
    busy = task("worker/0", steps=12, cpu_percent=150.0)
    running = job(restarts=2, progress=Progress(7, 10, {"loss": 0.25}))
    found = read(render(status(task("ps/0"), busy, crashed, jobs=[running], problems=["one"]), events=42))
    assert found["dtfctl_events_total"] == {labels(): 42}
    assert found["dtfctl_cluster_healthy"] == {labels(): 0}
    assert found["dtfctl_tasks"][labels(role="worker", state="crashed")] == 1
    assert found["dtfctl_tasks"][labels(role="ps", state="crashed")] == 0
    assert found["dtfctl_task_restarts_total"][labels(role="worker", index="1")] == 5
    assert found["dtfctl_task_steps_total"][labels(role="worker", index="0")] == 12
    assert found["dtfctl_task_cpu_cores"][labels(role="worker", index="0")] == 1.5
    assert labels(role="worker", index="1") not in found["dtfctl_task_resident_memory_bytes"]
    assert found["dtfctl_task_up"][labels(role="worker", index="1", host="localhost")] == 0
    assert found["dtfctl_job_step"] == {labels(id="j-1"): 7}
    assert found["dtfctl_job_metric"] == {labels(id="j-1", name="loss"): 0.25}
    assert found["dtfctl_jobs"][labels(state="failed")] == 0


def test_ended_jobs_leave_only_their_number() -> None:
    found = read(render(status(jobs=[job(state="succeeded", progress=Progress(9))]), events=0))
    assert found["dtfctl_jobs"][labels(state="succeeded")] == 1
    assert "dtfctl_job_step" not in found


@pytest.mark.slow
@settings(max_examples=examples(60), deadline=None)
@given(st.dictionaries(st.text(max_size=20), st.floats(), max_size=5))
def test_whatever_a_job_reports_the_page_stays_readable(metrics: dict[str, float]) -> None:
    text = render(status(task("worker/0"), jobs=[job(progress=Progress(1, None, metrics))]), events=1)
    found = read(text).get("dtfctl_job_metric", {})
    assert len(found) == len(metrics)
