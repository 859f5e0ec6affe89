"""Feed a scalar, add, fetch: what a call costs from Python and back."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.programs import Program, session_config


def build(tf: Any, target: str, way: str = "run") -> Program:
    graph = tf.Graph()
    with graph.as_default():
        x = tf.placeholder(tf.float32, [], name="x")
        y = tf.add(x, 1.0, name="y")
        session = tf.Session(target, graph=graph, config=session_config(tf))
    value = np.float32(2.5)
    if way == "run":
        feeds = {x: value}

        def step() -> None:
            session.run(y, feeds)
    else:
        call = session.make_callable(y, [x])

        def step() -> None:
            call(value)

    def values() -> list[float]:
        return [float(session.run(y, {x: v})) for v in (1.5, -2.0, 1e6)]

    return Program(step, values, session.close)
