"""python -m benchmarks.micro.simulated: steps of training on this machine, as simulated and as they are.

What a step of one worker computes is measured with one worker, and with two that know nothing of each other (they share
the processors and the memory); messages and copies as `dtfctl simulate --measure` does. Then 2 to 16 workers train a
perceptron, each with a batch of its own and one thread, by all-reduce and with a ps; the same is simulated. Costs and
steps take turns, as what others do on the machine changes within minutes.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from benchmarks.processes import clean_environment
from dtfctl import cores
from dtfctl.simulate.measuring import WINDOWS, measure, steps_of, together_s
from dtfctl.simulate.strategies import Model, Scenario, simulate
from dtfctl.simulate.world import Places
from tests.support.ports import free_ports

HIDDEN, INPUTS, CLASSES = 1024, 784, 10
BATCH = 64
RATE = 0.01
VARIABLES = (4 * INPUTS * HIDDEN, 4 * HIDDEN, 4 * HIDDEN * CLASSES, 4 * CLASSES)
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


class Real:
    """Steps of this machine, of each case the least of all rounds, each of which makes all of them once.

    Attributes:
        alone_s: of one worker, of time.
        took: of each strategy and number of workers: of time, and of processors by all tasks.
        tries: the same of time, of each round.
    """

    def __init__(self, cases: Sequence[tuple[str, int]], cores: int) -> None:
        self._cases = cases
        self._cores = cores
        self._loads: list[float] = []
        self.alone_s = math.inf
        self.took: dict[tuple[str, int], tuple[float, float]] = {}
        self.tries: dict[tuple[str, int], list[float]] = {}
        self._beside = [math.inf] * 3

    def round(self) -> None:
        """Make all steps once."""
        self._loads.append(os.getloadavg()[0])
        self._alone()
        for strategy, workers in self._cases:
            steps = steps_of(self.alone_s * workers)
            job = Job(strategy, workers, 0 if strategy == "all-reduce" else 1)
            try:
                before = job.ps_cpu_s()
                job.begin(steps)
                ended = job.end()
                cpu_s = sum(each["cpu_s"] for each in ended) + (job.ps_cpu_s() - before) / (WINDOWS * steps)
            finally:
                job.stop()
            wall_s = together_s([each["ends"] for each in ended], WINDOWS)
            self.tries.setdefault((strategy, workers), []).append(wall_s)
            least = self.took.get((strategy, workers), (math.inf, math.inf))
            self.took[strategy, workers] = min(least[0], wall_s), min(least[1], cpu_s)

    def _alone(self) -> None:
        jobs = [Job("all-reduce", 1) for _ in range(2 * self._cores)]
        try:
            for at, count in enumerate((1, self._cores, len(jobs))):
                for job in jobs[:count]:
                    job.begin(20)
                ended = [job.end()[0] for job in jobs[:count]]
                self._beside[at] = min(self._beside[at], statistics.mean(each["cpu_s"] for each in ended))
                if count == 1:
                    self.alone_s = min(self.alone_s, ended[0]["wall_s"])
        finally:
            for job in jobs:
                job.stop()

    @property
    def slowdown(self) -> float:
        """How much longer computing takes beside that of another worker."""
        return max(self._beside[1] / self._beside[0], 1.0)

    @property
    def crowded(self) -> float:
        """The same where there are two workers a processor."""
        return max(self._beside[2] / self._beside[0], self.slowdown)

    @property
    def loads(self) -> str:
        return f"{min(self._loads):.0f} to {max(self._loads):.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--strategy", default="", help="be a task of it")
    parser.add_argument("--job", default="worker")
    parser.add_argument("--rank", type=int, default=0)
    parser.add_argument("--tasks", default="{}")
    parser.add_argument("--workers", default="2,4,8,16")
    parser.add_argument(
        "--rounds", type=int, default=3, help="in each, costs and steps are measured once; the least count"
    )
    args = parser.parse_args()
    if args.strategy:
        work(args.strategy, args.rank, json.loads(args.tasks), args.job)
        return
    compare([int(count) for count in args.workers.split(",")], args.rounds)


def compare(counts: Sequence[int], rounds: int) -> None:
    """Measure this machine and make steps, in turns; simulate these with what was found; print how far they are off."""
    cases = [(strategy, workers) for strategy in ("all-reduce", "ps-async") for workers in counts]
    real = Real(cases, cores.available())
    machine = replace(measure(print, rounds, real.round), slowdown=real.slowdown, crowded=real.crowded)
    model = Model("perceptron", VARIABLES, real.alone_s - machine.step_s, batch=BATCH)
    others = f"{real.slowdown:.2f} times as long beside another one, {real.crowded:.2f} times in a crowd"
    print(f"{real.alone_s * 1e3:.3g} ms alone, {others}; {machine}")
    print(f"load {real.loads} in {rounds} rounds; in brackets the longest of their steps")
    heads = f"{'real':>20} {'simulated':>10} {'off':>6}  {'processors':>10} {'simulated':>10} {'off':>6}"
    print(f"{'strategy':<12} {'workers':>7} {heads}")
    for strategy, workers in cases:
        ps = 0 if strategy == "all-reduce" else 1
        wall_s, cpu_s = real.took[strategy, workers]
        outcome = simulate(Scenario(model, machine, strategy, workers, Places([0] * (workers + ps)), ps))
        print(
            f"{strategy:<12} {workers:>7} {wall_s * 1e3:>7.2f} ms ({max(real.tries[strategy, workers]) * 1e3:>6.2f}) "
            f"{outcome.step_s * 1e3:>7.2f} ms {outcome.step_s / wall_s - 1:>+6.0%}  "
            f"{cpu_s * 1e3:>7.2f} ms {outcome.cpu_s * 1e3:>7.2f} ms {outcome.cpu_s / cpu_s - 1:>+6.0%}",
            flush=True,
        )


if __name__ == "__main__":
    main()
