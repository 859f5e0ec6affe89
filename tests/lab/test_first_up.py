"""The first `up` on hosts that have nothing of dtfctl, nor a network: what is sent, when, and what is mended."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dtfctl.launcher.api import Cluster
from dtfctl.launcher.model import JobRequest
from tests.cluster.conftest import wait_until
from tests.lab.conftest import cluster_of
from tests.lab.netns import Lab, why_not
from tests.lab.test_up import run_job

SCIPY = """
import scipy.special, sys
import dtfctl.runtime as tf
with tf.Session() as session:
    print("digamma", round(float(session.run(tf.digamma(tf.constant(1.0)))), 4), scipy.special.__file__, flush=True)
"""
FAST = """
from dtfctl.runtime.kernels.compiled import jit
from dtfctl.runtime.kernels.onednn.find import find_library
import numpy as np
x = np.ones((1024, 600), np.float32)
loop = jit.compiled(jit.loops.below_largest, x.dtype, x.nbytes)
loop(x, x)
print("numba", jit.is_available() and not x.any(), "oneDNN", find_library() is not None, flush=True)
"""
HOSTS = 4


@pytest.fixture(scope="module")
def bare() -> Iterator[Lab]:
    """Hosts with empty homes."""
    problem = why_not()
    if problem:
        pytest.skip(f"the lab of SSH hosts {problem}")
    lab = Lab.of_environment()
    if lab.root.exists():
        lab.down()  # of a module whose time was over while it tidied up
    try:
        lab.up(HOSTS)
        yield lab
    finally:
        lab.down()


def told(cluster: Cluster, kind: str) -> dict[str, list[str]]:
    """What events of a kind say, by host."""
    found: dict[str, list[str]] = {}
    for event in cluster.events():
        if event.kind == kind:
            found.setdefault(event.subject.partition(":")[2], []).append(event.reason)
    return found


@pytest.mark.timeout(600)
def test_hosts_get_what_tasks_need_from_here_and_from_each_other_and_the_rest_while_tasks_run(
    home: Path, bare: Lab, tmp_path: Path
) -> None:
    spec = cluster_of(bare, ps=1, worker=HOSTS - 1, python=None)
    result = Cluster.up(spec, timeout_s=500)
    assert (result.exit_code, result.running) == (0, HOSTS), result.problems
    cluster = result.cluster
    assert cluster is not None
    installing = told(cluster, "host.installing")
    assert len(installing) == HOSTS
    addresses = {host.address for host in bare.hosts}
    givers = [line.rpartition(" from ")[2] for lines in installing.values() for line in lines if " from " in line]
    assert givers and set(givers) < addresses, installing

    # It does not matter that scipy may be on its way: who needs it waits for it.
    script = tmp_path / "special.py"
    script.write_text(SCIPY)
    ended, output = run_job(cluster, JobRequest(str(script)))
    assert ended.state == "succeeded", output
    assert "digamma -0.5772" in output and "/.dtfctl/layers/" in output

    try:
        import numba  # noqa: F401
    except ImportError:
        wanted = 1
    else:
        wanted = 2
    wait_until(
        lambda: (
            sum(len([t for t in lines if "is there" in t]) for lines in told(cluster, "host.layer").values())
            == wanted * HOSTS
        ),
        "all layers are there",
        timeout_s=300,
    )
    if wanted == 2:
        script.write_text(FAST)
        ended, output = run_job(cluster, JobRequest(str(script)))
        assert ended.state == "succeeded", output
        assert "numba True oneDNN True" in output
    assert cluster.down() == ()
    for name in bare.names:
        assert bare.left_over(name) == []
        assert not list((bare.home(name) / ".dtfctl/tmp").iterdir())


@pytest.mark.timeout(600)
@pytest.mark.parametrize("harm", ["a file is gone", "its Python does not run"])
def test_what_broke_on_a_host_is_found_before_it_is_used_and_made_again(home: Path, bare: Lab, harm: str) -> None:
    name = bare.names[0]
    base = bare.home(name) / ".dtfctl"
    spec = cluster_of(bare, ps=0, worker=1, hosts=[name], python=None, fast=False)
    result = Cluster.up(spec, timeout_s=300)
    assert result.exit_code == 0, result.problems
    assert result.cluster is not None
    assert result.cluster.down() == ()
    if harm == "a file is gone":
        (next(base.glob("layers/*/numpy")) / "__init__.py").unlink()
    else:
        # As after an upgrade of the host's Python, or in a home that hosts of several share.
        for python in base.glob("runtime/*/bin/python*"):
            python.unlink()
            python.symlink_to("/bin/false")
    result = Cluster.up(spec, timeout_s=300)
    assert (result.exit_code, result.running) == (0, 1), result.problems
    assert result.cluster is not None
    sent = told(result.cluster, "host.installing").get(bare.address_of(name), [])
    assert bool(sent) == (harm == "a file is gone"), "a runtime is made of what is there"
    assert result.cluster.down() == ()
