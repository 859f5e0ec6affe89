"""Five hosts that share nothing, under faults of every kind at random, with three jobs at work all the time.

`DTF_SOAK_SECONDS` sets how long faults are made (`make nightly`: 1,800 s), `DTF_CHAOS_SEED` which.
"""

from __future__ import annotations

import os
import random
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from dtfctl.launcher.api import Cluster
from dtfctl.launcher.errors import LauncherError
from dtfctl.launcher.model import JobEnded, JobOutput, JobRequest
from dtfctl.launcher.spec.model import (
    Checkpoints,
    Delay,
    Every,
    HostGroup,
    HostName,
    Quarantine,
    Restart,
)
from tests.cluster.conftest import controller_pid, home, kill, wait_until
from tests.lab.conftest import cluster_of, make_lab
from tests.lab.netns import Lab

__all__ = ["home", "make_lab"]

EXAMPLE = Path(__file__).parents[2] / "examples" / "digits_mlp.py"
SECONDS = float(os.environ.get("DTF_SOAK_SECONDS", "1800"))
SEED = int(os.environ.get("DTF_CHAOS_SEED", "1"))
HOSTS = 5
JOBS = 3
STEPS = 3000
LEAST_ACCURACY = 95.0
SETTLE_S = 600.0
# Faults come faster than any sane restart policy would bear.
PATIENT = Restart(attempts=10_000, delay=Delay(then=0.05, factor=1.0))
OPEN = Quarantine(failures=10_000)


class Chaos:
    """Faults at random hosts. At most one host is out at a time, so that there is a place for what it ran."""

    def __init__(self, lab: Lab, cluster: Cluster, chance: random.Random) -> None:
        self._lab = lab
        self._cluster = cluster
        self._chance = chance
        self._mend: tuple[float, Callable[[], None]] | None = None

    def strike(self) -> str:
        """One fault; what it was."""
        kinds = {"process": 8, "controller": 2, "out": 3}
        kind = self._chance.choices(list(kinds), list(kinds.values()))[0]
        if kind == "controller":
            kill(controller_pid(self._cluster))
            return "controller killed"
        host = self._chance.choice(self._lab.names)
        if kind == "process":
            return self._strike_process(host)
        if self._mend is not None:
            return "nothing"
        return self._take_out(host)

    def _strike_process(self, host: str) -> str:
        words = self._chance.choice(["dtfctl.task", "dtfctl.launcher.agent", "/keeper.", "digits_mlp.py"])
        found = self._lab.processes(host, words)
        if not found:
            return "nothing"
        kill(self._chance.choice(found))
        return f"{words} killed on {host}"

    def _take_out(self, host: str) -> str:
        lab = self._lab
        kind = self._chance.choice(["cut", "frozen", "slow", "lossy", "power failure"])
        until = time.monotonic() + self._chance.uniform(3.0, 20.0)
        if kind == "cut":
            lab.cut(host)
            self._mend = until, lambda: lab.mend(host)
        elif kind == "frozen":
            lab.freeze(host)
            self._mend = until, lambda: lab.thaw(host)
        elif kind == "slow":
            lab.slow(host, "2mbit")
            self._mend = until, lambda: lab.mend(host)
        elif kind == "lossy":
            lab.lossy(host, 10.0)
            self._mend = until, lambda: lab.mend(host)
        else:
            lab.poweroff(host)
            self._mend = until, lambda: lab.boot(host)
        return f"{host}: {kind}"

    def mend(self, *, now: bool = False) -> None:
        """Bring the host that is out back, when it has been out for long enough."""
        if self._mend is not None and (now or time.monotonic() > self._mend[0]):
            self._mend[1]()
            self._mend = None


def accuracy_of(cluster: Cluster, job: str) -> float:
    """How well a job's model does, which has ended; fails where it has not succeeded."""
    text, ended = [], None
    for item in cluster.follow_job(job):
        if isinstance(item, JobOutput):
            text.append(item.line.text)
        elif isinstance(item, JobEnded):
            ended = item.status
    assert ended is not None
    assert (ended.state, ended.exit_code) == ("succeeded", 0), f"{job}: {ended.reason}\n" + "\n".join(text[-40:])
    found = re.search(r"held-out digits: ([\d.]+)%", "\n".join(text))
    assert found is not None, "\n".join(text[-40:])
    return float(found[1])


def keep_busy(cluster: Cluster, jobs: list[str]) -> None:
    """Have three jobs at work; what they have written is read when every host is there again."""
    found = [cluster.job(job) for job in jobs]
    for job in found:
        assert job.state != "failed", f"{job.id}: {job.reason}"
    for _ in range(JOBS - sum(job.ended is None for job in found)):
        request = JobRequest(str(EXAMPLE), ("--steps", str(STEPS)), retries=1000, workers=1)
        jobs.append(cluster.submit(request))


@pytest.mark.lab
@pytest.mark.nightly
@pytest.mark.timeout(SECONDS * 2 + SETTLE_S + 600)
def test_three_jobs_on_hosts_that_share_nothing(home: Path, make_lab: Callable[[int], Lab]) -> None:
    pytest.importorskip("sklearn", reason="the example's data set comes with scikit-learn")
    lab = make_lab(HOSTS)
    names = tuple(HostName(lab.address_of(host)) for host in lab.names)
    spec = cluster_of(
        lab,
        ps=1,
        worker=JOBS,
        host_groups={"all": HostGroup(names, slots=2)},
        restart=PATIENT,
        quarantine=OPEN,
        checkpoints=Checkpoints(every=Every(seconds=3.0)),
    )
    cluster = Cluster.up(spec).cluster
    assert cluster is not None
    chance = random.Random(SEED)
    chaos, jobs, done = Chaos(lab, cluster, chance), list[str](), []
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        chaos.mend()
        done.append(chaos.strike())
        try:
            keep_busy(cluster, jobs)
        except LauncherError as error:  # the host that it asks is out; asked again
            done.append(f"told: {error.message}")
        time.sleep(chance.uniform(1.0, 5.0))
    chaos.mend(now=True)
    print(f"seed {SEED}: {len(done)} faults: {done}")

    # Nobody makes faults any more: what is at work ends well, all tasks run, and `down` leaves nothing.
    for job in jobs:
        wait_until(lambda job=job: cluster.job(job).ended is not None, f"{job} ends", SETTLE_S)  # type: ignore[misc]
    wait_until(lambda: all(host.state == "up" for host in cluster.status().hosts), "every host is up", SETTLE_S)
    scores = [accuracy_of(cluster, job) for job in jobs]
    print(f"{len(scores)} jobs: {scores}")
    assert min(scores) >= LEAST_ACCURACY
    wait_until(lambda: cluster.status().running == 1 + JOBS, "all tasks run", SETTLE_S)
    for name in {item.subject for item in cluster.events() if item.kind == "task.starting"}:
        events = [item for item in cluster.events() if item.subject == name and item.kind == "task.starting"]
        starts = [item.incarnation for item in events]
        # In no order: a host that is cut off gives numbers of its own, and tells of them later.
        assert len(starts) == len(set(starts)), f"an incarnation of {name} was used twice"
    assert cluster.down() == ()
    assert {host: lab.left_over(host) for host in lab.names} == {host: [] for host in lab.names}
