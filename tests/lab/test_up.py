"""`up` and `down` over SSH: real sshd, real agents, real tasks on three hosts."""

from __future__ import annotations

import re
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dtfctl.launcher.api import Cluster
from dtfctl.launcher.model import CertificateStatus, JobEnded, JobOutput, JobRequest, JobStatus
from dtfctl.launcher.spec.model import Health
from tests.cluster.conftest import PATIENCE_S, STUB_COMMAND, controller_pid, kill, pids, wait_until
from tests.lab.conftest import cluster_of
from tests.lab.netns import HOME, Lab

EXAMPLE = Path(__file__).parents[2] / "examples" / "digits_mlp.py"
ADD = """
import json, os
import dtfctl.runtime as tf
table = json.loads(os.environ["DTF_CLUSTER"])
with tf.device("/job:ps/task:0"):
    a = tf.constant(20.0)
with tf.device("/job:worker/task:1"):
    b = a + 1.0
with tf.Session(os.environ["DTF_TARGET"]) as session:
    print("the answer is", session.run(b * 2.0), "on", os.uname().nodename, flush=True)
"""


def run_job(cluster: Cluster, request: JobRequest) -> tuple[JobStatus, str]:
    text = []
    for item in cluster.follow_job(cluster.submit(request)):
        if isinstance(item, JobOutput):
            text.append(item.line.text)
        elif isinstance(item, JobEnded):
            return item.status, "\n".join(text)
    raise AssertionError("the stream ended without the end of the job")


def test_up_job_and_down_on_three_hosts(home: Path, lab: Lab, tmp_path: Path) -> None:
    spec = cluster_of(lab, python=None)
    result = Cluster.up(spec)
    assert (result.exit_code, result.running) == (0, 3)
    cluster = result.cluster
    assert cluster is not None
    status = cluster.status()
    assert sorted(task.host for task in status.tasks) == sorted(host.address for host in lab.hosts)
    for task in status.tasks:
        assert task.address.rpartition(":")[0] == task.host, "others find it there"
    again = Cluster.up(spec)
    assert (again.changes, again.exit_code) == ((), 0)
    assert {task.name: task.pid for task in status.tasks} == pids(cluster)

    script = tmp_path / "add.py"
    script.write_text(ADD)
    ended, output = run_job(cluster, JobRequest(str(script)))
    assert ended.state == "succeeded", output
    answers = re.findall(r"the answer is 42.0 on (\S+)", output)
    assert sorted(answers) == sorted(lab.names[1:]), "the scripts ran on the workers' hosts"

    name = lab.names[0]
    keys = list((lab.home(name) / ".dtfctl/clusters/t/certificates").glob("*.key"))
    assert keys and all(stat.S_IMODE(key.stat().st_mode) == 0o600 for key in keys)
    assert cluster.down() == ()
    for name in lab.names:
        assert lab.left_over(name) == []
        assert not list((lab.home(name) / ".dtfctl/clusters").rglob("*.key"))


def renew_when_it_trains(cluster: Cluster) -> list[CertificateStatus]:
    """Renew all certificates while the cluster's one job is at work; those there are then."""
    other = Cluster.open(cluster.name)
    wait_until(lambda: any(job.progress is not None for job in other.jobs()), "it trains")
    return other.certificates(renew=True)


def test_training_over_three_hosts_outlives_the_controller_and_its_certificates(home: Path, lab: Lab) -> None:
    pytest.importorskip("sklearn", reason="the example's data set comes with scikit-learn")
    cluster = Cluster.up(cluster_of(lab)).cluster
    assert cluster is not None
    before = pids(cluster)
    kill(controller_pid(cluster))
    with ThreadPoolExecutor(1) as aside:
        # Between hosts it is TLS that carries a job's steps.
        renewal = aside.submit(renew_when_it_trains, cluster)
        ended, output = run_job(cluster, JobRequest(str(EXAMPLE), ("--steps", "400")))
        assert [item for item in renewal.result() if item.problem] == []
    assert (ended.state, ended.exit_code) == ("succeeded", 0), output
    accuracy = re.search(r"held-out digits: ([\d.]+)%", output)
    assert accuracy is not None and float(accuracy[1]) >= 90.0
    assert pids(cluster) == before


def test_a_killed_agent_is_replaced_and_its_task_goes_on(home: Path, lab: Lab) -> None:
    # A busy machine must not make it move the task.
    patient = Health(down_phi=1e6, down_after=PATIENCE_S, lease=2 * PATIENCE_S)
    cluster = Cluster.up(cluster_of(lab, health=patient), task_command=STUB_COMMAND).cluster
    assert cluster is not None
    before = pids(cluster)
    name = lab.names[1]
    old = cluster.status().hosts[1].agent_pid
    (agent,) = lab.processes(name, "dtfctl.launcher.agent")
    kill(agent)
    wait_until(
        lambda: (host := cluster.status().hosts[1]).state == "up" and host.agent_pid != old, "another agent is there"
    )
    assert pids(cluster) == before
    assert cluster.down() == ()


def test_a_python_of_the_users_own_finds_what_was_sent(home: Path, lab: Lab) -> None:
    """A bare virtual environment made by `setup`: tasks and jobs run in it although dtfctl is not installed there."""
    name = lab.names[0]
    spec = cluster_of(
        lab,
        ps=0,
        worker=1,
        hosts=[name],
        setup=("python3 -m venv --without-pip ~/bare",),
        python="~/bare/bin/python",
    )
    result = Cluster.up(spec)
    assert (result.exit_code, result.running) == (0, 1), result.problems
    assert result.cluster is not None
    assert any(f"{HOME}/bare/bin/python".encode() in command for command in lab.commands(name))
    assert result.cluster.down() == ()


def test_tasks_start_when_their_own_host_is_ready_and_not_when_the_slowest_is(
    home: Path, lab: Lab, tmp_path: Path
) -> None:
    slow = lab.names[0]
    gate = f'case $(hostname) in {slow}) while [ ! -e "$HOME/go" ]; do sleep 0.1; done;; esac'
    spec = cluster_of(lab, setup=(gate,))
    first = Cluster.up(spec, wait=False).cluster
    assert first is not None
    try:
        wait_until(
            lambda: (
                sorted(task.name for task in first.status().tasks if task.state == "running")
                == ["worker/0", "worker/1"]
            ),
            "the tasks of the hosts that are ready run",
        )
        waits = next(host for host in first.status().hosts if host.name == lab.address_of(slow))
        assert waits.stage.startswith("setup"), waits
    finally:
        (lab.home(slow) / "go").touch()
    result = Cluster.up(spec)
    assert (result.exit_code, result.running) == (0, 3), result.problems
    script = tmp_path / "add.py"
    script.write_text(ADD)
    ended, output = run_job(first, JobRequest(str(script)))
    assert ended.state == "succeeded", output
    assert output.count("the answer is 42.0") == 2
    assert first.down() == ()
