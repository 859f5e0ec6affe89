"""Clusters on nodes that Slurm lends: a real slurmctld, real nodes, real steps; tasks are stubs where those do."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest

from dtfctl.launcher.api import Cluster
from dtfctl.launcher.errors import ClusterFailed, Conflict, DeadlineExpired, LauncherError
from dtfctl.launcher.model import Event, JobRequest
from dtfctl.launcher.paths import ClusterPaths
from dtfctl.launcher.spec.load import parse_spec
from dtfctl.launcher.spec.model import ClusterSpec
from tests.cluster.conftest import STUB_COMMAND, controller_pid, kill, wait_until
from tests.faults.conftest import Measured
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
    sruns,
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


@pytest.mark.fault(30)
def test_steps_agents_and_the_controller_may_be_killed(site: Site, measured: Measured) -> None:
    cluster = bring_up(spec_of())
    before = {task.name: task.pid for task in cluster.status().tasks}
    for host in cluster.status().hosts:
        assert host.agent_pid
        kill(host.agent_pid)
    kill(controller_pid(cluster))
    wait_status(cluster, lambda now: {task.name: task.pid for task in now.tasks} == before, "tasks have not noticed")
    wait_status(cluster, lambda now: all(host.state == "up" for host in now.hosts), "other agents")

    node = next(host.node for host in cluster.status().hosts if host.name == "slurm-1")
    lost = {task.name: task.pid for task in cluster.status().tasks if task.host == "slurm-1"}
    begun = time.monotonic()
    for step in [step for step, where in steps(site).items() if where == node]:
        site.ask("scancel", "--signal=KILL", step)
    now = wait_status(
        cluster,
        lambda now: all_run(now) and all(task.pid != lost[task.name] for task in now.tasks if task.name in lost),
        "tasks of the step run in another",
    )
    measured("tasks again s", time.monotonic() - begun)
    measured("restarts of others", sum(before[task.name] != task.pid for task in now.tasks if task.name not in lost))
    assert {task.name: task.pid for task in now.tasks if task.name not in lost} == {
        name: pid for name, pid in before.items() if name not in lost
    }
    assert len(site.jobs()) == 1
    assert cluster.down() == ()


@pytest.mark.nightly
@pytest.mark.fault(29)
@pytest.mark.parametrize("host_name", ["slurm-0", "slurm-1"], ids=["of the batch script", "another"])
def test_a_lost_node_is_left_and_named(site: Site, host_name: str, measured: Measured) -> None:
    cluster = bring_up(spec_of("nodes: 3"))
    victim = next(host for host in cluster.status().hosts if host.name == host_name)
    begun = time.monotonic()
    site.kill_node(victim.node)
    try:
        now = wait_status(
            cluster, lambda now: all_run(now) and all(task.host != host_name for task in now.tasks), "tasks moved"
        )
        measured("tasks elsewhere s", time.monotonic() - begun)
        assert now.grant is not None and now.grant.state == "granted"
        assert any(host_name in problem for problem in now.problems)
        assert cluster.down() == ()
        assert site.jobs() == []
    finally:
        site.start_node(victim.node)
        wait_until(lambda: victim.node in site.ask("sinfo", "-h", "-N", "-t", "idle", "-o", "%N").split(), "it is back")


@pytest.mark.slow
def test_a_node_that_slurm_takes_out_is_left_and_the_others_go_on(site: Site) -> None:
    """`scontrol update State=DOWN` ends what runs there; the allocation, of --no-kill, keeps the others."""
    cluster = bring_up(spec_of("nodes: 3"))
    before = {task.name: task.pid for task in cluster.status().tasks}
    victim = next(host for host in cluster.status().hosts if host.name == "slurm-1")
    site.ask("scontrol", "update", f"NodeName={victim.node}", "State=DOWN", "Reason=test")
    try:
        now = wait_status(
            cluster, lambda now: all_run(now) and all(task.host != "slurm-1" for task in now.tasks), "tasks moved"
        )
        assert now.grant is not None and now.grant.state == "granted"
        wait_until(lambda: "allocation.node-lost" in kinds(cluster), "it is named")
        stayed = [task for task in now.tasks if before[task.name] == task.pid]
        assert stayed and len(stayed) < len(before), "others have not noticed"
        assert cluster.down() == ()
        assert site.jobs() == []
    finally:
        with contextlib.suppress(subprocess.CalledProcessError):  # Slurm has taken it again, as its daemon answers
            site.ask("scontrol", "update", f"NodeName={victim.node}", "State=RESUME")
        wait_until(lambda: victim.node in site.ask("sinfo", "-h", "-N", "-t", "idle", "-o", "%N").split(), "it is back")


@pytest.mark.fault(31)
def test_a_cancelled_allocation_is_named_and_up_asks_for_another(site: Site, measured: Measured) -> None:
    cluster = bring_up(spec_of())
    (job,) = site.jobs()
    begun = time.monotonic()
    site.ask("scancel", job)
    now = wait_status(cluster, lambda now: now.grant is not None and now.grant.state == "ended", "it is known")
    assert now.grant is not None and now.grant.why == "was cancelled"
    wait_status(cluster, lambda now: any(f"Slurm job {job} was cancelled" in text for text in now.problems), "named")
    measured("named s", time.monotonic() - begun)
    cluster = bring_up(spec_of())
    assert site.jobs() not in ([], [job])
    assert all_run(cluster.status())
    assert cluster.down() == ()


def test_up_waits_in_the_queue_and_says_for_what(site: Site) -> None:
    blocker = site.ask("sbatch", "--parsable", "-N4", "--exclusive", "-o", "/dev/null", "--wrap", "sleep 1000").strip()
    wait_until(lambda: "R" in site.ask("squeue", "-h", "-j", blocker, "-o", "%t"), "the nodes are taken")
    with pytest.raises(DeadlineExpired, match="waits in the queue: Resources") as caught:
        Cluster.up(spec_of(), task_command=STUB_COMMAND, timeout_s=20.0)
    assert "down" in caught.value.hint
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
    for asked, words, hint in (
        ("nodes: 9", "[Nn]ode|[Pp]rocessor", "sinfo -N"),
        ("nodes: 1, gres: 'gpu:1'", "gres", "%G"),
        ("nodes: 1, constraint: a100", "feature", "%f"),
        ("nodes: 1, extra: [--reservation=none]", "reservation", "scontrol show reservation"),
        ("nodes: 1, extra: [--wrong]", "unrecognized option '--wrong'", "extra"),
    ):
        with pytest.raises(ClusterFailed, match=words) as caught:
            Cluster.up(spec_of(asked), task_command=STUB_COMMAND)
        assert hint in caught.value.hint
    assert site.jobs() == []
    assert not ClusterPaths.of(name()).info.exists()


def test_a_slurm_that_cannot_be_asked_is_told_from_one_that_refuses(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without munge, without a configuration, without its controller."""
    conf = site.conf.read_text()
    for old, new, words, hint in (
        ("munge.sock", "none.sock", "Munge encode failed", "munged has to run"),
        (f"SlurmctldPort={site.port}", "SlurmctldPort=9", "does not answer", "slurmctld"),
        ("ClusterName=ci", "", "does not know which Slurm", "SLURM_CONF"),
    ):
        wrong = tmp_path / "slurm.conf"
        wrong.write_text(conf.replace(old, new))
        monkeypatch.setenv("SLURM_CONF", str(wrong))
        with pytest.raises(LauncherError, match=words) as caught:
            Cluster.up(spec_of(), task_command=STUB_COMMAND)
        assert hint in caught.value.hint
        assert not ClusterPaths.of(name()).info.exists()
        ClusterPaths.of(name()).allocation.unlink(missing_ok=True)
    monkeypatch.setenv("SLURM_CONF", str(site.conf))
    assert site.jobs() == []


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
    job = enter(site, monkeypatch)
    with pytest.raises(Conflict, match="has 2"):
        Cluster.up(spec_of("nodes: 3"), task_command=STUB_COMMAND)
    cluster = bring_up(spec_inside())
    status = cluster.status()
    assert {host.name for host in status.hosts} == {"slurm-0", "slurm-1"}
    assert site.jobs() == [job]
    assert cluster.down() == ()
    assert site.jobs() == [job]
    wait_until(lambda: not agents(site), "agents have ended")


def test_down_when_the_allocation_that_was_entered_has_just_ended(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """All that ran there has ended with it, whether or not the controller has looked since."""
    job = enter(site, monkeypatch)
    cluster = bring_up(spec_inside())
    site.ask("scancel", job)
    assert cluster.down() == ()
    assert not ClusterPaths.of(name()).info.exists()


def enter(site: Site, monkeypatch: pytest.MonkeyPatch) -> str:
    """Have a job of two nodes, as a user has, and be in its shell."""
    job = site.ask("sbatch", "--parsable", "-N2", "-n2", "-o", "/dev/null", "--wrap", "sleep 1000").strip()
    wait_until(lambda: "R" in site.ask("squeue", "-h", "-j", job, "-o", "%t"), "it runs")
    monkeypatch.setenv("SLURM_JOB_ID", job)
    monkeypatch.setenv("SLURM_JOB_NUM_NODES", "2")
    return job


def spec_inside() -> ClusterSpec:
    return parse_spec(f"cluster: {name()}\nprovider: slurm\ntasks: {{worker: 2}}\n", environ=dict(os.environ))


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
@pytest.mark.fault(34)
def test_before_the_time_limit_nodes_are_given_back_for_others(site: Site, measured: Measured, tmp_path: Path) -> None:
    """The job saves because the limit comes, by itself it would an hour later; and goes on from there."""
    result = Cluster.up(spec_of("nodes: 2, time: 2m, on_limit: requeue, margin: 80s"))
    assert result.exit_code == 0 and result.cluster is not None
    cluster = result.cluster
    script, end = tmp_path / "train.py", tmp_path / "end"
    script.write_text(TRAIN.format(end=str(end)).replace("save_checkpoint_secs=1", "save_checkpoint_secs=3600"))
    job_id = cluster.submit(JobRequest(str(script)))
    (job,) = site.jobs()
    grant = cluster.status().grant
    assert grant is not None and grant.ends is not None
    wait_status(cluster, lambda now: now.grant is not None and now.grant.state == "queued", "given back before its end")
    told = next(event for event in cluster.events() if event.kind == "allocation.requeued")
    measured("after the limit s", max(0.0, told.time - grant.ends))
    assert told.time < grant.ends
    assert checkpoints(site), "one of later than the beginning"
    ending = next(event for event in cluster.events() if event.kind == "allocation.ending")
    assert re.search(r"ends in \d+ s; 40 s before, it is given back for another", ending.reason)
    wait_until(lambda: begin_now(site, job), "it begins anew")
    wait_status(cluster, all_run, "tasks run again")
    assert site.jobs() == [job]
    wait_until(lambda: cluster.job(job_id).state == "running", "the same job goes on")
    end.touch()
    text = said(cluster, job_id)
    measured("checkpoints lost", not any(re.fullmatch(r"begins at [1-9]\d*", line) for line in text))
    assert [line for line in text if re.fullmatch(r"begins at [1-9]\d{1,}", line)], text
    assert cluster.down() == ()


@pytest.mark.nightly
def test_a_time_limit_is_told_before_and_named_after(site: Site) -> None:
    cluster = bring_up(spec_of("nodes: 2, time: 1m, margin: 40s"))
    wait_status(cluster, lambda now: now.grant is not None and now.grant.why == "has reached its time limit", "named")
    assert "allocation.ending" in kinds(cluster)
    assert cluster.down() == ()


@pytest.mark.nightly
def test_an_srun_that_is_killed_takes_its_node_along_and_another_comes(site: Site) -> None:
    """It is two processes: the second one looks after the first, and ends the step of one that was killed."""
    cluster = bring_up(spec_of())
    before = {task.name: task.pid for task in cluster.status().tasks}
    for pid, second in sruns(site):
        os.kill(second, signal.SIGSTOP)
        os.kill(pid, signal.SIGKILL)
        os.kill(second, signal.SIGKILL)
    wait_until(lambda: not sruns(site), "they are gone")
    for host in cluster.status().hosts:
        kill(host.agent_pid)
    wait_status(cluster, lambda now: all(host.state == "up" for host in now.hosts), "agents come back in the steps")
    assert {task.name: task.pid for task in cluster.status().tasks} == before, "of both nobody notices"

    for step in steps(site):
        site.ask("scancel", "--signal=KILL", step)
    wait_status(
        cluster, lambda now: all_run(now) and not set(before.values()) & {task.pid for task in now.tasks}, "others run"
    )
    before = {task.name: task.pid for task in cluster.status().tasks}
    wait_until(lambda: len(sruns(site)) == 2, "two steps, an srun each")
    for pid, _ in sruns(site):
        os.kill(pid, signal.SIGKILL)
    wait_status(
        cluster, lambda now: all_run(now) and not set(before.values()) & {task.pid for task in now.tasks}, "others run"
    )
    assert cluster.down() == ()


@pytest.mark.fault(32)
def test_preempted_nodes_go_one_by_one_and_come_back(site: Site, measured: Measured) -> None:
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
    begun = time.monotonic()
    now = wait_status(cluster, lambda now: all_run(now) and not now.notes, "all four again")
    measured("tasks again after the grant s", time.monotonic() - begun)
    assert {"hosts.fewer", "hosts.more", "allocation.node-lost"} <= set(kinds(cluster))
    stayed = sum(before[task.name] == task.pid for task in now.tasks)
    measured("nodes lost beside them", max(0, 2 - stayed))
    assert stayed >= 2, "others have not noticed"

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
