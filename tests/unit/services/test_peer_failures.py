"""Tasks that are missing, die, freeze or come back: no step outlives its bound, and nothing of it stays behind."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import grpc
import numpy as np
import pytest

from dtfctl.protocol import config_pb2, graph_pb2, worker_pb2
from dtfctl.runtime.client.grpc_backend import GrpcBackend
from dtfctl.runtime.client.targets import open_backend
from dtfctl.runtime.framework.errors import (
    AbortedError,
    CancelledError,
    FailedPreconditionError,
    InvalidArgumentError,
    OpError,
    UnavailableError,
)
from dtfctl.runtime.rendezvous.transports.grpc_stream import FROM_LIFE, FROM_TASK, METHOD, TO_LIFE, ClientLink
from dtfctl.runtime.services.peers import Peers
from tests.support.clusters import InProcessCluster
from tests.support.waiting import eventually, in_thread
from tests.unit.services.client_sessions import ps_process
from tests.unit.services.graphs import GraphBuilder, mul_graph, waiting_graph

pytestmark = pytest.mark.slow

ONE = np.float32(1.0).reshape(())
PS = "/job:ps/task:0"


def closed_channel(_task: str, address: str) -> grpc.Channel:
    """As it is found by who has got it just before news came that the peer is down."""
    channel = grpc.insecure_channel(address)
    channel.close()
    return channel


@pytest.mark.parametrize("how", ["request", "request_async"])
def test_a_request_over_a_channel_that_was_closed_says_so(how: str) -> None:
    peers = Peers("/job:worker/task:0", 1, {PS: "127.0.0.1:9"}, closed_channel, lambda task, life, error: None)
    request = worker_pb2.DeleteWorkerSessionRequest(session="s")
    with pytest.raises(UnavailableError, match=rf"{PS} \(127.0.0.1:9\): the connection was closed"):
        getattr(peers, how)(PS, "DeleteSession", request, worker_pb2.DeleteWorkerSessionResponse)
    peers.close()


def test_a_stream_over_a_channel_that_was_closed_says_so() -> None:
    with pytest.raises(UnavailableError, match=f"{PS} closed the connection"):
        ClientLink(closed_channel(PS, "127.0.0.1:9"), "/job:worker/task:0", 1, PS, 1, MagicMock())


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[InProcessCluster]:
    made = InProcessCluster({"ps": 1, "worker": 1}, tmp_path, peer_timeout_s=1.0)
    yield made
    made.close()


def opened(cluster: InProcessCluster, graph: graph_pb2.GraphDef, **config: Any) -> Any:
    backend = open_backend(cluster.target("worker", 0), config_pb2.ConfigProto(**config))
    backend.create(graph)
    return backend


def waits_on_ps(cluster: InProcessCluster) -> tuple[Any, Callable[[], BaseException | None]]:
    """A session with a step that waits on the ps."""
    backend = opened(cluster, waiting_graph(PS))
    backend.run({}, [], ["put"])
    assert backend.run({}, ["x:0"], []) == [1.0]
    join = in_thread(lambda: backend.run({}, ["x:0"], []))
    eventually(lambda: cluster.servers["ps", 0].worker.open_steps == 1)
    return backend, join


def test_a_missing_task_is_named_within_the_bound(cluster: InProcessCluster) -> None:
    cluster.start("worker", 0)
    with pytest.raises(AbortedError) as caught:
        opened(cluster, mul_graph())
    assert f"/job:ps/replica:0/task:0 ({cluster.cluster['ps'][0]}) did not answer" in caught.value.message
    assert "device_filters" in caught.value.message


def test_a_missing_task_may_be_left_out(cluster: InProcessCluster) -> None:
    cluster.start("worker", 0)
    backend = opened(cluster, mul_graph(), device_filters=["/job:worker"])
    assert backend.run({"a:0": ONE, "b:0": ONE}, ["y:0"], []) == [1.0]
    backend.close()


def test_a_task_that_comes_up_late_is_waited_for(tmp_path: Path) -> None:
    cluster = InProcessCluster({"ps": 1, "worker": 1}, tmp_path, peer_timeout_s=20.0)
    cluster.start("worker", 0)
    late = threading.Timer(0.5, lambda: cluster.start("ps", 0))
    late.start()
    backend = opened(cluster, mul_graph(PS))
    assert backend.run({"a:0": ONE, "b:0": ONE}, ["y:0"], []) == [1.0]
    backend.close()
    cluster.close()


def test_a_task_that_dies_fails_its_steps_at_once_and_the_session_for_good(cluster: InProcessCluster) -> None:
    cluster.start_all()
    backend, join = waits_on_ps(cluster)
    cluster.stop("ps", 0)
    error = join()
    assert isinstance(error, (UnavailableError, AbortedError, CancelledError)), error
    assert "/job:ps/replica:0/task:0" in error.message
    with pytest.raises((UnavailableError, AbortedError)):
        backend.run({}, [], ["put"])
    cluster.start("ps", 0)
    again = opened(cluster, waiting_graph(PS))
    again.run({}, [], ["put"])
    assert again.run({}, ["x:0"], []) == [1.0]
    with pytest.raises(AbortedError, match=r"Session handle is not found: .* just restarted"):
        backend.run({}, [], ["put"])
    again.close()
    backend.close()
    assert cluster.servers["worker", 0].worker.open_steps == 0


def test_state_is_lost_with_the_task_that_held_it_and_kept_elsewhere(cluster: InProcessCluster) -> None:
    cluster.start_all()
    g = GraphBuilder()
    for name, device in (("here", "/job:worker/task:0"), ("there", PS)):
        g.variable(name, device=device)
        g.const(f"{name}/init", 3.0, device)
        g.assign(f"{name}/assign", name, f"{name}/init", device)
    backend = opened(cluster, g.graph)
    backend.run({}, [], ["here/assign", "there/assign"])
    cluster.stop("ps", 0)
    cluster.start("ps", 0)
    backend = opened(cluster, g.graph)
    assert backend.run({}, ["here:0"], []) == [3.0]
    with pytest.raises(FailedPreconditionError, match="uninitialized value there"):
        backend.run({}, ["there:0"], [])
    backend.run({}, [], ["there/assign"])
    assert backend.run({}, ["there:0"], []) == [3.0]
    backend.close()


def test_a_frozen_task_reported_down_fails_its_steps(cluster: InProcessCluster) -> None:
    cluster.start_all()
    backend, join = waits_on_ps(cluster)
    cluster.servers["worker", 0].peer_down("ps", 0, 1, "no heartbeat for 5 s")
    error = join()
    assert isinstance(error, UnavailableError)
    assert "no heartbeat for 5 s" in error.message
    with pytest.raises(UnavailableError, match="no heartbeat for 5 s"):
        backend.run({}, [], ["put"])
    with pytest.raises(AbortedError, match="no heartbeat for 5 s"):
        opened(cluster, mul_graph())
    cluster.servers["worker", 0].peer_up("ps", 0, cluster.cluster["ps"][0], 1)
    backend.run({}, [], ["put"])
    assert backend.run({}, ["x:0"], []) == [1.0], "it was the same life all along: the session goes on"
    backend.close()


def test_a_task_on_its_way_back_is_waited_for(tmp_path: Path) -> None:
    cluster = InProcessCluster({"ps": 1, "worker": 1}, tmp_path, peer_timeout_s=20.0)
    cluster.start_all()
    worker = cluster.servers["worker", 0]
    worker.peer_down("ps", 0, 1, "killed by signal 9")
    cluster.stop("ps", 0)

    def restart() -> None:
        cluster.start("ps", 0)
        worker.peer_up("ps", 0, cluster.cluster["ps"][0], 2)

    threading.Timer(0.5, restart).start()
    backend = opened(cluster, mul_graph(PS))
    assert backend.run({"a:0": ONE, "b:0": ONE}, ["y:0"], []) == [1.0]
    backend.close()
    cluster.close()


def test_a_device_of_a_task_that_is_lost_for_now_can_be_asked_for_again(cluster: InProcessCluster) -> None:
    cluster.start_all()
    worker = cluster.servers["worker", 0]
    worker.peer_gone("ps", 0, "its host is lost", lost=True)
    with pytest.raises(UnavailableError, match=r"task:0 is lost for now .its host is lost.: Cannot assign a device"):
        opened(cluster, waiting_graph(PS))
    worker.peer_gone("ps", 0, "taken out of the cluster")
    with pytest.raises(InvalidArgumentError, match="Cannot assign a device"):
        opened(cluster, waiting_graph(PS))
    worker.peer_gone("ps", 0, "its host is lost", lost=True)
    worker.peer_up("ps", 0, cluster.cluster["ps"][0], 1)
    opened(cluster, waiting_graph(PS)).close()


def test_late_news_of_a_former_life_changes_nothing(cluster: InProcessCluster) -> None:
    cluster.start_all()
    worker = cluster.servers["worker", 0]
    worker.peer_up("ps", 0, cluster.cluster["ps"][0], 1)
    backend = opened(cluster, mul_graph(PS))
    worker.peer_down("ps", 0, 0, "long ago")
    assert backend.run({"a:0": ONE, "b:0": ONE}, ["y:0"], []) == [1.0]
    backend.close()


def test_a_master_that_dies_leaves_nothing_on_its_workers(cluster: InProcessCluster) -> None:
    cluster.start_all()
    _, join = waits_on_ps(cluster)
    ps = cluster.servers["ps", 0]
    cluster.stop("worker", 0)
    join()
    eventually(lambda: ps.worker.open_steps == 0)
    cluster.start("worker", 0)
    backend = opened(cluster, waiting_graph(PS))
    backend.run({}, [], ["put"])
    assert backend.run({}, ["x:0"], []) == [1.0], "the dead master's waiting dequeue took nothing"
    assert ps.worker.open_sessions == 1, "sessions of the master's former life are gone"
    backend.close()


def test_a_client_that_goes_leaves_nothing(cluster: InProcessCluster) -> None:
    cluster.start_all()
    config = config_pb2.ConfigProto()
    config.rpc_options.use_rpc_for_inprocess_master = True
    backend = GrpcBackend(cluster.cluster["worker"][0], config)
    backend.create(waiting_graph(PS))
    backend.run({}, [], ["put"])
    backend.run({}, ["x:0"], [])
    join = in_thread(lambda: backend.run({}, ["x:0"], []))
    ps, worker = cluster.servers["ps", 0].worker, cluster.servers["worker", 0].worker
    eventually(lambda: ps.open_steps == 1)
    assert backend._stub is not None
    backend._stub.channel.close()
    assert isinstance(join(), OpError)
    eventually(lambda: ps.open_steps == 0 and worker.open_steps == 0)


def test_a_former_life_is_not_listened_to(cluster: InProcessCluster) -> None:
    cluster.start_all()
    ps = cluster.servers["ps", 0]
    ps.peer_up("worker", 0, cluster.cluster["worker"][0], 5)
    for sender, receiver, text in ((4, 1, "newer incarnation"), (5, 7, "was restarted")):
        with grpc.insecure_channel(cluster.cluster["ps"][0]) as channel:
            metadata = ((FROM_TASK, "/job:worker/replica:0/task:0"), (FROM_LIFE, str(sender)), (TO_LIFE, str(receiver)))
            with pytest.raises(grpc.RpcError) as caught:
                list(channel.stream_stream(METHOD)(iter(()), metadata=metadata))
            error: Any = caught.value
            assert error.code() is grpc.StatusCode.ABORTED
            assert text in error.details()


def test_stopping_ends_waiting_steps_of_all_clients(cluster: InProcessCluster) -> None:
    cluster.start_all()
    _, join = waits_on_ps(cluster)
    cluster.stop("worker", 0)
    assert isinstance(join(), OpError)


def test_the_error_reported_is_the_one_that_came_first_with_its_task(cluster: InProcessCluster) -> None:
    cluster.start_all()
    g = GraphBuilder()
    g.const("one", 1.0, "/job:worker/task:0")
    g.variable("never", device=PS)
    g.binary("there", "Mul", "never", "one", PS)
    g.binary("here", "Mul", "there", "one", "/job:worker/task:0")
    backend = opened(cluster, g.graph)
    for _ in range(20):
        with pytest.raises(FailedPreconditionError) as caught:
            backend.run({}, ["here:0"], [])
        assert caught.value.message.startswith("From /job:ps/replica:0/task:0:\nAttempting to use uninitialized value")
    backend.close()
    for server in cluster.servers.values():
        eventually(lambda server=server: server.worker.open_steps == 0)


@pytest.mark.slow
@pytest.mark.parametrize("transport", ["grpc", "tcp", "shm"])
def test_a_killed_process_fails_its_steps_at_once_on_every_transport(tmp_path: Path, transport: str) -> None:
    cluster = InProcessCluster({"ps": 1, "worker": 1}, tmp_path, transport=transport)
    with ps_process(cluster, DTF_TRANSPORT=transport) as process:
        server = cluster.start("worker", 0)
        backend = opened(cluster, waiting_graph(PS))
        backend.run({}, [], ["put"])
        assert backend.run({}, ["x:0"], []) == [1.0]
        assert server.transports() == {"/job:ps/replica:0/task:0": transport}
        join = in_thread(lambda: backend.run({}, ["x:0"], []))
        eventually(lambda: server.worker.open_steps == 1)
        process.kill()
        error = join()
        assert isinstance(error, UnavailableError)
        assert "/job:ps/replica:0/task:0" in error.message
        eventually(lambda: server.worker.open_steps == 0 and not server.transports())
    with ps_process(cluster, DTF_TRANSPORT=transport):
        again = opened(cluster, waiting_graph(PS))
        again.run({}, [], ["put"])
        assert again.run({}, ["x:0"], []) == [1.0]
        again.close()
    cluster.close()


@pytest.mark.slow
def test_a_task_frozen_by_the_system_is_noticed_without_a_launcher(cluster: InProcessCluster) -> None:
    with ps_process(cluster) as frozen:
        cluster.start("worker", 0)
        backend = opened(cluster, waiting_graph(PS))
        backend.run({}, [], ["put"])
        assert backend.run({}, ["x:0"], []) == [1.0]
        frozen.send_signal(signal.SIGSTOP)
        with pytest.raises(UnavailableError, match="/job:ps/replica:0/task:0"):
            backend.run({}, ["x:0"], [])
