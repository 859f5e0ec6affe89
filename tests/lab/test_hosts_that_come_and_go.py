"""Hosts of which some may be away (`min`): clusters come up without them, jobs of all frameworks shrink and grow."""

from __future__ import annotations

import contextlib
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dtfctl.launcher.api import Cluster
from dtfctl.launcher.errors import PartlyDone
from dtfctl.launcher.model import ClusterStatus, Framework, JobRequest
from dtfctl.launcher.spec.model import HostGroup, HostName, TaskGroup
from tests.cluster.conftest import STUB_COMMAND, home, wait_until
from tests.interop.framework_jobs import ENVIRONMENT, EXAMPLES, python_with
from tests.lab.conftest import cluster_of
from tests.lab.netns import Lab

__all__ = ["home"]

MEMBER = """
    import os, pathlib, time
    world = os.environ.get("WORLD_SIZE") or os.environ.get("JAX_NUM_PROCESSES") or "-"
    print("begins", os.environ["DTF_TASK_INDEX"], "of", world, flush=True)
    while not pathlib.Path(os.environ["DTF_CHECKPOINT_DIR"], "end").exists():
        time.sleep(0.1)
"""


@pytest.fixture
def lab(make_lab: Callable[[int], Lab]) -> Iterator[Lab]:
    """Two hosts; the second one is without power at first."""
    made = make_lab(2)
    made.poweroff(made.names[1])
    yield made


def look(cluster: Cluster, is_so: Callable[[ClusterStatus], bool], what: str) -> ClusterStatus:
    def now() -> ClusterStatus | None:
        status = cluster.status()
        return status if is_so(status) else None

    return wait_until(now, what, 120.0)


def worlds(cluster: Cluster, job_id: str) -> list[tuple[str, str]]:
    """What processes say on hosts that answer: (index, processes that there are)."""
    found = []
    with contextlib.suppress(PartlyDone):
        for line in cluster.logs(f"job:{job_id}"):
            if line.text.startswith("begins "):
                words = line.text.split()
                found.append((words[1], words[3]))
    return found


COUNTS = """#!/bin/sh
# A plain command: each process goes on from the number that it has saved.
file=$DTF_CHECKPOINT_DIR/count-$DTF_TASK_INDEX
number=$(cat "$file" 2>/dev/null || echo 0)
echo "counts from $number"
until [ -e "$DTF_CHECKPOINT_DIR/end" ]; do
  number=$((number + 1)); echo "$number" > "$file.new"; mv "$file.new" "$file"; sleep 0.2
done
"""


def said(cluster: Cluster, job_id: str, begins: str) -> list[str]:
    """What a job's processes have said that begins so, on hosts that answer."""
    found = []
    with contextlib.suppress(PartlyDone):  # after the lines of the hosts that answer
        for line in cluster.logs(f"job:{job_id}"):
            if line.text.startswith(begins):
                found.append(line.text)
    return found


@pytest.mark.nightly
def test_torch_and_a_plain_command_go_on_with_fewer_hosts_and_take_them_again(
    lab: Lab, home: Path, tmp_path: Path
) -> None:
    """Real training on digits; the second host is there at first, goes and comes back."""
    python = python_with("TORCH", "sklearn")
    lab.boot(lab.names[1])
    names = tuple(HostName(lab.address_of(name)) for name in lab.names)
    spec = cluster_of(lab, host_groups={"spot": HostGroup(names, min=1)}, tasks={"worker": TaskGroup(2)})
    cluster = Cluster.up(spec, task_command=STUB_COMMAND).cluster
    assert cluster is not None
    counts = tmp_path / "counts.sh"
    counts.write_text(COUNTS)
    counts.chmod(0o755)
    environment = {**ENVIRONMENT, "GLOO_SOCKET_IFNAME": "eth0"}
    command = cluster.submit(JobRequest(str(counts), framework="command", share=True, python=None, name="counts"))
    torch = cluster.submit(
        JobRequest(
            str(EXAMPLES / "torch_digits.py"),
            ("--epochs", "400", "--pause", "0.5"),
            env=environment,
            framework="torch",
            python=python,
            share=True,
            name="digits",
        )
    )
    wait_until(lambda: said(cluster, torch, "2 ranks begin at epoch 0"), "both ranks", 120.0)
    wait_until(lambda: len(said(cluster, torch, "epoch ")) >= 5, "it learns", 60.0)
    wait_until(lambda: len(said(cluster, command, "counts from 0")) == 2, "both count", 60.0)

    lab.poweroff(lab.names[1])
    fewer = wait_until(lambda: said(cluster, torch, "1 ranks begin at epoch "), "it goes on alone", 120.0)
    assert int(fewer[0].split()[-1]) >= 5, "from the newest checkpoint"
    for job_id in (torch, command):
        wait_until(lambda job_id=job_id: cluster.job(job_id).state == "running", "goes on", 60.0)
        assert cluster.job(job_id).reason == "goes on with 1 of 2 processes"

    lab.boot(lab.names[1])
    more = wait_until(lambda: said(cluster, torch, "2 ranks begin at epoch ")[1:], "it takes the host again", 180.0)
    assert int(more[0].split()[-1]) > int(fewer[0].split()[-1])
    counted = wait_until(
        lambda: [line for line in said(cluster, command, "counts from ") if line != "counts from 0"], "the other", 60.0
    )
    assert int(counted[0].split()[-1]) > 0, "it goes on from what it had saved"
    last = said(cluster, torch, "epoch ")[-1]
    wait_until(lambda: said(cluster, torch, "epoch ")[-1] != last, "both learn", 60.0)
    assert float(said(cluster, torch, "epoch ")[-1].split()[-1]) > 0.9
    cluster.cancel(None, grace_s=1.0)
    assert cluster.down(grace_s=1.0) == ()


@pytest.mark.nightly
def test_a_cluster_is_up_with_the_fewest_hosts_and_takes_more(lab: Lab, home: Path, tmp_path: Path) -> None:
    names = tuple(HostName(lab.address_of(name)) for name in lab.names)
    spec = cluster_of(
        lab, host_groups={"spot": HostGroup(names, min=1)}, tasks={"ps": TaskGroup(1), "worker": TaskGroup(6)}
    )
    result = Cluster.up(spec, task_command=STUB_COMMAND)
    assert (result.exit_code, result.running, result.problems) == (0, 4, ()), "a ps and the half of the workers"
    cluster = result.cluster
    assert cluster is not None
    second = names[1].name
    status = cluster.status()
    assert any(note.startswith("1 of 2 hosts, at least 1 are needed; away: " + second) for note in status.notes)

    script = tmp_path / "member.py"
    script.write_text(f"#!{sys.executable}\n{textwrap.dedent(MEMBER)}")
    script.chmod(0o755)
    frameworks: tuple[Framework, ...] = ("torch", "jax", "command")
    jobs = {
        framework: cluster.submit(JobRequest(str(script), framework=framework, share=True, python=None, name=framework))
        for framework in frameworks
    }
    fewer = {
        f"goes on with {count} of 6 processes" for count in (3, 4)
    }  # the command's chief finds a place beside others
    for framework, job_id in jobs.items():
        wait_until(lambda job_id=job_id: len(worlds(cluster, job_id)) >= 3, f"{framework} runs on what is there", 60.0)
        assert cluster.job(job_id).reason in fewer, framework
        assert cluster.job(job_id).state == "running", framework
    assert {world for _, world in worlds(cluster, jobs["torch"])} <= {"3", "4"}

    lab.boot(lab.names[1])
    assert Cluster.up(spec, task_command=STUB_COMMAND).changes == ()
    look(cluster, lambda now: now.running == 7 and not now.notes, "the second host is taken")
    wait_until(lambda: ("5", "6") in worlds(cluster, jobs["torch"]), "torch takes it, after half a minute", 120.0)
    wait_until(lambda: ("5", "6") in worlds(cluster, jobs["jax"]), "and jax", 120.0)
    wait_until(lambda: len(worlds(cluster, jobs["command"])) == 6, "and a command", 60.0)

    # Now the host goes on which the ps and the chiefs are.
    lab.poweroff(lab.names[0])
    now = look(
        cluster,
        lambda now: (
            next(task.host for task in now.tasks if task.name == "ps/0") == second
            and next(task.state for task in now.tasks if task.name == "ps/0") == "running"
            and next(task.state for task in now.tasks if task.name == "worker/0") == "running"
        ),
        "what jobs cannot do without goes on beside others",
    )
    assert not now.problems
    assert any(note.startswith("1 of 2 hosts") for note in now.notes)
    for job_id in jobs.values():
        wait_until(lambda job_id=job_id: cluster.job(job_id).state == "running", "goes on", 60.0)
    kinds = [event.kind for event in cluster.events()]
    assert kinds.count("hosts.more") == 1
    assert "hosts.fewer" in kinds
    assert all(cluster.job(job_id).reason in fewer for job_id in jobs.values())
    cluster.cancel(None, grace_s=1.0)
    Cluster.down_by_name("t", grace_s=1.0, force=True)
