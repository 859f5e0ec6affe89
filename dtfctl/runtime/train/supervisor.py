"""`Supervisor`: TF1's older way to a training session: init or recover, services in threads, a clean stop."""

from __future__ import annotations

import contextlib
import math
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from dtfctl.protocol import summary_pb2
from dtfctl.runtime.client.session import Session
from dtfctl.runtime.framework import context
from dtfctl.runtime.framework.errors import OpError
from dtfctl.runtime.framework.graph_keys import GraphKeys
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.ops.variable_collections import (
    global_variables,
    global_variables_initializer,
    report_uninitialized_variables,
)
from dtfctl.runtime.train import training_util
from dtfctl.runtime.train.coordinator import Coordinator, LooperThread
from dtfctl.runtime.train.graph_io import write_graph
from dtfctl.runtime.train.meta_graph import export_meta_graph
from dtfctl.runtime.train.queue_runner import start_queue_runners
from dtfctl.runtime.train.saver import Saver
from dtfctl.runtime.train.scaffold import Scaffold
from dtfctl.runtime.train.session_manager import SessionManager
from dtfctl.runtime.train.summary_io import FileWriter


class Supervisor:
    """Prepares a session and runs the chief's services beside training.

    Arguments left at `USE_DEFAULT` are taken from the graph's collections, or made; None switches them off.

    Args:
        is_chief: this process initializes, saves checkpoints and writes summaries; others wait for it.
        logdir: where checkpoints and events go; None writes none.
        save_summaries_secs, save_model_secs: how often; 0 never.
        recovery_wait_secs: pause between looks while waiting for the chief.
    """

    USE_DEFAULT = 0

    def __init__(
        self,
        graph: Any = None,
        ready_op: Any = USE_DEFAULT,
        ready_for_local_init_op: Any = USE_DEFAULT,
        is_chief: bool = True,
        init_op: Any = USE_DEFAULT,
        init_feed_dict: Any = None,
        local_init_op: Any = USE_DEFAULT,
        logdir: str | None = None,
        summary_op: Any = USE_DEFAULT,
        saver: Any = USE_DEFAULT,
        global_step: Any = USE_DEFAULT,
        save_summaries_secs: float = 120,
        save_model_secs: float = 600,
        recovery_wait_secs: float = 30,
        stop_grace_secs: float = 120,
        checkpoint_basename: str = "model.ckpt",
        session_manager: SessionManager | None = None,
        summary_writer: Any = USE_DEFAULT,
        init_fn: Callable[[Any], None] | None = None,
        local_init_run_options: Any = None,
    ) -> None:
        self._graph = graph or context.get_default_graph()
        self._is_chief, self._logdir, self._init_fn = is_chief, logdir if is_chief else None, init_fn
        self._init_feed_dict, self._stop_grace_secs = init_feed_dict, stop_grace_secs
        self._save_summaries_secs, self._save_model_secs = save_summaries_secs, save_model_secs
        self._coord = Coordinator()
        with self._graph.as_default():

            def pick(value: Any, key: str, make: Callable[[], Any]) -> Any:
                return Scaffold.get_or_default(key, key, make) if isinstance(value, int) else value

            self._init_op = pick(init_op, GraphKeys.INIT_OP, global_variables_initializer)
            self._ready_op = pick(ready_op, GraphKeys.READY_OP, report_uninitialized_variables)
            given = ready_for_local_init_op
            self._ready_for_local_init_op = None if isinstance(given, int) else given
            self._local_init_op = pick(local_init_op, GraphKeys.LOCAL_INIT_OP, Scaffold.default_local_init_op)
            self._saver = pick(saver, GraphKeys.SAVERS, _default_saver)
            self._summary_op = pick(summary_op, GraphKeys.SUMMARY_OP, _default_summary)
            self._global_step = (
                training_util.get_global_step(self._graph) if isinstance(global_step, int) else global_step
            )
        self._save_path = os.path.join(self._logdir, checkpoint_basename) if self._logdir else None
        self._summary_writer = None
        if not isinstance(summary_writer, int):
            self._summary_writer = summary_writer
        elif self._logdir:
            self._summary_writer = FileWriter(self._logdir)
        self._session_manager = session_manager or SessionManager(
            local_init_op=self._local_init_op,
            ready_op=self._ready_op,
            ready_for_local_init_op=self._ready_for_local_init_op,
            graph=self._graph,
            recovery_wait_secs=recovery_wait_secs,
        )
        self._graph_added = False
        # As in TensorFlow: what is made now would be in no session.
        self._graph.finalize()

    @property
    def is_chief(self) -> bool:
        return self._is_chief

    @property
    def coord(self) -> Coordinator:
        return self._coord

    @property
    def session_manager(self) -> SessionManager:
        return self._session_manager

    @property
    def saver(self) -> Any:
        return self._saver

    @property
    def summary_writer(self) -> Any:
        return self._summary_writer

    @property
    def summary_op(self) -> Any:
        return self._summary_op

    @property
    def save_path(self) -> str | None:
        return self._save_path

    @property
    def global_step(self) -> Any:
        return self._global_step

    @property
    def init_op(self) -> Any:
        return self._init_op

    @property
    def ready_op(self) -> Any:
        return self._ready_op

    @property
    def ready_for_local_init_op(self) -> Any:
        return self._ready_for_local_init_op

    @property
    def init_feed_dict(self) -> Any:
        return self._init_feed_dict

    @property
    def save_model_secs(self) -> float:
        return self._save_model_secs

    @property
    def save_summaries_secs(self) -> float:
        return self._save_summaries_secs

    def prepare_or_wait_for_session(
        self,
        master: str = "",
        config: Any = None,
        wait_for_checkpoint: bool = False,
        max_wait_secs: float = 7200,
        start_standard_services: bool = True,
    ) -> Session:
        """Open a ready session: initialized or restored by the chief, waited for by others."""
        self._coord.clear_stop()
        if self._summary_writer is not None:
            self._summary_writer.reopen()
        if self._is_chief:
            sess = self._session_manager.prepare_session(
                master,
                init_op=self._init_op,
                saver=self._saver,
                checkpoint_dir=self._logdir,
                wait_for_checkpoint=wait_for_checkpoint,
                max_wait_secs=max_wait_secs,
                config=config,
                init_feed_dict=self._init_feed_dict,
                init_fn=self._init_fn,
            )
            self._write_graph()
            if start_standard_services:
                self.start_standard_services(sess)
        else:
            sess = self._session_manager.wait_for_session(master, config=config, max_wait_secs=max_wait_secs)
        if start_standard_services:
            self.start_queue_runners(sess)
        return sess

    def _write_graph(self) -> None:
        if self._logdir:
            write_graph(self._graph.as_graph_def(add_shapes=True), self._logdir, "graph.pbtxt")
        if self._summary_writer is not None and not self._graph_added:
            self._summary_writer.add_graph(self._graph)
            saver_def = None if self._saver is None else self._saver.saver_def
            self._summary_writer.add_meta_graph(export_meta_graph(graph=self._graph, saver_def=saver_def))
            self._graph_added = True

    def start_standard_services(self, sess: Session) -> list[threading.Thread]:
        """Start the chief's threads: summaries, steps per second, checkpoints.

        Raises:
            RuntimeError: this is not the chief.
        """
        if not self._is_chief:
            raise RuntimeError(
                "Only chief supervisor can start standard services. Because only chief supervisors can write events."
            )
        if not self._logdir:
            return []
        if self._global_step is not None and self._summary_writer is not None:
            step = int(sess.run(self._global_step))
            self._summary_writer.add_session_log(summary_pb2.SessionLog(status=summary_pb2.SessionLog.START), step)
        threads: list[threading.Thread] = []
        if self._save_summaries_secs and self._summary_writer is not None:
            if self._summary_op is not None:
                threads.append(LooperThread(self._coord, self._save_summaries_secs, self._write_summary, (sess,)))
            if self._global_step is not None:
                every = self._save_summaries_secs
                threads.append(_StepCounter(self._coord, every, sess, self._global_step, self._summary_writer))
        if self._saver is not None and self._save_model_secs:
            threads.append(LooperThread(self._coord, self._save_model_secs, self._save, (sess,)))
        for thread in threads:
            thread.start()
        return threads

    def _write_summary(self, sess: Session) -> None:
        step = None if self._global_step is None else int(sess.run(self._global_step))
        self.summary_computed(sess, sess.run(self._summary_op), step)

    def _save(self, sess: Session) -> None:
        self._saver.save(sess, self._save_path, global_step=self._global_step)
        if self._summary_writer is not None and self._global_step is not None:
            saved = summary_pb2.SessionLog(status=summary_pb2.SessionLog.CHECKPOINT, checkpoint_path=self._save_path)
            self._summary_writer.add_session_log(saved, int(sess.run(self._global_step)))

    def summary_computed(self, sess: Any, summary: Any, global_step: int | None = None) -> None:
        """Write a summary the program computed itself.

        Raises:
            RuntimeError: there is no writer.
        """
        if self._summary_writer is None:
            raise RuntimeError("Writing a summary requires a summary writer.")
        if global_step is None and self._global_step is not None:
            global_step = int(sess.run(self._global_step))
        self._summary_writer.add_summary(summary, global_step)

    def start_queue_runners(self, sess: Session, queue_runners: Sequence[Any] | None = None) -> list[threading.Thread]:
        if queue_runners is None:
            return start_queue_runners(sess, coord=self._coord)
        return [t for q in queue_runners for t in q.create_threads(sess, self._coord, daemon=True, start=True)]

    def loop(
        self, timer_interval_secs: float | None, target: Callable[..., Any], args: Any = None, kwargs: Any = None
    ) -> LooperThread:
        """Call a function in a thread, every so many seconds, until the supervisor stops."""
        return LooperThread.loop(self._coord, timer_interval_secs, target, args, kwargs)

    def should_stop(self) -> bool:
        return self._coord.should_stop()

    def request_stop(self, ex: Any = None) -> None:
        self._coord.request_stop(ex)

    def wait_for_stop(self) -> None:
        self._coord.wait_for_stop()

    def stop(self, threads: Any = None, close_summary_writer: bool = True, ignore_live_threads: bool = False) -> None:
        """Stop the services and wait for their threads.

        Raises:
            The exception that made a thread stop, if any.
        """
        self._coord.request_stop()
        try:
            self._coord.join(threads, self._stop_grace_secs, ignore_live_threads)
        finally:
            if close_summary_writer and self._summary_writer is not None:
                stopped = summary_pb2.SessionLog(status=summary_pb2.SessionLog.STOP)
                self._summary_writer.add_session_log(stopped)
                self._summary_writer.close()
            self._graph_added = False

    def stop_on_exception(self) -> contextlib.AbstractContextManager[None]:
        """Ask for a stop when the block raises, with what it raised."""
        return self._coord.stop_on_exception()

    @contextlib.contextmanager
    def managed_session(
        self,
        master: str = "",
        config: Any = None,
        start_standard_services: bool = True,
        close_summary_writer: bool = True,
    ) -> Iterator[Session]:
        """Open a ready session; at the end services stop, and an exception of one of them is raised."""
        sess: Session | None = None
        try:
            sess = self.prepare_or_wait_for_session(master, config, start_standard_services=start_standard_services)
            yield sess
        except Exception as e:
            self.request_stop(e)
        finally:
            try:
                self.stop(close_summary_writer=close_summary_writer)
            finally:
                if sess is not None:
                    # The task may be gone by now; what made it so was reported above.
                    with contextlib.suppress(OpError):
                        sess.close()

    # TensorFlow's first names of these, which programs of its time still call.
    PrepareSession = prepare_or_wait_for_session
    StartStandardServices = start_standard_services
    StartQueueRunners = start_queue_runners
    SummaryComputed = summary_computed
    Loop = loop
    ShouldStop = should_stop
    RequestStop = request_stop
    WaitForStop = wait_for_stop
    Stop = stop
    StopOnException = stop_on_exception


class _StepCounter(LooperThread):
    """Writes down how many steps there were in a second."""

    def __init__(self, coord: Coordinator, every: float, sess: Session, step: Any, writer: Any) -> None:
        super().__init__(coord, every)
        self._sess, self._step, self._writer = sess, step, writer

    def start_loop(self) -> None:
        self._since, self._last = time.monotonic(), int(self._sess.run(self._step))

    def run_loop(self) -> None:
        now, step = time.monotonic(), int(self._sess.run(self._step))
        rate = (step - self._last) / (now - self._since) if now > self._since else math.inf
        self._since, self._last = now, step
        value = summary_pb2.Summary.Value(tag=f"{self._step.op.name}/sec", simple_value=rate)
        self._writer.add_summary(summary_pb2.Summary(value=[value]), step)


def _default_saver() -> Any:
    return Saver() if global_variables() else None


def _default_summary() -> Any:
    found = context.get_default_graph().get_collection(GraphKeys.SUMMARIES)
    return apply_op("MergeSummary", inputs=found) if found else None
