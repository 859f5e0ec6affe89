"""`controller: host`: the controller on the first host, used from a machine that may come and go."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dtfctl.launcher.api import Cluster, clusters
from dtfctl.launcher.errors import Conflict, LoginError
from dtfctl.launcher.model import Event, JobRequest
from dtfctl.launcher.operator.clean_hosts import clean_hosts
from dtfctl.launcher.paths import ClusterPaths
from dtfctl.launcher.spec.model import ControllerPlace, Health, HostGroup, HostName, Sync
from tests.cluster.commands import Shell
from tests.cluster.conftest import PATIENCE_S, STUB_COMMAND, pids, wait_until
from tests.lab.conftest import cluster_of, ssh_of
from tests.lab.netns import HOME, Lab
from tests.lab.test_memory_of_hosts import TRAIN, copies, incarnations, rebuilt, steps
from tests.lab.test_up import ADD, run_job

CONTROLLER = "dtfctl.launcher.controller --lock-fd"


def controllers(lab: Lab, name: str) -> list[int]:
    """Live controller processes of a host, without the shell that keeps them."""
    found = []
    for pid in lab.processes(name, CONTROLLER):
        if b"until" not in Path(f"/proc/{pid}/cmdline").read_bytes():
            found.append(pid)
    return found


def test_everything_works_from_here_and_nothing_runs_here(
    home: Path, lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = tmp_path / "user" / ".ssh"
    settings.mkdir(parents=True)
    (settings / "config").write_text("Host *\n  StrictHostKeyChecking no\n")
    monkeypatch.setenv("HOME", str(settings.parent))
    sent = tmp_path / "data"
    sent.mkdir()
    (sent / "words.txt").write_text("hello\n")
    spec = cluster_of(
        lab,
        controller=ControllerPlace("host", lab.address_of(lab.names[1])),
        sync=(Sync(str(sent), "~/data"),),
        setup=("cat ~/data/words.txt",),
    )
    told: list[Event] = []
    result = Cluster.up(spec, on_event=told.append)
    assert (result.exit_code, result.running) == (0, 3), result.problems
    cluster = result.cluster
    assert cluster is not None
    first = lab.names[1]
    assert ("host.connecting", f"host:{lab.address_of(first)}") in [(e.kind, e.subject) for e in told if e.seq == 0]
    assert [len(controllers(lab, name)) for name in lab.names] == [0, 1] + [0] * (len(lab.names) - 2)
    status = cluster.status()
    assert status.controller.address.startswith(lab.address_of(first) + ":")
    assert [info.alive for info in clusters()] == [True]
    for name in lab.names:
        assert (lab.home(name) / "data" / "words.txt").read_text() == "hello\n"
    assert not ClusterPaths.of("t").database.exists(), "its state lies on its host"

    again = Cluster.up(spec)
    assert (again.changes, again.exit_code) == ((), 0)
    with pytest.raises(Conflict, match=f"runs on {lab.address_of(first)}"):
        Cluster.up(replace(spec, controller=ControllerPlace("host", lab.address_of(lab.names[0]))))
    assert {task.name: task.pid for task in status.tasks} == pids(cluster)

    script = tmp_path / "add.py"
    script.write_text(ADD)
    ended, output = run_job(cluster, JobRequest(str(script)))
    assert ended.state == "succeeded", output
    assert output.count("the answer is 42.0") == 2
    events = cluster.events()
    assert any("controller.started" in event.kind for event in events)
    (note,) = [event.reason for event in events if event.kind == "host.note"]
    assert note.startswith("~/.ssh/config:2: StrictHostKeyChecking no is not obeyed"), "of the machine that logged in"
    assert [event.reason for event in told if event.kind == "host.note"] == [note], "said once"
    log = f"{HOME}/.dtfctl/controllers/clusters/t/logs/controller.log"
    lab.sh(first, "sh", "-c", f"echo 2026-01-01T00:00:00 said here >> {log}")
    assert any("said here" in line.text for line in cluster.logs("controller"))
    before = pids(cluster)
    assert cluster.restart("worker/1").tasks == ("worker/1",)
    assert pids(cluster)["worker/1"] != before["worker/1"]

    assert cluster.down(keep_logs=False) == ()
    assert clusters() == []
    for name in lab.names:
        assert not list((lab.home(name) / ".dtfctl").rglob("*.log"))
        assert lab.left_over(name) == []
        assert (lab.home(name) / ".ssh" / "authorized_keys").read_text() == ""
        assert not list((lab.home(name) / ".dtfctl").rglob("*.key"))
    assert not list(home.rglob("*.key"))


@pytest.mark.nightly
def test_another_machine_takes_it_over_and_its_controller_moves_when_its_host_is_lost(
    home: Path, lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop, script = lab.root / "shared" / "stop-moving", tmp_path / "train.py"
    stop.parent.mkdir(exist_ok=True)
    script.write_text(TRAIN)
    *others, last = lab.names
    groups = {"all": HostGroup(tuple(HostName(host.address) for host in lab.hosts), slots=2)}
    spec = cluster_of(lab, ps=1, worker=1, host_groups=groups, controller=ControllerPlace("host"))
    assert Cluster.up(spec).exit_code == 0
    job_id = Cluster.open("t").submit(JobRequest(str(script), env={"STOP": str(stop)}))
    wait_until(lambda: steps(Cluster.open("t"), job_id) > 20, "it trains")
    before = incarnations(Cluster.open("t"))
    wait_until(lambda: all(job_id in text for text in copies(lab)), "every host keeps the job")
    assert [len(controllers(lab, name)) for name in lab.names] == [1, 0, 0]

    # Its database is lost.
    for pid in lab.processes(lab.names[0], CONTROLLER):
        os.kill(pid, signal.SIGKILL)
    for path in (lab.home(lab.names[0]) / ".dtfctl/controllers/clusters/t").glob("controller.db*"):
        path.unlink()
    assert "controller.db was gone; made anew from 3 hosts" in rebuilt(Cluster.open("t"))[-1]
    assert incarnations(Cluster.open("t")) == before, "no task was restarted"

    # Another machine takes the cluster over, and puts the controller elsewhere.
    monkeypatch.setenv("DTFCTL_HOME", str(tmp_path / "other"))
    with pytest.raises(Conflict, match=r"belongs to|another cluster"):
        Cluster.up(spec)
    elsewhere = replace(spec, controller=ControllerPlace("host", lab.address_of(last)))
    result = Cluster.up(elsewhere, adopt=True)
    assert result.exit_code == 0, result
    taken = Cluster.open("t")
    assert "taken over from" in rebuilt(taken)[-1]
    assert [len(controllers(lab, name)) for name in lab.names] == [0, 0, 1]
    assert incarnations(taken) == before, "no task was restarted"
    seen = steps(taken, job_id)
    wait_until(lambda: steps(taken, job_id) > seen + 20, "it goes on")

    # The host of that controller is lost.
    lab.poweroff(last)
    with pytest.raises(LoginError, match="where the controller runs") as lost:
        Cluster.open("t").status()
    assert "--adopt" in lost.value.hint
    result = Cluster.up(spec, adopt=True)
    assert result.usable, result
    moved = Cluster.open("t")
    assert f"taken over from the controller on {lab.address_of(last)}" in rebuilt(moved)[-1]
    assert len(controllers(lab, lab.names[0])) == 1
    seen = steps(moved, job_id)
    wait_until(lambda: moved.job(job_id).is_final or steps(moved, job_id) != seen, "it goes on")
    stop.touch()
    wait_until(lambda: moved.job(job_id).is_final, "it ends")
    assert moved.job(job_id).state == "succeeded", moved.job(job_id).reason
    lab.boot(last)
    wait_until(lambda: all(host.state == "up" for host in moved.status().hosts), "its host is back")
    assert moved.down(grace_s=0.5) == ()
    for name in others:
        assert lab.left_over(name) == []
    assert not list((lab.home(last) / ".dtfctl/controllers").rglob("cluster.json")), "what it had is gone, too"
    monkeypatch.setenv("DTFCTL_HOME", str(home))
    Cluster.down_by_name("t", force=True)


@pytest.mark.nightly
def test_cleaning_hosts_ends_the_controller_before_it_can_start_agents_again(
    home: Path, lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = cluster_of(lab, controller=ControllerPlace("host", lab.address_of(lab.names[2])))
    assert Cluster.up(spec, task_command=STUB_COMMAND).exit_code == 0
    monkeypatch.setenv("DTFCTL_HOME", str(tmp_path / "other"))
    cleaned = clean_hosts(spec, force=True)
    assert [host.cause for host in cleaned] == ["", "", ""], cleaned
    for name in lab.names:
        assert lab.left_over(name) == []
        assert not (lab.home(name) / ".dtfctl/clusters/t").exists()
        assert (lab.home(name) / ".ssh" / "authorized_keys").read_text() == ""
    monkeypatch.setenv("DTFCTL_HOME", str(home))
    Cluster.down_by_name("t", force=True)
    assert clusters() == []


@pytest.fixture(scope="module")
def cluster(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    base = tmp_path_factory.mktemp("far")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DTFCTL_HOME", str(base / "home"))
        # A busy machine must not make it move tasks.
        patient = Health(down_phi=1e6, down_after=PATIENCE_S, lease=2 * PATIENCE_S)
        result = Cluster.up(
            cluster_of(lab, controller=ControllerPlace("host"), health=patient), task_command=STUB_COMMAND
        )
        assert (result.exit_code, result.running) == (0, 3), result.problems
        assert result.cluster is not None
        yield result.cluster
        result.cluster.down(grace_s=1.0)


def test_a_killed_controller_is_started_again_on_its_host(cluster: Cluster, lab: Lab) -> None:
    before, epoch = pids(cluster), cluster.status().controller.epoch
    (pid,) = controllers(lab, lab.names[0])
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: [p for p in controllers(lab, lab.names[0]) if p != pid], "nobody asks, and it is there again")
    assert cluster.status().controller.epoch == epoch + 1
    wait_until(lambda: pids(cluster) == before, "the tasks did not notice")


def test_the_next_command_starts_it_when_nobody_else_does(cluster: Cluster, lab: Lab) -> None:
    before = pids(cluster)
    for pid in lab.processes(lab.names[0], CONTROLLER):  # the shell first, which is the oldest
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not lab.processes(lab.names[0], CONTROLLER), "both are gone")
    another = Cluster.open("t")
    wait_until(lambda: pids(another) == before, "the tasks did not notice")


def test_a_controller_whose_port_is_shut_is_reached_through_ssh(cluster: Cluster, lab: Lab) -> None:
    name = lab.names[0]
    before = pids(cluster)
    port = cluster.status().controller.address.rpartition(":")[2]
    with lab.shut_port(name, int(port), from_=lab.gateway):
        assert pids(Cluster.open("t")) == before
        shell = Shell(Path(os.environ["DTFCTL_HOME"]).parent, {**os.environ, "NO_COLOR": "1"})
        done = shell("status")
        assert done.returncode == 0 and "worker/1" in done.stdout, done.stderr
        assert shell("logs", "ps/0", "-n", "1").returncode == 0
    assert pids(Cluster.open("t")) == before


def test_an_agent_is_started_again_with_the_clusters_own_key(cluster: Cluster, lab: Lab) -> None:
    before = pids(cluster)
    host = next(item for item in cluster.status().hosts if item.name == lab.hosts[2].address)
    (pid,) = lab.processes(lab.names[2], "dtfctl.launcher.agent --cluster")
    os.kill(pid, signal.SIGKILL)

    def is_new() -> bool:
        now = next(item for item in cluster.status().hosts if item.name == host.name)
        return now.state == "up" and now.agent_pid not in (None, host.agent_pid)

    wait_until(is_new, "another agent")
    assert pids(cluster) == before


def test_a_host_that_lets_nobody_in_is_named(home: Path, lab: Lab) -> None:
    spec = cluster_of(lab, controller=ControllerPlace("host"), name="u", ssh=ssh_of(lab, user="nobody-here"))
    with pytest.raises(LoginError, match=f"{lab.hosts[0].address}, where the controller runs: authentication failed"):
        Cluster.up(spec, task_command=STUB_COMMAND)
    assert clusters() == [], "nothing is left of it"
