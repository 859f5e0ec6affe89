"""Strangers on the wire: every request gets a proper status, and the server serves on."""

from __future__ import annotations

import contextlib
import gc
import random
import socket
import threading
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from dtfctl.protocol import master_pb2, tensor_pb2
from dtfctl.runtime.rendezvous.transports.grpc_stream import FROM_LIFE, FROM_TASK, METHOD, TO_LIFE
from tests.support.clusters import InProcessCluster, in_process_cluster
from tests.support.examples import examples
from tests.unit.services.graphs import mul_graph

MASTER = "/tensorflow.MasterService/"
METHODS = [
    "CreateSession",
    "ExtendSession",
    "PartialRunSetup",
    "RunStep",
    "CloseSession",
    "ListDevices",
    "Reset",
    "MakeCallable",
    "RunCallable",
    "ReleaseCallable",
]
WORKER = ["GetStatus", "CreateSession", "DeleteSession", "RegisterPartition", "DeregisterPartition", "ClearContainers"]


@pytest.fixture(scope="module")
def cluster() -> Iterator[InProcessCluster]:
    with in_process_cluster({"ps": 1, "worker": 1}, peer_timeout_s=5.0) as running:
        yield running


@pytest.fixture(scope="module")
def channel(cluster: InProcessCluster) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(cluster.cluster["worker"][0]) as opened:
        yield opened


def call(channel: grpc.Channel, method: str, data: bytes) -> grpc.StatusCode:
    try:
        channel.unary_unary(method)(data, timeout=60.0)
    except grpc.RpcError as e:
        error: Any = e
        return error.code()  # type: ignore[no-any-return]
    return grpc.StatusCode.OK


def works(channel: grpc.Channel) -> None:
    """One session, from its making to its end."""
    request = master_pb2.CreateSessionRequest(graph_def=mul_graph())
    made = master_pb2.CreateSessionResponse.FromString(
        channel.unary_unary(MASTER + "CreateSession")(request.SerializeToString(), timeout=60.0)
    )
    step = master_pb2.RunStepRequest(session_handle=made.session_handle, fetch=["y:0"])
    for name, value in (("a:0", 2.0), ("b:0", 3.0)):
        step.feed.add(name=name).tensor.CopyFrom(
            tensor_pb2.TensorProto(dtype=1, tensor_shape=tensor_pb2.TensorShapeProto(), float_val=[value])
        )
    got = master_pb2.RunStepResponse.FromString(channel.unary_unary(MASTER + "RunStep")(step.SerializeToString()))
    assert got.tensor[0].tensor.tensor_content == b"\x00\x00\xc0\x40"
    close = master_pb2.CloseSessionRequest(session_handle=made.session_handle)
    assert call(channel, MASTER + "CloseSession", close.SerializeToString()) is grpc.StatusCode.OK


ANSWERS = {
    grpc.StatusCode.OK,
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.ABORTED,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.FAILED_PRECONDITION,
}


@settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(method=st.sampled_from([m for m in METHODS if m != "Reset"]), data=st.binary(max_size=200))
def test_random_requests_to_the_master(channel: grpc.Channel, method: str, data: bytes) -> None:
    assert call(channel, MASTER + method, data) in ANSWERS


@settings(max_examples=examples(80), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(method=st.sampled_from(WORKER), data=st.binary(max_size=200))
def test_random_requests_to_the_worker(channel: grpc.Channel, method: str, data: bytes) -> None:
    assert call(channel, "/dtf.WorkerService/" + method, data) in ANSWERS


def test_broken_graphs(channel: grpc.Channel) -> None:
    good = master_pb2.CreateSessionRequest(graph_def=mul_graph("/job:worker/task:0")).SerializeToString()
    generator = random.Random(1)
    for _ in range(200):
        bad = bytearray(good[: generator.randrange(1, len(good) + 1)])
        for _ in range(generator.randrange(3)):
            bad[generator.randrange(len(bad))] = generator.randrange(256)
        assert call(channel, MASTER + "CreateSession", bytes(bad)) in ANSWERS
    works(channel)


def test_feeds_that_claim_more_than_they_hold(channel: grpc.Channel) -> None:
    request = master_pb2.CreateSessionRequest(graph_def=mul_graph())
    made = master_pb2.CreateSessionResponse.FromString(
        channel.unary_unary(MASTER + "CreateSession")(request.SerializeToString(), timeout=60.0)
    )
    for dims, content in (([1 << 40], b""), ([-1], b""), ([3], b"12345"), ([1 << 62, 1 << 62], b"x")):
        step = master_pb2.RunStepRequest(session_handle=made.session_handle, fetch=["y:0"])
        proto = step.feed.add(name="a:0").tensor
        proto.dtype = 1  # type: ignore[assignment]
        proto.tensor_content = content
        for size in dims:
            proto.tensor_shape.dim.add(size=size)
        assert call(channel, MASTER + "RunStep", step.SerializeToString()) is grpc.StatusCode.INVALID_ARGUMENT
    works(channel)


def test_methods_that_do_not_exist(channel: grpc.Channel) -> None:
    assert call(channel, MASTER + "Nope", b"") is grpc.StatusCode.UNIMPLEMENTED
    assert call(channel, "/tensorflow.WorkerService/Nope", b"") is grpc.StatusCode.UNIMPLEMENTED
    assert call(channel, "/tensorflow.NopeService/GetStatus", b"") is grpc.StatusCode.UNIMPLEMENTED


def test_unknown_fields_are_ignored(channel: grpc.Channel) -> None:
    request = master_pb2.CreateSessionRequest(graph_def=mul_graph()).SerializeToString() + b"\xfa\x3e\x03abc"
    assert call(channel, MASTER + "CreateSession", request) is grpc.StatusCode.OK


def test_the_same_request_twice_runs_once(channel: grpc.Channel) -> None:
    request = master_pb2.CreateSessionRequest(graph_def=mul_graph())
    made = master_pb2.CreateSessionResponse.FromString(
        channel.unary_unary(MASTER + "CreateSession")(request.SerializeToString(), timeout=60.0)
    )
    step = master_pb2.RunStepRequest(
        session_handle=made.session_handle, target=["a"], request_id=77, store_errors_in_response_body=True
    ).SerializeToString()
    assert call(channel, MASTER + "RunStep", step) is grpc.StatusCode.OK
    with pytest.raises(grpc.RpcError, match=r"The same RunStep .* request was received twice"):
        channel.unary_unary(MASTER + "RunStep")(step)


@pytest.mark.parametrize("garbage", [b"\x00" * 100, b"GET / HTTP/1.1\r\n\r\n" * 10, bytes(range(256)) * 8])
def test_garbage_on_a_stream_ends_that_stream(cluster: InProcessCluster, channel: grpc.Channel, garbage: bytes) -> None:
    metadata = ((FROM_TASK, "/job:ps/replica:0/task:0"), (FROM_LIFE, "1"), (TO_LIFE, "1"))
    assert list(channel.stream_stream(METHOD)(iter([garbage]), metadata=metadata, timeout=60.0)) == []
    works(channel)


@pytest.mark.parametrize(
    "metadata",
    [
        (),
        ((FROM_TASK, "/job:ps/replica:0/task:0"),),
        ((FROM_TASK, "/job:ps/replica:0/task:0"), (FROM_LIFE, "x"), (TO_LIFE, "1")),
        ((FROM_TASK, "/job:stranger/replica:0/task:0"), (FROM_LIFE, "1"), (TO_LIFE, "1")),
    ],
)
def test_streams_from_nobody_are_refused(channel: grpc.Channel, metadata: Any) -> None:
    with pytest.raises(grpc.RpcError):
        list(channel.stream_stream(METHOD)(iter([]), metadata=metadata, timeout=60.0))


def test_connections_that_say_nothing_disturb_nobody(cluster: InProcessCluster, channel: grpc.Channel) -> None:
    host, port = cluster.cluster["worker"][0].split(":")
    with contextlib.ExitStack() as stack:
        for i in range(200):
            silent = stack.enter_context(socket.create_connection((host, int(port))))
            silent.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[: i % 25])
        works(channel)
        with grpc.insecure_channel(cluster.cluster["worker"][0], (("grpc.use_local_subchannel_pool", 1),)) as fresh:
            works(fresh)


def test_requests_that_never_come_hold_nobody_up(cluster: InProcessCluster, channel: grpc.Channel) -> None:
    """Clients that open a call and then trickle, or send nothing at all."""
    never = threading.Event()

    def nothing() -> Iterator[bytes]:
        never.wait(60.0)
        yield from ()

    address = cluster.cluster["worker"][0]
    with contextlib.ExitStack() as stack:
        stack.callback(never.set)
        for i in range(10):
            slow = stack.enter_context(grpc.insecure_channel(address, (("grpc.use_local_subchannel_pool", 1),)))
            methods = [MASTER + METHODS[(i + j) % len(METHODS)] for j in range(20)]
            calls = [slow.stream_unary(method).future(nothing(), timeout=60.0) for method in methods]
            stack.callback(lambda calls=calls: [c.cancel() for c in calls])
        for _ in range(3):
            works(channel)
        with grpc.insecure_channel(address, (("grpc.use_local_subchannel_pool", 1),)) as fresh:
            works(fresh)


@pytest.mark.slow
@pytest.mark.parametrize("count", [1_200, pytest.param(10_000, marks=pytest.mark.nightly)])
def test_sessions_leave_nothing(cluster: InProcessCluster, channel: grpc.Channel, count: int) -> None:
    server = cluster.servers["worker", 0]
    before = len(server.master._sessions), server.worker.open_sessions
    create = channel.unary_unary(MASTER + "CreateSession")
    close = channel.unary_unary(MASTER + "CloseSession")
    request = master_pb2.CreateSessionRequest(graph_def=mul_graph())
    request.config.device_filters.append("/job:worker")
    data = request.SerializeToString()
    gc.collect()
    objects, warmed = 0, 200
    for i in range(count):
        made = master_pb2.CreateSessionResponse.FromString(create(data))
        close(master_pb2.CloseSessionRequest(session_handle=made.session_handle).SerializeToString())
        if i == warmed:
            gc.collect()
            objects = len(gc.get_objects())
    gc.collect()
    left = len(gc.get_objects()) - objects
    assert left < (count - warmed) / 2, "less than an object in two sessions, whatever else runs here"
    assert (len(server.master._sessions), server.worker.open_sessions) == before
