"""Batches that threads make before they are asked for."""

from __future__ import annotations

import functools
import queue
import random
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from dtfctl import guard


class SequenceEnqueuer:
    """Base of what makes batches in threads: `start` it, take batches from what `get` gives, and `stop` it.

    Args:
        use_multiprocessing: changes nothing: threads make the batches.
    """

    def __init__(self, sequence: Any, use_multiprocessing: bool = False) -> None:
        self.sequence, self.use_multiprocessing = sequence, use_multiprocessing
        self.workers = 0
        self.queue: queue.Queue[Any] | None = None
        self.stop_signal: threading.Event | None = None
        self.run_thread: threading.Thread | None = None

    def is_running(self) -> bool:
        """Tell whether batches are being made."""
        return self.stop_signal is not None and not self.stop_signal.is_set()

    def start(self, workers: int = 1, max_queue_size: int = 10) -> None:
        """Begin to make batches: `workers` at a time, and at most `max_queue_size` before they are taken."""
        self.workers, self.queue = workers, queue.Queue(max_queue_size)
        self.stop_signal = threading.Event()
        self.run_thread = guard.once(self._run, name="batches")
        self.run_thread.start()

    def stop(self, timeout: float | None = None) -> None:
        """Make no more batches, and wait for those that are begun."""
        if self.stop_signal is None or self.run_thread is None:
            return
        self.stop_signal.set()
        self.run_thread.join(timeout)

    def _put(self, item: Any) -> bool:
        """Put something into the queue as soon as there is room; False when it is stopped before."""
        assert self.queue is not None
        while self.is_running():
            try:
                self.queue.put(item, timeout=0.05)
                return True
            except queue.Full:
                continue
        return False

    def _run(self) -> None:
        with ThreadPoolExecutor(max(1, self.workers)) as pool:
            for make in self._tasks():
                if not self._put(pool.submit(make)):
                    return
        self._put(None)

    def _tasks(self) -> Iterable[Callable[[], Any]]:
        """Give what makes each batch, in their order."""
        raise NotImplementedError(f"{type(self).__name__} does not say what makes its batches")

    def get(self) -> Iterator[Any]:
        """Give the batches, each as soon as it is made; what making one raises is raised here."""
        assert self.queue is not None, "start it first"
        while self.is_running():
            try:
                made: Future[Any] | None = self.queue.get(timeout=0.05)
            except queue.Empty:
                continue
            if made is None:
                return
            try:
                found = made.result()
            except StopIteration:
                return
            except BaseException:
                self.stop()
                raise
            if found is not None:
                yield found


class OrderedEnqueuer(SequenceEnqueuer):
    """Makes the batches of a `tf.keras.utils.Sequence`, in their order, epoch after epoch.

    Args:
        shuffle: draw the order of each epoch.
    """

    def __init__(self, sequence: Any, use_multiprocessing: bool = False, shuffle: bool = False) -> None:
        super().__init__(sequence, use_multiprocessing)
        self.shuffle = shuffle

    def _tasks(self) -> Iterable[Callable[[], Any]]:
        while self.is_running():
            order = list(range(len(self.sequence)))
            if self.shuffle:
                random.shuffle(order)
            left = _Left(len(order))
            for index in order:
                yield functools.partial(self._batch, index, left)
            # The sequence learns of the epoch's end when all of its batches are made.
            while self.is_running() and not left.is_none(0.05):
                pass
            if self.is_running():
                self.sequence.on_epoch_end()

    def _batch(self, index: int, left: _Left) -> Any:
        try:
            return self.sequence[index]
        finally:
            left.one_less()


class _Left:
    """How many batches of an epoch are not made yet."""

    def __init__(self, count: int) -> None:
        self._count, self._changed = count, threading.Condition()

    def one_less(self) -> None:
        """Count one that is made."""
        with self._changed:
            self._count -= 1
            self._changed.notify_all()

    def is_none(self, timeout: float) -> bool:
        """Wait until all are made, but no longer; tells whether they are."""
        with self._changed:
            return self._changed.wait_for(lambda: self._count <= 0, timeout)


class GeneratorEnqueuer(SequenceEnqueuer):
    """Takes the batches of a generator, one after the other."""

    def __init__(self, generator: Any, use_multiprocessing: bool = False, random_seed: int | None = None) -> None:
        super().__init__(generator, use_multiprocessing)
        self.random_seed = random_seed
        self._lock = threading.Lock()

    def _next(self) -> Any:
        with self._lock:
            return next(self.sequence)

    def _run(self) -> None:
        # One worker: the order is the generator's.
        self.workers = 1
        super()._run()

    def _tasks(self) -> Iterable[Callable[[], Any]]:
        while self.is_running():
            yield self._next
