"""Timelines for TensorBoard are what TensorFlow's own messages say they are."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

import dtfctl.runtime as tf
from dtfctl.runtime.profiler.capture import TaskRecord
from dtfctl.runtime.profiler.xplane import write_xplane
from dtfctl.runtime.steps.recording import Event, Kind
from tests.support.clusters import InProcessCluster
from tests.support.tensorboard import python_with_tensorboard

READ = """
import json, sys
from tensorflow.tsl.profiler.protobuf import xplane_pb2
space = xplane_pb2.XSpace.FromString(open(sys.argv[1], "rb").read())
(plane,) = space.planes
names = {number: known.name for number, known in plane.event_metadata.items()}
stats = {number: known.name for number, known in plane.stat_metadata.items()}
print(json.dumps([list(space.hostnames), plane.name, [
    [line.name, line.timestamp_ns + event.offset_ps // 1000, event.duration_ps // 1000, names[event.metadata_id],
     {stats[s.metadata_id]: getattr(s, s.WhichOneof("value")) for s in event.stats}]
    for line in plane.lines for event in line.events]]))
"""


def test_stock_tensorflow_reads_a_profile(tensorflow_python: str, tmp_path: Path) -> None:
    events = [
        Event(Kind.PART, "step", "session", 5_000, 3_000, 7, step=31),
        Event(Kind.NODE, "product", "MatMul", 6_000, 1_500, 7, step=31, bytes=64),
        Event(Kind.NODE, "product", "MatMul", 9_000, 1_000, 8, step=32, bytes=64),
    ]
    (file,) = write_xplane([TaskRecord("worker/0", steps=1, events=events)], tmp_path, "run")
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}
    ended = subprocess.run(
        [tensorflow_python, "-c", READ, str(file)], env=environment, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr[-4000:]
    assert json.loads(ended.stdout) == [
        ["worker/0"],
        "/host:CPU",
        [
            ["thread 1", 5_000, 3_000, "train", {"_r": 1, "step_num": 1}],
            ["thread 1", 5_000, 3_000, "step", {"step": "1f", "about": "session"}],
            ["thread 1", 6_000, 1_500, "product", {"step": "1f", "about": "MatMul", "bytes": 64}],
            ["thread 2", 9_000, 1_000, "product", {"step": "20", "about": "MatMul", "bytes": 64}],
        ],
    ]


OVERVIEW = """
import json, sys
from xprof.convert import raw_to_tool_data
data, _ = raw_to_tool_data.xspace_to_tool_data([sys.argv[1]], "overview_page", {})
(steps,) = (table["p"] for table in json.loads(data) if "steptime_ms_average" in table.get("p", {}))
print(json.dumps([steps["steptime_ms_average"], steps["steptime_ms_maximum"]]))
"""


def test_the_profile_plugin_knows_what_a_step_is(tmp_path: Path) -> None:
    python = python_with_tensorboard("xprof")
    starts = [1_000_000_000 + 30_000_000 * n for n in range(8)]
    # Their numbers are of no order.
    numbers = [7919 * 31**n % 1_000_003 for n in range(8)]
    events = [Event(Kind.PART, "step", "s", at, 20_000_000, 7, step=n) for at, n in zip(starts, numbers, strict=True)]
    (file,) = write_xplane([TaskRecord("worker/0", steps=8, events=events)], tmp_path, "run")
    ended = subprocess.run([python, "-c", OVERVIEW, str(file)], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr[-4000:]
    assert json.loads(ended.stdout.splitlines()[-1]) == ["20.0", "20.0"]


DRAW = """
import sys
from tensorflow.core.framework import step_stats_pb2
from tensorflow.python.client import timeline
stats = step_stats_pb2.StepStats.FromString(open(sys.argv[1], "rb").read())
print(timeline.Timeline(stats).generate_chrome_trace_format(show_dataflow=True, show_memory=True))
"""


def test_a_traced_step_is_drawn_as_stock_tensorflow_draws_it(tensorflow_python: str, tmp_path: Path) -> None:
    cluster = InProcessCluster({"ps": 1, "worker": 1}, tmp_path, transport="tcp")
    cluster.start_all()
    metadata = tf.RunMetadata()
    try:
        with tf.Graph().as_default():
            with tf.device("/job:ps/task:0"):
                weights = tf.Variable(np.ones((8, 8), "f4"), name="weights")
            with tf.device("/job:worker/task:0"):
                first, second = tf.split(tf.matmul(tf.ones([4, 8]), weights, name="product"), 2)
                loss = tf.reduce_sum(first * second)
            train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
            with tf.Session(cluster.target("worker", 0)) as session:
                session.run(tf.global_variables_initializer())
                session.run(train, options=tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE), run_metadata=metadata)
    finally:
        cluster.close()
    file = tmp_path / "stats"
    file.write_bytes(metadata.step_stats.SerializeToString())
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}
    ended = subprocess.run(
        [tensorflow_python, "-c", DRAW, str(file)], env=environment, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr[-4000:]
    stock = json.loads(ended.stdout)["traceEvents"]
    own = json.loads(tf.train.Timeline(metadata.step_stats).generate_chrome_trace_format(True, True))["traceEvents"]

    def shown(events: list[dict[str, Any]], kind: str, *fields: str) -> list[Any]:
        return sorted(([e[field] for field in fields] for e in events if e["ph"] == kind), key=str)

    assert shown(own, "M", "name", "pid", "args") == shown(stock, "M", "name", "pid", "args")
    bar = ("cat", "name", "pid", "ts", "args")
    assert shown(own, "X", *bar) == shown(stock, "X", *bar)
    assert any(e["args"].get("input1") == "split:1" for e in own if e["ph"] == "X")
    for kind in "NOD":
        assert shown(own, kind, "cat", "name", "pid") == shown(stock, kind, "cat", "name", "pid")
    assert {e["args"]["cpu"] for e in own if e["ph"] == "C"} >= {0}
    counters = [[e["cat"], e["name"], e["pid"]] for e in stock if e["ph"] == "C"]
    assert [[e["cat"], e["name"], e["pid"]] for e in own if e["ph"] == "C"] == counters
    # Stock leaves out arrows within a row, and does not know which tensors went between tasks.
    arrows = {(e["name"], e["pid"]) for e in own if e["ph"] == "s"}
    assert {(e["name"], e["pid"]) for e in stock if e["ph"] == "s"} <= arrows
    (ps,) = [e["pid"] for e in own if e["ph"] == "M" and e["args"]["name"].startswith("/job:ps") and e["pid"] % 2]
    ends = {e["pid"] for e in own if e["ph"] == "f" and e["name"] == "weights/read"}
    assert ("weights/read", ps) in arrows and len(ends) == 2
