"""Queues, accumulators, staging areas and barriers, waiting included."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.cancellation import CancellationToken
from dtfctl.runtime.framework.errors import CancelledError, InvalidArgumentError, OutOfRangeError
from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.kernels.data_flow.accumulator import DenseAccumulator, SparseAccumulator
from dtfctl.runtime.kernels.data_flow.barrier import Barrier
from dtfctl.runtime.kernels.data_flow.queue_kinds import FIFOQueue, PaddingFIFOQueue, PriorityQueue, RandomShuffleQueue
from dtfctl.runtime.kernels.data_flow.staging import StagingArea, StagingMap

SCALAR = TensorShape([])


def token() -> CancellationToken:
    return CancellationToken()


def item(value: Any) -> tuple[Any, ...]:
    return (np.array(value, np.int32),)


def in_thread(action: Callable[[], Any]) -> tuple[threading.Thread, list[Any]]:
    """Run `action` beside the test; its result or error comes in the list."""
    results: list[Any] = []

    def run() -> None:
        try:
            results.append(action())
        except Exception as e:
            results.append(e)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread, results


def fifo(capacity: int = -1, shapes: bool = True) -> FIFOQueue:
    return FIFOQueue("q", [dtypes.int32], [SCALAR] if shapes else [], capacity)


def test_fifo_order_and_closing() -> None:
    queue = fifo()
    queue.enqueue_many((np.arange(3, dtype=np.int32),), token())
    assert queue.dequeue(token())[0] == 0
    queue.close_queue(False, token())
    assert queue.dequeue_many(2, token())[0].tolist() == [1, 2]
    message = r"FIFOQueue 'q' is closed and has insufficient elements \(requested 1, current size 0\)"
    with pytest.raises(OutOfRangeError, match=message):
        queue.dequeue(token())
    with pytest.raises(CancelledError, match=r"FIFOQueue 'q' is closed\."):
        queue.enqueue(item(1), token())
    with pytest.raises(CancelledError, match=r"Queue 'q' is already closed\."):
        queue.close_queue(False, token())


def test_a_full_queue_makes_producers_wait_in_line() -> None:
    queue = fifo(1)
    queue.enqueue(item(0), token())
    thread, _ = in_thread(lambda: queue.enqueue_many((np.arange(1, 4, dtype=np.int32),), token()))
    assert [int(queue.dequeue(token())[0]) for _ in range(4)] == [0, 1, 2, 3]
    thread.join(60.0)
    assert not thread.is_alive()


def test_dequeue_many_gathers_over_a_small_queue() -> None:
    queue = fifo(1)
    thread, results = in_thread(lambda: queue.dequeue_many(3, token()))
    for i in range(3):
        queue.enqueue(item(i), token())
    thread.join(60.0)
    assert results[0][0].tolist() == [0, 1, 2]


def test_closing_gives_partial_dequeues_back() -> None:
    queue = fifo()
    queue.enqueue(item(7), token())
    thread, results = in_thread(lambda: queue.dequeue_many(2, token()))
    queue.close_queue(False, token())
    thread.join(60.0)
    assert isinstance(results[0], OutOfRangeError)
    assert "requested 1, current size 0" in results[0].message or "requested 2, current size 1" in results[0].message
    assert queue.dequeue_many(5, token(), allow_small_batch=True)[0].tolist() == [7]


def test_cancelling_a_step_frees_its_waiter_and_returns_what_it_took() -> None:
    queue = fifo()
    queue.enqueue(item(7), token())
    mine = token()
    thread, results = in_thread(lambda: queue.dequeue_many(2, mine))
    mine.cancel()
    thread.join(60.0)
    assert isinstance(results[0], CancelledError) and results[0].derived
    assert queue.size() == 1
    assert queue.dequeue(token())[0] == 7


def test_cancel_pending_enqueues() -> None:
    queue = fifo(1)
    queue.enqueue(item(0), token())
    thread, results = in_thread(lambda: queue.enqueue(item(1), token()))
    while not queue._enqueues:
        time.sleep(0.001)
    queue.close_queue(True, token())
    thread.join(60.0)
    assert isinstance(results[0], CancelledError) and "Enqueue operation was cancelled" in results[0].message
    assert queue.dequeue(token())[0] == 0


def test_shapes_are_checked() -> None:
    queue = fifo()
    with pytest.raises(InvalidArgumentError, match=r"Shape mismatch in tuple component 0. Expected \[\], got \[1\]"):
        queue.enqueue((np.zeros(1, np.int32),), token())
    with pytest.raises(InvalidArgumentError, match="require the components to have specified shapes"):
        fifo(shapes=False).dequeue_many(1, token())


def test_a_seeded_shuffle_gives_tensorflows_order() -> None:
    queue = RandomShuffleQueue("q", [dtypes.int32], [SCALAR], 20, 0, 87654321, 7)
    queue.enqueue_many((np.arange(15, dtype=np.int32),), token())
    want = [12, 11, 8, 10, 6, 3, 0, 9, 7, 1, 14, 5, 4, 2, 13]
    assert queue.dequeue_many(15, token())[0].tolist() == want


def test_min_after_dequeue_holds_until_closed() -> None:
    queue = RandomShuffleQueue("q", [dtypes.int32], [SCALAR], 20, 2, 1, 1)
    queue.enqueue_many((np.arange(2, dtype=np.int32),), token())
    thread, results = in_thread(lambda: queue.dequeue(token()))
    assert not results
    queue.close_queue(False, token())
    thread.join(60.0)
    assert int(results[0][0]) in (0, 1)


def test_padding_to_the_longest() -> None:
    queue = PaddingFIFOQueue("q", [dtypes.int32], [TensorShape([None])], -1)
    for n in (1, 3, 2):
        queue.enqueue((np.full(n, n, np.int32),), token())
    assert queue.dequeue_many(3, token())[0].tolist() == [[1, 0, 0], [3, 3, 3], [2, 2, 0]]


def test_priorities() -> None:
    queue = PriorityQueue("q", [dtypes.int64, dtypes.string], [SCALAR, SCALAR], -1)
    for priority, name in ((5, b"e"), (1, b"a"), (5, b"f"), (-2, b"z")):
        queue.enqueue((np.array(priority), np.array(name, object)), token())
    priorities, names = queue.dequeue_many(4, token())
    assert priorities.tolist() == [-2, 1, 5, 5] and names.tolist() == [b"z", b"a", b"e", b"f"]


def test_sharing_a_queue_needs_the_same_description() -> None:
    with pytest.raises(InvalidArgumentError, match="has capacity 3 but requested capacity was 4"):
        fifo(3).verify("FIFOQueueV2", [dtypes.int32], [SCALAR], 4)
    with pytest.raises(InvalidArgumentError, match="Expected FIFOQueue, found PriorityQueueV2"):
        fifo(3).verify("PriorityQueueV2", [dtypes.int32], [SCALAR], 3)


def test_stale_gradients_are_dropped_and_the_mean_is_taken() -> None:
    accumulator = DenseAccumulator("a", dtypes.float32, TensorShape([2]), "MEAN")
    accumulator.set_step(3)
    accumulator.apply(2, np.array([100, 100], np.float32))
    thread, results = in_thread(lambda: accumulator.take(2, token()))
    accumulator.apply(3, np.array([1, 2], np.float32))
    accumulator.apply(4, np.array([3, 6], np.float32))
    thread.join(60.0)
    assert results[0].tolist() == [2, 4]
    assert accumulator.step == 4 and accumulator.accumulated() == 0
    with pytest.raises(InvalidArgumentError, match=r"Shape mismatch: expected \[2\], got \[3\]"):
        accumulator.apply(9, np.zeros(3, np.float32))


def test_sparse_means_count_each_row() -> None:
    accumulator = SparseAccumulator("a", dtypes.float32, TensorShape([4, 1]), "MEAN")
    accumulator.apply(0, (np.array([1, 3]), np.array([[1.0], [2.0]], np.float32), None))
    accumulator.apply(0, (np.array([3]), np.array([[4.0]], np.float32), None))
    indices, values, shape = accumulator.take(2, token())
    assert indices.tolist() == [1, 3] and values.tolist() == [[1], [3]] and shape.tolist() == [4, 1]


def test_a_cancelled_take_leaves_the_line() -> None:
    accumulator = DenseAccumulator("a", dtypes.float32, TensorShape([]), "SUM")
    mine = token()
    thread, results = in_thread(lambda: accumulator.take(1, mine))
    mine.cancel()
    thread.join(60.0)
    assert isinstance(results[0], CancelledError)
    accumulator.apply(0, np.array(5, np.float32))
    assert accumulator.take(1, token()) == 5


def test_staging_waits_for_room() -> None:
    area = StagingArea(1, 0)
    area.put([np.array(1)], token())
    thread, _ = in_thread(lambda: area.put([np.array(2)], token()))
    assert area.get(token())[0] == 1
    thread.join(60.0)
    assert area.get(token())[0] == 2


def test_a_staging_map_completes_tuples_by_key() -> None:
    area = StagingMap(0, 0, 2, ordered=True)
    area.put(4, [0], [np.array(1)], token())
    assert (area.size(), area.incomplete_size()) == (0, 1)
    area.put(4, [1], [np.array(2)], token())
    area.put(3, [0, 1], [np.array(5), np.array(6)], token())
    assert area.pop_any([0, 1], token())[0] == 3
    assert [int(v) for v in area.pop(4, [0, 1], token())] == [1, 2]


def test_barriers_deliver_complete_tuples_oldest_first() -> None:
    barrier = Barrier("b", [dtypes.float32, dtypes.float32], [SCALAR, SCALAR])
    keys = np.array([b"a", b"b"], object)
    barrier.insert_many(0, keys, np.array([1, 2], np.float32), token())
    barrier.insert_many(1, keys[::-1], np.array([20, 10], np.float32), token())
    _, names, first, second = barrier.take_many(2, False, token())
    assert names.tolist() == [b"b", b"a"] or names.tolist() == [b"a", b"b"]
    assert dict(zip(names.tolist(), zip(first.tolist(), second.tolist()))) == {b"a": (1, 10), b"b": (2, 20)}
    barrier.close_barrier(False, token())
    with pytest.raises(OutOfRangeError, match="is closed and has insufficient elements"):
        barrier.take_many(1, False, token())
