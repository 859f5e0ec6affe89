"""Whether the other end of a connection lives: what counts as silence, and what does not."""

from __future__ import annotations

import os
import threading

import pytest

from dtfctl.net import pings
from dtfctl.net.pings import PING_S, SILENT_TICKS, Heart, Pings

WAIT_S = 60.0


def test_an_end_that_says_nothing_for_so_many_ticks_is_silent_unless_something_lies_unread() -> None:
    read, write = os.pipe()
    try:
        line = Pings()
        assert not any(line.tick(read) for _ in range(SILENT_TICKS))
        assert line.tick(read)
        os.write(write, b"x")
        assert not line.tick(read)  # this end has not listened
        os.read(read, 1)
        assert line.tick(read)
        line.silent_ticks = 0
        assert not line.tick(read)
    finally:
        os.close(read)
        os.close(write)


def test_a_ping_is_due_when_nothing_else_was_said() -> None:
    line = Pings()
    line.spoke_at = 100.0
    assert not line.is_due(100.0 + PING_S)
    assert line.is_due(100.5 + PING_S)


class Counted:
    def __init__(self, wrong: bool = False) -> None:
        self.reached = threading.Event()
        self.wrong = wrong
        self.ticks = 0

    def tick(self, now: float) -> None:
        self.ticks += 1
        if self.ticks >= 3:
            self.reached.set()
        if self.wrong:
            raise ValueError("a connection that cannot be ticked")


def test_the_heart_ticks_what_is_there_and_beats_again_after_it_has_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pings, "TICK_S", 0.01)
    heart = Heart()
    for _ in range(2):
        one = Counted()
        heart.add(one)
        assert one.reached.wait(WAIT_S)
        heart.remove(one)
        while heart._beats:  # it ends when it finds nothing to tick
            threading.Event().wait(0.01)


def test_a_connection_that_fails_in_its_tick_does_not_stop_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pings, "TICK_S", 0.01)
    heart, bad, good = Heart(), Counted(wrong=True), Counted()
    heart.add(bad)
    heart.add(good)
    assert good.reached.wait(WAIT_S)
    heart.remove(bad)
    heart.remove(good)
