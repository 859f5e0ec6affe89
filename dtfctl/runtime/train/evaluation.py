"""Evaluations in a session: a step counter, a hook that stops after so many batches, one run over a checkpoint."""

from __future__ import annotations

import logging
import time
from typing import Any

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.context import get_default_graph
from dtfctl.runtime.framework.graph_keys import GraphKeys, control_dependencies
from dtfctl.runtime.ops.array_ops import identity
from dtfctl.runtime.ops.init_ops import zeros_initializer
from dtfctl.runtime.ops.state_ops import assign_add
from dtfctl.runtime.ops.variable_scope import get_variable
from dtfctl.runtime.train.hooks.runs import FinalOpsHook
from dtfctl.runtime.train.monitored_session import ChiefSessionCreator, MonitoredSession
from dtfctl.runtime.train.session_run_hook import SessionRunArgs, SessionRunHook

log = logging.getLogger("dtfctl.train")
# Fewer evaluations than this are logged one by one.
_EACH_LOGGED = 20


def get_or_create_eval_step() -> Any:
    """Return the graph's counter of evaluated batches, made where there is none."""
    made = get_default_graph().get_collection(GraphKeys.EVAL_STEP)
    if len(made) > 1:
        raise ValueError("Multiple tensors added to tf.GraphKeys.EVAL_STEP")
    return (
        made[0]
        if made
        else get_variable(
            "eval_step",
            shape=[],
            dtype=dtypes.int64,
            initializer=zeros_initializer(),
            trainable=False,
            collections=[GraphKeys.LOCAL_VARIABLES, GraphKeys.EVAL_STEP],
        )
    )


class StopAfterNEvalsHook(SessionRunHook):
    """Stops an evaluation after so many batches, as the counter tells; None lets the input end it."""

    def __init__(self, num_evals: int | None, log_progress: bool = True) -> None:
        self._num_evals, self._log_progress = num_evals, log_progress
        self._evals_completed: Any = None
        few = num_evals is None or num_evals < _EACH_LOGGED
        self._log_frequency = 1 if few else (num_evals or 0) // 10

    def _set_evals_completed_tensor(self, updated_eval_step: Any) -> None:
        self._evals_completed = updated_eval_step

    def before_run(self, run_context: Any) -> Any:
        """Ask for the counter."""
        return SessionRunArgs({"evals_completed": self._evals_completed})

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Stop when the counter is there."""
        done, most = run_values.results["evals_completed"], self._num_evals
        if self._log_progress and (done % self._log_frequency == 0 or done == most):
            log.info("Evaluation [%s]", done if most is None else f"{done}/{most}")
        if most is not None and done >= most:
            run_context.request_stop()


def evaluate_once(
    checkpoint_path: str | None,
    master: str = "",
    scaffold: Any = None,
    eval_ops: Any = None,
    feed_dict: Any = None,
    final_ops: Any = None,
    final_ops_feed_dict: Any = None,
    hooks: Any = None,
    config: Any = None,
) -> Any:
    """Restore a checkpoint, run `eval_ops` until a hook or the input ends it, and give what `final_ops` gives then."""
    counter = get_or_create_eval_step()
    every = list(hooks or [])
    if eval_ops is not None:
        counted = assign_add(counter, 1, use_locking=True)
        if isinstance(eval_ops, dict):
            eval_ops["update_eval_step"] = counted
        else:
            eval_ops = [*(eval_ops if isinstance(eval_ops, (tuple, list)) else [eval_ops]), counted]
        with control_dependencies(list(eval_ops.values()) if isinstance(eval_ops, dict) else eval_ops):
            latest = identity(counter.read_value())
        for hook in every:
            if isinstance(hook, StopAfterNEvalsHook):
                hook._set_evals_completed_tensor(latest)
    began = time.monotonic()
    creator = ChiefSessionCreator(
        scaffold=scaffold, checkpoint_filename_with_path=checkpoint_path, master=master, config=config
    )
    final = FinalOpsHook(final_ops, final_ops_feed_dict)
    with MonitoredSession(session_creator=creator, hooks=[*every, final]) as session:
        while eval_ops is not None and not session.should_stop():
            session.run(eval_ops, feed_dict)
    log.info("Evaluated in %.5f s", time.monotonic() - began)
    return final.final_ops_values
