"""What a kernel asks of the group its device is in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    from dtfctl.runtime.kernels.context import StepContext


@dataclass(frozen=True, slots=True)
class CollectiveRequest:
    """One device's part of a computation of its group.

    Attributes:
        kind: "Reduce", "ReduceScatter", "Gather", "AllToAll", "Broadcast" or "Place".
        group_key, group_size: which group, and how many devices are in it; the same in all of them.
        instance_key: names the computation in its group; the same in all devices.
        value: this device's array; None where it only receives.
        shape, dtype: of the array, or of the one to be received.
        merge, final: `merge_op` and `final_op` of reductions.
        hint: `communication_hint`.
        timeout_s: how long it may take; 0 for as long as its step may.
        is_source: its array is the one that all get.
        node: who asks, for errors.
        rank: where this device is to stand in the group; None: where its name puts it.
        ranks: the members that compute together, if these are not all: the others do the same among themselves.
        subdivs, most_subdivs: `subdiv_offsets` and `max_subdivs_per_device`, for groups with TensorFlow's servers.
        is_even: arrays to be gathered have one shape in all devices; else they may differ in the first dimension.
        codec: how arrays are encoded between hosts ("int8", "topk:ratio=0.01"); empty for not at all.
        urgency: of what this device sends for it, 0 for what is needed first; other devices need not say the same.
        frame: "FRAME:ITERATION" of who asks, "0:0" outside loops.
    """

    kind: str
    group_key: int
    group_size: int
    instance_key: int
    value: np.ndarray[Any, Any] | None
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    merge: str = "Add"
    final: str = "Id"
    hint: str = "auto"
    timeout_s: float = 0.0
    is_source: bool = False
    node: str = ""
    rank: int | None = None
    ranks: tuple[int, ...] = ()
    subdivs: tuple[int, ...] = ()
    most_subdivs: int = -1
    is_even: bool = False
    codec: str = ""
    frame: str = "0:0"
    urgency: int = 0

    @property
    def what(self) -> str:
        """Say what is computed, of what: all devices must say the same."""
        merged = f" {self.merge} {self.final}" if self.kind.startswith("Reduce") else ""
        if self.codec:
            merged += f" by {self.codec}"
        shape = self.shape[1:] if self.kind == "Gather" else self.shape
        return f"{self.kind}{merged} of {self.dtype.name}{list(shape)}"


class CollectiveExchange(Protocol):
    """Groups as the kernels of a session use them."""

    def of_graph(self, graph_key: int) -> CollectiveExchange:
        """Make what kernels of a graph with that key use."""

    def begin(
        self, request: CollectiveRequest, step: StepContext, done: Callable[[Any], None], *, outlives_kernel: bool
    ) -> None:
        """Start this device's part; never waits. A failure cancels the step.

        Args:
            done: called with the result, in any thread; it must not block.
            outlives_kernel: the kernel does not wait for the end: if the step fails afterwards, the group comes apart
                as if it had failed here, as the others cannot know how far this device has come.
        """
