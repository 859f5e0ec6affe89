"""Hosts of one cluster with Pythons of several versions, in homes of their own and in one that they share."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from dtfctl.launcher.api import Cluster
from dtfctl.launcher.model import JobRequest
from tests.cluster.conftest import task, wait_until
from tests.lab.conftest import cluster_of
from tests.lab.netns import Lab, why_not
from tests.lab.test_first_up import told
from tests.lab.test_up import run_job

JOB = """
import sys
import dtfctl.runtime as tf
with tf.device("/job:ps/task:0"):
    a = tf.constant(20.0)
with tf.Session(__import__("os").environ["DTF_TARGET"]) as session:
    print("the answer is", session.run(a + 1.0), "by", sys.version.split()[0], flush=True)
"""


@cache
def python_of(version: str) -> Path:
    """The prefix of a Python of this machine; skips where there is none, or no packages for it can be had."""
    code = "import sys; print(sys.base_prefix)"
    chosen = {**os.environ, "PYENV_VERSION": version}  # as pyenv's shims on PATH want it said
    try:
        said = subprocess.run([f"python{version}", "-c", code], capture_output=True, text=True, check=True, env=chosen)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip(f"needs python{version} beside this Python, on PATH")
    return Path(said.stdout.strip())


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two Pythons of other versions than this one."""
    wanted = [v for v in ("3.11", "3.12", "3.13") if v != f"{sys.version_info.major}.{sys.version_info.minor}"][:2]
    found = [python_of(version) for version in wanted]
    numpy = f"numpy=={importlib.metadata.version('numpy')}"
    for version in wanted:
        words = ["download", "-q", "--no-deps", "--only-binary", ":all:", "--python-version", version, numpy]
        done = subprocess.run(
            [sys.executable, "-m", "pip", *words, "--dest", str(tmp_path_factory.mktemp("wheels"))], capture_output=True
        )
        if done.returncode != 0:
            pytest.skip(f"no packages for Python {version} can be had here: {done.stderr.decode()[-200:]}")
    return found[0], found[1]


@pytest.fixture
def pair() -> Iterator[Callable[..., Lab]]:
    """Two hosts with empty homes and a Python each; they share one home if so told."""
    problem = why_not()
    if problem:
        pytest.skip(f"the lab of SSH hosts {problem}")
    lab = Lab.of_environment()
    if lab.root.exists():
        lab.down()  # of a module whose time was over while it tidied up

    def make(*pythons: Path, shared: bool) -> Lab:
        lab.up(len(pythons))
        for name, prefix in zip(lab.names, pythons, strict=True):
            lab.crash(name)
            lab.give_python(name, prefix)
            if shared and name != lab.names[0]:
                lab.share_home(name, lab.names[0])
            lab.boot(name)
        return lab

    try:
        yield make
    finally:
        lab.down()


def versions(cluster: Cluster, script: Path) -> set[str]:
    """What Pythons the workers of a job are."""
    script.write_text(JOB)
    ended, output = run_job(cluster, JobRequest(str(script)))
    assert ended.state == "succeeded", (ended.reason, output)
    lines = [line for line in output.splitlines() if line.startswith("the answer is 21.0 by ")]
    assert len(lines) == len(ended.clients), output
    return {line.rpartition(" ")[2].rpartition(".")[0] for line in lines}


def version_of(prefix: Path) -> str:
    return next(path.name.removeprefix("python") for path in (prefix / "lib").glob("python3.*"))


@pytest.mark.timeout(900)
def test_hosts_of_several_pythons_share_a_home_and_one_of_them_is_replaced(
    home: Path, pair: Callable[..., Lab], others: tuple[Path, Path], tmp_path: Path
) -> None:
    mine, (other, newer) = Path(sys.base_prefix), others
    lab = pair(mine, other, shared=True)
    spec = cluster_of(lab, ps=1, worker=2, slots=2, python=None, fast=False)
    result = Cluster.up(spec, timeout_s=800)
    assert (result.exit_code, result.running) == (0, 3), result.problems
    cluster = result.cluster
    assert cluster is not None
    assert {item.host for item in cluster.status().tasks} == {host.address for host in lab.hosts}
    script = tmp_path / "versions.py"
    assert versions(cluster, script) == {version_of(mine), version_of(other)}
    assert cluster.down() == ()
    assert [lab.left_over(name) for name in lab.names] == [[], []]

    again = Cluster.up(spec, timeout_s=800)
    assert (again.exit_code, again.running) == (0, 3), again.problems
    cluster = again.cluster
    assert cluster is not None
    assert told(cluster, "host.installing") == {}, "both had all they need, and neither took what is the other's"

    # As an upgrade of the system does it: the old one is gone, and what was made of it leads nowhere.
    changed = lab.names[1]
    there = [item.name for item in cluster.status().tasks if item.host == lab.address_of(changed)]
    before = {name: task(cluster, name).incarnation for name in there}
    lab.crash(changed)
    lab.give_python(changed, newer)
    lab.boot(changed)

    def runs_again() -> bool:
        return all(
            task(cluster, name).state == "running" and task(cluster, name).incarnation > before[name] for name in there
        )

    wait_until(runs_again, "the tasks of the host run again", timeout_s=600)
    wait_until(
        lambda: all(host.state == "up" for host in cluster.status().hosts), "the host is up again", timeout_s=600
    )
    assert cluster.down() == ()
    final = Cluster.up(spec, timeout_s=800)
    assert (final.exit_code, final.running) == (0, 3), final.problems
    assert final.cluster is not None
    assert versions(final.cluster, script) == {version_of(mine), version_of(newer)}
    assert final.cluster.down() == ()
    assert [lab.left_over(name) for name in lab.names] == [[], []]
