"""`Dataset` and its transformations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from dtfctl.runtime.data import saving
from dtfctl.runtime.data.generators import described, generator_dataset
from dtfctl.runtime.data.grouping import Grouping
from dtfctl.runtime.data.iterator import make_initializable_iterator, make_one_shot_iterator
from dtfctl.runtime.data.padding import padded_to, padding_of
from dtfctl.runtime.data.resampling import Resampling
from dtfctl.runtime.data.selecting import Selecting
from dtfctl.runtime.data.structure import Structure, leaves_are, trace
from dtfctl.runtime.framework import context, dtypes, nest
from dtfctl.runtime.framework.constant_value import constant_value
from dtfctl.runtime.framework.convert import SparseTensor, constant, convert_to_tensor
from dtfctl.runtime.framework.dtypes import as_dtype
from dtfctl.runtime.framework.graph_keys import get_seed
from dtfctl.runtime.framework.op_builder import apply_op, apply_op_outputs
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.framework.tensor_shape import TensorShape


def _int64(value: Any) -> Tensor:
    return convert_to_tensor(value, dtypes.int64)


def _seeds(seed: int | None) -> tuple[Tensor, Tensor]:
    first, second = get_seed(seed)
    if first is None and second is None:
        return _int64(0), _int64(0)
    pair = (first or 0, second or 0)
    # Both zero would mean "random".
    return (_int64(0), _int64(2**31 - 1)) if pair == (0, 0) else (_int64(pair[0]), _int64(pair[1]))


# How ops that work in parallel say whether they keep the order.
_DETERMINISTIC = {None: "default", True: "true", False: "false"}


@leaves_are
class Dataset(Selecting, Grouping, Resampling):
    """A sequence of elements, each a structure of tensors. Transformations give new datasets.

    Attributes:
        variant: the tensor that stands for it in the graph.
        structure: types and shapes of its elements.
    """

    # Sources.

    @staticmethod
    def from_tensors(tensors: Any, name: str | None = None) -> Dataset:
        """Make a dataset of one element."""
        packed = nest.map_structure(convert_to_tensor, _tupled(tensors))
        structure = Structure.of(packed)
        variant = apply_op("TensorDataset", name, components=nest.flatten(packed), output_shapes=list(structure.shapes))
        return Dataset(variant, structure)

    @staticmethod
    def from_tensor_slices(tensors: Any, name: str | None = None) -> Dataset:
        """Make a dataset of the slices of tensors along their first axis."""
        packed = nest.map_structure(convert_to_tensor, _tupled(tensors))
        whole = Structure.of(packed)
        structure = whole.with_shapes([s[1:] for s in whole.shapes])
        variant = apply_op(
            "TensorSliceDataset", name, components=nest.flatten(packed), output_shapes=list(structure.shapes)
        )
        return Dataset(variant, structure)

    @staticmethod
    def from_generator(
        generator: Callable[..., Any],
        output_types: Any = None,
        output_shapes: Any = None,
        args: Iterable[Any] | None = None,
        output_signature: Any = None,
        name: str | None = None,
    ) -> Dataset:
        """Make a dataset of what `generator(*args)` yields, in the client's own process; each pass calls it again.

        Args:
            output_signature: a structure of `TensorSpec`s, instead of `output_types` and `output_shapes`.

        Raises:
            TypeError: neither or both are given, or the signature has something else than a TensorSpec.
        """
        types, shapes = described(output_types, output_shapes, output_signature)
        return Dataset(*generator_dataset(generator, types, shapes, tuple(args or ())))

    @staticmethod
    def from_sparse_tensor_slices(sparse_tensor: Any) -> Dataset:
        """Make a dataset of (indices, values, dense_shape) of each row of a SparseTensor, rows in order.

        Raises:
            TypeError: it is no SparseTensor.
        """
        if not isinstance(sparse_tensor, SparseTensor):
            raise TypeError(f"Invalid `sparse_tensor`. `sparse_tensor` must be a SparseTensor, not {sparse_tensor!r}.")
        rows = sparse_tensor.indices.shape[1:].with_rank(1).as_list()[0]
        rank = None if rows is None else rows - 1
        structure = Structure(
            (0, 0, 0),
            (dtypes.int64, sparse_tensor.values.dtype.base_dtype, dtypes.int64),
            (TensorShape([None, rank]), TensorShape([None]), TensorShape([rank])),
        )
        variant = apply_op(
            "SparseTensorSliceDataset",
            indices=sparse_tensor.indices,
            values=sparse_tensor.values,
            dense_shape=sparse_tensor.dense_shape,
        )
        return Dataset(variant, structure)

    @staticmethod
    def range(*args: Any, output_type: Any = dtypes.int64, name: str | None = None) -> Dataset:
        """Numbers as Python's range gives them, of output_type."""
        bounds = [0, args[0], 1] if len(args) == 1 else [*args, 1][:3]
        structure = Structure(0, (as_dtype(output_type),), (TensorShape([]),))
        start, stop, step = (_int64(b) for b in bounds)
        return Dataset(apply_op("RangeDataset", name, start=start, stop=stop, step=step, **structure.attrs), structure)

    @staticmethod
    def zip(*args: Any, datasets: Any = None, name: str | None = None) -> Dataset:
        """Elements of several datasets side by side: of these, or of a structure of them.

        Raises:
            TypeError: both or none are given.
        """
        if bool(args) == (datasets is not None):
            raise TypeError("Both or none of `*args` and `datasets` are given; one of them says what is put together.")
        if datasets is None:
            datasets = args[0] if len(args) == 1 else args
        parts: list[Dataset] = nest.flatten(datasets)
        template = nest.pack_sequence_as(datasets, [p.structure.template for p in parts])
        structure = Structure(
            template,
            tuple(t for p in parts for t in p.structure.types),
            tuple(s for p in parts for s in p.structure.shapes),
        )
        variant = apply_op("ZipDataset", name, input_datasets=[p.variant for p in parts], **structure.attrs)
        return Dataset(variant, structure)

    @staticmethod
    def list_files(
        file_pattern: Any, shuffle: bool | None = None, seed: int | None = None, name: str | None = None
    ) -> Dataset:
        """Names of matching files, shuffled unless `shuffle` is False."""
        names = apply_op("MatchingFiles", pattern=file_pattern)
        names.set_shape([None])
        files = Dataset.from_tensor_slices(names)
        if shuffle is False:
            return files
        count = apply_op("Maximum", x=apply_op("Size", input=names, out_type=dtypes.int64), y=_int64(1))
        return files.shuffle(count, seed=seed)

    # Transformations.

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
            num_parallel_calls=_int64(num_parallel_calls),
            deterministic=_DETERMINISTIC[deterministic],
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
        cycle = _int64(-1 if cycle_length is None else cycle_length)
        block = _int64(1 if block_length is None else block_length)
        arguments: dict[str, Any] = {"cycle_length": cycle, "block_length": block}
        if num_parallel_calls is None:
            return self._derived("InterleaveDataset", inner, name, other_arguments=f.captured, f=f.attr, **arguments)
        return self._derived(
            "ParallelInterleaveDatasetV3",
            inner,
            name,
            other_arguments=f.captured,
            f=f.attr,
            num_parallel_calls=_int64(num_parallel_calls),
            deterministic=_DETERMINISTIC[deterministic],
            **arguments,
        )

    def batch(
        self,
        batch_size: Any,
        drop_remainder: bool = False,
        num_parallel_calls: Any = None,
        deterministic: bool | None = None,
        name: str | None = None,
    ) -> Dataset:
        """`batch_size` elements stacked into one, `num_parallel_calls` batches at a time."""
        size = _int64(batch_size)
        known = constant_value(size)
        lead = int(known) if known is not None and drop_remainder else None
        structure = self.structure.with_shapes([TensorShape([lead]).concatenate(s) for s in self.structure.shapes])
        if num_parallel_calls is None:
            return self._derived("BatchDatasetV2", structure, name, batch_size=size, drop_remainder=drop_remainder)
        return self._derived(
            "ParallelBatchDataset",
            structure,
            name,
            batch_size=size,
            drop_remainder=drop_remainder,
            num_parallel_calls=_int64(num_parallel_calls),
            deterministic=_DETERMINISTIC[deterministic],
        )

    def padded_batch(
        self,
        batch_size: Any,
        padded_shapes: Any = None,
        padding_values: Any = None,
        drop_remainder: bool = False,
        name: str | None = None,
    ) -> Dataset:
        """Batches of elements padded to common shapes (None: as long as the longest)."""
        own = self.structure
        shapes, values = padded_to(padded_shapes, own), padding_of(padding_values, own)
        tensors = [constant([-1 if d is None else d for d in s.as_list()], dtypes.int64) for s in shapes]
        structure = own.with_shapes([TensorShape([None]).concatenate(s) for s in shapes])
        variant = apply_op(
            "PaddedBatchDatasetV2",
            name,
            input_dataset=self.variant,
            batch_size=_int64(batch_size),
            padded_shapes=tensors,
            padding_values=values,
            drop_remainder=drop_remainder,
            output_shapes=list(structure.shapes),
        )
        return Dataset(variant, structure)

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
            buffer_size=_int64(buffer_size),
            seed=seed1,
            seed2=seed2,
            reshuffle_each_iteration=reshuffle_each_iteration is not False,
        )

    def repeat(self, count: Any = None, name: str | None = None) -> Dataset:
        return self._derived("RepeatDataset", name=name, count=_int64(-1 if count is None else count))

    def skip(self, count: Any, name: str | None = None) -> Dataset:
        return self._derived("SkipDataset", name=name, count=_int64(count))

    def take(self, count: Any, name: str | None = None) -> Dataset:
        return self._derived("TakeDataset", name=name, count=_int64(count))

    def shard(self, num_shards: Any, index: Any, name: str | None = None) -> Dataset:
        """Keep every `num_shards`-th element, from `index` on."""
        return self._derived("ShardDataset", name=name, num_shards=_int64(num_shards), index=_int64(index))

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

    @staticmethod
    def load(
        path: str,
        element_spec: Any = None,
        compression: str | None = None,
        reader_func: saving.ReaderFunc | None = None,
        wait: bool = False,
    ) -> Dataset:
        """Make a dataset of what `save` wrote.

        Args:
            element_spec: a structure of `TensorSpec`s, or of tensors like those of an element.
            reader_func: makes one dataset of the dataset of shards; the default takes from them in turn.

        Raises:
            ValueError: there is no `element_spec`, or `wait` asks to wait for a writer.
        """
        if element_spec is None:
            raise ValueError("give element_spec, the `element_spec` of the dataset that was saved")
        if wait:
            raise ValueError("a dataset is read when it is whole: run `save` before, and leave wait out")
        structure = Structure.of(element_spec)
        return Dataset(saving.load(path, structure, compression, reader_func), structure)

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
            "PrefetchDataset", name=name, buffer_size=_int64(-1 if buffer_size is None else buffer_size)
        )

    def concatenate(self, dataset: Dataset, name: str | None = None) -> Dataset:
        pairs = zip(self.structure.shapes, dataset.structure.shapes, strict=True)
        shapes = [a.most_specific_compatible_shape(b) for a, b in pairs]
        return self._derived(
            "ConcatenateDataset", self.structure.with_shapes(shapes), name, another_dataset=dataset.variant
        )

    def unbatch(self, name: str | None = None) -> Dataset:
        structure = self.structure.with_shapes([s[1:] for s in self.structure.shapes])
        return self._derived("UnbatchDataset", structure, name)

    def enumerate(self, start: Any = 0, name: str | None = None) -> Dataset:
        """(position, element) pairs."""
        return Dataset.zip((Dataset.range(start, np.iinfo(np.int64).max), self), name=name)

    def window(
        self,
        size: Any,
        shift: Any = None,
        stride: Any = 1,
        drop_remainder: bool = False,
        name: str | None = None,
    ) -> Dataset:
        """Windows of elements, each component a dataset."""
        nested = tuple(Structure(0, (t,), (s,)) for t, s in zip(self.structure.types, self.structure.shapes))
        count = len(nested)
        structure = Structure(self.structure.template, (dtypes.variant,) * count, (TensorShape([]),) * count, nested)
        return self._derived(
            "WindowDataset",
            structure,
            name,
            size=_int64(size),
            shift=_int64(size if shift is None else shift),
            stride=_int64(stride),
            drop_remainder=drop_remainder,
        )

    def reduce(self, initial_state: Any, reduce_func: Callable[..., Any], name: str | None = None) -> Any:
        """Make one value of all elements: `reduce_func(state, element)` again and again."""
        state = nest.map_structure(convert_to_tensor, initial_state)
        structure = Structure.of(state)
        f = trace(reduce_func, structure, self.structure)
        out = apply_op_outputs(
            "ReduceDataset",
            name,
            input_dataset=self.variant,
            initial_state=nest.flatten(state),
            other_arguments=f.captured,
            f=f.attr,
            **structure.attrs,
        )
        return structure.pack(out)

    def scan(self, initial_state: Any, scan_func: Callable[..., Any], name: str | None = None) -> Dataset:
        """`scan_func(state, element)` gives the next state and an element of the result."""
        state = nest.map_structure(convert_to_tensor, initial_state)
        structure = Structure.of(state)
        f = trace(scan_func, structure, self.structure)
        template = f.output.template
        count = len(structure.types)
        result = Structure(template[1], f.output.types[count:], f.output.shapes[count:])
        return self._derived(
            "ScanDataset", result, name, initial_state=nest.flatten(state), other_arguments=f.captured, f=f.attr
        )

    def with_options(self, options: Any, name: str | None = None) -> Dataset:
        """Keep the same elements: what options ask for is decided at run time here."""
        kept = Dataset(self.variant, self.structure)
        kept.given_options = options
        return kept

    @staticmethod
    def counter(start: Any = 0, step: Any = 1, dtype: Any = dtypes.int64, name: str | None = None) -> Dataset:
        """Count from `start` by `step`, without an end."""
        limits, kind = np.iinfo(np.int64), as_dtype(dtype)
        numbers = Dataset.range(start, limits.min if step < 0 else limits.max, step, name=name)
        return numbers if kind is dtypes.int64 else numbers.map(lambda n: apply_op("Cast", x=n, DstT=kind))

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


def _tupled(value: Any) -> Any:
    """Lists are tensors in the making, not structures."""
    if isinstance(value, list):
        return convert_to_tensor(value)
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return tuple(_tupled(v) for v in value)
    if isinstance(value, dict):
        return {k: _tupled(v) for k, v in value.items()}
    return value


def _returned_dataset(structure: Structure) -> Structure:
    if len(structure.nested) != 1 or structure.nested[0] is None:
        raise TypeError("`map_func` must return a `Dataset` object.")
    return structure.nested[0]
