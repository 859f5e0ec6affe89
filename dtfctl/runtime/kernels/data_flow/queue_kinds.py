"""The queues: first in first out, padded, shuffled, by priority."""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.cancellation import CancellationToken
from dtfctl.runtime.framework.dtypes import DType
from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.kernels.data_flow.handles import shape_text, type_text
from dtfctl.runtime.kernels.data_flow.philox import PhiloxSampler
from dtfctl.runtime.kernels.data_flow.queue import Attempt, Element, Progress, QueueBase


class FIFOQueue(QueueBase):
    kind = "FIFOQueue"

    def __init__(self, name: str, dtypes_: Sequence[DType], shapes: Sequence[TensorShape], capacity: int) -> None:
        super().__init__(name, dtypes_, shapes, capacity)
        self._items: deque[Element] = deque()

    def _count(self) -> int:
        return len(self._items)

    def _put(self, element: Element) -> None:
        self._items.append(element)

    def _take(self) -> Element:
        return self._items.popleft()

    def _put_back(self, elements: list[Element]) -> None:
        self._items.extendleft(reversed(elements))


class PaddingFIFOQueue(FIFOQueue):
    """Component shapes may be partial; `dequeue_many` pads with zeros to the largest element."""

    kind = "PaddingFIFOQueue"

    def __init__(self, name: str, dtypes_: Sequence[DType], shapes: Sequence[TensorShape], capacity: int) -> None:
        if len(shapes) != len(dtypes_):
            raise InvalidArgumentError(
                f"Shapes must be provided for all components, but received {len(dtypes_)} dtypes and "
                f"{len(shapes)} shapes."
            )
        super().__init__(name, dtypes_, shapes, capacity)

    def _same_shapes(self, shapes: tuple[TensorShape, ...]) -> bool:
        return len(shapes) == len(self.shapes) and all(a.is_compatible_with(b) for a, b in zip(shapes, self.shapes))

    def _stack(self, elements: list[Element]) -> Element:
        out = []
        for i, (dtype, shape) in enumerate(zip(self.dtypes, self.shapes)):
            parts = [e[i] for e in elements]
            if shape.is_fully_defined():
                size: tuple[int, ...] = shape.known()
            else:
                declared = shape.dims_or_none or (None,) * parts[0].ndim
                size = tuple(max(p.shape[j] for p in parts) if d is None else d for j, d in enumerate(declared))
            padded: Any = np.zeros((len(parts), *size), dtype.np)
            if dtype is dtypes.string:
                padded[...] = b""
            for j, part in enumerate(parts):
                padded[(j, *(slice(0, n) for n in part.shape))] = part[()] if part.ndim == 0 else part
            out.append(padded)
        return tuple(out)


class RandomShuffleQueue(QueueBase):
    """Gives elements in random order, never fewer than `min_after_dequeue` to choose from while open."""

    kind = "RandomShuffleQueue"

    def __init__(
        self,
        name: str,
        dtypes_: Sequence[DType],
        shapes: Sequence[TensorShape],
        capacity: int,
        min_after_dequeue: int,
        seed: int,
        seed2: int,
    ) -> None:
        super().__init__(name, dtypes_, shapes, capacity)
        self.min_after_dequeue = min_after_dequeue
        self._seeds = (seed, seed2)
        self._random = PhiloxSampler(seed, seed2)
        self._items: list[Element] = []

    def _count(self) -> int:
        return len(self._items)

    def _reserved(self) -> int:
        return self.min_after_dequeue

    def _put(self, element: Element) -> None:
        self._items.append(element)

    def _take(self) -> Element:
        index = self._random.next() % len(self._items)
        element = self._items[index]
        self._items[index] = self._items[-1]
        self._items.pop()
        return element

    def verify(
        self, op: str, dtypes_: Sequence[DType], shapes: Sequence[TensorShape], capacity: int, **options: Any
    ) -> None:
        super().verify(op, dtypes_, shapes, capacity)
        if options["min_after_dequeue"] != self.min_after_dequeue:
            raise InvalidArgumentError(
                f"Shared queue '{self.name}' has min_after_dequeue {self.min_after_dequeue} but requested "
                f"min_after_dequeue was {options['min_after_dequeue']}."
            )
        wanted = (options["seed"], options["seed2"])
        if wanted != self._seeds and wanted != (0, 0):
            raise InvalidArgumentError(
                f"Shared queue '{self.name}' has random seeds ({self._seeds[0]}, {self._seeds[1]}) but requested seeds "
                f"are ({wanted[0]}, {wanted[1]})."
            )


class PriorityQueue(QueueBase):
    """Gives the element whose first component, an int64 scalar, is smallest; ties in order of arrival."""

    kind = "PriorityQueue"

    def __init__(self, name: str, dtypes_: Sequence[DType], shapes: Sequence[TensorShape], capacity: int) -> None:
        if dtypes_[0] is not dtypes.int64:
            raise InvalidArgumentError(
                "PriorityQueue priority index component must be type int64, but dtype is: " + type_text(dtypes_[0])
            )
        if shapes and shapes[0] != TensorShape([]):
            raise InvalidArgumentError(
                "PriorityQueue priority index component must be a scalar, but shape is: " + shape_text(shapes[0])
            )
        super().__init__(name, dtypes_, shapes, capacity)
        self._heap: list[tuple[int, int, Element]] = []
        self._order = itertools.count()

    def _count(self) -> int:
        return len(self._heap)

    def _put(self, element: Element) -> None:
        if element[0].shape != ():
            raise InvalidArgumentError(
                "Expected the priority element to be a scalar, but received shape: " + shape_text(element[0].shape)
            )
        heapq.heappush(self._heap, (int(element[0]), next(self._order), element))

    def _take(self) -> Element:
        return heapq.heappop(self._heap)[2]

    def _check_batchable(self) -> None:
        if not self.shapes:
            raise InvalidArgumentError("PriorityQueue's DequeueMany requires the components to have specified shapes.")

    def dequeue_many(self, count: int, cancellation: CancellationToken, allow_small_batch: bool = False) -> Element:
        # Nothing is taken before all of it is there: a smaller element may still come.
        self._check_batchable()
        if count == 0:
            return tuple(self._empty(i) for i in range(len(self.dtypes)))

        def advance(attempt: Attempt) -> Progress:
            size = self._count()
            if self.closed and (size == 0 or (not allow_small_batch and size < count)):
                return attempt.fail(self._insufficient(count, size))
            if size < count and not (self.closed and allow_small_batch):
                return "none"
            attempt.result = self._stack([self._take() for _ in range(min(count, size))])
            return "done"

        element: Element = self._run(Attempt("Dequeue", advance), cancellation)
        return element
