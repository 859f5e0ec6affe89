"""Input pipelines of queues: producers of names and slices, and batches, filled by queue runners."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dtfctl.runtime.framework import context, dtypes
from dtfctl.runtime.framework.convert import SparseTensor, constant, convert_to_tensor
from dtfctl.runtime.framework.graph_keys import GraphKeys, name_scope
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.ops import summary
from dtfctl.runtime.ops.array_ops import boolean_mask, size as size_of
from dtfctl.runtime.ops.check_ops import Assert
from dtfctl.runtime.ops.data_flow_ops.queues import FIFOQueue, PaddingFIFOQueue, QueueBase, RandomShuffleQueue
from dtfctl.runtime.ops.math_ops.types import cast
from dtfctl.runtime.ops.op_defs.binary import greater, maximum
from dtfctl.runtime.ops.random_ops import random_shuffle
from dtfctl.runtime.ops.sparse_ops.serialization import (
    deserialize_many_sparse,
    serialize_many_sparse,
    serialize_sparse,
)
from dtfctl.runtime.ops.variables import Variable
from dtfctl.runtime.train.queue_runner import QueueRunner, add_queue_runner
from dtfctl.values import value


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
        epochs = Variable(
            constant(0, dtypes.int64), trainable=False, name="epochs", collections=[GraphKeys.LOCAL_VARIABLES]
        )
        counted = epochs.count_up_to(num_epochs)
        with graph.control_dependencies([counted]):
            return apply_op("Identity", input=value, name=scope)


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
    """Make a queue of the rows of a tensor, over and over, or `num_epochs` times; shuffled anew each time.

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
        if summary_name is not None:
            _tell_how_full(queue, summary_name, capacity)
        return queue


def _tell_how_full(queue: QueueBase, tag: str, capacity: int, kept: int = 0) -> None:
    """Add a summary of the part of a queue that is full, of what is above `kept` elements."""
    size = queue.size()
    if kept:
        size = maximum(0, size - kept)
    summary.scalar(tag, cast(size, dtypes.float32) * (1.0 / (capacity - kept)))


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
    """Make a queue of strings, such as file names.

    Raises:
        ValueError: a list without strings.
    """
    if not isinstance(string_tensor, Tensor) and not string_tensor:
        raise ValueError("string_input_producer requires a non-null input tensor")
    with name_scope(name, "input_producer") as scope:
        strings = convert_to_tensor(string_tensor, dtypes.string)
        some = greater(size_of(strings), 0)
        with context.get_default_graph().control_dependencies(
            [Assert(some, ["string_input_producer requires a non-null input tensor"])]
        ):
            strings = apply_op("Identity", input=strings)
        return input_producer(
            strings, [], num_epochs, shuffle, seed, capacity, shared_name, _part_of(capacity), scope, cancel_op
        )


def _part_of(capacity: int) -> str:
    return f"fraction_of_{capacity}_full"


def range_input_producer(
    limit: Any,
    num_epochs: int | None = None,
    shuffle: bool = True,
    seed: int | None = None,
    capacity: int = 32,
    shared_name: str | None = None,
    name: str | None = None,
) -> FIFOQueue:
    """Make a queue of the integers below `limit`."""
    with name_scope(name, "input_producer") as scope:
        numbers = apply_op("Range", start=0, limit=convert_to_tensor(limit, dtypes.int32), delta=1)
        tag = _part_of(capacity)
        return input_producer(numbers, [], num_epochs, shuffle, seed, capacity, shared_name, tag, scope)


def slice_input_producer(
    tensor_list: Sequence[Any],
    num_epochs: int | None = None,
    shuffle: bool = True,
    seed: int | None = None,
    capacity: int = 32,
    shared_name: str | None = None,
    name: str | None = None,
) -> list[Tensor]:
    """Take one slice of each tensor along the first axis at a time.

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
    """Batches of what the tensors give, in order; a list gives a list (a list of one a tensor), a dict a dict.

    Args:
        enqueue_many: the tensors hold many examples already.
        dynamic_pad: pad unknown dimensions with zeros to the largest of the batch.
        allow_smaller_final_batch: give what is left when the input ends.
    """
    how = _How(batch_size, capacity, enqueue_many, shapes, dynamic_pad, allow_smaller_final_batch, shared_name)
    return _joined([tensors] * num_threads, how, None, True, name or "batch")


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
    how = _How(batch_size, capacity, enqueue_many, shapes, False, allow_smaller_final_batch, shared_name)
    return _joined([tensors] * num_threads, how, (min_after_dequeue, seed), True, name or "shuffle_batch")


def batch_join(
    tensors_list: Sequence[Any],
    batch_size: Any,
    capacity: int = 32,
    enqueue_many: bool = False,
    shapes: Any = None,
    dynamic_pad: bool = False,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """Like `batch`, filled by one thread for each of `tensors_list` (lists or dicts alike)."""
    how = _How(batch_size, capacity, enqueue_many, shapes, dynamic_pad, allow_smaller_final_batch, shared_name)
    return _joined(tensors_list, how, None, True, name or "batch_join")


def shuffle_batch_join(
    tensors_list: Sequence[Any],
    batch_size: Any,
    capacity: int,
    min_after_dequeue: int,
    seed: int | None = None,
    enqueue_many: bool = False,
    shapes: Any = None,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """Like `shuffle_batch`, filled by one thread for each of `tensors_list` (lists or dicts alike)."""
    how = _How(batch_size, capacity, enqueue_many, shapes, False, allow_smaller_final_batch, shared_name)
    return _joined(tensors_list, how, (min_after_dequeue, seed), True, name or "shuffle_batch_join")


def maybe_batch(
    tensors: Any,
    keep_input: Any,
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
    """`batch` of the examples for which `keep_input` (a bool scalar; a vector with `enqueue_many`) holds."""
    how = _How(batch_size, capacity, enqueue_many, shapes, dynamic_pad, allow_smaller_final_batch, shared_name)
    return _joined([tensors] * num_threads, how, None, keep_input, name or "batch")


def maybe_batch_join(
    tensors_list: Sequence[Any],
    keep_input: Any,
    batch_size: Any,
    capacity: int = 32,
    enqueue_many: bool = False,
    shapes: Any = None,
    dynamic_pad: bool = False,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """`batch_join` of the examples for which `keep_input` holds."""
    how = _How(batch_size, capacity, enqueue_many, shapes, dynamic_pad, allow_smaller_final_batch, shared_name)
    return _joined(tensors_list, how, None, keep_input, name or "batch_join")


def maybe_shuffle_batch(
    tensors: Any,
    batch_size: Any,
    capacity: int,
    min_after_dequeue: int,
    keep_input: Any,
    num_threads: int = 1,
    seed: int | None = None,
    enqueue_many: bool = False,
    shapes: Any = None,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """`shuffle_batch` of the examples for which `keep_input` holds."""
    how = _How(batch_size, capacity, enqueue_many, shapes, False, allow_smaller_final_batch, shared_name)
    return _joined([tensors] * num_threads, how, (min_after_dequeue, seed), keep_input, name or "shuffle_batch")


def maybe_shuffle_batch_join(
    tensors_list: Sequence[Any],
    batch_size: Any,
    capacity: int,
    min_after_dequeue: int,
    keep_input: Any,
    seed: int | None = None,
    enqueue_many: bool = False,
    shapes: Any = None,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """`shuffle_batch_join` of the examples for which `keep_input` holds."""
    how = _How(batch_size, capacity, enqueue_many, shapes, False, allow_smaller_final_batch, shared_name)
    return _joined(tensors_list, how, (min_after_dequeue, seed), keep_input, name or "shuffle_batch_join")


def match_filenames_once(pattern: Any, name: str | None = None) -> Variable:
    """Make a local variable of the file names that matched when it was initialized, sorted;
    initialize local variables."""
    with name_scope(name, "matching_filenames"):
        found = apply_op("MatchingFiles", pattern=pattern)
        return Variable(
            found, trainable=False, collections=[GraphKeys.LOCAL_VARIABLES], validate_shape=False, name="files"
        )


@value
class _How:
    """How a queue of examples is made and read."""

    batch_size: Any
    capacity: int
    enqueue_many: bool
    shapes: Any
    dynamic_pad: bool
    allow_smaller: bool
    shared_name: str | None


def _joined(
    tensors_list: Sequence[Any], how: _How, shuffle: tuple[int, int | None] | None, keep_input: Any, name: str
) -> Any:
    if not tensors_list:
        raise ValueError("Expected at least one set of tensors")
    first = tensors_list[0]
    keys = sorted(first) if isinstance(first, Mapping) else None
    with name_scope(name, "batch") as scope:
        parts: list[list[Any]] = []
        for tensors in tensors_list:
            items = [tensors[k] for k in keys] if keys is not None else _listed(tensors)
            parts.append([t if isinstance(t, SparseTensor) else convert_to_tensor(t) for t in items])
        sparse = [t if isinstance(t, SparseTensor) else None for t in parts[0]]
        rows = [[_stored(t, how.enqueue_many) for t in row] for row in parts]
        queue = _queue(rows, how, shuffle)
        # Threads that read the same tensors run one op.
        ops: dict[int, Any] = {}
        for tensors, values in zip(tensors_list, rows):
            if id(tensors) not in ops:
                ops[id(tensors)] = _enqueue(queue, values, how.enqueue_many, keep_input)
        add_queue_runner(QueueRunner(queue, [ops[id(tensors)] for tensors in tensors_list]))
        if shuffle is None:
            _tell_how_full(queue, _part_of(how.capacity), how.capacity)
        else:
            tag = f"fraction_over_{shuffle[0]}_of_{how.capacity - shuffle[0]}_full"
            _tell_how_full(queue, tag, how.capacity, shuffle[0])
        dequeue = queue.dequeue_up_to if how.allow_smaller else queue.dequeue_many
        out = dequeue(how.batch_size, name=scope)
        results = list(out) if isinstance(out, (list, tuple)) else [out]
        if any(sparse):
            results = _restored(results, sparse, how.enqueue_many)
    if keys is not None:
        return dict(zip(keys, results))
    # Of one tensor, or a list of one, a tensor.
    return results[0] if len(results) == 1 else results


def _stored(value: Any, many: bool) -> Tensor:
    """Give what a tensor is in a queue: a sparse one three strings, for each of its rows where it has many examples."""
    if not isinstance(value, SparseTensor):
        return convert_to_tensor(value)
    return serialize_many_sparse(value) if many else serialize_sparse(value)


def _restored(taken: list[Tensor], sparse: list[SparseTensor | None], many: bool) -> list[Any]:
    """Make sparse tensors again of what was taken out of a queue; each result waits for all."""
    found: list[Any] = []
    for tensor, like in zip(taken, sparse):
        if like is None:
            found.append(tensor)
            continue
        rank = like.dense_shape.shape[0].value
        if rank is not None and not many:
            rank += 1
        found.append(deserialize_many_sparse(tensor, like.dtype.base_dtype, rank))
    values = [v.values.op if isinstance(v, SparseTensor) else v.op for v in found]

    def after_all(tensor: Tensor) -> Tensor:
        return apply_op("Identity", "control_dependency", input=tensor)

    with context.get_default_graph().control_dependencies(values):
        return [
            SparseTensor(after_all(v.indices), after_all(v.values), after_all(v.dense_shape))
            if isinstance(v, SparseTensor)
            else after_all(v)
            for v in found
        ]


def _listed(tensors: Any) -> list[Any]:
    return [tensors] if isinstance(tensors, (Tensor, SparseTensor)) else list(tensors)


def _queue(rows: list[list[Tensor]], how: _How, shuffle: tuple[int, int | None] | None) -> Any:
    types = [v.dtype.base_dtype for v in rows[0]]
    if how.shapes:
        static = list(how.shapes)
    else:
        columns = [[v.shape[1:] if how.enqueue_many else v.shape for v in column] for column in zip(*rows)]
        static = [_common(column) for column in columns]
    if shuffle is not None:
        return RandomShuffleQueue(how.capacity, shuffle[0], types, static, seed=shuffle[1], shared_name=how.shared_name)
    if how.dynamic_pad:
        return PaddingFIFOQueue(how.capacity, types, static, shared_name=how.shared_name)
    return FIFOQueue(how.capacity, types, static, shared_name=how.shared_name)


def _common(shapes: list[TensorShape]) -> TensorShape:
    """Return the most specific shape that all are compatible with."""
    ranks = {s.rank for s in shapes}
    if len(ranks) > 1 or None in ranks:
        return TensorShape(None)
    return TensorShape([d.pop() if len(d) == 1 else None for d in map(set, zip(*(s.as_list() for s in shapes)))])


def _enqueue(queue: Any, values: list[Tensor], many: bool, keep_input: Any) -> Any:
    if keep_input is True:
        return queue.enqueue_many(values) if many else queue.enqueue(values)
    keep = convert_to_tensor(keep_input, dtypes.bool_)
    if many and keep.shape.rank == 1:
        return queue.enqueue_many([boolean_mask(v, keep) for v in values])
    kept = apply_op("Reshape", tensor=apply_op("Cast", x=keep, DstT=dtypes.int32), shape=[])
    if not many:
        values = [apply_op("ExpandDims", input=v, dim=0) for v in values]
    # As many copies of the whole as it counts: none or one.
    sizes = [apply_op("Mul", x=apply_op("Shape", input=v), y=_first_only(v, kept)) for v in values]
    starts = [apply_op("ZerosLike", x=s) for s in sizes]
    return queue.enqueue_many(
        [_shaped(apply_op("Slice", input=v, begin=b, size=s), v) for v, b, s in zip(values, starts, sizes)]
    )


def _first_only(value: Tensor, kept: Tensor) -> Tensor:
    """Make a vector as long as the rank: `kept`, and ones."""
    rank = value.shape.rank
    if rank is None:
        raise ValueError(f"The rank of {value.name} must be known to keep or drop it")
    ones = constant([1] * (rank - 1), dtypes.int32, [rank - 1])
    return apply_op("ConcatV2", values=[apply_op("Reshape", tensor=kept, shape=[1]), ones], axis=0)


def _shaped(part: Tensor, whole: Tensor) -> Tensor:
    part.set_shape(TensorShape([None]).concatenate(whole.shape[1:]))
    return part
