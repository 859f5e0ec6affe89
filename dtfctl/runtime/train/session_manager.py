"""`SessionManager`: a session whose variables are ready, restored from a checkpoint, initialized, or waited for."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from dtfctl.runtime.client.session import Session
from dtfctl.runtime.framework import context
from dtfctl.runtime.framework.errors import (
    DataLossError,
    DeadlineExceededError,
    FailedPreconditionError,
    OpError,
    OutOfRangeError,
)
from dtfctl.runtime.framework.operation import Operation
from dtfctl.runtime.train import checkpoint_management
from dtfctl.runtime.train.progress import is_told, note, tell_beginning
from dtfctl.runtime.train.training_util import get_global_step

log = logging.getLogger("dtfctl.train")

DAMAGED = (DataLossError, OutOfRangeError)
"""What reading a checkpoint says when bytes are wrong, or missing at the end."""


class SessionManager:
    """Prepares sessions.

    Args:
        local_init_op: run in every new session; ready_op: gives the names of variables that are not initialized.
        ready_for_local_init_op: the same, for what `local_init_op` needs.
        recovery_wait_secs: pause between looks while waiting for the chief.
    """

    def __init__(
        self,
        local_init_op: Any = None,
        ready_op: Any = None,
        ready_for_local_init_op: Any = None,
        graph: Any = None,
        recovery_wait_secs: float = 30,
        local_init_run_options: Any = None,
        local_init_feed_dict: Any = None,
    ) -> None:
        if ready_for_local_init_op is not None and local_init_op is None:
            raise ValueError("If you pass a ready_for_local_init_op you must also pass a local_init_op")
        self._local_init_op = local_init_op
        self._ready_op = ready_op
        self._ready_for_local_init_op = ready_for_local_init_op
        self._graph = graph or context.get_default_graph()
        self._recovery_wait_secs = recovery_wait_secs
        self._local_init_feed_dict = local_init_feed_dict
        self._restored_from = ""

    def prepare_session(
        self,
        master: str,
        init_op: Any = None,
        saver: Any = None,
        checkpoint_dir: str | None = None,
        checkpoint_filename_with_path: str | None = None,
        wait_for_checkpoint: bool = False,
        max_wait_secs: float = 7200,
        config: Any = None,
        init_feed_dict: Any = None,
        init_fn: Callable[[Any], None] | None = None,
        goes_on: bool = False,
    ) -> Session:
        """Restore the newest checkpoint, or else initialize: for the chief.

        Args:
            goes_on: this training ran before, and only this process or its task was lost. A model whose variables all
                live on is then taken as it is: going back to the checkpoint would undo what other workers did since.

        Raises:
            RuntimeError: there is no way to initialize, or the model is not ready afterwards.
        """
        sess = self._session_of_living_model(master, config) if goes_on else None
        self._restored_from = ""
        if sess is not None:
            _know_checkpoints(saver, checkpoint_dir)
            restored, how = True, "the model is in the cluster's tasks still"
        else:
            sess, restored = self._restore(
                master, saver, checkpoint_dir, checkpoint_filename_with_path, wait_for_checkpoint, max_wait_secs, config
            )
        if not restored:
            if init_op is None and init_fn is None and self._local_init_op is None:
                raise RuntimeError("Model is not initialized and no init_op or init_fn or local_init_op was given")
            if init_op is not None:
                sess.run(init_op, feed_dict=init_feed_dict)
            if init_fn is not None:
                init_fn(sess)
            how = f"there is no checkpoint in {checkpoint_dir}" if checkpoint_dir else "it has no checkpoint folder"
        elif self._restored_from:
            how = f"checkpoint {os.path.basename(self._restored_from)}"
        # Asked at once: other workers train as soon as they find the model ready.
        step = self._step_of(sess) if is_told() else None
        ready, message = self._try_local_init(sess)
        if not ready:
            raise RuntimeError(
                f"Init operations did not make model ready for local_init.  Init op: {init_op}, error: {message}"
            )
        ready, message = self._model_ready(sess)
        if not ready:
            raise RuntimeError(f"Init operations did not make model ready.  Init op: {init_op}, error: {message}")
        if is_told() and checkpoint_filename_with_path is None:  # with one it evaluates: no training begins
            tell_beginning(step, how)
        return sess

    def _step_of(self, sess: Session) -> int | None:
        """Return the global step of the model, if it counts any and is initialized."""
        try:
            step = get_global_step(sess.graph)
        except (TypeError, ValueError):
            return None  # what is called so is none
        try:
            return None if step is None else int(sess.run(step))
        except FailedPreconditionError:
            return None  # that the model is not ready is found and told next

    def recover_session(
        self,
        master: str,
        saver: Any = None,
        checkpoint_dir: str | None = None,
        checkpoint_filename_with_path: str | None = None,
        wait_for_checkpoint: bool = False,
        max_wait_secs: float = 7200,
        config: Any = None,
    ) -> tuple[Session, bool]:
        """Open a session; return it, and whether its model could be restored and is ready."""
        sess, restored = self._restore(
            master, saver, checkpoint_dir, checkpoint_filename_with_path, wait_for_checkpoint, max_wait_secs, config
        )
        ready, message = self._try_local_init(sess)
        if not ready:
            log.info("Restoring model from %s did not make model ready for local init: %s", checkpoint_dir, message)
            return sess, False
        ready, message = self._model_ready(sess)
        if not ready:
            log.info("Restoring model from %s did not make model ready: %s", checkpoint_dir, message)
            return sess, False
        return sess, restored

    def wait_for_session(self, master: str, config: Any = None, max_wait_secs: float = float("inf")) -> Session:
        """Wait until the chief has made the model ready; return a session: for workers.

        Raises:
            DeadlineExceededError: that took longer than `max_wait_secs`.
        """
        deadline = time.monotonic() + max_wait_secs
        while True:
            sess = Session(master, graph=self._graph, config=config)
            ready, message = self._model_ready_for_local_init(sess)
            if ready:
                ready, message = self._try_local_init(sess)
            if ready:
                ready, message = self._model_ready(sess)
            if ready:
                return sess
            sess.close()
            left = deadline - time.monotonic()
            if left - self._recovery_wait_secs < 0 and max_wait_secs != float("inf"):
                raise DeadlineExceededError(
                    f"Session was not ready after waiting {max_wait_secs:.0f} secs. The model is not ready: {message}"
                )
            log.info("Waiting for model to be ready: %s", message)
            time.sleep(self._recovery_wait_secs)

    def _restore(
        self,
        master: str,
        saver: Any,
        checkpoint_dir: str | None,
        exact: str | None,
        wait: bool,
        max_wait_secs: float,
        config: Any,
    ) -> tuple[Session, bool]:
        if checkpoint_dir and exact:
            raise ValueError("Can not provide both checkpoint_dir and checkpoint_filename_with_path.")
        sess = Session(master, graph=self._graph, config=config)
        if saver is None or not (checkpoint_dir or exact):
            return sess, False
        if exact:
            saver.restore(sess, exact)
            self._restored_from = exact
            return sess, True
        deadline = time.monotonic() + max_wait_secs
        path = checkpoint_management.latest_checkpoint(str(checkpoint_dir))
        while path is None and wait and time.monotonic() < deadline:
            time.sleep(min(self._recovery_wait_secs, 1.0))
            path = checkpoint_management.latest_checkpoint(str(checkpoint_dir))
        if path is None:
            return sess, False
        state = checkpoint_management.get_checkpoint_state(str(checkpoint_dir))
        older = [] if state is None else [str(p) for p in state.all_model_checkpoint_paths if p != path]
        whole = _restore_newest_whole(saver, sess, [path, *reversed(older)])
        self._restored_from = whole.path
        if state is not None:
            saver.recover_last_checkpoints([p for p in [*older, path] if p not in whole.damaged])
        return sess, True

    def _session_of_living_model(self, master: str, config: Any) -> Session | None:
        """Return a session, if every variable of the model has a value; None also when there is no way to tell."""
        if self._ready_for_local_init_op is None:
            return None
        sess = Session(master, graph=self._graph, config=config)
        if self._model_ready_for_local_init(sess)[0]:
            return sess
        sess.close()
        return None

    def _model_ready(self, sess: Session) -> tuple[bool, str | None]:
        return _ready(self._ready_op, sess, "Model not ready")

    def _model_ready_for_local_init(self, sess: Session) -> tuple[bool, str | None]:
        return _ready(self._ready_for_local_init_op, sess, "Model not ready for local init")

    def _try_local_init(self, sess: Session) -> tuple[bool, str | None]:
        if self._local_init_op is None:
            return True, None
        ready, message = self._model_ready_for_local_init(sess)
        if ready:
            sess.run(self._local_init_op, feed_dict=self._local_init_feed_dict)
        return ready, message


def _know_checkpoints(saver: Any, checkpoint_dir: str | None) -> None:
    """Let the saver go on counting the checkpoints it keeps."""
    state = checkpoint_management.get_checkpoint_state(str(checkpoint_dir)) if saver is not None else None
    if state is not None:
        saver.recover_last_checkpoints(state.all_model_checkpoint_paths)


@dataclass(frozen=True, slots=True)
class _Restored:
    path: str
    damaged: tuple[str, ...] = ()


def _restore_newest_whole(saver: Any, sess: Session, paths: Sequence[str]) -> _Restored:
    """Restore the first of `paths`, newest first, that is not damaged; tells of those that are.

    Raises:
        DataLossError, OutOfRangeError: all of them are damaged; what the newest one said.
    """
    errors: list[OpError] = []
    for at, path in enumerate(paths):
        try:
            if at and not checkpoint_management.checkpoint_exists(path):
                continue
            saver.restore(sess, path)
        except DAMAGED as e:
            log.error("checkpoint %s is damaged: %s", path, e.message)
            errors.append(e)
            continue
        if errors:
            note(f"checkpoint {paths[0]} is damaged ({errors[0].message}); went on from {path}")
        return _Restored(path, tuple(paths[:at]))
    raise errors[0]


def _ready(op: Any, sess: Session, what: str) -> tuple[bool, str | None]:
    """Run a readiness op. An Operation, or nothing, means "ready when it does not fail"; a tensor lists what misses."""
    if op is None:
        return True, None
    try:
        value = sess.run(op)
    except FailedPreconditionError as e:
        if "uninitialized" not in str(e):
            raise
        return False, str(e)
    if isinstance(op, Operation) or value is None or value.ndim == 0 or value.size == 0:
        return True, None
    names = ", ".join(v.decode() if isinstance(v, bytes) else str(v) for v in value)
    return False, f"{what}. Variables not initialized: {names}"
