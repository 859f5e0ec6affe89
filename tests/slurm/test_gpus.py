"""GPUs as a real Slurm grants them: two a node, which are files, but Slurm says who has which."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dtfctl.launcher.model import JobRequest
from tests.slurm.clusters import bring_up, said, spec_of
from tests.slurm.site import Site, why_not

TELL = """#!/bin/sh
echo "$DTF_TASK_INDEX has '$CUDA_VISIBLE_DEVICES'"
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Two nodes with two GPUs each."""
    problem = why_not()
    if problem:
        pytest.skip(f"a real Slurm {problem}")
    made = Site(tmp_path_factory.mktemp("slurm"), 2, ("GresTypes=gpu",), "Gres=gpu:2")
    devices = "".join(f"NodeName=n[1-2] Name=gpu File={device}\n" for device in ("/dev/null", "/dev/zero"))
    (made.folder / "gres.conf").write_text(devices)
    try:
        made.up()
        yield made
    finally:
        made.down()


@pytest.fixture
def tell(tmp_path: Path) -> str:
    path = tmp_path / "tell.sh"
    path.write_text(TELL)
    path.chmod(0o755)
    return str(path)


@pytest.mark.slow
def test_jobs_get_the_gpus_that_slurm_has_granted(site: Site, tell: str) -> None:
    blocker = site.ask(
        *("sbatch", "--parsable", "-N2", "--ntasks-per-node=1", "--gres=gpu:1", "-c1", "-o", "/dev/null"),
        *("--wrap", "sleep 1000"),
    ).strip()
    cluster = bring_up(spec_of("nodes: 2, gres: 'gpu:1'", "{worker: 2}"))
    lines = said(cluster, cluster.submit(JobRequest(tell, framework="command", python=None)))
    assert sorted(lines) == ["0 has '1'", "1 has '1'"], "the first is that of another job"
    assert cluster.down() == ()
    site.ask("scancel", blocker)

    cluster = bring_up(spec_of("nodes: 2, gres: 'gpu:2'", "{worker: 2}"))
    lines = said(cluster, cluster.submit(JobRequest(tell, framework="command", python=None)))
    assert sorted(lines) == ["0 has '0,1'", "1 has '0,1'"]
    assert cluster.down() == ()


@pytest.mark.slow
def test_without_gres_there_are_none(site: Site, tell: str) -> None:
    cluster = bring_up(spec_of("nodes: 2", "{worker: 2}"))
    lines = said(cluster, cluster.submit(JobRequest(tell, framework="command", python=None)))
    assert sorted(lines) == ["0 has ''", "1 has ''"]
    assert cluster.down() == ()
