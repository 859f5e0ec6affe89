"""Checkpoints on hosts that share no disk: whole where they are needed, and not lost with a host."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from dtfctl.launcher.api import Cluster
from dtfctl.launcher.model import JobRequest, JobStatus
from dtfctl.launcher.spec.model import Checkpoints, HostGroup, HostName, TaskGroup
from tests.cluster.conftest import task, wait_until
from tests.lab.conftest import cluster_of
from tests.lab.netns import HOME, Lab

TRAIN = """
import os, sys, time
import dtfctl.runtime as tf
task = tf.distribute.cluster_resolver.TFConfigClusterResolver()
name = f"/job:{task.task_type}/task:{task.task_id}"
with tf.device(tf.train.replica_device_setter(cluster=task.cluster_spec(), worker_device=name)):
    step = tf.train.get_or_create_global_step()
    weights = [tf.get_variable(f"w{i}", [1000], initializer=tf.zeros_initializer()) for i in range(2)]
    with tf.control_dependencies([w.assign_add(tf.ones([1000])) for w in weights]):
        train = tf.assign_add(step, 1)
hooks = [tf.train.ProgressHook()] if task.is_chief else []
last, every = int(sys.argv[1]), float(sys.argv[2]) if sys.argv[2:] else 1.0
with tf.train.MonitoredTrainingSession(
    master=task.master(), is_chief=task.is_chief, checkpoint_dir=os.environ["DTF_CHECKPOINT_DIR"],
    save_checkpoint_secs=every, save_summaries_steps=None, hooks=[*hooks, tf.train.StopAtStepHook(last_step=last)],
) as session:
    while not session.should_stop():
        session.run(train)
        time.sleep(0.02)
"""


def name_of(lab: Lab, address: str) -> str:
    return next(host.name for host in lab.hosts if host.address == address)


def kept_step(job: JobStatus) -> int:
    """Of the newest checkpoint that is whole on enough hosts."""
    return int(job.checkpoint.rpartition("-")[2]) if job.checkpoint else -1


def steps(cluster: Cluster, job_id: str) -> int:
    progress = cluster.job(job_id).progress
    return 0 if progress is None else progress.step


def wait_kept(cluster: Cluster, job_id: str, more_than: int) -> int:
    def look() -> bool:
        job = cluster.job(job_id)
        assert not job.is_final, job.reason
        return kept_step(job) > more_than

    wait_until(look, f"a checkpoint of more than {more_than} steps is kept")
    return kept_step(cluster.job(job_id))


def notes(cluster: Cluster, job_id: str) -> list[str]:
    events = cluster.events()
    return [event.reason for event in events if event.kind == "job.note" and event.subject == f"job:{job_id}"]


def went_on_from(notes: list[str]) -> int:
    """The step from which a chief went on last."""
    told = [text.split("goes on from step ")[1] for text in notes if "goes on from step " in text]
    return int(told[-1].split(";")[0].split(" ")[0]) if told else -1


def test_training_goes_on_from_what_was_kept_after_a_ps_and_after_its_host(
    home: Path, lab: Lab, tmp_path: Path
) -> None:
    *first, spare = [HostName(host.address) for host in lab.hosts]
    groups = {"main": HostGroup(tuple(first), slots=2), "spare": HostGroup((spare,), slots=2, spare=True)}
    result = Cluster.up(cluster_of(lab, ps=2, worker=2, host_groups=groups))
    assert result.exit_code == 0, result
    cluster = result.cluster
    assert cluster is not None
    script = tmp_path / "train.py"
    script.write_text(TRAIN)
    job_id = cluster.submit(JobRequest(str(script), ("100000000",)))
    kept = wait_kept(cluster, job_id, 10)
    assert len(cluster.job(job_id).checkpoint_hosts) >= 2
    assert notes(cluster, job_id)[0].startswith("worker/0: begins at step 0 (there is no checkpoint in ")

    count = len(notes(cluster, job_id))
    ps = task(cluster, "ps/0")
    lab.sh(name_of(lab, ps.host), "kill", "-9", str(ps.pid))
    wait_until(lambda: len(notes(cluster, job_id)) > count, "the chief goes on")
    assert went_on_from(notes(cluster, job_id)) >= kept, notes(cluster, job_id)

    kept = wait_kept(cluster, job_id, steps(cluster, job_id))
    count = len(notes(cluster, job_id))
    ps = task(cluster, "ps/0")
    lost = name_of(lab, ps.host)
    lab.poweroff(lost)
    try:
        wait_until(lambda: len(notes(cluster, job_id)) > count, "the chief goes on")
        assert went_on_from(notes(cluster, job_id)) >= kept, notes(cluster, job_id)
        assert task(cluster, "ps/0").host != ps.host
        before = steps(cluster, job_id)
        wait_until(lambda: steps(cluster, job_id) > before + 10, "it trains")
        wait_kept(cluster, job_id, kept)
    finally:
        lab.boot(lost)
    cluster.cancel([job_id], grace_s=1.0)
    cluster.down(grace_s=0.5)

    # Another job of this name begins at the beginning; one that asks for the first one's checkpoints gets them.
    result = Cluster.up(cluster_of(lab, ps=1, worker=1))
    assert result.exit_code == 0, result
    cluster = result.cluster
    assert cluster is not None
    second = cluster.submit(JobRequest(str(script), ("5",)))
    assert second != job_id
    wait_until(lambda: cluster.job(second).is_final, "it ends")
    assert cluster.job(second).state == "succeeded", cluster.job(second).reason
    assert notes(cluster, second)[0].startswith("worker/0: begins at step 0 ")
    third = cluster.submit(JobRequest(str(script), ("5",), resume=job_id))
    wait_until(lambda: cluster.job(third).is_final, "it ends")
    assert went_on_from(notes(cluster, third)) >= kept, notes(cluster, third)

    # The folder vanishes on the chief's host while its agent still keeps it for the third.
    folder = cluster.job(third).checkpoint_dir.replace("~", str(HOME))
    lab.sh(name_of(lab, task(cluster, "worker/0").host), "rm", "-rf", folder)
    fourth = cluster.submit(JobRequest(str(script), ("5",), resume=third))
    wait_until(lambda: cluster.job(fourth).is_final, "it ends")
    assert cluster.job(fourth).state == "succeeded", cluster.job(fourth).reason
    assert went_on_from(notes(cluster, fourth)) >= kept, notes(cluster, fourth)
    told = [event.reason for event in cluster.events() if event.kind == "job.checkpoint-problem"]
    assert any("deleted on this host" in reason for reason in told), told
    cluster.down(grace_s=0.5)


def test_where_no_copy_is_left_training_begins_again_and_says_so_to_the_submitter(
    home: Path, lab: Lab, tmp_path: Path
) -> None:
    result = Cluster.up(cluster_of(lab, ps=1, worker=2))
    assert result.exit_code == 0, result
    cluster = result.cluster
    assert cluster is not None
    script = tmp_path / "train.py"
    script.write_text(TRAIN)
    command = [sys.executable, "-m", "dtfctl", "submit", "-c", "t", str(script), "100000000", "3600"]
    told = tmp_path / "told"
    with told.open("w") as file:
        submitter = subprocess.Popen(command, stderr=file, stdout=subprocess.DEVNULL)
    try:
        wait_until(lambda: len(cluster.jobs()) == 1, "it is submitted")
        job_id = cluster.jobs()[0].id
        assert wait_kept(cluster, job_id, -1) == 0, "saved at its beginning, and not again"
        wait_until(lambda: steps(cluster, job_id) > 10, "it trains")
        folder = cluster.job(job_id).checkpoint_dir.replace("~", str(HOME))
        for host in lab.hosts:
            lab.sh(host.name, "sh", "-c", f"rm -rf {folder}/*")
        ps = task(cluster, "ps/0")
        lab.sh(name_of(lab, ps.host), "kill", "-9", str(ps.pid))
        wait_until(lambda: "begins again at step 0" in told.read_text(), "the submitter is told")
    finally:
        cluster.cancel([job.id for job in cluster.jobs()], grace_s=1.0)
        submitter.wait()
    (line,) = [line for line in told.read_text().splitlines() if "begins again" in line]
    assert "had been done" in line and f"(there is no checkpoint in {folder})" in line, line
    assert line.removeprefix(f"{job_id} ") in notes(cluster, job_id), "the event"
    cluster.down(grace_s=0.5)


def test_files_of_other_programs_are_kept_the_same_way(home: Path, lab: Lab, tmp_path: Path) -> None:
    result = Cluster.up(cluster_of(lab, hosts=lab.names[:2], tasks={"worker": TaskGroup(2)}, slots=1))
    assert result.exit_code == 0, result
    cluster = result.cluster
    assert cluster is not None
    script = tmp_path / "save.sh"
    script.write_text(
        "#!/bin/sh\nset -e\ncd $DTF_CHECKPOINT_DIR\n"
        "if [ $DTF_IS_CHIEF = 1 ]; then echo half > weights.pt.tmp; sleep 2; echo whole > weights.pt.tmp;"
        " mv weights.pt.tmp weights.pt; fi\nsleep 600\n"
    )
    script.chmod(0o700)
    job_id = cluster.submit(JobRequest(str(script), framework="command"))
    wait_until(lambda: cluster.job(job_id).checkpoint == "weights.pt", "it is kept")
    folder = cluster.job(job_id).checkpoint_dir.replace("~", str(HOME))
    for name in lab.names[:2]:
        assert lab.sh(name, "sh", "-c", f"cat {folder}/*") == "whole\n"
    cluster.cancel([job_id], grace_s=0.5)
    cluster.down(grace_s=0.5)


def test_up_fails_where_hosts_do_not_share_the_folder_that_they_are_said_to_share(
    home: Path, lab: Lab, tmp_path: Path
) -> None:
    result = Cluster.up(cluster_of(lab, ps=1, worker=2, checkpoints=Checkpoints(path="/tmp/own")))
    assert result.exit_code == 5, result
    assert result.running == result.wanted
    (problem,) = result.problems
    assert "/tmp/own is not the same folder as on" in problem
    assert "leave checkpoints.path out" in problem
    assert result.cluster is not None
    told = {event.subject for event in result.cluster.events() if event.kind == "host.not-shared"}
    assert len(told) == len(lab.hosts) - 1
    script = tmp_path / "job.sh"
    script.write_text("#!/bin/sh\ncd $DTF_CHECKPOINT_DIR && pwd\n")
    script.chmod(0o700)
    cluster = result.cluster
    job_id = cluster.submit(JobRequest(str(script), framework="command"))
    wait_until(lambda: "not the same folder" in cluster.job(job_id).reason, "the job says why it does not begin")
    assert cluster.job(job_id).state == "queued"

    shared = lab.root / "shared"
    shared.mkdir(exist_ok=True)
    result = Cluster.up(cluster_of(lab, ps=1, worker=2, checkpoints=Checkpoints(path=str(shared / "ckpt"))))
    assert result.exit_code == 0, result
    assert result.problems == ()
    assert [path for path in (shared / "ckpt").iterdir() if not path.name.startswith(job_id)] == []
    wait_until(lambda: cluster.job(job_id).is_final, "the job ends")
    assert cluster.job(job_id).state == "succeeded", cluster.job(job_id).reason
    assert cluster.job(job_id).checkpoint_dir.startswith(str(shared / "ckpt"))
    cluster.down(grace_s=0.5)
