"""Datasets that call a function for every element."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework.errors import InvalidArgumentError, OutOfRangeError
from dtfctl.runtime.kernels.context import StepContext
from dtfctl.runtime.kernels.dataset.core import (
    Dataset,
    Element,
    Function,
    Iteration,
    Next,
    dataset_of,
)
from dtfctl.runtime.kernels.dataset.registration import function_of, register_dataset
from dtfctl.runtime.kernels.registry import KernelBuild


class MapDataset(Dataset):
    def __init__(self, source: Dataset, function: Function) -> None:
        self.source, self.function = source, function

    def iterate(self, iteration: Iteration) -> Next:
        following = self.source.iterate(iteration)
        return lambda: self.apply(iteration, following())

    def apply(self, iteration: Iteration, element: Element) -> Element:
        """
        Raises:
            InvalidArgumentError: the function said that the sequence ends, which is not its to say.
        """
        try:
            return self.function(iteration, element)
        except OutOfRangeError as e:
            raise InvalidArgumentError(f"Function invocation produced OutOfRangeError: {e.message}", e.node) from e

    def cardinality(self) -> int:
        return self.source.cardinality()


@register_dataset("MapDataset", "ExperimentalMapDataset")
def map_dataset(k: KernelBuild, step: StepContext, source: Any, *captured: Any) -> Dataset:
    return MapDataset(dataset_of(source), function_of(k, step, captured))


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
