"""`train_and_evaluate` of a Keras model's estimator as a job: each process of a real cluster does its part."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dtfctl.runtime as tf
from dtfctl.launcher.api import Cluster
from dtfctl.launcher.model import JobEnded, JobOutput, JobProgress, JobRequest
from dtfctl.launcher.spec.model import ClusterSpec, TaskGroup
from tests.cluster.conftest import kill, pids

PROGRAM = Path(__file__).with_name("estimator_program.py")
WITH_EVALUATOR = {"ps": 2, "chief": 1, "worker": 1, "evaluator": 1}
STEPS = 800


def run(cluster: Cluster, folder: Path, steps: int, victims: list[str]) -> tuple[str, dict[str, Any]]:
    """Run the program; `victims` are killed, one at a time, as training goes on. Gives how it ended, and what each
    task found."""
    job = cluster.submit(JobRequest(str(PROGRAM), (str(folder), str(steps))))
    lines, state = [], ""
    for item in cluster.follow_job(job):
        if isinstance(item, JobOutput):
            lines.append(item.line.text)
        elif isinstance(item, JobProgress) and item.progress.step > 50 and victims:
            kill(pids(cluster)[victims.pop()])
        elif isinstance(item, JobEnded):
            state = item.status.state
    output = "\n".join(lines)
    found = {f"{m[1]}/{m[2]}": ast.literal_eval(m[3]) for m in re.finditer(r"found (\w+) (\d+) (.*)", output)}
    assert found, output
    return state, found


def check_what_was_exported(folder: Path) -> None:
    """The exported model says what the variables of the last checkpoint make of its inputs."""
    (written,) = (folder / "export" / "final").iterdir()
    x = np.array([[1.0, 0.0], [0.25, 0.5]], np.float32)
    with tf.Graph().as_default(), tf.Session() as session:
        meta = tf.saved_model.loader.load(session, ["serve"], str(written))
        signature = meta.signature_def["serving_default"]
        (fed,), (out,) = signature.inputs.values(), signature.outputs.values()
        served = session.run(out.name, {fed.name: x})
    w1, b1, w2, b2 = (
        tf.train.load_variable(str(folder), f"{layer}/{part}")
        for layer in ("hidden", "out")
        for part in ("kernel", "bias")
    )
    hidden = np.maximum(x @ w1 + b1, 0.0)
    np.testing.assert_allclose(served, hidden @ w2 + b2, 1e-5, 1e-5)


@pytest.mark.parametrize("victims", [[], ["ps/1"]])
def test_a_cluster_with_an_evaluator(home: Path, tmp_path: Path, victims: list[str]) -> None:
    """The chief and the worker train, the evaluator evaluates and exports what the last checkpoint has."""
    cluster = Cluster.up(ClusterSpec("t", {job: TaskGroup(n) for job, n in WITH_EVALUATOR.items()})).cluster
    assert cluster is not None
    state, found = run(cluster, tmp_path / "model", 1500 if victims else STEPS, victims)
    assert (state, victims) == ("succeeded", [])
    assert found.keys() == {"chief/0", "worker/0", "evaluator/0"}
    assert (found["chief/0"], found["worker/0"]) == (None, None)
    evaluated = found["evaluator/0"]
    assert evaluated["global_step"] >= STEPS
    assert evaluated["mean_absolute_error"] < 0.1
    check_what_was_exported(tmp_path / "model")


def test_a_cluster_whose_first_worker_is_the_chief(home: Path, tmp_path: Path) -> None:
    """Nobody else evaluates, so it does."""
    cluster = Cluster.up(ClusterSpec("t", {"ps": TaskGroup(1), "worker": TaskGroup(2)})).cluster
    assert cluster is not None
    state, found = run(cluster, tmp_path / "model", STEPS, [])
    assert state == "succeeded"
    assert found["worker/0"]["global_step"] >= STEPS
    assert found["worker/0"]["mean_absolute_error"] < 0.1
    assert found["worker/1"] is None
    check_what_was_exported(tmp_path / "model")
