"""Whether a task still serves: the parts that serve are asked, again and again, and have to answer.

A thread that only says that the process lives goes on when the threads that serve are stuck. So it asks the reactor,
which reads all links, and the gRPC server, with the threads that handle its calls, for an answer. What is counted is
not the time that has passed but the time in which the asking thread itself ran on time: when a kernel holds the
interpreter lock, or the machine has no processor left for this process, both sides stand still, and that is no hang.
"""

from __future__ import annotations

import contextlib
import os
import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import grpc

from dtfctl import guard
from dtfctl.runtime.rendezvous.reactor import REACTOR
from dtfctl.runtime.services.client_service import PING
from dtfctl.runtime.services.grpc_tools import CHANNEL_OPTIONS

GRPC_EVERY_S = 2.0
"""A call costs far more than a word to the reactor."""
CALL_S = 60.0
NOT_SERVED = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED})
"""Any other status is an answer, too."""

Answer = Callable[[bool], None]
"""Told once for each question, from any thread: whether it was served. False: ask again."""


class Probe(Protocol):
    """One part that serves."""

    name: str
    every_s: float

    def ask(self, answer: Answer) -> None: ...

    def close(self) -> None: ...


class ReactorProbe:
    """The thread that reads the links, whichever it is at the moment."""

    name = "its reactor"
    every_s = 0.0

    def __init__(self) -> None:
        self._fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._answer: Answer | None = None
        REACTOR.add(self)

    def ask(self, answer: Answer) -> None:
        self._answer = answer
        os.eventfd_write(self._fd, 1)

    def close(self) -> None:
        REACTOR.remove(self)
        os.close(self._fd)

    def fileno(self) -> int:
        return self._fd

    def readable(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._fd)
        answer = self._answer
        if answer is not None:
            answer(True)

    def writable(self) -> None:
        """Do nothing: this is never asked for."""

    def tick(self, now: float) -> None:
        """Do nothing: there is no clock here."""


class CallProbe:
    """The gRPC server behind the unix socket, and a thread that handles a call."""

    name = "its gRPC server"
    every_s = GRPC_EVERY_S

    def __init__(self, socket_path: Path) -> None:
        self._channel = grpc.insecure_channel(f"unix:{socket_path}", options=CHANNEL_OPTIONS)
        self._ping = self._channel.unary_unary(PING)
        # A call that blocks a thread costs half of one that is waited for by callback.
        self._asked: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._open: Answer | None = None
        """To be given; `Pulse` asks one question at a time."""
        guard.forever(self._call, name="pulse").start()

    def ask(self, answer: Answer) -> None:
        self._open = answer
        self._asked.put(True)

    def _call(self) -> None:
        if self._asked.empty():
            self._reply(False)  # called again: a question that was taken is lost, and to be asked again
        while self._asked.get():
            try:
                self._ping(b"", timeout=CALL_S)
                was_served = True
            except grpc.RpcError as error:
                was_served = error.code() not in NOT_SERVED
            except ValueError:  # the channel is closed
                return
            self._reply(was_served)

    def _reply(self, was_served: bool) -> None:
        answer, self._open = self._open, None
        if answer is not None:
            answer(was_served)

    def close(self) -> None:
        self._asked.put(False)
        self._channel.close()


@dataclass
class _Asked:
    probe: Probe
    is_open: bool = False
    """Asked, and not answered yet."""
    must_ask: bool = False
    """The question was lost."""
    waited_s: float = 0.0
    next_at: float = 0.0


class Pulse:
    """Asks; `look` is called by one thread, about every `beat_s`.

    Args:
        limit_s: silence for so long is worth telling.
    """

    def __init__(self, probes: Sequence[Probe], beat_s: float, limit_s: float) -> None:
        self._asked = [_Asked(probe) for probe in probes]
        self._longest_s = 2 * beat_s
        self._limit_s = limit_s
        self._looked: float | None = None
        self._lock = threading.Lock()

    def look(self, now: float) -> str:
        """Find what does not answer, in words; empty when all is well."""
        passed = 0.0 if self._looked is None else min(now - self._looked, self._longest_s)
        self._looked = now
        silent = []
        for item in self._asked:
            with self._lock:
                is_due = item.must_ask or (not item.is_open and now >= item.next_at)
                if item.is_open:
                    item.waited_s += passed
                    if item.waited_s >= self._limit_s:
                        silent.append(f"{item.probe.name} has not answered for {item.waited_s:.1f} s")
                elif is_due:
                    item.is_open, item.waited_s, item.next_at = True, 0.0, now + item.probe.every_s
                item.must_ask = False
            if is_due:
                self._ask(item)
        return "; ".join(silent)

    def _ask(self, item: _Asked) -> None:
        def answer(was_served: bool) -> None:
            with self._lock:
                item.is_open, item.must_ask = not was_served, not was_served

        item.probe.ask(answer)

    def close(self) -> None:
        for item in self._asked:
            item.probe.close()
