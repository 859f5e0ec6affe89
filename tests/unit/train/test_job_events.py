"""What a job's chief writes for TensorBoard, and reports, without a word of its script."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dtfctl import runtime as tf
from dtfctl.protocol import config_pb2, hparams_pb2, summary_pb2
from dtfctl.runtime.train import job_events
from dtfctl.runtime.train.job_events import FOLDER, RATE, JobEvents


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Be the chief of a job; the folder of its checkpoints."""
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    for name, value in {
        "DTF_JOB_ID": "train-1",
        "DTF_IS_CHIEF": "1",
        "DTF_CHECKPOINT_DIR": str(folder),
        "DTF_PROGRESS_FILE": str(tmp_path / "progress"),
    }.items():
        monkeypatch.setenv(name, value)
    job_events.own_events.cache_clear()
    yield folder
    job_events.own_events.cache_clear()


def written(folder: Path) -> list[summary_pb2.Event]:
    return [event for file in sorted(folder.glob("*tfevents*")) for event in tf.train.summary_iterator(file)]


def scalars(events: list[summary_pb2.Event]) -> dict[str, list[tuple[int, float]]]:
    found: dict[str, list[tuple[int, float]]] = {}
    for event in events:
        for value in event.summary.value:
            if value.WhichOneof("value") == "simple_value":
                found.setdefault(value.tag, []).append((event.step, value.simple_value))
    return found


def reported(folder: Path) -> list[dict[str, Any]]:
    lines = (folder.parent / "progress").read_text().splitlines()
    return [said for line in lines if "step" in (said := json.loads(line))]


def train(steps: int, hooks: list[Any] | None = None, feeds: bool = True) -> None:
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [], name="x")
        weight = tf.get_variable("weight", [], initializer=tf.ones_initializer())
        loss = tf.square(weight * x)
        step = tf.train.get_or_create_global_step()
        train_op = tf.train.GradientDescentOptimizer(0.1).minimize(loss, global_step=step)
        advance = tf.assign_add(step, 1)
        with tf.train.MonitoredTrainingSession(hooks=[tf.train.StopAtStepHook(last_step=steps), *(hooks or [])]) as s:
            while not s.should_stop():
                if feeds:
                    s.run(train_op, {x: 2.0})
                else:
                    s.run(advance)


def test_the_loss_the_graph_and_a_steps_times_are_written(job: Path) -> None:
    train(12)
    events = written(job / FOLDER)
    found = scalars(events)
    assert found["loss"][0] == (1, 4.0) or found["loss"][0][1] == 4.0
    (graph,) = [event.graph_def for event in events if event.graph_def]
    assert b"GradientDescent" in graph
    (traced,) = [event.tagged_run_metadata for event in events if event.HasField("tagged_run_metadata")]
    metadata = config_pb2.RunMetadata.FromString(traced.run_metadata)
    assert {node.node_name for device in metadata.step_stats.dev_stats for node in device.node_stats} >= {"Square"}
    said = reported(job)
    assert (said[0]["total"], said[0]["metrics"]) == (12, {"loss": 4.0}) and said[-1]["step"] == 12
    # Neither the end nor a run that computes no loss takes the loss from the status line.
    assert all(line["metrics"].keys() == {"loss"} for line in said[1:])


def test_what_was_reported_last_is_written_at_the_end_however_soon_that_is(tmp_path: Path) -> None:
    events = JobEvents(tmp_path)
    for step, now in ((1, 10.0), (2, 10.1), (3, 10.2)):
        events.report(step, {"loss": 1.0 / step}, now)
    events.report(4, {"accuracy": 0.5}, 10.3)
    events.close()
    events.close()
    assert scalars(written(tmp_path)) == {
        "loss": [(1, 1.0), (3, pytest.approx(1 / 3))],
        "accuracy": [(4, 0.5)],
    }


def test_a_program_of_a_job_leaves_its_last_loss(job: Path) -> None:
    program = "from dtfctl.runtime.train import progress\nfor n in range(5): progress.report(n, 5, loss=float(n))"
    subprocess.run([sys.executable, "-c", program], check=True)
    assert scalars(written(job / FOLDER))["loss"][-1] == (4, 4.0)


def test_a_loss_that_would_want_to_be_fed_is_left_alone(job: Path) -> None:
    train(3, feeds=False)
    assert "loss" not in scalars(written(job / FOLDER)) and reported(job)[-1]["step"] == 3


def test_who_reports_itself_is_not_spoken_over(job: Path) -> None:
    train(3, [tf.train.ProgressHook(total=99)])
    assert {said["total"] for said in reported(job)} == {99}


def test_workers_and_programs_outside_of_jobs_write_nothing(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DTF_IS_CHIEF", "0")
    tf.train.report(1, loss=1.0)
    assert not (job / FOLDER).exists() and len(reported(job)) == 1


def test_the_rate_is_that_between_reports_and_close_ones_are_left_out(tmp_path: Path) -> None:
    events = JobEvents(tmp_path)
    for step, now in ((10, 100.0), (12, 100.5), (20, 102.0), (5, 102.1), (15, 104.1)):
        events.report(step, {"loss": float(step)}, now)
    events.hyperparameters({}, "group")  # it flushes
    found = scalars(written(tmp_path))
    # At 5 the training has begun again.
    assert [step for step, _ in found["loss"]] == [10, 20, 5, 15]
    assert found[RATE] == [(20, 5.0), (15, 5.0)]


def test_hyperparameters_are_those_that_the_job_was_given(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DTF_HPARAMS", '{"rate": 0.1, "kind": "adam", "nesterov": true}')
    assert job_events.own_events() is not None
    (value,) = [value for event in written(job / FOLDER) for value in event.summary.value]
    assert (value.tag, value.metadata.plugin_data.plugin_name) == ("_hparams_/session_start_info", "hparams")
    begun = hparams_pb2.HParamsPluginData.FromString(value.metadata.plugin_data.content).session_start_info
    assert begun.group_name == "train-1" and begun.hparams["rate"].number_value == 0.1
    assert begun.hparams["kind"].string_value == "adam" and begun.hparams["nesterov"].bool_value
    job_events.own_events.cache_clear()
    monkeypatch.setenv("DTF_HPARAMS", "[1]")
    with pytest.raises(ValueError, match="has to be a JSON object"):
        job_events.own_events()


def test_a_step_that_is_reported_alone_does_not_silence_its_loss(tmp_path: Path) -> None:
    events = JobEvents(tmp_path)
    for step in (10, 20):
        events.report(step, {}, 100.0 + step)
        events.report(step, {"loss": 1.0 / step}, 100.0 + step + 0.1)
    found = scalars(written(tmp_path))
    assert [step for step, _ in found["loss"]] == [10, 20] and [step for step, _ in found[RATE]] == [20]
