"""Monitored sessions: hooks around every run, recovery when a task dies, a clean end.

A `MonitoredSession` wraps layers, innermost first: the session itself; one that runs the hooks; one that reports to a
coordinator; one that, when a run or the making of a session fails with AbortedError or UnavailableError, closes what is
left and makes a new session through the creator, which restores from the newest checkpoint.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from typing import Any

from dtfctl.protocol import config_pb2
from dtfctl.runtime.client.session import Session
from dtfctl.runtime.framework import context
from dtfctl.runtime.framework.errors import AbortedError, OpError, OutOfRangeError, UnavailableError
from dtfctl.runtime.replication import contexts
from dtfctl.runtime.train.checkpoint_defaults import how_often
from dtfctl.runtime.train.coordinator import Coordinator
from dtfctl.runtime.train.hooks.checkpoints import CheckpointSaverHook
from dtfctl.runtime.train.hooks.job import job_hooks
from dtfctl.runtime.train.hooks.summaries import StepCounterHook, SummarySaverHook
from dtfctl.runtime.train.progress import last_reported
from dtfctl.runtime.train.queue_runner import start_queue_runners
from dtfctl.runtime.train.scaffold import Scaffold
from dtfctl.runtime.train.session_manager import SessionManager
from dtfctl.runtime.train.session_run_hook import SessionRunArgs, SessionRunContext, SessionRunHook, SessionRunValues

log = logging.getLogger("dtfctl.train")

# What a lost task looks like; everything else is the program's.
PREEMPTION_ERRORS = (AbortedError, UnavailableError)
USE_DEFAULT: Any = object()


class SessionCreator:
    """Makes sessions: the first, and one after each recovery."""

    def create_session(self) -> Session:
        raise NotImplementedError


class ChiefSessionCreator(SessionCreator):
    """Restores or initializes the model."""

    def __init__(
        self,
        scaffold: Scaffold | None = None,
        master: str = "",
        config: Any = None,
        checkpoint_dir: str | None = None,
        checkpoint_filename_with_path: str | None = None,
    ) -> None:
        self._scaffold = scaffold or Scaffold()
        self._master, self._config = master, config
        self._checkpoint_dir, self._exact = checkpoint_dir, checkpoint_filename_with_path
        self._manager: SessionManager | None = None
        self._made_one = False

    def create_session(self) -> Session:
        self._scaffold.finalize()
        # Who names a checkpoint gets that one (it evaluates), whatever lives in the cluster's tasks.
        goes_on = self._exact is None and (self._made_one or last_reported() is not None)
        if self._manager is None:
            self._manager = SessionManager(
                local_init_op=self._scaffold.local_init_op,
                local_init_feed_dict=self._scaffold.local_init_feed_dict,
                ready_op=self._scaffold.ready_op,
                ready_for_local_init_op=self._scaffold.ready_for_local_init_op,
                graph=context.get_default_graph(),
            )
        session = self._manager.prepare_session(
            self._master,
            saver=self._scaffold.saver,
            checkpoint_dir=self._checkpoint_dir,
            checkpoint_filename_with_path=self._exact,
            config=self._config,
            init_op=self._scaffold.init_op,
            init_feed_dict=self._scaffold.init_feed_dict,
            init_fn=self._scaffold.init_fn,
            goes_on=goes_on,
        )
        self._made_one = True
        return session


class WorkerSessionCreator(SessionCreator):
    """Waits for the chief to make the model ready."""

    def __init__(
        self,
        scaffold: Scaffold | None = None,
        master: str = "",
        config: Any = None,
        max_wait_secs: float = 30 * 60,
        recovery_wait_secs: float = 1.0,
    ) -> None:
        self._scaffold = scaffold or Scaffold()
        self._master, self._config = master, config
        self._max_wait_secs, self._recovery_wait_secs = max_wait_secs, recovery_wait_secs
        self._manager: SessionManager | None = None

    def create_session(self) -> Session:
        self._scaffold.finalize()
        if self._manager is None:
            self._manager = SessionManager(
                local_init_op=self._scaffold.local_init_op,
                local_init_feed_dict=self._scaffold.local_init_feed_dict,
                ready_op=self._scaffold.ready_op,
                ready_for_local_init_op=self._scaffold.ready_for_local_init_op,
                graph=context.get_default_graph(),
                recovery_wait_secs=self._recovery_wait_secs,
            )
        return self._manager.wait_for_session(self._master, config=self._config, max_wait_secs=self._max_wait_secs)


class StepContext:
    """What a function given to `run_step_fn` gets: a session without hooks, `run_with_hooks` and `request_stop`."""

    def __init__(self, session: Any, run_with_hooks: Callable[..., Any]) -> None:
        self.session, self._run_with_hooks = session, run_with_hooks

    def run_with_hooks(self, *args: Any, **kwargs: Any) -> Any:
        return self._run_with_hooks(*args, **kwargs)

    def request_stop(self) -> None:
        raise StopIteration("step_fn has requested the iterations to stop.")


class _Wrapped:
    """A layer around a session."""

    def __init__(self, sess: Any) -> None:
        self._sess: Any = sess

    @property
    def graph(self) -> Any:
        return self._sess.graph

    def run(self, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None) -> Any:
        return self._sess.run(fetches, feed_dict, options, run_metadata)

    def should_stop(self) -> bool:
        if self._sess is None:
            return True
        return isinstance(self._sess, _Wrapped) and self._sess.should_stop()

    def close(self) -> None:
        if self._sess is not None:
            try:
                self._sess.close()
            except PREEMPTION_ERRORS as e:
                log.info("The session was lost while closing: %s", e)
            finally:
                self._sess = None

    def raw_session(self) -> Any:
        return self._sess.raw_session() if isinstance(self._sess, _Wrapped) else self._sess

    def run_step_fn(self, step_fn: Callable[[StepContext], Any]) -> Any:
        return step_fn(StepContext(self.raw_session(), self.run))


class _HookedSession(_Wrapped):
    """Runs hooks around each run."""

    def __init__(self, sess: Any, hooks: list[SessionRunHook]) -> None:
        super().__init__(sess)
        self._hooks = hooks
        self._should_stop = False

    def should_stop(self) -> bool:
        return self._should_stop or super().should_stop()

    def run(self, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None) -> Any:
        if self._should_stop:
            raise RuntimeError("Run called even after should_stop requested.")
        everything: dict[Any, Any] = {"caller": fetches}
        run_context = SessionRunContext(SessionRunArgs(fetches, feed_dict), self._sess)
        options = options or config_pb2.RunOptions()
        feeds = self._before_run(run_context, everything, feed_dict, options)
        metadata = run_metadata if run_metadata is not None else config_pb2.RunMetadata()
        wants_metadata = run_metadata is not None or options.trace_level
        outputs = self._sess.run(everything, feeds, options, metadata if wants_metadata else None)
        for hook in self._hooks:
            hook.after_run(run_context, SessionRunValues(outputs.get(hook), options, metadata))
        self._should_stop = self._should_stop or run_context.stop_requested
        return outputs["caller"]

    def _before_run(self, run_context: SessionRunContext, everything: dict[Any, Any], user: Any, options: Any) -> Any:
        feeds = dict(user or {})
        for hook in self._hooks:
            request = hook.before_run(run_context)
            if request is None:
                continue
            if request.fetches is not None:
                everything[hook] = request.fetches
            for key, value in (request.feed_dict or {}).items():
                if key in feeds:
                    raise RuntimeError(f"A tensor is fed by both a hook and the user: {key}")
                feeds[key] = value
            if request.options is not None:
                options.trace_level = max(options.trace_level, request.options.trace_level)
                options.timeout_in_ms = max(options.timeout_in_ms, request.options.timeout_in_ms)
                options.output_partition_graphs |= request.options.output_partition_graphs
        return feeds or None


class _CoordinatedSession(_Wrapped):
    """Reports failures to a coordinator and ends its threads on close."""

    def __init__(self, sess: Any, coord: Coordinator, stop_grace_period_secs: float) -> None:
        super().__init__(sess)
        self._coord, self._grace = coord, stop_grace_period_secs

    def should_stop(self) -> bool:
        return self._coord.should_stop() or super().should_stop()

    def close(self) -> None:
        self._coord.request_stop()
        try:
            self._coord.join(stop_grace_period_secs=self._grace, ignore_live_threads=True)
        finally:
            super().close()

    def run(self, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None) -> Any:
        try:
            return super().run(fetches, feed_dict, options, run_metadata)
        except PREEMPTION_ERRORS:
            raise
        except Exception as e:
            # A thread of the coordinator may have failed first; its reason explains this one.
            self._coord.raise_requested_exception()
            self._coord.request_stop(e) if isinstance(e, OpError) else None
            raise


class _RecoverableSession(_Wrapped):
    """Makes a new session when the old one is lost."""

    def __init__(self, create: Callable[[], Any]) -> None:
        super().__init__(None)
        self._create = create
        self._sess = self._create_session()

    def _create_session(self) -> Any:
        pause = 0.1
        while True:
            try:
                return self._create()
            except PREEMPTION_ERRORS as e:
                log.info("A task was lost while the session was made; trying again in %.1f s: %s", pause, e)
                time.sleep(pause)
                pause = min(pause * 2, 2.0)

    def should_stop(self) -> bool:
        if self._sess is None:
            self._sess = self._create_session()
        return super().should_stop()

    def run(self, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None) -> Any:
        return self._recovered(lambda: self._sess.run(fetches, feed_dict, options, run_metadata))

    def run_step_fn(self, step_fn: Callable[[StepContext], Any]) -> Any:
        # Not one run of it alone is repeated: what it has found before is of the session that is lost.
        return self._recovered(lambda: self._sess.run_step_fn(step_fn))

    def _recovered(self, run: Callable[[], Any]) -> Any:
        while True:
            try:
                if self._sess is None:
                    self._sess = self._create_session()
                return run()
            except PREEMPTION_ERRORS as e:
                log.info("A task was lost; recovering from the newest checkpoint: %s", e)
                self.close()


class _MonitoredSession:
    def __init__(
        self,
        session_creator: SessionCreator | None,
        hooks: Iterable[SessionRunHook] | None,
        should_recover: bool,
        stop_grace_period_secs: float = 120,
    ) -> None:
        self._graph_was_finalized = context.get_default_graph().finalized
        self._hooks = list(hooks or [])
        for hook in self._hooks:
            hook.begin()
        self._creator = session_creator or ChiefSessionCreator()
        self._grace = stop_grace_period_secs
        self.coord = Coordinator(clean_stop_exception_types=())
        self._tf_session: Any = None
        self._closed = False
        self._sess: _Wrapped | None = _RecoverableSession(self._make) if should_recover else self._make()

    def _make(self) -> _Wrapped:
        self.coord = Coordinator()
        self._tf_session = self._creator.create_session()
        start_queue_runners(sess=self._tf_session, coord=self.coord)
        for hook in self._hooks:
            hook.after_create_session(self._tf_session, self.coord)
        return _CoordinatedSession(_HookedSession(self._tf_session, self._hooks), self.coord, self._grace)

    @property
    def graph(self) -> Any:
        return None if self._sess is None else self._tf_session.graph

    def run(self, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None) -> Any:
        """Run, with hooks; a lost task is recovered from and the run repeated.

        Raises:
            RuntimeError: the session is closed.
        """
        return self._open.run(fetches, feed_dict=feed_dict, options=options, run_metadata=run_metadata)

    @property
    def _open(self) -> _Wrapped:
        if self._sess is None:
            raise RuntimeError("Session is already closed.")
        return self._sess

    def run_step_fn(self, step_fn: Callable[..., Any]) -> Any:
        """Call `step_fn(step_context)`; what it returns, or None when it asked to stop.

        Where a task is lost meanwhile, also one that only the session without hooks has met, it is called once more.
        """
        try:
            return self._open.run_step_fn(step_fn)
        except StopIteration:
            self.coord.request_stop()
            return None

    def should_stop(self) -> bool:
        """Tell whether the training loop shall end."""
        return self._sess is None or self._sess.should_stop()

    def close(self) -> None:
        self._close(None)

    def raw_session(self) -> Any:
        """Return the session underneath, without hooks."""
        return self._open.raw_session()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, exception_type: Any, exception_value: Any, traceback: Any) -> bool:
        clean = exception_type is not None and issubclass(exception_type, (OutOfRangeError, StopIteration))
        self._close(None if clean else exception_type)
        return bool(clean)

    def _close(self, exception_type: Any) -> None:
        try:
            if exception_type is None and self._sess is not None:
                for hook in self._hooks:
                    hook.end(self._tf_session)
        finally:
            try:
                if self._sess is not None:
                    self._sess.close()
            finally:
                self._sess = None
                if not self._graph_was_finalized and self._tf_session is not None:
                    self._tf_session.graph._unsafe_unfinalize()
                self._tf_session = None


class MonitoredSession(_MonitoredSession):
    """A session with hooks that recovers from lost tasks."""

    def __init__(
        self,
        session_creator: SessionCreator | None = None,
        hooks: Iterable[SessionRunHook] | None = None,
        stop_grace_period_secs: float = 120,
    ) -> None:
        super().__init__(session_creator, hooks, True, stop_grace_period_secs)


class SingularMonitoredSession(_MonitoredSession):
    """A session with hooks that does not recover; one process, no ps."""

    def __init__(
        self,
        hooks: Iterable[SessionRunHook] | None = None,
        scaffold: Scaffold | None = None,
        master: str = "",
        config: Any = None,
        checkpoint_dir: str | None = None,
        stop_grace_period_secs: float = 120,
        checkpoint_filename_with_path: str | None = None,
    ) -> None:
        creator = ChiefSessionCreator(scaffold, master, config, checkpoint_dir, checkpoint_filename_with_path)
        super().__init__(creator, hooks, False, stop_grace_period_secs)


def MonitoredTrainingSession(
    master: str = "",
    is_chief: bool = True,
    checkpoint_dir: str | None = None,
    scaffold: Scaffold | None = None,
    hooks: Iterable[SessionRunHook] | None = None,
    chief_only_hooks: Iterable[SessionRunHook] | None = None,
    save_checkpoint_secs: Any = USE_DEFAULT,
    save_summaries_steps: Any = USE_DEFAULT,
    save_summaries_secs: Any = USE_DEFAULT,
    config: Any = None,
    stop_grace_period_secs: float = 120,
    log_step_count_steps: int | None = 100,
    max_wait_secs: float = 7200,
    save_checkpoint_steps: Any = USE_DEFAULT,
    summary_dir: str | None = None,
    save_graph_def: bool = True,
) -> MonitoredSession:
    """Make a MonitoredSession for training: the chief saves checkpoints and summaries, workers wait for it.

    Args:
        save_checkpoint_secs, save_checkpoint_steps: how often (None never). When neither is given, what
            `checkpoints` of the cluster file says in a job, else 600 s.
        save_summaries_steps, save_summaries_secs: how often (100 steps when neither is given; None never).
        log_step_count_steps: log the rate of steps this often.
        max_wait_secs: how long a worker waits for the chief.

    In a job the chief reports the global step and the loss as progress, unless one of `hooks` does, and writes them,
    the graph and the times of a step for TensorBoard.

    In the scope of a strategy whose workers each build a graph, the strategy says who is chief, and what the session
    sees; `master` is this process's own task where it is not given.
    """
    if save_summaries_steps is USE_DEFAULT and save_summaries_secs is USE_DEFAULT:
        save_summaries_steps, save_summaries_secs = 100, None
    save_summaries_steps = None if save_summaries_steps is USE_DEFAULT else save_summaries_steps
    save_summaries_secs = None if save_summaries_secs is USE_DEFAULT else save_summaries_secs
    if save_checkpoint_steps is USE_DEFAULT and save_checkpoint_secs is USE_DEFAULT:
        save_checkpoint_steps, save_checkpoint_secs = how_often()
    save_checkpoint_steps = None if save_checkpoint_steps is USE_DEFAULT else save_checkpoint_steps
    save_checkpoint_secs = None if save_checkpoint_secs is USE_DEFAULT else save_checkpoint_secs
    scaffold = scaffold or Scaffold()
    everyone = list(hooks or [])
    own = None
    if contexts.has_strategy():
        extended = contexts.get_strategy().extended
        own = extended.session_creator(scaffold, master, config, checkpoint_dir)
        everyone += extended.session_hooks()
        if extended.experimental_between_graph:
            is_chief = extended.should_checkpoint
            config = extended.update_config(config or config_pb2.ConfigProto())
            master = master or extended.cluster_resolver.master()
    if own is not None and not is_chief:
        return MonitoredSession(own, everyone, stop_grace_period_secs)
    if not is_chief:
        return MonitoredSession(
            WorkerSessionCreator(scaffold, master, config, max_wait_secs), everyone, stop_grace_period_secs
        )
    given, everyone = everyone, list(chief_only_hooks or [])
    creator = own or ChiefSessionCreator(scaffold, master, config, checkpoint_dir)
    summaries = summary_dir or checkpoint_dir
    if summaries:
        if log_step_count_steps:
            everyone.append(StepCounterHook(every_n_steps=log_step_count_steps, output_dir=summaries))
        if save_summaries_steps or save_summaries_secs:
            everyone.append(
                SummarySaverHook(
                    scaffold=scaffold,
                    save_steps=save_summaries_steps,
                    save_secs=save_summaries_secs,
                    output_dir=summaries,
                )
            )
    if checkpoint_dir and (save_checkpoint_secs or save_checkpoint_steps):
        everyone.append(
            CheckpointSaverHook(
                checkpoint_dir,
                save_steps=save_checkpoint_steps,
                save_secs=save_checkpoint_secs,
                scaffold=scaffold,
                save_graph_def=save_graph_def,
            )
        )
    # Those given come after, as TensorFlow's: at the end they find the last checkpoint.
    everyone += given
    everyone += job_hooks(everyone)
    return MonitoredSession(creator, everyone, stop_grace_period_secs)
