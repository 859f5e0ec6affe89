"""What a program has written is in its event files when it ends, whether it closes its writers or not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import dtfctl.runtime as tf

PROGRAM = """
import os, sys
import dtfctl.runtime as tf
writer = tf.summary.FileWriter(sys.argv[1])
for step in range(30):
    writer.add_summary(tf.Summary(value=[tf.Summary.Value(tag="a", simple_value=step)]), step)
if os.fork() == 0:
    sys.exit()  # has the writer, but not its thread
assert os.wait()[1] == 0
sys.exit(3 if len(sys.argv) > 2 else 0)
"""


def test_events_of_a_writer_that_is_never_closed_are_kept(tmp_path: Path) -> None:
    for name, more, code in (("ends", [], 0), ("fails", ["x"], 3)):
        command = [sys.executable, "-c", PROGRAM, str(tmp_path / name), *more]
        assert subprocess.run(command, timeout=120).returncode == code
        (file,) = (tmp_path / name).iterdir()
        steps = [event.step for event in tf.train.summary_iterator(str(file)) if event.HasField("summary")]
        assert steps == [*range(30)]
