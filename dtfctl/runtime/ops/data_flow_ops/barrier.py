"""A store of tuples that are put together by key, piece by piece, and taken when they are whole."""

from __future__ import annotations

from typing import Any, NamedTuple

from dtfctl.runtime.framework.constant_value import constant_value
from dtfctl.runtime.framework.convert import convert_to_tensor
from dtfctl.runtime.framework.dtypes import int32
from dtfctl.runtime.framework.op_builder import apply_op, apply_op_outputs, make_op
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.ops.data_flow_ops.components import as_shapes, as_types


class Taken(NamedTuple):
    """What `Barrier.take_many` returns: when and by which key each tuple was first put in, and the tuples."""

    indices: Tensor
    keys: Tensor
    values: list[Tensor]


class Barrier:
    """A store of tuples by key.

    Attributes:
        barrier_ref: the handle tensor.

    Raises:
        ValueError: a component's shape has no elements.
    """

    def __init__(self, types: Any, shapes: Any = None, shared_name: str | None = None, name: str = "barrier") -> None:
        self._types = as_types(types)
        known = as_shapes(shapes, self._types, False)
        self._shapes = list(known or [TensorShape(None)] * len(self._types))
        for i, shape in enumerate(self._shapes):
            if shape.num_elements() == 0:
                raise ValueError(f"Empty tensors are not supported, but received shape '{shape}' at index {i}")
        self.barrier_ref = apply_op(
            "Barrier",
            name,
            component_types=self._types,
            shapes=self._shapes,
            shared_name=shared_name or "",
        )
        self._name = self.barrier_ref.op.name.split("/")[-1]

    @property
    def name(self) -> str:
        return self.barrier_ref.op.name

    def insert_many(self, component_index: int, keys: Any, values: Any, name: str | None = None) -> Operation:
        """Make an op that puts one component, [n, ...], of the tuples of n keys in."""
        return make_op(
            "BarrierInsertMany",
            name or f"{self._name}_BarrierInsertMany",
            handle=self.barrier_ref,
            keys=keys,
            values=values,
            component_index=component_index,
        )

    def take_many(
        self, num_elements: Any, allow_small_batch: bool = False, timeout: int | None = None, name: str | None = None
    ) -> Taken:
        """Take tuples that are whole, the oldest first; the step waits for them.

        Args:
            allow_small_batch: fewer may be taken where the barrier is closed.
            timeout: milliseconds to wait at most.
        """
        count = convert_to_tensor(num_elements, int32)
        indices, keys, *values = apply_op_outputs(
            "BarrierTakeMany",
            name or f"{self._name}_BarrierTakeMany",
            handle=self.barrier_ref,
            num_elements=count,
            component_types=self._types,
            allow_small_batch=allow_small_batch,
            timeout_ms=-1 if timeout is None else timeout,
        )
        known = None if allow_small_batch else constant_value(count)
        batch = TensorShape([None if known is None else int(known)])
        for tensor, shape in zip([indices, keys, *values], [TensorShape([])] * 2 + self._shapes, strict=True):
            tensor.set_shape(batch.concatenate(shape))
        return Taken(indices, keys, values)

    def close(self, cancel_pending_enqueues: bool = False, name: str | None = None) -> Operation:
        """Make an op after which no new key can be put in, and with `cancel_pending_enqueues` nothing at all."""
        return make_op(
            "BarrierClose",
            name or f"{self._name}_BarrierClose",
            handle=self.barrier_ref,
            cancel_pending_enqueues=cancel_pending_enqueues,
        )

    def ready_size(self, name: str | None = None) -> Tensor:
        """Count the tuples that are whole."""
        return apply_op("BarrierReadySize", name or f"{self._name}_BarrierReadySize", handle=self.barrier_ref)

    def incomplete_size(self, name: str | None = None) -> Tensor:
        """Count the tuples that lack a component."""
        return apply_op("BarrierIncompleteSize", name or f"{self._name}_BarrierIncompleteSize", handle=self.barrier_ref)
