"""What a job has reported since it began, read from its event files."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import dtfctl.runtime as tf
from dtfctl.dashboard.scalars import MOST_POINTS, Scalars, thinned
from dtfctl.launcher.api import Cluster
from dtfctl.launcher.errors import NoSuchJob
from dtfctl.launcher.model import ClientStatus, ClusterStatus, JobStatus
from dtfctl.protocol import summary_pb2
from dtfctl.runtime.train.job_events import JobEvents
from tests.doubles.launcher import status, task


@dataclass
class Host:
    """A host that runs what it is given, here."""

    state: ClusterStatus

    def status(self) -> ClusterStatus:
        return self.state

    def exec(self, _target: Any, words: Sequence[str]) -> Any:
        out = subprocess.run([sys.executable, *words[1:]], capture_output=True, check=True).stdout

        class Command(list[tuple[str, bytes]]):
            def close(self) -> None: ...

        return Command([("out", out)])


@pytest.fixture
def read(tmp_path: Path) -> Iterator[Scalars]:
    client = ClientStatus("worker/0", "localhost", "running")
    job = JobStatus("j", "j", "running", "in-graph", "j.py", checkpoint_dir=str(tmp_path), clients=(client,))
    scalars = Scalars(lambda: cast(Cluster, Host(status(task("worker/0"), jobs=[job]))))
    yield scalars
    scalars.close()


def test_what_a_job_has_reported_is_read_from_its_beginning_and_as_it_grows(read: Scalars, tmp_path: Path) -> None:
    events = JobEvents(tmp_path / "tensorboard")
    events.report(10, {"loss": 2.0}, 100.0)
    events.report(20, {"loss": 1.0, "bad": float("nan")}, 105.0)
    events.hyperparameters({"rate": 0.1}, "j")
    found = read.read("j")
    # Without that anything is closed: a job that ends at once has told all.
    assert [(step, value) for step, value, _ in found["loss"]] == [(10, 2.0), (20, 1.0)]
    assert [(step, value) for step, value, _ in found["steps/s"]] == [(20, 2.0)]
    assert found.keys() == {"loss", "steps/s"}
    # It has begun again at step 20, and the script has scalars of its own, of either form.
    again = JobEvents(tmp_path / "tensorboard")
    again.report(20, {"loss": 0.5}, 200.0)
    own = tf.summary.FileWriter(str(tmp_path / "eval"))
    tensor = tf.make_tensor_proto(np.float32(0.25))
    own.add_summary(summary_pb2.Summary(value=[summary_pb2.Summary.Value(tag="accuracy", tensor=tensor)]), 7)
    own.close()
    found = read.read("j")
    assert [(step, value) for step, value, _ in found["loss"]] == [(10, 2.0), (20, 0.5)]
    assert [(step, value) for step, value, _ in found["eval/accuracy"]] == [(7, 0.25)]


def test_half_a_record_is_read_when_the_rest_has_come(read: Scalars, tmp_path: Path) -> None:
    events = JobEvents(tmp_path / "tensorboard")
    events.report(10, {"loss": 2.0}, 100.0)
    (file,) = (tmp_path / "tensorboard").iterdir()
    whole = file.read_bytes()
    file.write_bytes(whole[:-3])
    assert "loss" not in read.read("j")
    file.write_bytes(whole)
    assert [point[:2] for point in read.read("j")["loss"]] == [(10, 2.0)]


def test_of_too_many_points_the_newest_stays() -> None:
    points = thinned([(step, 0.0, 0.0) for step in range(10_001)])
    assert len(points) <= MOST_POINTS and points[-1][0] == 10_000
    assert {b[0] - a[0] for a, b in pairwise(points)} == {8}


def test_a_job_that_nobody_knows_is_told_as_such(read: Scalars) -> None:
    with pytest.raises(NoSuchJob):
        read.read("other")
