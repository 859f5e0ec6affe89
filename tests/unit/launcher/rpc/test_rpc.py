"""Calls between the launcher's processes: what comes back, what breaks them, and what hostile bytes do."""

from __future__ import annotations

import contextlib
import itertools
import json
import queue
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dtfctl._version import VERSION
from dtfctl.launcher.errors import Conflict, InternalError, OtherVersion
from dtfctl.launcher.identity.certificates import TlsFiles, ensure_authority, ensure_certificate
from dtfctl.launcher.messages import codec
from dtfctl.launcher.messages.agent import (
    Applied,
    ProbeReply,
    ProbeRequest,
    ReadLogsReply,
    ReadLogsRequest,
    Script,
)
from dtfctl.launcher.messages.agent_calls import EXEC, FETCH, PROBE, PUT_SCRIPT, READ_LOGS
from dtfctl.launcher.messages.commands import (
    EndOfInput,
    ExecInput,
    ExecOutput,
    Exited,
    Input,
    Output,
)
from dtfctl.launcher.messages.files import Content, Done, FetchRequest, FilePart, TotalBytes
from dtfctl.launcher.rpc.client import Channel
from dtfctl.launcher.rpc.connection import (
    CALL,
    END,
    ERROR,
    HEAD,
    LARGEST,
    MESSAGE,
    Connection,
)
from dtfctl.launcher.rpc.method import PeerUnavailable
from dtfctl.launcher.rpc.server import Call, Server, caller, serve
from dtfctl.net import pings
from dtfctl.net.admission import Limits
from dtfctl.net.tls_socket import Broken
from tests.support.mutation import mutated

WAIT_S = 60.0


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("certificates")
    ensure_authority(made, "t")
    for role in ("agent", "controller", "task"):
        ensure_certificate(made, "t", role)
    return made


Serving = Callable[..., Channel]


@pytest.fixture
def serving(folder: Path) -> Iterator[Serving]:
    """Serves handlers, and gives a channel to them; `.server` of it is the server."""
    with contextlib.ExitStack() as stack:

        def start(handlers: dict[Any, Any], role: str = "controller") -> Channel:
            server = serve(handlers, TlsFiles.of(folder, "agent"))
            stack.callback(server.stop, 0)
            channel = Channel(f"127.0.0.1:{server.port}", TlsFiles.of(folder, role), "agent", "t")
            stack.callback(channel.close)
            channel.server = server  # type: ignore[attr-defined]
            return channel

        yield start


def server_of(channel: Channel) -> Server:
    found: Server = channel.server  # type: ignore[attr-defined]
    return found


def wire_to(channel: Channel, folder: Path) -> Connection:
    """A connection of one's own, past the handshake."""
    sock = socket.create_connection(("127.0.0.1", server_of(channel).port), WAIT_S)
    connection = Connection(sock, TlsFiles.of(folder, "controller").identity().client_context(), "agent.t.dtfctl")
    connection.handshake(WAIT_S)
    return connection


def answer(request: ProbeRequest) -> ProbeReply:
    return ProbeReply(problem=caller())


def wait_until(condition: Callable[[], Any], what: str) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


# ---------------------------------------------------------------- calls


def test_calls_use_one_connection_again(serving: Serving) -> None:
    channel = serving({PROBE: answer})
    came_from = {channel.call(PROBE, ProbeRequest(), timeout_s=WAIT_S).problem for _ in range(5)}
    assert len(came_from) == 1
    assert came_from.pop().startswith("127.0.0.1:")


def test_calls_of_many_threads_do_not_wait_for_each_other(serving: Serving) -> None:
    everybody = threading.Barrier(8)

    def meet(request: ProbeRequest) -> ProbeReply:
        everybody.wait(WAIT_S)
        return ProbeReply(problem="met")

    channel = serving({PROBE: meet})
    replies: list[str] = []
    callers = [
        threading.Thread(target=lambda: replies.append(channel.call(PROBE, ProbeRequest(), timeout_s=WAIT_S).problem))
        for _ in range(8)
    ]
    for thread in callers:
        thread.start()
    for thread in callers:
        thread.join(WAIT_S)
    assert replies == ["met"] * 8


def test_large_messages_pass_whole(serving: Serving) -> None:
    content = random.Random(1).randbytes(5 * 2**20 + 7)
    seen: list[Script] = []
    channel = serving({PUT_SCRIPT: lambda script: seen.append(script) or Applied(revision=3)})
    assert channel.call(PUT_SCRIPT, Script("s", "0", content), timeout_s=WAIT_S).revision == 3
    assert seen[0].content == content


def test_an_error_keeps_its_class_and_hint_and_the_connection_lives(serving: Serving) -> None:
    def refuse(request: ProbeRequest) -> ProbeReply:
        raise Conflict("not now", "later")

    channel = serving({PROBE: refuse, PUT_SCRIPT: lambda _: 1 / 0, READ_LOGS: lambda _: ReadLogsReply()})
    with pytest.raises(Conflict, match="not now") as caught:
        channel.call(PROBE, ProbeRequest(), timeout_s=WAIT_S)
    assert caught.value.hint == "later"
    with pytest.raises(InternalError, match="ZeroDivisionError"):
        channel.call(PUT_SCRIPT, Script("s", "0"), timeout_s=WAIT_S)
    channel.call(READ_LOGS, ReadLogsRequest(), timeout_s=WAIT_S)


def test_who_may_not_call_is_told_so(serving: Serving) -> None:
    ran = []
    channel = serving({PROBE: lambda _: ran.append(1), FETCH: lambda _: ran.append(1), EXEC: ran.append}, role="task")
    with pytest.raises(InternalError, match="a task may not call"):
        channel.call(PROBE, ProbeRequest(), timeout_s=WAIT_S)
    with pytest.raises(InternalError, match="a task may not call"):
        list(channel.stream(FETCH, FetchRequest("h")))
    with pytest.raises(InternalError, match="a task may not call"):
        list(channel.talk(EXEC, iter([ExecInput(EndOfInput())])))
    assert not ran


def test_a_call_that_the_server_does_not_know(serving: Serving) -> None:
    with pytest.raises(OtherVersion, match=rf"dtfctl {VERSION}, which has no call '/3/dtf.agent.Agent/Probe'"):
        serving({}).call(PROBE, ProbeRequest(), timeout_s=WAIT_S)


def test_who_speaks_the_protocol_of_an_older_version_is_told_what_to_do(serving: Serving, folder: Path) -> None:
    connection = wire_to(serving({PROBE: answer}), folder)
    connection.send((CALL, b"/dtf.agent.Agent/Probe"), (MESSAGE, b""))
    kind, body = connection.read(WAIT_S)
    said = json.loads(body)
    assert (kind, said["error"]) == (ERROR, "OtherVersion")
    assert "speaks protocol 3 and does not know '/dtf.agent.Agent/Probe'" in said["message"]
    assert "use one version of dtfctl" in said["hint"]
    connection.close()


def test_an_older_process_is_told_from_a_bug(serving: Serving) -> None:
    """It answers as those did that spoke protocol 1, to whatever it is asked."""

    def refuse(request: ProbeRequest) -> ProbeReply:
        raise InternalError("no such call: '/3/dtf.agent.Agent/Probe'")

    with pytest.raises(OtherVersion, match="the other process runs an older dtfctl") as caught:
        serving({PROBE: refuse}).call(PROBE, ProbeRequest(), timeout_s=WAIT_S)
    assert "use one version of dtfctl" in caught.value.hint


def test_a_reply_that_is_not_understood_names_what_it_is(serving: Serving) -> None:
    channel = serving({PROBE: lambda _: Applied(3)})
    assert channel.call(PROBE, ProbeRequest(), timeout_s=WAIT_S).problem == "", "a field that only tells is left out"
    channel = serving({PROBE: lambda _: ProbeReply(problem=3)})  # type: ignore[arg-type]
    with pytest.raises(OtherVersion, match=r"Probe is not understood: ProbeReply\.problem: expected str, got 3"):
        channel.call(PROBE, ProbeRequest(), timeout_s=WAIT_S)


def test_a_server_of_another_role_or_cluster_is_not_called(serving: Serving, folder: Path) -> None:
    port = server_of(serving({PROBE: answer})).port
    for role, cluster in (("controller", "t"), ("agent", "other")):
        channel = Channel(f"127.0.0.1:{port}", TlsFiles.of(folder, "controller"), role, cluster)  # type: ignore[arg-type]
        with pytest.raises(PeerUnavailable, match="TLS"):
            channel.call(PROBE, ProbeRequest(), timeout_s=WAIT_S)
        channel.close()


def test_a_server_that_hangs_costs_a_call_its_deadline_and_no_more(serving: Serving) -> None:
    let_go = threading.Event()

    def hang(request: ProbeRequest) -> ProbeReply:
        let_go.wait(WAIT_S)
        return ProbeReply(problem="late")

    channel = serving({PROBE: hang})
    with pytest.raises(PeerUnavailable, match=r"no answer within 0.2 s"):
        channel.call(PROBE, ProbeRequest(), timeout_s=0.2)
    let_go.set()
    # The late answer is not taken for that of the next call.
    assert channel.call(PROBE, ProbeRequest(), timeout_s=WAIT_S).problem == "late"


def test_a_call_that_was_given_up_is_not_made_later(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    frozen, thawed, over = threading.Event(), threading.Event(), threading.Event()
    answer_one, made = Server._answer, []

    def freeze(self: Server, connection: Connection, role: str, kind: int, body: bytes) -> bool:
        if frozen.is_set():
            thawed.wait(WAIT_S)
        try:
            return answer_one(self, connection, role, kind, body)
        finally:
            if frozen.is_set():
                over.set()

    monkeypatch.setattr(Server, "_answer", freeze)
    channel = serving({PROBE: lambda request: made.append(1) or ProbeReply()})
    channel.call(PROBE, ProbeRequest(), timeout_s=WAIT_S)
    frozen.set()
    with pytest.raises(PeerUnavailable):
        channel.call(PROBE, ProbeRequest(), timeout_s=0.2)
    thawed.set()
    wait_until(
        lambda: over.is_set() or not server_of(channel)._connections, "the server has seen that the caller is gone"
    )
    assert made == [1]


def test_a_process_that_takes_connections_and_says_nothing_is_given_up(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        channel = Channel(address, TlsFiles.of(folder, "controller"), "agent", "t")
        with pytest.raises(PeerUnavailable):
            channel.call(PROBE, ProbeRequest(), timeout_s=0.2)
        channel.close()


def test_nobody_listens(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    channel = Channel(f"127.0.0.1:{port}", TlsFiles.of(folder, "controller"), "agent", "t")
    with pytest.raises(PeerUnavailable, match="refused"):
        channel.call(PROBE, ProbeRequest(), timeout_s=WAIT_S)


def test_a_server_that_came_back_is_called_over_a_new_connection(serving: Serving, folder: Path) -> None:
    channel = serving({PROBE: answer})
    first = channel.call(PROBE, ProbeRequest(), timeout_s=WAIT_S).problem
    port = server_of(channel).port
    server_of(channel).stop(0)

    def again() -> Server | None:
        with contextlib.suppress(OSError):
            return serve({PROBE: answer}, TlsFiles.of(folder, "agent"), f"127.0.0.1:{port}")
        return None

    found: list[Server] = []
    wait_until(lambda: found or [found.append(s) for s in [again()] if s], "the port is free again")
    try:
        assert channel.call(PROBE, ProbeRequest(), timeout_s=WAIT_S).problem != first
    finally:
        found[0].stop(0)


def test_a_server_that_stops_lets_calls_answer(serving: Serving) -> None:
    begun, let_go = threading.Event(), threading.Event()

    def slow(request: ProbeRequest) -> ProbeReply:
        begun.set()
        let_go.wait(WAIT_S)
        return ProbeReply(problem="done")

    channel = serving({PROBE: slow})
    replies: list[str] = []
    asking = threading.Thread(
        target=lambda: replies.append(channel.call(PROBE, ProbeRequest(), timeout_s=WAIT_S).problem)
    )
    asking.start()
    assert begun.wait(WAIT_S)
    stopping = threading.Thread(target=server_of(channel).stop, args=(WAIT_S,))
    stopping.start()
    let_go.set()
    asking.join(WAIT_S)
    stopping.join(WAIT_S)
    assert replies == ["done"]
    with pytest.raises(PeerUnavailable):
        channel.call(PROBE, ProbeRequest(), timeout_s=WAIT_S)


# ---------------------------------------------------------------- streams and talks


def test_a_stream_ends_or_fails_as_its_handler_does(serving: Serving) -> None:
    def parts(request: FetchRequest) -> Iterator[FilePart]:
        for number in range(50):
            yield FilePart(TotalBytes(number))
        if request.path == "bad":
            raise Conflict("it changed")

    channel = serving({FETCH: parts})
    assert [part.what for part in channel.stream(FETCH, FetchRequest("h"))] == [TotalBytes(n) for n in range(50)]
    stream = channel.stream(FETCH, FetchRequest("h", path="bad"))
    assert [next(stream).what for _ in range(50)] == [TotalBytes(n) for n in range(50)]
    with pytest.raises(Conflict, match="it changed"):
        next(stream)


def test_a_stream_that_nobody_reads_any_more_ends_at_the_server(serving: Serving) -> None:
    ended = threading.Event()

    def parts(request: FetchRequest) -> Iterator[FilePart]:
        try:
            while True:
                yield FilePart(Content(bytes(100_000)))
        finally:
            ended.set()

    channel = serving({FETCH: parts})
    stream = channel.stream(FETCH, FetchRequest("h"))
    next(stream)
    stream.close()  # type: ignore[attr-defined]
    assert ended.wait(WAIT_S)


def test_closing_a_channel_breaks_what_waits_on_it(serving: Serving) -> None:
    over = threading.Event()

    def wait(request: FetchRequest) -> Iterator[FilePart]:
        yield FilePart(TotalBytes(1))
        over.wait(WAIT_S)

    channel = serving({FETCH: wait})
    stream = channel.stream(FETCH, FetchRequest("h"))
    next(stream)
    threading.Timer(0.1, channel.close).start()
    with pytest.raises(PeerUnavailable):
        next(stream)
    over.set()


def echo(requests: Iterator[ExecInput], call: Call) -> Iterator[ExecOutput]:
    for request in requests:
        assert isinstance(request.what, Input)
        yield ExecOutput(Output(request.what.data))
    yield ExecOutput(Exited(7))


def test_a_talk_goes_both_ways_at_once(serving: Serving) -> None:
    inputs: queue.Queue[ExecInput | None] = queue.Queue()

    def requests() -> Iterator[ExecInput]:
        while (item := inputs.get()) is not None:
            yield item

    replies = iter(serving({EXEC: echo}).talk(EXEC, requests()))
    for word in (b"a", b"bc"):
        inputs.put(ExecInput(Input(word)))
        assert next(replies).what == Output(word)
    inputs.put(None)
    assert next(replies).what == Exited(7)
    assert next(replies, None) is None


def test_much_in_both_directions_arrives_in_order(serving: Serving) -> None:
    chunks = [random.Random(n).randbytes(200_000) for n in range(60)]
    replies = serving({EXEC: echo}).talk(EXEC, (ExecInput(Input(chunk)) for chunk in chunks))
    got = [reply.what.data for reply in replies if isinstance(reply.what, Output)]
    assert got == chunks


def test_a_handler_that_fails_early_is_heard_although_the_caller_still_sends(serving: Serving) -> None:
    def refuse(requests: Iterator[ExecInput], call: Call) -> Iterator[ExecOutput]:
        next(requests)
        raise Conflict("no space")
        yield

    endless = (ExecInput(Input(bytes(200_000))) for _ in itertools.count())
    with pytest.raises(Conflict, match="no space"):
        list(serving({EXEC: refuse}).talk(EXEC, endless))


@pytest.mark.parametrize("has_unread", [False, True])
def test_the_end_of_a_caller_is_noticed(serving: Serving, has_unread: bool) -> None:
    ended, begun = threading.Event(), threading.Event()

    def hold(requests: Iterator[ExecInput], call: Call) -> Iterator[ExecOutput]:
        call.on_end(ended.set)
        begun.set()
        assert ended.wait(WAIT_S)  # reads none of the requests
        yield from ()

    def requests() -> Iterator[ExecInput]:
        for _ in range(20 if has_unread else 1):
            yield ExecInput(Input(b"x"))
        ended.wait(WAIT_S)

    talk = serving({EXEC: hold}).talk(EXEC, requests())
    assert begun.wait(WAIT_S)
    assert not ended.is_set()
    talk.cancel()
    assert ended.wait(WAIT_S)


@pytest.mark.slow
def test_a_quiet_stream_lives_and_a_frozen_end_breaks_it(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pings, "TICK_S", 0.1)
    monkeypatch.setattr(pings, "PING_S", 0.1)
    monkeypatch.setattr(pings, "SILENT_TICKS", 50)
    quiet = threading.Event()

    def hold(requests: Iterator[ExecInput], call: Call) -> Iterator[ExecOutput]:
        quiet.wait(8.0)
        yield ExecOutput(Exited(0))
        yield ExecOutput(Exited(1))
        quiet.wait(WAIT_S)

    channel = serving({EXEC: hold})
    replies = iter(channel.talk(EXEC, iter([ExecInput(Input(b"x"))])))
    assert next(replies).what == Exited(0)
    assert next(replies).what == Exited(1)
    (frozen,) = server_of(channel)._connections
    frozen.watch(listens=False, speaks=False)
    with pytest.raises(PeerUnavailable, match="has been silent for 18 s"):
        next(replies)
    quiet.set()


# ---------------------------------------------------------------- hostile bytes


HOSTILE = {
    "another protocol": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "no such kind": HEAD.pack(0, 4) + b"abcd",
    "longer than may be": HEAD.pack(MESSAGE, LARGEST + 1),
    "a path without end": HEAD.pack(CALL, 2**31) + b"/",
}


@pytest.mark.parametrize("what", HOSTILE)
def test_bytes_that_are_no_frame_are_refused_in_words(serving: Serving, folder: Path, what: str) -> None:
    channel = serving({PROBE: answer})
    connection = wire_to(channel, folder)
    with connection._write_lock:
        connection._write(HOSTILE[what], None)
    kind, body = connection.read(WAIT_S)
    assert kind == ERROR
    assert b"no frame" in body
    with pytest.raises(Broken):
        connection.read(WAIT_S)
    connection.close()
    assert channel.call(PROBE, ProbeRequest(), timeout_s=WAIT_S).problem


def test_a_message_that_cannot_be_parsed_fails_its_call_alone(serving: Serving, folder: Path) -> None:
    channel = serving({PROBE: answer, PUT_SCRIPT: lambda _: Applied()})
    connection = wire_to(channel, folder)
    for message in (b"\xff\xff\xff", b"", b"\x80", codec.pack(FetchRequest("h"))):
        connection.send((CALL, PUT_SCRIPT.path.encode()), (MESSAGE, message))
        kind, body = connection.read(WAIT_S)
        assert kind == ERROR
        assert b"does not understand the request" in body
    connection.send((CALL, PUT_SCRIPT.path.encode()), (MESSAGE, codec.pack(Script("a", "0"))))
    assert connection.read(WAIT_S)[0] == MESSAGE
    connection.close()


def test_random_frames_do_not_hurt_the_server(serving: Serving, folder: Path) -> None:
    channel = serving({PROBE: answer, FETCH: lambda _: iter([FilePart(Done())]), EXEC: echo})
    rng = random.Random(5)
    paths = [method.path.encode() for method in (PROBE, FETCH, EXEC)]
    messages = [codec.pack(item) for item in (ProbeRequest(), FetchRequest("h", path="x"), ExecInput(Input(b"abc")))]
    for _ in range(90):
        connection = wire_to(channel, folder)
        with contextlib.suppress(Broken, TimeoutError):
            for _ in range(rng.randrange(1, 5)):
                kind = rng.choice([CALL, CALL, MESSAGE, END, ERROR])
                body = rng.choice([*paths, *messages, mutated(rng, rng.choice(messages)), rng.randbytes(40)])
                connection.send((kind, body), within_s=WAIT_S)
        connection.close()
    assert channel.call(PROBE, ProbeRequest(), timeout_s=WAIT_S).problem
    wait_until(lambda: len(server_of(channel)._connections) <= 1, "the server lets go of all of them")


def test_strangers_cannot_take_all_places(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Limits, "of_process", lambda: Limits(4, 4, 1.0))
    channel = serving({PROBE: answer})
    idle = [socket.create_connection(("127.0.0.1", server_of(channel).port), WAIT_S) for _ in range(12)]

    def is_served() -> bool:
        with contextlib.suppress(PeerUnavailable):
            return bool(channel.call(PROBE, ProbeRequest(), timeout_s=WAIT_S).problem)
        return False

    wait_until(is_served, "strangers that say nothing are sent away, and others are served again")
    for sock in idle:
        sock.close()
