"""Datasets that are made of something else than datasets: tensors, Python's generators, files."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from dtfctl.runtime.data import saving
from dtfctl.runtime.data.generators import described, generator_dataset
from dtfctl.runtime.data.leaves import as_element
from dtfctl.runtime.data.op_arguments import int64
from dtfctl.runtime.data.structure import AnyDataset, Structure, new_dataset
from dtfctl.runtime.framework import dtypes, nest
from dtfctl.runtime.framework.convert import SparseTensor
from dtfctl.runtime.framework.dtypes import as_dtype
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.tensor_shape import TensorShape

if TYPE_CHECKING:
    from dtfctl.runtime.data.dataset import Dataset


class Sources(AnyDataset):
    """How datasets begin."""

    @staticmethod
    def from_tensors(tensors: Any, name: str | None = None) -> Dataset:
        """Make a dataset of one element."""
        packed = as_element(tensors)
        structure = Structure.of(packed)
        flat = structure.flat(packed)
        variant = apply_op("TensorDataset", name, components=flat, output_shapes=list(structure.shapes))
        return new_dataset(variant, structure)

    @staticmethod
    def from_tensor_slices(tensors: Any, name: str | None = None) -> Dataset:
        """Make a dataset of the slices of tensors along their first axis."""
        packed = as_element(tensors)
        whole = Structure.of(packed)
        structure = whole.unbatched()
        rows = whole.flat_rows(packed)
        variant = apply_op("TensorSliceDataset", name, components=rows, output_shapes=list(structure.shapes))
        return new_dataset(variant, structure)

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
            output_signature: a structure of `TensorSpec`s and other specs, instead of `output_types` and
                `output_shapes`.

        Raises:
            TypeError: neither or both are given, or the signature has something else than specs.
        """
        structure = described(output_types, output_shapes, output_signature)
        return new_dataset(generator_dataset(generator, structure, tuple(args or ())), structure)

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
        return new_dataset(variant, structure)

    @staticmethod
    def range(*args: Any, output_type: Any = dtypes.int64, name: str | None = None) -> Dataset:
        """Numbers as Python's range gives them, of output_type."""
        bounds = [0, args[0], 1] if len(args) == 1 else [*args, 1][:3]
        structure = Structure(0, (as_dtype(output_type),), (TensorShape([]),))
        start, stop, step = (int64(b) for b in bounds)
        return new_dataset(
            apply_op("RangeDataset", name, start=start, stop=stop, step=step, **structure.attrs), structure
        )

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
        structure = Structure.joined(template, [p.structure for p in parts])
        variant = apply_op("ZipDataset", name, input_datasets=[p.variant for p in parts], **structure.attrs)
        return new_dataset(variant, structure)

    @staticmethod
    def list_files(
        file_pattern: Any, shuffle: bool | None = None, seed: int | None = None, name: str | None = None
    ) -> Dataset:
        """Names of matching files, shuffled unless `shuffle` is False."""
        names = apply_op("MatchingFiles", pattern=file_pattern)
        names.set_shape([None])
        files = Sources.from_tensor_slices(names)
        if shuffle is False:
            return files
        count = apply_op("Maximum", x=apply_op("Size", input=names, out_type=dtypes.int64), y=int64(1))
        return files.shuffle(count, seed=seed)

    @staticmethod
    def counter(start: Any = 0, step: Any = 1, dtype: Any = dtypes.int64, name: str | None = None) -> Dataset:
        """Count from `start` by `step`, without an end."""
        limits, kind = np.iinfo(np.int64), as_dtype(dtype)
        numbers = Sources.range(start, limits.min if step < 0 else limits.max, step, name=name)
        return numbers if kind is dtypes.int64 else numbers.map(lambda n: apply_op("Cast", x=n, DstT=kind))

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
        return new_dataset(saving.load(path, structure, compression, reader_func), structure)
