"""Variables, what holds their values, and what is lent of them, as one machine: whatever happens in whatever order.

Variables are assigned, updated, read, sent to peers and sent back, snapshots are taken and read, links and processes
end with what came over them still in use, and memory is trimmed. A model in numpy says what everybody who has a value
must see, always. At the end nothing is held any more, and all memory must be free.
"""

from __future__ import annotations

import gc
import itertools
import os
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from dtfctl.runtime.checkpoint.direct import PAGE
from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.errors import UnavailableError
from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.kernels.variable import Variable
from dtfctl.runtime.memory import shared_memory
from dtfctl.runtime.memory.borrower import Borrower
from dtfctl.runtime.memory.held_value import change_all
from dtfctl.runtime.memory.link_memory import LinkMemory
from dtfctl.runtime.memory.region import address
from dtfctl.runtime.memory.remains import Remains
from dtfctl.runtime.memory.shared_memory import Arena
from tests.support.waiting import eventually

ROWS, WIDTH = 17, 1500  # some pages, and a part of one; above what travels in shared memory
VARIABLES, PEERS = 3, 2
ROOM = 12
"""Values that the arena has room for: so it is full every now and then."""
names = itertools.count()
which = st.integers(0, 99)
number = st.integers(1, 9).map(np.float32)


@dataclass
class Seen:
    """Somebody has a value, and what it was when he got it."""

    array: Any
    right: Any
    peer: int = -1


@dataclass
class Watcher:
    """Whose end is waited for."""

    watched: list[Borrower] = field(default_factory=list)

    def add(self, thing: Borrower) -> None:
        self.watched.append(thing)

    def remove(self, thing: Borrower) -> None:
        self.watched.remove(thing)

    def time_goes_by(self) -> None:
        for borrower in [*self.watched]:
            borrower.tick(0.0)


class Peer:
    """Another task, and the two ends of the link to it."""

    def __init__(self, arena: Arena) -> None:
        self.arena = arena
        self.its_arena = Arena(1 << 16, is_common=True)
        self.watcher = Watcher()
        self.its_watcher = Watcher()
        self.begin()

    def begin(self) -> None:
        """Begin a life of the task."""
        self.remains, self.its_remains = Remains(1), Remains(1)
        self.connect()

    def connect(self) -> None:
        name = next(names)
        # The descriptors stand for the processes at the other ends.
        here, there = Borrower(os.dup(0), self.watcher), Borrower(os.dup(0), self.its_watcher)
        self.here = LinkMemory(self.arena, (os.dup(self.its_arena.fd), self.its_arena.size), here, self.remains, name)
        self.there = LinkMemory(self.its_arena, (os.dup(self.arena.fd), self.arena.size), there, self.its_remains, name)

    def disconnect(self, *, is_early: bool) -> None:
        """End the link; what is on the way over it is lost. The ends find out one after the other."""
        self.there.end()
        if is_early:
            self.tell()
        self.here.end()

    def die(self) -> None:
        """End the process; nobody there has anything any more."""
        self.here.end()
        for borrower in [*self.watcher.watched]:
            borrower.readable()
        assert not self.watcher.watched and not self.here.loans

    def tell(self) -> None:
        """Say over the link there is which of the ended ones nothing is left of."""
        for name in self.there.take_idle():
            self.here.returned(name)

    def deliver(self) -> None:
        has_released = bool(self.there.released)
        released = self.there.take_released()
        assert has_released or not released
        self.here.take_back(released)

    def close(self) -> None:
        """Let go of what a process has when it ends; all is returned."""
        self.watcher.time_goes_by()
        assert not self.watcher.watched and not self.its_watcher.watched
        for end in (self.here, self.there):
            end.end()
        os.close(self.its_arena.fd)


class Memory(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.before = shared_memory._common
        size = -(-ROWS * WIDTH * 4 // PAGE) * PAGE
        self.arena = shared_memory._common = Arena(size * ROOM, is_common=True)
        self.variables: list[Variable] = []
        self.model: list[Any] = []
        self.seen: list[Seen] = []
        self.snapshots: list[Seen] = []
        self.peers = [Peer(self.arena) for _ in range(PEERS)]
        # Those from whose mapping a variable was assigned: here they are one process, and cannot die apart.
        self.entangled: set[int] = set()

    @initialize()
    def begin(self) -> None:
        for i in range(VARIABLES):
            self.variables.append(Variable(dtypes.float32, TensorShape((ROWS, WIDTH)), f"v{i}"))
            self.variables[i].assign(np.full((ROWS, WIDTH), i, np.float32))
            self.model.append(np.full((ROWS, WIDTH), i, np.float32))

    # What is done with variables.

    @rule(at=which, x=number, is_common=st.booleans())
    def assign(self, at: int, x: Any, is_common: bool) -> None:
        """What a step computes lies somewhere, or where it can be sent from."""
        made = shared_memory.empty((ROWS, WIDTH), np.dtype(np.float32)) if is_common else np.empty((ROWS, WIDTH), "f4")
        made[:] = x
        self.variables[at % VARIABLES].assign(made)
        self.model[at % VARIABLES] = np.full((ROWS, WIDTH), x, np.float32)

    @rule(at=which, of=which)
    def assign_the_value_of_another(self, at: int, of: int) -> None:
        self.variables[at % VARIABLES].assign(self.variables[of % VARIABLES].read())
        self.model[at % VARIABLES] = self.model[of % VARIABLES].copy()

    @precondition(lambda self: self.seen)
    @rule(at=which, of=which)
    def assign_what_somebody_has(self, at: int, of: int) -> None:
        """Also what lies in a peer's memory."""
        seen = self.seen[of % len(self.seen)]
        if seen.array.shape == (ROWS, WIDTH):
            self.variables[at % VARIABLES].assign(seen.array)
            self.model[at % VARIABLES] = seen.right.copy()
            self.entangled.add(seen.peer)

    @rule(at=which, x=number)
    def update(self, at: int, x: Any) -> None:
        variable = self.variables[at % VARIABLES]
        with variable.lock:
            variable.update(lambda now, then: np.add(now, x, then))
        self.model[at % VARIABLES] += x

    @rule(at=which, x=number)
    def change(self, at: int, x: Any) -> None:
        variable = self.variables[at % VARIABLES]

        def write(array: Any) -> None:
            array[1:3] *= x

        with variable.lock:
            variable.change(write)
        self.model[at % VARIABLES][1:3] *= x

    @rule(at=which, x=number, rows=st.lists(st.integers(0, ROWS - 1), max_size=4))
    def change_rows(self, at: int, x: Any, rows: list[int]) -> None:
        variable, found = self.variables[at % VARIABLES], np.array(sorted(set(rows)), np.int64)

        def write(array: Any) -> None:
            array[found] += x

        with variable.lock:
            variable.change(write, found)
        self.model[at % VARIABLES][found] += x

    @rule(a=which, b=which, x=number)
    def change_two(self, a: int, b: int, x: Any) -> None:
        """As an optimizer with a slot; the slot may be the variable, or have its value."""

        def write(first: Any, second: Any) -> None:
            first[0] += x
            second[0] += x

        chosen = [self.variables[a % VARIABLES], self.variables[b % VARIABLES]]
        with chosen[0].lock, chosen[1].lock:
            change_all(chosen, write)
        for i in (a, b):
            self.model[i % VARIABLES][0] += x

    @rule(at=which)
    def fail_to_update(self, at: int) -> None:
        def fail(*arrays: Any) -> None:
            raise ValueError("no")

        variable = self.variables[at % VARIABLES]
        with variable.lock, pytest.raises(ValueError, match="no"):
            variable.update(fail)

    # Who has values.

    @rule(at=which, part=st.booleans())
    def read(self, at: int, part: bool) -> None:
        value, right = self.variables[at % VARIABLES].read(), self.model[at % VARIABLES]
        self.seen.append(Seen(value[2:5, ::3], right[2:5, ::3].copy()) if part else Seen(value, right.copy()))

    @precondition(lambda self: self.seen)
    @rule(at=which)
    def let_go(self, at: int) -> None:
        del self.seen[at % len(self.seen)]

    @rule(at=which)
    def take_a_snapshot(self, at: int) -> None:
        variable = self.variables[at % VARIABLES]
        kept = variable.snapshot(variable.read())
        (self.seen if isinstance(kept, np.ndarray) else self.snapshots).append(
            Seen(kept, self.model[at % VARIABLES].copy())
        )

    @precondition(lambda self: self.snapshots)
    @rule(at=which, whole=st.booleans())
    def read_a_snapshot(self, at: int, whole: bool) -> None:
        snapshot = self.snapshots.pop(at % len(self.snapshots))
        if whole:
            out = np.empty(snapshot.array.size, np.uint8)
            middle = snapshot.array.size // 2 // PAGE * PAGE
            snapshot.array.read(0, middle, out[:middle])
            snapshot.array.read(middle, out.size, out[middle:])
            assert (out.view(np.float32).reshape(ROWS, WIDTH) == snapshot.right).all()
        snapshot.array.end()

    # What is lent.

    @rule(at=which, to=which)
    def send(self, at: int, to: int) -> None:
        peer, right = self.peers[to % PEERS], self.model[at % VARIABLES]
        value = self.variables[at % VARIABLES].read()
        if isinstance(value, np.ndarray) and value.flags.c_contiguous:
            place = peer.here.loans.lend(value)
            if place is not None:
                found = peer.there.mapping.array(place.offset, place.length).view(np.float32).reshape(ROWS, WIDTH)
                self.seen.append(Seen(found, right.copy(), to % PEERS))

    @rule(to=which)
    def hear(self, to: int) -> None:
        """What a peer let go of becomes known."""
        self.peers[to % PEERS].deliver()

    @precondition(lambda self: any(s.peer >= 0 for s in self.seen))
    @rule(of=which)
    def send_back(self, of: int) -> None:
        lent = [s for s in self.seen if s.peer >= 0]
        seen = lent[of % len(lent)]
        peer = self.peers[seen.peer]
        place = peer.there.mapping.find(seen.array)
        if place is not None:
            found = peer.here.loans.array(place.offset, place.length)
            assert found is not None
            self.seen.append(Seen(found.view(np.float32).reshape(ROWS, WIDTH), seen.right.copy()))

    @rule(to=which, is_early=st.booleans())
    def lose_a_link(self, to: int, is_early: bool) -> None:
        peer = self.peers[to % PEERS]
        before = peer.there.mapping
        peer.disconnect(is_early=is_early)
        with pytest.raises(UnavailableError):
            before.array(0, 8)
        peer.connect()

    @rule(to=which)
    def lose_a_process(self, to: int) -> None:
        """What it had is free, over however many links it was lent."""
        at = to % PEERS
        if at in self.entangled:
            return
        peer = self.peers[at]
        self.seen = [seen for seen in self.seen if seen.peer != at]
        peer.die()
        peer.begin()

    @rule(to=which)
    def time_goes_by(self, to: int) -> None:
        self.peers[to % PEERS].watcher.time_goes_by()

    @rule(to=which)
    def tell_of_ended_links(self, to: int) -> None:
        self.peers[to % PEERS].tell()

    @rule()
    def trim(self) -> None:
        self.arena.trim()

    # What is always so.

    @invariant()
    def everybody_sees_what_he_got(self) -> None:
        for seen in self.seen:
            assert (seen.array == seen.right).all()
        for variable, right in zip(self.variables, self.model):
            assert (variable.read() == right).all()

    @invariant()
    def no_two_blocks_are_one(self) -> None:
        blocks = self.arena._blocks
        parts = sorted([*blocks.free, *blocks._taken.items()])
        assert all(a + length == b for (a, length), (b, _) in itertools.pairwise(parts))
        assert parts[0][0] == 0 and sum(parts[-1]) == self.arena.size

    @precondition(lambda self: not self.snapshots and all(s.peer < 0 for s in self.seen))
    @rule(at=which, x=number)
    def update_what_nobody_has(self, at: int, x: Any) -> None:
        """It costs no copy."""
        self.seen.clear()
        self.give_up_loans()
        places = []
        for _ in range(3):
            self.update(at, x)
            places.append(address(self.variables[at % VARIABLES].read()))
        assert places[1] == places[2]

    def give_up_loans(self) -> None:
        gc.collect()
        for peer in self.peers:
            peer.deliver()
            peer.tell()

    def nothing_is_left(self) -> bool:
        """Another thread may be in the middle of collecting garbage that holds a value."""
        self.give_up_loans()
        self.arena.trim()
        return self.arena.lent == 0 and (not self.variables or self.arena._blocks.free == [(0, self.arena.size)])

    def teardown(self) -> None:
        try:
            self.seen.clear()
            for snapshot in self.snapshots:
                snapshot.array.end()
            self.snapshots.clear()
            for variable in self.variables:
                variable.close()
            gc.collect()
            eventually(self.nothing_is_left)
            for peer in self.peers:
                peer.close()
        finally:
            shared_memory._common = self.before
            os.close(self.arena.fd)


def _case(steps: int, examples: int) -> Any:
    case = Memory.TestCase
    case.settings = settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        # To make a failure shorter takes many minutes, and the seed is told.
        phases=[Phase.explicit, Phase.reuse, Phase.generate],
        print_blob=True,
    )
    return case


@pytest.mark.slow
@pytest.mark.parametrize(
    ("steps", "examples"), [(40, 25), pytest.param(120, 1_500, marks=pytest.mark.nightly)], ids=["short", "long"]
)
def test_everybody_sees_what_he_got_and_nothing_is_left(steps: int, examples: int) -> None:
    gc.collect()
    gc.freeze()  # each of the many collections would walk through all that other tests have made
    _case(steps, examples)("runTest").runTest()


def test_what_is_left_of_links_is_returned_in_any_order() -> None:
    """A second link that ended before anything was said of the first, of which nothing was lent any more."""
    arena = Arena(1 << 20, is_common=True)
    peer = Peer(arena)
    for _ in range(3):
        peer.disconnect(is_early=False)
        peer.connect()
    peer.tell()
    peer.tell()
    peer.close()
    os.close(arena.fd)
