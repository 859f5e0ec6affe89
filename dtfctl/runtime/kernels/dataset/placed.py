"""Datasets that know where each of their elements comes from: shuffled as a whole, flattened by an index, weighted."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from dtfctl.runtime.framework.errors import FailedPreconditionError, InvalidArgumentError, OpError
from dtfctl.runtime.kernels.context import StepContext
from dtfctl.runtime.kernels.dataset.core import (
    INFINITE,
    Access,
    Dataset,
    Element,
    EndOfSequence,
    Function,
    Iteration,
    Next,
    dataset_of,
    scalar_of,
)
from dtfctl.runtime.kernels.dataset.draws import SeedGenerator
from dtfctl.runtime.kernels.dataset.registration import function_of, register_dataset
from dtfctl.runtime.kernels.dataset.shuffle import seeded
from dtfctl.runtime.kernels.random.index_shuffle import index_shuffle
from dtfctl.runtime.kernels.registry import KernelBuild

_ROUNDS = 8


class GlobalShuffleDataset(Dataset):
    """All elements of another in a random order, each asked for by its place; nothing is held."""

    def __init__(self, source: Dataset, generator: SeedGenerator) -> None:
        self.source, self.generator = source, generator

    def _in_order(self, iteration: Iteration) -> Access:
        first, second = (iteration.draws.sampler(self.generator) for _ in range(2))
        key = [seed & 0xFFFFFFFF for seed in (first.seed, first.seed2, second.seed)]
        element, last = self.source.access(iteration), self.source.cardinality() - 1
        return lambda at: element(index_shuffle(at, key, last, _ROUNDS))

    def iterate(self, iteration: Iteration) -> Next:
        element, at = self._in_order(iteration), 0

        def advance() -> Element:
            nonlocal at
            if at >= self.source.cardinality():
                raise EndOfSequence
            at += 1
            return element(at - 1)

        return advance

    def cardinality(self) -> int:
        return self.source.cardinality()

    def require_access(self) -> None:
        pass

    def access(self, iteration: Iteration) -> Access:
        return self._in_order(iteration)


@register_dataset("GlobalShuffleDataset")
def global_shuffle_dataset(
    k: KernelBuild, step: StepContext, source: Any, seed: Any, seed2: Any, handle: Any
) -> Dataset:
    dataset = dataset_of(source)
    try:
        dataset.require_access()
    except OpError as e:
        kind = type(e).__name__.removesuffix("Error")
        code = "".join(f"_{c}" if c.isupper() else c.upper() for c in kind).lstrip("_")
        raise FailedPreconditionError(
            f"`global_shuffle` requires all upstream transformations be compatible with random access. Got: "
            f"{code}: {e.message}"
        ) from e
    if dataset.cardinality() <= 0:
        raise InvalidArgumentError(
            "`global_shuffle` requires the input dataset to have a non-empty finite cardinality. Got cardinality "
            f"{dataset.cardinality()} for dataset {dataset}"
        )
    return GlobalShuffleDataset(dataset, seeded(k, step, seed, seed2, handle))


class IndexFlatMapDataset(Dataset):
    """What `function` makes of another's elements, taken apart; `index` tells which of them has an element, and where.

    Attributes:
        size: the number of elements; INFINITE or UNKNOWN.
    """

    def __init__(self, source: Dataset, function: Function, index: Function, size: int) -> None:
        self.source, self.function, self.index, self.size = source, function, index, size

    def _place(self, iteration: Iteration, at: int) -> tuple[int, int]:
        found = self.index(iteration, (np.array(at, np.int64),))
        if len(found) != 2:
            raise InvalidArgumentError(
                "The `index_map_fn` for `index_flat_map` is expected to return two int values representing the element "
                f"index and an offset within the element. Got: {_text(found)}"
            )
        for value in found:
            if value.dtype.kind not in "iu" or value.dtype.itemsize < 4:
                raise InvalidArgumentError(
                    "The `index_map_func` for `index_flat_map` is expected to return two int32/int64 values "
                    f"representing the element index and an offset within the element. Got: {_text([value])}"
                )
        return int(found[0]), int(found[1])

    def iterate(self, iteration: Iteration) -> Next:
        following = self.source.iterate(iteration)
        at = reached = 0
        parts: Element = ()

        def advance() -> Element:
            nonlocal at, reached, parts
            index, offset = self._place(iteration, at)
            if index > reached or not parts:
                parts = ()
                parts = self.function(iteration, following())
                reached = index
            element = _part(parts, offset)
            at += 1
            return element

        return advance

    def cardinality(self) -> int:
        return self.size

    def require_access(self) -> None:
        self.source.require_access()
        if self.size < 0:
            raise FailedPreconditionError(
                f"Global shuffling requires finite cardinality. Got cardinality {self.size} for dataset {self}."
            )

    def access(self, iteration: Iteration) -> Access:
        source = self.source.access(iteration)

        def element(at: int) -> Element:
            index, offset = self._place(iteration, at)
            return _part(self.function(iteration, source(index)), offset)

        return element


def _text(values: Sequence[Any]) -> str:
    return "{" + ", ".join(str(value) for value in values) + "}"


def _part(parts: Element, offset: int) -> Element:
    """Take one of several tensors, or a row of the only one.

    Raises:
        InvalidArgumentError: there are not as many.
    """
    size = len(parts) if len(parts) > 1 else parts[0].shape[0] if parts[0].ndim else offset + 1
    if offset >= size:
        raise InvalidArgumentError(
            f"`index_flat_map` got invalid `index_map_func` which returns offset {offset}, but the input element has "
            f"{size} elements: {_text(parts)}"
        )
    if len(parts) > 1:
        return (parts[offset],)
    return parts if parts[0].ndim == 0 else (parts[0][offset, ...],)


@register_dataset("IndexFlatMapDataset")
def index_flat_map_dataset(k: KernelBuild, step: StepContext, source: Any, *rest: Any) -> Dataset:
    *captured, size = rest
    count = len(k.attr("Tmap_func_args"))
    function = function_of(k, step, tuple(captured[:count]), "map_func")
    index = function_of(k, step, tuple(captured[count:]), "index_map_func")
    return IndexFlatMapDataset(dataset_of(source), function, index, scalar_of(size, "output_cardinality"))


class WeightedFlatMapDataset(Dataset):
    """The first `sizes[i]` elements of each source, one source after the other."""

    def __init__(self, sources: Sequence[Dataset], sizes: Sequence[int]) -> None:
        self.sources, self.ends = sources, list(accumulate(sizes))

    def iterate(self, iteration: Iteration) -> Next:
        parts = [source.iterate(iteration) for source in self.sources]
        at = 0

        def advance() -> Element:
            nonlocal at
            if at >= self.ends[-1]:
                raise EndOfSequence
            element = parts[bisect_right(self.ends, at)]()
            at += 1
            return element

        return advance

    def cardinality(self) -> int:
        return self.ends[-1]


def weighted_sizes(sizes: Sequence[int], weights: Sequence[float]) -> list[int]:
    """Tell how many elements to take of datasets of these sizes, so that one is used up and the weights are kept.

    Raises:
        InvalidArgumentError: one is too small for its share.
    """
    heaviest = max(weights)
    shares = [size * weight / heaviest for size, weight in zip(sizes, weights, strict=True)]
    scarce = shares.index(min(shares))
    taken = [int(shares[scarce] * weight / weights[scarce]) for weight in weights]
    for i, (count, size) in enumerate(zip(taken, sizes, strict=True)):
        if count > size:
            raise InvalidArgumentError(
                f"Input {i} needs to have at least {count} elements. It only has {size} elements."
            )
    return taken


@register_dataset("WeightedFlatMapDataset")
def weighted_flat_map_dataset(k: KernelBuild, step: StepContext, *rest: Any) -> Dataset:
    sources = [dataset_of(value) for value in rest[: k.attr("N")]]
    weights = [float(value) for value in rest[k.attr("N") :]]
    if len(sources) != len(weights):
        raise InvalidArgumentError(
            f"The number of weights, {len(weights)}, must be that of the input datasets, {len(sources)}."
        )
    for i, source in enumerate(sources):
        if source.cardinality() < 0:
            kind = "INFINITE" if source.cardinality() == INFINITE else "UNKNOWN"
            raise InvalidArgumentError(f"Cardinalities of the inputs must be known. Input {i} has {kind} cardinality.")
    for i, weight in enumerate(weights):
        if not weight > 0.0:
            raise InvalidArgumentError(f"`weights` must be greater than 0.0. Input {i} has a weight of {weight:g}")
    return WeightedFlatMapDataset(sources, weighted_sizes([source.cardinality() for source in sources], weights))
