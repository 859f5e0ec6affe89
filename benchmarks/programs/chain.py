"""Scalar ops in one long chain that crosses between two tasks; its step, or what its first step takes."""

from __future__ import annotations

import time
from typing import Any

from benchmarks.programs import Program, session_config, tasks_of


def build(tf: Any, target: str, ops: int, crossings: int, first_step: bool = False) -> Program:
    spread = bool(target)
    places = ["/job:ps/task:0/device:CPU:0", "/job:worker/task:0/device:CPU:0"] if spread else ["/device:CPU:0"]
    runs = crossings + 1
    graph = tf.Graph()
    with graph.as_default():
        with tf.device(places[0]):
            start = tf.Variable(1.0, name="start")
        value = start
        done = 0
        for i in range(runs):
            with tf.device(places[i % len(places)]):
                upto = ops * (i + 1) // runs
                for _ in range(done, upto):
                    value = tf.add(value, 0.5)
                done = upto
        init = tf.global_variables_initializer()
    config = session_config(tf, True, tasks_of(1, 1) if spread else ())
    session = tf.Session(target, graph=graph, config=config)
    session.run(init)
    step = session.make_callable(value.op)

    def first() -> float:
        """A session of its own compiles everything again."""
        with tf.Session(target, graph=graph, config=config) as fresh:
            if not spread:
                fresh.run(init)
            begin = time.perf_counter()
            fresh.run(value.op)
            return time.perf_counter() - begin

    def values() -> list[float]:
        session.run(init)
        return [float(session.run(value))]

    return Program(first if first_step else step, values, session.close)
