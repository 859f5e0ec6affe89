"""Steps that a client starts in several tasks itself: what they give, how they fail, and what they leave behind."""

from __future__ import annotations

import gc
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from dtfctl.protocol import config_pb2, graph_pb2, worker_pb2
from dtfctl.runtime.client.grpc_backend import GrpcBackend, reset
from dtfctl.runtime.framework.errors import (
    AbortedError,
    CancelledError,
    FailedPreconditionError,
    InvalidArgumentError,
    OpError,
    UnavailableError,
)
from dtfctl.runtime.framework.node_graph import Node
from dtfctl.runtime.rendezvous.frames import Kind, Message
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
from tests.unit.services.graphs import FLOAT, GraphBuilder, mul_graph, waiting_graph


def spread_graph() -> graph_pb2.GraphDef:
    """a and b are fed; there = a * b on the ps, here = there * a on worker 1, both = there + here on worker 0."""
    g = GraphBuilder()
    g.placeholder("a")
    g.placeholder("b")
    g.binary("there", "Mul", "a", "b", PS)
    g.binary("here", "Mul", "there", "a", OTHER)
    g.binary("both", "Add", "there", "here", WORKER)
    return g.graph


def blocking_graph() -> graph_pb2.GraphDef:
    """x waits for a queue on the ps, y for one on worker 1; put_x and put_y end that. bad fails on worker 0."""
    g = GraphBuilder()
    for name, device in (("x", PS), ("y", OTHER)):
        g.queue(f"q{name}", device)
        g.dequeue(name, f"q{name}", device)
        g.const(f"one{name}", 1.0, device)
        g.enqueue(f"put_{name}", f"q{name}", f"one{name}", device)
    g.variable("never", device=WORKER)
    g.const("two", 2.0, WORKER)
    g.binary("bad", "Mul", "never", "two", WORKER)
    return g.graph


def warmed(cluster: InProcessCluster) -> GrpcBackend:
    """A session of `blocking_graph` whose step over x and y has run before."""
    backend = opened(cluster, blocking_graph())
    backend.run({}, [], ["put_x", "put_y"])
    assert backend.run({}, ["x:0", "y:0"], []) == [1.0, 1.0]
    assert through_master(backend) == ""
    return backend


def waiting(cluster: InProcessCluster, backend: GrpcBackend) -> Callable[[], BaseException | None]:
    """A step of x and y that waits in both tasks."""
    join = in_thread(lambda: backend.run({}, ["x:0", "y:0"], []))
    for task in (("ps", 0), ("worker", 1)):
        if task in cluster.servers:
            sessions = cluster.servers[task].worker._sessions
            eventually(lambda sessions=sessions: any(s.running for s in list(sessions.values())))
    return join


# What they give -------------------------------------------------------------------------------------------------------


def test_feeds_and_fetches_are_the_tasks_own(cluster: InProcessCluster) -> None:
    backend, usual = opened(cluster, spread_graph()), opened(cluster, spread_graph(), grpc=True)
    names = ["both:0", "there:0", "here:0", "there:0"]
    for i in range(40):
        feeds: Any = {"a:0": ONE * i, "b:0": ONE * 3}
        assert backend.run(feeds, names, []) == [3.0 * i + 3 * i * i, 3.0 * i, 3.0 * i * i, 3.0 * i]
    master = cluster.servers["worker", 0].master
    before = master.requests
    assert backend.run({"b:0": ONE, "a:0": ONE * 5}, ["here:0"], []) == [25.0]
    assert backend.run({"b:0": ONE * 5, "a:0": ONE}, ["there:0"], ["both"]) == [5.0]
    assert master.requests == before, "the master was asked to run something"
    assert through_master(backend) == ""
    assert usual.run({"a:0": ONE * 2, "b:0": ONE * 3}, names, []) == [18.0, 6.0, 12.0, 6.0]
    nothing_is_left(cluster)
    for session in (backend, usual):
        session.close()


def test_what_only_the_master_has_a_part_in_it_runs(cluster: InProcessCluster) -> None:
    backend = opened(cluster, mul_graph(WORKER))
    assert backend.run({"a:0": ONE, "b:0": ONE}, ["y:0"], []) == [1.0]
    assert "only the master's own task" in through_master(backend)
    backend.close()


def test_both_ways_share_a_connection(cluster: InProcessCluster) -> None:
    g = GraphBuilder()
    g.placeholder("a")
    for name, device in (("here", WORKER), ("there", PS)):
        g.const(f"{name}/two", 2.0, device)
        g.binary(name, "Mul", "a", f"{name}/two", device)
    backend = opened(cluster, g.graph)
    for i in range(3):
        feeds: Any = {"a:0": ONE * i}
        assert backend.run(feeds, ["here:0"], []) == [2.0 * i]
        assert backend.run(feeds, ["there:0", "here:0"], []) == [2.0 * i] * 2
    backend.close()


@pytest.mark.slow
@pytest.mark.parametrize("count", [0, 1, 1000, 3_000_000])
def test_tensors_of_any_size(cluster: InProcessCluster, count: int) -> None:
    backend = opened(cluster, spread_graph())
    value = np.arange(count, dtype=np.float32)
    for i in range(4):
        there, both = backend.run({"a:0": value, "b:0": ONE * i}, ["there:0", "both:0"], [])
        assert (there == value * i).all() and there.shape == (count,)
        assert (both == value * i * value + there).all()
        there += 1
    backend.close()


def test_what_is_fetched_is_the_clients(cluster: InProcessCluster) -> None:
    g = GraphBuilder()
    g.placeholder("a", PS)
    g.variable("v", (3,), PS)
    g.assign("set", "v", "a", PS)
    backend = opened(cluster, g.graph)
    fed = np.ones(3, np.float32)
    for _ in range(6):
        (got,) = backend.run({"a:0": fed}, ["set:0"], [])
        fed[:] = 7
        got = np.array(got)
        got[:] = 9
        assert backend.run({}, ["v:0"], [])[0].tolist() == [1, 1, 1]
        fed[:] = 1
    backend.close()


def test_a_branch_not_taken_is_named(cluster: InProcessCluster) -> None:
    g = GraphBuilder()
    boolean = graph_pb2.AttrValue(type=10)
    g.node("p", "Placeholder", dtype=boolean)
    g.const("one", 1.0, PS)
    g.node("s", "Switch", ("one", "p"), PS, T=FLOAT)
    g.node("no", "Identity", ("s",), PS, T=FLOAT)
    g.node("yes", "Identity", ("s:1",), PS, T=FLOAT)
    g.binary("w", "Mul", "one", "one", OTHER)
    for grpc in (True, False):
        backend = opened(cluster, g.graph, grpc=grpc)
        assert backend.run({"p:0": np.bool_(True).reshape(())}, ["w:0", "yes:0"], []) == [1.0, 1.0]
        with pytest.raises(InvalidArgumentError, match=r"returned for yes:0 was not valid. Retval\[1\]"):
            backend.run({"p:0": np.bool_(False).reshape(())}, ["w:0", "yes:0"], [])
        assert backend.run({"p:0": np.bool_(False).reshape(())}, ["w:0", "no:0"], []) == [1.0, 1.0]
        backend.close()
    nothing_is_left(cluster)


def test_errors_are_those_of_grpc(cluster: InProcessCluster) -> None:
    both = [opened(cluster, spread_graph(), grpc=grpc) for grpc in (True, False)]
    three, four = np.zeros(3, np.float32), np.zeros(4, np.float32)
    wrong: list[tuple[Any, Any, Any]] = [
        ({"a:0": ONE}, ["both:0"], []),
        ({}, ["nothing:0"], []),
        ({"a:0": three, "b:0": four}, ["both:0"], []),
        ({"a:0": np.zeros(3, np.int32), "b:0": ONE}, ["both:0"], []),
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
        assert backend.run({"a:0": ONE, "b:0": ONE}, ["both:0"], []) == [2.0]
        backend.close()
    nothing_is_left(cluster)


def test_threads_and_clients_at_once(cluster: InProcessCluster) -> None:
    backends = [opened(cluster, spread_graph()) for _ in range(2)]
    with ThreadPoolExecutor(6) as pool:

        def many(i: int) -> None:
            for k in range(60):
                feeds: Any = {"a:0": ONE * i, "b:0": ONE * k}
                assert backends[i % 2].run(feeds, ["both:0"], []) == [float(i * k + i * i * k)]

        for future in [pool.submit(many, i) for i in range(6)]:
            future.result(60.0)
    nothing_is_left(cluster)
    for backend in backends:
        backend.close()


def test_options_go_through_the_master(cluster: InProcessCluster) -> None:
    backend = opened(cluster, spread_graph())
    feeds: Any = {"a:0": ONE, "b:0": ONE}
    assert backend.run(feeds, ["both:0"], []) == [2.0]
    metadata = config_pb2.RunMetadata()
    options = config_pb2.RunOptions(trace_level=config_pb2.RunOptions.FULL_TRACE)
    assert backend.run(feeds, ["both:0"], [], options, metadata) == [2.0]
    assert len(metadata.step_stats.dev_stats) >= 3
    assert backend.run(feeds, ["both:0"], []) == [2.0]
    backend.close()


def test_tasks_of_another_host_are_reached_through_the_master(
    cluster: InProcessCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dtfctl.runtime.services.worker_service.this_place", lambda: "elsewhere")
    backend = opened(cluster, spread_graph())
    assert backend.run({"a:0": ONE, "b:0": ONE}, ["both:0"], []) == [2.0]
    assert "is not on the host of the session's master" in through_master(backend)
    backend.close()


# How they fail --------------------------------------------------------------------------------------------------------


def test_an_error_ends_the_other_parts_and_is_the_one_reported(cluster: InProcessCluster) -> None:
    backend = warmed(cluster)
    for _ in range(5):
        with pytest.raises(FailedPreconditionError) as caught:
            backend.run({}, ["x:0", "y:0", "bad:0"], [])
        assert caught.value.message.startswith(f"From {WORKER_FULL}:\nAttempting to use uninitialized value never")
        (story,) = caught.value.__notes__
        assert story.startswith("The step over 3 tasks: ran /job:")
        assert f"failed with FailedPreconditionError: {WORKER_FULL}" in story and f"told to end {PS_FULL}" in story
        nothing_is_left(cluster)
    backend.run({}, [], ["put_x", "put_y"])
    assert backend.run({}, ["x:0", "y:0"], []) == [1.0, 1.0], "a cancelled dequeue took nothing"
    backend.close()


def test_closing_the_session_cancels_it(cluster: InProcessCluster) -> None:
    backend = warmed(cluster)
    join = waiting(cluster, backend)
    backend.close()
    error = join()
    assert isinstance(error, CancelledError)
    assert "explicit call to `Session::Close()`" in error.message
    nothing_is_left(cluster)


def test_a_reset_by_another_client_cancels_it(cluster: InProcessCluster) -> None:
    backend = warmed(cluster)
    join = waiting(cluster, backend)
    reset(cluster.cluster["worker"][0], [], config_pb2.ConfigProto())
    assert isinstance(join(), CancelledError)
    nothing_is_left(cluster)
    with pytest.raises((FailedPreconditionError, AbortedError)):
        backend.run({}, ["x:0", "y:0"], [])


def test_a_client_that_is_interrupted_leaves_nothing(cluster: InProcessCluster) -> None:
    backend = warmed(cluster)

    def interrupt() -> None:
        for task in (("ps", 0), ("worker", 1)):
            eventually(lambda task=task: cluster.servers[task].worker.open_steps == 1)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        backend.run({}, ["x:0", "y:0"], [])
    nothing_is_left(cluster)
    backend.run({}, [], ["put_x", "put_y"])
    assert backend.run({}, ["x:0", "y:0"], []) == [1.0, 1.0]
    backend.close()


@pytest.mark.parametrize("task", [("ps", 0), ("worker", 1), ("worker", 0)])
def test_a_task_that_stops_fails_it_at_once(cluster: InProcessCluster, task: tuple[str, int]) -> None:
    backend = warmed(cluster)
    join = waiting(cluster, backend)
    cluster.stop(*task)
    error = join()
    assert isinstance(error, (UnavailableError, CancelledError, AbortedError)), error
    nothing_is_left(cluster)
    with pytest.raises((UnavailableError, AbortedError)):
        backend.run({}, ["x:0", "y:0"], [])
    cluster.start(*task)
    again = opened(cluster, blocking_graph())

    def step_is_aborted() -> bool:
        with pytest.raises((AbortedError, UnavailableError)) as caught:
            backend.run({}, ["x:0", "y:0"], [])
        # Until gRPC tries to connect again, a second after it found nobody, a master that is back is not seen.
        return isinstance(caught.value, AbortedError)

    if task == ("worker", 0):
        eventually(step_is_aborted)
    else:
        assert step_is_aborted()
    again.run({}, [], ["put_x", "put_y"])
    assert again.run({}, ["x:0", "y:0"], []) == [1.0, 1.0]
    again.close()


@pytest.mark.parametrize("teller", [("worker", 0), ("worker", 1)])
def test_a_task_declared_down_fails_it_at_once(cluster: InProcessCluster, teller: tuple[str, int]) -> None:
    backend = warmed(cluster)
    join = waiting(cluster, backend)
    cluster.servers[teller].peer_down("ps", 0, 1, "no heartbeat for 5 s")
    error = join()
    assert isinstance(error, UnavailableError)
    assert error.message.startswith(f"From {PS_FULL}:\n")
    assert "no heartbeat for 5 s" in error.message
    nothing_is_left(cluster)
    if teller == ("worker", 0):
        with pytest.raises(UnavailableError, match="no heartbeat for 5 s") as caught:
            backend.run({}, ["x:0", "y:0"], [])
        assert "cannot be reached" not in caught.value.message
    cluster.servers[teller].peer_up("ps", 0, cluster.cluster["ps"][0], 1)
    backend.run({}, [], ["put_x", "put_y"])
    assert backend.run({}, ["x:0", "y:0"], []) == [1.0, 1.0], "it was the same life all along: the session goes on"
    backend.close()


def test_a_task_restarted_between_steps_aborts_the_next(cluster: InProcessCluster) -> None:
    backend = warmed(cluster)
    cluster.stop("ps", 0)
    cluster.start("ps", 0)
    for server in cluster.servers.values():
        server.peer_up("ps", 0, cluster.cluster["ps"][0], 2)
    with pytest.raises(AbortedError, match=r"Session handle is not found: .* just restarted"):
        backend.run({}, ["x:0", "y:0"], [])
    nothing_is_left(cluster)
    backend.close()


@pytest.mark.slow
def test_a_killed_task_fails_it_at_once(workers: InProcessCluster) -> None:
    with ps_process(workers) as process:
        backend = warmed(workers)
        join = waiting(workers, backend)
        process.kill()
        error = join()
        assert isinstance(error, UnavailableError)
        assert "has been silent" not in error.message, "found out by its silence only"
        assert PS_FULL in error.message
        nothing_is_left(workers)
        with pytest.raises((UnavailableError, AbortedError), match=PS_FULL):
            backend.run({}, ["x:0", "y:0"], [])
    with ps_process(workers):
        again = warmed(workers)
        with pytest.raises(AbortedError, match="just restarted"):
            backend.run({}, ["x:0", "y:0"], [])
        again.close()


@pytest.mark.slow
def test_a_frozen_task_is_noticed_without_a_launcher(workers: InProcessCluster) -> None:
    with ps_process(workers) as process:
        backend = warmed(workers)
        join = waiting(workers, backend)
        process.send_signal(signal.SIGSTOP)
        error = join()
        assert isinstance(error, UnavailableError)
        assert f"{PS_FULL} has been silent" in error.message
        nothing_is_left(workers)


# Who may run what -----------------------------------------------------------------------------------------------------


def test_a_partition_is_of_its_session(cluster: InProcessCluster) -> None:
    backend, other = warmed(cluster), warmed(cluster)
    assert backend._local_steps is not None
    assert other._local_steps is not None
    ((runner,), (stranger,)) = backend._local_steps._idle, other._local_steps._idle
    connection = stranger._by_task[PS_FULL]
    found = list(cluster.servers["ps", 0].worker.session(backend._handle).partitions)
    definition = worker_pb2.ClientPartition(session=other._handle, number=9999, handle=found[-1])
    connection.send(
        [
            Message(Kind.PARTITION, 0, "", definition.SerializeToString()),
            Message(Kind.RUN, 5, "", (9999).to_bytes(8, "little")),
        ]
    )
    got: list[Any] = []
    connection._received = lambda _, frame: got.append(frame)
    connection.receive()
    report = worker_pb2.StepReport.FromString(got[0].payload)
    assert report.code == AbortedError.code
    assert "is not of session" in report.message
    assert runner._by_task
    for session in (backend, other):
        session.close()


@pytest.mark.parametrize(
    "messages",
    [
        [Message(Kind.RUN, 1, "", (77).to_bytes(8, "little"))],
        [Message(Kind.PARTITION, 0, "", b"\xff\xff\xff")],
        [Message(Kind.DONE, 1)],
    ],
)
def test_nonsense_ends_the_connection_only(cluster: InProcessCluster, messages: list[Message]) -> None:
    backend = warmed(cluster)
    assert backend._local_steps is not None
    (runner,) = backend._local_steps._idle
    runner._by_task[PS_FULL].send(messages)
    eventually(lambda: bool(runner._epoll.poll(0)))
    backend.run({}, [], ["put_x", "put_y"])
    assert backend.run({}, ["x:0", "y:0"], []) == [1.0, 1.0]
    backend.close()


def test_a_session_that_a_client_runs_is_not_idle(cluster: InProcessCluster) -> None:
    backend = warmed(cluster)
    session = cluster.servers["worker", 0].master.session(backend._handle)
    assert len(session.runners) == 1
    assert backend._local_steps is not None
    (runner,) = backend._local_steps._idle
    runner.close()
    eventually(lambda: not session.runners)
    backend.close()


def test_waiting_graphs_of_one_task_too(cluster: InProcessCluster) -> None:
    backend = opened(cluster, waiting_graph(PS))
    backend.run({}, [], ["put"])
    assert backend.run({}, ["x:0"], []) == [1.0]
    assert through_master(backend) == ""
    with ThreadPoolExecutor(3) as pool:
        waiting = [pool.submit(backend.run, {}, ["x:0"], []) for _ in range(3)]
        for _ in range(3):
            backend.run({}, [], ["put"])
        assert [f.result(15.0) for f in waiting] == [[1.0]] * 3
    backend.close()
    nothing_is_left(cluster)


@pytest.mark.slow
def test_a_client_that_has_gone_leaves_nothing_for_the_cycle_collector(cluster: InProcessCluster) -> None:
    def nodes() -> set[int]:
        return {id(o) for o in gc.get_objects() if type(o) is Node}

    def run() -> None:
        backend = opened(cluster, spread_graph())
        backend.run({"a:0": ONE, "b:0": ONE}, ["both:0"], [])
        assert nodes() - before
        backend.close()

    gc.collect()
    gc.disable()
    try:
        before = nodes()
        run()
        eventually(lambda: not nodes() - before)
    finally:
        gc.enable()
