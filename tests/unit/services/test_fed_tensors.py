"""What is fed comes back as it was, by every way to a master, and is then the client's own: nobody else's memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import dtfctl.runtime as tf
from dtfctl.protocol import config_pb2
from dtfctl.runtime.client.grpc_backend import GrpcBackend
from dtfctl.runtime.client.session import BaseSession
from tests.support.clusters import InProcessCluster, in_process_cluster

pytestmark = pytest.mark.slow
PS, WORKER = "/job:ps/task:0", "/job:worker/task:0"
# Under and over what travels in shared memory.
COUNTS = [1_000, (1 << 14) + 3, 300_000]
WAYS = ["shared memory", "grpc", "in process", "local"]


# A master on a host without the ps is called for every step, and what it exchanges with the ps goes over TCP.
@pytest.fixture(scope="module", params=["auto", "tcp"])
def cluster(request: pytest.FixtureRequest) -> Iterator[InProcessCluster]:
    with (
        in_process_cluster({"ps": 1, "worker": 1}, peer_timeout_s=30.0, transport=request.param) as running,
        pytest.MonkeyPatch.context() as patch,
    ):
        if request.param == "tcp":
            patch.setattr("dtfctl.runtime.services.worker_service.this_place", lambda: "elsewhere")
        yield running


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def session_of(cluster: InProcessCluster, graph: tf.Graph, way: str) -> Any:
    """A session whose client does not know that the master is in the same process, unless that is the way."""
    if way == "local":
        return tf.Session("", graph)
    config = config_pb2.ConfigProto()
    config.rpc_options.use_rpc_for_inprocess_master = way == "grpc"
    session = tf.Session(cluster.target("worker", 0), graph, config)
    if way == "shared memory":
        session._backend = GrpcBackend(cluster.cluster["worker"][0], config)
    return session


def values_of(count: int, first: float = 0.0) -> Any:
    return np.arange(count, dtype=np.float32) + np.float32(first)


@pytest.mark.parametrize("device", [WORKER, PS])
@pytest.mark.parametrize("count", COUNTS)
def test_what_is_fed_can_be_fetched(cluster: InProcessCluster, way: str, device: str, count: int) -> None:
    with tf.Graph().as_default() as graph, tf.device(None if way == "local" else device):
        x = tf.placeholder(tf.float32, [None])
        ways = {
            "identity": tf.identity(x),
            "reshape": tf.reshape(x, [-1, 1]),
            "both": tf.expand_dims(tf.identity(x), 0),
            "part": x[: count // 2 + 1],
        }
    fetches = list(ways.values())
    with session_of(cluster, graph, way) as session:
        for i in range(4):
            fed = values_of(count, i)
            got = session.run([*fetches, x], {x: fed})
            want = [fed, fed[:, None], fed[None], fed[: count // 2 + 1], fed]
            for value, right in zip(got, want, strict=True):
                np.testing.assert_array_equal(value, right)
            for n, value in enumerate(got):
                assert value.flags.writeable
                value[...] = -1 - n
                for m, other in enumerate(got[n + 1 :], n + 1):
                    np.testing.assert_array_equal(other, want[m])
            np.testing.assert_array_equal(fed, values_of(count, i))
            # One at a time is another plan.
            np.testing.assert_array_equal(session.run(fetches[i], {x: fed}), want[i])


@pytest.mark.parametrize("use_resource", [False, True])
@pytest.mark.parametrize("device", [WORKER, PS])
def test_what_was_fed_stays_what_it_was(cluster: InProcessCluster, way: str, device: str, use_resource: bool) -> None:
    count = 100_000
    with tf.Graph().as_default() as graph, tf.device(None if way == "local" else device):
        x = tf.placeholder(tf.float32, [count])
        v = tf.get_variable("v", [count], initializer=tf.zeros_initializer(), use_resource=use_resource)
        queue = tf.FIFOQueue(10, tf.float32, [[count]])
        put, take = queue.enqueue(x), queue.dequeue()
        change = tf.assign(v, x)
        init = tf.global_variables_initializer()
        passed = tf.identity(x)
    with session_of(cluster, graph, way) as session:
        session.run(init)
        for i in range(3):
            fed, right = values_of(count, i), values_of(count, i)
            # Everything that holds it on, and everything that gives it back, in one step.
            assigned, given, same = session.run([change, passed, x, put], {x: fed})[:3]
            for mine in (fed, assigned, given, same):
                mine[:] = -7
            held = session.run(v)
            np.testing.assert_array_equal(held, right)
            held[:] = -7
            np.testing.assert_array_equal(session.run(v), right)
            taken = session.run(take)
            np.testing.assert_array_equal(taken, right)
            taken[:] = -7
            np.testing.assert_array_equal(session.run(v), right)
            put_and_taken = session.run([put, take], {x: right})[1]
            np.testing.assert_array_equal(put_and_taken, right)


@pytest.mark.parametrize("device", [WORKER, PS])
def test_partial_runs_and_callables_too(cluster: InProcessCluster, way: str, device: str) -> None:
    count = 100_000
    with tf.Graph().as_default() as graph, tf.device(None if way == "local" else device):
        x = tf.placeholder(tf.float32, [count])
        y = tf.placeholder(tf.float32, [count])
        same, total = tf.identity(x), x + y
    with session_of(cluster, graph, way) as session:
        for i in range(2):
            a, b = values_of(count, i), values_of(count, 5)
            handle = session.partial_run_setup([same, total], [x, y])
            first = session.partial_run(handle, [x, same], {x: a})
            for mine in (a, *first):
                np.testing.assert_array_equal(mine, values_of(count, i))
                mine[:] = -3
            np.testing.assert_array_equal(session.partial_run(handle, total, {y: b}), values_of(count, i) + b)

            call = session.make_callable([same, total], [x, y])
            a = values_of(count, i)
            for _ in range(3):
                given, summed = call(a, b)
                np.testing.assert_array_equal(given, a)
                np.testing.assert_array_equal(summed, a + b)
                given[:] = -3
            _callable_from_options(session, x, same, a)


def _callable_from_options(session: BaseSession, x: Any, same: Any, value: Any) -> None:
    options = config_pb2.CallableOptions(feed=[x.name], fetch=[same.name])
    call = session._make_callable_from_options(options)
    for _ in range(2):
        (given,) = call(value)
        np.testing.assert_array_equal(given, value)
        given[:] = -3
    np.testing.assert_array_equal(call(value)[0], value)
