"""Measure what messages, copies and work cost here, by tasks of the runtime that run on this machine for a moment.

    python -m dtfctl.simulate.measuring PROCESSORS RANK ADDRESS,...

is one of these tasks: it reads what to do from its standard input, a line of JSON each, and writes how long it took.
"""

from __future__ import annotations

import itertools
import json
import os
import resource
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from dtfctl import cores
from dtfctl.simulate.fitting import (
    CLASSES,
    CROWDS,
    INPUTS,
    KINDS,
    KINDS_OF_CROWDS,
    KINDS_OVER_PS,
    LAYER,
    LAYERS,
    OUTPUTS,
    ROWS,
    OverPs,
    Took,
    Variables,
    fitted,
)
from dtfctl.simulate.world import Machine

PINNED = 2
"""Tasks run on so many processors, so that few make a crowd."""
ROUNDS, WINDOWS, WINDOW_S, FIRST = 3, 12, 0.08, 4


# A task -------------------------------------------------------------------------------------------------------------


def serve(rank: int, addresses: Sequence[str]) -> None:
    """Be a task, until there is nothing more to do."""
    import dtfctl.runtime as tf

    server = tf.train.Server({"worker": list(addresses)}, "worker", rank)
    print(json.dumps("ready"), flush=True)
    ends = ExitStack()
    for line in sys.stdin:
        asked = json.loads(line)
        if asked["do"] == "tell":
            print(json.dumps({"wall_s": 0.0, "cpu_s": _used(), "spread": 0.0}), flush=True)
            continue
        # Only now nobody is in a step any more that waits for this task.
        ends.close()
        step = _trains(tf, server.target, rank, asked, ends) if asked["do"] == "train" else _works()
        for _ in range(FIRST):
            step()
        # All leave together: each runs as many steps.
        print(json.dumps(_timed(step, asked["steps"])), flush=True)


def _trains(tf: Any, target: str, rank: int, asked: dict[str, Any], ends: ExitStack) -> Callable[[], Any]:
    """Make a step as a strategy does: gradients, their sums over all members, and updates when all sums are there.

    With a ps, which is the first task, updates are there, and nothing is summed. `ends` closes the session.
    """
    members, over_ps = asked["members"], asked["over_ps"]
    device = f"/job:worker/task:{rank}"
    graph = tf.Graph()
    with graph.as_default(), tf.device(device):
        own: dict[str, Any] = {"collections": [tf.GraphKeys.LOCAL_VARIABLES], "use_resource": not over_ps}
        with tf.device("/job:worker/task:0" if over_ps else device):
            variables = [
                tf.Variable(tf.fill([size // 4], 1.0), name=f"own{asked['key']}_{i}", **own)
                for i, size in enumerate(asked["variables"])
            ]
        sums = _gradients(tf, variables, own) if asked["computes"] else [tf.multiply(v, 1e-3) for v in variables]
        if members > 1 and not over_ps:
            key = asked["key"]
            sums = tf.identity_n(
                [
                    tf.raw_ops.CollectiveReduce(
                        input=gradient,
                        group_size=members,
                        group_key=key,
                        instance_key=key + i,
                        merge_op="Add",
                        final_op="Id",
                        subdiv_offsets=[0],
                    )
                    for i, gradient in enumerate(sums)
                ]
            )
        optimizer = tf.train.GradientDescentOptimizer(1e-3)
        train = optimizer.apply_gradients(list(zip(sums, variables, strict=True)))
        filters = [device, "/job:worker/task:0"] if over_ps else [device]
        session = tf.Session(target, graph=graph, config=tf.ConfigProto(device_filters=filters))
        ends.callback(session.close)
    session.run([variable.initializer for variable in graph.get_collection(tf.GraphKeys.LOCAL_VARIABLES)])
    step = session.make_callable(train)

    def run() -> None:
        step()

    return run


def _gradients(tf: Any, variables: Sequence[Any], own: dict[str, Any]) -> list[Any]:
    inputs = tf.Variable(tf.fill([ROWS, INPUTS], 0.01), trainable=False, **own)
    out = tf.nn.relu(tf.matmul(inputs, tf.reshape(variables[0], [INPUTS, OUTPUTS])))
    if len(variables) > 1:
        out = tf.matmul(out, tf.reshape(variables[1], [OUTPUTS, CLASSES]))
    return list(tf.gradients(tf.reduce_mean(out * out), list(variables)))


def _works() -> Callable[[], Any]:
    a = np.ones((192, 192), np.float32)
    b = np.ones(1 << 20, np.float32)

    def step() -> None:
        # About as much of arithmetic as of memory, as in training.
        for _ in range(4):
            np.einsum("ij,jk->ik", a, a)
        np.add(b, b, out=b)
        np.multiply(b, 0.5, out=b)

    return step


def _timed(step: Callable[[], Any], steps: int) -> dict[str, Any]:
    took, used, each, ends = [], [], [], [time.perf_counter()]
    for _ in range(WINDOWS):
        at, used_before = time.perf_counter(), _used()
        for _ in range(steps):
            own = time.thread_time()
            step()
            each.append(time.thread_time() - own)
            ends.append(time.perf_counter())
        took.append((time.perf_counter() - at) / steps)
        used.append((_used() - used_before) / steps)
    middle = statistics.median(each)
    # A normal distribution's, by the half of steps in its middle: a few that others disturb do not count.
    low, _, high = statistics.quantiles(each, n=4) if len(each) > 1 else (middle, middle, middle)
    # Whatever else the machine does makes steps longer, and dearer: others use the caches.
    return {"wall_s": min(took), "cpu_s": min(used), "spread": (high - low) / 1.35 / middle, "ends": ends}


def together_s(ends: Sequence[Sequence[float]], windows: int) -> float:
    """Find how long a step takes in the window in which all workers together make most of them.

    What one gets more of a processor, another one gets less: windows are the same for all.

    Args:
        ends: of each worker, when it began, and when each of its steps ended, by a clock that all share.
    """
    first = max(each[0] for each in ends)
    window = (min(each[-1] for each in ends) - first) / windows
    bounds = first + window * np.arange(windows + 1)
    # How many steps a worker had made at a time, with the part of the one that it was in.
    made = sum(np.diff(np.interp(bounds, each, np.arange(len(each)))) for each in ends)
    return float(len(ends) * window / np.max(made))


def _used() -> float:
    found = resource.getrusage(resource.RUSAGE_SELF)
    return found.ru_utime + found.ru_stime


# Who asks -----------------------------------------------------------------------------------------------------------


class Tasks:
    """Tasks that measure."""

    def __init__(self, processes: Sequence[subprocess.Popen[str]]) -> None:
        self._processes = processes
        self._keys = itertools.count(1000, 1000)

    def ask(self, members: int, **what: Any) -> Took:
        """Have the first tasks do something at the same time."""
        found = self._ask(range(members), **what)
        walls, cpus = [each["wall_s"] for each in found], [each["cpu_s"] for each in found]
        return Took(max(walls), sum(cpus), found[0]["spread"])

    def over_ps(self, workers: int, variables: Variables, steps: int, computes: bool) -> OverPs:
        """Have so many tasks train, each for itself, with the first one as their ps."""
        what = {"do": "train", "variables": variables, "over_ps": True, "computes": computes}
        ranks = range(1, workers + 1)
        self._ask(ranks, steps=1, **what)
        before = self.ask(1, do="tell").cpu_s
        found = self._ask(ranks, steps=steps, **what)
        ps_s = (self.ask(1, do="tell").cpu_s - before) / (WINDOWS * steps + FIRST) / workers
        wall_s = together_s([each["ends"] for each in found], WINDOWS)
        return OverPs(sum(each["cpu_s"] for each in found) / workers, ps_s, wall_s)

    def _ask(self, ranks: Sequence[int], **what: Any) -> list[dict[str, Any]]:
        asked = {"members": len(ranks), "key": next(self._keys), "computes": False, "over_ps": False, **what}
        for rank in ranks:
            stdin = self._processes[rank].stdin
            assert stdin is not None
            stdin.write(json.dumps(asked) + "\n")
            stdin.flush()
        return [_answer(self._processes[rank]) for rank in ranks]


def _answer(process: subprocess.Popen[str]) -> Any:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise RuntimeError(f"a task that measures ended with exit code {process.wait()}")
    return json.loads(line)


@contextmanager
def tasks(count: int, able: int) -> Iterator[Tasks]:
    """Start so many tasks on this machine, on so many of its processors."""
    addresses = ",".join(f"127.0.0.1:{port}" for port in _free_ports(count))
    command = [sys.executable, "-m", "dtfctl.simulate.measuring", str(able)]
    # What a processor does is measured: how many work at a kernel is the model's.
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "DTF_ADAPT_THREADS": "0"}
    processes = [
        subprocess.Popen(
            [*command, str(rank), addresses],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        for rank in range(count)
    ]
    try:
        for process in processes:
            _answer(process)
        yield Tasks(processes)
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.wait()
            for end in (process.stdin, process.stdout):
                if end is not None:
                    end.close()


def _free_ports(count: int) -> list[int]:
    held = [socket.socket() for _ in range(count)]
    try:
        for each in held:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in held]
    finally:
        for each in held:
            each.close()


def measure(
    note: Callable[[str], None] = lambda text: None, rounds: int = ROUNDS, beside: Callable[[], None] = lambda: None
) -> Machine:
    """Measure this machine: steps of training with next to no computing, and how much work slows work beside it.

    Args:
        rounds: what others do on the machine changes within minutes, so each kind is measured once in each round, and
            counts as it was in its best one.
        beside: called in each round, to measure something else in the same minutes.

    Raises:
        RuntimeError: a task ended.
    """
    able = min(cores.available(), PINNED)
    most = able * max(CROWDS)
    took: dict[tuple[int, Variables], Took] = {}
    over_ps: dict[tuple[int, Variables], OverPs] = {}
    with tasks(most + 1, able) as found:
        worked: dict[int, Took] = {}
        for _ in range(rounds):
            beside()
            for count in sorted({1, min(able, 2), 2 * able}):
                worked[count] = Took(*_least(worked.get(count), found.ask(count, do="work", steps=steps_of(1e-2))))
            for members in sorted({1, 2, *(able * each for each in CROWDS)}):
                for variables in KINDS if members <= 2 else KINDS_OF_CROWDS:
                    guess = members * (1e-4 * len(variables) + sum(variables) / 4e9)
                    computes = variables in (LAYER, LAYERS)
                    asked = {"do": "train", "variables": variables, "steps": steps_of(guess), "computes": computes}
                    key = members, variables
                    took[key] = Took(*_least(took.get(key), found.ask(members, **asked)))
            for workers in sorted({1, *(able * each for each in (1, *CROWDS))}):
                for variables in KINDS_OVER_PS if workers == 1 else KINDS_OF_CROWDS:
                    computes = variables in (LAYER, LAYERS)
                    guess = workers * (1e-4 * len(variables) + sum(variables) / 4e9 + (1e-3 if computes else 0.0))
                    now = found.over_ps(workers, variables, steps_of(guess), computes)
                    of = workers, variables
                    over_ps[of] = OverPs(*_least(over_ps.get(of), now))
    for (members, sizes), (wall_s, cpu_s, _) in took.items():
        what = f"{len(sizes)} variables of {sum(sizes):,} bytes over {members} tasks"
        note(f"{what}: {wall_s * 1e3:.3g} ms, {cpu_s * 1e3:.3g} ms of processors")
    for (workers, sizes), (worker_s, ps_s, wall_s) in over_ps.items():
        what = f"{len(sizes)} variables of {sum(sizes):,} bytes from {workers} workers over a ps: {wall_s * 1e3:.3g} ms"
        note(f"{what}, {worker_s * 1e3:.3g} ms of processors for each worker, {ps_s * 1e3:.3g} ms for the ps")
    alone, both, crowd = worked[1], worked[min(able, 2)], worked[2 * able]
    slowdown = max(both.wall_s / alone.wall_s, 1.0)
    crowded = max(crowd.cpu_s / (2 * able) / alone.cpu_s, slowdown)
    note(f"work takes {slowdown:.2f} times as long beside other work, {crowded:.2f} times where processors are too few")
    machine = fitted(Machine(cores=able, slowdown=slowdown, crowded=crowded), took, over_ps)
    return replace(machine, cores=cores.available())


def _least(before: tuple[float, ...] | None, now: tuple[float, ...]) -> tuple[float, ...]:
    return now if before is None else tuple(map(min, before, now))


def steps_of(each_s: float) -> int:
    """Choose how many steps of a length make a window: the least of windows is less, the shorter they are."""
    return max(int(WINDOW_S / each_s), 1)


if __name__ == "__main__":
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: int(sys.argv[1])])
    serve(int(sys.argv[2]), sys.argv[3].split(","))
