"""A step that does nothing on each of some tasks: what a step costs before any work."""

from __future__ import annotations

from typing import Any

from benchmarks.programs import Program, session_config, tasks_of


def build(tf: Any, target: str, ps: int = 1, workers: int = 2) -> Program:
    tasks = tasks_of(ps, workers)
    graph = tf.Graph()
    with graph.as_default():
        nothing, ones = [], []
        for task in tasks:
            with tf.device(f"{task}/device:CPU:0"):
                nothing.append(tf.no_op())
                ones.append(tf.fill([2], 1.0))
        session = tf.Session(target, graph=graph, config=session_config(tf, tasks=tasks))
    step = session.make_callable(nothing)

    def values() -> list[float]:
        step()
        return [float(v.sum()) for v in session.run(ones)]

    return Program(step, values, session.close)
