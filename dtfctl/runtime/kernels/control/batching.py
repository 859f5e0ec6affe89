"""Inputs of steps that run at once, computed together: BatchFunction, and Batch and Unbatch around nodes.

No thread is kept: of the steps that wait in a batch one carries it out, the first that sees it full or its time over.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from dtfctl.runtime.framework.cancellation import CancellationToken
from dtfctl.runtime.framework.errors import DeadlineExceededError, InvalidArgumentError, OpError, UnavailableError
from dtfctl.runtime.framework.resource_manager import Resource
from dtfctl.runtime.kernels.admission import admit
from dtfctl.runtime.kernels.context import StepContext
from dtfctl.runtime.kernels.registry import Kernel, KernelBuild, register_kernel

Values = Sequence[Any]


class Task:
    """Rows of one step that wait to be computed with others'."""

    def __init__(self, key: int, inputs: Values) -> None:
        self.key, self.inputs, self.rows = key, inputs, int(inputs[0].shape[0])
        self.outputs: Values | None = None
        self.error: OpError | None = None


class Batch:
    """Tasks that are computed together, once `rows` are enough or `due` has come."""

    def __init__(self, due: float) -> None:
        self.tasks: list[Task] = []
        self.rows = 0
        self.due = due
        self.closed = self.taken = self.done = False

    def joined(self, padded: int) -> list[Any]:
        """Put the tasks' inputs one after the other, and the first row again behind them up to `padded` rows."""
        out = []
        for parts in zip(*(task.inputs for task in self.tasks), strict=True):
            admit((padded, *parts[0].shape[1:]), parts[0].dtype.itemsize)
            if any(part.shape[1:] != parts[0].shape[1:] for part in parts):
                raise InvalidArgumentError(
                    f"Tensors of one batch must agree in all but the first dimension: {[part.shape for part in parts]}"
                )
            more = [parts[0][:1]] * (padded - self.rows)
            out.append(np.concatenate([*parts, *more]))
        return out


class Batcher(Resource):
    """The batches of one node, or of nodes that share a name.

    Attributes:
        sizes: those a batch is filled up to; empty: any.
    """

    type_name = "BatchResource"

    def __init__(self, threads: int, most_rows: int, timeout_s: float, most_batches: int, sizes: Sequence[int]) -> None:
        self.most_rows, self.timeout_s, self.most_batches, self.sizes = most_rows, timeout_s, most_batches, sizes
        self._threads = threads or os.cpu_count() or 1
        self._condition = threading.Condition()
        self._waiting: dict[str, deque[Batch]] = {}
        self._active = 0
        self._next = 0

    def task(self, inputs: Values) -> Task:
        """Make a task with a key of its own.

        Raises:
            InvalidArgumentError: the inputs cannot be put into one batch.
        """
        for value in inputs:
            if value.ndim == 0:
                raise InvalidArgumentError("Batching input tensors must have at least one dimension")
            if value.shape[0] != inputs[0].shape[0]:
                raise InvalidArgumentError(
                    "Batching input tensors supplied in a given op invocation must have equal 0th-dimension size"
                )
        if inputs[0].shape[0] > self.most_rows:
            raise InvalidArgumentError(
                f"Task size {inputs[0].shape[0]} is larger than maximum input batch size {self.most_rows}"
            )
        with self._condition:
            self._next += 1
            return Task(self._next, inputs)

    def padded(self, rows: int) -> int:
        return next((size for size in self.sizes if size >= rows), rows)

    def run(self, task: Task, queue: str, compute: Callable[[Batch], None], cancellation: CancellationToken) -> Values:
        """Have a task computed with others of its queue; `compute` sets the outputs of each task of a batch.

        Raises:
            UnavailableError: too many batches wait already.
            OpError: what `compute` raised, in each step of the batch.
        """
        with self._condition:
            batch = self._join(task, queue)
            waiting = self._waiting[queue]

            def is_next() -> bool:
                return batch.done or (
                    batch.closed and not batch.taken and waiting[0] is batch and self._active < self._threads
                )

            try:
                while not cancellation.wait(self._condition, is_next, None if batch.closed else batch.due):
                    batch.closed = True
            except OpError:
                self._leave(task, batch, waiting)
                raise
            if not batch.done:
                batch.taken = True
                self._active += 1
                waiting.popleft()
        if not batch.done:
            try:
                compute(batch)
            except OpError as error:
                for one in batch.tasks:
                    one.error = error
            finally:
                with self._condition:
                    batch.done = True
                    self._active -= 1
                    self._condition.notify_all()
        if task.error is not None:
            raise task.error
        if task.outputs is None:
            raise UnavailableError("The step that computed this batch ended before it was done")
        return task.outputs

    def _join(self, task: Task, queue: str) -> Batch:
        waiting = self._waiting.setdefault(queue, deque())
        limit = self.sizes[-1] if self.sizes else self.most_rows
        batch = waiting[-1] if waiting else None
        if batch is not None and not batch.closed and batch.rows + task.rows > limit:
            batch.closed = True
            self._condition.notify_all()
        if batch is None or batch.closed:
            if len(waiting) >= self.most_batches:
                raise UnavailableError(
                    "The batch scheduling queue to which this task was submitted is full; "
                    f"currently has {len(waiting)} batches enqueued and max_enqueued_batches is {self.most_batches}"
                )
            batch = Batch(time.monotonic() + self.timeout_s)
            waiting.append(batch)
        batch.tasks.append(task)
        batch.rows += task.rows
        if batch.rows >= limit:
            batch.closed = True
            self._condition.notify_all()
        return batch

    def _leave(self, task: Task, batch: Batch, waiting: deque[Batch]) -> None:
        if batch.taken:
            return
        batch.tasks.remove(task)
        batch.rows -= task.rows
        if not batch.tasks:
            waiting.remove(batch)
        self._condition.notify_all()


def _batcher(k: KernelBuild, step: StepContext, splitting: bool) -> Batcher:
    sizes = list(k.attr("allowed_batch_sizes") or ())
    most = int(k.attr("max_batch_size"))
    for before, after in pairwise(sizes):
        if after <= before:
            raise InvalidArgumentError("allowed_batch_sizes entries must be monotonically increasing", k.node.name)
    if sizes and not splitting and sizes[-1] != most:
        raise InvalidArgumentError(
            "final entry in allowed_batch_sizes must equal max_batch_size when enable_large_batch_splitting is False",
            k.node.name,
        )
    if sizes and sizes[-1] > most:
        raise InvalidArgumentError("allowed_batch_sizes must not exceed max_batch_size", k.node.name)
    timeout_s = k.attr("batch_timeout_micros") / 1e6
    return step.resources.lookup_or_create(
        k.container,
        k.resource_name,
        Batcher,
        lambda: Batcher(
            int(k.attr("num_batch_threads")), most, timeout_s, int(k.attr("max_enqueued_batches", 10)), sizes
        ),
    )


@register_kernel("BatchFunction", step=True, blocking=True)
def batch_function(k: KernelBuild) -> Kernel:
    function, count = k.function_caller.prepare(k.attr("f")), len(k.attr("Tin"))
    queue, splitting = k.text_attr("batching_queue"), bool(k.attr("enable_large_batch_splitting", False))

    def run(step: StepContext, *inputs: Any) -> Any:
        batcher = _batcher(k, step, splitting)
        captured = inputs[count:]
        whole = batcher.task(inputs[:count])

        def compute(batch: Batch) -> None:
            padded = batcher.padded(batch.rows)
            outputs = function([*batch.joined(padded), *captured], step)
            for i, output in enumerate(outputs):
                if output.ndim == 0 or output.shape[0] != padded:
                    raise InvalidArgumentError(
                        f"Batched output tensor {i} has shape {list(output.shape)}; its 0th dimension must be the "
                        f"sum of the 0th dimension sizes of the input tensors, {padded}"
                    )
            begin = 0
            for task in batch.tasks:
                task.outputs = [output[begin : begin + task.rows] for output in outputs]
                begin += task.rows

        limit = batcher.sizes[-1] if splitting and batcher.sizes else whole.rows
        if whole.rows <= limit:
            return batcher.run(whole, queue, compute, step.cancellation)
        pieces = [
            batcher.run(
                batcher.task([value[i : i + limit] for value in whole.inputs]), queue, compute, step.cancellation
            )
            for i in range(0, whole.rows, limit)
        ]
        return [np.concatenate(parts) for parts in zip(*pieces, strict=True)]

    return run


@register_kernel("Batch", step=True, blocking=True)
def batch(k: KernelBuild) -> Kernel:
    """Give one of a batch's steps all rows, with the list of whose they are, and the others none."""
    queue = k.text_attr("batching_queue")

    def run(step: StepContext, *inputs: Any) -> Any:
        batcher = _batcher(k, step, False)
        mine = batcher.task(inputs)

        def compute(batch: Batch) -> None:
            joined = batch.joined(batcher.padded(batch.rows))
            ends = np.cumsum([task.rows for task in batch.tasks])
            places = [(task.key, end - task.rows, end) for task, end in zip(batch.tasks, ends.tolist(), strict=True)]
            for task in batch.tasks:
                nothing = [value[:0] for value in task.inputs]
                task.outputs = [*nothing, np.zeros((0, 3), np.int64), np.array(task.key, np.int64)]
            mine.outputs = [*joined, np.array(places, np.int64), np.array(mine.key, np.int64)]

        return batcher.run(mine, queue, compute, step.cancellation)

    return run


class Exchange(Resource):
    """Where rows are left for the steps they belong to."""

    type_name = "UnbatchResource"

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._left: dict[int, tuple[Any, float]] = {}
        self._late: set[int] = set()

    def leave(self, parts: dict[int, Any], keep_s: float = math.inf) -> None:
        """Leave values by the keys of those who take them; nobody does after `keep_s`."""
        now = time.monotonic()
        with self._condition:
            self._left = {key: held for key, held in self._left.items() if held[1] > now}
            for key, value in parts.items():
                if key in self._late:
                    self._late.remove(key)
                else:
                    self._left[key] = value, now + keep_s
            self._condition.notify_all()

    def take(self, keys: Sequence[int], timeout_s: float | None, cancellation: CancellationToken) -> list[Any]:
        """Wait for the values of all keys.

        Raises:
            DeadlineExceededError: they did not come in time; what comes later for the keys is dropped.
        """
        until = None if timeout_s is None else time.monotonic() + timeout_s
        with self._condition:
            try:
                came = cancellation.wait(self._condition, lambda: all(key in self._left for key in keys), until)
            except OpError:
                self._late.update(key for key in keys if key not in self._left)
                raise
            if not came:
                self._late.update(key for key in keys if key not in self._left)
                raise DeadlineExceededError("Batched data did not arrive within timeout window.")
            return [self._left.pop(key)[0] for key in keys]


def _rows_of(index: Any) -> list[tuple[int, int, int]]:
    """Read a batch index: key, begin and end for each task.

    Raises:
        InvalidArgumentError: it is none.
    """
    if index.ndim != 2 or index.shape[1] != 3:
        raise InvalidArgumentError(f"batch_index should be a matrix with 3 columns; got shape {list(index.shape)}")
    return [(key, begin, end) for key, begin, end in index.tolist()]


def _key_of(value: Any) -> int:
    if value.ndim:
        raise InvalidArgumentError(f"Input id should be scalar; Got: {list(value.shape)}")
    return int(value)


@register_kernel("Unbatch", step=True, blocking=True)
def unbatch(k: KernelBuild) -> Kernel:
    timeout_s = k.attr("timeout_micros") / 1e6

    def run(step: StepContext, data: Any, index: Any, key: Any) -> Any:
        exchange = step.resources.lookup_or_create(k.container, k.resource_name, Exchange, Exchange)
        mine = _key_of(key)
        if data.ndim == 0:
            raise InvalidArgumentError("batched_tensor must have at least one dimension")
        rows = _rows_of(index) if index.size else []
        if any(not 0 <= begin <= end <= data.shape[0] for _, begin, end in rows):
            raise InvalidArgumentError(f"batch_index has rows that are not in a tensor of shape {list(data.shape)}")
        exchange.leave({key: data[begin:end] for key, begin, end in rows}, timeout_s)
        return exchange.take([mine], timeout_s, step.cancellation)[0]

    return run


@register_kernel("UnbatchGrad", step=True, blocking=True)
def unbatch_grad(k: KernelBuild) -> Kernel:
    def run(step: StepContext, original: Any, index: Any, gradient: Any, key: Any) -> Any:
        exchange = step.resources.lookup_or_create(k.container, k.resource_name, Exchange, Exchange)
        mine = _key_of(key)
        rows = _rows_of(index) if index.size else []
        if rows and original.shape[:1] < (rows[-1][2],):
            raise InvalidArgumentError(f"batch_index has rows that are not in a tensor of shape {list(original.shape)}")
        exchange.leave({mine: gradient})
        if not rows:
            return gradient[:0] if gradient.ndim else np.zeros(0, gradient.dtype)
        parts = exchange.take([key for key, _, _ in rows], None, step.cancellation)
        more = original.shape[0] - sum(part.shape[0] for part in parts)
        if more > 0:
            parts.append(np.zeros((more, *gradient.shape[1:]), gradient.dtype))
        return np.concatenate(parts)

    return run
