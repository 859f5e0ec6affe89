"""Datasets that call a function for every element."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dtfctl.runtime.framework.errors import InvalidArgumentError, OutOfRangeError
from dtfctl.runtime.kernels.context import StepContext
from dtfctl.runtime.kernels.dataset.core import (
    Access,
    Dataset,
    Element,
    EndOfSequence,
    Function,
    Iteration,
    Next,
    dataset_of,
)
from dtfctl.runtime.kernels.dataset.registration import function_of, register_dataset
from dtfctl.runtime.kernels.registry import KernelBuild


class MapDataset(Dataset):
    """A dataset of what a function gives for each element of another.

    Attributes:
        whole: the function may not end the sequence by an OutOfRangeError, as it may in TensorFlow 1.
    """

    def __init__(self, source: Dataset, function: Function, whole: bool) -> None:
        self.source, self.function, self.whole = source, function, whole

    def iterate(self, iteration: Iteration) -> Next:
        following = self.source.iterate(iteration)
        return lambda: self.apply(iteration, following())

    def apply(self, iteration: Iteration, element: Element) -> Element:
        """Apply the function to one element.

        Raises:
            EndOfSequence, InvalidArgumentError: the function said that the sequence ends.
        """
        try:
            return self.function(iteration, element)
        except OutOfRangeError as e:
            if not self.whole:
                raise EndOfSequence from e
            raise InvalidArgumentError(f"Function invocation produced OutOfRangeError: {e.message}", e.node) from e

    def cardinality(self) -> int:
        return self.source.cardinality()

    def require_access(self) -> None:
        self.source.require_access()

    def access(self, iteration: Iteration) -> Access:
        element = self.source.access(iteration)
        return lambda at: self.apply(iteration, element(at))


@register_dataset("MapDataset", "ExperimentalMapDataset")
def map_dataset(k: KernelBuild, step: StepContext, source: Any, *captured: Any) -> Dataset:
    return mapped(k, step, source, captured)


def mapped(k: KernelBuild, step: StepContext, source: Any, captured: Sequence[Any]) -> MapDataset:
    """Make the map that a node stands for, or begins with."""
    function = function_of(k, step, tuple(captured))
    return MapDataset(dataset_of(source), function, k.attr("preserve_cardinality", False))


class ScanDataset(Dataset):
    def __init__(self, source: Dataset, state: Element, function: Function) -> None:
        self.source, self.state, self.function = source, state, function

    def iterate(self, iteration: Iteration) -> Next:
        following, state, count = self.source.iterate(iteration), self.state, len(self.state)

        def advance() -> Element:
            nonlocal state
            results = self.function(iteration, (*state, *following()))
            state = results[:count]
            return results[count:]

        return advance

    def cardinality(self) -> int:
        return self.source.cardinality()


@register_dataset("ScanDataset", "ExperimentalScanDataset")
def scan_dataset(k: KernelBuild, step: StepContext, source: Any, *rest: Any) -> Dataset:
    count = len(k.attr("Tstate"))
    return ScanDataset(dataset_of(source), tuple(rest[:count]), function_of(k, step, rest[count:]))
