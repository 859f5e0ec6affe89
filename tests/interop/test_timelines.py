"""Timelines for TensorBoard are what TensorFlow's own messages say they are."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from dtfctl.runtime.profiler.capture import TaskRecord
from dtfctl.runtime.profiler.xplane import write_xplane
from dtfctl.runtime.steps.recording import Event, Kind

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
            ["thread 1", 5_000, 3_000, "step", {"step": "1f", "about": "session"}],
            ["thread 1", 6_000, 1_500, "product", {"step": "1f", "about": "MatMul", "bytes": 64}],
            ["thread 2", 9_000, 1_000, "product", {"step": "20", "about": "MatMul", "bytes": 64}],
        ],
    ]
