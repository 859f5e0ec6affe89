"""Datasets that group elements or take groups apart: batches, padded and sparse ones, windows, groups by key."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.errors import DataLossError, FailedPreconditionError, InvalidArgumentError
from dtfctl.runtime.kernels.admission import admit, gathered
from dtfctl.runtime.kernels.context import StepContext
from dtfctl.runtime.kernels.data_flow.handles import shape_text
from dtfctl.runtime.kernels.dataset.core import (
    UNKNOWN,
    Access,
    Dataset,
    Element,
    EndOfSequence,
    Function,
    Iteration,
    Next,
    dataset_of,
    element_bytes,
    scalar_of,
    stack_elements,
)
from dtfctl.runtime.kernels.dataset.mapping import mapped
from dtfctl.runtime.kernels.dataset.registration import function_of, register_dataset
from dtfctl.runtime.kernels.dataset.sources import ListDataset
from dtfctl.runtime.kernels.registry import KernelBuild


class BatchDataset(Dataset):
    """Groups of `size` elements, made one by `merge`."""

    def __init__(self, source: Dataset, size: int, drop_remainder: bool, merge: Any = stack_elements) -> None:
        self.source, self.size, self.drop, self.merge = source, size, drop_remainder, merge

    def iterate(self, iteration: Iteration) -> Next:
        following: Next | None = self.source.iterate(iteration)

        def advance() -> Element:
            nonlocal following
            elements: list[Element] = []
            due = 1
            while following is not None and len(elements) < self.size:
                try:
                    elements.append(following())
                except EndOfSequence:
                    following = None
                    break
                if len(elements) >= due:
                    due = gathered(len(elements), element_bytes(elements[-1]))
            if not elements or (self.drop and len(elements) < self.size):
                raise EndOfSequence
            return self.merge(elements)  # type: ignore[no-any-return]

        return advance

    def cardinality(self) -> int:
        size = self.source.cardinality()
        return size if size < 0 else size // self.size if self.drop else -(-size // self.size)

    def require_access(self) -> None:
        if self.merge is not stack_elements:
            super().require_access()
        if not self.drop:
            raise FailedPreconditionError("Batch does not support global shuffling with `drop_remainder=False`.")
        self.source.require_access()

    def access(self, iteration: Iteration) -> Access:
        element, size = self.source.access(iteration), self.size
        return lambda at: self.merge([element(i) for i in range(at * size, (at + 1) * size)])


def _batch_size(value: Any) -> int:
    size: int = scalar_of(value, "batch_size")
    if size <= 0:
        raise InvalidArgumentError("Batch size must be greater than zero.")
    return size


@register_dataset("BatchDataset", "BatchDatasetV2")
def batch_dataset(k: KernelBuild, step: StepContext, source: Any, size: Any, drop: Any = None) -> Dataset:
    return BatchDataset(dataset_of(source), _batch_size(size), drop is not None and bool(drop))


@register_dataset("ParallelBatchDataset")
def parallel_batch_dataset(
    k: KernelBuild, step: StepContext, source: Any, size: Any, parallel: Any, drop: Any
) -> Dataset:
    return BatchDataset(dataset_of(source), _batch_size(size), bool(drop))


@register_dataset("MapAndBatchDataset", "ExperimentalMapAndBatchDataset")
def map_and_batch_dataset(k: KernelBuild, step: StepContext, source: Any, *rest: Any) -> Dataset:
    *captured, size, _, drop = rest
    return BatchDataset(mapped(k, step, source, captured), _batch_size(size), bool(drop))


@register_dataset("PaddedBatchDataset", "PaddedBatchDatasetV2")
def padded_batch_dataset(k: KernelBuild, step: StepContext, source: Any, size: Any, *rest: Any) -> Dataset:
    n = k.attr("N")
    shapes = [tuple(int(d) for d in s) for s in rest[:n]]
    values, drop = rest[n : 2 * n], len(rest) > 2 * n and bool(rest[2 * n])
    for i, value in enumerate(values):
        if value.ndim != 0:
            raise InvalidArgumentError(
                f"All padding values must be scalars; but at component {i} found shape: {shape_text(value.shape)}"
            )

    def merge(elements: list[Element]) -> Element:
        return tuple(_pad(i, [e[i] for e in elements], shapes[i], values[i]) for i in range(n))

    return BatchDataset(dataset_of(source), _batch_size(size), drop, merge)


def _pad(component: int, parts: list[Any], shape: tuple[int, ...], value: Any) -> Any:
    for part in parts:
        if part.ndim != len(shape):
            raise InvalidArgumentError(
                "All elements in a batch must have the same rank as the padded shape for component"
                f"{component}: expected rank {len(shape)} but got element with rank {part.ndim}"
            )
    target = tuple(max(p.shape[d] for p in parts) if size == -1 else size for d, size in enumerate(shape))
    admit((len(parts), *target), parts[0].dtype.itemsize)
    out: Any = np.empty((len(parts), *target), parts[0].dtype)
    out[...] = value[()] if isinstance(value, np.ndarray) else value
    for i, part in enumerate(parts):
        for d, limit in enumerate(target):
            if part.shape[d] > limit:
                raise DataLossError(
                    "Attempted to pad to a smaller size than the input element: component "
                    f"{component}, dimension {d}, {part.shape[d]} > {limit}."
                )
        out[(i, *(slice(0, s) for s in part.shape))] = part[()] if part.ndim == 0 else part
    return out


@register_dataset("DenseToSparseBatchDataset", "ExperimentalDenseToSparseBatchDataset")
def dense_to_sparse_batch(k: KernelBuild, step: StepContext, source: Any, size: Any, row_shape: Any) -> Dataset:
    shape = tuple(int(d) for d in row_shape)
    variant = k.attr("output_types")[0] is dtypes.variant

    def merge(elements: list[Element]) -> Element:
        rows = [e[0] for e in elements]
        for row in rows:
            if row.ndim != len(shape):
                raise InvalidArgumentError(
                    f"Input element had shape ({shape_text(row.shape)}) that is incompatible with the row shape "
                    f"({shape_text(shape)})."
                )
            for d, limit in enumerate(shape):
                if limit != -1 and row.shape[d] > limit:
                    raise DataLossError(
                        f"Input element had shape ({shape_text(row.shape)}) that is larger than the row shape "
                        f"({shape_text(shape)})."
                    )
        grids = [np.argwhere(np.ones(r.shape, bool)).reshape(r.size, r.ndim) for r in rows]
        indices = np.concatenate([np.concatenate([np.full((len(g), 1), i), g], 1) for i, g in enumerate(grids)]).astype(
            np.int64
        )
        values = np.concatenate([r.reshape(-1) for r in rows])
        dense = [max(r.shape[d] for r in rows) if s == -1 else s for d, s in enumerate(shape)]
        parts = (indices, values, np.array([len(rows), *dense], np.int64))
        if not variant:
            return parts
        # A serialized sparse tensor is a vector of its three parts, each a variant.
        packed = np.empty(3, object)
        packed[:] = parts
        return (packed,)

    return BatchDataset(dataset_of(source), _batch_size(size), False, merge)


class UnbatchDataset(Dataset):
    def __init__(self, source: Dataset) -> None:
        self.source = source

    def iterate(self, iteration: Iteration) -> Next:
        following = self.source.iterate(iteration)
        batch: Element = ()
        at = size = 0

        def advance() -> Element:
            nonlocal batch, at, size
            while at >= size:
                batch = following()
                sizes = {c.shape[0] if c.ndim else -1 for c in batch}
                if -1 in sizes:
                    raise InvalidArgumentError("Input element must have a non-scalar value in each component.")
                if len(sizes) > 1:
                    raise InvalidArgumentError(
                        f"Input element must have the same batch size in each component. Got sizes {sorted(sizes)}."
                    )
                at, size = 0, sizes.pop()
            at += 1
            return tuple(c[at - 1, ...] for c in batch)

        return advance

    def cardinality(self) -> int:
        return UNKNOWN


@register_dataset("UnbatchDataset", "ExperimentalUnbatchDataset")
def unbatch_dataset(k: KernelBuild, step: StepContext, source: Any) -> Dataset:
    return UnbatchDataset(dataset_of(source))


class RebatchDataset(Dataset):
    """Batches of the given sizes, in turn."""

    def __init__(self, source: Dataset, sizes: list[int], drop_remainder: bool) -> None:
        self.source, self.sizes, self.drop = UnbatchDataset(source), sizes, drop_remainder

    def iterate(self, iteration: Iteration) -> Next:
        following, turn, ended = self.source.iterate(iteration), 0, False

        def advance() -> Element:
            nonlocal turn, ended
            size = self.sizes[turn % len(self.sizes)]
            elements: list[Element] = []
            due = 1
            while not ended and len(elements) < size:
                try:
                    elements.append(following())
                except EndOfSequence:
                    ended = True
                    break
                if len(elements) >= due:
                    due = gathered(len(elements), element_bytes(elements[-1]))
            if (ended and not elements) or (self.drop and len(elements) < size):
                raise EndOfSequence
            turn += 1
            return stack_elements(elements) if elements else self._nothing()

        return advance

    def _nothing(self) -> Element:
        """Make a batch of no elements; what is not known of their shapes is 0."""
        shapes = [[0, *(dim or 0 for dim in (shape.dims_or_none or (0,))[1:])] for shape in self.shapes]
        return tuple(np.zeros(shape, dtype.np) for shape, dtype in zip(shapes, self.types))


@register_dataset("RebatchDatasetV2")
def rebatch_dataset_v2(k: KernelBuild, step: StepContext, source: Any, sizes: Any, drop: Any) -> Dataset:
    return RebatchDataset(dataset_of(source), [int(s) for s in sizes.reshape(-1)], bool(drop))


@register_dataset("RebatchDataset", "ExperimentalRebatchDataset")
def rebatch_dataset(k: KernelBuild, step: StepContext, source: Any, replicas: Any) -> Dataset:
    return _SplitBatches(dataset_of(source), scalar_of(replicas, "num_replicas"))


class _SplitBatches(Dataset):
    """Every batch cut into `parts`, the last ones smaller."""

    def __init__(self, source: Dataset, parts: int) -> None:
        self.source, self.parts = source, parts

    def iterate(self, iteration: Iteration) -> Next:
        following = self.source.iterate(iteration)
        waiting: list[Element] = []

        def advance() -> Element:
            while not waiting:
                batch = following()
                size = batch[0].shape[0]
                step = -(-size // self.parts) or 1
                waiting.extend(tuple(c[i : i + step] for c in batch) for i in range(0, size, step))
            return waiting.pop(0)

        return advance


class WindowDataset(Dataset):
    """Windows of `size` elements, `shift` apart, of every `stride`-th element; each component a dataset."""

    def __init__(self, source: Dataset, size: int, shift: int, stride: int, drop_remainder: bool) -> None:
        self.source, self.size, self.shift, self.stride, self.drop = source, size, shift, stride, drop_remainder

    def iterate(self, iteration: Iteration) -> Next:
        following, ended = self.source.iterate(iteration), False
        buffer: list[Element] = []
        span = (self.size - 1) * self.stride + 1

        def fill(count: int) -> None:
            nonlocal ended
            due = 1
            while not ended and len(buffer) < count:
                try:
                    buffer.append(following())
                except EndOfSequence:
                    ended = True
                    break
                if len(buffer) >= due:
                    due = gathered(len(buffer), element_bytes(buffer[-1]))

        def advance() -> Element:
            fill(max(span, 1))
            if not buffer or (self.drop and len(buffer) < span):
                raise EndOfSequence
            window = buffer[: span : self.stride]
            fill(self.shift)
            del buffer[: self.shift]
            return tuple(self._component(c, window) for c in range(len(window[0])))

        return advance

    def _component(self, c: int, window: list[Element]) -> Any:
        part = ListDataset([(e[c],) for e in window])
        part.types, part.shapes = self.source.types[c : c + 1], self.source.shapes[c : c + 1]
        return part.scalar()


@register_dataset("WindowDataset")
def window_dataset(
    k: KernelBuild, step: StepContext, source: Any, size: Any, shift: Any, stride: Any, drop: Any
) -> Dataset:
    numbers = {name: scalar_of(v, name) for name, v in (("size", size), ("shift", shift), ("stride", stride))}
    for name, number in numbers.items():
        if number <= 0:
            raise InvalidArgumentError(f"Window {name} must be greater than zero.")
    return WindowDataset(dataset_of(source), numbers["size"], numbers["shift"], numbers["stride"], bool(drop))


class SlidingWindowDataset(WindowDataset):
    """Whole windows only, stacked."""

    def iterate(self, iteration: Iteration) -> Next:
        windows = super().iterate(iteration)

        def advance() -> Element:
            parts = [p.reshape(-1)[0].elements for p in windows()]
            return stack_elements([tuple(v for (v,) in row) for row in zip(*parts)])

        return advance


@register_dataset("SlidingWindowDataset", "ExperimentalSlidingWindowDataset")
def sliding_window(k: KernelBuild, step: StepContext, source: Any, size: Any, shift: Any, stride: Any) -> Dataset:
    drop = bool(k.attr("drop_remainder", True))
    return SlidingWindowDataset(dataset_of(source), int(size), int(shift), int(stride), drop)


class GroupByWindowDataset(Dataset):
    """Elements of one key, gathered until their window is full, given to a function that makes a dataset of them."""

    def __init__(self, source: Dataset, key: Function, reduce: Function, size: Function) -> None:
        self.source, self.key, self.reduce, self.size = source, key, reduce, size

    def iterate(self, iteration: Iteration) -> Next:
        outer: Next | None = self.source.iterate(iteration)
        groups: dict[int, list[Element]] = {}
        sizes: dict[int, int] = {}
        inner: Next | None = None

        def flush(key: int) -> Next:
            group = ListDataset(groups.pop(key))
            group.types, group.shapes = self.source.types, self.source.shapes
            made = self.reduce(iteration, (np.array(key, np.int64), group.scalar()))
            return dataset_of(made[0]).iterate(iteration)

        def advance() -> Element:
            nonlocal inner, outer
            while True:
                if inner is not None:
                    try:
                        return inner()
                    except EndOfSequence:
                        inner = None
                if outer is None:
                    if not groups:
                        raise EndOfSequence
                    inner = flush(min(groups))
                    continue
                try:
                    element = outer()
                except EndOfSequence:
                    outer = None
                    continue
                key = int(self.key(iteration, element)[0])
                if key not in sizes:
                    size = int(self.size(iteration, (np.array(key, np.int64),))[0])
                    if size <= 0:
                        raise InvalidArgumentError(
                            f"`window_size` must be greater than zero but found {size}.",
                        )
                    sizes[key] = size
                groups.setdefault(key, []).append(element)
                if len(groups[key]) == sizes[key]:
                    del sizes[key]
                    inner = flush(key)

        return advance


@register_dataset("GroupByWindowDataset", "ExperimentalGroupByWindowDataset")
def group_by_window_dataset(k: KernelBuild, step: StepContext, source: Any, *captured: Any) -> Dataset:
    first = len(k.attr("Tkey_func_other_arguments"))
    second = first + len(k.attr("Treduce_func_other_arguments"))
    return GroupByWindowDataset(
        dataset_of(source),
        function_of(k, step, captured[:first], "key_func"),
        function_of(k, step, captured[first:second], "reduce_func"),
        function_of(k, step, captured[second:], "window_size_func"),
    )


class GroupByReducerDataset(Dataset):
    def __init__(self, source: Dataset, key: Function, init: Function, reduce: Function, final: Function) -> None:
        self.source, self.key, self.init, self.reduce, self.final = source, key, init, reduce, final

    def iterate(self, iteration: Iteration) -> Next:
        following = self.source.iterate(iteration)
        states: dict[int, Element] = {}
        keys: list[int] | None = None

        def advance() -> Element:
            nonlocal keys
            while keys is None:
                try:
                    element = following()
                except EndOfSequence:
                    keys = sorted(states)
                    break
                value = self.key(iteration, element)[0]
                if value.dtype != np.int64 or value.ndim:
                    raise InvalidArgumentError("`key_func` must return a scalar int64.")
                key = int(value)
                if key not in states:
                    states[key] = self.init(iteration, (value,))
                states[key] = self.reduce(iteration, (*states[key], *element))
            if not keys:
                raise EndOfSequence
            return self.final(iteration, states.pop(keys.pop(0)))

        return advance


@register_dataset("GroupByReducerDataset", "ExperimentalGroupByReducerDataset")
def group_by_reducer_dataset(k: KernelBuild, step: StepContext, source: Any, *captured: Any) -> Dataset:
    functions, at = [], 0
    for name in ("key", "init", "reduce", "finalize"):
        count = len(k.attr(f"T{name}_func_other_arguments"))
        functions.append(function_of(k, step, captured[at : at + count], f"{name}_func"))
        at += count
    return GroupByReducerDataset(dataset_of(source), *functions)
