"""What each engine and each special way gains: `python -m benchmarks.micro.engines [PROGRAM ...]`.

Every program runs as it is, and with one way switched off at a time, in turns, in a process each. What counts is the
CPU time of the process, as others may use the machine meanwhile, with one thread for products; the fastest of
many steps. A way that is not used by a program shows 1.00.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

ROUNDS = 3
SECONDS = 1.5


def main(programs: list[str]) -> None:
    best: dict[tuple[str, str], float] = {}
    for _ in range(ROUNDS):
        for program in programs or list(PROGRAMS):
            for way in WAYS:
                best[program, way] = min(best.get((program, way), 1e9), _in_a_process(program, way))
    print(f"{'':28}" + "".join(f"{p:>12}" for p in programs or PROGRAMS))
    for way in WAYS:
        cells = [
            f"{best[p, way] * 1e6:9.0f} us" if way == "as it is" else f"{best[p, way] / best[p, 'as it is']:11.2f}x"
            for p in programs or PROGRAMS
        ]
        print(f"{way:28}" + "".join(cells))


def _in_a_process(program: str, way: str) -> float:
    one = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "benchmarks.micro.engines", "--one", program, way]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, **one})
    return float(json.loads(done.stdout))


def _one(program: str, way: str) -> float:
    import dtfctl.runtime as tf

    WAYS[way]()
    step = PROGRAMS[program](tf)
    for _ in range(12):
        step()
    best, ends = float("inf"), time.process_time() + SECONDS
    while time.process_time() < ends:
        started = time.process_time()
        step()
        best = min(best, time.process_time() - started)
    return best


# Programs -------------------------------------------------------------------------------------------------------------


def _null(tf: Any) -> Callable[[], Any]:
    with tf.Graph().as_default() as graph:
        op = tf.no_op()
        return _callable(tf, graph, op)


def _callable(tf: Any, graph: Any, fetch: Any) -> Callable[[], Any]:
    session = tf.Session(graph=graph)
    session.run(tf.global_variables_initializer())
    step: Callable[[], Any] = session.make_callable(fetch)
    return step


def _ops(tf: Any) -> Callable[[], Any]:
    with tf.Graph().as_default() as graph:
        value, small = tf.identity(tf.Variable(np.float32(1))), tf.identity(tf.Variable(np.float32(1e-3)))
        for _ in range(5000):
            value = tf.add(value, small)
        return _callable(tf, graph, value.op)


def _mlp(batch: int, hidden: int) -> Callable[[Any], Callable[[], Any]]:
    def build(tf: Any) -> Callable[[], Any]:
        from benchmarks.programs import mlp

        return mlp.build(tf, "", batch, hidden).step

    return build


def _cnn(tf: Any) -> Callable[[], Any]:
    from benchmarks.programs import cnn

    return cnn.build(tf, "", 8).step


def _lstm(tf: Any) -> Callable[[], Any]:
    """A loop over time, and back through it."""
    with tf.Graph().as_default() as graph:
        x = tf.Variable(np.random.RandomState(0).rand(16, 20, 64).astype("f4"), trainable=False)
        cell = tf.nn.rnn_cell.LSTMCell(64)
        outputs, _ = tf.nn.dynamic_rnn(cell, tf.identity(x), dtype=tf.float32)
        train = tf.train.GradientDescentOptimizer(1e-3).minimize(tf.reduce_mean(tf.square(outputs)))
        return _callable(tf, graph, train)


def _cond(tf: Any) -> Callable[[], Any]:
    """Branches of conditionals one after the other."""
    with tf.Graph().as_default() as graph:
        value, flag = tf.identity(tf.Variable(np.float32(1))), tf.identity(tf.Variable(True))
        for _ in range(50):
            value = tf.cond(flag, lambda v=value: v + 1.0, lambda v=value: v * 2.0)
        return _callable(tf, graph, value.op)


PROGRAMS: dict[str, Callable[[Any], Callable[[], Any]]] = {
    "null": _null,
    "5,000 ops": _ops,
    "mlp small": _mlp(32, 64),
    "mlp large": _mlp(256, 1024),
    "cnn": _cnn,
    "lstm": _lstm,
    "conds": _cond,
}


# Ways -----------------------------------------------------------------------------------------------------------------


def _planner() -> Any:
    from dtfctl.runtime.executor.planner import Planner

    return Planner


def _fuser() -> Any:
    from dtfctl.runtime.executor.fusion import Fuser

    return Fuser


def _nothing(*_: Any, **__: Any) -> None:
    return None


def _replace(owner: Any, name: str, by: Any) -> None:
    setattr(owner, name, by)


def _no_shapes() -> None:
    _planner().tuned = lambda self, general, use: general


def _no_threads() -> None:
    from dtfctl.runtime.executor import tuner

    tuner.worth_running_beside = lambda spent: frozenset()


def _no_folds() -> None:
    _no_threads()
    _fuser().fold = _nothing


def _no_chains() -> None:
    _no_threads()
    _fuser().link = _fuser().compile = _nothing


def _no_reuse() -> None:
    from dtfctl.runtime.executor.straight_compiler import _Compiler

    _replace(_Compiler, "_reuse_locals", _nothing)


def _no_folded_loops() -> None:
    from dtfctl.runtime.executor import planner

    _replace(planner, "fold_loops", _nothing)


def _only_frames() -> None:
    _planner().first = lambda self: self.machine()


def _only_interpreter() -> None:
    planner = _planner()
    first = planner.first
    planner.tuned = lambda self, general, use: general
    planner.first = lambda self: self.interpreter if first(self).engine == "straight" else self.machine()


WAYS: dict[str, Callable[[], None]] = {
    "as it is": _nothing,
    "no plans for known shapes": _no_shapes,
    "no threads for heavy nodes": _no_threads,
    "nothing done at once": _no_folds,
    "no chains, no loops": _no_chains,
    "no locals used again": _no_reuse,
    "v1 loops by frames": _no_folded_loops,
    "all by frames": _only_frames,
    "all node by node": _only_interpreter,
}


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(_one(*sys.argv[2:])))
    else:
        main(sys.argv[1:])
