"""A run: its sides, its limits, what it may use; and what a case is."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from benchmarks import peers
from benchmarks.deadline import Overdue, deadline
from benchmarks.limits import Limits
from benchmarks.processes import Side, sweep
from benchmarks.results import Row
from benchmarks.rounds import Plan, StepCase, run_case

# Less time than this is not worth a case's beginning.
_LEAST_S = 5.0
# The share of a case's time in which its rounds must have ended.
_ROUNDS_SHARE = 0.8


@dataclass(frozen=True)
class CustomCase:
    """A case that is no program: a function of the run.

    Attributes:
        peers: those of `benchmarks.peers` it compares with; installed before its time counts.
        quick, full, most_s, link: as StepCase's.
    """

    name: str
    what: str
    run: Callable[[Bench], Iterable[Row]]
    peers: tuple[str, ...] = ()
    quick: bool = True
    full: bool = False
    most_s: float = 90.0
    link: str = ""


Case = StepCase | CustomCase


@dataclass
class Bench:
    """A run.

    Attributes:
        tensorflow: the side to compare with, or why there is none.
        sides: ours, by transport; "" is what it chooses itself.
        quick, full: as asked for.
        say: prints progress.
        until: when the run must have ended, by `time.monotonic`.
        patience: how many times as long as usual a case may take.
        compares: whether peers may be asked at all.
    """

    plan: Plan
    limits: Limits
    sides: dict[str, Side]
    tensorflow: Side | str
    quick: bool
    full: bool
    say: Callable[[str], None]
    until: float = float("inf")
    patience: float = 1.0
    compares: bool = True
    _missing: dict[str, str] = field(default_factory=dict)

    @property
    def ours(self) -> Side:
        return self.sides[""]

    def run(self, case: Case) -> list[Row]:
        """The rows of a case; whatever goes wrong stands in them."""
        left = self.until - time.monotonic()
        if left < _LEAST_S:
            return [Row(case.name, case.what, error="the time of the run was up", was_run=False)]
        rows: list[Row] = []
        seconds = min(case.most_s * self.patience, left)
        try:
            with deadline(seconds):
                if isinstance(case, CustomCase):
                    # One by one: those before a failure stand.
                    for row in case.run(self):
                        rows.append(row)
                else:
                    forced = [] if self.quick else [self.sides[t] for t in case.transports if t in self.sides]
                    # What is left is for ending it in good order.
                    until = time.monotonic() + _ROUNDS_SHARE * seconds
                    rows = run_case(case, self.plan, self.limits, [self.ours, *forced], self.tensorflow, until)
        except Exception as e:
            self.stop()
            text = str(e) if isinstance(e, Overdue) else f"{type(e).__name__}: {e}"
            rows.append(Row(case.name, case.what, error=text))
        return rows

    def prepare(self, cases: Iterable[Case]) -> None:
        """Install the peers these cases need, so far as they can be had."""
        if not self.compares:
            return
        wanted = dict.fromkeys(name for case in cases if isinstance(case, CustomCase) for name in case.peers)
        for name in wanted:
            try:
                peers.interpreter(name, self.say)
            except peers.Missing as e:
                self.say(str(e))
                self._missing[name] = str(e)

    def peer(self, name: str) -> str:
        """The interpreter of a peer.

        Raises:
            peers.Missing: it cannot be had.
        """
        if not self.compares:
            raise peers.Missing("not compared")
        if name in self._missing:
            raise peers.Missing(self._missing[name])
        return peers.interpreter(name, self.say)[0]

    def stop(self) -> None:
        """End every process of the run; later cases start their own."""
        for side in self.sides.values():
            side.stop()
        if isinstance(self.tensorflow, Side):
            self.tensorflow.stop()
        for command in sweep():
            self.say(f"ended what was left: {command[:150]}")
