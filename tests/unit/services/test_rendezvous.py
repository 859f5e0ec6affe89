"""The table where a step's tensors meet."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from dtfctl.runtime.framework.cancellation import CancellationToken
from dtfctl.runtime.framework.errors import OpError, UnavailableError
from dtfctl.runtime.memory.shared_memory import LEAST
from dtfctl.runtime.rendezvous.frames import Kind, Message
from dtfctl.runtime.rendezvous.local import LocalRendezvous
from dtfctl.runtime.rendezvous.routing import Routes, RoutingRendezvous

TOKEN = CancellationToken()


def test_a_value_waits_for_its_receiver() -> None:
    table = LocalRendezvous()
    table.send("k", 1, False)
    assert table.recv("k", TOKEN) == (1, False)
    assert table.take("k") is None


def test_a_receiver_waits_for_its_value() -> None:
    table = LocalRendezvous()
    got: list[Any] = []
    thread = threading.Thread(target=lambda: got.append(table.recv("k", TOKEN)))
    thread.start()
    table.send("k", 5, True)
    thread.join(60.0)
    assert got == [(5, True)]


def test_each_key_is_first_in_first_out() -> None:
    table = LocalRendezvous()
    for i in range(3):
        table.send("k", i, False)
    table.send("other", 9, False)
    assert [table.recv("k", TOKEN)[0] for _ in range(3)] == [0, 1, 2]
    assert len(table) == 1


def test_receivers_are_served_in_order() -> None:
    table = LocalRendezvous()
    got: list[tuple[str, Any]] = []
    for name in "ab":
        table.recv_async("k", lambda value, dead, error, name=name: got.append((name, value)))
    table.send("k", 1, False)
    table.send("k", 2, False)
    assert got == [("a", 1), ("b", 2)]


def test_abort_fails_who_waits_and_who_comes_later_with_a_derived_error() -> None:
    table = LocalRendezvous()
    got: list[OpError | None] = []
    table.send("kept", 1, False)
    table.recv_async("k", lambda value, dead, error: got.append(error))
    table.abort(UnavailableError("ps is down"))
    table.recv_async("kept", lambda value, dead, error: got.append(error))
    table.send("k", 1, False)
    with pytest.raises(UnavailableError, match="ps is down") as caught:
        table.recv("k", TOKEN)
    assert caught.value.derived
    assert [type(e) for e in got] == [UnavailableError] * 2
    assert all(e is not None and e.derived for e in got)
    assert len(table) == 0


def test_sends_go_where_the_key_says() -> None:
    pushed: list[Any] = []

    class Recorder:
        def send(self, task: str, messages: Sequence[Message]) -> None:
            pushed.append((task, [(m.step, m.value) for m in messages]))

    table = LocalRendezvous()
    here = RoutingRendezvous(table, 3, Routes("/job:w/replica:0/task:1"), Recorder())
    source = "/job:w/replica:0/task:1/device:CPU:0;0000000000000001;"
    here.send(f"{source}/job:w/replica:0/task:1/device:CPU:1;edge;0:0", "near", False)
    here.send(f"{source}/job:w/replica:0/task:11/device:CPU:0;edge;0:0", "far", False)
    here.send("client;x:0", "fetched", False)
    assert pushed == [("/job:w/replica:0/task:11", [(3, "far")])]
    assert len(table) == 2


def test_what_is_held_back_goes_together_before_anybody_waits() -> None:
    pushed: list[Any] = []

    class Recorder:
        def send(self, task: str, messages: Sequence[Message]) -> None:
            pushed.append((task[-1], [m.value for m in messages]))

    table = LocalRendezvous()
    here = RoutingRendezvous(table, 3, Routes("/job:w/replica:0/task:1"), Recorder())
    here.holds_back = True
    key = "/job:w/replica:0/task:1/device:CPU:0;0000000000000001;/job:w/replica:0/task:{}/device:CPU:0;edge{};0:0"
    for number, task in enumerate((2, 3, 2)):
        here.send(key.format(task, number), number, False)
    assert pushed == []
    table.send("x", 5, False)
    assert here.recv("x", CancellationToken()) == (5, False)
    assert pushed == [], "nothing is waited for yet"
    threading.Timer(0.05, lambda: table.send("y", 6, False)).start()
    assert here.recv("y", CancellationToken()) == (6, False)
    assert pushed == [("2", [0, 2]), ("3", [1])]
    here.send(key.format(2, 7), 7, False)
    assert here.flush("/job:w/replica:0/task:2", Message(Kind.DONE, 3, "", "last"))
    assert pushed[2:] == [("2", [7, "last"])]
    assert not here.flush("/job:w/replica:0/task:2", Message(Kind.DONE, 3, "", "last")), "nothing to go with"


def test_a_long_tensor_is_not_held_back_and_takes_along_what_was() -> None:
    pushed: list[Any] = []

    class Recorder:
        def send(self, task: str, messages: Sequence[Message]) -> None:
            pushed.append((task[-1], [np.size(m.value) for m in messages]))

    here = RoutingRendezvous(LocalRendezvous(), 3, Routes("/job:w/replica:0/task:1"), Recorder())
    here.holds_back = True
    key = "/job:w/replica:0/task:1/device:CPU:0;0000000000000001;/job:w/replica:0/task:{}/device:CPU:0;edge{};0:0"
    long = np.zeros(LEAST, np.uint8)
    for number, (task, value) in enumerate([(2, long[1:2]), (3, long[1:4]), (2, long), (2, long[1:])]):
        here.send(key.format(task, number), value, False)
    assert pushed == [("2", [1, LEAST])]
    here.flush()
    assert pushed[1:] == [("3", [3]), ("2", [LEAST - 1])]


def test_the_first_of_several_values_that_is_there() -> None:
    table = LocalRendezvous()
    threading.Timer(0.05, lambda: table.send("b", 5, False)).start()
    assert table.first(["a", "b", "c"], TOKEN) == 1
    table.send("a", 6, False)
    assert table.first(["c", "b", "a"], TOKEN) == 1, "the first in the list of those that are there"
    assert table.recv("b", TOKEN) == (5, False)
    assert table.first(["c", "b", "a"], TOKEN) == 2
    assert table.recv("a", TOKEN) == (6, False)
    threading.Timer(0.05, lambda: table.send("c", 7, False)).start()
    assert table.first(["a", "b", "c"], TOKEN) == 2
    assert not table._watching


def test_who_waits_for_the_first_of_several_values_sees_the_step_end() -> None:
    table = LocalRendezvous()
    threading.Timer(0.05, lambda: table.abort(UnavailableError("ps is down"))).start()
    at = table.first(["a", "b"], TOKEN)
    with pytest.raises(UnavailableError, match="ps is down"):
        table.recv(["a", "b"][at], TOKEN)
    assert table.first(["a", "b"], TOKEN) == 0
    assert not table._watching


def test_what_is_held_back_goes_before_the_first_of_several_values_is_waited_for() -> None:
    pushed: list[Any] = []

    class Recorder:
        def send(self, task: str, messages: Sequence[Message]) -> None:
            pushed.append([m.value for m in messages])
            table.send("y", 8, False)

    table = LocalRendezvous()
    here = RoutingRendezvous(table, 3, Routes("/job:w/replica:0/task:1"), Recorder())
    here.holds_back = True
    key = "/job:w/replica:0/task:1/device:CPU:0;0000000000000001;/job:w/replica:0/task:2/device:CPU:0;edge;0:0"
    here.send(key, 4, False)
    table.send("x", 5, False)
    assert here.first(["y", "x"], TOKEN) == 1
    assert pushed == [], "nothing is waited for yet"
    here.recv("x", TOKEN)
    assert here.first(["y", "x"], TOKEN) == 0
    assert pushed == [[4]]
