"""Training with checkpoints by CheckpointSaverHook: what one of them delays the training by.

A step of the program is a stretch of training with one checkpoint due at its beginning; the seconds that count are
those its steps took beyond what as many steps take without one.
"""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
import time
from typing import Any

from benchmarks.programs import Program, session_config

PIECES = 16
# Steps of a stretch at least; it goes on until the checkpoint is there.
STEPS = 4
# Steps without a checkpoint that they are compared with, before and after: machines have slow seconds.
BASE = 400


def build(tf: Any, target: str, total_bytes: int) -> Program:
    elements = total_bytes // (4 * PIECES)
    folder = tempfile.mkdtemp(prefix="bench-checkpoint-")
    written: list[int] = []
    due = [False]

    class Listener(tf.train.CheckpointSaverListener):
        def after_save(self, session: Any, global_step_value: int) -> None:
            written.append(int(global_step_value))

    class Hook(tf.train.CheckpointSaverHook):
        """Saves when it is told to."""

        def after_run(self, run_context: Any, run_values: Any) -> None:
            self._timer.wanted = due[0]
            super().after_run(run_context, run_values)

    class Timer:
        """In place of the hook's own, which knows only steps and seconds."""

        wanted = False

        def should_trigger_for_step(self, step: int) -> bool:
            return self.wanted

        def update_last_triggered_step(self, step: int) -> tuple[None, None]:
            due[0] = self.wanted = False
            return None, None

        def last_triggered_step(self) -> int | None:
            return None

        def reset(self) -> None:
            self.wanted = False

    graph = tf.Graph()
    with graph.as_default():
        step_count = tf.train.get_or_create_global_step()
        # Some of every variable changes in each step, as where a model is large for what a step computes.
        variables = [tf.Variable(tf.fill([elements], 1.0), name=f"part{i}") for i in range(PIECES)]
        changes = [tf.scatter_add(v, [0, elements // 2], [1.0, 2.0]).op for v in variables]
        with tf.control_dependencies(changes):
            train = tf.assign_add(step_count, 1).op
        probe = tf.stack([v[0] for v in variables])
        saver = tf.train.Saver(variables + [step_count], max_to_keep=1, sharded=True)
        hook = Hook(folder, save_steps=10**9, saver=saver, listeners=[Listener()], save_graph_def=False)
        hook._timer = Timer()
        session = tf.train.MonitoredSession(
            tf.train.ChiefSessionCreator(master=target, config=session_config(tf)), hooks=[hook]
        )

    def timed() -> float:
        begin = time.perf_counter()
        session.run(train)
        return time.perf_counter() - begin

    def stretch() -> float:
        before = len(written)
        # What the other side has left in the system's memory is on the disk before this one begins.
        os.sync()
        # Means of many: what a few steps are off by counts as often as there are steps beside a checkpoint.
        usual = [statistics.fmean(timed() for _ in range(BASE))]
        due[0] = True
        taken: list[float] = []
        while len(taken) < STEPS or len(written) == before:
            taken.append(timed())
        usual.append(statistics.fmean(timed() for _ in range(BASE)))
        return sum(taken) - len(taken) * statistics.fmean(usual)

    def values() -> list[float]:
        stretch()
        reader = tf.train.NewCheckpointReader(tf.train.latest_checkpoint(folder))
        saved = int(reader.get_tensor("global_step"))
        part = reader.get_tensor("part0")
        now = session.run(probe)
        # The checkpoint is of one step, whole, and the training has gone on with what it had.
        return [
            float(saved == written[-1]),
            float(part[0]) - saved,
            float(part[elements // 2]) - 2 * saved,
            float(now[0] - session.run(step_count)),
        ]

    def close() -> None:
        session.close()
        shutil.rmtree(folder, ignore_errors=True)

    return Program(stretch, values, close)
