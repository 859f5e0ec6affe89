"""Measure what messages, copies and work cost here, by tasks of the runtime that run on this machine for a moment.

    python -m dtfctl.simulate.measuring RANK ADDRESS,...

is one of these tasks: it reads what to do from its standard input, a line of JSON each, and writes how long it took.
"""

from __future__ import annotations

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
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dtfctl import cores
from dtfctl.simulate.collectives import Group, seconds
from dtfctl.simulate.strategies import TOUCHED
from dtfctl.simulate.world import Machine, Places, World

TIMES = 10
SMALL, MEDIUM, LARGE = 4000, 3_200_000, 32_000_000
WINDOWS, WINDOW_S = 12, 0.15


# A task -------------------------------------------------------------------------------------------------------------


def serve(rank: int, addresses: Sequence[str]) -> None:
    """Be a task, until there is nothing more to do."""
    import dtfctl.runtime as tf

    server = tf.train.Server({"worker": list(addresses)}, "worker", rank)
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        step = _reduces(tf, server.target, rank, asked) if asked["do"] == "reduce" else _works()
        for _ in range(3):
            step()
        # All leave together: each runs as many steps.
        print(json.dumps(_timed(step, asked["steps"])), flush=True)


def _reduces(tf: Any, target: str, rank: int, asked: dict[str, Any]) -> Callable[[], Any]:
    members, count, times = asked["members"], asked["bytes"] // 4, asked["times"]
    graph = tf.Graph()
    with graph.as_default(), tf.device(f"/job:worker/task:{rank}"):
        own: dict[str, Any] = {"collections": [tf.GraphKeys.LOCAL_VARIABLES], "name": f"own{count}"}
        total = variable = tf.Variable(tf.fill([count], 1.0), **own)
        for turn in range(times):
            total = tf.raw_ops.CollectiveReduce(
                input=total,
                group_size=members,
                group_key=members,
                instance_key=count + turn,
                merge_op="Max",
                final_op="Id",
                subdiv_offsets=[0],
            )
        config = tf.ConfigProto(device_filters=[f"/job:worker/task:{rank}"])
        session = tf.Session(target, graph=graph, config=config)
    session.run(variable.initializer)
    return session.make_callable(total.op)  # type: ignore[no-any-return]


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
    begun = resource.getrusage(resource.RUSAGE_SELF)
    took = []
    for _ in range(WINDOWS):
        at = time.perf_counter()
        for _ in range(steps):
            step()
        took.append((time.perf_counter() - at) / steps)
    used = resource.getrusage(resource.RUSAGE_SELF)
    cpu = used.ru_utime + used.ru_stime - begun.ru_utime - begun.ru_stime
    return {"wall_s": statistics.median(took), "cpu_s": cpu / (steps * WINDOWS)}


# Who asks -----------------------------------------------------------------------------------------------------------


class Took(NamedTuple):
    """How long a step took, of the slowest task, and what processors did in it for all of them."""

    wall_s: float
    cpu_s: float


class Tasks:
    """Tasks that measure."""

    def __init__(self, processes: Sequence[subprocess.Popen[str]]) -> None:
        self._processes = processes

    def ask(self, members: int, **what: Any) -> Took:
        """Have the first tasks do something at the same time."""
        for process in self._processes[:members]:
            assert process.stdin is not None
            process.stdin.write(json.dumps({"members": members, **what}) + "\n")
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
def tasks(count: int) -> Iterator[Tasks]:
    """Start so many tasks on this machine."""
    addresses = ",".join(f"127.0.0.1:{port}" for port in _free_ports(count))
    command = [sys.executable, "-m", "dtfctl.simulate.measuring"]
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
    """Measure this machine: messages and copies between its tasks, and how much work slows work beside it.

    Raises:
        RuntimeError: a task ended.
    """
    crowd_size = 4
    with tasks(crowd_size) as found:
        alone = found.ask(1, do="work", steps=_steps(1e-2))
        both = found.ask(2, do="work", steps=_steps(1e-2)) if cores.available() > 1 else alone
        crowd = found.ask(crowd_size, do="work", steps=_steps(1e-2))
        empty = found.ask(1, do="reduce", bytes=SMALL, times=1, steps=_steps(2e-4))
        each: dict[tuple[int, int], Took] = {}
        for members, nbytes in ((2, SMALL), (4, SMALL), (2, MEDIUM), (4, LARGE)):
            times = TIMES if nbytes == SMALL else 2
            steps = _steps(times * (1e-4 + nbytes / 2e9))
            took = found.ask(members, do="reduce", bytes=nbytes, times=times, steps=steps)
            own = Took(empty.wall_s, empty.cpu_s * members)
            each[members, nbytes] = Took(*(max(a - b, a / 2) / times for a, b in zip(took, own)))
            wall_s, cpu_s = each[members, nbytes]
            note(f"{nbytes:,} bytes over {members} tasks: {wall_s * 1e3:.3g} ms, {cpu_s * 1e3:.3g} ms of processors")
    slowdown = max(both.wall_s / alone.wall_s, 1.0)
    crowded = max(crowd.cpu_s / crowd_size / alone.cpu_s, slowdown)
    note(f"work takes {slowdown:.2f} times as long beside other work, {crowded:.2f} times where processors are too few")
    machine = Machine(
        cores=cores.available(),
        slowdown=slowdown,
        crowded=crowded,
        step_s=empty.cpu_s,
        cache_bytes=_cache_bytes(),
    )
    return fitted(machine, each)


def _cache_bytes() -> float:
    """Read how large the last of the processors' caches is; what is usual where the kernel does not say."""
    sizes = [Machine.cache_bytes]
    for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        text = path.read_text().strip()
        if text.endswith("K") and text[:-1].isdigit():
            sizes.append(float(text[:-1]) * 1024)
    return max(sizes[1:], default=sizes[0])


def _steps(each_s: float) -> int:
    return max(int(WINDOW_S / each_s), 1)


def fitted(machine: Machine, took: Mapping[tuple[int, int], Took]) -> Machine:
    """Find the costs with which simulated all-reduces take as long as measured ones, and as much of processors.

    Args:
        took: of an all-reduce, by members and bytes: the shortest over 2 and 4, one of which halves are long over 2,
            one that takes long over 4.
    """
    short, medium, long = sorted({nbytes for _, nbytes in took})
    for _ in range(4):
        machine = _fit(machine, "message_s", (4, short), "cpu_s", took[4, short].cpu_s, 1e-7, 1e-2)
        machine = _fit(machine, "inside_s", (2, short), "wall_s", took[2, short].wall_s, 1e-7, 1e-2)
        machine = _fit(machine, "copy_bytes_s", (4, long), "cpu_s", took[4, long].cpu_s, 5e8, 1e11)
        machine = _fit(machine, "cached_bytes_s", (2, medium), "cpu_s", took[2, medium].cpu_s, 5e8, 1e11)
    return machine


def _fit(
    machine: Machine, name: str, key: tuple[int, int], what: str, wanted: float, low: float, high: float
) -> Machine:
    """Halve the range of one cost until a simulated all-reduce takes as much."""
    members, nbytes = key
    for _ in range(20):
        middle = (low * high) ** 0.5
        tried = replace(machine, **{name: middle}).copying(TOUCHED * nbytes * members)
        world = World(tried, Places([0] * members))
        wall_s = seconds(Group(world, range(members)), nbytes)
        is_slow = (wall_s if what == "wall_s" else world.hosts[0].used_s) > wanted
        if is_slow == name.endswith("_bytes_s"):
            low = middle
        else:
            high = middle
    return replace(machine, **{name: (low * high) ** 0.5})


if __name__ == "__main__":
    os.environ.setdefault("DTF_ADAPT_THREADS", "0")
    serve(int(sys.argv[1]), sys.argv[2].split(","))
