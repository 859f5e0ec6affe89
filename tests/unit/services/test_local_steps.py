"""The short way between a client and a master on its host does what gRPC does."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from dtfctl.protocol import config_pb2, worker_pb2
from dtfctl.runtime.client.grpc_backend import GrpcBackend
from dtfctl.runtime.framework.errors import AbortedError, InvalidArgumentError, OpError, UnavailableError
from dtfctl.runtime.framework.tensor_codec import object_array
from dtfctl.runtime.rendezvous.frames import Kind, Message
from dtfctl.runtime.rendezvous.transports.handshake import this_place
from dtfctl.runtime.services import call_servers
from tests.support.clusters import InProcessCluster, in_process_cluster
from tests.support.waiting import eventually
from tests.unit.services.graphs import FLOAT, GraphBuilder, mul_graph, waiting_graph

PS = "/job:ps/task:0"
ONE = np.float32(1.0).reshape(())


@pytest.fixture(scope="module", params=["core", "public"])
def cluster(request: pytest.FixtureRequest) -> Iterator[InProcessCluster]:
    """Tasks with either server of calls."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(call_servers.CHOICE, request.param)
        call_servers.chosen.cache_clear()
        with in_process_cluster({"ps": 1, "worker": 1}, peer_timeout_s=10.0) as running:
            yield running
    call_servers.chosen.cache_clear()


def opened(cluster: InProcessCluster, graph: Any, **options: Any) -> GrpcBackend:
    config = config_pb2.ConfigProto()
    config.rpc_options.use_rpc_for_inprocess_master = options.get("grpc", False)
    backend = GrpcBackend(cluster.cluster["worker"][0], config)
    backend.create(graph)
    return backend


@pytest.mark.parametrize("device", ["/job:worker/task:0", PS])
def test_steps_take_the_short_way(cluster: InProcessCluster, device: str) -> None:
    backend = opened(cluster, mul_graph(device))
    for i in range(30):
        assert backend.run({"a:0": ONE * i, "b:0": ONE * 3}, ["y:0", "y:0"], []) == [3.0 * i] * 2
    assert backend._local_steps is not None
    function = backend.prepare(["a:0", "b:0"], ["y:0"], [])
    assert function([ONE * 2, ONE * 2]) == [4.0]
    backend.close()


def test_a_client_may_insist_on_grpc(cluster: InProcessCluster) -> None:
    backend = opened(cluster, mul_graph(), grpc=True)
    assert backend.run({"a:0": ONE, "b:0": ONE}, ["y:0"], []) == [1.0]
    assert backend._local_steps is None
    backend.close()


@pytest.mark.parametrize("count", [0, 1, 1000, 3_000_000])
def test_tensors_of_any_size_go_both_ways(cluster: InProcessCluster, count: int) -> None:
    backend = opened(cluster, mul_graph())
    value = np.arange(count, dtype=np.float32)
    for i in range(4):
        (got,) = backend.run({"a:0": value, "b:0": ONE * i}, ["y:0"], [])
        assert got.shape == (count,)
        assert (got == value * i).all()
        got += 1
    backend.close()


def test_strings_go_both_ways(cluster: InProcessCluster) -> None:
    g = GraphBuilder()
    string = type(FLOAT)(type=7)
    g.node("s", "Placeholder", dtype=string)
    g.node("y", "Identity", ("s",), T=string)
    backend = opened(cluster, g.graph)
    for text in (b"", b"abc", bytes(200_000)):
        assert backend.run({"s:0": object_array([text], ())}, ["y:0"], []) == [text]
    (got,) = backend.run({"s:0": object_array([b"a", b"b"], (2,))}, ["y:0"], [])
    assert got.tolist() == [b"a", b"b"]
    backend.close()


def test_errors_are_those_of_grpc(cluster: InProcessCluster) -> None:
    graph = mul_graph(PS)
    both = [opened(cluster, graph, grpc=grpc) for grpc in (True, False)]
    wrong: list[tuple[Any, Any, Any]] = [
        ({"a:0": ONE}, ["y:0"], []),
        ({}, ["nothing:0"], []),
        ({"a:0": np.zeros(3, np.float32), "b:0": np.zeros(4, np.float32)}, ["y:0"], []),
        ({"a:0": np.zeros(3, np.int32), "b:0": ONE}, ["y:0"], []),
    ]
    for _ in range(3):
        for arguments in wrong:
            found = []
            for backend in both:
                with pytest.raises(OpError) as caught:
                    backend.run(*arguments)
                found.append((type(caught.value), caught.value.message))
            assert found[0] == found[1]
    for backend in both:
        assert backend.run({"a:0": ONE, "b:0": ONE}, ["y:0"], []) == [1.0]
        backend.close()


def test_threads_have_connections_of_their_own(cluster: InProcessCluster) -> None:
    backend = opened(cluster, waiting_graph(PS))
    backend.run({}, [], ["put"])
    assert backend.run({}, ["x:0"], []) == [1.0]
    with ThreadPoolExecutor(4) as pool:
        waiting = [pool.submit(backend.run, {}, ["x:0"], []) for _ in range(4)]
        for _ in range(4):
            backend.run({}, [], ["put"])
        assert [f.result(15.0) for f in waiting] == [[1.0]] * 4
    backend.close()


def test_a_client_that_goes_leaves_nothing(cluster: InProcessCluster) -> None:
    backend = opened(cluster, waiting_graph(PS))
    backend.run({}, [], ["put"])
    backend.run({}, ["x:0"], [])
    assert backend._local_steps is not None
    (runner,) = backend._local_steps._idle
    raised: list[BaseException] = []

    def wait() -> None:
        try:
            backend.run({}, ["x:0"], [])
        except OpError as e:
            raised.append(e)

    thread = threading.Thread(target=wait)
    thread.start()
    ps, worker = cluster.servers["ps", 0].worker, cluster.servers["worker", 0].worker
    eventually(lambda: ps.open_steps == 1)
    runner.master._sock.shutdown(2)
    thread.join(60.0)
    assert isinstance(raised[0], UnavailableError)
    eventually(lambda: ps.open_steps == 0 and worker.open_steps == 0)
    backend.run({}, [], ["put"])
    assert backend.run({}, ["x:0"], []) == [1.0], "another connection serves"
    backend.close()


def test_a_session_that_is_gone_is_named(cluster: InProcessCluster) -> None:
    backend = opened(cluster, mul_graph())
    backend._handle = "nonsense"
    with pytest.raises(AbortedError, match="nonsense is not found"):
        backend.run({"a:0": ONE, "b:0": ONE}, ["y:0"], [])


@pytest.mark.parametrize(
    "messages",
    [
        [Message(Kind.CALL, 1, "", (99).to_bytes(8, "little"))],
        [Message(Kind.RUN, 1, "", bytes(9))],
        [Message(Kind.RUN, 1, "", bytes(8))],
        [Message(Kind.PARTITION, 0, "", b"\xff\xff\xff")],
        [Message(Kind.DONE, 1)],
        [Message(Kind.DEFINE, 0, "", b"\xff\xff\xff")],
        [Message(Kind.RELEASE, 0, "", bytes(8))],
    ],
)
def test_nonsense_ends_the_connection_only(cluster: InProcessCluster, messages: list[Message]) -> None:
    backend = opened(cluster, mul_graph())
    feed = {"a:0": ONE, "b:0": ONE}
    assert backend.run(feed, ["y:0"], []) == [1.0]
    assert backend._local_steps is not None
    (runner,) = backend._local_steps._idle
    runner.master.send(messages)
    with pytest.raises(UnavailableError):
        backend.run(feed, ["y:0"], [])
    assert backend.run(feed, ["y:0"], []) == [1.0]
    backend.close()


def test_clients_of_other_places_are_sent_to_grpc(cluster: InProcessCluster) -> None:
    service = cluster.servers["worker", 0]._client_service
    context: Any = None
    request = worker_pb2.OpenClientRequest(place="elsewhere", incarnation=1)
    assert not service.open(request, context).unix_name
    assert service.open(worker_pb2.OpenClientRequest(place=this_place(), incarnation=1), context).unix_name


def test_too_few_feeds_are_refused(cluster: InProcessCluster) -> None:
    backend = opened(cluster, mul_graph())
    function = backend.prepare(["a:0", "b:0"], ["y:0"], [])
    with pytest.raises(InvalidArgumentError, match="Expected 2 feed tensors, but got 1"):
        function([ONE])
    backend.close()


def test_a_step_can_be_interrupted(cluster: InProcessCluster) -> None:
    backend = opened(cluster, waiting_graph(PS))
    backend.run({}, [], ["put"])
    backend.run({}, ["x:0"], [])
    ps = cluster.servers["ps", 0].worker

    def interrupt() -> None:
        eventually(lambda: ps.open_steps == 1)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        backend.run({}, ["x:0"], [])
    eventually(lambda: ps.open_steps == 0)
    backend.close()
