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
from tests.cluster.conftest import controller_pid, kill, spec_of, wait_until

pytest.importorskip("optuna")

TRAIN = """
import argparse, json, os, time
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float)
parser.add_argument("--steps", type=int)
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
        words = ["tune", "-o", "json", "--folder", folder, space, tmp_path / "train.py"]
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
