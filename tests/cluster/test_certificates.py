"""Certificates are renewed under a cluster that works: no process is started again, no step fails."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from dtfctl.launcher.api import Cluster
from dtfctl.launcher.identity.certificates import TlsFiles, expiry, renew_certificate
from dtfctl.launcher.model import JobEnded, JobRequest
from dtfctl.launcher.paths import ClusterPaths
from dtfctl.launcher.spec.model import Security
from tests.cluster.conftest import controller_pid, kill, pids, spec_of, wait_until

EXAMPLE = Path(__file__).parents[2] / "examples" / "digits_mlp.py"


def begin(cluster: Cluster, steps: int) -> str:
    """Start to train; the job, once it has begun."""
    job = cluster.submit(JobRequest(str(EXAMPLE), args=("--steps", str(steps))))
    wait_until(lambda: (found := cluster.job(job).progress) is not None and found.step > 10, "it trains")
    return job


def end_of(cluster: Cluster, job: str) -> JobEnded:
    (ended,) = [item for item in cluster.follow_job(job) if isinstance(item, JobEnded)]
    return ended


def keys_of(cluster: Cluster) -> dict[str, bytes]:
    """Every private key of the cluster, by the name of its file, but the authorities'."""
    folder = ClusterPaths.of(cluster.name).folder
    return {path.name: path.read_bytes() for path in folder.rglob("*.key") if path.name != "ca.key"}


def test_renewed_on_demand_under_training(home: Path) -> None:
    cluster = Cluster.up(spec_of()).cluster
    assert cluster is not None
    job = begin(cluster, 600)
    before, processes = keys_of(cluster), pids(cluster)
    assert before.keys() >= {"task-ps-0.key", "task-worker-0.key", "task-worker-1.key", "agent-localhost.key"}
    found = cluster.certificates(renew=True)
    assert [item for item in found if item.problem] == []
    after = keys_of(cluster)
    assert after.keys() == before.keys()
    assert [name for name in before if before[name] == after[name]] == []
    ended = end_of(cluster, job)
    assert ended.status.exit_code == 0
    assert pids(cluster) == processes
    assert cluster.job(job).restarts == 0
    assert any(event.kind == "host.certified" for event in cluster.events())


def test_a_task_that_goes_leaves_no_key(home: Path) -> None:
    cluster = Cluster.up(spec_of()).cluster
    assert cluster is not None
    cluster.scale({"worker": 1}, wait_s=60.0)
    wait_until(lambda: "task-worker-1.key" not in keys_of(cluster), "its key is gone")
    assert "task-worker-0.key" in keys_of(cluster)


@pytest.mark.nightly
def test_renewed_before_they_end_under_training(home: Path) -> None:
    cluster = Cluster.up(spec_of(security=Security(lifetime=45.0))).cluster
    assert cluster is not None
    first = {item.name: item.until for item in cluster.certificates() if item.name != "ca"}
    processes = pids(cluster)
    while time.time() < max(first.values()) + 5.0:
        job = begin(cluster, 4000)
        assert end_of(cluster, job).status.exit_code == 0
        assert cluster.job(job).restarts == 0
    now = {item.name: item.until for item in cluster.certificates() if item.name != "ca"}
    assert now.keys() == first.keys()
    assert all(until > time.time() for until in now.values())
    assert pids(cluster) == processes


def test_an_agent_whose_certificate_has_ended_is_given_another(home: Path) -> None:
    cluster = Cluster.up(spec_of()).cluster
    assert cluster is not None
    paths = ClusterPaths.of(cluster.name)
    files = TlsFiles.of(paths.certificates, "agent-localhost")
    processes = pids(cluster)
    renew_certificate(paths.certificates, cluster.name, "agent", "localhost", lifetime_s=-60.0)
    kill(controller_pid(cluster))
    wait_until(lambda: cluster.status().hosts[0].state == "up" and expiry(files.cert) > time.time(), "it is up again")
    assert pids(cluster) == processes
