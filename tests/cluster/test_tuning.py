"""`dtfctl tune` on a cluster of real processes: its own process and the controller are killed in the middle."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dtfctl.launcher.api import Cluster
from dtfctl.launcher.spec.model import ClusterSpec, Health, TaskGroup
from tests.cluster.conftest import controller_pid, kill, processes_of, spec_of, wait_until
from tests.doubles.hosts import ManyHostCluster, hosts

pytest.importorskip("optuna")

TRAIN = """
import argparse, json, os, time
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float)
parser.add_argument("--steps", type=int)
parser.add_argument("--data", required=True)
given = parser.parse_args()
file = os.path.join(os.environ["DTF_CHECKPOINT_DIR"], "step")
begun = int(open(file).read()) if os.path.exists(file) else 0
print("steps", begun, "to", given.steps, flush=True)
os.makedirs(os.path.dirname(file), exist_ok=True)
with open(file, "w") as out:
    out.write(str(given.steps))
with open(os.environ["DTF_PROGRESS_FILE"], "a") as out:
    record = {"step": given.steps, "metrics": {"score": given.lr * given.steps}, "time": time.time()}
    out.write(json.dumps(record) + "\\n")
"""
SPACE = """
parameters: {{lr: {{from: 0.1, to: 1.0}}}}
metric: {{name: score, goal: max}}
sampler: random
trials: {trials}
scheduler: {scheduler}
budget: {{min: 2, max: {most}, factor: 2}}
"""


@pytest.fixture
def study(home: Path, tmp_path: Path) -> Callable[..., list[str]]:
    (tmp_path / "train.py").write_text(TRAIN)

    def command(**values: Any) -> list[str]:
        space = tmp_path / f"{values['scheduler']}.yaml"
        space.write_text(SPACE.format(**values))
        folder = tmp_path / f"{values['scheduler']}.study"
        words = ["tune", "-o", "json", "--folder", folder, space, tmp_path / "train.py", "--", "--data", "digits"]
        return [sys.executable, "-m", "dtfctl", *map(str, words)]

    return command


def said(cluster: Cluster, job: str) -> str:
    return " ".join(line.text for line in cluster.logs(f"job:{job}"))


@pytest.mark.slow
def test_a_study_outlives_its_process_and_the_controller(study: Callable[..., list[str]], tmp_path: Path) -> None:
    cluster = Cluster.up(spec_of(ps=0)).cluster
    assert cluster is not None
    command = study(scheduler="asha", trials=6, most=4)
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        records = tmp_path / "asha.study" / "study.jsonl"
        wait_until(lambda: records.exists() and records.read_text().count('"end"') >= 2, "two trials have ended")
        process.send_signal(signal.SIGKILL)
    kill(controller_pid(cluster))
    found = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert found.returncode == 0, found.stderr
    document = json.loads(found.stdout)
    assert document["over"] == "all trials have run" and len(document["trials"]) == 6
    legs = [leg for trial in document["trials"] for leg in trial["legs"]]
    assert all(leg["score"] == pytest.approx(leg["settings"]["lr"] * leg["budget"]) for leg in legs)
    # Each leg is one job, and those who went on did so from their checkpoints.
    assert sorted(job.id for job in cluster.jobs()) == sorted(leg["jobs"][0] for leg in legs)
    assert "steps 2 to 4" in said(cluster, document["best"]["jobs"][0])
    assert (tmp_path / "asha.study" / "study.html").stat().st_size > 1000

    population = subprocess.run(
        study(scheduler="pbt", trials=2, most=4), capture_output=True, text=True, timeout=200, env=os.environ
    )
    assert population.returncode == 0, population.stderr
    for trial in json.loads(population.stdout)["trials"]:
        assert "steps 2 to 4" in said(cluster, trial["legs"][1]["jobs"][0])


HELD = """
import argparse, json, os, pathlib, time
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float)
given = parser.parse_args()
folder = pathlib.Path(FOLDER)
trial = json.loads(os.environ["DTF_TRIAL"])["trial"]


def note(what):
    with open(folder / "notes", "a") as out:
        out.write(f"{what} {trial}\\n")


note("began")
while trial >= 2 and not (folder / "go").exists():
    time.sleep(0.05)
with open(os.environ["DTF_PROGRESS_FILE"], "a") as out:
    out.write(json.dumps({"step": 1, "metrics": {"score": given.lr}, "time": time.time()}) + "\\n")
note("ended")
"""
PATIENT = Health(suspect_phi=90.0, down_phi=100.0, down_after=10.0, lease=60.0)
"""No host is given up for being slow."""
FLAT = """
parameters: {lr: {from: 0.1, to: 1.0}}
metric: {name: score, goal: max}
sampler: random
trials: 6
"""


@pytest.mark.slow
def test_a_study_outlives_one_of_two_hosts(home: Path, tmp_path: Path) -> None:
    """Its agent, task and trial are killed in the middle of a trial, which goes on elsewhere; all others run once."""
    (tmp_path / "train.py").write_text(HELD.replace("FOLDER", repr(str(tmp_path))))
    (tmp_path / "flat.yaml").write_text(FLAT)
    notes = tmp_path / "notes"

    def noted() -> list[str]:
        return notes.read_text().splitlines() if notes.exists() else []

    cluster = ManyHostCluster("t")
    try:
        main = {"main": hosts("a", "b", slots=2)}
        cluster.up(ClusterSpec("t", {"worker": TaskGroup(2)}, host_groups=main, health=PATIENT), wait=False)
        cluster.wait(lambda s: [t.state for t in s.tasks] == ["running"] * 2, "both tasks run", timeout_s=240.0)
        assert sorted(cluster.places().values()) == ["a", "b"]
        words = ["tune", "-o", "json", "--folder", tmp_path / "study", tmp_path / "flat.yaml", tmp_path / "train.py"]
        command = [sys.executable, "-m", "dtfctl", *map(str, words)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            wait_until(lambda: {"began 2", "began 3"} <= set(noted()), "two trials run, one on each host", 240.0)
            (there,) = (task for task, host in cluster.places().items() if host == "b")
            (lost,) = (job.id for job in cluster.api().jobs() if not job.is_final and there in job.tasks)
            killed = cluster.processes("b")
            assert any("train.py" in line for line in killed.values())
            cluster.power_off("b")
            trial = lost.rsplit("-", 2)[1].removeprefix("t")
            wait_until(
                lambda: noted().count(f"began {trial}") == 2, "what ran there has begun on the other host", 240.0
            )
            (tmp_path / "go").touch()
            told, said_of_it = process.communicate(timeout=270)
        assert process.returncode == 0, said_of_it
        document = json.loads(told)
        assert document["over"] == "all trials have run" and len(document["trials"]) == 6
        legs = [leg for one in document["trials"] for leg in one["legs"]]
        assert all(leg["score"] == pytest.approx(leg["settings"]["lr"]) for leg in legs)
        assert sorted(job.id for job in cluster.api().jobs()) == sorted(leg["jobs"][0] for leg in legs)
        assert {job.id: job.restarts for job in cluster.api().jobs() if job.restarts} == {lost: 1}
        once = [f"{what} {number}" for number in range(6) for what in ("began", "ended")]
        assert sorted(noted()) == sorted([*once, f"began {trial}"]), "no trial has run twice to its end"
        assert cluster.host("b").state == "down"
    finally:
        cluster.close()
    assert not processes_of(home)
