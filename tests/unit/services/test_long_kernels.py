"""Steps are answered when they are told to end, while a kernel that nothing can interrupt goes on."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from dtfctl.protocol import config_pb2, graph_pb2
from dtfctl.runtime.client.backend import Backend
from dtfctl.runtime.client.targets import open_backend
from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.attrs import encode_attr
from dtfctl.runtime.framework.errors import CancelledError, DeadlineExceededError
from dtfctl.runtime.kernels.control.py_func import register_py_func, unregister_py_func
from dtfctl.runtime.steps.abandon import LONG_S
from tests.support.clusters import InProcessCluster
from tests.support.waiting import in_thread
from tests.unit.services.client_sessions import PS, WORKER, nothing_is_left, opened
from tests.unit.services.graphs import GraphBuilder

pytestmark = pytest.mark.slow

LIMIT_S = 120.0
"""Nothing here takes long; whoever waited for the kernel would wait for this."""
SIZE = 50_000
FEED = {"x:0": np.ones(SIZE, np.float32)}


class LongKernel:
    """What a graph computes for as long as the test wants it to.

    Attributes:
        is_held: whether calls go on until `let_go`.
    """

    def __init__(self) -> None:
        self.is_held = False
        self._entered, self._gone_on, self._left = (threading.Semaphore(0) for _ in range(3))
        self._token = register_py_func(self._compute)

    def _compute(self, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        if self.is_held:
            self._entered.release()
            self._gone_on.acquire(timeout=2 * LIMIT_S)
            # What it was given is still what it was.
            if x.tolist() == [1.0] * len(x):
                self._left.release()
        return x + 1

    def add(self, g: GraphBuilder, device: str) -> None:
        """Add `long`, of `x:0`, which is fed, and `set`, which keeps it in `v`."""
        g.placeholder("x", device)
        types = encode_attr("list(type)", [dtypes.float32])
        token = encode_attr("string", self._token)
        g.node("long", "PyFunc", ("x",), device, token=token, Tin=types, Tout=types)
        g.variable("v", (SIZE,), device)
        g.assign("set", "v", "long", device)

    def has_begun(self, within_s: float = 0.0) -> bool:
        return self._entered.acquire(timeout=within_s)

    def let_go(self) -> None:
        self.is_held = False
        self._gone_on.release()
        assert self._left.acquire(timeout=LIMIT_S)

    def close(self) -> None:
        self.is_held = False
        self._gone_on.release(64)
        unregister_py_func(self._token)


@pytest.fixture
def kernel() -> Iterator[LongKernel]:
    made = LongKernel()
    yield made
    made.close()


def open_alone(cluster: InProcessCluster, graph: graph_pb2.GraphDef) -> Backend:
    backend = open_backend("", config_pb2.ConfigProto())
    backend.create(graph)
    return backend


def open_server(cluster: InProcessCluster, graph: graph_pb2.GraphDef) -> Backend:
    backend = open_backend(cluster.target("worker", 0), config_pb2.ConfigProto())
    backend.create(graph)
    return backend


def open_grpc(cluster: InProcessCluster, graph: graph_pb2.GraphDef) -> Backend:
    return opened(cluster, graph, grpc=True)


WAYS = [
    pytest.param(open_alone, "", id="no server"),
    *(
        pytest.param(way, device, id=f"{name}, {device[5:8]}")
        for way, name in ((open_server, "server in process"), (open_grpc, "gRPC"), (opened, "connections"))
        for device in (WORKER, PS)
    ),
]
Open = Callable[[InProcessCluster, graph_pb2.GraphDef], Backend]


def graph_of(kernel: LongKernel, device: str) -> graph_pb2.GraphDef:
    g = GraphBuilder()
    kernel.add(g, device)
    return g.graph


def as_before(kernel: LongKernel, backend: Backend) -> None:
    """What was left alone ends, and steps run as ever."""
    kernel.let_go()
    assert backend.run(FEED, ["long:0"], [])[0].tolist() == [2.0] * SIZE
    backend.run(FEED, [], ["set"])
    assert backend.run({}, ["v:0"], [])[0].tolist() == [2.0] * SIZE


@pytest.mark.parametrize(
    "is_known", [False, pytest.param(True, marks=pytest.mark.nightly)], ids=["first step", "known to be long"]
)
@pytest.mark.parametrize(("way", "device"), WAYS)
def test_a_close_does_not_wait_for_it(
    cluster: InProcessCluster, kernel: LongKernel, way: Open, device: str, is_known: bool
) -> None:
    graph = graph_of(kernel, device)
    backend, other = way(cluster, graph), way(cluster, graph)
    kernel.is_held = True
    if is_known:
        for _ in range(3):
            step = in_thread(lambda: backend.run(FEED, ["long:0"], []))
            assert kernel.has_begun(LIMIT_S)
            time.sleep(2 * LONG_S)
            kernel.let_go()
            assert step() is None
            kernel.is_held = True
    step = in_thread(lambda: backend.run(FEED, ["long:0"], []))
    assert kernel.has_begun(LIMIT_S)
    assert in_thread(backend.close)() is None
    error = step()
    assert isinstance(error, CancelledError), error
    as_before(kernel, other)
    other.close()
    nothing_is_left(cluster)


@pytest.mark.parametrize(("way", "device"), WAYS)
def test_a_deadline_does_not_wait_for_it(cluster: InProcessCluster, kernel: LongKernel, way: Open, device: str) -> None:
    backend = way(cluster, graph_of(kernel, device))
    kernel.is_held = True
    while True:
        # On a busy machine the time may be over before it has begun.
        error = in_thread(lambda: backend.run(FEED, ["long:0"], [], config_pb2.RunOptions(timeout_in_ms=400)))()
        assert isinstance(error, DeadlineExceededError), error
        if kernel.has_begun():
            break
    as_before(kernel, backend)
    backend.close()
    nothing_is_left(cluster)


@pytest.mark.parametrize("device", ["", PS])
def test_a_partial_run_does_not_wait_for_it(cluster: InProcessCluster, kernel: LongKernel, device: str) -> None:
    way: Open = open_server if device else open_alone
    graph = graph_of(kernel, device)
    backend, other = way(cluster, graph), way(cluster, graph)
    kernel.is_held = True
    handle = backend.partial_run_setup(["x:0"], ["long:0"], [])
    step = in_thread(lambda: backend.partial_run(handle, FEED, ["long:0"]))
    assert kernel.has_begun(LIMIT_S)
    assert in_thread(backend.close)() is None
    assert isinstance(step(), CancelledError)
    as_before(kernel, other)
    other.close()
    nothing_is_left(cluster)


PROGRAM = """
import ctypes, signal, sys, time
import numpy as np
import dtfctl.runtime as tf

# Whoever started the tests may ignore it, as a shell does for what it starts in the background.
signal.signal(signal.SIGINT, signal.default_int_handler)
calls = []
lock = ctypes.create_string_buffer(64)
take = ctypes.CDLL(None).pthread_mutex_lock
take(lock)

def long(x):
    calls.append(1)
    if len(calls) > int(sys.argv[1]):
        print("begun", flush=True)
        take(lock)  # is never to be had, and no signal ends it
    time.sleep(0.3)
    return x

y = tf.py_func(long, [np.ones(3, np.float32)], tf.float32)
session = tf.Session()
try:
    while True:
        session.run(y)
except KeyboardInterrupt:
    session.close()
    print("interrupted", flush=True)
"""


@pytest.mark.parametrize("known", [pytest.param("0", marks=pytest.mark.nightly), "2"])
def test_an_interruption_does_not_wait_for_it(known: str) -> None:
    process = subprocess.Popen([sys.executable, "-c", PROGRAM, known], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=LIMIT_S)[0] == "interrupted\n"
        assert process.returncode == 0
    finally:
        process.kill()
        process.wait()
