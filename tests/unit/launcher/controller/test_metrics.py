"""The metrics page, read by Prometheus's own parser."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from importlib import resources
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from prometheus_client.parser import text_string_to_metric_families

from dtfctl.figures import TaskFigures
from dtfctl.health import beats
from dtfctl.launcher.controller.serve.metrics import render
from dtfctl.launcher.model import ClientStatus, JobStatus, Progress, TaskLink
from tests.doubles.launcher import status, task
from tests.support.examples import examples


def read(text: str) -> dict[str, dict[frozenset[tuple[str, str]], float]]:
    found: dict[str, dict[frozenset[tuple[str, str]], float]] = {}
    for family in text_string_to_metric_families(text):
        assert family.documentation and family.type in ("gauge", "counter", "histogram")
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


def test_what_a_runtime_counts() -> None:
    figures = TaskFigures(
        step_counts=(0, 2) + (0,) * 13 + (1,),
        steps_s=12.5,
        sent={"shm": 10, "tcp": 20},
        received={"tcp": 5},
        queues={'the "input"': 3},
        open_steps=1,
        variables_bytes=4096,
        threads=9,
    )
    link = TaskLink("ps/0", "tcp", True, 1e9, 4)
    counted = task("worker/0", figures=figures, links=(link,), spared_bytes=7)
    process = ClientStatus("worker/0", "localhost", "running", rss_bytes=2048)
    page = render(status(counted, task("ps/0", state="crashed"), jobs=[job(clients=(process,))]), events=1)
    found = read(page)
    name = {"role": "worker", "index": "0"}
    buckets = found["dtfctl_runtime_step_seconds_bucket"]
    assert buckets[labels(**name, le="0.0001")] == 0
    assert buckets[labels(**name, le="0.00025")] == buckets[labels(**name, le="10")] == 2
    assert buckets[labels(**name, le="+Inf")] == found["dtfctl_runtime_step_seconds_count"][labels(**name)] == 3
    assert found["dtfctl_runtime_step_seconds_sum"] == {labels(**name): 12.5}
    assert found["dtfctl_runtime_sent_bytes_total"][labels(**name, transport="tcp")] == 20
    assert found["dtfctl_runtime_received_bytes_total"] == {labels(**name, transport="tcp"): 5}
    assert found["dtfctl_runtime_queue_elements"] == {labels(**name, queue='the "input"'): 3}
    assert found["dtfctl_runtime_threads"] == {labels(**name): 9}
    assert found["dtfctl_runtime_variables_bytes"] == {labels(**name): 4096}
    assert found["dtfctl_job_resident_memory_bytes"] == {labels(id="j-1", process="worker/0"): 2048}

    # The dashboard asks for what is there, by labels that are there, and for all that tasks and jobs tell.
    board = json.loads(resources.files("dtfctl.cli").joinpath("grafana.json").read_text())
    queries = [target["expr"] for panel in board["panels"] for target in panel.get("targets", ())]
    legends = [target["legendFormat"] for panel in board["panels"] for target in panel.get("targets", ())]
    running = job(clients=(process,), progress=Progress(7, 10, {"loss": 0.25}))
    known = read(render(status(counted, jobs=[running]), events=1))
    for query, legend in zip(queries, legends, strict=True):
        names = re.findall(r"\bdtfctl_\w+", query)
        assert names and set(names) <= known.keys(), query
        has = {label for name in names for series in known[name] for label, _ in series}
        assert set(re.findall(r"\{\{(\w+)\}\}", legend)) | set(re.findall(r"[{,]\s*(\w+)=", query)) <= has, query
    asked = " ".join(queries)
    assert [name for name in known if "runtime_" in name and name not in asked] == ["dtfctl_runtime_step_seconds_count"]


def test_figures_travel_in_a_beat() -> None:
    figures = TaskFigures(step_counts=(1, 2), steps_s=0.5, sent={"shm": 3}, queues={"q": 1}, threads=4)
    assert beats.unpack(beats.pack(beats.Beat("ps/0", 1, True, 3, figures=figures))) == beats.Beat(
        "ps/0", 1, True, 3, figures=figures
    )
