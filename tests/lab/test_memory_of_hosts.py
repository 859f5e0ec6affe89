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
from dtfctl.launcher.operator.clean_hosts import clean_hosts
from dtfctl.launcher.paths import ClusterPaths
from dtfctl.launcher.spec.model import Checkpoints, HostGroup, HostName
from tests.cluster.commands import Shell
from tests.cluster.conftest import STUB_COMMAND, controller_pid, task, wait_until
from tests.cluster.test_connect import product, session
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
        "checkpoints": Checkpoints(path=str(shared / "checkpoints")),
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
    assert "`home: ~/FOLDER`" in refused.value.hint
    another = Cluster.up(cluster_of(lab, name="u", slots=2), task_command=STUB_COMMAND)
    assert another.exit_code == 0, another
    Cluster.down_by_name("u", grace_s=0.5)

    # With a folder of its own there it is another cluster of that name.
    namesake = Cluster.up(cluster_of(lab, home="~/.of/another"), task_command=STUB_COMMAND)
    assert namesake.exit_code == 0, namesake
    theirs = incarnations(Cluster.open("t"))
    for name in lab.names:
        assert len(lab.processes(name, "dtfctl.launcher.agent --cluster")) == 2
        assert (lab.home(name) / ".of/another/clusters/t/owner.json").exists()
    monkeypatch.setenv("DTFCTL_HOME", str(home))
    assert incarnations(Cluster.open("t")) == mine
    monkeypatch.setenv("DTFCTL_HOME", str(other))
    assert incarnations(Cluster.open("t")) == theirs
    with pytest.raises(Conflict, match="`home` cannot change while it is"):
        Cluster.up(cluster_of(lab, home="~/.elsewhere"), task_command=STUB_COMMAND)
    assert Cluster.down_by_name("t", grace_s=0.5)[1] == ()
    for name in lab.names:
        assert not (lab.home(name) / ".of/another/clusters/t/owner.json").exists()

    monkeypatch.setenv("DTFCTL_HOME", str(home))
    assert incarnations(Cluster.open("t")) == mine
    assert agents == [lab.processes(name, "dtfctl.launcher.agent --cluster") for name in lab.names]
    assert Cluster.down_by_name("t", grace_s=0.5)[1] == ()
    for name in lab.names:
        wait_until(lambda name=name: lab.left_over(name) == [], "nothing runs there")  # type: ignore[misc]
        assert not (lab.home(name) / ".dtfctl/clusters/t/owner.json").exists()


def rebuilt(cluster: Cluster) -> list[str]:
    return [event.reason for event in cluster.events() if event.kind == "controller.rebuilt"]


def test_a_database_that_is_damaged_or_gone_is_made_anew_by_the_hosts(home: Path, lab: Lab, tmp_path: Path) -> None:
    shared = shared_folder(lab)
    stop = shared / "stop-rebuild"
    kept = Checkpoints(path=str(shared / "rebuild"))
    result = Cluster.up(cluster_of(lab, ps=1, worker=2, checkpoints=kept))
    assert result.exit_code == 0, result
    cluster = Cluster.open("t")
    script = tmp_path / "train.py"
    script.write_text(TRAIN)
    trains = cluster.submit(JobRequest(str(script), env={"STOP": str(stop)}))
    waits = cluster.submit(JobRequest(str(script), env={"STOP": str(stop)}))
    wait_until(lambda: cluster.job(trains).is_final or steps(cluster, trains) > 20, "it trains")
    before, epoch = incarnations(cluster), cluster.status().controller.epoch
    paths = ClusterPaths.of("t")
    wait_until(lambda: all(trains in text and waits in text for text in copies(lab)), "every host keeps the jobs")

    os.kill(controller_pid(cluster), signal.SIGKILL)
    data = bytearray(paths.database.read_bytes())
    data[100:] = bytes(len(data) - 100)
    paths.database.write_bytes(data)
    paths.database.with_name("controller.db-wal").unlink(missing_ok=True)
    shell = Shell(home.parent, {**os.environ, "NO_COLOR": "1"})
    done = shell("status")
    assert done.returncode == 0, done.stderr
    assert "note: controller.db was damaged" in done.stdout and "Traceback" not in done.stderr
    assert "made anew from 3 hosts: 3 tasks, 2 active jobs" in done.stdout
    cluster = Cluster.open("t")
    assert [kept.stat().st_size for kept in paths.logs.glob("controller.db.*")][:1] == [len(data)], "it is kept"
    assert len(rebuilt(cluster)) == 1
    assert cluster.status().controller.epoch > epoch
    assert [(job.id, job.state) for job in cluster.jobs()][::-1] == [(trains, "running"), (waits, "queued")]

    # Now it is gone, with an agent and a host.
    (agent,) = lab.processes(lab.names[1], "dtfctl.launcher.agent --cluster")
    os.kill(controller_pid(cluster), signal.SIGKILL)
    os.kill(agent, signal.SIGKILL)
    for path in (*paths.folder.glob("controller.db*"), paths.spec):
        path.unlink()
    cluster = Cluster.open("t")
    assert "controller.db was gone; made anew from 3 hosts: 3 tasks, 2 active jobs" in rebuilt(cluster)[-1]
    seen = steps(cluster, trains)
    wait_until(lambda: cluster.job(trains).is_final or steps(cluster, trains) > seen + 20, "it goes on")
    assert cluster.job(trains).state == "running", cluster.job(trains).reason
    wait_until(lambda: cluster.status().healthy, "all is well")
    assert incarnations(cluster) == before, "no task was restarted"
    assert Cluster.up(cluster_of(lab, ps=1, worker=2, checkpoints=kept)).changes == ()
    assert cluster.status().notes == ()
    stop.touch()
    wait_until(lambda: all(job.is_final for job in cluster.jobs()), "both end")
    assert [job.state for job in cluster.jobs()] == ["succeeded", "succeeded"], cluster.jobs()

    # Gone once more, and nobody can be asked: then nothing is claimed.
    os.kill(controller_pid(cluster), signal.SIGKILL)
    for path in paths.folder.glob("controller.db*"):
        path.unlink()
    for name in lab.names:
        lab.cut(name)
    try:
        done = shell("status")
        assert done.returncode == 1 and "none of the hosts that know what runs can be asked" in done.stderr, done
        done = shell("down", "--force")
        assert done.returncode == 5 and "nothing was stopped" in done.stderr, done
    finally:
        for name in lab.names:
            lab.mend(name)
    again = Cluster.up(cluster_of(lab), task_command=STUB_COMMAND)
    assert again.exit_code == 0, again
    assert Cluster.down_by_name("t", grace_s=0.5)[1] == ()
    assert [lab.left_over(name) for name in lab.names] == [[], [], []]


def copies(lab: Lab) -> list[str]:
    """What each host keeps."""
    return [
        next((lab.home(host.name) / ".dtfctl/clusters/t/hosts" / host.address).glob("copy.json")).read_text()
        for host in lab.hosts
    ]


def test_another_machine_takes_a_cluster_over_with_what_runs_and_waits(
    home: Path, lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = shared_folder(lab)
    stop = shared / "stop-adopt"
    spec = cluster_of(lab, ps=1, worker=2, checkpoints=Checkpoints(path=str(shared / "adopt")))
    assert Cluster.up(spec).exit_code == 0
    cluster = Cluster.open("t")
    script = tmp_path / "train.py"
    script.write_text(TRAIN)
    trains = cluster.submit(JobRequest(str(script), env={"STOP": str(stop)}))
    project = tmp_path / "project"
    project.mkdir()
    (project / "train.py").write_text("import helper\n" + TRAIN)
    (project / "helper.py").write_text("")
    waits = cluster.submit(JobRequest(str(project / "train.py"), env={"STOP": str(stop)}, working_dir=str(project)))
    wait_until(lambda: cluster.job(trains).is_final or steps(cluster, trains) > 20, "it trains")
    before = incarnations(cluster)
    wait_until(lambda: all(trains in text and waits in text for text in copies(lab)), "every host keeps the jobs")
    wait_until(lambda: len([*lab.root.glob("*/home/.dtfctl/clusters/t/hosts/*/blobs/*")]) == 2, "two keep its folder")

    other = tmp_path / "other"
    monkeypatch.setenv("DTFCTL_HOME", str(other))
    result = Cluster.up(spec, adopt=True)  # while the former controller lives
    assert (result.exit_code, result.changes) == (0, ()), result
    taken = Cluster.open("t")
    assert "taken over from" in rebuilt(taken)[-1]
    assert incarnations(taken) == before, "no task was restarted"
    assert [(job.id, job.state) for job in taken.jobs()][::-1] == [(trains, "running"), (waits, "queued")]
    seen = steps(taken, trains)
    wait_until(lambda: taken.job(trains).is_final or steps(taken, trains) > seen + 20, "it goes on")
    assert taken.job(trains).state == "running", taken.job(trains).reason
    with taken.connect("ps/0") as tunnel:  # whose certificate is of the former authority
        backend = session(tunnel.target)
        assert product(backend) == [10.0]
        backend.close()
    assert not [key for name in lab.names for key in (lab.home(name) / ".dtfctl").rglob("ca.key")]

    monkeypatch.setenv("DTFCTL_HOME", str(home))
    former = Cluster.open("t")
    wait_until(lambda: any("belongs to" in text for text in former.status().problems), "the former owner is told")
    assert len(Cluster.down_by_name("t", grace_s=0.5)[1]) == 1
    assert Cluster.down_by_name("t", grace_s=0.5, force=True)[1] != ()

    monkeypatch.setenv("DTFCTL_HOME", str(other))
    assert incarnations(taken) == before, "the former owner has stopped nothing"
    # A task that starts now is one of them all the same, also when the certificates of all are new.
    renewed = taken.certificates(renew=True)
    assert not any(item.problem for item in renewed), renewed
    assert taken.restart("worker/1", wait_s=60.0).tasks == ("worker/1",)
    seen = steps(taken, trains)
    wait_until(lambda: taken.job(trains).is_final or steps(taken, trains) > seen + 20, "it goes on")
    stop.touch()
    wait_until(lambda: all(job.is_final for job in taken.jobs()), "both end")
    assert [job.state for job in taken.jobs()] == ["succeeded", "succeeded"], taken.jobs()

    # A third one, who is nobody here, may not remove it, unless that is really meant. A controller would start its
    # agents again.
    os.kill(controller_pid(taken), signal.SIGKILL)
    monkeypatch.setenv("DTFCTL_HOME", str(tmp_path / "third"))
    with_login = cluster_of(lab)
    assert {host.cause for host in clean_hosts(with_login)} == {"owner"}
    cleaned = clean_hosts(with_login, force=True)
    assert [host.cause for host in cleaned] == ["", "", ""] and all(host.ended for host in cleaned), cleaned
    for name in lab.names:
        wait_until(lambda name=name: lab.left_over(name) == [], "nothing runs there")  # type: ignore[misc]
        assert not (lab.home(name) / ".dtfctl/clusters/t").exists()
    monkeypatch.setenv("DTFCTL_HOME", str(other))
    Cluster.down_by_name("t", grace_s=0.5)
    assert {host.was_there for host in clean_hosts(with_login, everything=True)} == {True}
    for name in lab.names:
        wait_until(lambda name=name: lab.left_over(name) == [], "nothing runs there")  # type: ignore[misc]
        assert not (lab.home(name) / ".dtfctl").exists()
    lab.lend_packages()
