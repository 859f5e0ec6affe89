"""Nodes of a real Slurm that share no disk: each has a home of its own, under the same path."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from dtfctl.launcher.api import Cluster
from dtfctl.launcher.model import JobRequest
from tests.cluster.conftest import wait_until
from tests.faults.conftest import Measured
from tests.slurm.clusters import TRAIN, all_run, begin_now, checkpoints, name, said, spec_of, steps, wait_status
from tests.slurm.site import Site, why_not


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Four nodes, of two processors each."""
    problem = why_not() or ("" if os.geteuid() == 0 else "with homes of its nodes' own needs root")
    if problem:
        pytest.skip(f"a real Slurm {problem}")
    made = Site(tmp_path_factory.mktemp("slurm"), 4, own_homes=True)
    try:
        made.up()
        yield made
    finally:
        made.down()


def begin(site: Site, script: Path, end: Path) -> tuple[Cluster, str]:
    """Bring two nodes up, and train on them until there is a checkpoint."""
    script.write_text(TRAIN.format(end=str(end)))
    result = Cluster.up(spec_of())
    assert result.exit_code == 0 and result.cluster is not None, result.problems
    job_id = result.cluster.submit(JobRequest(str(script)))
    wait_until(lambda: checkpoints(site), "a checkpoint of later than the beginning")
    return result.cluster, job_id


def is_kept(site: Site) -> bool:
    """Whether the login node has a checkpoint of later than the beginning that its list names."""
    for index in (site.account / ".dtfctl" / "clusters" / name()).rglob("*.index"):
        text = (index.parent / "checkpoint").read_text() if (index.parent / "checkpoint").exists() else ""
        if f'{index.stem}"' in text and not index.stem.endswith("-0"):
            return True
    return False


@pytest.mark.slow
def test_training_goes_on_when_a_node_is_lost_with_its_disk(site: Site, tmp_path: Path) -> None:
    cluster, job_id = begin(site, tmp_path / "train.py", tmp_path / "end")
    status = cluster.status()
    wait_until(lambda: len(cluster.job(job_id).checkpoint_hosts) == 2, "both nodes have a checkpoint")
    of_ps = next(task.host for task in status.tasks if task.name == "ps/0")
    victim = next(host.node for host in status.hosts if host.name == of_ps)
    saved = max(int(path.stem.rpartition("-")[2]) for path in checkpoints(site))
    site.kill_node(victim)
    try:
        now = wait_status(cluster, lambda now: all_run(now) and now.tasks[0].host != of_ps, "tasks moved")
        assert now.grant is not None and now.grant.state == "granted"
        wait_until(lambda: cluster.job(job_id).state == "running", "the same job goes on")
        (tmp_path / "end").touch()
        lines = said(cluster, job_id)
        assert any(line.startswith("ends at") and int(line.split()[2]) >= saved for line in lines), (saved, lines)
        assert cluster.down() == ()
    finally:
        site.start_node(victim)
        wait_until(lambda: victim in site.ask("sinfo", "-h", "-N", "-t", "idle", "-o", "%N").split(), "it is back")


@pytest.mark.slow
@pytest.mark.fault(33)
def test_jobs_go_on_from_their_checkpoints_on_other_nodes(site: Site, tmp_path: Path, measured: Measured) -> None:
    """What the nodes had is lost with the allocation; the controller's machine has kept it."""
    cluster, job_id = begin(site, tmp_path / "train.py", tmp_path / "end")
    wait_until(lambda: is_kept(site), "the controller's machine has a copy")
    before = set(steps(site).values())
    (job,) = site.jobs()
    for node in before:
        site.ask("scontrol", "update", f"NodeName={node}", "State=DRAIN", "Reason=test")
    try:
        site.ask("scontrol", "requeue", job)
        wait_status(cluster, lambda now: now.grant is not None and now.grant.state == "queued", "it waits again")
        wait_until(lambda: begin_now(site, job), "it begins anew")
        wait_status(cluster, all_run, "tasks run again")
        assert not before & set(steps(site).values())
        wait_until(lambda: cluster.job(job_id).state == "running", "the same job goes on")
        (tmp_path / "end").touch()
        lines = said(cluster, job_id)
        goes_on = any(line.startswith("begins at") and not line.endswith(" 0") for line in lines)
        measured("checkpoints lost", not goes_on)
        assert goes_on, lines
        assert cluster.down() == ()
        assert site.jobs() == []
    finally:
        for node in before:
            site.ask("scontrol", "update", f"NodeName={node}", "State=RESUME")
