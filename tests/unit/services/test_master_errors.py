"""What a client is told when it asks for something wrong: TensorFlow's codes and texts, in process and over gRPC."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from dtfctl.protocol import config_pb2, graph_pb2
from dtfctl.runtime.client.backend import Backend
from dtfctl.runtime.client.targets import open_backend
from dtfctl.runtime.framework.errors import (
    CancelledError,
    DeadlineExceededError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    OpError,
)
from tests.support.clusters import InProcessCluster, in_process_cluster
from tests.support.waiting import in_thread
from tests.unit.services.client_sessions import nothing_is_left
from tests.unit.services.graphs import GraphBuilder, mul_graph, waiting_graph

ONE = np.float32(1.0).reshape(())


@pytest.fixture(scope="module", params=["in process", "grpc"])
def cluster(request: pytest.FixtureRequest) -> Iterator[InProcessCluster | None]:
    if request.param == "in process":
        yield None
        return
    with in_process_cluster({"worker": 1}) as cluster:
        yield cluster


@pytest.fixture
def target(cluster: InProcessCluster | None) -> str:
    return cluster.target("worker", 0) if cluster else ""


def opened(target: str, graph: graph_pb2.GraphDef, **config: Any) -> Backend:
    proto = config_pb2.ConfigProto(isolate_session_state=True, **config)
    # Through gRPC although the server is in this process.
    proto.rpc_options.use_rpc_for_inprocess_master = True
    backend = open_backend(target, proto)
    backend.create(graph)
    return backend


@pytest.mark.parametrize(
    ("feeds", "fetches", "targets", "kind", "text"),
    [
        ({}, [], [], InvalidArgumentError, "Must specify at least one target to fetch or execute."),
        ({"a:0": ONE}, ["a:0"], [], InvalidArgumentError, "a:0 is both fed and fetched."),
        ({"nope:0": ONE}, ["y:0"], [], NotFoundError, "FeedInputs: unable to find feed output nope:0"),
        ({}, ["nope:0"], [], NotFoundError, "FetchOutputs node nope:0: not found"),
        ({}, [], ["nope"], NotFoundError, "PruneForTargets: Some target nodes not found: nope"),
        ({}, ["y:7"], [], InvalidArgumentError, "FetchOutputs y:7: output index too large, must be < 1"),
        (
            {"a:0": ONE},
            ["y:0"],
            [],
            InvalidArgumentError,
            "You must feed a value for placeholder tensor 'b' with dtype",
        ),
        ({"a:0": ONE, "b:0": np.ones((), np.int32)}, ["y:0"], [], InvalidArgumentError, "expects float"),
    ],
)
def test_wrong_requests(
    target: str, feeds: dict[str, Any], fetches: list[str], targets: list[str], kind: type[OpError], text: str
) -> None:
    backend = opened(target, mul_graph())
    with pytest.raises(kind) as caught:
        backend.run(feeds, fetches, targets)
    assert text in caught.value.message
    assert backend.run({"a:0": ONE, "b:0": ONE}, ["y:0"], []) == [1.0], "the session is as good as before"
    backend.close()


def test_uninitialized_variable_names_the_variable(target: str) -> None:
    g = GraphBuilder()
    g.variable("v")
    backend = opened(target, g.graph)
    with pytest.raises(FailedPreconditionError, match="Attempting to use uninitialized value v"):
        backend.run({}, ["v:0"], [])
    backend.close()


def test_unknown_device_is_refused_at_once_and_lists_what_exists(target: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        opened(target, mul_graph("/job:nope/task:3"))
    assert "was explicitly assigned to /job:nope/task:3 but available devices are [" in caught.value.message


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda g: g.node.add(name="z", op="NoSuchOp"), "NoSuchOp"),
        (lambda g: g.node.add(name="y", op="NoOp"), "not unique"),
        (lambda g: g.node.add(name="z", op="Neg", input=["missing"]), "missing"),
        (lambda g: g.node.add(name="z", op="Neg"), "T"),
    ],
)
def test_malformed_graphs_are_refused(target: str, change: Any, text: str) -> None:
    graph = mul_graph()
    change(graph)
    with pytest.raises(OpError) as caught:
        opened(target, graph)
    assert caught.value.error_code in (InvalidArgumentError.code, NotFoundError.code)
    assert text in caught.value.message


def test_extending_with_a_node_that_is_there(target: str) -> None:
    backend = opened(target, mul_graph())
    with pytest.raises(InvalidArgumentError) as caught:
        backend.extend(mul_graph())
    assert "GraphDef argument to Extend includes node 'a', which was created by a previous call" in caught.value.message
    backend.close()


def test_extending_with_what_cannot_be_placed_leaves_the_session_usable(target: str) -> None:
    backend = opened(target, mul_graph())
    more = GraphBuilder()
    more.const("c", 1.0, "/job:nope")
    with pytest.raises(InvalidArgumentError, match="explicitly assigned"):
        backend.extend(more.graph)
    more = GraphBuilder()
    more.const("c", 4.0)
    backend.extend(more.graph)
    assert backend.run({}, ["c:0"], []) == [4.0]
    backend.close()


def test_timeouts_end_waiting_steps(target: str, cluster: InProcessCluster | None) -> None:
    backend = opened(target, waiting_graph())
    with pytest.raises(DeadlineExceededError):
        backend.run({}, ["x:0"], [], config_pb2.RunOptions(timeout_in_ms=100))
    if cluster:
        # A client's own deadline may pass a moment before the server has cancelled the step.
        nothing_is_left(cluster)
    backend.run({}, [], ["put"])
    assert backend.run({}, ["x:0"], []) == [1.0], "the step that timed out takes nothing"
    backend.close()


def test_waiting_steps_hold_up_no_others(target: str) -> None:
    """What they wait for comes from other steps, of their own session and of others."""
    backend, other = opened(target, waiting_graph()), opened(target, mul_graph())
    waiting = [in_thread(lambda: backend.run({}, ["x:0"], [])) for _ in range(12)]
    for i in range(40):
        product = other.run({"a:0": ONE * 2, "b:0": np.float32(i).reshape(())}, ["y:0"], [])
        assert product == [2.0 * i]
    for _ in range(12):
        backend.run({}, [], ["put"])
    assert [end() for end in waiting] == [None] * 12
    other.close()
    backend.close()


def test_the_timeout_of_a_session(target: str) -> None:
    backend = opened(target, waiting_graph(), operation_timeout_in_ms=100)
    with pytest.raises(DeadlineExceededError):
        backend.run({}, ["x:0"], [])
    backend.close()


def test_closing_cancels_what_runs(target: str) -> None:
    backend = opened(target, waiting_graph())
    backend.run({}, [], ["put"])
    backend.run({}, ["x:0"], [])
    caught: list[BaseException] = []

    def wait() -> None:
        try:
            backend.run({}, ["x:0"], [])
        except OpError as e:
            caught.append(e)

    thread = threading.Thread(target=wait)
    thread.start()
    time.sleep(0.2)
    backend.close()
    thread.join(60.0)
    assert not thread.is_alive()
    assert isinstance(caught[0], CancelledError)


def test_partial_runs_misused(target: str) -> None:
    backend = opened(target, mul_graph())
    handle = backend.partial_run_setup(["a:0", "b:0"], ["y:0"], [])
    with pytest.raises(InvalidArgumentError, match="Must run PartialRunSetup before performing partial runs"):
        backend.partial_run("77", {}, ["y:0"])
    with pytest.raises(InvalidArgumentError, match=r"The feed y:0 was not specified in partial_run_setup\."):
        backend.partial_run(handle, {"y:0": ONE}, [])
    with pytest.raises(InvalidArgumentError, match="can't be computed from the feeds that have been fed so far"):
        backend.partial_run(handle, {"a:0": ONE}, ["y:0"])
    assert backend.partial_run(handle, {"a:0": ONE}, []) == []
    with pytest.raises(InvalidArgumentError, match="has already been fed"):
        backend.partial_run(handle, {"a:0": ONE}, [])
    assert backend.partial_run(handle, {"b:0": ONE * 3}, ["y:0"]) == [3.0]
    with pytest.raises(InvalidArgumentError, match="Must run PartialRunSetup"):
        backend.partial_run(handle, {}, ["y:0"])
    backend.close()


def test_callables(target: str) -> None:
    backend = opened(target, mul_graph())
    handle = backend.make_callable(config_pb2.CallableOptions(feed=["a:0", "b:0"], fetch=["y:0", "y:0"]))
    assert backend.run_callable(handle, [ONE * 2, ONE * 3]) == [6.0, 6.0]
    with pytest.raises(InvalidArgumentError, match="Expected 2 feed tensors"):
        backend.run_callable(handle, [ONE])
    backend.release_callable(handle)
    with pytest.raises(InvalidArgumentError, match="after handle was released"):
        backend.run_callable(handle, [ONE, ONE])
    with pytest.raises(InvalidArgumentError, match="No such callable handle"):
        backend.run_callable(41, [ONE, ONE])
    backend.close()


def test_metadata_of_a_traced_step(target: str) -> None:
    backend = opened(target, mul_graph())
    metadata = config_pb2.RunMetadata()
    options = config_pb2.RunOptions(trace_level=config_pb2.RunOptions.FULL_TRACE, output_partition_graphs=True)
    backend.run({"a:0": ONE, "b:0": ONE}, ["y:0"], [], options, metadata)
    names = {n.node_name for d in metadata.step_stats.dev_stats for n in d.node_stats}
    assert "y" in names
    assert "y" in {n.name for g in metadata.partition_graphs for n in g.node}
    backend.close()
