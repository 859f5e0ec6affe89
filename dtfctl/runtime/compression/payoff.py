"""Whether a codec pays on one way between two tasks: what it takes, beside what it saves on the link as measured."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

# Between the two a codec stays as it is: times of a busy machine scatter.
_OFF_ABOVE, _ON_BELOW = 1.25, 0.8
# So many tensors are encoded before anything is said of their codec; the medians are of as many. One in so many is
# encoded while the codec is off, as what it takes may have changed.
_NEWEST = 5
_TRIAL = 64
_MOST_EDGES = 4096
# Of small tensors alone nothing is learnt about a link. So while a codec is on, and the link was not measured for so
# long, one tensor of so many bytes is sent whole, as long as that takes no more than a fiftieth of the time.
_STALE_S = 30.0
_LEAST_TIMED = 1 << 22
_SHARE_S = 50
# What a link is taken for, in bytes a second, until it is known: 100 Mbit/s.
_SLOW = 12.5e6


@dataclass(frozen=True)
class Judgement:
    """Why a codec is on or off. Times are seconds a tensor of that edge, rates bytes a second.

    Attributes:
        takes_s: to encode it, and to decode it as the other task has measured that (or as here, until it has).
        saves_s: on the link.
    """

    edge: str
    codec: str
    is_on: bool
    takes_s: float
    saves_s: float
    bytes_s: float


def summary(judgements: Sequence[Judgement]) -> str:
    """Say in words which codecs are on, and why: `topk off (takes 41 ms, saves 8 ms)`. The figures are of the edge
    that takes longest."""
    said = []
    for codec in dict.fromkeys(item.codec for item in judgements):
        of_codec = [item for item in judgements if item.codec == codec]
        count = sum(item.is_on for item in of_codec)
        longest = max(of_codec, key=lambda item: item.takes_s)
        how = "on" if count == len(of_codec) else f"on for {count} of {len(of_codec)}" if count else "off"
        name = codec.partition(":")[0]
        said.append(f"{name} {how} (takes {longest.takes_s * 1e3:.2g} ms, saves {longest.saves_s * 1e3:.2g} ms)")
    return ", ".join(said)


class Payoff:
    """Whether a codec pays on one edge: asked before each tensor, told of each that was encoded. Not thread-safe."""

    def __init__(self, edge: str, codec: str) -> None:
        self.edge, self.codec = edge, codec
        self.is_on = True
        self._took: deque[float] = deque(maxlen=_NEWEST)
        self._before = self._after = 0
        self._since_trial = 0
        self._last: Judgement | None = None

    def encodes(self, bytes_s: float, decode_s: float) -> bool:
        """Decide whether the next tensor is encoded.

        Args:
            bytes_s: what the link carries; 0 for not known, and then the codec is not turned off or on.
            decode_s: seconds to decode a byte of the tensor.
        """
        if len(self._took) < self._took.maxlen:  # type: ignore[operator]
            return True
        if bytes_s > 0:
            takes = median(self._took) + decode_s * self._before
            saves = (self._before - self._after) / bytes_s
            self.is_on = takes <= saves * (_OFF_ABOVE if self.is_on else _ON_BELOW)
            self._last = Judgement(self.edge, self.codec, self.is_on, takes, saves, bytes_s)
        if self.is_on:
            return True
        self._since_trial = (self._since_trial + 1) % _TRIAL
        return self._since_trial == 0

    def encoded(self, before: int, after: int, seconds: float) -> None:
        """Note how many bytes a tensor had, how many were sent, and how long that took."""
        self._took.append(seconds)
        self._before, self._after = before, after

    @property
    def whole_bytes(self) -> int:
        """How long a tensor of this edge is, of which enough is known; else 0."""
        return self._before if len(self._took) == self._took.maxlen else 0

    @property
    def judgement(self) -> Judgement | None:
        """Why it is on or off; None before anything is known."""
        return self._last


class Ledger:
    """What a task knows of codecs on its way to another one; from any thread.

    Args:
        rate: what the link carries, in bytes a second, and when a long transfer was last timed; 0 for not known.
        tell: tells the other task how many seconds a byte that came from it took to decode, by codec.
        clock: of that time, in seconds.
    """

    def __init__(
        self,
        rate: Callable[[], tuple[float, float]],
        tell: Callable[[str, float], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._rate, self._tell, self._clock = rate, tell, clock
        self._next_whole = float("-inf")
        self._lock = threading.Lock()
        self._payoffs: dict[tuple[str, str], Payoff] = {}
        # What decoding takes the other task, and what it takes this one.
        self._theirs: dict[str, float] = {}
        self._here: dict[str, deque[float]] = {}
        self._counts: dict[str, int] = {}

    def encodes(self, edge: str, codec: str) -> bool:
        """Decide whether an edge's next tensor is encoded."""
        rate, timed_at = self._rate()
        with self._lock:
            payoff = self._payoff(edge, codec)
            if payoff is None:
                return True
            encodes = payoff.encodes(rate, self._theirs.get(codec, self._decode_s(codec)))
            return encodes and not self._measures(payoff, rate, timed_at)

    def _measures(self, payoff: Payoff, rate: float, timed_at: float) -> bool:
        """Tell whether a tensor is to be sent whole although its codec is on, for the link to be measured."""
        now = self._clock()
        if not payoff.is_on or payoff.whole_bytes < _LEAST_TIMED or now < max(timed_at + _STALE_S, self._next_whole):
            return False
        self._next_whole = now + max(_STALE_S, _SHARE_S * payoff.whole_bytes / (rate or _SLOW))
        return True

    def encoded(self, edge: str, codec: str, before: int, after: int, seconds: float) -> None:
        """Note what encoding one tensor of an edge took."""
        with self._lock:
            payoff = self._payoff(edge, codec)
            if payoff is not None:
                payoff.encoded(before, after, seconds)

    def decoded(self, codec: str, size: int, seconds: float) -> None:
        """Note what decoding took here, and tell who sent it: at first each time, then now and then."""
        with self._lock:
            if codec not in self._here and len(self._here) >= _MOST_EDGES:
                return
            self._here.setdefault(codec, deque(maxlen=_NEWEST)).append(seconds / max(size, 1))
            count = self._counts[codec] = self._counts.get(codec, 0) + 1
            decode_s = self._decode_s(codec)
        if count <= _NEWEST or count % _TRIAL == 0:
            self._tell(codec, decode_s)

    def told(self, codec: str, decode_s: float) -> None:
        """Take from the other task what a byte takes to decode there, in seconds."""
        with self._lock:
            if codec in self._theirs or len(self._theirs) < _MOST_EDGES:
                self._theirs[codec] = decode_s

    def judgements(self) -> list[Judgement]:
        """List what is known of each edge."""
        with self._lock:
            return [payoff.judgement for payoff in self._payoffs.values() if payoff.judgement is not None]

    def _payoff(self, edge: str, codec: str) -> Payoff | None:
        """Find the payoff of an edge, or make it; None where there are too many."""
        found = self._payoffs.get((edge, codec))
        if found is None and len(self._payoffs) < _MOST_EDGES:
            found = self._payoffs[edge, codec] = Payoff(edge, codec)
        return found

    def _decode_s(self, codec: str) -> float:
        here = self._here.get(codec)
        return median(here) if here else 0.0
