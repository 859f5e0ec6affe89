"""Seeded random operations on variables and queues of other processes give what a model in numpy says.

Clients write into what they have fed and into what they have fetched all the time: neither may change anything.
`DTF_RANDOM_SEED` chooses another run.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dtfctl.runtime as tf
from tests.support.ports import free_ports

SEED = int(os.environ.get("DTF_RANDOM_SEED", "1"))
SERVE = Path(__file__).resolve().parents[2] / "support" / "serve.py"
PS, WORKER, OTHER = "/job:ps/task:0", "/job:worker/task:0", "/job:worker/task:1"
# Rows of as many numbers: alone less than what travels in shared memory, and more.
SHAPES = [(3, 5), (64, 256), (65, 256), (300, 1000)]


@pytest.fixture(scope="module", params=["shm", "tcp"])
def cluster(request: pytest.FixtureRequest) -> Iterator[dict[str, dict[int, str]]]:
    """A ps and two workers, each in a process of its own."""
    ports = free_ports(3)
    spec = {"ps": {0: f"127.0.0.1:{ports[0]}"}, "worker": {0: f"127.0.0.1:{ports[1]}", 1: f"127.0.0.1:{ports[2]}"}}
    environment = {**os.environ, "DTF_TRANSPORT": request.param}
    processes = [
        subprocess.Popen(
            [sys.executable, str(SERVE), repr(spec), job, str(i)], stdout=subprocess.PIPE, text=True, env=environment
        )
        for job, i in (("ps", 0), ("worker", 0), ("worker", 1))
    ]
    try:
        for process in processes:
            assert process.stdout is not None and process.stdout.readline() == "serving\n"
        yield spec
    finally:
        for process in processes:
            process.kill()
            process.wait()


class Thing:
    """A variable or a queue, the operations on it, and what the model says it holds."""

    def __init__(self, name: str, shape: tuple[int, int], use_resource: bool) -> None:
        self.shape = shape
        self.held = np.zeros(shape, np.float32)
        self.queued: deque[Any] = deque()
        with tf.device(PS):
            v = tf.get_variable(name, shape, initializer=tf.zeros_initializer(), use_resource=use_resource)
            queue = tf.FIFOQueue(100, tf.float32, [shape], shared_name=f"{name}_queue")
            self.x = tf.placeholder(tf.float32, shape)
            self.some = tf.placeholder(tf.float32, [None, shape[1]])
            self.at = tf.placeholder(tf.int32, [None])
            self.put, self.take = queue.enqueue(self.x), queue.dequeue()
            self.value = tf.identity(v)
            self.changes = {
                "assign": tf.assign(v, self.x),
                "add": tf.assign_add(v, self.x),
                "sub": tf.assign_sub(v, self.x),
                "sgd": tf.train.GradientDescentOptimizer(1.0, use_locking=True).apply_gradients([(self.x, v)]),
                "scatter_add": tf.scatter_add(v, self.at, self.some),
                "scatter_sub": tf.scatter_sub(v, self.at, self.some),
                "scatter_update": tf.scatter_update(v, self.at, self.some),
                "sparse sgd": tf.train.GradientDescentOptimizer(1.0).apply_gradients(
                    [(tf.IndexedSlices(self.some, self.at, list(shape)), v)]
                ),
            }
            keep = tf.FIFOQueue(100, tf.float32, [shape], shared_name=f"{name}_kept")
            self.keep, self.kept = keep.enqueue(self.value), keep.dequeue()
        with tf.device(OTHER):
            self.elsewhere = tf.identity(v) + 0.0
            self.rows = tf.gather(v, self.at)
        with tf.device(WORKER):
            self.passed = tf.reshape(tf.identity(self.x), [-1])
            self.doubled = self.x + tf.identity(v)

    def model(self, name: str, x: Any, at: Any, some: Any) -> None:
        """What a change does."""
        held = self.held
        if name == "assign":
            held[:] = x
        elif name == "add":
            held += x
        elif name in ("sub", "sgd"):
            held -= x
        elif name == "scatter_add":
            np.add.at(held, at, some)
        elif name in ("scatter_sub", "sparse sgd"):
            np.subtract.at(held, at, some)
        else:
            held[at] = some


class Client:
    """One client: it alone changes its things, and so knows what they hold."""

    def __init__(self, name: str, seed: int, master: str) -> None:
        self.random = np.random.RandomState(seed)
        self.said: list[str] = []
        self.snapshots: deque[tuple[Thing, Any]] = deque()
        with tf.Graph().as_default() as graph:
            self.things = [
                Thing(f"{name}_{i}", shape, use_resource=bool((seed + i) % 2)) for i, shape in enumerate(SHAPES)
            ]
            init = tf.global_variables_initializer()
        self.session = tf.Session(master, graph)
        self.session.run(init)

    def numbers(self, shape: Any) -> Any:
        # Small whole numbers add up exactly, in any order.
        return self.random.randint(-9, 9, shape).astype(np.float32)

    def run(self, fetches: Any, feeds: dict[Any, Any]) -> Any:
        """Run a step, after which what was fed is overwritten."""
        got = self.session.run(fetches, feeds)
        for value in feeds.values():
            value[...] = 77
        return got

    def check(self, got: Any, right: Any) -> None:
        """It must be right, and is overwritten then."""
        np.testing.assert_array_equal(got, right, err_msg="\n".join(self.said[-20:]))
        got[...] = -77

    def do(self) -> None:
        thing = self.things[self.random.randint(len(self.things))]
        what = self.random.choice(
            ["change", "change", "read", "elsewhere", "rows", "feed", "put", "take", "keep", "kept", "hold", "both"]
        )
        x = self.numbers(thing.shape)
        at = self.random.choice(thing.shape[0], self.random.randint(1, thing.shape[0]), replace=False).astype(np.int32)
        some = self.numbers((at.size, thing.shape[1]))
        self.said.append(f"{what} {thing.shape}")
        if what in ("change", "both"):
            name = str(self.random.choice(list(thing.changes)))
            self.said[-1] += f" {name}"
            thing.model(name, x, at, some)
            needs_rows = name[0] == "s" and name not in ("sub", "sgd")
            feeds: dict[Any, Any] = {thing.at: at, thing.some: some} if needs_rows else {thing.x: x}
            if what == "both" and not needs_rows:
                right = x.copy()
                self.check(self.run([thing.changes[name], thing.passed], feeds)[1], right.reshape(-1))
            else:
                self.run(thing.changes[name], feeds)
        elif what == "read":
            self.check(self.session.run(thing.value), thing.held)
        elif what == "elsewhere":
            values = self.session.run([thing.elsewhere, thing.value])
            for value in values:
                self.check(value, thing.held)
        elif what == "rows":
            right = thing.held[at]
            self.check(self.run(thing.rows, {thing.at: at}), right)
        elif what == "feed":
            right = x.copy()
            passed, doubled = self.run([thing.passed, thing.doubled], {thing.x: x})
            self.check(passed, right.reshape(-1))
            self.check(doubled, right + thing.held)
        elif what == "put" and len(thing.queued) < 50:
            thing.queued.append(x.copy())
            self.run(thing.put, {thing.x: x})
        elif what == "take" and thing.queued:
            self.check(self.session.run(thing.take), thing.queued.popleft())
        elif what == "keep" and len(self.snapshots) < 50:
            self.session.run(thing.keep)
            self.snapshots.append((thing, thing.held.copy()))
        elif what == "kept" and self.snapshots:
            # The queue has held the variable's value of then, whatever became of that.
            thing, right = self.snapshots.popleft()
            self.check(self.session.run(thing.kept), right)
        elif what == "hold":
            held = self.session.run(thing.value)
            right = thing.held.copy()
            y = self.numbers(thing.shape)
            thing.model("add", y, at, some)
            self.run(thing.changes["add"], {thing.x: y})
            self.check(held, right)

    def finish(self) -> None:
        for thing in self.things:
            while thing.queued:
                self.check(self.session.run(thing.take), thing.queued.popleft())
            self.check(self.session.run(thing.elsewhere), thing.held)
        while self.snapshots:
            thing, right = self.snapshots.popleft()
            self.check(self.session.run(thing.kept), right)
        self.session.close()


@pytest.mark.parametrize(
    "count", [pytest.param(60, marks=pytest.mark.slow), pytest.param(1_000, marks=pytest.mark.nightly)]
)
def test_random_operations_are_as_the_model_says(cluster: dict[str, dict[int, str]], count: int) -> None:
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            # One client asks a worker whose master has a part in some steps, the other one a master that has none.
            client = Client(f"c{number}_{count}", SEED + number, f"grpc://{cluster['worker'][number]}")
            for _ in range(count):
                client.do()
            client.finish()
        except BaseException as e:
            failures.append(e)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
