"""Saver: save and restore variables of some size; each step of the program is one save, or one restore."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from typing import Any

import numpy as np

from benchmarks.programs import Program, session_config

PIECES = 16


def build(tf: Any, target: str, total_bytes: int, way: str) -> Program:
    elements = total_bytes // (4 * PIECES)
    device = "/job:ps/task:0/device:CPU:0" if target else "/device:CPU:0"
    folder = tempfile.mkdtemp(prefix="bench-checkpoint-")
    graph = tf.Graph()
    with graph.as_default():
        with tf.device(device):
            variables = [tf.Variable(tf.random_uniform([elements], seed=i), name=f"part{i}") for i in range(PIECES)]
            changes = tf.group(*(tf.assign_add(v, tf.fill([elements], 1.0)) for v in variables))
            probes = tf.stack([tf.reduce_mean(tf.cast(v, tf.float64)) for v in variables])
            wipe = tf.group(*(tf.assign(v, tf.fill([elements], 0.0)) for v in variables))
        saver = tf.train.Saver(variables, max_to_keep=1)
        init = tf.global_variables_initializer()
        session = tf.Session(target, graph=graph, config=session_config(tf))
    session.run(init)
    count = 0

    def save() -> str:
        nonlocal count
        count += 1
        return str(saver.save(session, os.path.join(folder, "model"), global_step=count, write_meta_graph=False))

    def step() -> float:
        if way == "save":
            session.run(changes)
            begin = time.perf_counter()
            save()
            return time.perf_counter() - begin
        path = saver.last_checkpoints[-1] if saver.last_checkpoints else save()
        begin = time.perf_counter()
        saver.restore(session, path)
        return time.perf_counter() - begin

    def values() -> list[float]:
        """A checkpoint must bring everything back; the numbers themselves are random."""
        session.run(changes)
        before = session.run(probes)
        path = save()
        session.run(wipe)
        saver.restore(session, path)
        after = session.run(probes)
        return [float(np.max(np.abs(before - after))), float(np.min(after) > 0.4)]

    def close() -> None:
        session.close()
        shutil.rmtree(folder, ignore_errors=True)

    return Program(step, values, close)
