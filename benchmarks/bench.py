"""A run: its sides, its limits, what it may use; and what a case is."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from benchmarks import peers
from benchmarks.limits import Limits
from benchmarks.processes import Side
from benchmarks.results import Row
from benchmarks.rounds import Plan, StepCase, run_case


@dataclass(frozen=True)
class CustomCase:
    """A case that is no program: a function of the run.

    Attributes:
        quick, full: as StepCase's.
    """

    name: str
    what: str
    run: Callable[[Bench], Iterable[Row]]
    quick: bool = True
    full: bool = False


Case = StepCase | CustomCase


@dataclass
class Bench:
    """A run.

    Attributes:
        tensorflow: the side to compare with, or why there is none.
        sides: ours, by transport; "" is what it chooses itself.
        quick, full: as asked for.
        say: prints progress.
    """

    plan: Plan
    limits: Limits
    sides: dict[str, Side]
    tensorflow: Side | str
    quick: bool
    full: bool
    say: Callable[[str], None]

    @property
    def ours(self) -> Side:
        return self.sides[""]

    def run(self, case: Case) -> list[Row]:
        """The rows of a case; whatever goes wrong stands in them."""
        try:
            if isinstance(case, CustomCase):
                return list(case.run(self))
            forced = [] if self.quick else [self.sides[t] for t in case.transports if t in self.sides]
            return run_case(case, self.plan, self.limits, [self.ours, *forced], self.tensorflow)
        except Exception as e:
            self.stop()
            return [Row(case.name, case.what, error=f"{type(e).__name__}: {e}")]

    def peer(self, name: str) -> str:
        """The interpreter of a peer.

        Raises:
            peers.Missing: it cannot be had.
        """
        return peers.interpreter(name, self.say)[0]

    def stop(self) -> None:
        """End every process of the run; later cases start their own."""
        for side in self.sides.values():
            side.stop()
        if isinstance(self.tensorflow, Side):
            self.tensorflow.stop()
