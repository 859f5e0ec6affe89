"""Every transport does the same: the conformance suite of links between two tasks."""

from __future__ import annotations

import contextlib
import fcntl
import gc
import os
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal

import grpc
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from dtfctl.launcher.identity.certificates import ensure_authority, ensure_certificate
from dtfctl.runtime.framework.errors import InvalidArgumentError, OpError, UnauthenticatedError, UnavailableError
from dtfctl.runtime.framework.tensor_codec import object_array
from dtfctl.runtime.memory.borrowed import Mapping
from dtfctl.runtime.memory.region import Blocks
from dtfctl.runtime.memory.shared_memory import Arena, common_arena
from dtfctl.runtime.rendezvous.frames import BUFFER, Frame, Kind, Message
from dtfctl.runtime.rendezvous.transports import handshake
from dtfctl.runtime.rendezvous.transports.base import Link
from dtfctl.runtime.rendezvous.transports.grpc_stream import METHOD, ClientLink, ServerLink
from dtfctl.runtime.rendezvous.transports.handshake import Door, Joined, TaskTls, connect_tcp, connect_unix
from dtfctl.runtime.rendezvous.transports.joined_link import link_over
from dtfctl.runtime.rendezvous.transports.lane_link import UNSENT
from dtfctl.runtime.rendezvous.transports.lanes import CHUNK, SHORT
from dtfctl.runtime.rendezvous.transports.plain import HEAD, PlainLink
from dtfctl.runtime.rendezvous.transports.sockets import SocketLink
from dtfctl.runtime.services.calls import Call, Stream
from dtfctl.runtime.services.grpc_tools import listen_tcp, new_server
from tests.support.examples import examples
from tests.support.ucx import OVER_UCX, use_ucx
from tests.unit.services.link_owner import BOUND_S, Owner

A, B = "/job:a/replica:0/task:0", "/job:b/replica:0/task:0"
LIVES = {A: 11, B: 22}


class Pair:
    """Two ends of a link in this process; of the same two tasks as another one's, if that is given.

    Args:
        reads: whether B takes what comes; over gRPC it always does.
    """

    def __init__(self, kind: str, folder: Path, before: Pair | None = None, reads: bool = True) -> None:
        self.kind = kind
        self._reads = reads
        self.at_a, self.at_b = (Owner(), Owner()) if before is None else (before.at_a, before.at_b)
        self._stack = contextlib.ExitStack()
        self.a: Any
        self.b: Any
        if kind == "grpc":
            self._over_grpc()
        else:
            self._over_sockets(kind, folder)

    def _over_grpc(self) -> None:
        made: list[ServerLink] = []

        def stream(requests: Iterator[bytes], call: Call) -> Iterator[bytes]:
            made.append(ServerLink(A, LIVES[B], LIVES[A], self.at_b))
            return made[0].serve(requests, call.on_gone)

        server = new_server({METHOD: Stream(stream)}.get)
        port = listen_tcp(server, "127.0.0.1:0", None)
        server.start()
        self._stack.callback(lambda: server.stop(0).wait(5.0))
        channel = self._stack.enter_context(grpc.insecure_channel(f"127.0.0.1:{port}"))
        self.a = ClientLink(channel, A, LIVES[A], B, LIVES[B], self.at_a)
        self.a.start()
        self.a.send((Message(Kind.PING, 0),))
        self.at_b.take(1)
        self.b = made[0]

    def _over_sockets(self, kind: str, folder: Path) -> None:
        is_ucx = kind.startswith("ucx")
        if is_ucx:
            use_ucx(kind)
        tls = contexts(folder) if is_ucx or kind == "tls" else None
        joined: list[Joined] = []
        came = threading.Event()

        def join(connection: Joined, purpose: str) -> None:
            joined.append(connection)
            came.set()

        new_arena = common_arena if kind == "common" else handshake.private_arena
        door: Door[str] = Door(join, new_arena, tls)
        door.listen("127.0.0.1")
        self._stack.callback(door.close)
        offer = door.offer("a")
        mine = (
            connect_tcp(offer, "127.0.0.1", tls, "/job:a/task:0")
            if is_ucx or kind in ("tcp", "tls")
            else connect_unix(offer, new_arena)
        )
        assert came.wait(BOUND_S)
        with ThreadPoolExecutor(1) as pool:
            coming = pool.submit(link_over, mine, B, LIVES[A], LIVES[B], self.at_a, is_ucx)
            self.b = link_over(joined[0], A, LIVES[B], LIVES[A], self.at_b, is_ucx)
            self.a = coming.result(BOUND_S)
        self.a.start()
        if self._reads:
            self.b.start()

    def close(self) -> None:
        self.a.close()
        self.b.close()
        self._stack.close()


def contexts(folder: Path, authority: str = "ca", role: Literal["task", "cli"] = "task", name: str = "a/0") -> TaskTls:
    ensure_authority(folder / authority, "c")
    return TaskTls(ensure_certificate(folder / authority, "c", role, name).identity(), "task.c.dtfctl")


@pytest.fixture(scope="module", params=["grpc", "tcp", "tls", "shm", "common", *OVER_UCX])
def shared_pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    made = Pair(request.param, tmp_path_factory.mktemp("tls"))
    yield made
    made.close()


@pytest.fixture(params=["grpc", "tcp", "tls", "shm", "common", *OVER_UCX])
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Pair]:
    made = Pair(request.param, tmp_path)
    yield made
    made.close()


def tensor(value: Any, key: str = "k;0:0", dead: bool = False, step: int = 5) -> Message:
    return Message(Kind.TENSOR, step, key, value, dead)


def both_ways(pair: Pair) -> list[tuple[Any, Owner]]:
    return [(pair.a, pair.at_b), (pair.b, pair.at_a)]


VALUES: list[Any] = [
    np.float32(3.5),
    np.array(7, np.int64),
    np.arange(12, dtype=np.int16).reshape(3, 4).T,
    np.zeros((0, 5), np.float16),
    np.arange(100_000, dtype=np.float64).reshape(100, 1000),
    np.arange(1_000_000, dtype=np.int32)[::3],
    object_array([b"", b"abc", bytes(300_000)], (3,)),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda v: f"{np.asarray(v).dtype}{np.shape(v)}")
def test_tensors_arrive_as_they_were(shared_pair: Pair, value: Any) -> None:
    for link, other in both_ways(shared_pair):
        link.send((tensor(value),))
        (frame,) = other.take(1)
        assert (frame.kind, frame.step, frame.key, frame.dead) == (Kind.TENSOR, 5, "k;0:0", False)
        assert frame.value.dtype == np.asarray(value).dtype
        assert frame.value.shape == np.shape(value)
        assert np.array_equal(frame.value, value)


def test_dead_tensors_carry_no_value(shared_pair: Pair) -> None:
    for link, other in both_ways(shared_pair):
        link.send((tensor(np.ones(100_000), dead=True), tensor(None, dead=True)))
        assert [(f.dead, f.value) for f in other.take(2)] == [(True, None)] * 2


def test_what_one_thread_sends_stays_in_order(shared_pair: Pair) -> None:
    sizes = [1, 200_000, 2, 50, 70_000, 3] * 6
    for link, other in both_ways(shared_pair):

        def send_all(number: int, to: Any = link) -> None:
            for i, size in enumerate(sizes):
                to.send((tensor(np.full(size, number * 1000 + i), f"{number};0:0"),))

        with ThreadPoolExecutor(3) as pool:
            list(pool.map(send_all, range(3)))
        got: dict[str, list[int]] = {}
        for frame in other.take(3 * len(sizes)):
            assert (frame.value == frame.value[0]).all()
            got.setdefault(frame.key, []).append(int(frame.value[0]))
        assert got == {f"{n};0:0": [n * 1000 + i for i in range(len(sizes))] for n in range(3)}


def test_control_frames_pass_with_their_payload(shared_pair: Pair) -> None:
    for link, other in both_ways(shared_pair):
        link.send(
            (Message(Kind.RUN, 9, "", b"abc"), Message(Kind.CANCEL, 9), Message(Kind.DONE, 9, "", bytes(100_000)))
        )
        assert [(f.kind, f.step, len(f.payload)) for f in other.take(3)] == [
            (Kind.RUN, 9, 3),
            (Kind.CANCEL, 9, 0),
            (Kind.DONE, 9, 100_000),
        ]


def test_a_value_that_cannot_be_sent_stops_no_other(shared_pair: Pair) -> None:
    link, other = shared_pair.a, shared_pair.at_b
    with pytest.raises(InvalidArgumentError, match="too long"):
        link.send((tensor(1, "one;0:0"), tensor(2, "k" * 5000), tensor(3, "three;0:0")))
    assert [f.value for f in other.take(2)] == [1, 3]
    link.send((tensor(4, "three;0:0"),))
    assert [(f.key, f.value) for f in other.take(1)] == [("three;0:0", 4)]


@pytest.mark.slow
def test_sending_never_waits_and_arrays_are_kept_until_they_are_out(pair: Pair) -> None:
    """The receiver reads nothing while 300 MB are sent: what the network does not take stays with the sender."""
    gate = threading.Event()
    first = pair.at_b.received

    def slow(link: Link, frame: Frame) -> None:
        gate.wait(BOUND_S)
        first(link, frame)

    pair.at_b.received = slow  # type: ignore[method-assign]
    pair.a.send((tensor(0),))
    for i in range(10):
        pair.a.send((tensor(np.full(3_750_000, i, np.float64)),))
    gate.set()
    frames = pair.at_b.take(11)
    assert [int(np.max(f.value)) for f in frames] == [0, *range(10)]
    assert all((f.value == i).all() for i, f in enumerate(frames[1:]))


@pytest.fixture(params=["grpc", "tcp", "tls", *OVER_UCX])
def far(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Pair]:
    """A link of tasks that may be on two hosts."""
    made = Pair(request.param, tmp_path)
    yield made
    made.close()


def held_up(pair: Pair) -> threading.Event:
    """Have B read nothing more from now on; what lets it go on."""
    gate = threading.Event()
    received = pair.at_b.received

    def wait(link: Link, frame: Frame) -> None:
        gate.wait(BOUND_S)
        received(link, frame)

    pair.at_b.received = wait  # type: ignore[method-assign]
    pair.a.send((tensor(np.float32(0), "first;0:0"),))
    return gate


def test_short_frames_overtake_long_ones_and_a_key_keeps_its_order(far: Pair) -> None:
    gate = held_up(far)
    long = np.arange(20_000_000, dtype=np.int32)
    far.a.send((tensor(long, "long;0:0"), tensor(np.float32(1), "long;0:0")))
    far.a.send((tensor(np.float32(2), "short;0:0"), Message(Kind.CANCEL, 9)))
    gate.set()
    frames = far.at_b.take(5)
    assert [f.key or f.kind.name for f in frames] == ["first;0:0", "short;0:0", "CANCEL", "long;0:0", "long;0:0"]
    assert np.array_equal(frames[3].value, long)
    assert frames[4].value == 1


def test_what_the_next_step_needs_goes_behind_what_this_one_does(far: Pair) -> None:
    """Though it was begun before, and is a frame of its own that others come into the middle of."""
    gate = held_up(far)
    later, now = np.arange(20_000_000, dtype=np.int32), np.arange(1_000_000, dtype=np.int32)
    far.a.send((tensor(later, "a;1;b;ahead_1_w;0:0"),))
    far.a.send((tensor(now, "a;1;b;edge_2_rows;0:0"),))
    far.a.send((tensor(np.float32(1), "a;1;b;ahead_1_w;0:0"),))
    gate.set()
    frames = far.at_b.take(4)
    assert [f.key.split(";")[3] for f in frames[1:]] == ["edge_2_rows", "ahead_1_w", "ahead_1_w"]
    assert np.array_equal(frames[1].value, now)
    assert np.array_equal(frames[2].value, later)
    assert frames[3].value == 1


def test_long_tensors_go_in_the_order_in_which_they_are_needed(far: Pair) -> None:
    """Whatever has begun before: the last of them comes first, and each goes on where it was overtaken."""
    gate = held_up(far)
    names = ["ahead2_1_a", "ahead_2_b", "later3_3_c", "later1_4_d", "edge_5_e"]
    values = {name: np.arange(n, 3_000_000 + n, dtype=np.int32) for n, name in enumerate(names)}
    for name, value in values.items():
        far.a.send((tensor(value, f"a;1;b;{name};0:0"),))
    gate.set()
    frames = far.at_b.take(1 + len(names))[1:]
    assert [f.key.split(";")[3] for f in frames] == names[::-1]
    assert all(np.array_equal(f.value, values[f.key.split(";")[3]]) for f in frames)


@pytest.mark.parametrize("kind", ["tcp", "tls"])
def test_the_kernel_holds_little_that_a_short_frame_cannot_overtake(kind: str, tmp_path: Path) -> None:
    pair = Pair(kind, tmp_path)
    gate = held_up(pair)
    pair.a.send((tensor(np.zeros(20_000_000, np.int32), "long;0:0"),))
    outq_not_sent = 0x894B  # SIOCOUTQNSD
    held = -1
    while (now := int.from_bytes(fcntl.ioctl(pair.a.fileno(), outq_not_sent, bytes(4)), "little")) != held or not now:
        held = now
        time.sleep(0.2)
    gate.set()
    pair.at_b.take(2)
    pair.close()
    assert held <= UNSENT + CHUNK + BUFFER, held


def test_a_peer_that_does_not_read_delays_no_other(far: Pair, tmp_path: Path) -> None:
    """As many of them as there are threads that send, and more."""
    long = np.zeros(10_000_000, np.int32)
    stuck = [Pair(far.kind, tmp_path, reads=False) for _ in range(6)]
    gates = [held_up(pair) for pair in stuck]
    for pair in stuck:
        pair.a.send((tensor(long),))
    far.a.send((tensor(long + 1),))
    assert (far.at_b.take(1)[0].value == 1).all()
    assert not any(pair.at_b.frames for pair in stuck)
    for gate, pair in zip(gates, stuck, strict=True):
        gate.set()
        pair.close()


def test_the_end_of_a_peer_is_noticed_at_once(pair: Pair) -> None:
    pair.b.close()
    pair.at_a.wait(lambda: pair.at_a.errors)
    assert isinstance(pair.at_a.errors[0], UnavailableError)
    assert B in pair.at_a.errors[0].message
    with pytest.raises(OpError):
        pair.a.send((tensor(1),))
    pair.a.close()
    assert len(pair.at_a.errors) == 1, "an owner is told once"
    assert len(pair.at_b.errors) == 1


def test_a_former_life_is_not_listened_to(pair: Pair) -> None:
    pair.a._writer._sender = 10
    pair.a.send((tensor(1),))
    pair.at_b.wait(lambda: pair.at_b.errors)
    assert "incarnation" in pair.at_b.errors[0].message
    assert pair.at_b.frames == []


def test_a_frame_cut_off_by_the_end_of_the_peer_is_dropped(tmp_path: Path) -> None:
    made = Pair("tcp", tmp_path)
    data = passing([tensor(np.zeros(100_000))])
    made.a._sock.setblocking(True)
    made.a._sock.sendall(data[:-1])
    made.a.close()
    made.at_b.wait(lambda: made.at_b.errors)
    assert made.at_b.frames == []
    made.close()


def passing(messages: list[Message]) -> bytes:
    """What a link without encryption writes for messages to a peer that keeps up."""
    mine, theirs = socket.socketpair()
    link = PlainLink(mine, B, LIVES[A], LIVES[B], Owner())
    link.start()
    parts: list[bytes] = []
    reader = threading.Thread(target=lambda: parts.extend(iter(lambda: theirs.recv(1 << 20), b"")))
    reader.start()
    for message in messages:
        link.send((message,))
    while link._lanes.has_long or link._lanes.short or link._unsent:
        time.sleep(0.001)
    link.close()
    reader.join(BOUND_S)
    theirs.close()
    return b"".join(parts)


@pytest.mark.parametrize("size", [1, 7, 8, 9, 1000, 65_545, 524_288])
def test_frames_of_two_lanes_may_be_cut_anywhere(size: int) -> None:
    """A socket gives as much at a time as it likes; here `size` bytes."""
    long = np.arange(400_000 if size > 100 else 20_000, dtype=np.int32)
    sent = [(long, "long;0:0"), (1, "long;0:0"), (2, "short;0:0"), (long + 1, "other;0:0"), (long[:9000], "x;0:0")]
    data = passing([tensor(np.asarray(value), key) for value, key in sent])
    mine, theirs = socket.socketpair()
    owner = Owner()
    link = PlainLink(theirs, A, LIVES[B], LIVES[A], owner)
    at = 0
    while at < len(data):
        at += mine.send(data[at : at + size], socket.MSG_DONTWAIT)
        link.readable()
    assert not owner.errors
    found = {(f.key, np.asarray(f.value).tobytes()) for f in owner.frames}
    assert found == {(key, np.asarray(value).tobytes()) for value, key in sent}
    assert [np.ndim(f.value) for f in owner.frames if f.key == "long;0:0"] == [1, 0]
    link.close()
    mine.close()


def test_the_longest_short_tensor_passes_in_one_piece() -> None:
    """In two whoever waits for it would wake twice."""
    data = passing([tensor(np.zeros(BUFFER, np.uint8))])
    _, lane, size = HEAD.unpack_from(data)
    assert (lane, HEAD.size + size) == (SHORT, len(data))


@settings(max_examples=examples(40), deadline=None)
@given(st.binary(min_size=1, max_size=400), st.sampled_from([SocketLink, PlainLink]))
def test_garbage_on_a_socket_ends_that_link_only(data: bytes, over: type[SocketLink]) -> None:
    mine, theirs = socket.socketpair()
    owner = Owner()
    link = over(theirs, A, LIVES[B], LIVES[A], owner)
    link.start()
    mine.sendall(data)
    mine.close()
    owner.wait(lambda: owner.errors)
    assert owner.frames == []


def test_a_silent_peer_is_given_up_and_a_talking_one_is_not() -> None:
    mine, theirs = socket.socketpair()
    owner = Owner()
    link = SocketLink(theirs, A, LIVES[B], LIVES[A], owner)
    for _ in range(18):
        link.tick(time.monotonic())
    assert owner.errors == []
    mine.send(b"\xf1")
    for _ in range(30):
        link.tick(time.monotonic())
    assert owner.errors == [], "what it said was not read yet"
    link.readable()
    for _ in range(18):
        link.tick(time.monotonic())
    assert owner.errors == []
    link.tick(time.monotonic())
    assert "silent" in owner.errors[0].message
    mine.close()


# Shared memory --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_long_tensors_lie_in_shared_memory_until_nobody_holds_them(tmp_path: Path) -> None:
    made = Pair("shm", tmp_path)
    made.a.send((tensor(np.arange(1_000_000)), tensor(np.arange(10))))
    long, short = made.at_b.take(2)
    assert not long.value.flags.owndata
    assert made.a.memory.loans.arena.lent >= 8_000_000
    part = long.value[500_000:500_003]
    del long, short
    gc.collect()
    made.b.send((Message(Kind.PING, 0),))
    made.b.send((Message(Kind.DONE, 0),))
    made.at_a.take(1)
    assert made.a.memory.loans.arena.lent >= 8_000_000, "a part of the array is still held"
    assert part.tolist() == [500_000, 500_001, 500_002]
    del part
    gc.collect()
    made.b.send((Message(Kind.DONE, 0),))
    made.at_a.take(1)
    assert made.a.memory.loans.arena.lent == 0
    made.close()


def test_what_does_not_fit_into_shared_memory_goes_through_the_socket(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DTF_SHM_BYTES", str(1 << 20))
    made = Pair("shm", tmp_path)
    made.a.send([tensor(np.full(50_000, i, np.float64)) for i in range(6)])
    frames = made.at_b.take(6)
    assert [bool(f.value.flags.owndata) for f in frames] == [False, False, True, True, True, True]
    assert all((f.value == i).all() for i, f in enumerate(frames))
    made.close()


@pytest.mark.slow
def test_received_arrays_outlive_their_link(tmp_path: Path) -> None:
    made = Pair("shm", tmp_path)
    made.a.send((tensor(np.arange(1_000_000)),))
    (frame,) = made.at_b.take(1)
    made.close()
    del made
    gc.collect()
    assert (frame.value == np.arange(1_000_000)).all()


def test_memory_that_was_not_lent_is_not_taken_back(tmp_path: Path) -> None:
    made = Pair("shm", tmp_path)
    made.b.send((Message(Kind.RELEASE, 0, "", bytes(8)),))
    made.at_a.wait(lambda: made.at_a.errors)
    assert "not lent" in made.at_a.errors[0].message
    made.close()


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.integers(1, 40_000)), max_size=60))
def test_blocks_never_overlap_and_come_back_whole(wanted: list[tuple[bool, int]]) -> None:
    blocks = Blocks(1 << 17)
    held: list[tuple[int, int]] = []
    for take, size in wanted:
        if take:
            at = blocks.take(size)
            if at is not None:
                assert at + size <= 1 << 17
                assert all(at >= b + s or at + size <= b for b, s in held)
                held.append((at, size))
        elif held:
            assert blocks.give(held.pop(size % len(held))[0])
    for at, _ in held:
        assert blocks.give(at)
        assert not blocks.give(at)
    assert blocks.take(1 << 17) == 0


def test_only_sealed_memory_of_the_right_size_is_mapped() -> None:
    arena = Arena(1 << 16)
    with pytest.raises(InvalidArgumentError, match="change its size"):
        Mapping(os.dup(arena.fd), 1 << 17, lambda offset: None)
    plain = os.memfd_create("x")
    os.ftruncate(plain, 1 << 16)
    with pytest.raises(InvalidArgumentError):
        Mapping(plain, 1 << 16, lambda offset: None)
    mapping = Mapping(os.dup(arena.fd), 1 << 16, lambda offset: None)
    for offset, length in ((0, 1 << 17), (1 << 16, 1), (4096, 1 << 16), (4, 8), (-8, 8), (0, 0)):
        with pytest.raises(InvalidArgumentError, match="outside"):
            mapping.array(offset, length)
    arena.close()


# Who may connect ------------------------------------------------------------------------------------------------------


@pytest.fixture
def door(tmp_path: Path) -> Iterator[tuple[Door[str], list[Joined]]]:
    joined: list[Joined] = []
    made: Door[str] = Door(lambda connection, purpose: joined.append(connection))
    made.listen("127.0.0.1")
    yield made, joined
    made.close()
    for connection in joined:
        connection.drop()


def changed(offer: handshake.Offer, **fields: Any) -> handshake.Offer:
    return handshake.Offer(**{**offer.__dict__, **fields})


@pytest.mark.parametrize("over", ["unix", "tcp"])
def test_a_ticket_is_good_for_one_connection(door: tuple[Door[str], list[Joined]], over: str) -> None:
    made, joined = door

    def connect(offer: handshake.Offer) -> Joined:
        return connect_unix(offer) if over == "unix" else connect_tcp(offer, "127.0.0.1", None, "/job:a/task:0")

    offer = made.offer("x")
    connect(offer).drop()
    deadline = time.monotonic() + BOUND_S
    while not joined:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    for wrong in (offer, changed(made.offer("x"), ticket=bytes(16)), changed(made.offer("x"), secret=bytes(32))):
        with pytest.raises((UnauthenticatedError, OSError)):
            connect(wrong).drop()
    assert len(joined) == 1


def test_a_client_that_does_not_know_the_secret_is_not_let_in(door: tuple[Door[str], list[Joined]]) -> None:
    made, joined = door
    offer = made.offer("x")
    with socket.create_connection(("127.0.0.1", offer.port)) as sock:
        sock.sendall(handshake._HELLO.pack(handshake._MAGIC, offer.ticket, bytes(32), 0))
        assert len(sock.recv(1000)) == handshake._REPLY.size
        sock.sendall(bytes(32))
        assert sock.recv(1) == b""
    assert joined == []


@pytest.mark.parametrize("garbage", [b"", b"GET / HTTP/1.1\r\n\r\n", bytes(200), os.urandom(200)])
def test_strangers_are_dropped(door: tuple[Door[str], list[Joined]], garbage: bytes) -> None:
    made, joined = door
    with socket.create_connection(("127.0.0.1", made.port)) as sock:
        sock.settimeout(BOUND_S)
        with contextlib.suppress(OSError):  # it may be closed while this side still talks
            sock.sendall(garbage)
            sock.shutdown(socket.SHUT_WR)
            assert sock.recv(1) == b""
    assert joined == []


def test_tls_needs_the_clusters_certificate_for_a_task(tmp_path: Path) -> None:
    joined: list[Joined] = []
    made: Door[str] = Door(lambda connection, purpose: joined.append(connection), tls=contexts(tmp_path))
    made.listen("127.0.0.1")
    try:
        for other in (None, contexts(tmp_path, "other"), contexts(tmp_path, role="cli")):
            with pytest.raises((UnauthenticatedError, OSError)):
                connect_tcp(made.offer("x"), "127.0.0.1", other, "/job:a/task:0").drop()
        assert joined == []
    finally:
        made.close()


def test_a_tasks_certificate_does_not_pass_for_another_tasks(tmp_path: Path) -> None:
    joined: list[Joined] = []
    a, b = contexts(tmp_path), contexts(tmp_path, name="b/0")
    tasks = {"for a": "/job:a/replica:0/task:0", "for b": "/job:b/replica:0/task:0"}
    made: Door[str] = Door(lambda connection, purpose: joined.append(connection), tls=a, task_of=tasks.__getitem__)
    made.listen("127.0.0.1")
    try:
        with pytest.raises((UnauthenticatedError, OSError)):  # b with the ticket of a
            connect_tcp(made.offer("for a"), "127.0.0.1", b, tasks["for a"]).drop()
        with pytest.raises(ssl.SSLCertVerificationError):  # b is wanted, and a is there
            connect_tcp(made.offer("for a"), "127.0.0.1", a, tasks["for b"]).drop()
        connect_tcp(made.offer("for b"), "127.0.0.1", b, tasks["for a"]).drop()
        deadline = time.monotonic() + BOUND_S
        while not joined and time.monotonic() < deadline:
            time.sleep(0.01)
        assert len(joined) == 1
        joined[0].drop()
    finally:
        made.close()


def test_other_users_may_not_use_the_unix_socket(
    door: tuple[Door[str], list[Joined]], monkeypatch: pytest.MonkeyPatch
) -> None:
    made, joined = door
    offer = made.offer("x")
    monkeypatch.setattr(handshake.os, "getuid", lambda: 12345)
    with pytest.raises((UnauthenticatedError, OSError)):
        connect_unix(offer).drop()
    assert joined == []
