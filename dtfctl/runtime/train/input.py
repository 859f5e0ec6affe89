"""Input pipelines of queues: producers of names and slices, and batches, filled by queue runners."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dtfctl.runtime.framework import context, dtypes
from dtfctl.runtime.framework.convert import convert_to_tensor
from dtfctl.runtime.framework.graph_keys import GraphKeys, name_scope
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.ops.data_flow_ops.queues import FIFOQueue, PaddingFIFOQueue, RandomShuffleQueue
from dtfctl.runtime.ops.random_ops import random_shuffle
from dtfctl.runtime.ops.variable_scope import get_variable
from dtfctl.runtime.train.queue_runner import QueueRunner, add_queue_runner


def limit_epochs(tensor: Any, num_epochs: int | None = None, name: str | None = None) -> Tensor:
    """`tensor`, `num_epochs` times; then OutOfRangeError. The count is a local variable: initialize those.

    Raises:
        ValueError: `num_epochs` is not positive.
    """
    value = convert_to_tensor(tensor)
    if num_epochs is None:
        return value
    if num_epochs <= 0:
        raise ValueError(f"num_epochs must be > 0, not {num_epochs}.")
    graph = context.get_default_graph()
    with name_scope(name, "limit_epochs") as scope:
        epochs = get_variable(
            f"{scope}epochs".replace("/", "_"),
            initializer=convert_to_tensor(0, dtypes.int64),
            trainable=False,
            collections=[GraphKeys.LOCAL_VARIABLES],
        )
        counted = epochs.count_up_to(num_epochs)
        with graph.control_dependencies([counted]):
            return apply_op("Identity", input=value, name=scope)  # type: ignore[no-any-return]


def input_producer(
    input_tensor: Any,
    element_shape: Any = None,
    num_epochs: int | None = None,
    shuffle: bool = True,
    seed: int | None = None,
    capacity: int = 32,
    shared_name: str | None = None,
    summary_name: str | None = None,
    name: str | None = None,
    cancel_op: Any = None,
) -> FIFOQueue:
    """A queue of the rows of a tensor, over and over, or `num_epochs` times; shuffled anew each time.

    Raises:
        ValueError: the tensor has no known row shape.
    """
    with name_scope(name, "input_producer"):
        rows = convert_to_tensor(input_tensor, name="input_tensor")
        shape = rows.shape[1:].merge_with(TensorShape(element_shape))
        if not shape.is_fully_defined():
            raise ValueError(
                "Either `input_tensor` must have a fully defined shape or `element_shape` must be specified"
            )
        if shuffle:
            rows = random_shuffle(rows, seed=seed)
        rows = limit_epochs(rows, num_epochs)
        queue = FIFOQueue(capacity, [rows.dtype.base_dtype], [shape], shared_name=shared_name, name=name or "queue")
        add_queue_runner(QueueRunner(queue, [queue.enqueue_many([rows])], cancel_op=cancel_op))
        return queue


def string_input_producer(
    string_tensor: Any,
    num_epochs: int | None = None,
    shuffle: bool = True,
    seed: int | None = None,
    capacity: int = 32,
    shared_name: str | None = None,
    name: str | None = None,
    cancel_op: Any = None,
) -> FIFOQueue:
    """A queue of strings, such as file names.

    Raises:
        ValueError: a list without strings.
    """
    if not isinstance(string_tensor, Tensor) and not string_tensor:
        raise ValueError("string_input_producer requires a non-null input tensor")
    with name_scope(name, "input_producer") as scope:
        strings = convert_to_tensor(string_tensor, dtypes.string)
        return input_producer(strings, [], num_epochs, shuffle, seed, capacity, shared_name, None, scope, cancel_op)


def range_input_producer(
    limit: Any,
    num_epochs: int | None = None,
    shuffle: bool = True,
    seed: int | None = None,
    capacity: int = 32,
    shared_name: str | None = None,
    name: str | None = None,
) -> FIFOQueue:
    """A queue of the integers below `limit`."""
    with name_scope(name, "input_producer") as scope:
        numbers = apply_op("Range", start=0, limit=convert_to_tensor(limit, dtypes.int32), delta=1)
        return input_producer(numbers, [], num_epochs, shuffle, seed, capacity, shared_name, None, scope)


def slice_input_producer(
    tensor_list: Sequence[Any],
    num_epochs: int | None = None,
    shuffle: bool = True,
    seed: int | None = None,
    capacity: int = 32,
    shared_name: str | None = None,
    name: str | None = None,
) -> list[Tensor]:
    """One slice of each tensor along the first axis at a time.

    Raises:
        ValueError: the list is empty.
    """
    if not tensor_list:
        raise ValueError("Expected at least one tensor in slice_input_producer().")
    with name_scope(name, "input_producer"):
        tensors = [convert_to_tensor(t) for t in tensor_list]
        size = apply_op(
            "StridedSlice",
            input=apply_op("Shape", input=tensors[0]),
            begin=[0],
            end=[1],
            strides=[1],
            shrink_axis_mask=1,
        )
        queue = range_input_producer(size, num_epochs, shuffle, seed, capacity, shared_name)
        index = queue.dequeue()
        return [apply_op("GatherV2", params=t, indices=index, axis=0) for t in tensors]


def batch(
    tensors: Any,
    batch_size: Any,
    num_threads: int = 1,
    capacity: int = 32,
    enqueue_many: bool = False,
    shapes: Any = None,
    dynamic_pad: bool = False,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """Batches of what the tensors give, in order; a list gives a list, a dict a dict.

    Args:
        enqueue_many: the tensors hold many examples already.
        dynamic_pad: pad unknown dimensions with zeros to the largest of the batch.
        allow_smaller_final_batch: give what is left when the input ends.
    """
    return _batch(
        tensors,
        None,
        batch_size,
        num_threads,
        capacity,
        enqueue_many,
        shapes,
        dynamic_pad,
        allow_smaller_final_batch,
        shared_name,
        name or "batch",
    )


def shuffle_batch(
    tensors: Any,
    batch_size: Any,
    capacity: int,
    min_after_dequeue: int,
    num_threads: int = 1,
    seed: int | None = None,
    enqueue_many: bool = False,
    shapes: Any = None,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """Like `batch`, drawn at random from at least `min_after_dequeue` examples."""
    return _batch(
        tensors,
        (min_after_dequeue, seed),
        batch_size,
        num_threads,
        capacity,
        enqueue_many,
        shapes,
        False,
        allow_smaller_final_batch,
        shared_name,
        name or "shuffle_batch",
    )


def _batch(
    tensors: Any,
    shuffle: tuple[int, int | None] | None,
    batch_size: Any,
    num_threads: int,
    capacity: int,
    enqueue_many: bool,
    shapes: Any,
    dynamic_pad: bool,
    allow_smaller: bool,
    shared_name: str | None,
    name: str,
) -> Any:
    keys = sorted(tensors) if isinstance(tensors, Mapping) else None
    single = isinstance(tensors, Tensor)
    items = [tensors[k] for k in keys] if keys is not None else [tensors] if single else list(tensors)
    with name_scope(name, "batch") as scope:
        values = [convert_to_tensor(t) for t in items]
        types = [v.dtype.base_dtype for v in values]
        static = shapes or [v.shape[1:] if enqueue_many else v.shape for v in values]
        queue: Any
        if shuffle is not None:
            queue = RandomShuffleQueue(capacity, shuffle[0], types, static, seed=shuffle[1], shared_name=shared_name)
        elif dynamic_pad:
            queue = PaddingFIFOQueue(capacity, types, static, shared_name=shared_name)
        else:
            queue = FIFOQueue(capacity, types, static, shared_name=shared_name)
        op = queue.enqueue_many(values) if enqueue_many else queue.enqueue(values)
        add_queue_runner(QueueRunner(queue, [op] * num_threads))
        out = (
            queue.dequeue_up_to(batch_size, name=scope) if allow_smaller else queue.dequeue_many(batch_size, name=scope)
        )
        results = list(out) if isinstance(out, (list, tuple)) else [out]
    if keys is not None:
        return dict(zip(keys, results))
    return results[0] if single else results
