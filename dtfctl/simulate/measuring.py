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
SHORT, MANY, MEDIUM, LARGE = (4000,), (4000,) * 4, (3_200_000,), (32_000_000,)
"""Variables of the steps that are measured, in bytes."""
ROWS, INPUTS, OUTPUTS, CLASSES = 64, 784, 1024, 10
LAYER = (4 * INPUTS * OUTPUTS,)
LAYERS = (*LAYER, 4 * OUTPUTS * CLASSES)
"""Weights of one layer and of two, whose gradients are computed; those of all others are there at once."""
KINDS, KINDS_OF_CROWDS = (SHORT, MANY, MEDIUM, LARGE, LAYER, LAYERS), (SHORT, MEDIUM, LAYERS)
KINDS_OVER_PS = (SHORT, MANY, MEDIUM)
CROWDS = (2, 4, 8)
"""Tasks a processor."""
PINNED = 2
"""Tasks run on so many processors, so that few make a crowd."""
ROUNDS, WINDOWS, WINDOW_S, FIRST = 3, 8, 0.08, 4


# A task -------------------------------------------------------------------------------------------------------------


def serve(rank: int, addresses: Sequence[str]) -> None:
    """Be a task, until there is nothing more to do."""
    import dtfctl.runtime as tf

    server = tf.train.Server({"worker": list(addresses)}, "worker", rank)
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        if asked["do"] == "tell":
            print(json.dumps({"wall_s": 0.0, "cpu_s": _used(), "spread": 0.0}), flush=True)
            continue
        step = _trains(tf, server.target, rank, asked) if asked["do"] == "train" else _works()
        for _ in range(FIRST):
            step()
        # All leave together: each runs as many steps.
        print(json.dumps(_timed(step, asked["steps"])), flush=True)


def _trains(tf: Any, target: str, rank: int, asked: dict[str, Any]) -> Callable[[], Any]:
    """Make a step as a strategy does: gradients, their sums over all members, and updates when all sums are there.

    With a ps, which is the first task, updates are there, and nothing is summed.
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
        filters = [device, "/job:worker/task:0"] if over_ps else [device]
        session = tf.Session(target, graph=graph, config=tf.ConfigProto(device_filters=filters))
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


def _timed(step: Callable[[], Any], steps: int) -> dict[str, float]:
    took, used, each = [], [], []
    for _ in range(WINDOWS):
        at, used_before = time.perf_counter(), _used()
        for _ in range(steps):
            own = time.thread_time()
            step()
            each.append(time.thread_time() - own)
        took.append((time.perf_counter() - at) / steps)
        used.append((_used() - used_before) / steps)
    middle = statistics.median(each)
    # A normal distribution's, by the half of steps in its middle: a few that others disturb do not count.
    low, _, high = statistics.quantiles(each, n=4) if len(each) > 1 else (middle, middle, middle)
    # Whatever else the machine does makes steps longer, and dearer: others use the caches.
    return {"wall_s": min(took), "cpu_s": min(used), "spread": (high - low) / 1.35 / middle}


def _used() -> float:
    found = resource.getrusage(resource.RUSAGE_SELF)
    return found.ru_utime + found.ru_stime


# Who asks -----------------------------------------------------------------------------------------------------------


class Took(NamedTuple):
    """What a step took.

    Attributes:
        wall_s: of the slowest task.
        cpu_s: of processors, for all of the tasks.
        spread: of the time that the first one's own thread worked: its standard deviation, of the middle.
    """

    wall_s: float
    cpu_s: float
    spread: float = 0.0


class OverPs(NamedTuple):
    """What a step over a ps took: of processors, its worker's and the ps's, and of time."""

    worker_s: float
    ps_s: float
    wall_s: float


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

    def over_ps(self, variables: Variables, steps: int) -> OverPs:
        """Have the second task train with the first one as its ps."""
        what = {"do": "train", "variables": variables, "over_ps": True}
        self._ask([1], steps=1, **what)
        before = self.ask(1, do="tell").cpu_s
        (found,) = self._ask([1], steps=steps, **what)
        ps_s = (self.ask(1, do="tell").cpu_s - before) / (WINDOWS * steps + FIRST)
        return OverPs(found["cpu_s"], ps_s, found["wall_s"])

    def _ask(self, ranks: Sequence[int], **what: Any) -> list[dict[str, float]]:
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


def measure(note: Callable[[str], None] = lambda text: None) -> Machine:
    """Measure this machine: steps of training with next to no computing, and how much work slows work beside it.

    Raises:
        RuntimeError: a task ended.
    """
    able = min(cores.available(), PINNED)
    most = able * max(CROWDS)
    took: dict[tuple[int, Variables], Took] = {}
    with tasks(most, able) as found:
        over_ps: dict[Variables, OverPs] = {}
        worked: dict[int, Took] = {}
        # What others do on the machine changes within minutes: each kind is measured once in each round.
        for _ in range(ROUNDS):
            for count in sorted({1, min(able, 2), 2 * able}):
                worked[count] = Took(*_least(worked.get(count), found.ask(count, do="work", steps=_steps(1e-2))))
            for members in sorted({1, 2, *(able * each for each in CROWDS)}):
                for variables in KINDS if members <= 2 else KINDS_OF_CROWDS:
                    guess = members * (1e-4 * len(variables) + sum(variables) / 4e9)
                    computes = variables in (LAYER, LAYERS)
                    asked = {"do": "train", "variables": variables, "steps": _steps(guess), "computes": computes}
                    key = members, variables
                    took[key] = Took(*_least(took.get(key), found.ask(members, **asked)))
            for variables in KINDS_OVER_PS:
                found_over_ps = found.over_ps(variables, _steps(1e-3))
                over_ps[variables] = OverPs(*_least(over_ps.get(variables), found_over_ps))
    for (members, sizes), (wall_s, cpu_s, _) in took.items():
        what = f"{len(sizes)} variables of {sum(sizes):,} bytes over {members} tasks"
        note(f"{what}: {wall_s * 1e3:.3g} ms, {cpu_s * 1e3:.3g} ms of processors")
    for sizes, (worker_s, ps_s, wall_s) in over_ps.items():
        what = f"{len(sizes)} variables of {sum(sizes):,} bytes over a ps: {wall_s * 1e3:.3g} ms"
        note(f"{what}, {worker_s * 1e3:.3g} ms of processors for the worker, {ps_s * 1e3:.3g} ms for the ps")
    alone, both, crowd = worked[1], worked[min(able, 2)], worked[2 * able]
    slowdown = max(both.wall_s / alone.wall_s, 1.0)
    crowded = max(crowd.cpu_s / (2 * able) / alone.cpu_s, slowdown)
    note(f"work takes {slowdown:.2f} times as long beside other work, {crowded:.2f} times where processors are too few")
    machine = fitted(Machine(cores=able, slowdown=slowdown, crowded=crowded), took, over_ps)
    return replace(machine, cores=cores.available())


def _least(before: tuple[float, ...] | None, now: tuple[float, ...]) -> tuple[float, ...]:
    return now if before is None else tuple(map(min, before, now))


def _steps(each_s: float) -> int:
    return max(int(WINDOW_S / each_s), 1)


def fitted(
    machine: Machine, took: Mapping[tuple[int, Variables], Took], over_ps: Mapping[Variables, OverPs]
) -> Machine:
    """Find the costs with which simulated steps take as long as measured ones.

    Args:
        took: of a step, by members and variables: of 1 and 2 members with `KINDS`, and of as many as `CROWDS` says for
            each processor with `KINDS_OF_CROWDS`.
        over_ps: with `KINDS_OVER_PS`, of one worker and a ps.
    """
    step_s = took[1, SHORT].cpu_s
    machine = replace(machine, step_s=step_s, spread=0.0, wait_s=0.0, inside_s=0.0, hop_wait_s=0.0)

    def fit(name: str, members: int, variables: Variables, what: str, low: float, high: float) -> None:
        nonlocal machine
        alone_s = max(took[1, variables].cpu_s - machine.step_s, 0.0)
        model = Model("", variables, alone_s)
        machine = _fit(machine, name, model, members, what, getattr(took[members, variables], what), low, high)

    # What more arrays of a step cost is what messages do; what one costs beside that, a step does that waits.
    more = len(MANY) - len(SHORT)
    own = simulate(Scenario(Model("", SHORT, 0.0), machine, "all-reduce", 2, Places([0, 0]))).messages
    alone_s = took[1, MANY].cpu_s - took[1, SHORT].cpu_s
    message_s = max((took[2, MANY].cpu_s - took[2, SHORT].cpu_s - 2 * alone_s) / more / own, 1e-7)
    wait_s = max((took[2, SHORT].cpu_s - own * message_s) / 2 - step_s, 0.0)
    machine = replace(machine, message_s=message_s, wait_s=wait_s, again_s=0.0)
    # What processors do is the same however busy the machine is; how long it takes is not.
    fit("inside_s", 2, SHORT, "wall_s", 1e-7, 1e-2)
    fit("cached_bytes_s", 2, MEDIUM, "cpu_s", 5e8, 1e11)
    fit("hop_wait_s", 2, MEDIUM, "wall_s", 1e-7, 1e-2)
    fit("copy_bytes_s", 2, LARGE, "cpu_s", 5e8, 1e11)
    fit("computes_1", 2, LAYER, "cpu_s", 0.2, 20)
    fit("again_s", 2, LAYERS, "cpu_s", 1e-7, 1e-2)
    for each in CROWDS:
        members = each * machine.cores
        fit(f"messages_{each}", members, SHORT, "cpu_s", 0.2, 20)
        fit(f"copies_{each}", members, MEDIUM, "cpu_s", 0.2, 20)
        fit(f"computes_{each}", members, LAYERS, "cpu_s", 0.2, 20)
        fit(f"busy_{each}", members, LAYERS, "wall_s", 0.2, 1)
    machine = replace(_over_ps(machine, took, over_ps), asked_s=0.0, asked_hop_s=0.0)
    for name, variables in (("asked_s", SHORT), ("asked_hop_s", MEDIUM)):
        model = Model("", variables, max(took[1, variables].cpu_s - machine.step_s, 0.0))
        machine = _fit(machine, name, model, 1, "wall_s", over_ps[variables].wall_s, 1e-7, 1e-2, ps=1)
    return replace(machine, spread=took[1, LAYER].spread)


def _over_ps(
    machine: Machine, took: Mapping[tuple[int, Variables], Took], over_ps: Mapping[Variables, OverPs]
) -> Machine:
    """Find what steps over a ps cost beside messages, of which each side sends two and deals with two."""
    more, messages_s = len(MANY) - len(SHORT), 2 * machine.message_s
    alone_s = {variables: took[1, variables].cpu_s for variables in KINDS_OVER_PS}
    both_s = {variables: found.worker_s + found.ps_s for variables, found in over_ps.items()}
    by_many_s = both_s[MANY] - both_s[SHORT] - (alone_s[MANY] - alone_s[SHORT])
    variable_s = max(by_many_s / more / 2, 0.0)
    bytes_s = machine.cached_bytes_s / (MEDIUM[0] - SHORT[0])
    spared_s = alone_s[MEDIUM] - alone_s[SHORT] - (over_ps[MEDIUM].worker_s - over_ps[SHORT].worker_s)
    return replace(
        machine,
        ask_s=max(over_ps[SHORT].worker_s - alone_s[SHORT] - messages_s - variable_s, 0.0),
        serve_s=max(over_ps[SHORT].ps_s - messages_s - variable_s, 0.0),
        variable_s=variable_s,
        applied=max((over_ps[MEDIUM].ps_s - over_ps[SHORT].ps_s) * bytes_s, 0.0),
        spared=max(spared_s * bytes_s, 0.0),
    )


def _fit(
    machine: Machine,
    name: str,
    model: Model,
    members: int,
    what: str,
    wanted: float,
    low: float,
    high: float,
    ps: int = 0,
) -> Machine:
    """Halve the range of one cost until a simulated step takes as much."""
    for _ in range(12):
        middle = (low * high) ** 0.5
        strategy, places = "ps-async" if ps else "all-reduce", Places([0] * (members + ps))
        outcome = simulate(Scenario(model, replace(machine, **{name: middle}), strategy, members, places, ps))
        is_slow = (outcome.step_s if what == "wall_s" else outcome.cpu_s) > wanted
        if is_slow == (name.endswith("_bytes_s") or name.startswith("busy_")):
            low = middle
        else:
            high = middle
    return replace(machine, **{name: (low * high) ** 0.5})


if __name__ == "__main__":
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: int(sys.argv[1])])
    serve(int(sys.argv[2]), sys.argv[3].split(","))
