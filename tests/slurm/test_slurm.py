"""Clusters on nodes that Slurm lends: a real slurmctld, real nodes, real steps; tasks are stubs where those do."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest

from dtfctl.launcher.api import Cluster
from dtfctl.launcher.errors import ClusterFailed, Conflict, DeadlineExpired
from dtfctl.launcher.model import Event, JobRequest
from dtfctl.launcher.paths import ClusterPaths
from dtfctl.launcher.spec.load import parse_spec
from tests.cluster.conftest import STUB_COMMAND, controller_pid, kill, wait_until
from tests.slurm.clusters import (
    TRAIN,
    agents,
    all_run,
    begin_now,
    bring_up,
    checkpoints,
    commands_on,
    kinds,
    name,
    running,
    said,
    spec_of,
    steps,
    wait_status,
    waiting,
)
from tests.slurm.site import Site


def test_up_asks_for_nodes_and_down_gives_them_back(site: Site) -> None:
    cluster = bring_up(spec_of())
    status = cluster.status()
    assert status.grant is not None and status.grant.state == "granted"
    assert {task.host for task in status.tasks} == {"slurm-0", "slurm-1"}
    nodes = {host.node for host in status.hosts}
    assert len(site.jobs()) == 1 and nodes <= set(site.names) and len(nodes) == 2
    wait_until(lambda: sorted(steps(site).values()) == sorted(nodes), "one step a node, and none for a task")
    keys = ClusterPaths.of(name()).certificates
    secrets = [line for path in keys.glob("*.key") for line in path.read_text().splitlines()[1:-1]]
    assert secrets and not any(secret in words for words in commands_on(site) for secret in secrets)
    again = Cluster.up(spec_of(), task_command=STUB_COMMAND)
    assert (again.changes, len(site.jobs())) == ((), 1)
    assert cluster.down() == ()
    assert site.jobs() == []
    wait_until(lambda: not agents(site) and not any("srun" in words for words in commands_on(site)), "all has ended")
    assert not ClusterPaths.of(name()).allocation.exists()


def test_steps_agents_and_the_controller_may_be_killed(site: Site) -> None:
    cluster = bring_up(spec_of())
    before = {task.name: task.pid for task in cluster.status().tasks}
    for host in cluster.status().hosts:
        assert host.agent_pid
        kill(host.agent_pid)
    kill(controller_pid(cluster))
    wait_status(cluster, lambda now: {task.name: task.pid for task in now.tasks} == before, "tasks have not noticed")
    wait_status(cluster, lambda now: all(host.state == "up" for host in now.hosts), "other agents")

    node = next(host.node for host in cluster.status().hosts if host.name == "slurm-1")
    for step in [step for step, where in steps(site).items() if where == node]:
        site.ask("scancel", "--signal=KILL", step)
    lost = {task.name: task.pid for task in cluster.status().tasks if task.host == "slurm-1"}
    now = wait_status(
        cluster,
        lambda now: all_run(now) and all(task.pid != lost[task.name] for task in now.tasks if task.name in lost),
        "tasks of the step run in another",
    )
    assert {task.name: task.pid for task in now.tasks if task.name not in lost} == {
        name: pid for name, pid in before.items() if name not in lost
    }
    assert len(site.jobs()) == 1
    assert cluster.down() == ()


@pytest.mark.nightly
def test_a_lost_node_is_left_and_named(site: Site) -> None:
    cluster = bring_up(spec_of("nodes: 3"))
    victim = next(host for host in cluster.status().hosts if host.name == "slurm-1")
    site.kill_node(victim.node)
    try:
        now = wait_status(
            cluster, lambda now: all_run(now) and all(task.host != "slurm-1" for task in now.tasks), "tasks moved"
        )
        assert now.grant is not None and now.grant.state == "granted"
        assert any("slurm-1" in problem for problem in now.problems)
        assert cluster.down() == ()
        assert site.jobs() == []
    finally:
        site.start_node(victim.node)
        wait_until(lambda: victim.node in site.ask("sinfo", "-h", "-N", "-t", "idle", "-o", "%N").split(), "it is back")


def test_a_cancelled_allocation_is_named_and_up_asks_for_another(site: Site) -> None:
    cluster = bring_up(spec_of())
    (job,) = site.jobs()
    site.ask("scancel", job)
    now = wait_status(cluster, lambda now: now.grant is not None and now.grant.state == "ended", "it is known")
    assert now.grant is not None and now.grant.why == "was cancelled"
    wait_status(cluster, lambda now: any(f"Slurm job {job} was cancelled" in text for text in now.problems), "named")
    cluster = bring_up(spec_of())
    assert site.jobs() not in ([], [job])
    assert all_run(cluster.status())
    assert cluster.down() == ()


def test_up_waits_in_the_queue_and_says_for_what(site: Site) -> None:
    blocker = site.ask("sbatch", "--parsable", "-N4", "--exclusive", "-o", "/dev/null", "--wrap", "sleep 1000").strip()
    wait_until(lambda: "R" in site.ask("squeue", "-h", "-j", blocker, "-o", "%t"), "the nodes are taken")
    with pytest.raises(DeadlineExpired):
        Cluster.up(spec_of(), task_command=STUB_COMMAND, timeout_s=4.0)
    cluster = Cluster.open(name())
    now = wait_status(cluster, lambda now: now.grant is not None and now.grant.why == "Resources", "the reason is said")
    assert all(host.state == "pending" and not host.cause for host in now.hosts)
    assert "allocation.queued" in kinds(cluster)

    seen: list[Event] = []
    waits, result = threading.Event(), []

    def up() -> None:
        result.append(
            Cluster.up(spec_of(), task_command=STUB_COMMAND, on_event=seen.append, on_hosts=lambda hosts: waits.set())
        )

    thread = threading.Thread(target=up)
    thread.start()
    assert waits.wait(60.0), "it looks at what waits"
    site.ask("scancel", blocker)
    thread.join(120.0)
    assert result and result[0].exit_code == 0
    assert "allocation.granted" in [event.kind for event in seen]
    assert cluster.down() == ()
    assert site.jobs() == []


def test_down_in_the_queue_takes_the_request_back(site: Site) -> None:
    blocker = site.ask("sbatch", "--parsable", "-N4", "--exclusive", "-o", "/dev/null", "--wrap", "sleep 1000").strip()
    wait_until(lambda: "R" in site.ask("squeue", "-h", "-j", blocker, "-o", "%t"), "the nodes are taken")
    result = Cluster.up(spec_of(), task_command=STUB_COMMAND, wait=False)
    assert result.cluster is not None
    assert len(site.jobs()) == 2
    result.cluster.down()
    assert site.jobs() == [blocker]


def test_a_request_that_slurm_refuses_leaves_nothing(site: Site) -> None:
    with pytest.raises(ClusterFailed, match="partition") as caught:
        Cluster.up(spec_of("nodes: 2, partition: none"), task_command=STUB_COMMAND)
    assert "sinfo" in caught.value.hint
    with pytest.raises(ClusterFailed, match=r"[Nn]ode|[Pp]rocessor"):
        Cluster.up(spec_of("nodes: 9"), task_command=STUB_COMMAND)
    assert site.jobs() == []
    assert not ClusterPaths.of(name()).info.exists()


def test_an_allocation_is_found_whose_number_was_never_heard(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    from dtfctl.launcher.providers.slurm import allocation, commands

    real = commands.submit

    def lost(words: list[str], script: str) -> str:
        real(words, script)
        raise commands.SlurmSilent("`sbatch` has not answered")

    monkeypatch.setattr(commands, "submit", lost)
    with pytest.raises(commands.SlurmSilent):
        allocation.acquire(ClusterPaths.of(name()), spec_of())
    (job,) = site.jobs()
    monkeypatch.setattr(commands, "submit", real)
    assert allocation.acquire(ClusterPaths.of(name()), spec_of()).job == job
    assert allocation.release(ClusterPaths.of(name()))
    assert site.jobs() == []


def test_inside_an_allocation_its_nodes_are_taken_and_left(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    job = site.ask("sbatch", "--parsable", "-N2", "-n2", "-o", "/dev/null", "--wrap", "sleep 1000").strip()
    wait_until(lambda: "R" in site.ask("squeue", "-h", "-j", job, "-o", "%t"), "it runs")
    monkeypatch.setenv("SLURM_JOB_ID", job)
    monkeypatch.setenv("SLURM_JOB_NUM_NODES", "2")
    with pytest.raises(Conflict, match="has 2"):
        Cluster.up(spec_of("nodes: 3"), task_command=STUB_COMMAND)
    text = f"cluster: {name()}\nprovider: slurm\ntasks: {{worker: 2}}\n"
    cluster = bring_up(parse_spec(text, environ=dict(os.environ)))
    status = cluster.status()
    assert {host.name for host in status.hosts} == {"slurm-0", "slurm-1"}
    assert site.jobs() == [job]
    assert cluster.down() == ()
    assert site.jobs() == [job]
    wait_until(lambda: not agents(site), "agents have ended")


@pytest.mark.nightly
def test_jobs_go_on_when_the_allocation_begins_anew(site: Site, tmp_path: Path) -> None:
    script, end = tmp_path / "train.py", tmp_path / "end"
    script.write_text(TRAIN.format(end=str(end)))
    result = Cluster.up(spec_of())
    assert result.exit_code == 0 and result.cluster is not None
    cluster = result.cluster
    job_id = cluster.submit(JobRequest(str(script)))
    wait_until(lambda: checkpoints(site), "a checkpoint of later than the beginning")
    (job,) = site.jobs()
    site.ask("scontrol", "requeue", job)
    wait_status(cluster, lambda now: now.grant is not None and now.grant.state == "queued", "it waits again")
    wait_until(lambda: begin_now(site, job), "it begins anew")
    wait_status(cluster, all_run, "tasks run again")
    wait_until(lambda: cluster.job(job_id).state == "running", "the same job goes on")
    end.touch()
    text = said(cluster, job_id)
    assert any(line.startswith("begins at") and not line.endswith(" 0") for line in text), text
    assert kinds(cluster).count("allocation.granted") == 2
    assert cluster.down() == ()


@pytest.mark.nightly
def test_before_the_time_limit_nodes_are_given_back_for_others(site: Site) -> None:
    cluster = bring_up(spec_of("nodes: 2, time: 2m, on_limit: requeue, margin: 80s"))
    (job,) = site.jobs()
    wait_status(cluster, lambda now: now.grant is not None and now.grant.state == "queued", "given back before its end")
    assert "allocation.requeued" in kinds(cluster)
    wait_until(lambda: begin_now(site, job), "it begins anew")
    wait_status(cluster, all_run, "tasks run again")
    assert site.jobs() == [job]
    assert cluster.down() == ()


@pytest.mark.nightly
def test_a_time_limit_is_told_before_and_named_after(site: Site) -> None:
    cluster = bring_up(spec_of("nodes: 2, time: 1m, margin: 40s"))
    wait_status(cluster, lambda now: now.grant is not None and now.grant.why == "has reached its time limit", "named")
    assert "allocation.ending" in kinds(cluster)
    assert cluster.down() == ()


@pytest.mark.nightly
def test_an_srun_that_is_killed_takes_its_node_along_and_another_comes(site: Site) -> None:
    cluster = bring_up(spec_of())
    before = {task.name: task.pid for task in cluster.status().tasks}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
            environ = (folder / "environ").read_bytes()
        except OSError:
            continue
        if words[0] == b"srun" and f"SLURM_CONF={site.conf}".encode() in environ:
            os.kill(int(folder.name), signal.SIGKILL)
    wait_status(
        cluster, lambda now: all_run(now) and not set(before.values()) & {task.pid for task in now.tasks}, "others run"
    )
    assert cluster.down() == ()


def test_preempted_nodes_go_one_by_one_and_come_back(site: Site) -> None:
    cluster = bring_up(spec_of("nodes: 4, min: 2, cpus: 2", tasks="{ps: 1, worker: 4}"))
    wait_status(cluster, lambda now: all_run(now) and not now.notes, "all four nodes are there")
    assert len(site.jobs()) == 4, "each node is a job of its own"
    before = {task.name: task.pid for task in cluster.status().tasks}
    urgent = site.ask(
        *("sbatch", "--parsable", "-p", "urgent", "-N2", "--exclusive", "-o", "/dev/null", "--wrap", "sleep 1000")
    ).strip()
    now = wait_status(
        cluster,
        lambda now: bool(now.notes) and now.notes[0].startswith("2 of 4 hosts") and now.tasks[0].state == "running",
        "two are left, with the ps",
    )
    assert now.grant is not None and now.grant.state == "granted" and not now.problems
    assert sum(task.state == "running" for task in now.tasks) >= 3
    again = Cluster.up(spec_of("nodes: 4, min: 2, cpus: 2", tasks="{ps: 1, worker: 4}"), task_command=STUB_COMMAND)
    assert (again.exit_code, again.problems) == (0, ())

    site.ask("scancel", urgent)
    wait_until(lambda: all(begin_now(site, job) for job in waiting(site)) and len(running(site)) == 4, "granted again")
    now = wait_status(cluster, lambda now: all_run(now) and not now.notes, "all four again")
    assert {"hosts.fewer", "hosts.more", "allocation.node-lost"} <= set(kinds(cluster))
    assert sum(before[task.name] == task.pid for task in now.tasks) >= 2, "others have not noticed"

    victim = site.ask("squeue", "-h", "-r", "-t", "running", "-o", "%F_%K").split()[0]
    site.ask("scancel", victim)
    wait_until(lambda: len(set(site.ask("squeue", "-h", "-o", "%F").split())) == 2, "it is asked for again")
    wait_status(cluster, lambda now: all_run(now) and not now.notes, "and all run")
    assert cluster.down() == ()
    assert site.jobs() == []


def test_fewer_nodes_than_needed_are_waited_for(site: Site) -> None:
    blocker = site.ask("sbatch", "--parsable", "-N3", "--exclusive", "-o", "/dev/null", "--wrap", "sleep 1000").strip()
    wait_until(lambda: blocker in running(site), "three nodes are taken")
    with pytest.raises(DeadlineExpired):
        Cluster.up(spec_of("nodes: 4, min: 3"), task_command=STUB_COMMAND, timeout_s=15.0)
    cluster = Cluster.open(name())
    site.ask("scancel", blocker)
    assert bring_up(spec_of("nodes: 4, min: 3")).name == cluster.name
    assert cluster.down() == ()
    assert site.jobs() == []


@pytest.mark.nightly
def test_a_time_limit_takes_one_node_after_the_other(site: Site) -> None:
    """Each is given back before its own end, and comes back under its name."""
    cluster = bring_up(spec_of("nodes: 2, min: 1, cpus: 2, time: 2m, on_limit: requeue, margin: 80s"))
    wait_status(cluster, lambda now: all_run(now), "both run")
    assert len(site.jobs()) == 2
    wait_until(lambda: "allocation.requeued" in kinds(cluster), "given back before its end")
    wait_until(lambda: all(begin_now(site, job) for job in waiting(site)) and len(running(site)) == 2, "granted again")
    wait_status(cluster, lambda now: all_run(now) and not now.notes, "tasks run again")
    assert cluster.down() == ()
