"""ClusterSpec and Server as TF1 scripts use them."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from dtfctl.protocol import config_pb2
from dtfctl.runtime.client.session import Session
from dtfctl.runtime.data import Dataset, make_initializable_iterator
from dtfctl.runtime.framework.convert import constant
from dtfctl.runtime.framework.errors import AbortedError, InvalidArgumentError, OpError, UnavailableError
from dtfctl.runtime.framework.graph import Graph
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.train.server_lib import ClusterSpec, Server
from tests.support.ports import free_ports


def test_cluster_spec() -> None:
    spec = ClusterSpec({"ps": ["h1:1", "h2:2"], "worker": {0: "h3:3", 7: "h4:4"}})
    assert spec.jobs == ["ps", "worker"]
    assert spec.as_dict() == {"ps": ["h1:1", "h2:2"], "worker": {0: "h3:3", 7: "h4:4"}}
    assert spec.num_tasks("worker") == 2
    assert spec.task_indices("worker") == [0, 7]
    assert spec.task_address("worker", 7) == "h4:4"
    assert spec.job_tasks("worker") == ["h3:3", *[None] * 6, "h4:4"]
    assert ClusterSpec(spec.as_cluster_def()) == spec == ClusterSpec(spec)
    assert not ClusterSpec({})
    with pytest.raises(ValueError, match="No task with index 3"):
        spec.task_address("worker", 3)
    with pytest.raises(ValueError, match="No such job"):
        spec.num_tasks("chief")


@pytest.mark.parametrize("wrong", [3, {"ps": "h:1"}, {"ps": [1]}, {"ps": {"a": "h:1"}}])
def test_wrong_cluster_specs(wrong: Any) -> None:
    with pytest.raises(TypeError):
        ClusterSpec(wrong)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (({"ps": ["h:1"], "worker": ["h:2"]},), "explicit job_name"),
        (({"ps": ["h:1", "h:2"]}, "ps"), "explicit task_index"),
        (({"ps": ["h:1"]}, "worker", 0), "not in the cluster"),
        (({"ps": ["h:1"]}, "ps", 4), "not in the cluster"),
        (({"ps": ["h:1"]}, "ps", 0, "grpc+verbs"), "Unsupported protocol"),
    ],
)
def test_wrong_servers(arguments: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        Server(*arguments, start=False)


def test_local_server() -> None:
    server = Server.create_local_server(config_pb2.ConfigProto(device_count={"CPU": 2}))
    assert server.target.startswith("grpc://localhost:")
    graph = Graph()
    with graph.as_default():
        c = constant(2.0)
    with Session(server.target, graph) as session:
        assert session.run(c) == 2.0
        names = [d.name for d in session.list_devices()]
        assert names == [f"/job:localhost/replica:0/task:0/device:CPU:{i}" for i in range(2)]
    joined = threading.Thread(target=server.join)
    joined.start()
    server.stop()
    joined.join(60.0)
    assert not joined.is_alive()


@pytest.mark.parametrize("through_grpc", [False, True])
def test_a_cluster_by_hand(through_grpc: bool) -> None:
    ports = free_ports(3)
    spec = ClusterSpec({"ps": [f"localhost:{ports[0]}"], "worker": [f"localhost:{p}" for p in ports[1:]]})
    servers = [Server(spec, job, i) for job in spec.jobs for i in spec.task_indices(job)]
    graph = Graph()
    with graph.as_default():
        with graph.device("/job:ps/task:0"):
            v = apply_op("VariableV2", shape=[2], dtype="float32", name="v")
            start = apply_op("Assign", ref=v, value=constant([0.0, 0.0])).op
        adds = []
        for i in range(2):
            with graph.device(f"/job:worker/task:{i}"):
                delta = apply_op("Mul", x=constant([1.0, 2.0]), y=constant(float(i + 1)))
            with graph.device("/job:ps/task:0"):
                adds.append(apply_op("AssignAdd", ref=v, value=delta, use_locking=True).op)
    config = config_pb2.ConfigProto()
    config.rpc_options.use_rpc_for_inprocess_master = through_grpc
    try:
        with Session(servers[1].target, graph, config) as one, Session(servers[2].target, graph, config) as two:
            one.run(start)
            one.run(adds)
            for _ in range(10):
                two.run(adds[0])
            np.testing.assert_allclose(one.run(v), [13.0, 26.0])
            assert {d.name for d in two.list_devices()} == {
                f"/job:{job}/replica:0/task:{i}/device:CPU:0" for job, i in (("ps", 0), ("worker", 0), ("worker", 1))
            }
    finally:
        for server in servers:
            server.stop(0)


@pytest.mark.parametrize("through_grpc", [False, True])
@pytest.mark.parametrize("place", ["ps", "worker"])
def test_steps_of_a_task_that_stops_may_be_tried_again(through_grpc: bool, place: str) -> None:
    """Whatever they are doing: who is told that a session is closed, or a step cancelled, takes that for an end."""
    config = config_pb2.ConfigProto()
    config.rpc_options.use_rpc_for_inprocess_master = through_grpc
    for _ in range(5):
        ports = free_ports(2)
        spec = ClusterSpec({"ps": [f"localhost:{ports[0]}"], "worker": [f"localhost:{ports[1]}"]})
        servers = [Server(spec, job, 0) for job in spec.jobs]
        graph = Graph()
        with graph.as_default(), graph.device(f"/job:{place}/task:0"):
            fetched = apply_op("Mul", x=constant([1.0, 2.0]), y=constant(2.0))
        session, begun = Session(servers[1].target, graph, config), threading.Event()
        with ThreadPoolExecutor(1) as pool:
            failed = pool.submit(_run_until_it_fails, session, fetched, begun)
            begun.wait()
            servers[1].stop(0)
            error = failed.result()
        servers[0].stop(0)
        assert isinstance(error, (AbortedError, UnavailableError)), repr(error)


def _run_until_it_fails(session: Session, fetched: Any, begun: threading.Event) -> OpError:
    try:
        while True:
            session.run(fetched)
            begun.set()
    except OpError as e:
        return e
    finally:
        begun.set()


def test_iterators_of_graphs_that_follow_each_other_at_a_server() -> None:
    """As with TensorFlow: what nobody shares by a name is a graph's own, whatever another graph had there."""
    server = Server.create_local_server()

    def first_of(parts: int, shared: str | None = None) -> Any:
        with Graph().as_default(), Session(server.target) as session:
            dataset = Dataset.from_tensor_slices(tuple(np.arange(3) + n for n in range(parts)))
            iterator = make_initializable_iterator(dataset, shared)
            element = iterator.get_next()
            session.run(iterator.initializer)
            return session.run(element)

    try:
        assert first_of(3) == (0, 1, 2)
        assert first_of(2) == (0, 1)
        assert first_of(3, "shared") == (0, 1, 2)
        with pytest.raises(InvalidArgumentError, match="expected 2 types but got 3"):
            first_of(2, "shared")
    finally:
        server.stop()
