"""Datasets made from tensors, ranges and random numbers."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.cancellation import CancellationToken
from dtfctl.runtime.framework.errors import InvalidArgumentError, OpError, OutOfRangeError, UnimplementedError
from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.kernels.context import StepContext
from dtfctl.runtime.kernels.dataset.core import (
    INFINITE,
    UNKNOWN,
    Access,
    Dataset,
    Element,
    EndOfSequence,
    Function,
    Iteration,
    Next,
    scalar_of,
)
from dtfctl.runtime.kernels.dataset.draws import SeedGenerator
from dtfctl.runtime.kernels.dataset.registration import function_of, register_dataset
from dtfctl.runtime.kernels.dataset.shuffle import seeded
from dtfctl.runtime.kernels.registry import KernelBuild

log = logging.getLogger(__name__)


class ListDataset(Dataset):
    """Elements known beforehand."""

    def __init__(self, elements: list[Element]) -> None:
        self.elements = elements

    def iterate(self, iteration: Iteration) -> Next:
        at = 0

        def advance() -> Element:
            nonlocal at
            if at >= len(self.elements):
                raise EndOfSequence
            at += 1
            return self.elements[at - 1]

        return advance

    def cardinality(self) -> int:
        return len(self.elements)

    def require_access(self) -> None:
        pass

    def access(self, iteration: Iteration) -> Access:
        return self.elements.__getitem__


class SliceDataset(Dataset):
    """The slices of tensors along axis 0."""

    def __init__(self, components: tuple[Any, ...]) -> None:
        self.components = components
        self.size = int(components[0].shape[0])

    def iterate(self, iteration: Iteration) -> Next:
        at = 0

        def advance() -> Element:
            nonlocal at
            if at >= self.size:
                raise EndOfSequence
            at += 1
            return tuple(c[at - 1, ...] for c in self.components)

        return advance

    def cardinality(self) -> int:
        return self.size

    def require_access(self) -> None:
        pass

    def access(self, iteration: Iteration) -> Access:
        return lambda at: tuple(c[at, ...] for c in self.components)


@register_dataset("TensorDataset")
def tensor_dataset(k: KernelBuild, step: StepContext, *components: Any) -> Dataset:
    return ListDataset([tuple(np.asarray(c) for c in components)])


@register_dataset("TensorSliceDataset")
def tensor_slice_dataset(k: KernelBuild, step: StepContext, *components: Any) -> Dataset:
    for i, component in enumerate(components):
        if component.ndim == 0:
            raise InvalidArgumentError("All components must be at least 1-dimensional")
        if component.shape[0] != components[0].shape[0]:
            raise InvalidArgumentError(
                f"All components must have the same size in the 0th dimension, component {i} has "
                f"{component.shape[0]} and component 0 {components[0].shape[0]}"
            )
    return SliceDataset(components)


@register_dataset("ListDataset")
def list_dataset(k: KernelBuild, step: StepContext, *tensors: Any) -> Dataset:
    width = len(k.attr("output_types"))
    return ListDataset([tuple(tensors[i : i + width]) for i in range(0, len(tensors), width)])


@register_dataset("SparseTensorSliceDataset")
def sparse_tensor_slice_dataset(k: KernelBuild, step: StepContext, indices: Any, values: Any, shape: Any) -> Dataset:
    if indices.ndim != 2:
        raise InvalidArgumentError(f"Input indices must be a matrix. Got: {indices.ndim}")
    if values.ndim != 1:
        raise InvalidArgumentError(f"Input values must be a vector. Got: {values.ndim}")
    if shape.ndim != 1 or shape.size < 1:
        raise InvalidArgumentError("Input shape must be a vector with at least one element.")
    if indices.shape[0] != values.size:
        raise InvalidArgumentError("Number of values must match first dimension of indices.")
    if indices.shape[0] and np.any(np.diff(indices[:, 0]) < 0):
        raise UnimplementedError(
            "The SparseTensor must be ordered in the batch dimension; handling arbitrarily ordered input is not "
            "currently supported."
        )
    elements: list[Element] = []
    for row in range(int(shape[0])):
        inside = indices[:, 0] == row
        elements.append((indices[inside, 1:], values[inside], shape[1:].astype(np.int64)))
    dataset = ListDataset(elements)
    rank = shape.size - 1
    dataset.types = (dtypes.int64, k.dtype("Tvalues"), dtypes.int64)
    dataset.shapes = (TensorShape([None, rank]), TensorShape([None]), TensorShape([rank]))
    return dataset


class RangeDataset(Dataset):
    def __init__(self, start: int, stop: int, step: int, dtype: Any) -> None:
        self.range, self.dtype = range(start, stop, step), dtype

    def iterate(self, iteration: Iteration) -> Next:
        numbers, dtype = iter(self.range), self.dtype

        def advance() -> Element:
            for number in numbers:
                return (np.array(number, dtype),)
            raise EndOfSequence

        return advance

    def cardinality(self) -> int:
        return len(self.range)

    def require_access(self) -> None:
        pass

    def access(self, iteration: Iteration) -> Access:
        return lambda at: (np.array(self.range[at], self.dtype),)


@register_dataset("RangeDataset")
def range_dataset(k: KernelBuild, step: StepContext, start: Any, stop: Any, stride: Any) -> Dataset:
    by = scalar_of(stride, "step")
    if by == 0:
        raise InvalidArgumentError("step must be a non-zero integer.")
    return RangeDataset(scalar_of(start, "start"), scalar_of(stop, "stop"), by, k.attr("output_types")[0].np)


class RandomDataset(Dataset):
    def __init__(self, generator: SeedGenerator) -> None:
        self.generator = generator

    def iterate(self, iteration: Iteration) -> Next:
        sampler = iteration.draws.sampler(self.generator)
        return lambda: (np.array(sampler.next(), np.int64),)

    def cardinality(self) -> int:
        return INFINITE


@register_dataset("RandomDataset", "ExperimentalRandomDataset")
def random_dataset(k: KernelBuild, step: StepContext, seed: Any, seed2: Any) -> Dataset:
    return RandomDataset(SeedGenerator(scalar_of(seed, "seed"), scalar_of(seed2, "seed2"), reshuffle=False))


@register_dataset("RandomDatasetV2")
def random_dataset_v2(k: KernelBuild, step: StepContext, seed: Any, seed2: Any, handle: Any) -> Dataset:
    return RandomDataset(seeded(k, step, seed, seed2, handle, "rerandomize_each_iteration"))


class GeneratorDataset(Dataset):
    """Elements from functions: one that opens, one that gives the next, one that closes."""

    def __init__(self, opening: Function, following: Function, closing: Function) -> None:
        self.opening, self.following, self.closing = opening, following, closing

    def iterate(self, iteration: Iteration) -> Next:
        state: Element | None = None
        finished = False

        def finish(within: Iteration) -> None:
            nonlocal finished
            if state is not None and not finished:
                finished = True
                self.closing(within, state)

        def abandon() -> None:
            # Nobody waits for an answer: the pass is given up, its session closed perhaps, its steps cancelled.
            try:
                finish(Iteration(iteration.step, CancellationToken(), iteration.deterministic, iteration.draws))
            except OpError as e:
                log.warning("Error when finalizing a GeneratorDataset: %s", e.message)

        iteration.on_close(abandon)

        def advance() -> Element:
            nonlocal state
            if finished:
                raise EndOfSequence
            if state is None:
                state = self.opening(iteration, ())
            try:
                return self.following(iteration, state)
            except OutOfRangeError:
                finish(iteration)
                raise EndOfSequence from None

        return advance

    def cardinality(self) -> int:
        return UNKNOWN


@register_dataset("GeneratorDataset")
def generator_dataset(k: KernelBuild, step: StepContext, *captured: Any) -> Dataset:
    first = len(k.attr("Tinit_func_args"))
    second = first + len(k.attr("Tnext_func_args"))
    return GeneratorDataset(
        function_of(k, step, captured[:first], "init_func"),
        function_of(k, step, captured[first:second], "next_func"),
        function_of(k, step, captured[second:], "finalize_func"),
    )
