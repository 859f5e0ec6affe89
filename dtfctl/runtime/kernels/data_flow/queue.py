"""Queues: bounded buffers of tuples of tensors that producers fill and consumers empty, waiting where they must.

Waiting enqueues and dequeues stand in line, first come first served, and are tried again whenever something changes;
a `dequeue_many` collects elements as they arrive and puts them back if the queue closes before it has enough.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from dtfctl.runtime.framework.cancellation import CancellationToken
from dtfctl.runtime.framework.dtypes import DType
from dtfctl.runtime.framework.errors import CancelledError, InvalidArgumentError, OpError, OutOfRangeError
from dtfctl.runtime.framework.resource_manager import Resource
from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.kernels.data_flow.handles import shape_text, type_text

Element = tuple[Any, ...]
Progress = Literal["none", "some", "done"]


class Attempt:
    """An enqueue, dequeue or close standing in line. `advance` is called with the queue's lock held."""

    __slots__ = ("advance", "error", "finished", "kind", "result")

    def __init__(self, kind: str, advance: Callable[[Attempt], Progress]) -> None:
        self.kind, self.advance = kind, advance
        self.finished = False
        self.error: OpError | None = None
        self.result: Any = None

    def fail(self, error: OpError) -> Progress:
        self.error = error
        return "done"


class QueueBase(Resource):
    """What all queues share: the lines, closing, validation.

    Args:
        capacity: elements it holds at most; negative for no bound.
        shapes: one a component, or empty when they are not specified.
    """

    type_name = "Queue"
    kind = "Queue"

    def __init__(self, name: str, dtypes_: Sequence[DType], shapes: Sequence[TensorShape], capacity: int) -> None:
        if shapes and len(shapes) != len(dtypes_):
            raise InvalidArgumentError(
                f"Different number of component types.  Types: {_types_text(dtypes_)}, Shapes: {_shapes_text(shapes)}"
            )
        self.name = name
        self.dtypes = tuple(dtypes_)
        self.shapes = tuple(shapes)
        self.capacity = capacity if capacity >= 0 else 2**31 - 1
        self.closed = False
        self._condition = threading.Condition()
        self._enqueues: deque[Attempt] = deque()
        self._dequeues: deque[Attempt] = deque()

    # The buffer itself.
    def _count(self) -> int:
        raise NotImplementedError

    def _put(self, element: Element) -> None:
        raise NotImplementedError

    def _take(self) -> Element:
        raise NotImplementedError

    def _put_back(self, elements: list[Element]) -> None:
        for element in reversed(elements):
            self._put(element)

    def _reserved(self) -> int:
        """Elements that must stay while the queue is open."""
        return 0

    def size(self) -> int:
        with self._condition:
            return self._count()

    # Validation.
    def _check_element(self, element: Element) -> None:
        for i, (shape, value) in enumerate(zip(self.shapes, element)):
            if not shape.is_compatible_with(value.shape):
                raise InvalidArgumentError(
                    f"Shape mismatch in tuple component {i}. Expected {shape_text(shape)}, got "
                    f"{shape_text(value.shape)}"
                )

    def _check_batch(self, batch: Element) -> int:
        for i, value in enumerate(batch):
            if value.ndim == 0:
                raise InvalidArgumentError(
                    f"Input tensor {i} of QueueEnqueueMany must have at least one dimension, but is a scalar"
                )
        size = int(batch[0].shape[0])
        for i, value in enumerate(batch):
            if self.shapes:
                expected = TensorShape([size]).concatenate(self.shapes[i])
                if not expected.is_compatible_with(value.shape):
                    raise InvalidArgumentError(
                        f"Shape mismatch in tuple component {i}. Expected {shape_text(expected)}, got "
                        f"{shape_text(value.shape)}"
                    )
            elif value.shape[0] != size:
                raise InvalidArgumentError(
                    "All input tensors must have the same size in the 0th dimension. Component "
                    f"{i} has {value.shape[0]}, and should have {size}"
                )
        return size

    def verify(
        self, op: str, dtypes_: Sequence[DType], shapes: Sequence[TensorShape], capacity: int, **options: Any
    ) -> None:
        """Raise InvalidArgumentError unless a node asking for this queue by name describes the same one."""
        if op.removesuffix("V2") != self.kind:
            raise InvalidArgumentError(f"Expected {self.kind}, found {op}")
        wanted = capacity if capacity >= 0 else 2**31 - 1
        if wanted != self.capacity:
            raise InvalidArgumentError(
                f"Shared queue '{self.name}' has capacity {self.capacity} but requested capacity was {wanted}"
            )
        if tuple(dtypes_) != self.dtypes:
            raise InvalidArgumentError(
                f"Shared queue '{self.name}' has component types {_types_text(self.dtypes)} but requested component "
                f"types were {_types_text(dtypes_)}"
            )
        if not self._same_shapes(tuple(shapes)):
            raise InvalidArgumentError(
                f"Shared queue '{self.name}' has component shapes {_shapes_text(self.shapes)} but requested component "
                f"shapes were {_shapes_text(shapes)}"
            )

    def _same_shapes(self, shapes: tuple[TensorShape, ...]) -> bool:
        return shapes == self.shapes

    # Operations.
    def enqueue(self, element: Element, cancellation: CancellationToken) -> None:
        """Add one element, waiting for room.

        Raises:
            InvalidArgumentError: it does not fit the component shapes.
            CancelledError: the queue is closed, or the step was cancelled.
        """
        self._check_element(element)

        def advance(attempt: Attempt) -> Progress:
            if self.closed:
                return attempt.fail(CancelledError(f"{self.kind} '{self.name}' is closed."))
            if self._count() >= self.capacity:
                return "none"
            try:
                self._put(element)
            except InvalidArgumentError as e:
                return attempt.fail(e)
            return "done"

        self._run(Attempt("Enqueue", advance), cancellation)

    def enqueue_many(self, batch: Element, cancellation: CancellationToken) -> None:
        """Add the slices of each component along axis 0 as elements."""
        size = self._check_batch(batch)
        if size == 0:
            return
        at = 0

        def advance(attempt: Attempt) -> Progress:
            nonlocal at
            if self.closed:
                return attempt.fail(CancelledError(f"{self.kind} '{self.name}' is closed."))
            progress: Progress = "none"
            while self._count() < self.capacity:
                progress = "some"
                try:
                    self._put(tuple(component[at, ...] for component in batch))
                except InvalidArgumentError as e:
                    return attempt.fail(e)
                at += 1
                if at == size:
                    return "done"
            return progress

        self._run(Attempt("Enqueue", advance), cancellation)

    def dequeue(self, cancellation: CancellationToken) -> Element:
        """Remove one element, waiting for it.

        Raises:
            OutOfRangeError: the queue is closed and empty.
            CancelledError: the step was cancelled.
        """

        def advance(attempt: Attempt) -> Progress:
            size = self._count()
            if self.closed and size == 0:
                return attempt.fail(self._insufficient(1, size))
            if not self.closed:
                size -= self._reserved()
            if size <= 0:
                return "none"
            attempt.result = self._take()
            return "done"

        element: Element = self._run(Attempt("Dequeue", advance), cancellation)
        return element

    def dequeue_many(self, count: int, cancellation: CancellationToken, allow_small_batch: bool = False) -> Element:
        """Remove `count` elements and stack each component; with `allow_small_batch` a closed queue may give fewer."""
        self._check_batchable()
        if count == 0:
            return tuple(self._empty(i) for i in range(len(self.dtypes)))
        taken: list[Element] = []

        def advance(attempt: Attempt) -> Progress:
            nonlocal count
            size = self._count()
            missing = count - len(taken)
            if self.closed and size < missing:
                if taken:
                    self._put_back(taken)
                    taken.clear()
                available = self._count()
                if allow_small_batch and available:
                    count = missing = size = available
                elif allow_small_batch and any(not a.finished and a.kind == "Enqueue" for a in self._enqueues):
                    return "some"
                else:
                    return attempt.fail(self._insufficient(missing, size))
            if not self.closed:
                size -= self._reserved()
            progress: Progress = "none"
            for _ in range(min(size, missing)):
                taken.append(self._take())
                progress = "some"
            if len(taken) < count:
                return progress
            try:
                attempt.result = self._stack(taken)
            except OpError as e:
                return attempt.fail(e)
            return "done"

        def give_back() -> None:
            if taken:
                self._put_back(taken)
                taken.clear()

        element: Element = self._run(Attempt("Dequeue", advance), cancellation, give_back)
        return element

    def _check_batchable(self) -> None:
        if not self.shapes:
            raise InvalidArgumentError(
                f"{self.kind}'s DequeueMany and DequeueUpTo require the components to have specified shapes."
            )

    def _empty(self, i: int) -> Any:
        shape = (0, *(d or 0 for d in self.shapes[i].dims_or_none or ()))
        return np.empty(shape, self.dtypes[i].np)

    def _stack(self, elements: list[Element]) -> Element:
        out = []
        for i, dtype in enumerate(self.dtypes):
            parts = [e[i] for e in elements]
            if dtype.is_object:
                stacked = np.empty((len(parts), *np.shape(parts[0])), object)
                for j, part in enumerate(parts):
                    stacked[j] = part[()] if part.ndim == 0 else part
                out.append(stacked)
            else:
                out.append(np.stack(parts))
        return tuple(out)

    def _insufficient(self, wanted: int, size: int) -> OutOfRangeError:
        return OutOfRangeError(
            f"{self.kind} '{self.name}' is closed and has insufficient elements (requested {wanted}, "
            f"current size {size})"
        )

    def close_queue(self, cancel_pending_enqueues: bool, cancellation: CancellationToken) -> None:
        """Close the queue to more elements; what waits for room is still added, or is cancelled."""
        if cancel_pending_enqueues:
            with self._condition:
                self.closed = True
                self._cancel(self._enqueues)
                self._flush()
                self._condition.notify_all()
            return

        def advance(attempt: Attempt) -> Progress:
            if self.closed:
                return attempt.fail(CancelledError(f"Queue '{self.name}' is already closed."))
            self.closed = True
            return "done"

        self._run(Attempt("Close", advance), cancellation)

    def close(self) -> None:
        with self._condition:
            self.closed = True
            self._cancel(self._enqueues)
            self._cancel(self._dequeues)
            self._condition.notify_all()

    def _cancel(self, line: deque[Attempt]) -> None:
        for attempt in line:
            if not attempt.finished:
                attempt.finished = True
                word = "Dequeue" if attempt.kind == "Dequeue" else "Enqueue"
                attempt.error = CancelledError(f"{word} operation was cancelled")

    def _run(
        self, attempt: Attempt, cancellation: CancellationToken, give_back: Callable[[], None] | None = None
    ) -> Any:
        line = self._dequeues if attempt.kind == "Dequeue" else self._enqueues
        with self._condition:
            if cancellation.reason is not None:
                raise _cancelled(attempt, cancellation)
            line.append(attempt)
            self._flush()
            if not attempt.finished:
                try:
                    cancellation.wait(self._condition, lambda: attempt.finished)
                except CancelledError:
                    if not attempt.finished:
                        attempt.finished = True
                        if give_back is not None:
                            give_back()
                        self._flush()
                        raise _cancelled(attempt, cancellation) from None
        if attempt.error is not None:
            raise attempt.error
        return attempt.result

    def _flush(self) -> None:
        """Let the lines move until nothing changes any more; the lock is held."""
        finished = False
        changed = True
        while changed:
            changed = False
            for line in (self._enqueues, self._dequeues):
                while line:
                    first = line[0]
                    if first.finished:
                        line.popleft()
                        continue
                    progress = first.advance(first)
                    if progress == "done":
                        first.finished = changed = finished = True
                        line.popleft()
                        continue
                    changed = changed or progress == "some"
                    break
        if finished:
            self._condition.notify_all()

    def describe(self) -> str:
        return f"<{self.kind} {self.name} {self.size()}/{self.capacity}>"


def _cancelled(attempt: Attempt, cancellation: CancellationToken) -> CancelledError:
    word = "Dequeue" if attempt.kind == "Dequeue" else "Enqueue"
    return CancelledError(f"{word} operation was cancelled", derived=cancellation.reason is not None)


def _types_text(types: Sequence[DType]) -> str:
    return f"[{', '.join(type_text(t) for t in types)}]"


def _shapes_text(shapes: Sequence[TensorShape]) -> str:
    return f"[{', '.join(shape_text(s) for s in shapes)}]"
