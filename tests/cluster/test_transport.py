"""Which transport tasks use: the best there is, or the one the spec names; status shows it."""

from __future__ import annotations

from pathlib import Path

import pytest

from dtfctl.launcher.api import Cluster
from dtfctl.launcher.model import JobEnded, JobRequest
from dtfctl.launcher.spec.exchange import Runtime
from tests.cluster.conftest import spec_of, task, wait_until

JOB = """
import os
import dtfctl.runtime as tf

with tf.device("/job:ps/task:0"):
    total = tf.Variable(tf.zeros([100_000]), name="total")
with tf.device("/job:worker/task:0"):
    more = total + 1.0
update = tf.assign(total, more)
with tf.Session(os.environ["DTF_TARGET"]) as session:
    session.run(total.initializer)
    for _ in range(20):
        session.run(update.op)
    assert float(session.run(total)[-1]) == 20.0
"""


@pytest.mark.parametrize(
    ("runtime", "used"), [(Runtime(), "shm"), (Runtime("tcp"), "tcp"), (Runtime("tcp", "none"), "tcp")]
)
def test_the_spec_chooses_and_status_shows(home: Path, tmp_path: Path, runtime: Runtime, used: str) -> None:
    script = tmp_path / "job.py"
    script.write_text(JOB)
    cluster = Cluster.up(spec_of(worker=1, runtime=runtime)).cluster
    assert cluster is not None
    job_id = cluster.submit(JobRequest(str(script)))
    ended = [item.status for item in cluster.follow_job(job_id) if isinstance(item, JobEnded)]
    assert (ended[0].state, ended[0].exit_code) == ("succeeded", 0)
    names = ("ps/0", "worker/0")
    wait_until(lambda: all(task(cluster, name).transport == used for name in names), f"status shows {used}")
