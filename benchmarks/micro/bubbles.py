"""Measure how long the stages of a pipeline have nothing to do, beside what the schedule leaves them.

`python -m benchmarks.micro.bubbles`: each stage is a task, a process of its own. What it computes is an op that sleeps,
200 ms forwards and 400 ms backwards for a micro-batch, so that few processors do not tell on many stages, and that a
few milliseconds until somebody is woken on a busy machine do not either. A sleep that ends late is work all the same:
what counts is when it began and ended in that process. Prints the least and the median of the steps, and how far the
median is off; and how long a stage's threads worked in a step, and how long they had something to do and no processor,
by the kernel's accounts: that is what other work on the machine adds.
"""

from __future__ import annotations

import argparse
import contextlib
import glob
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import dtfctl.runtime as tf
from benchmarks.processes import clean_environment
from tests.support.ports import free_ports

FORWARD_S, BACKWARD_S = 0.2, 0.4
CASES = ((2, 4, "gpipe"), (2, 4, "1f1b"), (4, 8, "gpipe"), (4, 8, "1f1b"), (4, 16, "gpipe"), (4, 16, "1f1b"))
WARM, STEPS = 4, 5
NAPS: list[tuple[float, float]] = []
"""Of this process: when each began, and when it ended."""
awake = [True]
"""Whether naps take no time, until steps are planned."""


def _back(op: Any, grad: Any) -> Any:
    return tf.apply_op("Nap", x=grad, seconds=op.get_attr("seconds") * BACKWARD_S / FORWARD_S)


tf.define_op("Nap(x: float) -> (y: float); seconds: float; !stateful", shape="unchanged", gradient=_back)


@tf.register_kernel("Nap", blocking=True)
def _nap(build: Any) -> Any:
    seconds = build.attr("seconds")

    def nap(x: Any) -> Any:
        began = time.monotonic()
        if not awake[0]:
            time.sleep(seconds)
        NAPS.append((began, time.monotonic()))
        return x.copy()

    return nap


def serve(rank: int, addresses: Sequence[str]) -> None:
    """Be a stage: tell for each line of the input how it has slept since the last one; from then on it does."""
    server = tf.train.Server({"worker": list(addresses)}, "worker", rank)
    print(json.dumps(server.target), flush=True)
    for _ in sys.stdin:
        awake[0] = False
        naps, NAPS[:] = NAPS[:], []
        print(json.dumps(naps), flush=True)


class Stages:
    """Tasks, one a stage, to the end of a with."""

    def __init__(self, count: int) -> None:
        addresses = ",".join(f"127.0.0.1:{port}" for port in free_ports(count))
        command = [sys.executable, "-m", "benchmarks.micro.bubbles", "--tasks", addresses, "--rank"]
        self._processes = [
            subprocess.Popen(
                [*command, str(rank)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env=clean_environment({}),
            )
            for rank in range(count)
        ]
        self.target, *_ = [self._hear(process) for process in self._processes]
        self.devices = [f"/job:worker/task:{rank}" for rank in range(count)]

    def _hear(self, process: subprocess.Popen[str]) -> Any:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise RuntimeError("a stage's task ended")
        return json.loads(line)

    def naps(self) -> list[list[tuple[float, float]]]:
        """Tell how each has slept since this was asked last."""
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.write("tell\n")
            process.stdin.flush()
        return [self._hear(process) for process in self._processes]

    def processors(self) -> tuple[float, float]:
        """Tell for how many seconds the mean stage has had a processor, and waited for one, since it began."""
        found = np.zeros(2)
        for process in self._processes:
            for path in glob.glob(f"/proc/{process.pid}/task/*/schedstat"):
                with contextlib.suppress(OSError):  # a thread that has ended meanwhile
                    found += [int(word) for word in Path(path).read_text().split()[:2]]
        had, waited = found / 1e9 / len(self._processes)
        return float(had), float(waited)

    def __enter__(self) -> Stages:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.kill()
            process.wait()


def measure(stages: Stages, microbatches: int, schedule: str) -> tuple[float, list[float], list[float]]:
    """Return the bubble that the schedule leaves, the one of each step, and a stage's `processors` for a step."""
    with tf.Graph().as_default():
        pipeline = tf.distribute.experimental.Pipeline(stages.devices, microbatches, schedule)

        def model(x: Any) -> Any:
            for index in range(len(stages.devices)):
                with pipeline.stage(index):
                    x = tf.apply_op("Nap", x=x * tf.get_variable(f"w{index}", [1]), seconds=FORWARD_S)
            return tf.reduce_mean(x)

        batch = tf.constant(np.ones((microbatches, 1), np.float32))
        step = pipeline.minimize(tf.train.GradientDescentOptimizer(0.1), model, (batch,))
        with tf.Session(stages.target) as session:
            session.run(tf.global_variables_initializer())
            run = session.make_callable(step.train_op)
            for _ in range(WARM):
                run()
            stages.naps()
            found, before = [], stages.processors()
            for _ in range(STEPS):
                began = time.monotonic()
                run()
                took = time.monotonic() - began
                naps = stages.naps()
                if any(len(each) != 2 * microbatches for each in naps):
                    raise RuntimeError(f"{[len(each) for each in naps]} naps in a step of {microbatches} micro-batches")
                slept = sum(end - start for each in naps for start, end in each)
                found.append(1 - slept / len(naps) / took)
            used = [(now - then) / STEPS for now, then in zip(stages.processors(), before, strict=True)]
            return pipeline.ideal_bubble, found, used


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rank", type=int, default=-1, help="be a stage's task")
    parser.add_argument("--tasks", default="")
    args = parser.parse_args()
    if args.rank >= 0:
        serve(args.rank, args.tasks.split(","))
        return
    print(
        f"{'stages':>6} {'micro-batches':>13} {'schedule':>8} {'ideal':>6} {'least':>6} {'median':>6} {'off':>5} "
        f"{'worked':>8} {'had none':>9}  load"
    )
    for count, microbatches, schedule in CASES:
        with Stages(count) as stages:
            ideal, found, (had, waited) = measure(stages, microbatches, schedule)
        middle = statistics.median(found)
        print(
            f"{count:>6} {microbatches:>13} {schedule:>8} {ideal:>6.3f} {min(found):>6.3f} {middle:>6.3f} "
            f"{middle / ideal - 1:>+5.0%} {had * 1e3:>5.0f} ms {waited * 1e3:>6.0f} ms  {os.getloadavg()[0]:.1f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
