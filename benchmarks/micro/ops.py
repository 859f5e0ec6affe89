"""What an operation of a plan costs beyond its kernel: `python -m benchmarks.micro.ops`.

A step of many additions, each of the one before, is run with 200 and with 2200 of them: the difference is the time of
2000 operations and nothing of the step's own. Beside it stand the same additions as a bare function of 2000 lines, each
a call of numpy's `add` with `out=`. All of it on one core; the fastest of many runs counts.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import dtfctl.runtime as tf

SHAPES: tuple[tuple[int, ...], ...] = ((), (16,), (64, 16), (128, 128))
_FEW, _MANY, _RUNS = 200, 2200, 300


def fastest(call: Callable[[], Any]) -> float:
    """Seconds of the fastest of many calls."""
    best = float("inf")
    for _ in range(_RUNS):
        started = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - started)
    return best


def step_of(count: int, shape: tuple[int, ...]) -> Callable[[], Any]:
    """A step of `count` additions, warmed up."""
    graph = tf.Graph()
    with graph.as_default():
        value = tf.identity(tf.Variable(np.ones(shape, "f4")))
        small = tf.identity(tf.Variable(np.full(shape, 1e-3, "f4")))
        for _ in range(count):
            value = tf.add(value, small)
        session = tf.Session(graph=graph)
        session.run(tf.global_variables_initializer())
        step: Callable[[], Any] = session.make_callable(value.op)
    for _ in range(20):
        step()
    return step


def bare_of(count: int, shape: tuple[int, ...]) -> Callable[[], Any]:
    """The same additions as calls of numpy, from one array into another and back."""
    lines = "def bare(x, small, y):\n" + " add(x, small, y)\n add(y, small, x)\n" * (count // 2)
    names: dict[str, Any] = {"add": np.add}
    exec(lines, names)
    bare, arrays = names["bare"], [np.full(shape, v, "f4") for v in (1, 1e-3, 1)]
    return lambda: bare(*arrays)


def main() -> None:
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    count = _MANY - _FEW
    print(f"{'shape':>12}  ns an operation: {'of a plan':>10} {'numpy alone':>12} {'ours':>8}")
    for shape in SHAPES:
        plan = (fastest(step_of(_MANY, shape)) - fastest(step_of(_FEW, shape))) / count
        bare = fastest(bare_of(count, shape)) / count
        print(f"{shape!s:>12}  {'':16} {plan * 1e9:10.0f} {bare * 1e9:12.0f} {(plan - bare) * 1e9:8.0f}")


if __name__ == "__main__":
    main()
