"""One epoll for all links of this process, served by whichever thread has nothing better to do.

At most one thread serves at a time: the leader. A thread that waits for a value becomes the leader if it can, and so
reads the frame it waits for itself; no other thread must wake it. A thread of the reactor's own serves while nobody
waits. It stays away for a moment after a waiting thread has led, since that thread most likely comes back. Work that a
frame starts and that neither waits long nor computes long runs in the reactor's own thread, without a hop. Nobody leads
while it runs; if it runs for long after all, a second thread steps in.
"""

from __future__ import annotations

import logging
import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol

from dtfctl import guard
from dtfctl.net.pings import TICK_S
from dtfctl.runtime.rendezvous.patience import Patience

log = logging.getLogger(__name__)
# How long the reactor's own thread stays away while others lead, and how long the second one looks on.
AWAY_S = 0.002
WATCH_S = 0.1
IDLE_WATCH_S = 1.0
# After work for somebody else came up while a waiting thread led, the own thread does not stay away for this long.
BUSY_S = 0.1


class Watched(Protocol):
    """Something with a file descriptor. Its methods never block and never raise."""

    def fileno(self) -> int: ...

    def readable(self) -> None: ...

    def writable(self) -> None: ...

    def tick(self, now: float) -> None:
        """Called about every `TICK_S` seconds."""


class Slot:
    """An event that happens once, waited for by at most one thread; see `Reactor.wait`."""

    __slots__ = ("_gate", "_is_led", "is_set")

    def __init__(self) -> None:
        self.is_set = False
        self._gate: threading.Lock | None = None
        self._is_led = False

    def set(self) -> None:
        """Note that it has happened. Call once."""
        with REACTOR._lock:
            self.is_set = True
            gate = self._gate
            if gate is not None:
                REACTOR._followers -= 1
        if gate is not None:
            gate.release()
        elif self._is_led:
            REACTOR.wake()


class Reactor:
    """Serves what is watched. All methods may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._watched: dict[int, Watched] = {}
        self._epoll: select.epoll | None = None
        self._wake = -1
        self._leader = 0
        self._polls = False
        self._turns = 0
        self._followers = 0
        self._ready: deque[tuple[Callable[[], None], Callable[[Callable[[], None]], object]]] = deque()
        self._own = 0
        self._is_free = False
        self._yield = False
        self._busy_until = 0.0
        self._next_tick = 0.0
        self._away = threading.Lock()
        self._is_away = False
        # Of those who wait for something of their own, and of the reactor's thread.
        self._waiting = Patience()
        self._serving = Patience()

    # What is watched --------------------------------------------------------------------------------------------------

    def add(self, thing: Watched) -> None:
        """Watch for something to read."""
        with self._lock:
            self._start()
            assert self._epoll is not None
            fd = thing.fileno()
            self._watched[fd] = thing
            self._epoll.register(fd, select.EPOLLIN | select.EPOLLRDHUP)

    def remove(self, thing: Watched) -> None:
        """Stop watching; call before the descriptor is closed."""
        with self._lock:
            fd = thing.fileno()
            if self._watched.get(fd) is thing:
                del self._watched[fd]
                assert self._epoll is not None
                self._epoll.unregister(fd)

    def watch_for_space(self, thing: Watched, wanted: bool) -> None:
        """Call `writable` when the thing can be written to, or no longer."""
        with self._lock:
            fd = thing.fileno()
            if self._watched.get(fd) is thing:
                assert self._epoll is not None
                mask = select.EPOLLIN | select.EPOLLRDHUP | (select.EPOLLOUT if wanted else 0)
                self._epoll.modify(fd, mask)

    def _start(self) -> None:
        if self._epoll is not None:
            return
        self._epoll = select.epoll()
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._epoll.register(self._wake, select.EPOLLIN)
        self._away.acquire()
        guard.forever(self._serve, name="dtf-reactor").start()
        guard.forever(self._stand_in, name="dtf-reactor-2").start()

    # Waiting ----------------------------------------------------------------------------------------------------------

    def wait(self, slot: Slot, lead: bool = True) -> None:
        """Wait until the slot is set.

        Args:
            lead: serve meanwhile; not worth it for a thread that will compute for long afterwards.
        """
        if slot.is_set:
            return
        if self._ready and threading.get_ident() == self._own:
            while self._ready:
                work, elsewhere = self._ready.popleft()
                elsewhere(work)
        gate = self._enter(slot, lead)
        if gate is not None:
            try:
                gate.acquire()
            except BaseException:
                with self._lock:
                    if not slot.is_set:
                        slot._gate = None
                        self._followers -= 1
                raise
        elif slot._is_led:
            try:
                while not slot.is_set:
                    self._turn(TICK_S, slot, self._waiting)
            finally:
                self._leave()

    def _enter(self, slot: Slot, lead: bool) -> threading.Lock | None:
        """Become the leader, or else wait at the returned lock; nothing of both if the slot is set meanwhile."""
        with self._lock:
            if slot.is_set:
                return None
            if lead and not self._leader and self._epoll is not None:
                self._leader = threading.get_ident()
                slot._is_led = True
                return None
            gate = slot._gate = threading.Lock()
            gate.acquire()
            self._followers += 1
            if lead:
                self._yield = True
            if not self._leader and self._is_away:
                self._call_back()
            return gate

    def _leave(self) -> None:
        with self._lock:
            self._leader = 0
            if self._is_away and (self._followers or time.monotonic() < self._busy_until):
                self._call_back()

    def run_soon(self, work: Callable[[], None], elsewhere: Callable[[Callable[[], None]], object]) -> None:
        """Have short work run, in the reactor's own thread once all that has arrived is read.

        Args:
            elsewhere: runs work in another thread. Used when this is another thread than the reactor's own, or that
                is busy, or waits in other such work: two that wait must never wait for each other.
        """
        if self._is_free and threading.get_ident() == self._own:
            self._ready.append((work, elsewhere))
        else:
            self._busy_until = time.monotonic() + BUSY_S
            elsewhere(work)

    def wake(self) -> None:
        """Make the leader look at its slot."""
        if self._polls and threading.get_ident() != self._leader:
            os.eventfd_write(self._wake, 1)

    def _call_back(self) -> None:
        """Have the own thread serve again; call with the lock held, while it is away."""
        self._is_away = False
        self._away.release()

    # Serving ----------------------------------------------------------------------------------------------------------

    def _turn(self, timeout_s: float, slot: Slot | None = None, patience: Patience | None = None) -> None:
        """Wait for events once and handle them; the caller leads. Does not wait when the slot is set.

        Args:
            patience: for looking out before sleeping.
        """
        assert self._epoll is not None
        poll = self._epoll.poll
        self._polls = True
        # Whoever sets a slot looks at `_polls` afterwards, so the slot must be looked at again after it is raised.
        try:
            if slot is not None and slot.is_set:
                events = poll(0)
            else:
                events = (patience.look(poll) if patience is not None else []) or poll(timeout_s)
        finally:
            self._polls = False
        self._turns += 1
        for fd, mask in events:
            thing = self._watched.get(fd)
            if thing is None:
                if fd == self._wake:
                    self._drain()
                continue
            try:
                if mask & ~select.EPOLLOUT:
                    thing.readable()
                if mask & select.EPOLLOUT:
                    thing.writable()
            except Exception:
                guard.note("a connection that is served")
                self.remove(thing)

    def _drain(self) -> None:
        try:
            os.eventfd_read(self._wake)
        except BlockingIOError:
            return

    def _tick(self) -> None:
        now = time.monotonic()
        if now < self._next_tick:
            return
        self._next_tick = now + TICK_S
        for thing in list(self._watched.values()):
            try:
                thing.tick(now)
            except Exception:
                guard.note("what a connection does by the clock")
                self.remove(thing)

    def _take_lead(self) -> bool:
        with self._lock:
            if self._leader:
                return False
            self._leader = threading.get_ident()
            return True

    def _serve(self) -> None:
        """Serve the links from the reactor's own thread."""
        self._own = threading.get_ident()
        if self._leader == self._own:
            self._leave()  # it is called again
        while True:
            if not self._take_lead():
                self._stay_away()
                continue
            self._yield = False
            while not self._ready:
                self._is_free = True
                self._turn(TICK_S, None, self._serving)
                self._is_free = False
                self._tick()
                if self._yield and not self._followers and time.monotonic() >= self._busy_until:
                    break
            self._leave()
            if not self._ready:
                self._stay_away()
            while self._ready:
                try:
                    self._ready.popleft()[0]()
                except Exception:
                    guard.note("a step that is run")

    def _stay_away(self) -> None:
        """Stay away until nobody has led for a moment, or somebody needs this thread."""
        turns = -1
        while turns != self._turns or self._leader:
            turns = self._turns
            with self._lock:
                if self._followers and not self._leader:
                    return
                self._is_away = True
            if self._away.acquire(timeout=AWAY_S):
                return
            with self._lock:
                called = not self._is_away
                self._is_away = False
            if called:
                self._away.acquire()
                return
            self._tick()

    def _stand_in(self) -> None:
        """Lead, from the second thread, while the own one is held up by what it runs."""
        turns = -1
        while True:
            active = turns != self._turns
            turns = self._turns
            time.sleep(WATCH_S if active else IDLE_WATCH_S)
            if turns != self._turns or self._leader or self._is_away or not self._take_lead():
                continue
            try:
                while not self._is_away:
                    self._turn(AWAY_S)
                    self._tick()
            finally:
                self._leave()


REACTOR = Reactor()
