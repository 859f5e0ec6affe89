"""Requests computed together: by whom, with whom, and what becomes of them when a copy is lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dtfctl.runtime as tf
from dtfctl.runtime.framework.errors import AbortedError, DeadlineExceededError, InvalidArgumentError, UnavailableError
from dtfctl.serve import batching
from dtfctl.serve.batching import Batcher
from dtfctl.serve.signatures import Port, Signature
from tests.support.waiting import wait_until

SIGNATURE = Signature(
    "s", "", (Port("x", "x:0", tf.float32, (None, None)),), (Port("y", "y:0", tf.float32, (None,)),), True
)


class Summing:
    """A copy that adds up each row, and holds steps back until it is told."""

    def __init__(self, fails: Callable[[np.ndarray[Any, Any]], None] = lambda _x: None) -> None:
        self.batches: list[int] = []
        self.go = threading.Event()
        self.fails = fails

    def run(self, signature: Signature, outputs: tuple[str, ...], values: Any) -> list[np.ndarray[Any, Any]]:
        self.batches.append(len(values["x"]))
        self.go.wait(30)
        self.fails(values["x"])
        return [values["x"].sum(axis=1)]


class Client(threading.Thread):
    def __init__(self, batcher: Batcher, value: Any, patience: float = 60.0) -> None:
        super().__init__()
        self.batcher, self.value, self.patience = batcher, np.asarray(value, np.float32), patience
        self.found: Any = None
        self.start()

    def run(self) -> None:
        try:
            found = self.batcher.run(SIGNATURE, ("y",), {"x": self.value}, time.monotonic() + self.patience)
            self.found = [one.tolist() for one in found]
        except Exception as error:
            self.found = error

    def answer(self) -> Any:
        self.join(60)
        return self.found


def waiting(batcher: Batcher, count: int) -> None:
    wait_until(lambda: batcher.waiting == count, f"{count} requests wait")


def held_up(copy: Summing, batcher: Batcher, values: list[Any]) -> list[Client]:
    """A first request on the copy, and others that wait behind it in their order."""
    first = Client(batcher, [[0.0]])
    wait_until(lambda: copy.batches, "the first step has begun")
    clients = [first]
    for number, value in enumerate(values):
        clients.append(Client(batcher, value))
        waiting(batcher, number + 1)
    return clients


def test_those_who_wait_are_computed_together_as_far_as_they_fit() -> None:
    lost: list[Any] = []
    batcher, copy = Batcher(4, lost.append), Summing()
    batcher.add(copy)
    clients = held_up(copy, batcher, [[[1.0], [2.0]], [[3.0, 4.0]], [[5.0]], [[6.0], [7.0]]])
    copy.go.set()
    assert [c.answer() for c in clients] == [[[0.0]], [[1.0, 2.0]], [[7.0]], [[5.0]], [[6.0, 7.0]]]
    # Of five rows four fit; the one of another width goes alone.
    assert copy.batches == [1, 3, 1, 2] and not lost


def test_what_is_wrong_with_one_is_told_to_that_one() -> None:
    def fails(x: np.ndarray[Any, Any]) -> None:
        if (x < 0).any():
            raise InvalidArgumentError("negative")

    batcher, copy = Batcher(8, lambda _copy: None), Summing(fails)
    batcher.add(copy)
    clients = held_up(copy, batcher, [[[1.0]], [[-1.0]], [[2.0]]])
    copy.go.set()
    answers = [c.answer() for c in clients]
    assert answers[:2] == [[[0.0]], [[1.0]]] and answers[3] == [[2.0]]
    assert isinstance(answers[2], InvalidArgumentError)


def test_a_lost_copy_leaves_its_requests_to_another() -> None:
    def gone(_x: np.ndarray[Any, Any]) -> None:
        raise AbortedError("the task has gone")

    lost: list[Any] = []
    batcher, copy = Batcher(8, lost.append), Summing(gone)
    batcher.add(copy)
    clients = held_up(copy, batcher, [[[1.0]], [[2.0]]])
    copy.go.set()
    wait_until(lambda: lost == [copy], "the loss is told")
    assert all(client.is_alive() for client in clients)
    other = Summing()
    other.go.set()
    batcher.add(other)
    assert [c.answer() for c in clients] == [[[0.0]], [[1.0]], [[2.0]]]


def test_a_copy_lost_after_some_of_a_batch_were_answered_leaves_no_other_in_use() -> None:
    def fails(x: np.ndarray[Any, Any]) -> None:
        if len(x) > 1:
            raise InvalidArgumentError("one of these is wrong")
        if (x == 2).any():
            raise AbortedError("the task has gone")

    lost: list[Any] = []
    batcher, copy = Batcher(8, lost.append), Summing(fails)
    batcher.add(copy)
    clients = held_up(copy, batcher, [[[1.0]], [[2.0]], [[3.0]]])
    copy.go.set()
    wait_until(lambda: lost == [copy], "the loss is told")
    other = Summing()
    other.go.set()
    batcher.add(other)
    assert [c.answer() for c in clients] == [[[0.0]], [[1.0]], [[2.0]], [[3.0]]]
    assert Client(batcher, [[4.0]], patience=5.0).answer() == [[4.0]], "the other copy is free again"
    assert sum(other.batches) == 3


def test_a_request_under_which_every_copy_dies_is_told_so() -> None:
    def gone(_x: np.ndarray[Any, Any]) -> None:
        raise AbortedError("the task has gone")

    lost: list[Any] = []
    batcher = Batcher(8, lost.append)
    client = Client(batcher, [[1.0]])
    for number in range(batching.MOST_LOSSES):
        copy = Summing(gone)
        copy.go.set()
        batcher.add(copy)
        wait_until(lambda wanted=number + 1: len(lost) == wanted, "it is lost")
    assert isinstance(client.answer(), UnavailableError)


def test_a_request_waits_no_longer_than_it_may() -> None:
    batcher = Batcher(8, lambda _copy: None)
    assert isinstance(Client(batcher, [[1.0]], patience=0.01).answer(), DeadlineExceededError)
    assert batcher.waiting == 0


def test_a_version_that_is_closed_answers_those_who_wait_and_no_others() -> None:
    batcher, copy = Batcher(8, lambda _copy: None), Summing()
    batcher.add(copy)
    clients = held_up(copy, batcher, [[[1.0]]])
    closing = threading.Thread(target=batcher.close, args=(60.0,))
    closing.start()

    def refused() -> bool:
        try:
            batcher.run(SIGNATURE, ("y",), {"x": np.zeros((1, 1), np.float32)}, time.monotonic())
        except UnavailableError:
            return True
        except DeadlineExceededError:
            return False
        return False

    wait_until(refused, "it takes no more")
    copy.go.set()
    closing.join(60)
    assert [c.answer() for c in clients] == [[[0.0]], [[1.0]]]


@pytest.mark.parametrize("value", [[[1.0], [2.0]], [[3.0]]])
def test_a_large_request_runs_alone(value: Any) -> None:
    batcher, copy = Batcher(1, lambda _copy: None), Summing()
    batcher.add(copy)
    clients = held_up(copy, batcher, [value, [[9.0]]])
    copy.go.set()
    assert [c.answer() for c in clients][2] == [[9.0]]
    assert copy.batches == [1, len(value), 1]


def test_a_request_under_which_several_copies_go_is_answered_by_one_that_stays() -> None:
    """Its own thread takes one free copy after the other."""

    def gone(_x: np.ndarray[Any, Any]) -> None:
        raise AbortedError("the task has gone")

    lost: list[Any] = []
    batcher, stays = Batcher(8, lost.append), Summing()
    copies = [stays, Summing(gone), Summing(gone)]
    for copy in copies:
        copy.go.set()
        batcher.add(copy)
    assert [Client(batcher, [[2.0]]).answer() for _ in range(3)] == [[[2.0]]] * 3
    assert lost == copies[:0:-1]
