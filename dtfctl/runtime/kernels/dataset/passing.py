"""Datasets that hand on every element of another as it is, some with an eye on it."""

from __future__ import annotations

import time
from typing import Any

from dtfctl.runtime.framework.errors import FailedPreconditionError, OpError
from dtfctl.runtime.kernels.context import StepContext
from dtfctl.runtime.kernels.dataset.core import (
    INFINITE,
    Access,
    Dataset,
    Element,
    EndOfSequence,
    Iteration,
    Next,
    dataset_of,
    scalar_of,
)
from dtfctl.runtime.kernels.dataset.registration import register_dataset
from dtfctl.runtime.kernels.registry import KernelBuild


class IgnoreErrorsDataset(Dataset):
    def __init__(self, source: Dataset) -> None:
        self.source = source

    def iterate(self, iteration: Iteration) -> Next:
        following = self.source.iterate(iteration)

        def advance() -> Element:
            while True:
                try:
                    return following()
                except OpError:
                    iteration.cancellation.check()

        return advance


@register_dataset("IgnoreErrorsDataset", "ExperimentalIgnoreErrorsDataset")
def ignore_errors_dataset(k: KernelBuild, step: StepContext, source: Any) -> Dataset:
    return IgnoreErrorsDataset(dataset_of(source))


class AssertCardinalityDataset(Dataset):
    def __init__(self, source: Dataset, expected: int) -> None:
        self.source, self.expected = source, expected

    def iterate(self, iteration: Iteration) -> Next:
        following, count = self.source.iterate(iteration), 0

        def plural(n: int) -> str:
            return "an infinite number of elements" if n == INFINITE else f"{n} element{'' if n == 1 else 's'}"

        def advance() -> Element:
            nonlocal count
            try:
                element = following()
            except EndOfSequence:
                if count != self.expected:
                    raise FailedPreconditionError(
                        f"Input dataset was expected to contain {plural(self.expected)} but contained only "
                        f"{plural(count)}."
                    ) from None
                raise
            count += 1
            if self.expected >= 0 and count > self.expected:
                raise FailedPreconditionError(
                    f"Input dataset was expected to contain {plural(self.expected)} but contained at least "
                    f"{plural(count)}."
                )
            return element

        return advance

    def cardinality(self) -> int:
        return self.expected

    def require_access(self) -> None:
        self.source.require_access()

    def access(self, iteration: Iteration) -> Access:
        return self.source.access(iteration)


@register_dataset("AssertCardinalityDataset")
def assert_cardinality_dataset(k: KernelBuild, step: StepContext, source: Any, expected: Any) -> Dataset:
    return AssertCardinalityDataset(dataset_of(source), scalar_of(expected, "cardinality"))


class Same(Dataset):
    """Another dataset under this node's types."""

    def __init__(self, source: Dataset) -> None:
        self.source = source
        self.types, self.shapes = source.types, source.shapes

    def iterate(self, iteration: Iteration) -> Next:
        return self.source.iterate(iteration)

    def cardinality(self) -> int:
        return self.source.cardinality()

    def require_access(self) -> None:
        self.source.require_access()

    def access(self, iteration: Iteration) -> Access:
        return self.source.access(iteration)


@register_dataset(
    "ModelDataset",
    "OptionsDataset",
    "FinalizeDataset",
    "OptimizeDataset",
    "OptimizeDatasetV2",
    "BytesProducedStatsDataset",
    "ExperimentalBytesProducedStatsDataset",
    "LatencyStatsDataset",
    "ExperimentalLatencyStatsDataset",
    "NonSerializableDataset",
    "ExperimentalNonSerializableDataset",
    "MaxIntraOpParallelismDataset",
    "ExperimentalMaxIntraOpParallelismDataset",
    "PrivateThreadPoolDataset",
    "ExperimentalPrivateThreadPoolDataset",
    "AssertNextDataset",
    "ExperimentalAssertNextDataset",
    "AssertPrevDataset",
    "RewriteDataset",
)
def same_dataset(k: KernelBuild, step: StepContext, source: Any, *rest: Any) -> Dataset:
    return Same(dataset_of(source))


class SleepDataset(Dataset):
    def __init__(self, source: Dataset, seconds: float) -> None:
        self.source, self.seconds = source, seconds

    def iterate(self, iteration: Iteration) -> Next:
        following = self.source.iterate(iteration)

        def advance() -> Element:
            time.sleep(self.seconds)
            return following()

        return advance

    def cardinality(self) -> int:
        return self.source.cardinality()


@register_dataset("SleepDataset", "ExperimentalSleepDataset")
def sleep_dataset(k: KernelBuild, step: StepContext, source: Any, micros: Any) -> Dataset:
    return SleepDataset(dataset_of(source), scalar_of(micros, "sleep_microseconds") / 1e6)
