"""Random faults, seeded, on real processes; afterwards exactly one live incarnation of every task is left."""

from __future__ import annotations

import json
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from dtfctl.launcher.api import Cluster
from dtfctl.launcher.model import JobEnded, JobRequest
from dtfctl.launcher.paths import ClusterPaths
from dtfctl.launcher.spec.model import Delay, Health, Restart
from dtfctl.launcher.system.procfs import identify, kill_group, send_signal
from tests.cluster.conftest import pids, processes_of, spec_of, wait_until

Up = Callable[..., Cluster]
FAULTS_S = 12.0
PATIENT = Restart(attempts=1000, delay=Delay(then=0.05, factor=1.0))


def victims(home: Path) -> dict[str, list[int]]:
    """Live processes of the cluster by kind."""
    found: dict[str, list[int]] = {"task": [], "keeper": [], "agent": [], "controller": []}
    for line in processes_of(home):
        pid = int(line.split()[0])
        for kind, mark in (
            ("keeper", "/keeper."),
            ("agent", "launcher.agent"),
            ("controller", "launcher.controller"),
            ("task", "stub_task.py"),
        ):
            if mark in line:
                found[kind].append(pid)
                break
    return found


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_random_faults_never_leave_two_of_one_or_none(up: Up, home: Path, seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    cluster = up(spec_of(restart=PATIENT, health=Health(pause=1.0, down_after=2.0)))
    script = tmp_path / "long.py"
    script.write_text("import time\nfor i in range(200):\n    print(i, flush=True)\n    time.sleep(0.1)\n")
    job_id = cluster.submit(JobRequest(str(script), replication="in-graph"))
    end = time.monotonic() + FAULTS_S
    while time.monotonic() < end:
        alive = victims(home)
        kind = chance.choice(["task", "task", "task", "agent", "controller", "keeper"])
        if alive[kind]:
            number = signal.SIGSTOP if kind in ("task", "agent") and chance.random() < 0.25 else signal.SIGKILL
            process = identify(chance.choice(alive[kind]))
            if process is not None:
                send_signal(process, number)
        time.sleep(chance.uniform(0.05, 0.8))
        if chance.random() < 0.3:
            Cluster.open().status()
    found = Cluster.open()
    wait_until(lambda: found.status().running == 3 and found.status().healthy, "all run again", 60.0)
    alive = victims(home)
    assert len(alive["task"]) == len(set(pids(found).values())) == 3
    assert set(alive["task"]) == set(pids(found).values())
    assert (len(alive["agent"]), len(alive["controller"])) == (1, 1)
    ended = list(found.follow_job(job_id))[-1]
    assert isinstance(ended, JobEnded)
    assert ended.status.state == "succeeded"
    events = list(found.events())
    assert sorted(event.seq for event in events) == list(range(1, len(events) + 1))
    for name in pids(found):
        starts = [event.incarnation for event in events if event.subject == name and event.kind == "task.starting"]
        assert starts == sorted(set(starts)), f"an incarnation of {name} was used twice"


def test_after_a_reboot_the_next_command_starts_everything_again(up: Up, home: Path) -> None:
    cluster = up()
    before = pids(cluster)
    for line in processes_of(home):
        process = identify(int(line.split()[0]))
        if process is not None:
            send_signal(process, signal.SIGKILL)
    wait_until(lambda: not processes_of(home), "all is gone")
    state = ClusterPaths.of("t").host("localhost") / "state.json"
    content = json.loads(state.read_bytes())
    content["boot_id"] = "another boot"
    state.write_text(json.dumps(content))
    found = Cluster.open()
    wait_until(lambda: found.status().running == 3, "all run again")
    assert all(after != pid for after, pid in zip(pids(found).values(), before.values(), strict=True))
    assert {task.incarnation for task in found.status().tasks} == {2}


def test_a_stopped_job_process_is_killed_and_started_again(up: Up, tmp_path: Path) -> None:
    cluster = up(spec_of(health=Health(pause=0.5, down_after=1.5)))
    script = tmp_path / "job.py"
    script.write_text(
        "import os, pathlib, time\n"
        "marker = pathlib.Path(os.environ['DTF_CHECKPOINT_DIR']) / 'x'\n"
        "first = not marker.exists(); marker.touch()\n"
        "time.sleep(600 if first else 0)\n"
    )
    job_id = cluster.submit(JobRequest(str(script), replication="in-graph"))
    pid = wait_until(lambda: (c := cluster.job(job_id).clients) and c[0].pid, "runs")
    wait_until(lambda: Path(cluster.job(job_id).checkpoint_dir, "x").exists(), "is at work")
    process = identify(pid)
    assert process is not None
    send_signal(process, signal.SIGSTOP)
    ended = list(cluster.follow_job(job_id))[-1]
    assert isinstance(ended, JobEnded)
    assert (ended.status.state, ended.status.restarts) == ("succeeded", 1)
    assert not kill_group(process)
