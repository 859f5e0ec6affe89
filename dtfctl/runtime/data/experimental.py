"""`tf.data.experimental`: the names TF1 programs take from it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Any

from dtfctl.runtime.data.dataset import Dataset
from dtfctl.runtime.data.files import CsvDataset as CsvDataset
from dtfctl.runtime.data.iterator import Iterator
from dtfctl.runtime.data.optional import Optional
from dtfctl.runtime.data.reading import (
    TFRecordWriter as TFRecordWriter,
    from_list as from_list,
    get_structure as get_structure,
    make_batched_features_dataset as make_batched_features_dataset,
    make_csv_dataset as make_csv_dataset,
    parse_example_dataset as parse_example_dataset,
)
from dtfctl.runtime.framework import context, dtypes
from dtfctl.runtime.framework.convert import convert_to_tensor
from dtfctl.runtime.framework.op_builder import apply_op, make_op
from dtfctl.runtime.train.saveables import SaveableObject

AUTOTUNE = -1
"""Number of parallel calls, or a buffer's size, that the runtime chooses."""


class AutoShardPolicy(IntEnum):
    """Say how processes of a strategy share a dataset: `options.experimental_distribute.auto_shard_policy`.

    AUTO and DATA: each takes its part of every batch. OFF: each reads the whole. FILE and HINT, which share files out,
    are refused.
    """

    OFF = -1
    AUTO = 0
    FILE = 1
    DATA = 2
    HINT = 3


INFINITE_CARDINALITY = -1
UNKNOWN_CARDINALITY = -2


def shuffle_and_repeat(buffer_size: Any, count: Any = None, seed: int | None = None) -> Callable[[Any], Any]:
    """Shuffle, and begin again `count` times: for `Dataset.apply`."""
    return lambda dataset: dataset.shuffle(buffer_size, seed).repeat(count)


def map_and_batch(
    map_func: Callable[..., Any],
    batch_size: Any,
    num_parallel_batches: Any = None,
    drop_remainder: bool = False,
    num_parallel_calls: Any = None,
) -> Callable[[Any], Any]:
    """Apply `map_func` to every element, then batch: for `Dataset.apply`."""
    return lambda dataset: dataset.map(map_func, num_parallel_calls).batch(batch_size, drop_remainder)


def parallel_interleave(
    map_func: Callable[..., Any],
    cycle_length: Any,
    block_length: Any = 1,
    sloppy: bool = False,
    buffer_output_elements: Any = None,
    prefetch_input_elements: Any = None,
) -> Callable[[Any], Any]:
    """Take the elements of several datasets by turns: for `Dataset.apply`."""
    return lambda dataset: dataset.interleave(map_func, cycle_length, block_length)


def unbatch() -> Callable[[Any], Any]:
    """Take the slices of every element: for `Dataset.apply`."""
    return lambda dataset: dataset.unbatch()


def dense_to_ragged_batch(
    batch_size: Any, drop_remainder: bool = False, row_splits_dtype: Any = dtypes.int64
) -> Callable[[Any], Any]:
    """Batch elements of several shapes as ragged tensors: for `Dataset.apply`."""
    return lambda dataset: dataset.ragged_batch(batch_size, drop_remainder, row_splits_dtype)


def dense_to_sparse_batch(batch_size: Any, row_shape: Any) -> Callable[[Any], Any]:
    """Batch elements of several shapes as sparse tensors: for `Dataset.apply`."""
    return lambda dataset: dataset.sparse_batch(batch_size, row_shape)


def ignore_errors(log_warning: bool = False) -> Callable[[Any], Any]:
    """Leave out elements that cannot be made: for `Dataset.apply`."""
    return lambda dataset: dataset.ignore_errors(log_warning)


def take_while(predicate: Callable[..., Any]) -> Callable[[Any], Any]:
    """Keep the elements before the first of which `predicate` is false: for `Dataset.apply`."""
    return lambda dataset: dataset.take_while(predicate)


def unique() -> Callable[[Any], Any]:
    """Keep each of several equal elements once: for `Dataset.apply`."""
    return lambda dataset: dataset.unique()


def scan(initial_state: Any, scan_func: Callable[..., Any]) -> Callable[[Any], Any]:
    """Carry a state from element to element: for `Dataset.apply`."""
    return lambda dataset: dataset.scan(initial_state, scan_func)


def enumerate_dataset(start: Any = 0) -> Callable[[Any], Any]:
    """Give (position, element) pairs: for `Dataset.apply`."""
    return lambda dataset: dataset.enumerate(start)


def group_by_window(
    key_func: Callable[..., Any],
    reduce_func: Callable[[Any, Any], Any],
    window_size: Any = None,
    window_size_func: Callable[[Any], Any] | None = None,
) -> Callable[[Any], Any]:
    """Make datasets of windows of elements with one key: for `Dataset.apply`."""
    return lambda dataset: dataset.group_by_window(key_func, reduce_func, window_size, window_size_func)


def bucket_by_sequence_length(*args: Any, **kwargs: Any) -> Callable[[Any], Any]:
    """Batch elements of similar lengths, with `Dataset.bucket_by_sequence_length`'s arguments: for `Dataset.apply`."""
    return lambda dataset: dataset.bucket_by_sequence_length(*args, **kwargs)


def cardinality(dataset: Any) -> Any:
    """Count the elements of a dataset, as `Dataset.cardinality` does."""
    return dataset.cardinality()


def sample_from_datasets(
    datasets: Sequence[Any], weights: Any = None, seed: int | None = None, stop_on_empty_dataset: bool = False
) -> Any:
    """Take each next element from a dataset that is drawn at random, as `Dataset.sample_from_datasets` does."""
    return type(datasets[0]).sample_from_datasets(datasets, weights, seed, stop_on_empty_dataset)


def choose_from_datasets(datasets: Sequence[Any], choice_dataset: Any, stop_on_empty_dataset: bool = False) -> Any:
    """Take each next element from the dataset that another one names, as `Dataset.choose_from_datasets` does."""
    return type(datasets[0]).choose_from_datasets(datasets, choice_dataset, stop_on_empty_dataset)


def get_next_as_optional(iterator: Iterator) -> Optional:
    """Take the next element of an iterator, as an optional that has no value when there is none."""
    return iterator.get_next_as_optional()


def make_saveable_from_iterator(iterator: Iterator, external_state_policy: str | None = None) -> SaveableObject:
    """Make what a Saver keeps of an iterator: its place. Add it to the collection SAVEABLE_OBJECTS, or to var_list.

    Args:
        external_state_policy: of datasets whose state is not their own (a stateful function, a generator): "fail" when
            they are saved, also where it is None; "warn", or "ignore".

    Raises:
        ValueError: the policy is another one.
    """
    policies = {"warn": 0, "ignore": 1, "fail": 2}
    policy = external_state_policy or "fail"
    if policy not in policies:
        raise ValueError(f"external_state_policy {policy!r}: it is one of {sorted(policies)}")
    return _SaveableIterator(iterator, policies[policy])


class _SaveableIterator(SaveableObject):
    def __init__(self, iterator: Iterator, policy: int) -> None:
        resource = iterator.resource
        state = apply_op("SerializeIterator", resource_handle=resource, external_state_policy=policy)
        super().__init__(resource, [(state, "", f"{resource.name}_STATE")], resource.name)

    def restore(self, restored_tensors: Sequence[Any], restored_shapes: Any) -> Any:
        with context.get_default_graph().colocate_with(self.op.op):
            return make_op("DeserializeIterator", resource_handle=self.op, serialized=restored_tensors[0])


def prefetch_to_device(device: str, buffer_size: Any = None) -> Callable[[Any], Any]:
    """Read elements ahead: for `Dataset.apply`. They go to the device of the ops that take them."""
    return lambda dataset: dataset.prefetch(AUTOTUNE if buffer_size is None else buffer_size)


def copy_to_device(target_device: str, source_device: str = "/cpu:0") -> Callable[[Any], Any]:
    """Leave elements as they are: they go to the device of the ops that take them. For `Dataset.apply`."""
    return lambda dataset: dataset


def RandomDataset(
    seed: int | None = None, rerandomize_each_iteration: bool | None = None, name: str | None = None
) -> Any:
    """Draw numbers in [0, 2**32) without an end, as `Dataset.random` does."""
    return Dataset.random(seed, rerandomize_each_iteration, name)


def get_single_element(dataset: Any) -> Any:
    """Return the element of a dataset that has one; a step fails with InvalidArgumentError where it has not."""
    return dataset.get_single_element()


def rejection_resample(
    class_func: Callable[..., Any], target_dist: Any, initial_dist: Any = None, seed: int | None = None
) -> Callable[[Any], Any]:
    """Leave elements out so that classes have other shares: for `Dataset.apply`."""
    return lambda dataset: dataset.rejection_resample(class_func, target_dist, initial_dist, seed)


def assert_cardinality(expected_cardinality: Any) -> Callable[[Any], Any]:
    """Say how many elements there are, which reading them checks: for `Dataset.apply`."""
    return lambda dataset: dataset._derived(
        "AssertCardinalityDataset", cardinality=convert_to_tensor(expected_cardinality, dtypes.int64)
    )


def Counter(start: int = 0, step: int = 1, dtype: Any = dtypes.int64) -> Any:
    """Count without an end."""
    return Dataset.counter(start, step, dtype)
