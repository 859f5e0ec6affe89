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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from dtfctl import cores
from dtfctl.simulate.strategies import Model, Scenario, simulate
from dtfctl.simulate.world import Machine, Places

Variables: TypeAlias = tuple[int, ...]
SHORT, MEDIUM, LARGE = (4000,), (3_200_000,), (32_000_000,)
"""Variables of the steps that are measured, in bytes."""
CROWDS = (2, 4, 8)
"""Tasks a processor."""
PINNED = 2
"""Tasks run on so many processors, so that few make a crowd."""
ROUNDS, WINDOWS, WINDOW_S = 2, 12, 0.08


# A task -------------------------------------------------------------------------------------------------------------


def serve(rank: int, addresses: Sequence[str]) -> None:
    """Be a task, until there is nothing more to do."""
    import dtfctl.runtime as tf

    server = tf.train.Server({"worker": list(addresses)}, "worker", rank)
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        step = _trains(tf, server.target, rank, asked) if asked["do"] == "train" else _works()
        for _ in range(4):
            step()
        # All leave together: each runs as many steps.
        print(json.dumps(_timed(step, asked["steps"])), flush=True)


def _trains(tf: Any, target: str, rank: int, asked: dict[str, Any]) -> Callable[[], Any]:
    """Make a step as a strategy does: gradients, their sums over all members, and updates when all sums are there."""
    members = asked["members"]
    device = f"/job:worker/task:{rank}"
    graph = tf.Graph()
    with graph.as_default(), tf.device(device):
        own: dict[str, Any] = {"collections": [tf.GraphKeys.LOCAL_VARIABLES], "use_resource": True}
        variables = [
            tf.Variable(tf.fill([size // 4], 1.0), name=f"own{i}", **own) for i, size in enumerate(asked["variables"])
        ]
        sums = [tf.multiply(variable, 1e-3) for variable in variables]
        if members > 1:
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
        session = tf.Session(target, graph=graph, config=tf.ConfigProto(device_filters=[device]))
    session.run([variable.initializer for variable in variables])
    step = session.make_callable(train)

    def run() -> None:
        step()

    return run


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


def _timed(step: Callable[[], Any], steps: int) -> dict[str, float]:
    took, used = [], []
    for _ in range(WINDOWS):
        at, used_before = time.perf_counter(), _used()
        for _ in range(steps):
            step()
        took.append((time.perf_counter() - at) / steps)
        used.append((_used() - used_before) / steps)
    # Whatever else the machine does makes steps longer.
    return {"wall_s": min(took), "cpu_s": statistics.median(used)}


def _used() -> float:
    found = resource.getrusage(resource.RUSAGE_SELF)
    return found.ru_utime + found.ru_stime


# Who asks -----------------------------------------------------------------------------------------------------------


class Took(NamedTuple):
    """How long a step took, of the slowest task, and what processors did in it for all of them."""

    wall_s: float
    cpu_s: float


class Tasks:
    """Tasks that measure."""

    def __init__(self, processes: Sequence[subprocess.Popen[str]]) -> None:
        self._processes = processes
        self._keys = itertools.count(1000, 1000)

    def ask(self, members: int, **what: Any) -> Took:
        """Have the first tasks do something at the same time."""
        asked = json.dumps({"members": members, "key": next(self._keys), **what}) + "\n"
        for process in self._processes[:members]:
            assert process.stdin is not None
            process.stdin.write(asked)
            process.stdin.flush()
        found = [_answer(process) for process in self._processes[:members]]
        return Took(max(each["wall_s"] for each in found), sum(each["cpu_s"] for each in found))


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
    processes = [
        subprocess.Popen([*command, str(rank), addresses], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
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


def measure(note: Callable[[str], None] = lambda text: None) -> Machine:
    """Measure this machine: steps of training with next to no computing, and how much work slows work beside it.

    Raises:
        RuntimeError: a task ended.
    """
    able = min(cores.available(), PINNED)
    most = able * max(CROWDS)
    took: dict[tuple[int, Variables], Took] = {}
    with tasks(most, able) as found:
        alone = found.ask(1, do="work", steps=_steps(1e-2))
        both = found.ask(2, do="work", steps=_steps(1e-2)) if able > 1 else alone
        crowd = found.ask(2 * able, do="work", steps=_steps(1e-2))
        for members in sorted({1, 2, *(able * each for each in CROWDS)}):
            for variables in (SHORT, MEDIUM, LARGE) if members <= 2 else (SHORT, MEDIUM):
                guess = members * (1e-4 * len(variables) + sum(variables) / 4e9)
                asked = {"do": "train", "variables": variables, "steps": _steps(guess)}
                rounds = [found.ask(members, **asked) for _ in range(ROUNDS)]
                took[members, variables] = Took(*map(min, zip(*rounds, strict=True)))
                wall_s, cpu_s = took[members, variables]
                what = f"{len(variables)} variables of {variables[0]:,} bytes over {members} tasks"
                note(f"{what}: {wall_s * 1e3:.3g} ms, {cpu_s * 1e3:.3g} ms of processors")
    slowdown = max(both.wall_s / alone.wall_s, 1.0)
    crowded = max(crowd.cpu_s / (2 * able) / alone.cpu_s, slowdown)
    note(f"work takes {slowdown:.2f} times as long beside other work, {crowded:.2f} times where processors are too few")
    machine = fitted(Machine(cores=able, slowdown=slowdown, crowded=crowded), took)
    return replace(machine, cores=cores.available())


def _steps(each_s: float) -> int:
    return max(int(WINDOW_S / each_s), 1)


def fitted(machine: Machine, took: Mapping[tuple[int, Variables], Took]) -> Machine:
    """Find the costs with which simulated steps take as long as measured ones.

    Args:
        took: of a step, by members and variables: of 1 and 2 members with `SHORT`, `MEDIUM` and `LARGE`, and with the
            first two of as many as `CROWDS` says for each processor.
    """
    machine = replace(machine, step_s=took[1, SHORT].cpu_s)

    def fit(name: str, members: int, variables: Variables, what: str, low: float, high: float) -> None:
        nonlocal machine
        alone_s = max(took[1, variables].cpu_s - machine.step_s, 0.0)
        model = Model("", variables, alone_s)
        machine = _fit(machine, name, model, members, what, getattr(took[members, variables], what), low, high)

    # What processors do is the same however busy the machine is; how long it takes is not.
    for _ in range(3):
        fit("message_s", 2, SHORT, "cpu_s", 1e-7, 1e-2)
        fit("inside_s", 2, SHORT, "wall_s", 1e-7, 1e-2)
    fit("cached_bytes_s", 2, MEDIUM, "cpu_s", 5e8, 1e11)
    fit("copy_bytes_s", 2, LARGE, "cpu_s", 5e8, 1e11)
    for each in CROWDS:
        members = each * machine.cores
        fit(f"messages_{each}", members, SHORT, "cpu_s", 0.2, 20)
        fit(f"copies_{each}", members, MEDIUM, "cpu_s", 0.2, 20)
    return machine


def _fit(
    machine: Machine, name: str, model: Model, members: int, what: str, wanted: float, low: float, high: float
) -> Machine:
    """Halve the range of one cost until a simulated step takes as much."""
    for _ in range(12):
        middle = (low * high) ** 0.5
        scenario = Scenario(model, replace(machine, **{name: middle}), "all-reduce", members, Places([0] * members))
        outcome = simulate(scenario)
        is_slow = (outcome.step_s if what == "wall_s" else outcome.cpu_s) > wanted
        if is_slow == name.endswith("_bytes_s"):
            low = middle
        else:
            high = middle
    return replace(machine, **{name: (low * high) ** 0.5})


if __name__ == "__main__":
    os.environ.setdefault("DTF_ADAPT_THREADS", "0")
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: int(sys.argv[1])])
    serve(int(sys.argv[2]), sys.argv[3].split(","))
