"""Queues, accumulators, barriers, staging areas, and partitioning, with TF1's names."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from dtfctl.runtime.framework import context, dtypes
from dtfctl.runtime.framework.convert import IndexedSlices, convert_to_tensor
from dtfctl.runtime.framework.dtypes import DType, as_dtype
from dtfctl.runtime.framework.graph_keys import get_seed, name_scope
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.framework.tensor_shape import TensorShape, as_shape


def _types(value: Any) -> list[DType]:
    return [as_dtype(v) for v in (value if isinstance(value, (list, tuple)) else [value])]


def _shapes(value: Any, types: list[DType], unknown_dims: bool = False) -> list[TensorShape]:
    if value is None:
        return []
    single = isinstance(value, TensorShape) or not isinstance(value, (list, tuple))
    if single or (isinstance(value, (list, tuple)) and all(v is None or isinstance(v, int) for v in value) and value):
        value = [value]
    if value == () or value == []:
        value = [()] * len(types) if len(types) == 1 else value
    shapes = [as_shape(v) for v in value]
    if len(shapes) != len(types):
        raise ValueError(
            f"Queue shapes must have the same length as dtypes, received len(shapes)={len(shapes)}, "
            f"len(dtypes)={len(types)}"
        )
    if not unknown_dims and not all(s.is_fully_defined() for s in shapes):
        raise ValueError(f"All shapes must be fully defined: {shapes}")
    return shapes


class QueueBase:
    """A queue of tuples of tensors. Make one of the subclasses.

    Attributes:
        queue_ref: the handle tensor.
    """

    def __init__(
        self, dtypes: Sequence[DType], shapes: Sequence[TensorShape] | None, names: Any, queue_ref: Tensor
    ) -> None:
        self._dtypes = list(dtypes)
        self._shapes = list(shapes) if shapes else [TensorShape(None)] * len(self._dtypes)
        self._names = [names] if isinstance(names, str) else list(names) if names is not None else None
        if self._names is not None and len(self._names) != len(self._dtypes):
            raise ValueError(
                f"Queue names must have the same length as dtypes, received len(names)={len(self._names)}, "
                f"len(dtypes)={len(self._dtypes)}"
            )
        self._queue_ref = queue_ref
        self._name = queue_ref.op.name.split("/")[-1]

    @staticmethod
    def from_list(index: Any, queues: Sequence[QueueBase]) -> QueueBase:
        """The queue `queues[index]`, chosen when the graph runs."""
        first = queues[0]
        if any(q.dtypes != first.dtypes or q.names != first.names for q in queues):
            raise TypeError("Queues do not have matching dtypes or names.")
        shapes = first._shapes if all(q._shapes == first._shapes for q in queues) else None
        stacked = apply_op("Pack", values=[q.queue_ref for q in queues], axis=0)
        chosen = apply_op("GatherV2", params=stacked, indices=index, axis=0)
        return QueueBase(first.dtypes, shapes, first.names, chosen)

    @property
    def queue_ref(self) -> Tensor:
        return self._queue_ref

    @property
    def name(self) -> str:
        return self._queue_ref.op.name

    @property
    def dtypes(self) -> list[DType]:
        return self._dtypes

    @property
    def shapes(self) -> list[TensorShape]:
        return self._shapes

    @property
    def names(self) -> list[str] | None:
        return self._names

    def _components(self, vals: Any) -> list[Tensor]:
        if self._names is not None:
            if not isinstance(vals, Mapping):
                raise ValueError("Must enqueue a dictionary in a queue with names")
            if sorted(self._names) != sorted(vals):
                raise ValueError(
                    f"Keys in dictionary to enqueue do not match names of Queue.  Dictionary: {sorted(vals)}, Queue: "
                    f"{sorted(self._names)}"
                )
            vals = [vals[n] for n in self._names]
        elif isinstance(vals, Mapping):
            raise ValueError("Cannot enqueue a dictionary in a queue without names")
        elif not isinstance(vals, (list, tuple)) or (len(self._dtypes) == 1 and not _is_tuple_of_one(vals)):
            vals = [vals]
        if len(vals) != len(self._dtypes):
            raise ValueError(f"Expected {len(self._dtypes)} components, got {len(vals)}")
        return [convert_to_tensor(v, t, name=f"component_{i}") for i, (v, t) in enumerate(zip(vals, self._dtypes))]

    def enqueue(self, vals: Any, name: str | None = None) -> Operation:
        """An op that adds one element, waiting for room."""
        with name_scope(name, f"{self._name}_enqueue") as scope:
            values = self._components(vals)
            for value, shape in zip(values, self._shapes):
                value.shape.assert_is_compatible_with(shape)
            return apply_op("QueueEnqueueV2", scope, handle=self._queue_ref, components=values)  # type: ignore[no-any-return]

    def enqueue_many(self, vals: Any, name: str | None = None) -> Operation:
        """An op that adds the slices of each component along its first axis."""
        with name_scope(name, f"{self._name}_EnqueueMany") as scope:
            values = self._components(vals)
            batch = TensorShape([None])
            for value in values:
                batch = batch.merge_with(value.shape.with_rank_at_least(1)[:1])
            for value, shape in zip(values, self._shapes):
                value.shape[1:].assert_is_compatible_with(shape)
            return apply_op("QueueEnqueueManyV2", scope, handle=self._queue_ref, components=values)  # type: ignore[no-any-return]

    def _result(self, tensors: list[Tensor]) -> Any:
        if self._names is not None:
            return dict(zip(self._names, tensors))
        return tensors[0] if len(tensors) == 1 else tensors

    def _set_shapes(self, tensors: list[Tensor], lead: TensorShape) -> Any:
        for tensor, shape in zip(tensors, self._shapes):
            tensor.set_shape(lead.concatenate(shape))
        return self._result(tensors)

    def dequeue(self, name: str | None = None) -> Any:
        """One element; waits for it."""
        outputs = apply_op(
            "QueueDequeueV2", name or f"{self._name}_Dequeue", handle=self._queue_ref, component_types=self._dtypes
        )
        return self._set_shapes(outputs, TensorShape([]))

    def dequeue_many(self, n: Any, name: str | None = None) -> Any:
        """`n` elements, stacked."""
        from dtfctl.runtime.framework.constant_value import constant_value

        count = convert_to_tensor(n, dtypes.int32, name="n")
        outputs = apply_op(
            "QueueDequeueManyV2",
            name or f"{self._name}_DequeueMany",
            handle=self._queue_ref,
            n=count,
            component_types=self._dtypes,
        )
        known = constant_value(count)
        return self._set_shapes(outputs, TensorShape([None if known is None else int(known)]))

    def dequeue_up_to(self, n: Any, name: str | None = None) -> Any:
        """`n` elements, or fewer once the queue is closed."""
        outputs = apply_op(
            "QueueDequeueUpToV2",
            name or f"{self._name}_DequeueUpTo",
            handle=self._queue_ref,
            n=convert_to_tensor(n, dtypes.int32, name="n"),
            component_types=self._dtypes,
        )
        return self._set_shapes(outputs, TensorShape([None]))

    def close(self, cancel_pending_enqueues: bool = False, name: str | None = None) -> Operation:
        return apply_op(  # type: ignore[no-any-return]
            "QueueCloseV2",
            name or f"{self._name}_Close",
            handle=self._queue_ref,
            cancel_pending_enqueues=cancel_pending_enqueues,
        )

    def is_closed(self, name: str | None = None) -> Tensor:
        return apply_op("QueueIsClosedV2", name or f"{self._name}_Is_Closed", handle=self._queue_ref)  # type: ignore[no-any-return]

    def size(self, name: str | None = None) -> Tensor:
        return apply_op("QueueSizeV2", name or f"{self._name}_Size", handle=self._queue_ref)  # type: ignore[no-any-return]


def _is_tuple_of_one(vals: Any) -> bool:
    return len(vals) == 1


def _shared_name(shared_name: str | None) -> str:
    return shared_name or ""


class FIFOQueue(QueueBase):
    """First in, first out."""

    def __init__(
        self,
        capacity: int,
        dtypes: Any,
        shapes: Any = None,
        names: Any = None,
        shared_name: str | None = None,
        name: str = "fifo_queue",
    ) -> None:
        types = _types(dtypes)
        known = _shapes(shapes, types)
        ref = apply_op(
            "FIFOQueueV2",
            name,
            component_types=types,
            shapes=known,
            capacity=capacity,
            shared_name=_shared_name(shared_name),
        )
        super().__init__(types, known, names, ref)


class RandomShuffleQueue(QueueBase):
    """Gives elements in random order, keeping at least `min_after_dequeue` while open."""

    def __init__(
        self,
        capacity: int,
        min_after_dequeue: int,
        dtypes: Any,
        shapes: Any = None,
        names: Any = None,
        seed: int | None = None,
        shared_name: str | None = None,
        name: str = "random_shuffle_queue",
    ) -> None:
        types = _types(dtypes)
        known = _shapes(shapes, types)
        seed1, seed2 = get_seed(seed)
        if seed1 is None and seed2 is None:
            seed1 = seed2 = 0
        elif seed is None and shared_name is not None:
            # All who share the queue must agree on the seed, whatever their graphs look like.
            seed2 = int(hashlib.md5(shared_name.encode()).hexdigest()[:8], 16) & 0x7FFFFFFF
        ref = apply_op(
            "RandomShuffleQueueV2",
            name,
            component_types=types,
            shapes=known,
            capacity=capacity,
            min_after_dequeue=min_after_dequeue,
            seed=seed1,
            seed2=seed2,
            shared_name=_shared_name(shared_name),
        )
        super().__init__(types, known, names, ref)


class PaddingFIFOQueue(QueueBase):
    """A FIFO queue whose `dequeue_many` pads components of varying shape with zeros."""

    def __init__(
        self,
        capacity: int,
        dtypes: Any,
        shapes: Any,
        names: Any = None,
        shared_name: str | None = None,
        name: str = "padding_fifo_queue",
    ) -> None:
        types = _types(dtypes)
        known = _shapes(shapes, types, unknown_dims=True)
        if len(known) != len(types):
            raise ValueError("Shapes must be provided for all components")
        ref = apply_op(
            "PaddingFIFOQueueV2",
            name,
            component_types=types,
            shapes=known,
            capacity=capacity,
            shared_name=_shared_name(shared_name),
        )
        super().__init__(types, known, names, ref)


class PriorityQueue(QueueBase):
    """Elements begin with an int64 priority; the smallest comes first."""

    def __init__(
        self,
        capacity: int,
        types: Any,
        shapes: Any = None,
        names: Any = None,
        shared_name: str | None = None,
        name: str = "priority_queue",
    ) -> None:
        held = _types(types)
        known = _shapes(shapes, held)
        ref = apply_op(
            "PriorityQueueV2",
            name,
            component_types=held,
            shapes=known,
            capacity=capacity,
            shared_name=_shared_name(shared_name),
        )
        all_shapes = [TensorShape([]), *known] if known else None
        super().__init__([dtypes.int64, *held], all_shapes, names, ref)


class ConditionalAccumulatorBase:
    """What dense and sparse accumulators share."""

    def __init__(self, dtype: Any, shape: Any, accumulator_ref: Tensor) -> None:
        self._dtype = as_dtype(dtype)
        self._shape = as_shape(shape)
        self._accumulator_ref = accumulator_ref
        self._name = accumulator_ref.op.name.split("/")[-1]

    @property
    def accumulator_ref(self) -> Tensor:
        return self._accumulator_ref

    @property
    def name(self) -> str:
        return self._name

    @property
    def dtype(self) -> DType:
        return self._dtype

    def num_accumulated(self, name: str | None = None) -> Tensor:
        """Gradients held now."""
        return self._apply("AccumulatorNumAccumulated", name or f"{self._name}_NumAccumulated")  # type: ignore[no-any-return]

    def set_global_step(self, new_global_step: Any, name: str | None = None) -> Operation:
        """From now on gradients of earlier steps are stale."""
        step = convert_to_tensor(new_global_step, dtypes.int64)
        return self._apply(  # type: ignore[no-any-return]
            "AccumulatorSetGlobalStep", name or f"{self._name}_SetGlobalStep", new_global_step=step
        )

    def _apply(self, op: str, name: str, **arguments: Any) -> Any:
        prefix = "Resource" if self._accumulator_ref.dtype.base_dtype is dtypes.resource else ""
        with context.get_default_graph().colocate_with(self._accumulator_ref.op):
            return apply_op(prefix + op, name, handle=self._accumulator_ref, **arguments)


class ConditionalAccumulator(ConditionalAccumulatorBase):
    """Adds gradients up; taking one out waits for enough of them and gives the mean (or sum)."""

    def __init__(
        self,
        dtype: Any,
        shape: Any = None,
        shared_name: str | None = None,
        name: str = "conditional_accumulator",
        reduction_type: str = "MEAN",
    ) -> None:
        ref = apply_op(
            "ResourceConditionalAccumulator",
            name,
            dtype=dtype,
            shape=as_shape(shape),
            shared_name=_shared_name(shared_name),
            reduction_type=reduction_type,
        )
        super().__init__(dtype, shape, ref)

    def apply_grad(self, grad: Any, local_step: Any = 0, name: str | None = None) -> Operation:
        gradient = convert_to_tensor(grad, self._dtype)
        gradient.shape.assert_is_compatible_with(self._shape)
        step = convert_to_tensor(local_step, dtypes.int64)
        return self._apply("AccumulatorApplyGradient", name or "ApplyGradient", local_step=step, gradient=gradient)  # type: ignore[no-any-return]

    def take_grad(self, num_required: Any, name: str | None = None) -> Tensor:
        out = self._apply(
            "AccumulatorTakeGradient", name or "TakeGradient", num_required=num_required, dtype=self._dtype
        )
        out.set_shape(self._shape)
        return out  # type: ignore[no-any-return]


class SparseConditionalAccumulator(ConditionalAccumulatorBase):
    """The same for gradients that are rows of a larger tensor."""

    def __init__(
        self,
        dtype: Any,
        shape: Any = None,
        shared_name: str | None = None,
        name: str = "sparse_conditional_accumulator",
        reduction_type: str = "MEAN",
    ) -> None:
        ref = apply_op(
            "SparseConditionalAccumulator",
            name,
            dtype=dtype,
            shape=as_shape(shape),
            shared_name=_shared_name(shared_name),
            reduction_type=reduction_type,
        )
        super().__init__(dtype, shape, ref)

    def _apply(self, op: str, name: str, **arguments: Any) -> Any:
        with context.get_default_graph().colocate_with(self._accumulator_ref.op):
            return apply_op(op, name, handle=self._accumulator_ref, **arguments)

    def apply_indexed_slices_grad(self, grad: IndexedSlices, local_step: Any = 0, name: str | None = None) -> Operation:
        return self.apply_grad(grad.indices, grad.values, grad.dense_shape, local_step, name)

    def apply_grad(
        self, grad_indices: Any, grad_values: Any, grad_shape: Any = None, local_step: Any = 0, name: str | None = None
    ) -> Operation:
        shape = convert_to_tensor([] if grad_shape is None else grad_shape, dtypes.int64)
        return self._apply(  # type: ignore[no-any-return]
            "SparseAccumulatorApplyGradient",
            name or "SparseApplyGradient",
            local_step=convert_to_tensor(local_step, dtypes.int64),
            gradient_indices=convert_to_tensor(grad_indices, dtypes.int64),
            gradient_values=convert_to_tensor(grad_values, self._dtype),
            gradient_shape=shape,
            has_known_shape=grad_shape is not None,
        )

    def take_grad(self, num_required: Any, name: str | None = None) -> Any:
        return self._apply(
            "SparseAccumulatorTakeGradient", name or "SparseTakeGradient", num_required=num_required, dtype=self._dtype
        )

    def take_indexed_slices_grad(self, num_required: Any, name: str | None = None) -> IndexedSlices:
        indices, values, shape = self.take_grad(num_required, name)
        return IndexedSlices(values, indices, shape)


class StagingArea:
    """A buffer between the stages of a pipeline.

    Args:
        capacity: elements, memory_limit: bytes it holds at most; 0 for no bound.
    """

    def __init__(
        self,
        dtypes: Any,
        shapes: Any = None,
        names: Any = None,
        shared_name: str | None = None,
        capacity: int = 0,
        memory_limit: int = 0,
    ) -> None:
        self.dtypes = _types(dtypes)
        self.shapes = _shapes(shapes, self.dtypes, True) or [TensorShape(None)] * len(self.dtypes)
        self.names = list(names) if names is not None else None
        graph = context.get_default_graph()
        self._name = shared_name or graph.unique_name("StagingArea")
        self._limits = {"capacity": capacity, "memory_limit": memory_limit}

    @property
    def name(self) -> str:
        return self._name

    def _arguments(self) -> dict[str, Any]:
        return {"shared_name": self._name, **self._limits}

    def put(self, values: Any, name: str | None = None) -> Operation:
        if self.names is not None:
            values = [values[n] for n in self.names]
        items = list(values) if isinstance(values, (list, tuple)) else [values]
        tensors = [convert_to_tensor(v, t) for v, t in zip(items, self.dtypes, strict=True)]
        return apply_op("Stage", name or f"{self._name}_put", values=tensors, **self._arguments())  # type: ignore[no-any-return]

    def _out(self, outputs: list[Tensor]) -> Any:
        for tensor, shape in zip(outputs, self.shapes):
            tensor.set_shape(shape)
        return dict(zip(self.names, outputs)) if self.names is not None else outputs

    def get(self, name: str | None = None) -> Any:
        outputs = apply_op("Unstage", name or f"{self._name}_get", dtypes=self.dtypes, **self._arguments())
        return self._out(outputs)

    def peek(self, index: Any, name: str | None = None) -> Any:
        outputs = apply_op(
            "StagePeek", name or f"{self._name}_peek", index=index, dtypes=self.dtypes, **self._arguments()
        )
        return self._out(outputs)

    def size(self, name: str | None = None) -> Tensor:
        return apply_op("StageSize", name or f"{self._name}_size", dtypes=self.dtypes, **self._arguments())  # type: ignore[no-any-return]

    def clear(self, name: str | None = None) -> Operation:
        return apply_op("StageClear", name or f"{self._name}_clear", dtypes=self.dtypes, **self._arguments())  # type: ignore[no-any-return]


def dynamic_partition(data: Any, partitions: Any, num_partitions: int, name: str | None = None) -> list[Tensor]:
    """`num_partitions` tensors; slice i of `data` goes to partition `partitions[i]`."""
    out = apply_op("DynamicPartition", name, data=data, partitions=partitions, num_partitions=num_partitions)
    return [out] if isinstance(out, Tensor) else out


def dynamic_stitch(indices: Sequence[Any], data: Sequence[Any], name: str | None = None) -> Tensor:
    """Slices of `data` put where `indices` say; of several for one place the last wins."""
    return apply_op("DynamicStitch", name, indices=list(indices), data=list(data))  # type: ignore[no-any-return]


def get_session_handle(data: Any, name: str | None = None) -> Tensor:
    """Keep a tensor in the session; the result fetched is its handle."""
    return apply_op("GetSessionHandleV2", name, value=data)  # type: ignore[no-any-return]


def get_session_tensor(handle: Any, dtype: Any, name: str | None = None) -> Any:
    """(placeholder for the handle, the tensor it stands for)."""
    from dtfctl.runtime.ops.array_ops import placeholder

    holder = placeholder(dtypes.string)
    return holder, apply_op("GetSessionTensor", name, handle=holder, dtype=dtype)


def delete_session_tensor(handle: Any, name: str | None = None) -> Any:
    """(placeholder for the handle, the op that forgets its tensor)."""
    from dtfctl.runtime.ops.array_ops import placeholder

    holder = placeholder(dtypes.string)
    return holder, apply_op("DeleteSessionTensor", name, handle=holder)


__all__ = [
    "ConditionalAccumulator",
    "ConditionalAccumulatorBase",
    "FIFOQueue",
    "PaddingFIFOQueue",
    "PriorityQueue",
    "QueueBase",
    "RandomShuffleQueue",
    "SparseConditionalAccumulator",
    "StagingArea",
    "delete_session_tensor",
    "dynamic_partition",
    "dynamic_stitch",
    "get_session_handle",
    "get_session_tensor",
]
