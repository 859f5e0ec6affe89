"""Seeded chaos under a real training job: whatever is killed or stopped, it ends as accurate as if undisturbed.

`DTF_CHAOS_SECONDS` sets how long faults are made (CI: 20 s; `make nightly`: 300 s), `DTF_CHAOS_SEED` which.
"""

from __future__ import annotations

import os
import random
import re
import signal
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from dtfctl.launcher.api import Cluster
from dtfctl.launcher.model import JobEnded, JobOutput, JobProgress, JobRequest
from dtfctl.launcher.spec.model import Checkpoints, Delay, Every, Health, Restart
from dtfctl.launcher.system.procfs import identify, send_signal
from tests.cluster.conftest import pids, processes_of, spec_of, wait_until

EXAMPLE = Path(__file__).parents[2] / "examples" / "digits_mlp.py"
UNHURRIED = Path(__file__).with_name("unhurried.py")
SECONDS = float(os.environ.get("DTF_CHAOS_SECONDS", "20"))
SEED = int(os.environ.get("DTF_CHAOS_SEED", "1"))
# Faults come faster than any sane restart policy would bear.
PATIENT = Restart(attempts=10_000, delay=Delay(then=0.05, factor=1.0))
KINDS = (
    ("controller", "dtfctl.launcher.controller"),
    ("agent", "dtfctl.launcher.agent "),
    ("keeper", "/keeper."),
    ("task", "dtfctl.task"),
    ("client", "digits_mlp.py"),
)


def victims(home: Path) -> dict[str, list[int]]:
    """Live processes of the cluster by kind."""
    found: dict[str, list[int]] = {kind: [] for kind, _ in KINDS}
    for line in processes_of(home):
        kind = next((kind for kind, mark in KINDS if mark in line and ("/keeper." in line) == (kind == "keeper")), None)
        if kind is not None:
            found[kind].append(int(line.split()[0]))
    return found


def wreak(home: Path, chance: random.Random, until: float) -> Iterator[str]:
    """Make faults until the time is over; yields what was done."""
    while time.monotonic() < until:
        alive = victims(home)
        kind = chance.choices(("task", "client", "agent", "controller", "keeper"), (5, 2, 2, 2, 1))[0]
        number = signal.SIGSTOP if kind in ("task", "agent") and chance.random() < 0.2 else signal.SIGKILL
        process = identify(chance.choice(alive[kind])) if alive[kind] else None
        if process is not None:
            send_signal(process, number)
            yield f"{signal.Signals(number).name} to {kind} {process.pid}"
        # A person, or a script, looks now and then; this also brings a dead controller back.
        if chance.random() < 0.4:
            Cluster.open().status()
        time.sleep(chance.uniform(1.0, 4.0))


@pytest.mark.slow
@pytest.mark.timeout(SECONDS * 4 + 300)
def test_training_under_chaos_ends_as_if_nothing_had_happened(home: Path) -> None:
    pytest.importorskip("sklearn", reason="the example's data set comes with scikit-learn")
    spec = spec_of(
        restart=PATIENT, health=Health(pause=1.0, down_after=2.5), checkpoints=Checkpoints(every=Every(seconds=3.0))
    )
    cluster = Cluster.up(spec).cluster
    assert cluster is not None
    # A last step that is reached soon once the faults have ended, and not before: a worker that starts anew when the
    # chief has ended waits for somebody to fill a ps that has also started anew.
    last = int(1500 + SECONDS * 200)
    job_id = cluster.submit(JobRequest(str(UNHURRIED), (str(EXAMPLE), "--steps", str(last)), retries=100))
    wait_until(lambda: (p := cluster.job(job_id).progress) is not None and p.step > 50, "it trains")
    done = list(wreak(home, random.Random(SEED), time.monotonic() + SECONDS))
    print(f"seed {SEED}: {len(done)} faults: {done}")
    assert not cluster.job(job_id).is_final, "the training ended before the faults did: it needs more steps"

    found = Cluster.open()
    text, steps, ended = [], [], None
    for item in found.follow_job(job_id):
        if isinstance(item, JobOutput):
            text.append(item.line.text)
        elif isinstance(item, JobProgress) and item.chief:
            steps.append(item.progress.step)
        elif isinstance(item, JobEnded):
            ended = item.status
    assert ended is not None
    assert (ended.state, ended.exit_code) == ("succeeded", 0), "\n".join(text[-40:])
    accuracy = re.search(r"held-out digits: ([\d.]+)%", "\n".join(text))
    assert accuracy is not None
    assert float(accuracy[1]) >= 95.0

    wait_until(lambda: Cluster.open().status().running == 3, "all run", 60.0)
    found = Cluster.open()
    alive = victims(home)
    assert sorted(alive["task"]) == sorted(pid for pid in pids(found).values() if pid), "one live incarnation of each"
    assert (len(alive["agent"]), len(alive["controller"]), alive["client"]) == (1, 1, [])
    events = list(found.events())
    assert sorted(event.seq for event in events) == list(range(1, len(events) + 1))
    for name in pids(found):
        starts = [event.incarnation for event in events if event.subject == name and event.kind == "task.starting"]
        assert starts == sorted(set(starts)), f"an incarnation of {name} was used twice"
    falls = [(before, after) for before, after in pairwise(steps) if after < before]
    told = [event for event in events if event.kind == "job.note" and "goes on from step" in event.reason]
    assert len(falls) <= len(told), f"the step fell without an event: {falls}"
