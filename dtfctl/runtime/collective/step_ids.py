"""Numbers of steps that TensorFlow's servers and ours agree on, so that they find what they send each other.

A graph key names what several masters run in step. Its leader chooses a first number; each step after that has the
next one, and nobody needs to be asked again.
"""

from __future__ import annotations

import hashlib
import secrets
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from dtfctl.runtime.framework.errors import OpError, ResourceExhaustedError

BITS = 57
_MASK = (1 << BITS) - 1
MAX_KEYS = 1 << 16
"""Graph keys whose steps are counted. None can be forgotten, as other masters count on from the same number."""

Told = Callable[[int, OpError | None], None]
Ask = Callable[[int, Told], None]


@dataclass
class _Sequence:
    """Steps of a graph key.

    Attributes:
        current: the number of the newest step, or of the first to come.
        step: which step that is here; None before the first.
        begun: what was computed in it.
        going_on: how much of that has not ended.
    """

    current: int
    step: int | None = None
    begun: set[str] = field(default_factory=set)
    going_on: int = 0


class StepIds:
    """Numbers by graph key. All methods may be called from any thread.

    Args:
        ask: finds out from the leader which number comes next; None where this task leads.
    """

    def __init__(self, ask: Ask | None) -> None:
        self._ask = ask
        self._lock = threading.Lock()
        self._sequences: dict[int, _Sequence] = {}
        self._secret = secrets.token_bytes(16)

    def next_of(self, key: int) -> int:
        """Tell who asks, as the leader, which number the next step has that it can take part in."""
        with self._lock:
            found = self._sequences.get(key)
            if found is None:
                return self._first_of(key)
            return found.current if found.step is None or found.going_on else _after(found.current)

    def _first_of(self, key: int) -> int:
        """Make the first number of a key, the same whenever it is asked for: nothing is kept for who only asks."""
        name = key.to_bytes(16, "little", signed=True)
        return int.from_bytes(hashlib.blake2b(name, key=self._secret, digest_size=8).digest(), "little") & _MASK

    def number(self, key: int, step: int, what: str, told: Told) -> None:
        """Find the number of a step, of which something is about to be computed.

        Args:
            what: names it; the same again in a step of that number is the next step.
            told: called with the number, or why there is none; in any thread.
        """
        with self._lock:
            found = self._sequences.get(key)
            is_full = found is None and len(self._sequences) >= MAX_KEYS
            if found is None and self._ask is None and not is_full:
                found = self._sequences[key] = _Sequence(self._first_of(key))
            number = 0 if found is None else self._take(found, step, what)
        if is_full:
            text = f"Steps of {MAX_KEYS} graph keys are counted here, and no more can be. Start this server again, or "
            told(0, ResourceExhaustedError(f"{text}give RunOptions.experimental.collective_graph_key"))
            return
        if found is not None:
            told(number, None)
            return
        assert self._ask is not None

        def asked(first: int, error: OpError | None) -> None:
            if error is not None:
                told(0, error)
                return
            with self._lock:
                number = self._take(self._sequences.setdefault(key, _Sequence(first)), step, what)
            told(number, None)

        self._ask(key, asked)

    def _take(self, found: _Sequence, step: int, what: str) -> int:
        if found.step is not None and (found.step != step or what in found.begun):
            found.current = _after(found.current)
            found.begun.clear()
            found.going_on = 0
        found.step = step
        found.begun.add(what)
        found.going_on += 1
        return found.current

    def ended(self, key: int, number: int) -> None:
        """Note that something of a step was computed."""
        with self._lock:
            found = self._sequences.get(key)
            if found is not None and found.current == number:
                found.going_on -= 1

    def forget(self, key: int) -> None:
        """Begin anew, as after a step that failed: not all may have come as far."""
        with self._lock:
            if self._ask is not None:
                self._sequences.pop(key, None)
            elif key in self._sequences:
                self._sequences[key] = _Sequence(secrets.randbits(BITS))


def _after(number: int) -> int:
    return (number + 1) & _MASK
