"""Transformations of datasets that gather elements: by key, by length."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

from dtfctl.runtime.data.structure import AnyDataset, Structure, trace
from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.convert import constant, convert_to_tensor
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.tensor_shape import TensorShape

_INT64 = Structure(0, (dtypes.int64,), (TensorShape([]),))


class Grouping(AnyDataset):
    """What a dataset can make of several of its elements."""

    def group_by_window(
        self,
        key_func: Callable[..., Any],
        reduce_func: Callable[[Any, Any], Any],
        window_size: Any = None,
        window_size_func: Callable[[Any], Any] | None = None,
        name: str | None = None,
    ) -> Self:
        """Give the elements of datasets that `reduce_func(key, window)` makes of windows of elements with one key.

        Args:
            key_func: gives the key of an element, an int64 scalar.
            window_size: elements of a window, or window_size_func gives it for a key.

        Raises:
            TypeError: reduce_func makes no dataset.
            ValueError: both or none of window_size and window_size_func are given; keys or sizes are no int64 scalars.
        """
        if (window_size is None) == (window_size_func is None):
            raise ValueError(
                "Either the `window_size` argument or the `window_size_func` argument must be specified, but not both."
            )
        size_of = window_size_func or (lambda key: convert_to_tensor(window_size, dtypes.int64))
        key = trace(key_func, self.structure)
        size = trace(size_of, _INT64)
        for what, f in (("key_func", key), ("window_size_func", size)):
            if f.output.types != (dtypes.int64,) or f.output.shapes[0].rank not in (0, None):
                raise ValueError(f"Invalid `{what}`. `{what}` must return a single `tf.int64` scalar tensor.")
        reduced = trace(reduce_func, _INT64, Structure.of_dataset(self.structure))
        if reduced.output.dataset is None:
            raise TypeError("Invalid `reduce_func`. `reduce_func` must return a `Dataset` object.")
        return self._derived(
            "GroupByWindowDataset",
            reduced.output.dataset,
            name=name,
            key_func_other_arguments=key.captured,
            reduce_func_other_arguments=reduced.captured,
            window_size_func_other_arguments=size.captured,
            key_func=key.attr,
            reduce_func=reduced.attr,
            window_size_func=size.attr,
        )

    def bucket_by_sequence_length(
        self,
        element_length_func: Callable[..., Any],
        bucket_boundaries: Sequence[int],
        bucket_batch_sizes: Sequence[int],
        padded_shapes: Any = None,
        padding_values: Any = None,
        pad_to_bucket_boundary: bool = False,
        no_padding: bool = False,
        drop_remainder: bool = False,
        name: str | None = None,
    ) -> Self:
        """Batch elements of similar lengths, padded to the longest of a batch.

        Args:
            element_length_func: gives the length of an element, an int32 scalar.
            bucket_boundaries: the first length of each bucket but the first.
            bucket_batch_sizes: elements of a batch, for each bucket.
            pad_to_bucket_boundary: not there; elements are padded to the longest of their batch.
            no_padding: elements of a bucket have one shape.

        Raises:
            NotImplementedError: pad_to_bucket_boundary is asked for.
            ValueError: the sizes are not one more than the boundaries.
        """
        if pad_to_bucket_boundary:
            raise NotImplementedError(
                "pad_to_bucket_boundary is not there: give the lengths with padded_shapes, or pad in a `map` before"
            )
        if len(bucket_batch_sizes) != len(bucket_boundaries) + 1:
            raise ValueError(
                f"`len(bucket_batch_sizes)` must equal `len(bucket_boundaries) + 1`, but "
                f"{len(bucket_batch_sizes)} vs {len(bucket_boundaries) + 1}."
            )
        sizes = [int(size) for size in bucket_batch_sizes]

        def bucket(*element: Any) -> Any:
            length = apply_op("Cast", x=convert_to_tensor(element_length_func(*element)), DstT=dtypes.int64)
            firsts = constant(list(bucket_boundaries), dtypes.int64, [len(bucket_boundaries)])
            passed = apply_op("Cast", x=apply_op("GreaterEqual", x=length, y=firsts), DstT=dtypes.int64)
            return apply_op("Sum", input=passed, reduction_indices=constant([0]), keep_dims=False)

        def size_of(key: Any) -> Any:
            return apply_op("GatherV2", params=constant(sizes, dtypes.int64), indices=key, axis=constant(0))

        def batch(key: Any, window: Any) -> Any:
            if no_padding:
                return window.batch(size_of(key), drop_remainder=drop_remainder)
            return window.padded_batch(size_of(key), padded_shapes, padding_values, drop_remainder)

        return self.group_by_window(bucket, batch, window_size_func=size_of, name=name)
