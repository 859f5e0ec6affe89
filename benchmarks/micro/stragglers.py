"""Measure training on a ps while one of three workers is stopped 30 % of its time.

`python -m benchmarks.micro.stragglers`: one ps and three workers are processes of their own; the last worker is stopped
for 150 ms of every 500 (SIGSTOP, SIGCONT).
Prints, for each way to train, the updates a second of the whole and the steps a second of each worker. The last two are
a group without a ps, whose examples take a known time, so that two cores do not tell on three workers;
their figures are those of the median step.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from tests.support.ports import free_ports

WORKERS, STOPPED_S, CYCLE_S = 3, 0.15, 0.5
GROUPS = ("equal shares", "balanced shares")
WAYS = ("all in step", "one backup worker", "bound 0", "bound 4", "bound 32", "no bound", *GROUPS)
# Of a group's step: examples, and the seconds that each takes.
BATCH, EXAMPLE_S = 240, 0.003


def work(cluster: dict[str, list[str]], index: int, way: str, seconds: float) -> None:
    """Train as one worker, and print the steps a second and the updates a second while it was measured."""
    import dtfctl.runtime as tf

    server = tf.train.Server(cluster, "worker", index)
    rng = np.random.default_rng(index)
    x, y = rng.normal(size=(64, 256)).astype(np.float32), rng.normal(size=(64, 10)).astype(np.float32)
    with tf.device(tf.train.replica_device_setter(worker_device=f"/job:worker/task:{index}", cluster=cluster)):
        count = tf.train.get_or_create_global_step()
        hidden = tf.layers.dense(tf.constant(x), 256, tf.nn.relu)
        loss = tf.losses.mean_squared_error(tf.constant(y), tf.layers.dense(hidden, 10))
        optimizer: Any = tf.train.GradientDescentOptimizer(0.01)
        hooks: list[Any] = []
        if way in WAYS[:2]:
            needed = WORKERS - WAYS.index(way)
            optimizer = tf.train.SyncReplicasOptimizer(optimizer, needed, WORKERS)
            hooks.append(optimizer.make_session_run_hook(index == 0))
        elif way.startswith("bound"):
            hooks.append(tf.train.experimental.BoundedStalenessHook(int(way.split()[1]), index, WORKERS))
        train = optimizer.minimize(loss, global_step=count)
        with tf.train.MonitoredTrainingSession(server.target, index == 0, hooks=hooks) as session:
            go = threading.Event()
            threading.Thread(target=_wait_for_line, args=(go,), name="reader", daemon=True).start()
            for _ in range(5):
                session.run(train)
            print("ready", flush=True)
            # Nobody pauses: others may wait for this one.
            while not go.is_set():
                session.run(train)
            steps, before, began = 0, int(session.run_step_fn(lambda c: c.session.run(count))), time.monotonic()
            while time.monotonic() - began < seconds:
                session.run(train)
                steps += 1
            took = time.monotonic() - began
            updates = int(session.run_step_fn(lambda c: c.session.run(count))) - before
            print(json.dumps([steps / took, updates / took]), flush=True)
            while True:
                session.run(train)


def work_in_group(cluster: dict[str, list[str]], index: int, way: str, seconds: float) -> None:
    """Train as one of a group that reduces gradients, and print as `work` does."""
    import dtfctl.runtime as tf

    server = tf.train.Server({"worker": cluster["worker"]}, "worker", index)
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec({"worker": cluster["worker"]}), server.target, "worker", index
    )
    strategy = tf.distribute.experimental.MultiWorkerMirroredStrategy(cluster_resolver=resolver)

    def computed(rows: Any) -> Any:
        for _ in rows:
            time.sleep(EXAMPLE_S)
        return rows

    with strategy.scope():
        balanced = tf.distribute.experimental.BalancedBatch(strategy, least=BATCH // WORKERS if way == GROUPS[0] else 1)
        optimizer = tf.train.GradientDescentOptimizer(0.01)
        batch = tf.constant(np.ones((BATCH, 8), np.float32))

        def step() -> Any:
            rows = tf.py_func(computed, [balanced.part(batch)], tf.float32)
            rows.set_shape([None, 8])
            train = balanced.minimize(optimizer, tf.reduce_sum(tf.layers.dense(rows, 4) ** 2) / BATCH)
            with tf.control_dependencies([train]):
                return tf.shape(rows)[0]

        (size,) = strategy.experimental_local_results(strategy.run(step))
        with tf.train.MonitoredTrainingSession() as session:
            go = threading.Event()
            threading.Thread(target=_wait_for_line, args=(go,), name="reader", daemon=True).start()
            session.run(size)
            print("ready", flush=True)
            taken = [int(session.run(size))]
            ended: list[float] = []
            while not go.is_set() or len(ended) < 3 or ended[-1] - ended[2] < seconds:
                taken.append(int(session.run(size)))
                if go.is_set():
                    ended.append(time.monotonic())
            # The first steps find the shares; other work on the machine holds up one or the other step for long.
            rate = 1 / statistics.median(after - before for before, after in pairwise(ended[2:]))
            print(json.dumps([rate, rate]), flush=True)
            print(f"worker {index} took {taken[-1]} of {BATCH}", file=sys.stderr)
            while True:
                session.run(size)


def _wait_for_line(then: threading.Event) -> None:
    sys.stdin.readline()
    then.set()


@contextlib.contextmanager
def stopped_now_and_then(process: subprocess.Popen[str]) -> Iterator[None]:
    """Stop a process for a part of each cycle."""
    over = threading.Event()

    def cycle() -> None:
        while not over.wait(CYCLE_S - STOPPED_S):
            process.send_signal(signal.SIGSTOP)
            over.wait(STOPPED_S)
            process.send_signal(signal.SIGCONT)

    thread = threading.Thread(target=cycle, name="stopper")
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def measure(way: str, seconds: float, stops: bool) -> tuple[float, list[float]]:
    """Return updates a second, as the first worker sees them, and steps a second of those that are not stopped."""
    ports = free_ports(1 + WORKERS)
    cluster = {"ps": [f"127.0.0.1:{ports[0]}"], "worker": [f"127.0.0.1:{port}" for port in ports[1:]]}
    serve = f"import dtfctl.runtime as tf; tf.train.Server({cluster!r}, 'ps', 0).join()"
    server = subprocess.Popen([sys.executable, "-c", serve])
    command = [sys.executable, "-m", "benchmarks.micro.stragglers", "--seconds", str(seconds), "--way", way]
    workers = [
        subprocess.Popen(
            [*command, "--cluster", json.dumps(cluster), "--worker", str(i)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for i in range(WORKERS)
    ]
    try:
        for worker in workers:
            assert worker.stdout is not None and worker.stdout.readline() == "ready\n"
        with stopped_now_and_then(workers[-1]) if stops else contextlib.nullcontext():
            for worker in workers:
                assert worker.stdin is not None
                worker.stdin.write("go\n")
                worker.stdin.flush()
            found = [json.loads(worker.stdout.readline()) for worker in workers[:-1] if worker.stdout is not None]
        return found[0][1], [steps for steps, _ in found]
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
        server.kill()
        server.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--way", choices=WAYS)
    parser.add_argument("--cluster", type=json.loads)
    parser.add_argument("--worker", type=int)
    given = parser.parse_args()
    if given.worker is not None:
        (work_in_group if given.way in GROUPS else work)(given.cluster, given.worker, given.way, given.seconds)
        return
    print("way                  updates/s, nobody stopped   one stopped 30 %   steps/s of the first two workers")
    for way in [given.way] if given.way else WAYS:
        free, _ = measure(way, given.seconds, False)
        held, steps = measure(way, given.seconds, True)
        print(f"{way:20} {free:25.1f} {held:18.1f}   {', '.join(f'{s:.1f}' for s in steps)}", flush=True)


if __name__ == "__main__":
    main()
