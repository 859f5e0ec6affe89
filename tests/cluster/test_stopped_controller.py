"""A controller that is stopped (SIGSTOP) is replaced, and who follows a job or its output goes on without noticing."""

from __future__ import annotations

import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dtfctl.launcher.api import Cluster
from dtfctl.launcher.model import JobEnded, JobOutput, JobRequest
from dtfctl.launcher.operator import controller_client
from tests.cluster.conftest import controller_pid, kill, spec_of, wait_until

WAITS = """
import pathlib, sys, time
print("begun", flush=True)
while not pathlib.Path(sys.argv[1]).exists():
    time.sleep(0.05)
print("done", flush=True)
"""


def test_who_follows_outlasts_it(up: Callable[..., Cluster], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controller_client, "FOLLOW_S", 3.0)
    monkeypatch.setattr(controller_client, "ANSWERS_S", (3.0,))
    cluster = up(spec_of(worker=1))
    script, go = tmp_path / "waits.py", tmp_path / "go"
    script.write_text(WAITS)
    job_id = cluster.submit(JobRequest(str(script), (str(go),), framework="tensorflow", tasks="worker"))
    heard: dict[str, list[str]] = {"job": [], "logs": []}

    def follow() -> str:
        for item in Cluster.open(cluster.name).follow_job(job_id):
            if isinstance(item, JobOutput):
                heard["job"].append(item.line.text)
            elif isinstance(item, JobEnded):
                return item.status.state
        return "no end"

    def read() -> None:
        for line in Cluster.open(cluster.name).logs(f"job:{job_id}", follow=True):
            heard["logs"].append(line.text)

    with ThreadPoolExecutor(2) as aside:
        followed, logged = aside.submit(follow), aside.submit(read)
        try:
            wait_until(lambda: all("begun" in lines for lines in heard.values()), "both follow")
            first = controller_pid(cluster)
            kill(first, signal.SIGSTOP)
        finally:
            go.touch()
        assert followed.result() == "succeeded"
        logged.result()
    assert heard == {"job": ["begun", "done"], "logs": ["begun", "done"]}
    assert controller_pid(cluster) != first
