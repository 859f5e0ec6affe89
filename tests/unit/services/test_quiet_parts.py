"""Parts of a client's step that do not tell of their end: which they are, and that nothing is missed by it."""

from __future__ import annotations

import signal
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from dtfctl.protocol import graph_pb2
from dtfctl.runtime.client.grpc_backend import GrpcBackend
from dtfctl.runtime.framework.errors import FailedPreconditionError, UnavailableError
from tests.support.clusters import InProcessCluster
from tests.support.waiting import eventually, in_thread
from tests.unit.services.client_sessions import (
    ONE,
    OTHER,
    PS,
    PS_FULL,
    WORKER,
    WORKER_FULL,
    nothing_is_left,
    opened,
    ps_process,
    through_master,
)
from tests.unit.services.graphs import FLOAT, GraphBuilder

OTHER_FULL = "/job:worker/replica:0/task:1"


def training_graph() -> graph_pb2.GraphDef:
    """step: v on the ps becomes v + v * a0 on worker 0 + v * a1 on worker 1. keepN: a variable of worker N."""
    g = GraphBuilder()
    g.const("one", 1.0, PS)
    g.variable("v", device=PS)
    g.assign("init", "v", "one", PS)
    for i, device in enumerate((WORKER, OTHER)):
        g.placeholder(f"a{i}", device)
        g.binary(f"gradient{i}", "Mul", "v", f"a{i}", device)
        g.variable(f"last{i}", device=device)
        g.assign(f"keep{i}", f"last{i}", f"gradient{i}", device)
    g.binary("both", "Add", "gradient0", "gradient1", PS)
    g.node("step", "AssignAdd", ("v", "both"), PS, T=FLOAT)
    return g.graph


def quiet(cluster: InProcessCluster, backend: GrpcBackend, *wanted: Any) -> set[str]:
    """Of the plan of a signature that was run."""
    (session,) = cluster.servers["worker", 0].master._sessions.values()
    return set(session.signatures.get(*wanted, everywhere=True).parts.quiet)


def test_who_only_sends_is_quiet(cluster: InProcessCluster) -> None:
    backend = opened(cluster, training_graph())
    backend.run({}, [], ["init"])
    expected = 1.0
    for i in range(40):
        backend.run({"a0:0": ONE * (i % 3), "a1:0": ONE}, [], ["step"])
        expected = np.float32(expected * (2 + i % 3))
        assert backend.run({}, ["v:0"], []) == [expected]
    assert quiet(cluster, backend, ["a0:0", "a1:0"], [], ["step"]) == {WORKER_FULL, OTHER_FULL}
    assert through_master(backend) == ""
    nothing_is_left(cluster)
    backend.close()


def test_who_does_something_else_too_is_not(cluster: InProcessCluster) -> None:
    backend = opened(cluster, training_graph())
    backend.run({}, [], ["init"])
    both: Any = {"a0:0": ONE, "a1:0": ONE}
    for _ in range(3):
        backend.run(both, [], ["step", "keep1"])
        backend.run(both, ["gradient0:0"], ["step"])
    assert quiet(cluster, backend, ["a0:0", "a1:0"], [], ["step", "keep1"]) == {WORKER_FULL}
    assert quiet(cluster, backend, ["a0:0", "a1:0"], ["gradient0:0"], ["step"]) == {OTHER_FULL}
    nothing_is_left(cluster)
    backend.close()


def test_who_is_waited_for_in_place_of_others_is_not(cluster: InProcessCluster) -> None:
    g = GraphBuilder()
    g.placeholder("a", PS)
    g.binary("first", "Mul", "a", "a", PS)
    g.binary("second", "Mul", "first", "first", OTHER)
    g.variable("v", device=WORKER)
    g.assign("third", "v", "second", WORKER)
    backend = opened(cluster, g.graph)
    for _ in range(3):
        backend.run({"a:0": ONE * 2}, [], ["third"])
    assert backend.run({}, ["v:0"], []) == [16.0]
    assert len(quiet(cluster, backend, ["a:0"], [], ["third"])) == 1
    backend.close()


def test_with_branches_nobody_is(cluster: InProcessCluster) -> None:
    g = GraphBuilder()
    boolean = graph_pb2.AttrValue(type=10)
    g.node("p", "Placeholder", device=PS, dtype=boolean)
    g.const("one", 1.0, OTHER)
    g.binary("sent", "Mul", "one", "one", OTHER)
    g.node("s", "Switch", ("sent", "p"), PS, T=FLOAT)
    g.variable("v", device=PS)
    g.assign("set", "v", "s:1", PS)
    backend = opened(cluster, g.graph)
    for taken in (True, False, True):
        backend.run({"p:0": np.bool_(taken).reshape(())}, [], ["set"])
    assert quiet(cluster, backend, ["p:0"], [], ["set"]) == set()
    nothing_is_left(cluster)
    backend.close()


def test_its_error_is_heard(cluster: InProcessCluster) -> None:
    g = GraphBuilder()
    g.placeholder("a", PS)
    g.variable("never", device=OTHER)
    g.binary("sent", "Mul", "never", "never", OTHER)
    g.assign("can", "never", "a", OTHER)
    g.variable("v", device=PS)
    g.assign("set", "v", "sent", PS)
    backend = opened(cluster, g.graph)
    for _ in range(5):
        with pytest.raises(FailedPreconditionError) as caught:
            backend.run({}, [], ["set"])
        assert caught.value.message.startswith(f"From {OTHER_FULL}:\nAttempting to use uninitialized value never")
        nothing_is_left(cluster)
    assert quiet(cluster, backend, [], [], ["set"]) == {OTHER_FULL}
    backend.run({"a:0": ONE * 3}, [], ["can"])
    backend.run({}, [], ["set"])
    assert backend.run({}, ["v:0"], []) == [9.0]
    backend.close()


@pytest.mark.slow
def test_an_error_elsewhere_waits_for_nobody_who_has_ended(
    cluster: InProcessCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Without an answer of the quiet part the client would wait for as long.
    monkeypatch.setattr("dtfctl.runtime.steps.grace.FAILED_GRACE_S", 1000.0)
    g = GraphBuilder()
    g.const("one", 1.0, OTHER)
    g.binary("sent", "Mul", "one", "one", OTHER)
    g.variable("never", device=PS)
    g.node("bad", "AssignAdd", ("never", "sent"), PS, T=FLOAT)
    backend = opened(cluster, g.graph)
    for _ in range(20):
        error = in_thread(lambda: backend.run({}, [], ["bad"]))()
        assert isinstance(error, FailedPreconditionError)
        assert error.message.startswith(f"From {PS_FULL}:\nAttempting to use uninitialized value never")
        nothing_is_left(cluster)
    assert quiet(cluster, backend, [], [], ["bad"]) == {OTHER_FULL}
    backend.close()


@pytest.mark.parametrize("fault", [signal.SIGKILL, pytest.param(signal.SIGSTOP, marks=pytest.mark.slow)])
def test_its_process_is_lost(workers: InProcessCluster, fault: signal.Signals) -> None:
    g = GraphBuilder()
    g.queue("q", PS)
    g.dequeue("x", "q", PS)
    g.const("one", 1.0, PS)
    g.enqueue("put", "q", "one", PS)
    g.variable("v", device=OTHER)
    g.assign("set", "v", "x", OTHER)
    with ps_process(workers) as process, ThreadPoolExecutor(1) as pool:
        backend = opened(workers, g.graph)
        backend.run({}, [], ["put"])
        backend.run({}, [], ["set"])
        assert quiet(workers, backend, [], [], ["set"]) == {PS_FULL}
        step = pool.submit(backend.run, {}, [], ["set"])
        eventually(lambda: workers.servers["worker", 1].worker.open_steps == 1)
        process.send_signal(fault)
        error = step.exception(60.0)
        assert isinstance(error, UnavailableError)
        assert PS_FULL in error.message
        nothing_is_left(workers)
