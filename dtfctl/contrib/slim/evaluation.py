"""`slim.evaluation`: run a model's evaluation ops on its checkpoints."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime import api as tf


def evaluate_once(
    master: str,
    checkpoint_path: str,
    logdir: str | None = None,
    num_evals: int = 1,
    initial_op: Any = None,
    initial_op_feed_dict: Any = None,
    eval_op: Any = None,
    eval_op_feed_dict: Any = None,
    final_op: Any = None,
    final_op_feed_dict: Any = None,
    summary_op: Any = None,
    variables_to_restore: Any = None,
    session_config: Any = None,
) -> Any:
    """Restore a checkpoint, run `eval_op` so many times, then give what `final_op` gives.

    Summaries (all of them when `summary_op` is None) are written to `logdir` if it is given.
    """
    with tf.get_default_graph().as_default():
        step = tf.train.get_or_create_global_step()
        saver = tf.train.Saver(variables_to_restore or tf.global_variables())
        summaries = summary_op if summary_op is not None else tf.summary.merge_all()
        start = [tf.global_variables_initializer(), tf.local_variables_initializer(), tf.tables_initializer()]
        with tf.Session(master, config=session_config) as session:
            session.run(start)
            saver.restore(session, checkpoint_path)
            coordinator = tf.train.Coordinator()
            threads = tf.train.start_queue_runners(session, coord=coordinator)
            try:
                if initial_op is not None:
                    session.run(initial_op, initial_op_feed_dict)
                for _ in range(num_evals if eval_op is not None else 0):
                    session.run(eval_op, eval_op_feed_dict)
                if logdir and summaries is not None:
                    with tf.summary.FileWriter(logdir) as writer:
                        writer.add_summary(session.run(summaries, eval_op_feed_dict), session.run(step))
                return None if final_op is None else session.run(final_op, final_op_feed_dict)
            finally:
                coordinator.request_stop()
                coordinator.join(threads, stop_grace_period_secs=10, ignore_live_threads=True)
