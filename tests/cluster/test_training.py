"""A real training job on the real runtime goes on through the death of a worker, the ps and the controller."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dtfctl.launcher.api import Cluster
from dtfctl.launcher.model import JobEnded, JobOutput, JobProgress, JobRequest
from tests.cluster.conftest import controller_pid, kill, pids, spec_of, task

EXAMPLE = Path(__file__).parents[2] / "examples" / "digits_mlp.py"


@pytest.mark.slow
def test_training_survives_the_death_of_a_worker_the_ps_and_the_controller(home: Path) -> None:
    pytest.importorskip("sklearn", reason="the example's data set comes with scikit-learn")
    cluster = Cluster.up(spec_of()).cluster
    assert cluster is not None
    before = pids(cluster)
    job_id = cluster.submit(JobRequest(str(EXAMPLE), ("--steps", "4000")))
    faults = [
        (300, lambda: kill(pids(cluster)["worker/1"])),
        (800, lambda: kill(controller_pid(cluster))),
        (1500, lambda: kill(pids(cluster)["ps/0"])),
    ]
    output: list[str] = []
    for item in cluster.follow_job(job_id):
        if isinstance(item, JobProgress) and item.chief and faults and item.progress.step > faults[0][0]:
            faults.pop(0)[1]()
        elif isinstance(item, JobOutput):
            output.append(item.line.text)
        elif isinstance(item, JobEnded):
            ended = item.status
    assert faults == []
    assert (ended.state, ended.exit_code) == ("succeeded", 0)
    accuracy = re.search(r"held-out digits: ([\d.]+)%", "\n".join(output))
    assert accuracy is not None
    assert float(accuracy[1]) >= 95.0
    assert (task(cluster, "ps/0").restarts, task(cluster, "worker/1").restarts) == (1, 1)
    assert pids(cluster)["worker/0"] == before["worker/0"]
    events = [event for event in cluster.events() if event.subject == f"job:{job_id}"]
    assert "begins at step 0" in next(event.reason for event in events if event.kind == "job.note")
    kinds = [event.kind for event in events if event.kind != "job.note"]
    assert kinds[:3] == ["job.queued", "job.running", "job.recovering"]
    assert kinds[-1] == "job.succeeded"
