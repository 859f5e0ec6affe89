"""What stock TensorBoard shows of a job, asked by its own HTTP interface, and of a study."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from dtfctl.launcher.api import Cluster
from dtfctl.launcher.model import JobRequest
from dtfctl.launcher.operator.tensorboard import TensorBoard
from dtfctl.tune.events import write_trial
from dtfctl.tune.plots import Point
from dtfctl.tune.records import Ended
from dtfctl.tune.schedule import Leg
from dtfctl.tune.space import load
from tests.cluster.conftest import spec_of, wait_until
from tests.support.tensorboard import python_with_tensorboard

pytestmark = pytest.mark.slow

SCRIPT = """
import os, sys
import numpy as np
import dtfctl.runtime as tf

resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
with tf.device(tf.train.replica_device_setter(cluster=resolver.cluster_spec())):
    weights = tf.get_variable("weights", [8, 3])
    loss = tf.reduce_mean(tf.square(tf.matmul(tf.constant(np.eye(8, dtype="f4")), weights)), name="loss")
    tf.summary.histogram("spread", weights)
    step = tf.train.GradientDescentOptimizer(0.01).minimize(loss, global_step=tf.train.get_or_create_global_step())
with tf.train.MonitoredTrainingSession(
    resolver.master(), is_chief=True, checkpoint_dir=os.environ["DTF_CHECKPOINT_DIR"], save_summaries_steps=20
) as session:
    while not session.should_stop():
        session.run(step)
"""
SPACE = """
parameters:
  rate: {from: 0.001, to: 0.1, scale: log}
  kind: [adam, sgd]
metric: {name: accuracy, goal: max}
trials: 2
"""


class Board:
    """Asks a TensorBoard."""

    def __init__(self, url: str) -> None:
        self._url = url

    def ask(self, path: str, body: Any = None, **query: str) -> bytes:
        url = f"{self._url}data/plugin/{path}?{urllib.parse.urlencode(query)}"
        data = None if body is None else json.dumps(body).encode()
        asked = urllib.request.Request(url, data, {"Content-Type": "application/json"})
        with urllib.request.urlopen(asked, timeout=120) as answer:
            found: bytes = answer.read()
        return gzip.decompress(found) if found[:2] == b"\x1f\x8b" else found

    def json(self, path: str, body: Any = None, **query: str) -> Any:
        return json.loads(self.ask(path, body, **query))


@contextmanager
def board_of(*words: str) -> Iterator[Board]:
    process = subprocess.Popen([sys.executable, "-m", "dtfctl", *words], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield Board(process.stdout.readline().strip())
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_tensorboard_shows_what_a_job_does(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = python_with_tensorboard("xprof")
    programs = tmp_path / "bin"
    programs.mkdir()
    # The command takes the Python of the `tensorboard` in PATH.
    (programs / "tensorboard").write_text(f"#!{python}\n")
    (programs / "tensorboard").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    cluster = Cluster.up(spec_of("t", ps=1, worker=1)).cluster
    assert cluster is not None
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    job = cluster.submit(JobRequest(str(script), env={"DTF_HPARAMS": '{"rate": 0.01, "kind": "plain"}'}))
    wait_until(lambda: (told := cluster.job(job).progress) is not None and told.step > 60, "the job trains")
    folder = tmp_path / "board"
    profiled = subprocess.run(
        [sys.executable, "-m", "dtfctl", "profile", job, "--steps", "5", "--format", "xplane", "--to", str(folder)],
        capture_output=True,
        text=True,
    )
    assert profiled.returncode == 0, profiled.stderr
    with board_of("tensorboard", job, "--no-browser", "--to", str(folder)) as board:
        own = "tensorboard"

        def tags() -> dict[str, set[str]]:
            return {run: set(found) for run, found in board.json("scalars/tags").items()}

        wait_until(lambda: {"loss", "global_step/sec"} <= tags().get(own, set()), "its loss and rate are shown")
        curve = board.json("scalars/scalars", run=own, tag="loss")
        assert len(curve) > 1 and all(value > 0 for _, _, value in curve) and curve[0][2] > curve[-1][2]
        histograms = {run: set(found) for run, found in board.json("histograms/tags").items() if found}
        ((run, found),) = histograms.items()
        assert found == {"spread"}
        shown = board.json("histograms/histograms", run=run, tag="spread")
        assert sum(count for _, _, count in shown[0][2]) == pytest.approx(8 * 3)

        (graph,) = [known for name, known in board.json("graphs/info").items() if name == own]
        (traced,) = graph["tags"]
        assert graph["run_graph"] and graph["tags"][traced]["profile"]
        assert 'name: "loss"' in board.ask("graphs/graph", run=own).decode()
        times = board.ask("graphs/run_metadata", run=own, tag=traced).decode()
        assert (
            "all_end_rel_micros" in times
            and "requested_bytes" in times
            and '"MatMul' in times.replace("node_name: ", "")
        )

        groups = board.json(
            "hparams/session_groups",
            {
                "experimentName": "",
                "allowedStatuses": ["STATUS_UNKNOWN", "STATUS_SUCCESS", "STATUS_RUNNING"],
                "colParams": [],
                "startIndex": 0,
                "sliceSize": 9,
            },
        )
        assert [(group["name"], group["hparams"]) for group in groups["sessionGroups"]] == [
            (job, {"kind": "plain", "rate": 0.01})
        ]

        (recorded,) = board.json("profile/runs")
        hosts = {host["hostname"] for host in board.json("profile/hosts", run=recorded, tag="trace_viewer")}
        assert {"ps_0", "worker_0"} <= hosts
        events = board.json("profile/data", run=recorded, tag="trace_viewer", host="worker_0")["traceEvents"]
        assert {"step"} <= {event.get("name") for event in events if event.get("ph") == "X"}


def test_tensorboard_shows_a_study(tmp_path: Path) -> None:
    python = python_with_tensorboard()
    file = tmp_path / "space.yaml"
    file.write_text(SPACE)
    study = load(str(file))
    for trial, settings in enumerate(({"rate": 0.01, "kind": "adam"}, {"rate": 0.02, "kind": "sgd"})):
        leg, ended = Leg(trial, 0, settings, None, None), Ended((trial, 0), 0.5 + trial / 10)
        point = Point(trial, settings, ended.score or 0.0, None)
        write_trial(tmp_path / "events", study, point, [ended], {leg.key: leg})
    shown = TensorBoard(python, tmp_path / "events")
    shown.start()
    try:
        asked = {
            "experimentName": "",
            "allowedStatuses": ["STATUS_SUCCESS"],
            "colParams": [],
            "startIndex": 0,
            "sliceSize": 9,
        }
        board = Board(shown.url)
        wait_until(
            lambda: len(board.json("hparams/session_groups", asked).get("sessionGroups", [])) == 2, "both trials"
        )
        groups = board.json("hparams/session_groups", asked)["sessionGroups"]
        assert [(group["hparams"], round(group["metricValues"][0]["value"], 3)) for group in groups] == [
            ({"kind": "adam", "rate": 0.01}, 0.5),
            ({"kind": "sgd", "rate": 0.02}, 0.6),
        ]
    finally:
        shown.close()
