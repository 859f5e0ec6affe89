"""Encrypted links with somebody in the middle, peers that do not read, and forks."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dtfctl.launcher.identity.certificates import ensure_authority, ensure_certificate
from dtfctl.net.records import HEADER, HEADER_SIZE, LANES, LONG, OVERHEAD, SHORT
from dtfctl.runtime.framework.errors import OpError, UnauthenticatedError, UnavailableError
from dtfctl.runtime.rendezvous.frames import Frame, Kind, Message
from dtfctl.runtime.rendezvous.transports import lanes
from dtfctl.runtime.rendezvous.transports.base import Link
from dtfctl.runtime.rendezvous.transports.handshake import Door, Joined, Offer, TaskTls, connect_tcp
from dtfctl.runtime.rendezvous.transports.joined_link import link_over
from dtfctl.runtime.rendezvous.transports.sealed import SealedLink
from tests.unit.services import link_owner
from tests.unit.services.link_owner import BOUND_S

A, B = "/job:a/replica:0/task:0", "/job:b/replica:0/task:0"

Change = Callable[[int, bytes], "list[bytes] | None"]


class Owner(link_owner.Owner):
    """Takes what comes only while its gate is open."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()
        self.gate.set()

    def received(self, link: Link, frame: Frame) -> None:
        self.gate.wait(BOUND_S)
        super().received(link, frame)

    def error(self) -> str:
        self.wait(lambda: self.errors)
        return self.errors[0].message


class Middle:
    """Stands between the two ends and hands on what each says, records one by one.

    Args:
        change: of what the client sends, given a record's number and bytes; what to hand on instead, or None to cut
            the connection.
        and_back: of what the server sends.
    """

    def __init__(self, port: int, change: Change | None = None, and_back: Change | None = None) -> None:
        self._door = socket.create_server(("127.0.0.1", 0))
        self.port = self._door.getsockname()[1]
        self.seen = bytearray()
        self._ends: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._run, args=(port, change, and_back), daemon=True)]
        self._threads[0].start()

    def _run(self, port: int, change: Change | None, and_back: Change | None) -> None:
        client = self._door.accept()[0]
        server = socket.create_connection(("127.0.0.1", port))
        self._ends += [client, server]
        back = threading.Thread(target=self._hand_on, args=(server, client, and_back), daemon=True)
        back.start()
        self._hand_on(client, server, change)
        back.join()

    def _hand_on(self, source: socket.socket, target: socket.socket, change: Change | None) -> None:
        number = 0
        with contextlib.suppress(OSError), source.makefile("rb") as stream:
            while first := stream.read(1):
                if first != b"\x01":  # TLS: type, version, length
                    head = first + stream.read(4)
                    target.sendall(head + stream.read(int.from_bytes(head[3:5], "big")))
                    continue
                head = first + stream.read(HEADER_SIZE - 1)
                record = head + stream.read(HEADER.unpack(head)[3] + OVERHEAD - HEADER_SIZE)
                self.seen += record
                changed = change(number, record) if change is not None else [record]
                number += 1
                if changed is None:
                    break
                for part in changed:
                    target.sendall(part)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._door.close()
        for end in self._ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        self._threads[0].join(BOUND_S)
        for end in self._ends:
            end.close()


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> TaskTls:
    folder: Path = tmp_path_factory.mktemp("ca")
    ensure_authority(folder, "c")
    return TaskTls(ensure_certificate(folder, "c", "task", "a/0").identity(), "task.c.dtfctl")


class World:
    """A door, and links through it."""

    def __init__(self, tls: TaskTls) -> None:
        self.tls = tls
        self.stack = contextlib.ExitStack()
        self.joined: list[Joined] = []
        self.came = threading.Condition()
        self.door: Door[str] = Door(self._join, None, tls, binding_of=lambda purpose: purpose.encode())
        self.door.listen("127.0.0.1")
        self.stack.callback(self.door.close)

    def _join(self, connection: Joined, purpose: str) -> None:
        with self.came:
            self.joined.append(connection)
            self.came.notify_all()

    def connect(self, middle: Middle | None = None, binding: bytes = b"lives") -> Joined:
        offer = self.door.offer("lives")
        if middle is not None:
            self.stack.callback(middle.close)
            offer = Offer(**{**offer.__dict__, "port": middle.port})
        return connect_tcp(offer, "127.0.0.1", self.tls, A, binding)

    def pair(self, change: Change | None = None) -> tuple[SealedLink, SealedLink, Owner, Owner]:
        """Both ends of a link, started, and who is told at each."""
        before = len(self.joined)
        mine = self.connect(Middle(self.door.port, change) if change is not None else None)
        with self.came:
            assert self.came.wait_for(lambda: len(self.joined) > before, BOUND_S)
        at_a, at_b = Owner(), Owner()
        a, b = link_over(mine, B, 11, 22, at_a), link_over(self.joined[before], A, 22, 11, at_b)
        assert isinstance(a, SealedLink)
        assert isinstance(b, SealedLink)
        for link in (a, b):
            link.start()
            self.stack.callback(link.close)
        return a, b, at_a, at_b


@pytest.fixture
def world(tls: TaskTls) -> Iterator[World]:
    made = World(tls)
    with made.stack:
        yield made


def tensor(value: Any, key: str = "k;0:0") -> Message:
    return Message(Kind.TENSOR, 5, key, value)


# Somebody in the middle -----------------------------------------------------------------------------------------------


def flipped(record: bytes, at: int) -> bytes:
    changed = bytearray(record)
    changed[at] ^= 0x10
    return bytes(changed)


WRONG: dict[str, tuple[Change, str]] = {
    "version": (lambda n, r: [flipped(r, 0) if n == 2 else r], "no encrypted record"),
    "type": (lambda n, r: [r[:1] + bytes([SHORT ^ LONG ^ r[1]]) + r[2:] if n == 2 else r], "changed on its way"),
    "zero": (lambda n, r: [flipped(r, 2) if n == 2 else r], "no encrypted record"),
    "length": (lambda n, r: [r[:4] + b"\x01\0\0\0" + r[8:] if n == 2 else r], "changed on its way"),
    "counter": (lambda n, r: [flipped(r, 15) if n == 2 else r], "another order"),
    "ciphertext": (lambda n, r: [flipped(r, HEADER_SIZE) if n == 2 else r], "changed on its way"),
    "tag": (lambda n, r: [flipped(r, len(r) - 1) if n == 2 else r], "changed on its way"),
    "repeated": (lambda n, r: [r, r] if n == 1 else [r], "another order"),
    "left out": (lambda n, r: [] if n == 2 else [r], "another order"),
    "cut inside": (lambda n, r: [r[:-1]] if n == 2 else None if n > 2 else [r], "another order|cut inside|changed"),
    "cut": (lambda n, r: None if n == 2 else [r], "closed the connection"),
    "plain text": (lambda n, r: [b"GET / HTTP/1.1\r\n\r\n" + r] if n == 2 else [r], "no encrypted record"),
}


def test_lanes_are_the_types_that_records_have() -> None:
    assert (lanes.SHORT, lanes.LONG, lanes.LANES) == (SHORT, LONG, LANES)


@pytest.mark.parametrize("what", WRONG)
@pytest.mark.parametrize("size", [3, 500_000])
def test_a_man_in_the_middle_ends_the_link_and_is_not_listened_to(world: World, what: str, size: int) -> None:
    """Record 0 confirms the keys, 1 is the first frame, 2 the second or its beginning."""
    change, error = WRONG[what]
    a, _, at_a, at_b = world.pair(change)
    a.send((tensor(np.float32(1)),))
    at_b.wait(lambda: at_b.frames)
    value = np.full(size, 7, np.int32)
    with contextlib.suppress(OpError):  # the link may have ended before all of it was sent
        a.send((tensor(value, "second;0:0"),))
        a.send((tensor(np.float32(3), "third;0:0"),))
    text = at_b.error()
    assert any(part in text for part in error.split("|")), text
    assert A in text
    with at_b.news:
        wrong = [f for f in at_b.frames[1:] if f.key != "second;0:0" or not np.array_equal(f.value, value)]
    assert wrong == []
    at_a.wait(lambda: at_a.errors)


def test_nothing_readable_passes(world: World) -> None:
    middles: list[Middle] = []

    def remember(port: int, change: Change | None) -> Middle:
        middles.append(Middle(port, change))
        return middles[0]

    mine = world.connect(remember(world.door.port, lambda n, r: [r]))
    with world.came:
        assert world.came.wait_for(lambda: world.joined, BOUND_S)
    at_b = Owner()
    a, b = link_over(mine, B, 11, 22, Owner()), link_over(world.joined[0], A, 22, 11, at_b)
    b.start()
    a.start()
    secret = np.frombuffer(b"a secret of 32 bytes or a little" * 10_000, np.uint8)
    a.send((tensor(secret, "name of a tensor;0:0"), tensor(secret[:64])))
    at_b.wait(lambda: len(at_b.frames) == 2)
    a.close()
    b.close()
    assert len(middles[0].seen) > len(secret)
    assert b"secret" not in middles[0].seen
    assert b"name of" not in middles[0].seen


@pytest.mark.parametrize("at", [0, 1, HEADER_SIZE, -1])
@pytest.mark.parametrize("back", [False, True])
def test_keys_that_are_not_confirmed_are_not_used(world: World, at: int, back: bool) -> None:
    def change(number: int, record: bytes) -> list[bytes]:
        return [flipped(record, at % len(record))]

    middle = Middle(world.door.port, None if back else change, change if back else None)
    if back:
        with pytest.raises((UnauthenticatedError, OSError)):
            world.connect(middle)
    else:
        mine = world.connect(middle)  # the server alone finds out
        mine.sock.settimeout(BOUND_S)
        assert mine.sock.recv(1) == b""
        mine.drop()
    assert world.joined == []


def test_ends_that_do_not_agree_on_who_they_are_have_no_keys(world: World) -> None:
    with pytest.raises(UnauthenticatedError, match="same keys"):
        world.connect(binding=b"former lives")
    assert world.joined == []


# What waits for what --------------------------------------------------------------------------------------------------


def test_a_fork_cannot_send_and_does_not_disturb_its_parent(world: World) -> None:
    a, _, at_a, at_b = world.pair()
    a.send((tensor(np.float32(1)),))
    read, write = os.pipe()
    child = os.fork()
    if not child:
        try:
            try:
                a.send((tensor(np.float32(2)),))
                said = "it went"
            except UnavailableError as e:
                said = e.message
            os.write(write, said.encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        assert "does not outlive a fork" in pipe.read().decode()
    os.waitpid(child, 0)
    a.send((tensor(np.float32(3)),))
    at_b.wait(lambda: len(at_b.frames) == 2)
    assert [f.value for f in at_b.frames] == [1, 3]
    assert at_a.errors == at_b.errors == []


def test_a_link_that_ends_while_it_is_written_to_is_an_error_of_the_link_alone(world: World) -> None:
    a, _, at_a, _ = world.pair()
    write = a._write_out

    def end_meanwhile() -> bool:
        is_written = write()
        a.fail(UnavailableError("the peer has closed the connection"))
        return is_written

    a._write_out = end_meanwhile  # type: ignore[method-assign]
    a.send((tensor(np.ones(100_000, np.float32)),))  # a short one is written with the link's lock held
    assert at_a.error() == "the peer has closed the connection"
    with pytest.raises(OpError, match="has closed"):
        a.send((tensor(np.float32(2)),))


def test_a_client_that_has_nothing_to_encrypt_does_not_import_it() -> None:
    code = "import sys, dtfctl.runtime.client.session; sys.exit('dtfctl.net.records' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=BOUND_S).returncode == 0
