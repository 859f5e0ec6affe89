"""`Dataset` and its transformations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from dtfctl.runtime.data import saving
from dtfctl.runtime.data.batching import Batching
from dtfctl.runtime.data.grouping import Grouping
from dtfctl.runtime.data.iterator import make_initializable_iterator, make_one_shot_iterator
from dtfctl.runtime.data.leaves import as_element
from dtfctl.runtime.data.op_arguments import DETERMINISTIC, int64
from dtfctl.runtime.data.resampling import Resampling
from dtfctl.runtime.data.selecting import Selecting
from dtfctl.runtime.data.sources import Sources
from dtfctl.runtime.data.structure import Structure, leaves_are, trace
from dtfctl.runtime.framework import context, dtypes, nest
from dtfctl.runtime.framework.graph_keys import get_seed
from dtfctl.runtime.framework.op_builder import apply_op_outputs
from dtfctl.runtime.framework.operation import Operation, Tensor


def _seeds(seed: int | None) -> tuple[Tensor, Tensor]:
    first, second = get_seed(seed)
    if first is None and second is None:
        return int64(0), int64(0)
    pair = (first or 0, second or 0)
    # Both zero would mean "random".
    return (int64(0), int64(2**31 - 1)) if pair == (0, 0) else (int64(pair[0]), int64(pair[1]))


@leaves_are
class Dataset(Sources, Batching, Selecting, Grouping, Resampling):
    """A sequence of elements, each a structure of tensors. Transformations give new datasets.

    Attributes:
        variant: the tensor that stands for it in the graph.
        structure: types and shapes of its elements.
    """

    def map(
        self,
        map_func: Callable[..., Any],
        num_parallel_calls: Any = None,
        deterministic: bool | None = None,
        synchronous: bool | None = None,
        use_unbounded_threadpool: bool = False,
        name: str | None = None,
    ) -> Dataset:
        """`map_func` of every element, `num_parallel_calls` of them at a time.

        With `deterministic=False` elements that are ready come before those that are not. How many threads there are is
        the runtime's to choose: `synchronous` and `use_unbounded_threadpool` change nothing of the elements.
        """
        f = trace(map_func, self.structure)
        if num_parallel_calls is None:
            return self._derived("MapDataset", f.output, name, other_arguments=f.captured, f=f.attr)
        return self._derived(
            "ParallelMapDatasetV2",
            f.output,
            name,
            other_arguments=f.captured,
            f=f.attr,
            num_parallel_calls=int64(num_parallel_calls),
            deterministic=DETERMINISTIC[deterministic],
        )

    def filter(self, predicate: Callable[..., Any], name: str | None = None) -> Dataset:
        """Keep the elements of which `predicate` is true."""
        f = trace(predicate, self.structure)
        if f.output.types != (dtypes.bool_,):
            raise ValueError("`predicate` must return a scalar boolean tensor")
        return self._derived("FilterDataset", name=name, other_arguments=f.captured, predicate=f.attr)

    def flat_map(self, map_func: Callable[..., Any], name: str | None = None) -> Dataset:
        """Give the elements of the datasets that `map_func` makes of the elements."""
        f = trace(map_func, self.structure)
        inner = _returned_dataset(f.output)
        return self._derived("FlatMapDataset", inner, name, other_arguments=f.captured, f=f.attr)

    def interleave(
        self,
        map_func: Callable[..., Any],
        cycle_length: Any = None,
        block_length: Any = None,
        num_parallel_calls: Any = None,
        deterministic: bool | None = None,
        name: str | None = None,
    ) -> Dataset:
        """Like `flat_map`, but takes `block_length` elements in turn (1) from `cycle_length` datasets (one a core).

        With `num_parallel_calls` that many of them are read ahead at a time; with `deterministic=False` too, whatever
        is ready comes first.
        """
        f = trace(map_func, self.structure)
        inner = _returned_dataset(f.output)
        cycle = int64(-1 if cycle_length is None else cycle_length)
        block = int64(1 if block_length is None else block_length)
        arguments: dict[str, Any] = {"cycle_length": cycle, "block_length": block}
        if num_parallel_calls is None:
            return self._derived("InterleaveDataset", inner, name, other_arguments=f.captured, f=f.attr, **arguments)
        return self._derived(
            "ParallelInterleaveDatasetV3",
            inner,
            name,
            other_arguments=f.captured,
            f=f.attr,
            num_parallel_calls=int64(num_parallel_calls),
            deterministic=DETERMINISTIC[deterministic],
            **arguments,
        )

    def shuffle(
        self,
        buffer_size: Any,
        seed: int | None = None,
        reshuffle_each_iteration: bool | None = True,
        name: str | None = None,
    ) -> Dataset:
        """Elements drawn at random from a buffer of `buffer_size`."""
        seed1, seed2 = _seeds(seed)
        return self._derived(
            "ShuffleDataset",
            name=name,
            buffer_size=int64(buffer_size),
            seed=seed1,
            seed2=seed2,
            reshuffle_each_iteration=reshuffle_each_iteration is not False,
        )

    def repeat(self, count: Any = None, name: str | None = None) -> Dataset:
        return self._derived("RepeatDataset", name=name, count=int64(-1 if count is None else count))

    def skip(self, count: Any, name: str | None = None) -> Dataset:
        return self._derived("SkipDataset", name=name, count=int64(count))

    def take(self, count: Any, name: str | None = None) -> Dataset:
        return self._derived("TakeDataset", name=name, count=int64(count))

    def shard(self, num_shards: Any, index: Any, name: str | None = None) -> Dataset:
        """Keep every `num_shards`-th element, from `index` on."""
        return self._derived("ShardDataset", name=name, num_shards=int64(num_shards), index=int64(index))

    def cache(self, filename: str = "", name: str | None = None) -> Dataset:
        """Keep the first whole pass for later ones: in memory, or in files that start with `filename`."""
        return self._derived("CacheDataset", name=name, filename=filename)

    def save(
        self,
        path: str,
        compression: str | None = None,
        shard_func: Callable[..., Any] | None = None,
        checkpoint_args: Any = None,
    ) -> Operation:
        """Make an op that writes the elements to the folder `path`, to the shard that `shard_func` gives for each.

        Args:
            compression: None, "GZIP" or "SNAPPY".

        Raises:
            ValueError: `checkpoint_args` are given.
        """
        if checkpoint_args is not None:
            raise ValueError("a dataset is written in one step here: leave checkpoint_args out")
        return saving.save(self, path, compression, shard_func)

    def snapshot(
        self,
        path: str,
        compression: str | None = "AUTO",
        reader_func: saving.ReaderFunc | None = None,
        shard_func: Callable[..., Any] | None = None,
        name: str | None = None,
    ) -> Dataset:
        """Write the first whole pass under the folder `path`, from which later ones read it, in other programs too.

        What belongs to another dataset is told by the ops that this one is made of, so programs may share a folder.
        """
        source = self if shard_func else self.enumerate()
        kept = Dataset(saving.snapshot(source, path, compression, reader_func, shard_func), source.structure)
        return kept if shard_func else kept.map(lambda position, element: element)

    def prefetch(self, buffer_size: Any, name: str | None = None) -> Dataset:
        """Up to `buffer_size` elements are made ahead, in a thread of the task."""
        return self._derived(
            "PrefetchDataset", name=name, buffer_size=int64(-1 if buffer_size is None else buffer_size)
        )

    def concatenate(self, dataset: Dataset, name: str | None = None) -> Dataset:
        common = self.structure.common(dataset.structure)
        return self._derived("ConcatenateDataset", common, name, another_dataset=dataset.variant)

    def enumerate(self, start: Any = 0, name: str | None = None) -> Dataset:
        """(position, element) pairs."""
        return Sources.zip((Sources.range(start, np.iinfo(np.int64).max), self), name=name)

    def window(
        self,
        size: Any,
        shift: Any = None,
        stride: Any = 1,
        drop_remainder: bool = False,
        name: str | None = None,
    ) -> Dataset:
        """Windows of elements, each component a dataset."""
        components = [Structure.of_leaves(0, [leaf]) for leaf in self.structure.leaves]
        windows = [Structure.of_dataset(component) for component in components]
        structure = Structure.joined(self.structure.template, windows)
        return self._derived(
            "WindowDataset",
            structure,
            name,
            size=int64(size),
            shift=int64(size if shift is None else shift),
            stride=int64(stride),
            drop_remainder=drop_remainder,
        )

    def reduce(self, initial_state: Any, reduce_func: Callable[..., Any], name: str | None = None) -> Any:
        """Make one value of all elements: `reduce_func(state, element)` again and again."""
        state = as_element(initial_state)
        structure = Structure.of(state)
        f = trace(reduce_func, structure, self.structure)
        out = apply_op_outputs(
            "ReduceDataset",
            name,
            input_dataset=self.variant,
            initial_state=structure.flat(state),
            other_arguments=f.captured,
            f=f.attr,
            **structure.attrs,
        )
        return structure.pack(out)

    def scan(self, initial_state: Any, scan_func: Callable[..., Any], name: str | None = None) -> Dataset:
        """`scan_func(state, element)` gives the next state and an element of the result."""
        state = as_element(initial_state)
        structure = Structure.of(state)
        f = trace(scan_func, structure, self.structure)
        result = Structure.of_leaves(f.output.template[1], f.output.leaves[len(structure.types) :])
        return self._derived(
            "ScanDataset", result, name, initial_state=structure.flat(state), other_arguments=f.captured, f=f.attr
        )

    def with_options(self, options: Any, name: str | None = None) -> Dataset:
        """Keep the same elements: what options ask for is decided at run time here."""
        kept = Dataset(self.variant, self.structure)
        kept.given_options = options
        return kept

    # TF1's functions were another kind in the graph; here there is one.
    map_with_legacy_function = map
    filter_with_legacy_function = filter

    def apply(self, transformation_func: Callable[[Dataset], Dataset]) -> Dataset:
        return transformation_func(self)

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the elements, where ops run eagerly.

        Raises:
            RuntimeError: in a graph, where elements have no values; make an iterator and fetch its `get_next()`.
        """
        if not context.get_default_graph().executes:
            raise RuntimeError("__iter__() is only supported inside of tf.function or when eager execution is enabled.")
        iterator = make_initializable_iterator(self)
        return iterator.elements()

    def as_numpy_iterator(self) -> Iterator[Any]:
        """Iterate over the elements as arrays, in their structure, where ops run eagerly.

        Raises:
            RuntimeError: in a graph, as `__iter__` does.
        """
        return (nest.map_structure(lambda tensor: tensor.numpy(), element) for element in iter(self))

    def make_initializable_iterator(self, shared_name: str | None = None) -> Any:
        return make_initializable_iterator(self, shared_name)

    def make_one_shot_iterator(self) -> Any:
        return make_one_shot_iterator(self)


def _returned_dataset(structure: Structure) -> Structure:
    if structure.dataset is None:
        raise TypeError("`map_func` must return a `Dataset` object.")
    return structure.dataset
