"""Checkpoints while training goes on."""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable, Iterable
from concurrent.futures import Future, wait
from pathlib import Path
from typing import Any

from dtfctl import guard
from dtfctl.protocol import summary_pb2
from dtfctl.runtime.client.session import BaseSession
from dtfctl.runtime.framework import context
from dtfctl.runtime.framework.errors import ResourceExhaustedError
from dtfctl.runtime.framework.graph_keys import GraphKeys
from dtfctl.runtime.train.hooks.timing import SecondOrStepTimer, global_step_read
from dtfctl.runtime.train.meta_graph import export_meta_graph
from dtfctl.runtime.train.progress import SaveWanted, note
from dtfctl.runtime.train.session_run_hook import SessionRunArgs, SessionRunContext, SessionRunHook, SessionRunValues
from dtfctl.runtime.train.summary_io import FileWriterCache

log = logging.getLogger("dtfctl.train")


BACKGROUND_BYTES = 64 << 20
"""Checkpoints of at least so much are written while the training goes on."""


# How long a save may take to fail after its session has.
LOST_WRITE_S = 30.0


class CheckpointSaverListener:
    """Called by CheckpointSaverHook around each save."""

    def begin(self) -> None:
        """Prepare, before the graph is final."""

    def before_save(self, session: Any, global_step_value: int) -> None:
        """Prepare for a checkpoint that is going to be written."""

    def after_save(self, session: Any, global_step_value: int) -> Any:
        """Follow up on a checkpoint that was written; a true value asks training to stop."""

    def end(self, session: Any, global_step_value: int) -> None:
        """Follow up on the end of training."""


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
        self._wanted = SaveWanted()

    def begin(self) -> None:
        self._step = global_step_read()
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
        at_once = self._wanted.look()
        if at_once or self._timer.should_trigger_for_step(int(run_values.results) + 1):
            step = int(session.run(self._step))
            if self._timer.should_trigger_for_step(step) or (at_once and step != self._timer.last_triggered_step()):
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
        guard.once(write, name="checkpoint").start()
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
        """Forget the writing after a failure: what was begun in the session before has failed with it, or is there."""
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
        """Follow up on a checkpoint that is there; tell whether a listener asks to stop."""
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
