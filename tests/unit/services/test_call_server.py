"""The servers of calls, ours on gRPC's core and grpcio's own: what their handlers and clients can count on."""

from __future__ import annotations

import gc
import os
import queue
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from dtfctl.runtime.services.call_server import CoreCallServer
from dtfctl.runtime.services.call_servers import Maker, fault_of
from dtfctl.runtime.services.calls import Call, Handler, Refused, Stream, Unary
from dtfctl.runtime.services.grpc_tools import SERVER_OPTIONS, listen_tcp, listen_unix
from dtfctl.runtime.services.public_call_server import PublicCallServer
from tests.support.waiting import eventually

BOUND_S = 60.0
ECHO = Unary(lambda data, _call: data)


SERVERS: list[type[Any]] = [CoreCallServer, PublicCallServer]


@pytest.fixture(params=SERVERS, autouse=True, ids=["core", "public"])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Maker:
    maker: Maker = request.param
    monkeypatch.setattr(Served, "kind", maker)
    return maker


class Served:
    """A server with these methods, and a client."""

    kind: type[Any] = CoreCallServer

    def __init__(self, most_calls: int = 1000, socket: Path | None = None, **methods: Handler) -> None:
        self.server = self.kind({f"/t.T/{n}": h for n, h in methods.items()}.get, SERVER_OPTIONS, most_calls)
        self.port = listen_tcp(self.server, "127.0.0.1:0", None)
        if socket is not None:
            listen_unix(self.server, socket)
        self.server.start()
        self.channel = self.connect()

    def connect(self) -> grpc.Channel:
        return grpc.insecure_channel(f"127.0.0.1:{self.port}", options=(("grpc.use_local_subchannel_pool", 1),))

    def call(self, method: str, data: bytes = b"x") -> bytes:
        return bytes(self.channel.unary_unary(f"/t.T/{method}")(data, timeout=BOUND_S))

    def future(self, method: str, data: bytes = b"x", timeout: float = BOUND_S) -> Any:
        return self.channel.unary_unary(f"/t.T/{method}").future(data, timeout=timeout)

    def __enter__(self) -> Served:
        return self

    def __exit__(self, *_: object) -> None:
        self.channel.close()
        assert self.server.stop(0).wait(BOUND_S)


class Blocking:
    """A handler that waits until it is let go, or its call is gone."""

    def __init__(self) -> None:
        self.entered = threading.Semaphore(0)
        self.let_go = threading.Event()
        self.gone = threading.Semaphore(0)
        self.calls: list[Call] = []
        self.handler = Unary(self._handle)

    def _handle(self, data: bytes, call: Call) -> bytes:
        self.calls.append(call)
        if not call.on_gone(self.gone.release):
            self.gone.release()
        self.entered.release()
        assert self.let_go.wait(BOUND_S)
        return data

    def wait_entered(self, count: int = 1) -> None:
        for _ in range(count):
            assert self.entered.acquire(timeout=BOUND_S)


def status(function: Callable[[], Any]) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.RpcError) as caught:
        function()
    error: Any = caught.value
    return error.code(), error.details()


def test_answers_of_all_sizes_and_metadata() -> None:
    def tell(_data: bytes, call: Call) -> bytes:
        told = dict(call.metadata)
        assert call.method == "/t.T/Tell"
        assert call.peer().startswith("unix-abstract:")  # it came through a gate
        assert "x509_common_name" not in call.auth_context()
        return str(told["who"]).encode()

    with Served(Echo=ECHO, Tell=Unary(tell)) as served:
        for size in (0, 1, 100_000, 20_000_000):
            data = os.urandom(size)
            options = (("grpc.max_receive_message_length", -1),)
            with grpc.insecure_channel(f"127.0.0.1:{served.port}", options=options) as channel:
                assert channel.unary_unary("/t.T/Echo")(data, timeout=BOUND_S) == data
        tell_stub = served.channel.unary_unary("/t.T/Tell")
        assert tell_stub(b"", timeout=BOUND_S, metadata=(("who", "me"),)) == b"me"


def test_every_failure_has_a_status(caplog: pytest.LogCaptureFixture) -> None:
    def refuse(_data: bytes, _call: Call) -> bytes:
        raise Refused(grpc.StatusCode.NOT_FOUND, "no such thing: \u00fc")

    def fail(_data: bytes, _call: Call) -> bytes:
        raise KeyError("k")

    def leave(_data: bytes, _call: Call) -> bytes:
        raise SystemExit(3)

    with Served(Echo=ECHO, Refuse=Unary(refuse), Fail=Unary(fail), Leave=Unary(leave)) as served:
        assert status(lambda: served.call("Refuse")) == (grpc.StatusCode.NOT_FOUND, "no such thing: \u00fc")
        assert status(lambda: served.call("Fail")) == (grpc.StatusCode.UNKNOWN, "KeyError: 'k'")
        assert status(lambda: served.call("Leave")) == (grpc.StatusCode.UNKNOWN, "SystemExit: 3")
        assert status(lambda: served.call("Other")) == (
            grpc.StatusCode.UNIMPLEMENTED,
            "There is no method /t.T/Other",
        )
        none = served.channel.stream_unary("/t.T/Echo")
        code, details = status(lambda: none(iter(()), timeout=BOUND_S))
        assert (code, details) == (grpc.StatusCode.UNIMPLEMENTED, "The method needs exactly one request")
        assert served.call("Echo") == b"x"
    assert "/t.T/Fail failed" in caplog.text


def test_calls_that_wait_hold_up_no_others() -> None:
    blocking = Blocking()
    with Served(Echo=ECHO, Block=blocking.handler) as served:
        waiting = [served.future("Block", bytes([i])) for i in range(40)]
        blocking.wait_entered(40)
        for i in range(50):
            assert served.call("Echo", bytes([i])) == bytes([i])
        with served.connect() as other:
            assert other.unary_unary("/t.T/Echo")(b"o", timeout=BOUND_S) == b"o"
        blocking.let_go.set()
        assert [w.result(BOUND_S) for w in waiting] == [bytes([i]) for i in range(40)]


def test_calls_may_wait_for_each_other() -> None:
    barrier = threading.Barrier(64)

    def meet(data: bytes, _call: Call) -> bytes:
        barrier.wait(BOUND_S)
        return data

    with Served(Meet=Unary(meet)) as served:
        assert {w.result(BOUND_S) for w in [served.future("Meet", bytes([i])) for i in range(64)]} == {
            bytes([i]) for i in range(64)
        }


@pytest.mark.slow
def test_many_clients_at_once() -> None:
    failures: list[object] = []

    with Served(Echo=ECHO) as served:

        def client(number: int) -> None:
            with served.connect() as channel:
                stub = channel.unary_unary("/t.T/Echo")
                for i in range(150):
                    data = number.to_bytes(2, "big") + i.to_bytes(2, "big") + bytes(i * 7)
                    if stub(data, timeout=BOUND_S) != data:
                        failures.append((number, i))

        threads = [threading.Thread(target=client, args=(n,)) for n in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(BOUND_S)
        assert not failures and not any(t.is_alive() for t in threads)


@pytest.mark.parametrize("how", ["cancelled", "deadline", "closed"])
def test_a_handler_hears_that_its_call_is_gone(how: str) -> None:
    blocking = Blocking()
    with Served(Echo=ECHO, Block=blocking.handler) as served:
        with served.connect() as other:
            stub = other.unary_unary("/t.T/Block")
            limit = 0.5 if how == "deadline" else BOUND_S
            future = stub.future(b"", timeout=limit)
            blocking.wait_entered()
            left = blocking.calls[0].time_left()
            # gRPC rounds what it says on its way up, by less than a hundredth.
            assert left is not None and left <= limit * 1.01
            if how == "cancelled":
                future.cancel()
            elif how == "closed":
                other.close()
            assert blocking.gone.acquire(timeout=BOUND_S)
        (call,) = blocking.calls
        assert call.is_gone
        assert not call.on_gone(lambda: pytest.fail("called"))
        assert served.call("Echo") == b"x"
        blocking.let_go.set()


def test_a_call_without_deadline_has_time_for_ever() -> None:
    left: list[float | None] = []

    def handle(data: bytes, call: Call) -> bytes:
        left.append(call.time_left())
        return data

    with Served(Echo=Unary(handle)) as served:
        served.channel.unary_unary("/t.T/Echo")(b"")
    assert left == [None]


def test_nobody_is_told_that_an_answered_call_is_gone() -> None:
    told: list[str] = []

    def handle(data: bytes, call: Call) -> bytes:
        assert call.on_gone(lambda: told.append("gone"))
        return data

    with Served(Echo=Unary(handle)) as served:
        for _ in range(20):
            served.call("Echo")
    assert told == []


@pytest.mark.parametrize("family", ["tcp", "unix"])
def test_who_asks_is_told_when_a_connection_ends(family: str, tmp_path: Path) -> None:
    """Its call was answered long ago; another connection's end is nothing to it."""
    left: queue.SimpleQueue[str] = queue.SimpleQueue()
    calls: list[Call] = []

    def handle(data: bytes, call: Call) -> bytes:
        calls.append(call)
        assert call.on_left(lambda: left.put(data.decode()))
        return data

    own = (("grpc.use_local_subchannel_pool", 1),)
    with Served(Echo=Unary(handle), socket=tmp_path / "socket" if family == "unix" else None) as served:
        target = f"127.0.0.1:{served.port}" if family == "tcp" else f"unix:{tmp_path / 'socket'}"
        with grpc.insecure_channel(target, own) as first:
            with grpc.insecure_channel(target, own) as second:
                for channel, name in ((first, b"first"), (second, b"second")):
                    channel.unary_unary("/t.T/Echo")(name, timeout=BOUND_S)
            assert left.get(timeout=BOUND_S) == "second"
            assert not calls[1].on_left(lambda: left.put("too late"))
        assert left.get(timeout=BOUND_S) == "first"
    assert left.empty()


def test_a_failing_callback_does_not_keep_others_from_theirs(caplog: pytest.LogCaptureFixture) -> None:
    entered, told, let_go = threading.Event(), threading.Event(), threading.Event()

    def handle(data: bytes, call: Call) -> bytes:
        call.on_gone(lambda: {}["nothing"])
        call.on_gone(told.set)
        entered.set()
        let_go.wait(BOUND_S)
        return data

    with Served(Echo=ECHO, Wait=Unary(handle)) as served:
        future = served.future("Wait")
        assert entered.wait(BOUND_S)
        future.cancel()
        assert told.wait(BOUND_S)
        let_go.set()
        assert served.call("Echo") == b"x"
    assert "what waits for the end of a call of /t.T/Wait failed" in caplog.text


def test_more_calls_than_allowed_are_refused_until_some_have_ended() -> None:
    blocking = Blocking()
    with Served(most_calls=3, Block=blocking.handler, Echo=ECHO) as served:
        waiting = [served.future("Block") for _ in range(3)]
        blocking.wait_entered(3)
        refused = (grpc.StatusCode.RESOURCE_EXHAUSTED, "Concurrent RPC limit exceeded!")
        assert status(lambda: served.call("Echo")) == refused
        for future in waiting:
            future.cancel()
        for _ in range(3):
            assert blocking.gone.acquire(timeout=BOUND_S)
        # The calls are over, their handlers are not.
        assert status(lambda: served.call("Echo")) == refused
        blocking.let_go.set()

        def is_served() -> bool:
            future = served.future("Echo")
            return bool(future.exception(BOUND_S) is None)

        eventually(is_served)


def _is_call(thing: object) -> bool:
    return type(thing).__name__ in ("CoreCall", "PublicCall")


@pytest.mark.slow
def test_calls_leave_nothing_behind() -> None:
    def fail(_data: bytes, _call: Call) -> bytes:
        raise Refused(grpc.StatusCode.ABORTED, "")

    with Served(Echo=ECHO, Fail=Unary(fail)) as served:
        for _ in range(50):
            served.call("Echo")
            status(lambda: served.call("Fail"))
            status(lambda: served.call("Other"))

    def is_clean() -> bool:
        gc.collect()
        return not any(getattr(o, "_server", None) is served.server for o in gc.get_objects() if _is_call(o))

    eventually(is_clean)


def test_messages_both_ways() -> None:
    def double(requests: Iterator[bytes], _call: Call) -> Iterator[bytes]:
        for data in requests:
            yield data
            yield data + data
        yield b"end"

    with Served(Double=Stream(double)) as served:
        stub = served.channel.stream_stream("/t.T/Double")
        sizes = [0, 1, 1000, 1_000_000]
        got = [len(data) for data in stub((bytes(n) for n in sizes), timeout=BOUND_S)]
        assert got == [0, 0, 1, 2, 1000, 2000, 1_000_000, 2_000_000, 3]
        assert list(stub(iter(()), timeout=BOUND_S)) == [b"end"]


def test_a_stream_that_fails_has_a_status() -> None:
    def fail(requests: Iterator[bytes], _call: Call) -> Iterator[bytes]:
        yield next(requests)
        raise Refused(grpc.StatusCode.DATA_LOSS, "lost")

    with Served(Fail=Stream(fail)) as served:
        answers = served.channel.stream_stream("/t.T/Fail")(iter((b"a", b"b")), timeout=BOUND_S)
        assert next(answers) == b"a"
        assert status(lambda: next(answers)) == (grpc.StatusCode.DATA_LOSS, "lost")


@pytest.mark.slow
def test_a_stream_that_is_given_up_ends_at_both_its_ends() -> None:
    ended: list[str] = []
    over, gone = threading.Event(), threading.Event()

    def pump(requests: Iterator[bytes], call: Call) -> Iterator[bytes]:
        call.on_gone(gone.set)

        def read() -> None:
            try:
                for _ in requests:
                    ended.append("a message")
                ended.append("the end")
            except ConnectionError:
                ended.append("the end")
            over.set()

        threading.Thread(target=read, daemon=True).start()
        try:
            while True:
                yield bytes(100_000)
        finally:
            ended.append("the sender")

    never = threading.Event()

    def silent() -> Iterator[bytes]:
        never.wait(BOUND_S)
        yield from ()

    with Served(Pump=Stream(pump), Echo=ECHO) as served:
        answers = served.channel.stream_stream("/t.T/Pump")(silent(), timeout=BOUND_S)
        assert len(next(answers)) == 100_000
        answers.cancel()
        assert gone.wait(BOUND_S) and over.wait(BOUND_S)
        assert served.call("Echo") == b"x"
        never.set()

    def has_ended() -> bool:
        gc.collect()
        return sorted(ended) == ["the end", "the sender"]

    eventually(has_ended)


def test_stopping_lets_running_calls_end_and_takes_no_others() -> None:
    blocking = Blocking()
    with Served(Block=blocking.handler, Echo=ECHO) as served:
        future = served.future("Block", b"late")
        blocking.wait_entered()
        ended = served.server.stop(BOUND_S)
        with served.connect() as other:
            assert status(lambda: other.unary_unary("/t.T/Echo")(b"", timeout=BOUND_S))[0] is (
                grpc.StatusCode.UNAVAILABLE
            )
        assert not ended.is_set()
        blocking.let_go.set()
        assert future.result(BOUND_S) == b"late"
        assert ended.wait(BOUND_S)
        assert served.server.stop(0).is_set()


@pytest.mark.parametrize("grace_s", [0, 0.2])
def test_stopping_cancels_what_does_not_end(grace_s: float) -> None:
    blocking = Blocking()
    with Served(Block=blocking.handler) as served:
        future = served.future("Block")
        blocking.wait_entered()
        # The handler still runs when all is over, and then has nobody to answer.
        assert served.server.stop(grace_s).wait(BOUND_S)
        assert status(lambda: future.result(BOUND_S))[0] in (
            grpc.StatusCode.CANCELLED,
            grpc.StatusCode.UNAVAILABLE,
        )
        assert blocking.gone.acquire(timeout=BOUND_S)
        blocking.let_go.set()


def test_a_server_that_was_never_started_can_be_stopped(kind: Maker) -> None:
    assert kind({}.get, (), 10).stop(0).is_set()


def test_both_do_all_that_is_asked_of_them(kind: Maker) -> None:
    assert fault_of(kind) == ""


@pytest.mark.slow
def test_stopping_amid_calls() -> None:
    """Whatever happens at the same time: all calls have a status, and the server ends."""
    for _ in range(6):
        codes: set[grpc.StatusCode] = set()
        with Served(Echo=ECHO) as served:
            started = threading.Barrier(5)

            def client(served: Served = served, started: threading.Barrier = started) -> None:
                with served.connect() as channel:
                    stub = channel.unary_unary("/t.T/Echo")
                    stub(b"", timeout=BOUND_S)
                    started.wait(BOUND_S)
                    try:
                        while True:
                            stub(b"", timeout=BOUND_S)
                    except grpc.RpcError as e:
                        error: Any = e
                        codes.add(error.code())  # noqa: B023

            threads = [threading.Thread(target=client) for _ in range(4)]
            for thread in threads:
                thread.start()
            started.wait(BOUND_S)
            assert served.server.stop(0).wait(BOUND_S)
            for thread in threads:
                thread.join(BOUND_S)
            assert not any(t.is_alive() for t in threads)
        assert codes <= {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED, grpc.StatusCode.UNKNOWN}


def test_a_folder_for_temporary_files_with_a_long_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The gate's way in is a unix socket, for whose path the kernel has 107 bytes."""
    folder = tmp_path / ("a" * 60) / ("b" * 60)
    folder.mkdir(parents=True)
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    with Served(Echo=ECHO) as served:
        assert served.call("Echo", b"hello") == b"hello"
        assert not list(folder.iterdir()), "nothing is left in it, whatever becomes of the process"
