"""`QueueRunner`: threads that keep a queue filled by running its enqueue ops."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from dtfctl import guard
from dtfctl.protocol import meta_graph_pb2
from dtfctl.runtime.client.default_session import get_default_session
from dtfctl.runtime.framework import context
from dtfctl.runtime.framework.errors import OutOfRangeError
from dtfctl.runtime.framework.graph_keys import GraphKeys
from dtfctl.runtime.train.coordinator import Coordinator


class QueueRunner:
    """Runs enqueue ops of a queue, each in a thread of its own.

    Args:
        queue: the queue; enqueue_ops: one op a thread.
        close_op: closes the queue when the threads end; cancel_op: also cancels pending enqueues, on a stop.
        queue_closed_exception_types: exceptions that mean the queue was closed.
    """

    _awaited_on_stop = True
    """Whether a coordinator waits for the threads that enqueue."""

    def __init__(
        self,
        queue: Any = None,
        enqueue_ops: Sequence[Any] | None = None,
        close_op: Any = None,
        cancel_op: Any = None,
        queue_closed_exception_types: Any = None,
        queue_runner_def: meta_graph_pb2.QueueRunnerDef | None = None,
        import_scope: str | None = None,
    ) -> None:
        self._closed_types = tuple(queue_closed_exception_types or (OutOfRangeError,))
        self._lock = threading.Lock()
        self._runs_per_session: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._exceptions: list[BaseException] = []
        if queue_runner_def is not None:
            self._init_from_proto(queue_runner_def, import_scope)
            return
        if queue is None or not enqueue_ops:
            raise ValueError("Must provide queue and enqueue_ops.")
        if isinstance(queue, str):
            raise TypeError("queue must be a queue, not its name")
        self._queue, self._enqueue_ops = queue, list(enqueue_ops)
        self._name = queue.name
        self._close_op = queue.close() if close_op is None else close_op
        self._cancel_op = queue.close(cancel_pending_enqueues=True) if cancel_op is None else cancel_op

    def _init_from_proto(self, proto: meta_graph_pb2.QueueRunnerDef, scope: str | None) -> None:
        graph = context.get_default_graph()
        prefix = f"{scope}/" if scope else ""
        self._queue = graph.as_graph_element(prefix + proto.queue_name)
        self._name = proto.queue_name
        self._enqueue_ops = [graph.as_graph_element(prefix + n) for n in proto.enqueue_op_name]
        self._close_op = graph.as_graph_element(prefix + proto.close_op_name)
        self._cancel_op = graph.as_graph_element(prefix + proto.cancel_op_name)

    @property
    def queue(self) -> Any:
        return self._queue

    @property
    def enqueue_ops(self) -> list[Any]:
        return self._enqueue_ops

    @property
    def close_op(self) -> Any:
        return self._close_op

    @property
    def cancel_op(self) -> Any:
        return self._cancel_op

    @property
    def queue_closed_exception_types(self) -> tuple[Any, ...]:
        return self._closed_types

    @property
    def name(self) -> str:
        return str(self._name)

    @property
    def exceptions_raised(self) -> list[BaseException]:
        """Exceptions of threads that had no coordinator to report to."""
        return self._exceptions

    def _enqueuing(self, sess: Any, enqueue_op: Any) -> Callable[[], Any]:
        """Return what one thread calls again and again; a subclass may feed the op."""
        enqueue: Callable[[], Any] = sess.make_callable(enqueue_op)
        return enqueue

    def _run(self, sess: Any, enqueue_op: Any, coord: Coordinator | None) -> None:
        try:
            enqueue = self._enqueuing(sess, enqueue_op)
            while coord is None or not coord.should_stop():
                try:
                    enqueue()
                except self._closed_types:
                    with self._lock:
                        self._runs_per_session[sess] -= 1
                        last = self._runs_per_session[sess] == 0
                    if last:
                        self._close(sess)
                    return
        except Exception as e:
            if coord is None:
                with self._lock:
                    self._exceptions.append(e)
                raise
            # A thread nobody waits for is ended by the closing of its session.
            if self._awaited_on_stop or not coord.should_stop():
                coord.request_stop(e)
        with self._lock:
            if self._runs_per_session.get(sess, 0) > 0:
                self._runs_per_session[sess] -= 1

    def _close(self, sess: Any) -> None:
        try:
            sess.run(self._close_op)
        except Exception as e:
            # The consumers see the closed or broken queue themselves; keep the reason for whoever asks.
            with self._lock:
                self._exceptions.append(e)

    def _close_on_stop(self, sess: Any, coord: Coordinator) -> None:
        coord.wait_for_stop()
        try:
            sess.run(self._cancel_op)
        except Exception as e:
            with self._lock:
                self._exceptions.append(e)

    def create_threads(
        self, sess: Any, coord: Coordinator | None = None, daemon: bool = False, start: bool = False
    ) -> list[threading.Thread]:
        """Threads that enqueue, and with a coordinator one that closes the queue on a stop.

        Returns:
            No threads when those of an earlier call for this session still run.
        """
        with self._lock:
            if self._runs_per_session.get(sess, 0) > 0:
                return []
            self._runs_per_session[sess] = len(self._enqueue_ops)
            self._exceptions = []
        name = f"QueueRunnerThread-{self.name}"
        threads = [guard.once(self._run, args=(sess, op, coord), name=f"{name}-{op.name}") for op in self._enqueue_ops]
        awaited = list(threads) if self._awaited_on_stop else []
        if coord is not None:
            closing = guard.once(self._close_on_stop, args=(sess, coord), name=f"{name}-close_on_stop")
            threads.append(closing)
            awaited.append(closing)
        for thread in threads:
            thread.daemon = daemon
            if coord is not None and thread in awaited:
                coord.register_thread(thread)
            if start:
                thread.start()
        return threads

    def to_proto(self, export_scope: str | None = None) -> meta_graph_pb2.QueueRunnerDef:
        return meta_graph_pb2.QueueRunnerDef(
            queue_name=self.name,
            enqueue_op_name=[op.name for op in self._enqueue_ops],
            close_op_name=self._close_op.name,
            cancel_op_name=self._cancel_op.name,
        )

    @staticmethod
    def from_proto(queue_runner_def: meta_graph_pb2.QueueRunnerDef, import_scope: str | None = None) -> QueueRunner:
        return QueueRunner(queue_runner_def=queue_runner_def, import_scope=import_scope)


def add_queue_runner(qr: QueueRunner, collection: str = GraphKeys.QUEUE_RUNNERS) -> None:
    context.get_default_graph().add_to_collection(collection, qr)


def start_queue_runners(
    sess: Any = None,
    coord: Coordinator | None = None,
    daemon: bool = True,
    start: bool = True,
    collection: str = GraphKeys.QUEUE_RUNNERS,
) -> list[threading.Thread]:
    """Start the threads of all queue runners of the session's graph.

    Raises:
        TypeError: `sess` is no session.
        ValueError: there is no session.
    """
    if sess is None:
        sess = get_default_session()
        if sess is None:
            raise ValueError("Cannot start queue runners: No default session is registered.")
    if not hasattr(sess, "graph"):
        raise TypeError(f"sess must be a `tf.Session` object. Given class: {type(sess)}")
    out: list[threading.Thread] = []
    for runner in sess.graph.get_collection(collection):
        out += runner.create_threads(sess, coord=coord, daemon=daemon, start=start)
    return out
