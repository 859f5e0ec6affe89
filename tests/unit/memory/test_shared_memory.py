"""Tensors that lie where other tasks of the host see them: who may write there, and when such memory is free again."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.device import Device
from dtfctl.runtime.framework.errors import InvalidArgumentError, UnavailableError
from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.kernels.variable import Variable
from dtfctl.runtime.memory import region, shared_memory
from dtfctl.runtime.memory.borrower import Borrower
from dtfctl.runtime.memory.shared_memory import Arena, Loans, Place, common_arena
from dtfctl.runtime.rendezvous.frames import Frame, FrameReader, FrameWriter, Kind, Message
from dtfctl.runtime.rendezvous.reactor import REACTOR
from dtfctl.runtime.rendezvous.transports.handshake import Door, Joined
from dtfctl.runtime.rendezvous.transports.sockets import SocketLink
from dtfctl.runtime.services import worker
from tests.support.examples import examples
from tests.unit.services.test_transports import BOUND_S, LIVES, A, B, Owner, Pair, tensor

SIZE = 100_000


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    made = Pair("common", tmp_path)
    yield made
    made.close()


def variable(value: Any) -> Variable:
    made = Variable(dtypes.as_dtype(value.dtype), TensorShape(value.shape), "v")
    made.assign(value)
    return made


def passed_on(pair: Pair) -> None:
    """What b does not hold any more, a knows of."""
    gc.collect()
    pair.b.send((Message(Kind.DONE, 0),))
    pair.at_a.take(1)


def send(pair: Pair, value: Any) -> Any:
    pair.a.send((tensor(value),))
    (frame,) = pair.at_b.take(1)
    return frame.value


def blocks(link: Any) -> set[int]:
    """What the peer of a link was lent."""
    return {block for block, _, _ in link.memory.loans._held.values()}


def address(array: Any) -> int:
    return region.address(array)


def test_a_variable_that_was_sent_stays_where_the_other_task_sees_it(pair: Pair) -> None:
    v = variable(np.arange(SIZE, dtype=np.float32))
    assert (send(pair, v.read()) == np.arange(SIZE)).all()
    assert common_arena().owns(v.read())
    first, second = send(pair, v.read()), send(pair, v.read())
    assert blocks(pair.a) == {common_arena().block_of(v.read())}, "nothing is copied for the second and the third time"
    assert (first == v.read()).all()
    assert (second == v.read()).all()


def test_an_update_leaves_what_another_task_looks_at(pair: Pair) -> None:
    v = variable(np.zeros(SIZE, np.float32))
    seen = [send(pair, v.read())]
    for i in range(1, 6):
        with v.lock:
            if i % 2:
                v.change(lambda a, i=i: a.fill(i))
            else:
                v.update(lambda now, then: np.add(now, 1, then))
        assert (v.read() == i).all()
        seen.append(send(pair, v.read()))
    assert [set(array.tolist()) for array in seen] == [{i} for i in range(6)]
    assert len({address(array) for array in seen}) == 6


@pytest.mark.slow
def test_an_update_is_in_place_again_once_nobody_looks(pair: Pair) -> None:
    v = variable(np.zeros(SIZE, np.float32))
    held = send(pair, v.read())
    passed_on(pair)
    with v.lock:
        v.update(lambda now, then: np.add(now, 1, then))
    assert (held == 0).all()
    at = address(v.read())
    del held
    passed_on(pair)
    held = send(pair, v.read())
    del held
    passed_on(pair)
    with v.lock:
        v.update(lambda now, then: np.add(now, 1, then))
        v.change(lambda a: a[:1].fill(7))
    assert address(v.read()) == at
    assert v.read()[:2].tolist() == [7, 2]


def test_a_view_somebody_holds_keeps_an_update_away(pair: Pair) -> None:
    v = variable(np.zeros(SIZE, np.float32))
    send(pair, v.read())
    passed_on(pair)
    part = v.read()[10:20]
    with v.lock:
        v.change(lambda a: a.fill(1))
    assert part.tolist() == [0] * 10
    assert v.read()[10] == 1


def test_results_made_there_are_not_copied_to_be_sent(pair: Pair) -> None:
    made = shared_memory.empty((100, 1000), np.dtype(np.float32))
    made[:] = 3
    part = send(pair, made.reshape(-1)[32_000:96_000])
    assert (part == 3).all()
    assert part.shape == (64_000,)
    made[32, 0] = 4
    assert part[0] == 4, "it is the same memory"
    across = send(pair, made.T)
    assert across.shape == (1000, 100)
    assert not np.shares_memory(across, part)
    del part, across
    passed_on(pair)
    assert not blocks(pair.a)


@pytest.mark.parametrize("start", [1, 2])
def test_a_part_of_a_result_arrives_wherever_it_begins(pair: Pair, start: int) -> None:
    result = common_arena().empty((100_000,), np.dtype(np.float32))
    assert result is not None
    result[:] = np.arange(100_000)
    pair.a.send((tensor(result[start:]),))
    np.testing.assert_array_equal(pair.at_b.take(1)[0].value, result[start:])


def test_a_tensor_that_comes_back_was_never_copied(pair: Pair) -> None:
    v = variable(np.arange(SIZE, dtype=np.float32))
    there = send(pair, v.read())
    pair.b.send((tensor(there.reshape(100, 1000)),))
    (frame,) = pair.at_a.take(1)
    assert not blocks(pair.b)
    assert address(frame.value) == address(v.read())
    assert frame.value.shape == (100, 1000)
    back = frame.value
    del there, frame
    passed_on(pair)
    with v.lock:
        v.change(lambda a: a.fill(0))
    assert back[1, 1] == 1001, "who got it back may keep it"


def test_a_tensor_that_comes_back_may_outlive_the_senders(pair: Pair) -> None:
    there = send(pair, np.full(SIZE, 5.0, np.float32))
    pair.b.send((tensor(there),))
    (frame,) = pair.at_a.take(1)
    back = frame.value
    del there, frame
    passed_on(pair)
    others = [shared_memory.empty((SIZE,), np.dtype(np.float32)) for _ in range(3)]
    for other in others:
        other[:] = 0
    assert (back == 5).all()


@pytest.mark.parametrize("place", [Place(0, 400_000, True), Place(4096, 400, True), Place(1 << 19, 400_000, True)])
def test_memory_that_was_not_lent_does_not_come_back(place: Place) -> None:
    arena = Arena(1 << 20)
    loans = Loans(arena)
    held = arena.empty((100_000,), np.dtype(np.float32))
    assert held is not None
    out: list[bytes | memoryview] = []
    FrameWriter(1, 2).write(tensor(np.zeros(place.length // 4, np.float32)), out, place)
    frames: list[Frame] = []
    with pytest.raises(InvalidArgumentError, match="not lent"):
        FrameReader(1, 2, frames.append, None, loans).feed(b"".join(out))
    loans.lend(held)
    if place.offset == 0:
        FrameReader(1, 2, frames.append, None, loans).feed(b"".join(out))
        assert address(frames[0].value) == address(held)
    arena.close()


def test_memory_nobody_needs_goes_back_to_the_system() -> None:
    arena = Arena(1 << 26)

    def used() -> int:
        return os.fstat(arena.fd).st_blocks * 512

    kept = [arena.empty((1 << 20,), np.dtype(np.float32)) for _ in range(3)]
    large = arena.empty((1 << 22,), np.dtype(np.float32))
    for i, array in enumerate([*kept, large]):
        assert array is not None
        array[:] = i
    assert used() == 28 << 20
    array = large = None
    arena.trim()
    assert used() == 12 << 20
    del kept[1]
    arena.trim()
    assert used() == 8 << 20
    assert [(set(a.tolist())) for a in kept if a is not None] == [{0}, {2}]
    again = arena.empty((1 << 22,), np.dtype(np.float32))
    assert again is not None
    again[:] = 5
    assert used() == 24 << 20
    arena.close()


def test_a_job_leaves_no_shared_memory_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "TRIM_S", 0.01)
    arena, device = common_arena(), Device("/job:a/replica:0/task:0/device:CPU:0")

    def used() -> int:
        return os.fstat(arena.fd).st_blocks * 512

    arena.trim()
    before = used()
    made = worker.Worker("/job:a/replica:0/task:0", [device])
    session = made.create_session("s", False, (made.task, 1), "job")
    v = Variable(dtypes.float32, TensorShape([1 << 22]), "v")
    v.assign(shared_memory.empty((1 << 22,), np.dtype(np.float32)))
    v.read()[:] = 1
    session.resources[device.name].create("", "v", v)
    del v
    # A little may have been there.
    assert used() >= before + (14 << 20)
    made.end_job("job")
    pause = threading.Event()
    for _ in range(int(BOUND_S / 0.02)):
        if used() <= before:
            break
        pause.wait(0.02)
    assert used() <= before


PEER = """
import json, sys, time
from dtfctl.runtime.memory.shared_memory import common_arena
from dtfctl.runtime.rendezvous.transports.handshake import Offer, connect_unix
from dtfctl.runtime.rendezvous.transports.sockets import SocketLink
class Owner:
    frames = []
    def received(self, link, frame): self.frames.append(frame); print(int(frame.value[0]), flush=True)
    def ended(self, link, error): print("ended", flush=True)
place, name, ticket, secret = json.loads(sys.argv[1])
offer = Offer(place, name, 0, bytes.fromhex(ticket), bytes.fromhex(secret), False)
joined = connect_unix(offer, common_arena)
link = SocketLink(joined.sock, "a", 22, 11, Owner(), joined.arena, joined.peer_arena)
link.start()
for line in sys.stdin:
    print(Owner.frames[0].value.tolist() == [1.0] * 100_000, flush=True)
"""


def test_what_a_process_was_lent_is_its_own_until_it_ends() -> None:
    came = threading.Event()
    joined: list[Joined] = []

    def join(connection: Joined, purpose: str) -> None:
        joined.append(connection)
        came.set()

    door: Door[str] = Door(join, common_arena)
    door.listen(None)
    offer = door.offer("b")
    said = json.dumps([offer.place, offer.unix_name, offer.ticket.hex(), offer.secret.hex()])
    peer = subprocess.Popen(
        [sys.executable, "-c", PEER, said], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    )
    assert peer.stdin is not None
    assert peer.stdout is not None
    try:
        assert came.wait(BOUND_S)
        owner = Owner()
        link = SocketLink(joined[0].sock, B, LIVES[A], LIVES[B], owner, joined[0].arena, joined[0].peer_arena)
        link.start()
        v = variable(np.ones(SIZE, np.float32))
        link.send((tensor(v.read()),))
        assert peer.stdout.readline() == "1\n"
        link.close()
        assert peer.stdout.readline() == "ended\n"
        for _ in range(8):
            with v.lock:
                v.change(lambda a: np.add(a, 1, a))
            shared_memory.empty((SIZE,), np.dtype(np.float32))[:] = 0
        assert blocks(link)
        print("look", file=peer.stdin, flush=True)
        assert peer.stdout.readline() == "True\n", "it still sees what it was sent"
        peer.kill()
        peer.wait(BOUND_S)
        gone = threading.Event()
        for _ in range(int(BOUND_S / 0.02)):
            if not blocks(link):
                gone.set()
                break
            gone.wait(0.02)
        assert gone.is_set(), "what it held is free once it is dead"
    finally:
        peer.kill()
        peer.wait(BOUND_S)
        door.close()


def soon(condition: Callable[[], Any]) -> None:
    pause = threading.Event()
    for _ in range(int(BOUND_S / 0.02)):
        if condition():
            return
        pause.wait(0.02)
    raise AssertionError("did not become true")


def reconnected(pair: Pair, tmp_path: Path) -> Pair:
    """Another link of the same two lives, once both ends know that the old one is gone."""
    soon(lambda: pair.at_a.errors and pair.at_b.errors)
    return Pair("common", tmp_path, before=pair)


@pytest.mark.parametrize("cut", ["a", "b"])
def test_what_was_lent_over_a_lost_link_is_returned_over_the_next(pair: Pair, tmp_path: Path, cut: str) -> None:
    value = shared_memory.empty((SIZE,), np.dtype(np.float32))
    value[:] = 1
    held = send(pair, value)
    assert len(blocks(pair.a)) == 1
    getattr(pair, cut).close()
    after = reconnected(pair, tmp_path)
    try:
        again = send(after, np.zeros(SIZE, np.float32))
        ticked(after.b)
        assert len(blocks(pair.a)) == 1, "somebody there still looks at it"
        assert common_arena().is_lent(value)
        assert (held == 1).all()
        del held
        gc.collect()
        ticked(after.b)
        soon(lambda: not blocks(pair.a))
        assert not common_arena().is_lent(value)
        assert (again == 0).all()
        assert len(blocks(after.a)) == 1, "what the new link lent is not meant"
        after.a.send((tensor(np.ones(10, np.float32)),))
        after.at_b.take(1)
    finally:
        after.close()


def test_what_was_lent_and_never_read_is_returned_over_the_next_link(pair: Pair, tmp_path: Path) -> None:
    value = shared_memory.empty((SIZE,), np.dtype(np.float32))
    REACTOR.remove(pair.b)
    pair.a.send((tensor(value),))
    assert len(blocks(pair.a)) == 1
    pair.b.close()
    after = reconnected(pair, tmp_path)
    try:
        ticked(after.b)
        soon(lambda: not blocks(pair.a))
    finally:
        after.close()


@pytest.mark.slow
def test_who_has_not_noticed_the_loss_believes_the_peer(pair: Pair, tmp_path: Path) -> None:
    value = shared_memory.empty((SIZE,), np.dtype(np.float32))
    send(pair, value)
    gc.collect()
    REACTOR.remove(pair.a)
    pair.b.close()
    after = Pair("common", tmp_path, before=pair)
    try:
        ticked(after.b)
        after.b.send((Message(Kind.DONE, 7),))
        after.at_a.take(1)
        pair.a.close()
        assert not blocks(pair.a)
    finally:
        after.close()


def test_a_mapping_that_has_ended_shows_nothing_more(pair: Pair) -> None:
    value = shared_memory.empty((SIZE,), np.dtype(np.float32))
    send(pair, value)
    pair.b.close()
    with pytest.raises(UnavailableError):
        pair.b.memory.mapping.array(0, 8)


def test_a_peer_cannot_return_what_another_link_lent(pair: Pair) -> None:
    pair.b.send((Message(Kind.RETURNED, 12345),))
    soon(lambda: pair.at_a.errors)
    assert "never was" in str(pair.at_a.errors[0])


def test_a_process_that_returned_everything_is_not_watched_any_more() -> None:
    peer = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    arena = Arena(1 << 20)
    try:
        pidfd = os.pidfd_open(peer.pid)
        borrower, loans = Borrower(pidfd, REACTOR), Loans(arena)
        assert loans.lend(np.zeros(SIZE, np.float32)) is not None
        borrower.outlive(loans)
        borrower.tick(0.0)
        os.fstat(pidfd)
        loans.end()
        borrower.tick(0.0)
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(pidfd)
        borrower.tick(0.0)
        assert not arena.lent
    finally:
        peer.kill()
        peer.wait(BOUND_S)
        arena.close()


def ticked(link: Any) -> None:
    """A second has gone by for a link."""
    link.tick(time.monotonic())


@pytest.mark.slow
@settings(max_examples=examples(100), deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["make", "drop", "lend", "back"]), st.integers(1, 9)), max_size=40))
def test_no_block_is_given_to_two(actions: list[tuple[str, int]]) -> None:
    arena = Arena(1 << 20)
    loans = Loans(arena)
    held: list[tuple[Any, int]] = []
    lent: list[tuple[int, int, int]] = []
    for number, (action, size) in enumerate(actions):
        if action == "make":
            array = arena.empty((size * 10_000,), np.dtype(np.uint8))
            if array is not None:
                array[:] = number
                held.append((array, number))
        elif action == "drop" and held:
            del held[size % len(held)], array
            array = None
        elif action == "lend" and held:
            array, value = held[size % len(held)]
            place = loans.lend(array)
            assert place is not None
            lent.append((place.offset, place.length, value))
        elif action == "back" and lent:
            assert loans.take_back(lent.pop(size % len(lent))[0])
        array = None
        for array, value in held:
            assert (array == value).all()
        array = None
        for offset, length, value in lent:
            assert (loans.array(offset, length) == value).all()
    held.clear()
    for offset, _, _ in lent:
        assert loans.take_back(offset)
    whole = arena.empty((1 << 20,), np.dtype(np.uint8))
    assert whole is not None, "all of it is free again"
    arena.close()
