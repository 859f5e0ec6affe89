"""Datasets of datasets, made flat: FlatMap, the Interleaves, DirectedInterleave."""

from __future__ import annotations

from typing import Any

from dtfctl import cores
from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.kernels.context import StepContext
from dtfctl.runtime.kernels.dataset.core import (
    UNKNOWN,
    Dataset,
    Element,
    EndOfSequence,
    Function,
    Iteration,
    Next,
    dataset_of,
    scalar_of,
)
from dtfctl.runtime.kernels.dataset.registration import function_of, register_dataset
from dtfctl.runtime.kernels.registry import KernelBuild


class InterleaveDataset(Dataset):
    """Takes `block` elements in turn from each of up to `cycle` datasets that `function` makes of the inputs."""

    def __init__(self, source: Dataset, function: Function, cycle: int, block: int) -> None:
        self.source, self.function, self.cycle, self.block = source, function, cycle, block

    def iterate(self, iteration: Iteration) -> Next:
        outer: Next | None = self.source.iterate(iteration)
        slots: list[Next | None] = [None] * self.cycle
        at = used = 0

        def open_next() -> Next | None:
            nonlocal outer
            if outer is None:
                return None
            try:
                element = outer()
            except EndOfSequence:
                outer = None
                return None
            return dataset_of(self.function(iteration, element)[0]).iterate(iteration)

        def turn() -> None:
            nonlocal at, used
            at, used = (at + 1) % self.cycle, 0

        def advance() -> Element:
            nonlocal used
            idle = 0
            while idle <= self.cycle:
                current = slots[at]
                if current is None:
                    current = slots[at] = open_next()
                    if current is None:
                        idle += 1
                        turn()
                        continue
                if used == self.block:
                    turn()
                    continue
                idle = 0
                try:
                    element = current()
                except EndOfSequence:
                    slots[at] = None
                    turn()
                    iteration.cancellation.check()
                    continue
                used += 1
                if used == self.block:
                    turn()
                return element
            raise EndOfSequence

        return advance

    def cardinality(self) -> int:
        return UNKNOWN


@register_dataset("FlatMapDataset")
def flat_map_dataset(k: KernelBuild, step: StepContext, source: Any, *captured: Any) -> Dataset:
    return InterleaveDataset(dataset_of(source), function_of(k, step, captured), 1, 2**62)


@register_dataset("InterleaveDataset")
def interleave_dataset(k: KernelBuild, step: StepContext, source: Any, *rest: Any) -> Dataset:
    *captured, cycle, block = rest
    return InterleaveDataset(dataset_of(source), function_of(k, step, tuple(captured)), *cycle_and_block(cycle, block))


def cycle_and_block(cycle: Any, block: Any, chosen: int | None = None) -> tuple[int, int]:
    """Read how many datasets take turns, and how many elements each gives.

    Args:
        chosen: how many take turns where the user leaves it open; as many as there are cores if it is None.

    Raises:
        InvalidArgumentError: a number is not positive.
    """
    length, size = int(scalar_of(cycle, "cycle_length")), int(scalar_of(block, "block_length"))
    if length == -1:
        length = cores.available() if chosen is None else chosen
    if length <= 0:
        raise InvalidArgumentError("cycle_length must be greater than zero.")
    if size <= 0:
        raise InvalidArgumentError("block_length must be greater than zero.")
    return length, size


class DirectedInterleaveDataset(Dataset):
    """Takes from the dataset each number of `selector` names, as long as there is one left."""

    def __init__(self, selector: Dataset, sources: list[Dataset], stop_on_empty: bool) -> None:
        self.selector, self.sources, self.stop_on_empty = selector, sources, stop_on_empty

    def iterate(self, iteration: Iteration) -> Next:
        selecting = self.selector.iterate(iteration)
        parts: list[Next | None] = [s.iterate(iteration) for s in self.sources]

        def advance() -> Element:
            while any(p is not None for p in parts):
                index = int(selecting()[0])
                if not 0 <= index < len(parts):
                    raise InvalidArgumentError(
                        f"Selector index out of range: {index} >= {len(parts)}",
                    )
                part = parts[index]
                if part is None:
                    continue
                try:
                    return part()
                except EndOfSequence:
                    if self.stop_on_empty:
                        parts[:] = [None] * len(parts)
                        break
                    parts[index] = None
            raise EndOfSequence

        return advance


@register_dataset("DirectedInterleaveDataset", "ExperimentalDirectedInterleaveDataset")
def directed_interleave_dataset(k: KernelBuild, step: StepContext, selector: Any, *sources: Any) -> Dataset:
    return DirectedInterleaveDataset(
        dataset_of(selector), [dataset_of(s) for s in sources], bool(k.attr("stop_on_empty_dataset", False))
    )
