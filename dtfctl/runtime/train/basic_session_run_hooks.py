"""The standard hooks: checkpoints, summaries, logging, stopping."""

from __future__ import annotations

import errno
import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, wait
from pathlib import Path
from typing import Any

import numpy as np

from dtfctl.protocol import config_pb2, summary_pb2
from dtfctl.runtime.client.session import BaseSession
from dtfctl.runtime.framework import context
from dtfctl.runtime.framework.errors import ResourceExhaustedError
from dtfctl.runtime.framework.graph_keys import GraphKeys
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.train import training_util
from dtfctl.runtime.train.meta_graph import export_meta_graph
from dtfctl.runtime.train.progress import note
from dtfctl.runtime.train.session_run_hook import SessionRunArgs, SessionRunContext, SessionRunHook, SessionRunValues
from dtfctl.runtime.train.summary_io import FileWriterCache

log = logging.getLogger("dtfctl.train")
BACKGROUND_BYTES = 64 << 20
"""Checkpoints of at least so much are written while the training goes on."""
# How long a save may take to fail after its session has.
LOST_WRITE_S = 30.0


class SecondOrStepTimer:
    """Says when something that shall happen every so many seconds or steps is due.

    Raises:
        ValueError: both or neither are given.
    """

    def __init__(self, every_secs: float | None = None, every_steps: int | None = None) -> None:
        if every_secs is None and every_steps is None:
            raise ValueError("Either every_secs or every_steps should be provided.")
        if every_secs is not None and every_steps is not None:
            raise ValueError("Can not provide both every_secs and every_steps.")
        self._secs, self._steps = every_secs, every_steps
        self.reset()

    def reset(self) -> None:
        self._last_step: int | None = None
        self._last_time: float | None = None

    def should_trigger_for_step(self, step: int) -> bool:
        if self._last_step is None:
            return True
        if self._last_step == step:
            return False
        if self._secs is not None:
            return time.monotonic() >= (self._last_time or 0.0) + self._secs
        return step >= self._last_step + (self._steps or 0)

    def update_last_triggered_step(self, step: int) -> tuple[float | None, int | None]:
        """Seconds and steps since the last time."""
        now = time.monotonic()
        secs = None if self._last_time is None else now - self._last_time
        steps = None if self._last_step is None else step - self._last_step
        self._last_time, self._last_step = now, step
        return secs, steps

    def last_triggered_step(self) -> int | None:
        return self._last_step


def _global_step_read() -> Tensor:
    """A tensor with the global step.

    Raises:
        RuntimeError: there is none.
    """
    step = training_util.get_global_step()
    if step is None:
        raise RuntimeError("Global step should be created to use this hook.")
    return step.value() if hasattr(step, "value") else step  # type: ignore[no-any-return]


class StopAtStepHook(SessionRunHook):
    """Ends after `num_steps` more steps, or at global step `last_step`."""

    def __init__(self, num_steps: int | None = None, last_step: int | None = None) -> None:
        if (num_steps is None) == (last_step is None):
            raise ValueError(
                "One of num_steps or last_step must be specified."
                if num_steps is None
                else "Only one of num_steps or last_step can be specified."
            )
        self._num_steps, self._last_step = num_steps, last_step

    def begin(self) -> None:
        self._step = _global_step_read()

    def after_create_session(self, session: Any, coord: Any) -> None:
        if self._last_step is None:
            self._last_step = int(session.run(self._step)) + int(self._num_steps or 0)

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        return SessionRunArgs(self._step)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        last = int(self._last_step or 0)
        if int(run_values.results) + 1 >= last and int(run_context.session.run(self._step)) >= last:
            run_context.request_stop()


class CheckpointSaverListener:
    """Called by CheckpointSaverHook around each save."""

    def begin(self) -> None:
        """Before the graph is final."""

    def before_save(self, session: Any, global_step_value: int) -> None:
        """Before a checkpoint is written."""

    def after_save(self, session: Any, global_step_value: int) -> Any:
        """After; a true value asks training to stop."""

    def end(self, session: Any, global_step_value: int) -> None:
        """At the end of training."""


class CheckpointSaverHook(SessionRunHook):
    """Saves a checkpoint at the start, every so many steps or seconds, and at the end.

    A disk that is full does not end the training: the newest checkpoint stays, the submitter is told, and the next
    save is tried when it is due. Only the last save, at the end, raises ResourceExhaustedError.

    Large checkpoints, from 64 MiB on, are written while the training goes on, but for the first and the last:
    `after_save` of their listeners is called after a later step, once the checkpoint is there, and a save that is due
    before the last one has ended waits for it.
    """

    def __init__(
        self,
        checkpoint_dir: str,
        save_secs: float | None = None,
        save_steps: int | None = None,
        saver: Any = None,
        checkpoint_basename: str = "model.ckpt",
        scaffold: Any = None,
        listeners: Iterable[CheckpointSaverListener] | None = None,
        save_graph_def: bool = True,
    ) -> None:
        if saver is not None and scaffold is not None:
            raise ValueError("You cannot provide both saver and scaffold.")
        self._saver, self._scaffold = saver, scaffold
        self._dir = str(checkpoint_dir)
        self._path = str(Path(checkpoint_dir) / checkpoint_basename)
        self._timer = SecondOrStepTimer(every_secs=save_secs, every_steps=save_steps)
        self._listeners = list(listeners or [])
        self._save_graph_def = save_graph_def
        self._writing: tuple[int, Future[Any]] | None = None

    def begin(self) -> None:
        self._step = _global_step_read()
        Path(self._dir).mkdir(parents=True, exist_ok=True)
        for listener in self._listeners:
            listener.begin()

    def after_create_session(self, session: Any, coord: Any) -> None:
        step = int(session.run(self._step))
        self._forget_writing()
        try:
            self._describe(session)
            self._save(session, step)
        except ResourceExhaustedError as e:
            self._not_saved(step, e)
        self._timer.update_last_triggered_step(step)

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        return SessionRunArgs(self._step)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        session = run_context.session
        if self._writing is not None and self._writing[1].done():
            self._try(run_context, self._writing[0], self._end_writing)
        if self._timer.should_trigger_for_step(int(run_values.results) + 1):
            step = int(session.run(self._step))
            if self._timer.should_trigger_for_step(step):
                self._timer.update_last_triggered_step(step)
                if self._writing is not None:
                    self._try(run_context, self._writing[0], self._end_writing)
                large = isinstance(session, BaseSession) and self._get_saver().size(session.graph) >= BACKGROUND_BYTES
                self._try(run_context, step, self._begin_writing if large else self._save)

    def _try(self, run_context: SessionRunContext, step: int, save: Callable[[Any, int], bool]) -> None:
        try:
            if save(run_context.session, step):
                run_context.request_stop()
        except ResourceExhaustedError as e:
            self._not_saved(step, e)

    def _begin_writing(self, session: Any, step: int) -> bool:
        """Save while the training goes on."""
        for listener in self._listeners:
            listener.before_save(session, step)
        finish = self._get_saver().begin_save(session, self._path, step, self._save_graph_def)
        done: Future[Any] = Future()

        def write() -> None:
            try:
                done.set_result(finish())
            except BaseException as e:
                done.set_exception(e)

        # A daemon: a session that hangs must not keep the program from ending.
        threading.Thread(target=write, name="checkpoint", daemon=True).start()
        self._writing = step, done
        return False

    def _end_writing(self, session: Any, step: int) -> bool:
        """Wait for the save that was begun; whether a listener asks to stop."""
        assert self._writing is not None
        done = self._writing[1]
        self._writing = None
        done.result()
        return self._saved(session, step)

    def _forget_writing(self) -> None:
        """After a failure: what was begun in the session before has failed with it, or is there."""
        if self._writing is not None:
            step, done = self._writing
            self._writing = None
            wait([done], LOST_WRITE_S)
            error = done.exception() if done.done() else "it has not ended"
            if error is not None:
                log.warning("No checkpoint of step %d: %s", step, error)

    def _describe(self, session: Any) -> None:
        """Write the graph."""
        if self._save_graph_def:
            from dtfctl.runtime.train.checkpoint_management import write_atomically

            graph_def = session.graph.as_graph_def(add_shapes=True)
            write_atomically(Path(self._dir) / "graph.pbtxt", str(graph_def).encode())
        writer = FileWriterCache.get(self._dir)
        writer.add_graph(session.graph)
        writer.add_meta_graph(export_meta_graph(graph=session.graph))

    def _not_saved(self, step: int, error: ResourceExhaustedError) -> None:
        """Go on without this checkpoint, if it is the disk that is full."""
        if os.strerror(errno.ENOSPC) not in error.message:
            raise error
        log.error("No checkpoint of step %d: %s", step, error.message)
        note(
            f"no checkpoint of step {step}: the disk is full; training goes on, the one before stays ({error.message})"
        )

    def end(self, session: Any) -> None:
        step = int(session.run(self._step))
        if self._writing is not None:
            self._end_writing(session, self._writing[0])
        if step != self._timer.last_triggered_step():
            self._save(session, step)
        for listener in self._listeners:
            listener.end(session, step)

    def _save(self, session: Any, step: int) -> bool:
        """Save; whether a listener asks to stop."""
        for listener in self._listeners:
            listener.before_save(session, step)
        self._get_saver().save(session, self._path, global_step=step, write_meta_graph=self._save_graph_def)
        return self._saved(session, step)

    def _saved(self, session: Any, step: int) -> bool:
        """A checkpoint is there; whether a listener asks to stop."""
        writer = FileWriterCache.get(self._dir)
        entry = summary_pb2.SessionLog(status=summary_pb2.SessionLog.CHECKPOINT, checkpoint_path=self._path)
        writer.add_session_log(entry, step)
        wishes = [listener.after_save(session, step) for listener in self._listeners]
        return any(wishes)

    def _get_saver(self) -> Any:
        if self._saver is not None:
            return self._saver
        if self._scaffold is not None:
            return self._scaffold.saver
        found = context.get_default_graph().get_collection(GraphKeys.SAVERS)
        if len(found) != 1:
            raise RuntimeError(
                f"CheckpointSaverHook needs one saver in the collection {GraphKeys.SAVERS}, found {len(found)}. Pass a "
                "saver or a scaffold."
            )
        self._saver = found[0]
        return self._saver


class StepCounterHook(SessionRunHook):
    """Writes and logs how many steps are done a second."""

    def __init__(
        self,
        every_n_steps: int | None = 100,
        every_n_secs: float | None = None,
        output_dir: str | None = None,
        summary_writer: Any = None,
    ) -> None:
        if (every_n_steps is None) == (every_n_secs is None):
            raise ValueError("exactly one of every_n_steps and every_n_secs should be provided.")
        self._timer = SecondOrStepTimer(every_steps=every_n_steps, every_secs=every_n_secs)
        self._writer, self._dir = summary_writer, output_dir

    def begin(self) -> None:
        if self._writer is None and self._dir:
            self._writer = FileWriterCache.get(self._dir)
        self._step = _global_step_read()
        self._tag = "global_step/sec"

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        return SessionRunArgs(self._step)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        if not self._timer.should_trigger_for_step(int(run_values.results) + 1):
            return
        step = int(run_context.session.run(self._step))
        if not self._timer.should_trigger_for_step(step):
            return
        secs, steps = self._timer.update_last_triggered_step(step)
        if secs and steps is not None:
            self._log_and_record(steps, secs, step)

    def _log_and_record(self, elapsed_steps: int, elapsed_time: float, global_step: int) -> None:
        rate = elapsed_steps / elapsed_time
        if self._writer is not None:
            value = summary_pb2.Summary.Value(tag=self._tag, simple_value=rate)
            self._writer.add_summary(summary_pb2.Summary(value=[value]), global_step)
        log.info("%s: %g", self._tag, rate)


class SummarySaverHook(SessionRunHook):
    """Writes summaries every so many steps or seconds."""

    def __init__(
        self,
        save_steps: int | None = None,
        save_secs: float | None = None,
        output_dir: str | None = None,
        summary_writer: Any = None,
        scaffold: Any = None,
        summary_op: Any = None,
    ) -> None:
        if (scaffold is None) == (summary_op is None):
            raise ValueError("Exactly one of scaffold or summary_op must be provided.")
        self._summary_op, self._scaffold = summary_op, scaffold
        self._writer, self._dir = summary_writer, output_dir
        self._timer = SecondOrStepTimer(every_secs=save_secs, every_steps=save_steps)

    def begin(self) -> None:
        if self._writer is None and self._dir:
            self._writer = FileWriterCache.get(self._dir)
        self._next_step: int | None = None
        self._step = _global_step_read()

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        self._due = self._next_step is None or self._timer.should_trigger_for_step(self._next_step)
        fetches: dict[str, Any] = {"global_step": self._step}
        op = self._summary_op if self._summary_op is not None else self._scaffold.summary_op
        if self._due and op is not None:
            fetches["summary"] = op
        return SessionRunArgs(fetches)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        if self._writer is None:
            return
        step = int(run_values.results["global_step"])
        if self._next_step is None:
            self._writer.add_session_log(summary_pb2.SessionLog(status=summary_pb2.SessionLog.START), step)
        if self._due:
            step = int(run_context.session.run(self._step))
            self._timer.update_last_triggered_step(step)
            found = run_values.results.get("summary")
            if found is not None:
                for summary in found if isinstance(found, (list, tuple)) else [found]:
                    self._writer.add_summary(summary, step)
        self._next_step = step + 1

    def end(self, session: Any) -> None:
        if self._writer is not None:
            self._writer.flush()


class LoggingTensorHook(SessionRunHook):
    """Logs tensors every N runs, every so many seconds, or at the end."""

    def __init__(
        self,
        tensors: Any,
        every_n_iter: int | None = None,
        every_n_secs: float | None = None,
        at_end: bool = False,
        formatter: Callable[[Mapping[str, Any]], str] | None = None,
    ) -> None:
        only_at_end = at_end and every_n_iter is None and every_n_secs is None
        if not only_at_end and (every_n_iter is None) == (every_n_secs is None):
            raise ValueError("either at_end and/or exactly one of every_n_iter and every_n_secs must be provided.")
        if every_n_iter is not None and every_n_iter <= 0:
            raise ValueError(f"invalid every_n_iter={every_n_iter}.")
        if not isinstance(tensors, Mapping):
            self._order: list[str] = [t if isinstance(t, str) else t.name for t in tensors]
            tensors = dict(zip(self._order, tensors))
        else:
            self._order = list(tensors)
        self._tensors, self._formatter, self._at_end = tensors, formatter, at_end
        self._timer = None if only_at_end else SecondOrStepTimer(every_secs=every_n_secs, every_steps=every_n_iter)

    def begin(self) -> None:
        graph = context.get_default_graph()
        if self._timer is not None:
            self._timer.reset()
        self._iteration = 0
        self._current = {k: graph.as_graph_element(v) for k, v in self._tensors.items()}

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs | None:
        self._due = self._timer is not None and self._timer.should_trigger_for_step(self._iteration)
        return SessionRunArgs(self._current) if self._due else None

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        if self._due:
            self._log(run_values.results)
        self._iteration += 1

    def end(self, session: Any) -> None:
        if self._at_end:
            self._log(session.run(self._current))

    def _log(self, values: Mapping[str, Any]) -> None:
        secs = None if self._timer is None else self._timer.update_last_triggered_step(self._iteration)[0]
        if self._formatter:
            log.info(self._formatter(values))
            return
        text = ", ".join(f"{k} = {values[k]}" for k in self._order)
        log.info("%s", text if secs is None else f"{text} ({secs:.3f} sec)")


class NanLossDuringTrainingError(RuntimeError):
    """The loss was not a number."""

    def __str__(self) -> str:
        return "NaN loss during training."


class NanTensorHook(SessionRunHook):
    """Fails, or stops, when the loss is NaN."""

    def __init__(self, loss_tensor: Any, fail_on_nan_loss: bool = True) -> None:
        self._loss, self._fail = loss_tensor, fail_on_nan_loss

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        return SessionRunArgs(self._loss)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        if np.isnan(run_values.results):
            log.error("Model diverged with loss = NaN.")
            if self._fail:
                raise NanLossDuringTrainingError
            run_context.request_stop()


class GlobalStepWaiterHook(SessionRunHook):
    """Holds a worker back until the global step reaches `wait_until_step`: workers then start one after the other."""

    def __init__(self, wait_until_step: int) -> None:
        self._until = wait_until_step

    def begin(self) -> None:
        self._reached = False
        self._step = _global_step_read()

    def before_run(self, run_context: SessionRunContext) -> None:
        while not self._reached and self._until > 0:
            if int(run_context.session.run(self._step)) >= self._until:
                self._reached = True
                return
            time.sleep(0.5)


class FinalOpsHook(SessionRunHook):
    """Evaluates tensors at the end; see `final_ops_values`."""

    def __init__(self, final_ops: Any, final_ops_feed_dict: Any = None) -> None:
        self._ops, self._feeds, self._values = final_ops, final_ops_feed_dict, None

    @property
    def final_ops_values(self) -> Any:
        return self._values

    def end(self, session: Any) -> None:
        if self._ops is not None:
            self._values = session.run(self._ops, feed_dict=self._feeds)


class FeedFnHook(SessionRunHook):
    """Feeds what a function returns, in every run."""

    def __init__(self, feed_fn: Callable[[], Any]) -> None:
        self.feed_fn = feed_fn

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        return SessionRunArgs(fetches=None, feed_dict=self.feed_fn())


class ProfilerHook(SessionRunHook):
    """Writes a Chrome trace of a step every so many steps or seconds."""

    def __init__(
        self,
        save_steps: int | None = None,
        save_secs: float | None = None,
        output_dir: str = "",
        show_dataflow: bool = True,
        show_memory: bool = False,
    ) -> None:
        self._prefix = Path(output_dir)
        self._timer = SecondOrStepTimer(every_secs=save_secs, every_steps=save_steps)

    def begin(self) -> None:
        self._next_step: int | None = None
        self._step = _global_step_read()

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        self._due = self._next_step is not None and self._timer.should_trigger_for_step(self._next_step)
        options = config_pb2.RunOptions(trace_level=config_pb2.RunOptions.FULL_TRACE) if self._due else None
        return SessionRunArgs(self._step, options=options)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        from dtfctl.runtime.train.timeline import Timeline

        step = int(run_values.results)
        if self._next_step is None:
            self._timer.update_last_triggered_step(step)
        if self._due:
            self._timer.update_last_triggered_step(step)
            self._prefix.mkdir(parents=True, exist_ok=True)
            trace = Timeline(run_values.run_metadata.step_stats).generate_chrome_trace_format()
            (self._prefix / f"timeline-{step}.json").write_text(trace)
        self._next_step = step + 1
