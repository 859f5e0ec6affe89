"""What every engine gives: a plan, which runs a partition's nodes once a step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from dtfctl.runtime.kernels.context import StepContext


class Plan(Protocol):
    """One way to run a partition's nodes; several steps may run it at the same time.

    `Planner` makes them, and docs/internals/executor.md says which graph gets which.
    """

    @property
    def engine(self) -> str:
        """Which engine runs the steps now: "straight", "shaped", "frames" or "interpreter"."""

    @property
    def runs_in_line(self) -> bool:
        """Whether a run is one node after the other in the calling thread, now and later."""

    @property
    def general(self) -> Plan:
        """The plan for steps of any kind, without what was learned of those that were."""

    def run(self, step: StepContext, args: Sequence[Any], results: list[Any]) -> None:
        """Run all nodes once; everything it started has ended when this returns.

        A step is cancelled by `step.cancellation`, which is looked at between nodes and by whatever waits, and measured
        node by node where it has a `trace`.

        Args:
            args: what `_Arg` nodes and feeds give.
            results: room for what `_Retval` nodes and fetches take; what is dead leaves it as it was.

        Raises:
            OpError: the first error of a node, located.
        """
