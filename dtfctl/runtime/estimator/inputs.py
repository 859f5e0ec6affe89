"""`tf.estimator.inputs`: input functions over arrays that are in memory, fed into a queue by threads."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

from dtfctl.runtime import api as tf
from dtfctl.runtime.train.queue_runner import QueueRunner

__all__ = ["numpy_input_fn", "pandas_input_fn"]


class _Feeder:
    """What one thread feeds: rows in their order, so many passes, batches across their ends."""

    def __init__(
        self, placeholders: list[Any], columns: list[Any], batch_size: int, start_anywhere: bool, num_epochs: int | None
    ) -> None:
        self._placeholders, self._columns, self._batch_size = placeholders, columns, batch_size
        self._rows = len(columns[0])
        self._next = random.randrange(self._rows) if start_anywhere else 0
        self._left = None if num_epochs is None else self._rows * num_epochs

    def __call__(self) -> dict[Any, Any]:
        count = self._batch_size if self._left is None else min(self._batch_size, self._left)
        if count == 0:
            raise tf.errors.OutOfRangeError("Already emitted all epochs.")
        rows = np.arange(self._next, self._next + count) % self._rows
        self._next = (self._next + count) % self._rows
        if self._left is not None:
            self._left -= count
        return dict(zip(self._placeholders, [rows, *(c[rows] for c in self._columns)], strict=True))


class _FeedingQueueRunner(QueueRunner):
    """Runs each enqueue op with what its feeder gives."""

    is_writable = False
    """Whether a MetaGraph can hold it."""

    def __init__(self, queue: Any, enqueue_ops: list[Any], feeders: list[_Feeder]) -> None:
        super().__init__(queue, enqueue_ops)
        self._feeders = dict(zip(enqueue_ops, feeders, strict=True))

    def _enqueuing(self, sess: Any, enqueue_op: Any) -> Callable[[], Any]:
        feeder = self._feeders[enqueue_op]
        return lambda: sess.run(enqueue_op, feed_dict=feeder())


def _queue_of(
    columns: list[Any], capacity: int, shuffle: bool, num_threads: int, batch_size: int, num_epochs: int | None
) -> Any:
    """Make a queue of rows that threads feed; each row begins with its number."""
    with tf.name_scope("enqueue_input"):
        types = [tf.int64, *(tf.as_dtype(c.dtype) for c in columns)]
        shapes = [(), *(c.shape[1:] for c in columns)]
        least = int(capacity / 4) if shuffle else 0
        queue: Any
        if shuffle:
            queue = tf.RandomShuffleQueue(capacity, least, dtypes=types, shapes=shapes)
        else:
            queue = tf.FIFOQueue(capacity, dtypes=types, shapes=shapes)
        ops, feeders = [], []
        for _ in range(num_threads):
            placeholders = [tf.placeholder(kind) for kind in types]
            ops.append(queue.enqueue_many(placeholders))
            feeders.append(_Feeder(placeholders, columns, batch_size, shuffle, num_epochs))
        tf.train.add_queue_runner(_FeedingQueueRunner(queue, ops, feeders))
        waiting = tf.cast(tf.maximum(0, queue.size() - least), tf.float32) * (1.0 / (capacity - least))
        tf.summary.scalar(f"queue/{queue.name}fraction_over_{least}_of_{capacity - least}_full", waiting)
        return queue


def numpy_input_fn(
    x: Any,
    y: Any = None,
    batch_size: int = 128,
    num_epochs: int | None = 1,
    shuffle: bool | None = None,
    queue_capacity: int = 1000,
    num_threads: int = 1,
) -> Callable[[], Any]:
    """Make an input function over numpy arrays.

    Args:
        x: an array, or arrays by name, all of one length.
        y: labels: the same; None for none.
        num_epochs: passes over the arrays; None for no end.
        shuffle: whether rows come in another order.
        queue_capacity: rows that wait.
        num_threads: threads that feed; with several, without `shuffle`, the order is not kept.

    Returns:
        A function that gives features, or (features, labels).

    Raises:
        ValueError: `shuffle` is not said, or lengths or names do not fit.
        TypeError: `x` is neither an array nor a dict.
    """
    if not isinstance(shuffle, bool):
        raise ValueError(
            "shuffle must be provided and explicitly set as boolean (it is recommended to set it as True for "
            f"training); got {shuffle}"
        )

    def input_fn() -> Any:
        features = _by_name(x)
        labels = dict(sorted(y.items())) if isinstance(y, dict) else {} if y is None else {"": y}
        if isinstance(y, dict) and not y:
            raise ValueError("y cannot be empty dict, use None instead.")
        if both := set(features) & set(labels):
            raise ValueError(f"{len(both)} duplicate keys are found in both x and y: {both}")
        columns = [*features.values(), *labels.values()]
        if len({c.shape[0] for c in columns}) != 1:
            shapes = [{k: v.shape for k, v in part.items()} for part in (features, labels)]
            raise ValueError(
                "Length of tensors in x and y is mismatched. All elements in x and y must have the same length.\n"
                f"Shapes in x: {shapes[0]}\nShapes in y: {shapes[1]}\n"
            )
        queue = _queue_of(columns, queue_capacity, shuffle, num_threads, batch_size, num_epochs)
        batch = queue.dequeue_many(batch_size) if num_epochs is None else queue.dequeue_up_to(batch_size)
        found = dict(zip(features, batch[1 : len(features) + 1], strict=True))
        given = found if isinstance(x, dict) else next(iter(found.values()))
        if y is None:
            return given
        rest = batch[len(features) + 1 :]
        return given, (dict(zip(labels, rest, strict=True)) if isinstance(y, dict) else rest[0])

    return input_fn


def _by_name(x: Any) -> dict[str, Any]:
    if isinstance(x, dict):
        if not x:
            raise ValueError("x cannot be an empty dict")
        return dict(sorted(x.items()))
    if not isinstance(x, np.ndarray):
        raise TypeError(f"x must be a dict or array; got {type(x).__name__}")
    if x.size == 0:
        raise ValueError("x cannot be an empty array")
    return {"__direct_np_input__": x}


def pandas_input_fn(
    x: Any,
    y: Any = None,
    batch_size: int = 128,
    num_epochs: int | None = 1,
    shuffle: bool | None = None,
    queue_capacity: int = 1000,
    num_threads: int = 1,
    target_column: str = "target",
) -> Callable[[], Any]:
    """Make an input function over a pandas DataFrame: a feature a column; other arguments as above.

    Args:
        y: a Series or DataFrame of labels with the same index.
        target_column: the labels' name.
    """
    features = {str(name): np.asarray(x[name]) for name in x.columns}
    labels: Any = None
    if y is not None:
        if not np.array_equal(x.index, y.index):
            raise ValueError(f"Index for x and y are mismatched.\nIndex for x: {x.index}\nIndex for y: {y.index}\n")
        if target_column in features:
            raise ValueError(f"Cannot use name {target_column} for target column: DataFrame already has a column of it")
        labels = {str(n): np.asarray(y[n]) for n in y.columns} if hasattr(y, "columns") else np.asarray(y)
    return numpy_input_fn(features, labels, batch_size, num_epochs, shuffle, queue_capacity, num_threads)
