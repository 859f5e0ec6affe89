"""What is lost with the controller's machine or files, and what is not: hosts know what they run, for whom and why."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from dtfctl.launcher import api
from dtfctl.launcher.api import Cluster
from dtfctl.launcher.errors import Conflict, NoSuchCluster
from dtfctl.launcher.model import JobRequest
from dtfctl.launcher.spec.model import HostGroup, HostName, Recovery
from tests.cluster.conftest import STUB_COMMAND, controller_pid, task, wait_until
from tests.lab.conftest import cluster_of
from tests.lab.netns import Lab

TRAIN = """
import os, time
import dtfctl.runtime as tf
task = tf.distribute.cluster_resolver.TFConfigClusterResolver()
name = f"/job:{task.task_type}/task:{task.task_id}"
with tf.device(tf.train.replica_device_setter(cluster=task.cluster_spec(), worker_device=name)):
    step = tf.train.get_or_create_global_step()
    train = tf.assign_add(step, 1)
hooks = [tf.train.ProgressHook()] if task.is_chief else []
with tf.train.MonitoredTrainingSession(
    master=task.master(), is_chief=task.is_chief, checkpoint_dir=os.environ["DTF_CHECKPOINT_DIR"],
    save_checkpoint_secs=1, save_summaries_steps=None, hooks=hooks,
) as session:
    while not os.path.exists(os.environ["STOP"]):
        session.run(train)
        time.sleep(0.02)
"""


def name_of(lab: Lab, address: str) -> str:
    return next(host.name for host in lab.hosts if host.address == address)


def with_spare(lab: Lab, shared: Path) -> dict[str, object]:
    *first, last = [HostName(host.address) for host in lab.hosts]
    return {
        "host_groups": {"main": HostGroup(tuple(first), slots=2), "spare": HostGroup((last,), slots=2, spare=True)},
        "recovery": Recovery(checkpoint=str(shared / "checkpoints")),
    }


def shared_folder(lab: Lab) -> Path:
    """One that all hosts see."""
    folder = lab.root / "shared"
    folder.mkdir(exist_ok=True)
    return folder


def incarnations(cluster: Cluster) -> dict[str, tuple[str, int]]:
    return {item.name: (item.host, item.incarnation) for item in cluster.status().tasks}


def steps(cluster: Cluster, job_id: str) -> int:
    progress = cluster.job(job_id).progress
    return 0 if progress is None else progress.step


def test_a_job_outlives_its_controller_and_the_host_of_its_ps_together(home: Path, lab: Lab, tmp_path: Path) -> None:
    shared = shared_folder(lab)
    result = Cluster.up(cluster_of(lab, ps=1, worker=2, **with_spare(lab, shared)))
    assert result.exit_code == 0, result
    cluster = result.cluster
    assert cluster is not None
    script = tmp_path / "train.py"
    script.write_text(TRAIN)
    stop = shared / "stop"
    job_id = cluster.submit(JobRequest(str(script), env={"STOP": str(stop)}))
    wait_until(lambda: cluster.job(job_id).is_final or steps(cluster, job_id) > 20, "it trains")
    assert not cluster.job(job_id).is_final, cluster.job(job_id).reason

    ps = task(cluster, "ps/0")
    os.kill(controller_pid(cluster), signal.SIGKILL)
    lost = name_of(lab, ps.host)
    lab.poweroff(lost)
    try:
        cluster = Cluster.open("t")  # any command
        wait_until(
            lambda: task(cluster, "ps/0").state == "running" and task(cluster, "ps/0").host != ps.host, "it moved"
        )
        before = steps(cluster, job_id)
        wait_until(lambda: cluster.job(job_id).is_final or steps(cluster, job_id) > before + 20, "it trains again")
        job = cluster.job(job_id)
        assert not job.is_final, job.reason
        stop.touch()
        wait_until(lambda: cluster.job(job_id).is_final, "it ends")
        assert cluster.job(job_id).state == "succeeded", cluster.job(job_id).reason
    finally:
        lab.boot(lost)
    cluster.down(grace_s=0.5)


def test_a_cluster_is_its_owners_alone(home: Path, lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = Cluster.up(cluster_of(lab), task_command=STUB_COMMAND)
    assert first.exit_code == 0, first
    mine = incarnations(Cluster.open("t"))
    agents = [lab.processes(name, "dtfctl.launcher.agent --cluster") for name in lab.names]

    other = tmp_path / "other"
    monkeypatch.setenv("DTFCTL_HOME", str(other))
    with pytest.raises(Conflict, match=rf"cluster t there belongs to \S+@\S+ \({home}, since ") as refused:
        Cluster.up(cluster_of(lab), task_command=STUB_COMMAND)
    assert "--adopt" in refused.value.hint and "another name" in refused.value.hint
    assert api.clusters() == [], "nothing is left of it"
    with pytest.raises(NoSuchCluster):
        Cluster.down_by_name("t")
    another = Cluster.up(cluster_of(lab, name="u", slots=2), task_command=STUB_COMMAND)
    assert another.exit_code == 0, another
    Cluster.down_by_name("u", grace_s=0.5)

    monkeypatch.setenv("DTFCTL_HOME", str(home))
    assert incarnations(Cluster.open("t")) == mine
    assert agents == [lab.processes(name, "dtfctl.launcher.agent --cluster") for name in lab.names]
    assert Cluster.down_by_name("t", grace_s=0.5)[1] == ()
    for name in lab.names:
        assert lab.left_over(name) == []
        assert not (lab.home(name) / ".dtfctl/clusters/t/owner.json").exists()
