"""Queues of tuples of tensors: first in first out, padded, shuffled, by priority."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.convert import convert_to_tensor
from dtfctl.runtime.framework.dtypes import DType
from dtfctl.runtime.framework.graph_keys import get_seed, name_scope
from dtfctl.runtime.framework.op_builder import apply_op, apply_op_outputs, make_op
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.ops.data_flow_ops.components import as_shapes, as_types


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
        """Choose the queue `queues[index]` when the graph runs."""
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
        elif not isinstance(vals, (list, tuple)) or (len(self._dtypes) == 1 and len(vals) != 1):
            vals = [vals]
        if len(vals) != len(self._dtypes):
            raise ValueError(f"Expected {len(self._dtypes)} components, got {len(vals)}")
        return [convert_to_tensor(v, t, name=f"component_{i}") for i, (v, t) in enumerate(zip(vals, self._dtypes))]

    def enqueue(self, vals: Any, name: str | None = None) -> Operation:
        """Make an op that adds one element, waiting for room."""
        with name_scope(name, f"{self._name}_enqueue") as scope:
            values = self._components(vals)
            for value, shape in zip(values, self._shapes):
                value.shape.assert_is_compatible_with(shape)
            return make_op("QueueEnqueueV2", scope, handle=self._queue_ref, components=values)

    def enqueue_many(self, vals: Any, name: str | None = None) -> Operation:
        """Make an op that adds the slices of each component along its first axis."""
        with name_scope(name, f"{self._name}_EnqueueMany") as scope:
            values = self._components(vals)
            batch = TensorShape([None])
            for value in values:
                batch = batch.merge_with(value.shape.with_rank_at_least(1)[:1])
            for value, shape in zip(values, self._shapes):
                value.shape[1:].assert_is_compatible_with(shape)
            return make_op("QueueEnqueueManyV2", scope, handle=self._queue_ref, components=values)

    def _result(self, tensors: list[Tensor]) -> Any:
        if self._names is not None:
            return dict(zip(self._names, tensors))
        return tensors[0] if len(tensors) == 1 else tensors

    def _set_shapes(self, tensors: list[Tensor], lead: TensorShape) -> Any:
        for tensor, shape in zip(tensors, self._shapes):
            tensor.set_shape(lead.concatenate(shape))
        return self._result(tensors)

    def dequeue(self, name: str | None = None) -> Any:
        """Take one element; the step waits for it."""
        outputs = apply_op_outputs(
            "QueueDequeueV2", name or f"{self._name}_Dequeue", handle=self._queue_ref, component_types=self._dtypes
        )
        return self._set_shapes(outputs, TensorShape([]))

    def dequeue_many(self, n: Any, name: str | None = None) -> Any:
        """Take `n` elements, stacked."""
        from dtfctl.runtime.framework.constant_value import constant_value

        count = convert_to_tensor(n, dtypes.int32, name="n")
        outputs = apply_op_outputs(
            "QueueDequeueManyV2",
            name or f"{self._name}_DequeueMany",
            handle=self._queue_ref,
            n=count,
            component_types=self._dtypes,
        )
        known = constant_value(count)
        return self._set_shapes(outputs, TensorShape([None if known is None else int(known)]))

    def dequeue_up_to(self, n: Any, name: str | None = None) -> Any:
        """Take `n` elements, or fewer once the queue is closed."""
        outputs = apply_op_outputs(
            "QueueDequeueUpToV2",
            name or f"{self._name}_DequeueUpTo",
            handle=self._queue_ref,
            n=convert_to_tensor(n, dtypes.int32, name="n"),
            component_types=self._dtypes,
        )
        return self._set_shapes(outputs, TensorShape([None]))

    def close(self, cancel_pending_enqueues: bool = False, name: str | None = None) -> Operation:
        return make_op(
            "QueueCloseV2",
            name or f"{self._name}_Close",
            handle=self._queue_ref,
            cancel_pending_enqueues=cancel_pending_enqueues,
        )

    def is_closed(self, name: str | None = None) -> Tensor:
        return apply_op("QueueIsClosedV2", name or f"{self._name}_Is_Closed", handle=self._queue_ref)

    def size(self, name: str | None = None) -> Tensor:
        return apply_op("QueueSizeV2", name or f"{self._name}_Size", handle=self._queue_ref)


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
        types = as_types(dtypes)
        known = as_shapes(shapes, types)
        ref = apply_op(
            "FIFOQueueV2",
            name,
            component_types=types,
            shapes=known,
            capacity=capacity,
            shared_name=shared_name or "",
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
        types = as_types(dtypes)
        known = as_shapes(shapes, types)
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
            shared_name=shared_name or "",
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
        types = as_types(dtypes)
        known = as_shapes(shapes, types, unknown_dims=True)
        if len(known) != len(types):
            raise ValueError("Shapes must be provided for all components")
        ref = apply_op(
            "PaddingFIFOQueueV2",
            name,
            component_types=types,
            shapes=known,
            capacity=capacity,
            shared_name=shared_name or "",
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
        held = as_types(types)
        known = as_shapes(shapes, held)
        ref = apply_op(
            "PriorityQueueV2",
            name,
            component_types=held,
            shapes=known,
            capacity=capacity,
            shared_name=shared_name or "",
        )
        all_shapes = [TensorShape([]), *known] if known else None
        super().__init__([dtypes.int64, *held], all_shapes, names, ref)
