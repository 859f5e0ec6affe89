"""Requests computed together: whoever finds a copy of the model free computes, for those who came meanwhile too.

A request that finds a free copy runs at once, in its own thread. Others wait in a row; when a copy comes free, the
first of them leads: it takes those behind it that fit (the same signature, types and shapes but for the number of
examples), computes for all, and wakes them. So nobody waits for a batch to fill, and batches are as large as the load
makes them.
"""

from __future__ import annotations

import collections
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from dtfctl.runtime.framework.errors import (
    AbortedError,
    DeadlineExceededError,
    InvalidArgumentError,
    OpError,
    ResourceExhaustedError,
    UnavailableError,
)
from dtfctl.serve.signatures import Signature

MOST_WAITING = 4096
"""Requests that may wait; more are refused."""
MOST_LOSSES = 4
"""How many copies may be lost under one request before it is told so: it may be what kills them."""
LOST = (AbortedError, UnavailableError)
"""What a step raises whose task has gone."""

Arrays = Mapping[str, np.ndarray[Any, Any]]


class Copy(Protocol):
    """A model on one task."""

    def run(self, signature: Signature, outputs: tuple[str, ...], values: Arrays) -> list[np.ndarray[Any, Any]]: ...


class _Request:
    __slots__ = ("copy", "error", "gate", "key", "losses", "outputs", "results", "rows", "signature", "values")

    def __init__(self, signature: Signature, outputs: tuple[str, ...], values: Arrays) -> None:
        self.signature = signature
        self.outputs = outputs
        self.values = values
        self.rows = _rows(signature, values)
        self.key: Any = None
        if self.rows:
            shapes = tuple(values[port.alias].shape[1:] for port in signature.inputs)
            self.key = (signature.name, outputs, shapes)
        self.gate = threading.Lock()
        self.gate.acquire()
        self.copy: Copy | None = None
        """The copy that it is to lead on, once it is woken for that."""
        self.results: list[np.ndarray[Any, Any]] | None = None
        self.error: BaseException | None = None
        self.losses = 0


def _rows(signature: Signature, values: Arrays) -> int:
    """Count a request's examples; 0 where it cannot be computed together with others."""
    if not signature.batches:
        return 0
    counts = {value.shape[0] for value in values.values()}
    return counts.pop() if len(counts) == 1 else 0


class Batcher:
    """Leads requests to the copies of one version. Any thread.

    Args:
        most_rows: of examples that are computed together; a request with more runs alone.
        lost: is told of a copy whose task has gone.
    """

    def __init__(self, most_rows: int, lost: Callable[[Any], None]) -> None:
        self._most_rows = most_rows
        self._lost = lost
        self._lock = threading.Lock()
        self._free: list[Copy] = []
        self._waiting: collections.deque[_Request] = collections.deque()
        self._busy = 0
        self._closed = False
        self._empty = threading.Condition(self._lock)
        self.steps = 0
        """How many steps were run; fewer than requests where some were computed together."""

    def add(self, copy: Copy) -> None:
        """Use a copy from now on."""
        with self._lock:
            leader = self._hand_on(copy)
        if leader is not None:
            leader.gate.release()

    def run(
        self, signature: Signature, outputs: tuple[str, ...], values: Arrays, until: float
    ) -> list[np.ndarray[Any, Any]]:
        """Compute outputs for checked inputs, on any copy.

        Args:
            until: the time (`time.monotonic`) by which it has to be done.

        Raises:
            DeadlineExceededError; ResourceExhaustedError: too many wait; UnavailableError: it is being unloaded, or
                tasks go away under this request. Other OpErrors are the model's.
        """
        request = _Request(signature, outputs, values)
        with self._lock:
            if self._closed:
                raise UnavailableError("this version is not served any more")
            if self._free and not self._waiting:
                request.copy = self._free.pop()
                self._busy += 1
            elif len(self._waiting) >= MOST_WAITING:
                raise ResourceExhaustedError(f"{MOST_WAITING} requests wait already")
            else:
                self._waiting.append(request)
        while True:
            copy, request.copy = request.copy, None
            if copy is not None:
                self._lead(copy, request)
            if request.error is not None:
                raise request.error
            if request.results is not None:
                return request.results
            # Who is given a copy is woken for it, each time, also where this thread gave it to itself.
            if not request.gate.acquire(timeout=max(until - time.monotonic(), 0)):
                self._give_up(request)

    def close(self, patience_s: float) -> None:
        """Take no more requests, and wait for those that are there."""
        end = time.monotonic() + patience_s
        with self._lock:
            self._closed = True
            while (self._busy or self._waiting) and time.monotonic() < end:
                self._empty.wait(end - time.monotonic())
            left, self._waiting = list(self._waiting), collections.deque()
        for request in left:
            request.error = UnavailableError("this version is not served any more")
            request.gate.release()

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    # ------------------------------------------------------------------ rows

    def _hand_on(self, copy: Copy) -> _Request | None:
        """Give a copy to who waits longest, who is then to be woken; else it is free. Under the lock."""
        if not self._waiting:
            self._free.append(copy)
            return None
        leader = self._waiting.popleft()
        leader.copy = copy
        self._busy += 1
        return leader

    def _give_up(self, request: _Request) -> None:
        """End a request whose time is over, unless it was taken in the meantime: then wait on."""
        with self._lock:
            try:
                self._waiting.remove(request)
                self._empty.notify_all()
            except ValueError:
                taken = True
            else:
                taken = False
        if not taken:
            raise DeadlineExceededError("no task was free for this request in its time")
        request.gate.acquire()

    def _company(self, leader: _Request) -> list[_Request]:
        """Take those who wait and can be computed together with the leader, in their order. Under the lock."""
        batch, rows = [leader], leader.rows
        if leader.key is None or not self._waiting:
            return batch
        left: collections.deque[_Request] = collections.deque()
        for request in self._waiting:
            if request.key == leader.key and rows + request.rows <= self._most_rows:
                batch.append(request)
                rows += request.rows
            else:
                left.append(request)
        self._waiting = left
        return batch

    def _lead(self, copy: Copy, leader: _Request) -> None:
        with self._lock:
            batch = self._company(leader)
            self.steps += 1
        gone: OpError | None = None
        try:
            _compute(copy, batch)
        except LOST as error:
            gone = error
        with self._lock:
            self._busy -= 1
            woken = [request for request in batch if request is not leader]
            if gone is not None:
                woken = self._again(batch, leader, gone)
                next_leader = self._hand_on(self._free.pop()) if self._waiting and self._free else None
            else:
                next_leader = self._hand_on(copy)
            self._empty.notify_all()
        if gone is not None:
            self._lost(copy)
        for request in woken:
            request.gate.release()
        if next_leader is not None:
            next_leader.gate.release()

    def _again(self, batch: Sequence[_Request], leader: _Request, gone: OpError) -> list[_Request]:
        """Put requests whose copy has gone before all others; those that have seen too many go are woken, with that."""
        ended = []
        for request in reversed(batch):
            request.losses += 1
            # Where a batch failed and its requests were computed one by one, some may have their answers.
            done = request.results is not None or request.error is not None
            if not done and request.losses >= MOST_LOSSES:
                request.error = UnavailableError(f"tasks were lost under this request: {gone.message}")
                done = True
            if done:
                if request is not leader:
                    ended.append(request)
            else:
                self._waiting.appendleft(request)
        return ended


def _compute(copy: Copy, batch: Sequence[_Request]) -> None:
    """Compute for all; what is wrong with one of several is told to that one alone."""
    first = batch[0]
    try:
        if len(batch) == 1:
            first.results = copy.run(first.signature, first.outputs, first.values)
            return
        joined = {
            port.alias: np.concatenate([request.values[port.alias] for request in batch])
            for port in first.signature.inputs
        }
        found = copy.run(first.signature, first.outputs, joined)
        rows = sum(request.rows for request in batch)
        for alias, value in zip(first.outputs, found):
            if not value.ndim or value.shape[0] != rows:
                raise InvalidArgumentError(
                    f"output {alias} of {rows} examples is of shape {list(value.shape)}: it cannot be divided"
                )
        begin = 0
        for request in batch:
            request.results = [value[begin : begin + request.rows] for value in found]
            begin += request.rows
    except LOST:
        raise
    except Exception as error:
        if len(batch) == 1:
            first.error = error
            return
        for request in batch:
            _compute(copy, [request])
