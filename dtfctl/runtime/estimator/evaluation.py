"""One evaluation: metrics over a stream of batches, with a checkpoint's variables."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from dtfctl.runtime import api as tf
from dtfctl.runtime.train.session_run_hook import SessionRunHook
from dtfctl.runtime.train.summary_io import FileWriterCache


class StopAfterNEvalsHook(SessionRunHook):
    """Stops an evaluation after so many batches."""

    def __init__(self, num_evals: int) -> None:
        self._left = num_evals

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Count a batch, and stop after the last."""
        self._left -= 1
        if self._left <= 0:
            run_context.request_stop()


def evaluate_once(
    checkpoint_path: str | None,
    master: str,
    scaffold: Any,
    update_op: Any,
    values: Mapping[str, Any],
    hooks: list[Any],
    config: Any,
) -> dict[str, Any]:
    """Run an update op until the input ends or a hook stops it; then fetch the values."""
    final = tf.train.FinalOpsHook(dict(values))
    creator = tf.train.ChiefSessionCreator(
        scaffold=scaffold, checkpoint_filename_with_path=checkpoint_path, master=master, config=config
    )
    with tf.train.MonitoredSession(session_creator=creator, hooks=[*hooks, final]) as session:
        while update_op is not None and not session.should_stop():
            session.run(update_op)
    return dict(final.final_ops_values)


def write_results(folder: str, results: Mapping[str, Any], checkpoint_path: str | None) -> None:
    """Write what an evaluation found as summaries, for the step the model had."""
    step = int(results["global_step"])
    shown = ", ".join(f"{k} = {v}" for k, v in sorted(results.items()) if not isinstance(v, bytes))
    tf.logging.info("Saving dict for global step %d: %s", step, shown)
    os.makedirs(folder, exist_ok=True)
    writer, summary = FileWriterCache.get(folder), tf.Summary()
    for key, value in results.items():
        if key == "global_step" or value is None:
            continue
        if isinstance(value, (float, int, np.floating, np.integer)):
            summary.value.add(tag=key, simple_value=float(value))
        elif isinstance(value, bytes):
            inner = tf.Summary.FromString(value)
            for i, part in enumerate(inner.value):
                part.tag = f"{key}/{i}"
            summary.value.extend(inner.value)
        elif isinstance(value, np.ndarray):
            summary.value.add(tag=key, node_name=key).tensor.CopyFrom(tf.make_tensor_proto(value))
        else:
            tf.logging.warn("Skipping summary for %s: it is no number, array or serialized Summary", key)
    writer.add_summary(summary, step)
    if checkpoint_path:
        path = tf.Summary()
        path.value.add(tag="checkpoint_path").tensor.CopyFrom(tf.make_tensor_proto(checkpoint_path))
        writer.add_summary(path, step)
    writer.flush()
