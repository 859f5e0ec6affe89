"""Row 22: a thousand stub tasks on twenty hosts; a hundred of them killed at once."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from dtfctl.launcher.api import Cluster
from dtfctl.launcher.spec.model import HostGroup, HostName, TaskGroup
from tests.cluster.conftest import controller_pid, wait_until
from tests.faults.conftest import Measured
from tests.lab.conftest import cluster_of
from tests.lab.netns import Lab

HOSTS, TASKS = 20, 1000
TICKS = os.sysconf("SC_CLK_TCK")


@pytest.mark.lab
@pytest.mark.slow
@pytest.mark.skipif(not os.environ.get("DTF_TEST_SCALE"), reason="DTF_TEST_SCALE=1 asks for it: it fills the machine")
@pytest.mark.timeout(600)
@pytest.mark.fault(22)
def test_a_thousand_tasks(home: Path, make_lab: Callable[[int], Lab], measured: Measured) -> None:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("the stub tasks are in C, and there is no C compiler")
    lab = make_lab(HOSTS)
    stub = lab.root / "stub"  # the hosts do not share this machine's /tmp
    subprocess.run([compiler, "-O1", "-o", stub, Path(__file__).with_name("stub.c")], check=True)
    hosts = tuple(HostName(host.address) for host in lab.hosts)
    spec = cluster_of(
        lab,
        tasks={"ps": TaskGroup(TASKS // 10), "worker": TaskGroup(TASKS - TASKS // 10)},
        host_groups={"all": HostGroup(hosts, slots=TASKS // HOSTS)},
    )
    # The bundle is there, as it is from the second time on.
    first = Cluster.up(
        cluster_of(lab, tasks={"worker": TaskGroup(HOSTS)}, host_groups=spec.host_groups, name="first"),
        task_command=(str(stub),),
    )
    assert first.exit_code == 0
    Cluster.down_by_name("first", grace_s=0.5)

    begun = time.monotonic()
    result = Cluster.up(spec, task_command=(str(stub),), timeout_s=240)
    measured("up s", time.monotonic() - begun)
    assert (result.exit_code, result.running) == (0, TASKS)
    cluster = result.cluster
    assert cluster is not None

    begun = time.monotonic()
    status = cluster.status()
    measured("status s", time.monotonic() - begun)

    pid = controller_pid(cluster)
    before, begun = cpu_of(pid), time.monotonic()
    time.sleep(10.0)
    measured("controller idle % of a core", 100 * (cpu_of(pid) - before) / (time.monotonic() - begun))
    measured("controller MB", int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096 / 1e6)

    victims = random.Random(22).sample([task.name for task in status.tasks], 100)
    inside = {name: set(lab.members(name)) for name in lab.names}
    killed = 0
    begun = time.monotonic()
    for name in lab.names:
        mine = [task for task in status.tasks if task.host == lab.address_of(name) and task.name in victims]
        outer = {pid_inside(pid): pid for pid in inside[name]}
        for task in mine:
            assert task.pid is not None
            os.kill(outer[task.pid], signal.SIGKILL)
            killed += 1
    assert killed == 100

    def again() -> bool:
        now = {task.name: task for task in cluster.status().tasks}
        return all(now[name].state == "running" and now[name].incarnation == 2 for name in victims)

    wait_until(again, "a hundred run again", 120.0)
    measured("100 restarts s", time.monotonic() - begun)
    after = cluster.status()
    assert sum(task.restarts for task in after.tasks) == 100, "nobody else was restarted"
    assert Cluster.down_by_name("t", grace_s=0.5)[1] == ()
    assert not any(lab.processes(name, str(stub)) for name in lab.names)


def cpu_of(pid: int) -> float:
    """Seconds of CPU that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def pid_inside(pid: int) -> int:
    """The pid that a process has in its own namespace."""
    line = next(text for text in Path(f"/proc/{pid}/status").read_text().splitlines() if text.startswith("NSpid:"))
    return int(line.split()[-1])
