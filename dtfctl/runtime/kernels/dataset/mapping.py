"""Datasets that call a function for every element."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework.errors import InvalidArgumentError, OutOfRangeError
from dtfctl.runtime.kernels.context import StepContext
from dtfctl.runtime.kernels.dataset.buffering import AUTOTUNED, PrefetchDataset
from dtfctl.runtime.kernels.dataset.core import (
    Dataset,
    Element,
    Function,
    Iteration,
    Next,
    dataset_of,
    scalar_of,
)
from dtfctl.runtime.kernels.dataset.registration import function_of, register_dataset
from dtfctl.runtime.kernels.registry import KernelBuild


class MapDataset(Dataset):
    def __init__(self, source: Dataset, function: Function, preserve: bool = True) -> None:
        self.source, self.function = source, function

    def iterate(self, iteration: Iteration) -> Next:
        following, function = self.source.iterate(iteration), self.function

        def advance() -> Element:
            element = following()
            try:
                return function(iteration, element)
            except OutOfRangeError as e:
                # A function may not end the sequence.
                raise InvalidArgumentError(f"Function invocation produced OutOfRangeError: {e.message}", e.node) from e

        return advance

    def cardinality(self) -> int:
        return self.source.cardinality()


@register_dataset("MapDataset", "ExperimentalMapDataset")
def map_dataset(k: KernelBuild, step: StepContext, source: Any, *captured: Any) -> Dataset:
    return MapDataset(dataset_of(source), function_of(k, step, captured))


@register_dataset("ParallelMapDataset", "ParallelMapDatasetV2")
def parallel_map_dataset(k: KernelBuild, step: StepContext, source: Any, *rest: Any) -> Dataset:
    *captured, parallel = rest
    count = scalar_of(parallel, "num_parallel_calls")
    if count != -1 and count < 1:
        raise InvalidArgumentError("num_parallel_calls must be greater than zero.")
    mapped = MapDataset(dataset_of(source), function_of(k, step, tuple(captured)))
    return PrefetchDataset(mapped, AUTOTUNED if count == -1 else count)


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
