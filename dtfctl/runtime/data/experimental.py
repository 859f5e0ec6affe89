"""`tf.data.experimental`: the names TF1 programs take from it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

AUTOTUNE = -1
"""Number of parallel calls, or a buffer's size, that the runtime chooses."""

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
