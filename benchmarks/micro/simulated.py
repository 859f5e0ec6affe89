"""python -m benchmarks.micro.simulated: steps of training on this machine, as simulated and as they are.

What a step of one worker computes is measured with one worker, and with two that know nothing of each other (they share
the processors and the memory); messages and copies as `dtfctl simulate --measure` does. Then 2 to 16 workers train a
perceptron, each with a batch of its own and one thread, by all-reduce and with a ps; the same is simulated.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from benchmarks.processes import clean_environment
from tests.support.ports import free_ports

HIDDEN, INPUTS, CLASSES = 1024, 784, 10
BATCH = 64
RATE = 0.01
VARIABLES = (4 * INPUTS * HIDDEN, 4 * HIDDEN, 4 * HIDDEN * CLASSES, 4 * CLASSES)
WINDOWS, TRIES = 18, 3
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "DTF_ADAPT_THREADS": "0"}


def loss_of(tf: Any, w: Sequence[Any]) -> Any:
    draw = np.random.RandomState(1)
    own: dict[str, Any] = {"collections": [tf.GraphKeys.LOCAL_VARIABLES], "trainable": False}
    x = tf.Variable(draw.rand(BATCH, INPUTS).astype("f4"), **own)
    y = tf.Variable(draw.randint(0, CLASSES, BATCH), **own)
    logits = tf.matmul(tf.nn.relu(tf.matmul(x, w[0]) + w[1]), w[2]) + w[3]
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))


def weights(tf: Any) -> list[Any]:
    draw = np.random.RandomState(0)
    shapes = [(INPUTS, HIDDEN), (HIDDEN,), (HIDDEN, CLASSES), (CLASSES,)]
    return [tf.Variable((draw.randn(*shape) * 0.05).astype("f4"), name=f"w{i}") for i, shape in enumerate(shapes)]


def all_reduce(tf: Any, cluster: dict[str, list[str]], rank: int, server: Any) -> Callable[[], Any]:
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(cluster, server.target, "worker", rank)
    strategy = tf.distribute.experimental.MultiWorkerMirroredStrategy(cluster_resolver=resolver)
    with strategy.scope():
        w = weights(tf)
        train = strategy.run(lambda: tf.train.GradientDescentOptimizer(RATE).minimize(loss_of(tf, w)))
        session = tf.Session(server.target, config=strategy.update_config_proto(tf.ConfigProto()))
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
    return session.make_callable(train)  # type: ignore[no-any-return]


def ps_async(tf: Any, cluster: dict[str, list[str]], rank: int, server: Any) -> Callable[[], Any]:
    worker = f"/job:worker/task:{rank}"
    with tf.device(tf.train.replica_device_setter(worker_device=worker, cluster=cluster)):
        w = weights(tf)
    with tf.device(worker):
        loss = loss_of(tf, w)
    train = tf.train.GradientDescentOptimizer(RATE).minimize(loss)
    config = tf.ConfigProto(device_filters=["/job:ps", worker])
    session = tf.Session(server.target, config=config)
    session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
    return session.make_callable(train)  # type: ignore[no-any-return]


def work(strategy: str, rank: int, cluster: dict[str, list[str]], job: str) -> None:
    """Be one task: a ps, or a worker that trains when it is told to."""
    import dtfctl.runtime as tf

    server = tf.train.Server(cluster, job, rank)
    if job == "ps":
        print(json.dumps("ready"), flush=True)
        for _ in sys.stdin:
            print(json.dumps(_used()), flush=True)
        os._exit(0)
    step = (all_reduce if strategy == "all-reduce" else ps_async)(tf, cluster, rank, server)
    for _ in range(5):
        step()
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        steps = int(line)
        ends, used = [time.perf_counter()], [_used()]
        for _ in range(WINDOWS):
            for _ in range(steps):
                step()
                ends.append(time.perf_counter())
            used.append(_used())
        # As costs are measured: others make all dearer.
        cpu = min(after - before for before, after in pairwise(used)) / steps
        windows = [(ends[at + steps] - ends[at]) / steps for at in range(0, WINDOWS * steps, steps)]
        found = {"wall_s": min(windows), "ends": ends, "cpu_s": cpu}
        print(json.dumps(found), flush=True)


def _used() -> float:
    found = resource.getrusage(resource.RUSAGE_SELF)
    return found.ru_utime + found.ru_stime


class Job:
    """Tasks of one training."""

    def __init__(self, strategy: str, workers: int, ps: int = 0) -> None:
        ports = free_ports(workers + ps)
        cluster = {"worker": [f"127.0.0.1:{port}" for port in ports[:workers]]}
        if ps:
            cluster["ps"] = [f"127.0.0.1:{port}" for port in ports[workers:]]
        command = [sys.executable, "-m", "benchmarks.micro.simulated", "--strategy", strategy]
        self._processes = [
            subprocess.Popen(
                [*command, "--job", job, "--rank", str(rank), "--tasks", json.dumps(cluster)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env=clean_environment(ONE_THREAD),
            )
            for job, tasks in sorted(cluster.items())
            for rank in range(len(tasks))
        ]
        self._ps, self._workers = self._processes[:ps], self._processes[ps:]
        for process in self._processes:
            self._hear(process)

    def _hear(self, process: Any) -> Any:
        line = process.stdout.readline()
        if not line:
            raise RuntimeError("a task of the training ended")
        return json.loads(line)

    def _tell(self, processes: Any, what: int) -> None:
        for process in processes:
            process.stdin.write(f"{what}\n")
            process.stdin.flush()

    def begin(self, steps: int) -> None:
        self._tell(self._workers, steps)

    def end(self) -> list[dict[str, Any]]:
        return [self._hear(process) for process in self._workers]

    def ps_cpu_s(self) -> float:
        """Give what the ps tasks have used of processors since they began."""
        self._tell(self._ps, 0)
        return sum(float(self._hear(process)) for process in self._ps)

    def stop(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()


def step_s(ended: Sequence[dict[str, Any]]) -> float:
    """Find how long a step takes in the window in which all workers together make most of them.

    What one gets more of a processor, another one gets less: windows are the same for all.
    """
    first = max(each["ends"][0] for each in ended)
    last = min(each["ends"][-1] for each in ended)
    window = (last - first) / WINDOWS
    counts = [0.0] * WINDOWS
    for each in ended:
        ends = np.array(each["ends"])
        # How many steps a worker had made at a time, with the part of the one that it was in.
        at = np.interp(first + window * np.arange(WINDOWS + 1), ends, np.arange(len(ends)))
        counts = [count + made for count, made in zip(counts, np.diff(at), strict=True)]
    return float(len(ended) * window / max(counts))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--strategy", default="", help="be a task of it")
    parser.add_argument("--job", default="worker")
    parser.add_argument("--rank", type=int, default=0)
    parser.add_argument("--tasks", default="{}")
    parser.add_argument("--workers", default="2,4,8,16")
    parser.add_argument("--rounds", type=int, default=1, help="so often costs are measured, and steps right after that")
    args = parser.parse_args()
    if args.strategy:
        work(args.strategy, args.rank, json.loads(args.tasks), args.job)
        return
    counts = [int(count) for count in args.workers.split(",")]
    offs: dict[tuple[str, int], list[float]] = {}
    for _ in range(args.rounds):
        for case, off in compare(counts):
            offs.setdefault(case, []).append(off)
    if args.rounds > 1:
        print(f"medians of {args.rounds} rounds, with the lowest and the highest:")
        for (strategy, workers), found in offs.items():
            middle = statistics.median(found)
            print(f"{strategy:<12} {workers:>7} {middle:>+6.0%} ({min(found):+.0%} to {max(found):+.0%})")


def compare(counts: Sequence[int]) -> Iterator[tuple[tuple[str, int], float]]:
    """Measure this machine, simulate steps with what was found, and make them; how far each is off."""
    from dtfctl.simulate.measuring import measure
    from dtfctl.simulate.strategies import Model, Scenario, simulate
    from dtfctl.simulate.world import Places

    machine = measure(print)
    jobs = [Job("all-reduce", 1) for _ in range(2 * machine.cores)]
    try:
        jobs[0].begin(20)
        (alone,) = jobs[0].end()

        def work_beside(count: int) -> float:
            for job in jobs[:count]:
                job.begin(40)
            return float(statistics.mean(job.end()[0]["cpu_s"] for job in jobs[:count]) / alone["cpu_s"])

        slowdown, crowded = work_beside(machine.cores), work_beside(len(jobs))
    finally:
        for job in jobs:
            job.stop()
    machine = replace(machine, slowdown=max(slowdown, 1.0), crowded=max(slowdown, crowded, 1.0))
    model = Model("perceptron", VARIABLES, alone["wall_s"] - machine.step_s, batch=BATCH)
    others = f"{slowdown:.2f} times as long beside another one, {crowded:.2f} times in a crowd"
    print(f"{alone['wall_s'] * 1e3:.3g} ms alone, {others}; {machine}")
    heads = f"{'real':>10} {'simulated':>10} {'off':>6}  {'processors':>10} {'simulated':>10} {'off':>6}   load"
    print(f"{'strategy':<12} {'workers':>7} {heads}")
    for strategy, ps in (("all-reduce", 0), ("ps-async", 1)):
        for workers in counts:
            steps, tries = max(int(0.08 / (model.compute_s * workers / 2 + 1e-3)), 2), []
            job = Job(strategy, workers, ps)
            try:
                for _ in range(TRIES):
                    before = job.ps_cpu_s()
                    job.begin(steps)
                    ended = job.end()
                    cpu = sum(each["cpu_s"] for each in ended) + (job.ps_cpu_s() - before) / (WINDOWS * steps)
                    tries.append((step_s(ended), cpu))
            finally:
                job.stop()
            real, cpu = map(min, zip(*tries, strict=True))
            places = Places([0] * (workers + ps))
            outcome = simulate(Scenario(model, machine, strategy, workers, places, ps))
            told = outcome.step_s
            off = told / real - 1
            load = os.getloadavg()[0]
            print(
                f"{strategy:<12} {workers:>7} {real * 1e3:>7.2f} ms {told * 1e3:>7.2f} ms {off:>+6.0%}  "
                f"{cpu * 1e3:>7.2f} ms {outcome.cpu_s * 1e3:>7.2f} ms {outcome.cpu_s / cpu - 1:>+6.0%}   {load:.0f}",
                flush=True,
            )
            yield (strategy, workers), off


if __name__ == "__main__":
    main()
