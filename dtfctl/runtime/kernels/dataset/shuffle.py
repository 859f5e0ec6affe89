"""Shuffling through a buffer, in TensorFlow's order for the same seeds."""

from __future__ import annotations

import itertools
from typing import Any

from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.framework.tensor_codec import object_scalar
from dtfctl.runtime.kernels.admission import gathered
from dtfctl.runtime.kernels.context import StepContext
from dtfctl.runtime.kernels.data_flow.handles import handle_key, handle_scalar
from dtfctl.runtime.kernels.dataset.core import (
    INFINITE,
    UNKNOWN,
    Dataset,
    Element,
    EndOfSequence,
    Iteration,
    Next,
    dataset_of,
    element_bytes,
    scalar_of,
)
from dtfctl.runtime.kernels.dataset.draws import SeedGenerator
from dtfctl.runtime.kernels.dataset.registration import register_dataset
from dtfctl.runtime.kernels.registry import Kernel, KernelBuild, register_kernel

_IDS = itertools.count()
# Epochs the buffer may span; more would only cost memory.
_MAX_EPOCHS = 3


class ShuffleDataset(Dataset):
    """`size` elements are held and one of the oldest epoch's drawn at random; UNKNOWN holds all."""

    def __init__(self, source: Dataset, size: int, generator: SeedGenerator, count: int = 1) -> None:
        self.source, self.size, self.generator, self.count = source, size, generator, count

    def iterate(self, iteration: Iteration) -> Next:
        sampler = iteration.draws.sampler(self.generator)
        # A size may be far larger than what there is to hold.
        buffer: dict[int, Element] = {}
        room = self.size if self.size > 0 else 1
        due = 1
        # Half-open ranges of positions, one an epoch; position p lives at p % room.
        slices: list[list[int]] = []
        following: Next | None = None
        held = epoch = 0
        produced = True

        def fill() -> None:
            nonlocal following, held, epoch, produced, room, due
            while True:
                if len(slices) > _MAX_EPOCHS and held:
                    return
                if following is None:
                    if self.count != -1 and epoch >= self.count:
                        return
                    if not produced:
                        return
                    if held >= room and self.size > 0:
                        return
                    start = slices[-1][1] if slices else 0
                    slices.append([start, start])
                    following, produced = self.source.iterate(iteration), False
                    epoch += 1
                if self.size > 0 and held >= room:
                    return
                try:
                    element = following()
                except EndOfSequence:
                    following = None
                    if self.size < 0 and held:
                        return
                    continue
                produced = True
                if held == room:
                    buffer[room] = element
                    room += 1
                else:
                    buffer[slices[-1][1] % room] = element
                held += 1
                if held >= due:
                    due = gathered(held, element_bytes(element))
                slices[-1][1] += 1

        def advance() -> Element:
            nonlocal held, sampler
            fill()
            if held == 0:
                raise EndOfSequence
            while slices[0][0] == slices[0][1]:
                slices.pop(0)
                sampler = iteration.draws.sampler(self.generator)
            first = slices[0]
            index = (first[0] + sampler.next() % (first[1] - first[0])) % room
            front = first[0] % room
            element = foremost = buffer.pop(front)
            if index != front:
                element, buffer[index] = buffer[index], foremost
            first[0] += 1
            held -= 1
            return element

        return advance

    def cardinality(self) -> int:
        size = self.source.cardinality()
        if self.count == -1:
            return 0 if size == 0 else INFINITE
        return size if size < 0 else size * self.count


def _size(value: Any) -> int:
    size: int = scalar_of(value, "buffer_size")
    if size < 1 and size != UNKNOWN:
        raise InvalidArgumentError("buffer_size must be greater than zero or UNKNOWN_CARDINALITY")
    return size


def _generator(step: StepContext, handle: Any) -> SeedGenerator:
    container, name = handle_key(handle, "Seed generator")
    return step.resources.lookup(container, name, SeedGenerator)


@register_dataset("ShuffleDataset")
def shuffle_dataset(k: KernelBuild, step: StepContext, source: Any, size: Any, seed: Any, seed2: Any) -> Dataset:
    generator = SeedGenerator(scalar_of(seed, "seed"), scalar_of(seed2, "seed2"), k.attr("reshuffle_each_iteration"))
    return ShuffleDataset(dataset_of(source), _size(size), generator)


@register_dataset("ShuffleDatasetV2")
def shuffle_dataset_v2(k: KernelBuild, step: StepContext, source: Any, size: Any, handle: Any) -> Dataset:
    return ShuffleDataset(dataset_of(source), _size(size), _generator(step, handle))


def seeded(
    k: KernelBuild, step: StepContext, seed: Any, seed2: Any, handle: Any, attr: str = "reshuffle_each_iteration"
) -> SeedGenerator:
    """Find the generator of the handle, or make one when the handle is a dummy (graph mode)."""
    container, name = handle_key(handle, "Seed generator")
    if name.startswith(_DUMMY):
        return SeedGenerator(scalar_of(seed, "seed"), scalar_of(seed2, "seed2"), k.attr(attr))
    return step.resources.lookup(container, name, SeedGenerator)


@register_dataset("ShuffleDatasetV3")
def shuffle_dataset_v3(
    k: KernelBuild, step: StepContext, source: Any, size: Any, seed: Any, seed2: Any, handle: Any
) -> Dataset:
    return ShuffleDataset(dataset_of(source), _size(size), seeded(k, step, seed, seed2, handle))


@register_dataset("ShuffleAndRepeatDataset", "ShuffleAndRepeatDatasetV2")
def shuffle_and_repeat_dataset(
    k: KernelBuild, step: StepContext, source: Any, size: Any, seed: Any, seed2: Any, count: Any, handle: Any = None
) -> Dataset:
    if handle is None:
        reshuffle = k.attr("reshuffle_each_iteration")
        generator = SeedGenerator(scalar_of(seed, "seed"), scalar_of(seed2, "seed2"), reshuffle)
    else:
        generator = seeded(k, step, seed, seed2, handle)
    repeats = scalar_of(count, "count")
    if repeats < 1 and repeats != -1:
        raise InvalidArgumentError("count must be greater than zero or equal to -1.")
    return ShuffleDataset(dataset_of(source), _size(size), generator, repeats)


_DUMMY = "_dummy"


@register_kernel(("DummySeedGenerator", "DummyMemoryCache", "DummyIterationCounter"))
def dummy_resource(k: KernelBuild) -> Kernel:
    handle = handle_scalar(k.device.name, k.container, f"{_DUMMY}_{k.node.op}", k.node.op)
    return lambda: handle


@register_kernel(("AnonymousSeedGenerator", "AnonymousRandomSeedGenerator"), step=True)
def anonymous_seed_generator(k: KernelBuild) -> Kernel:
    def run(step: StepContext, seed: Any, seed2: Any, reshuffle: Any = True) -> Any:
        name = f"_anonymous_seed_generator_{next(_IDS)}"
        generator = SeedGenerator(scalar_of(seed, "seed"), scalar_of(seed2, "seed2"), bool(reshuffle))
        step.resources.create(k.container, name, generator)
        handle = handle_scalar(k.device.name, k.container, name, SeedGenerator.type_name)
        return handle, Deleter(k.container, name).scalar()

    return run


@register_kernel(("DeleteSeedGenerator", "DeleteRandomSeedGenerator", "DeleteMemoryCache"), step=True)
def delete_resource(k: KernelBuild) -> Kernel:
    def run(step: StepContext, handle: Any, deleter: Any) -> None:
        container, name = handle_key(handle, "Resource")
        if not name.startswith(_DUMMY):
            step.resources.delete(container, name)

    return run


class Deleter:
    """The variant beside an anonymous resource's handle; the Delete op takes both."""

    def __init__(self, container: str, name: str) -> None:
        self.container, self.name = container, name

    def scalar(self) -> Any:

        return object_scalar(self)
