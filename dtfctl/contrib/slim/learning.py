"""`slim.learning`: train ops, and a loop that runs one."""

from __future__ import annotations

import time
from typing import Any

from dtfctl.runtime import api as tf


def clip_gradient_norms(gradients_to_variables: Any, max_norm: float) -> list[tuple[Any, Any]]:
    """Shorten each gradient to at most `max_norm`."""
    return [(g if g is None else tf.clip_by_norm(g, max_norm), v) for g, v in gradients_to_variables]


def multiply_gradients(grads_and_vars: Any, gradient_multipliers: Any) -> list[tuple[Any, Any]]:
    """Multiply gradients by factors given by variable, or by a variable's name.

    Raises:
        ValueError: there are no factors, or a variable with one has no gradient.
    """
    if not isinstance(gradient_multipliers, dict) or not gradient_multipliers:
        raise ValueError("gradient_multipliers is empty or no dict")
    out = []
    for gradient, variable in grads_and_vars:
        factor = gradient_multipliers.get(variable, gradient_multipliers.get(variable.op.name))
        if factor is not None and gradient is None:
            raise ValueError("Requested multiple of `None` gradient.")
        out.append((gradient if factor is None else gradient * tf.cast(factor, gradient.dtype), variable))
    return out


def add_gradients_summaries(grads_and_vars: Any) -> list[Any]:
    """Summarize each gradient and its length."""
    out = []
    for gradient, variable in grads_and_vars:
        if gradient is not None:
            values = getattr(gradient, "values", gradient)
            out.append(tf.summary.histogram(f"{variable.op.name}/gradient", values))
            out.append(tf.summary.scalar(f"{variable.op.name}/gradient_norm", tf.global_norm([values])))
    return out


_USE_GLOBAL_STEP = 0


def create_train_op(
    total_loss: Any,
    optimizer: Any,
    global_step: Any = _USE_GLOBAL_STEP,
    update_ops: Any = None,
    variables_to_train: Any = None,
    clip_gradient_norm: float = 0,
    summarize_gradients: bool = False,
    gate_gradients: int = 1,
    aggregation_method: Any = None,
    colocate_gradients_with_ops: bool = False,
    gradient_multipliers: Any = None,
    check_numerics: bool = True,
) -> Any:
    """Make the op that runs the updates, moves the variables and gives the loss.

    Args:
        total_loss: a float scalar.
        optimizer: its `compute_gradients` and `apply_gradients` are used.
        global_step: counted up; the default graph's unless given, none when None.
        update_ops: what runs before the gradients; all of UPDATE_OPS when None.
        variables_to_train: the trainable ones when None.
        clip_gradient_norm: the longest that a gradient may be; 0 for any length.
        check_numerics: fail where the loss is not a number.
    """
    step = tf.train.get_or_create_global_step() if global_step is _USE_GLOBAL_STEP else global_step
    moves = tf.get_collection(tf.GraphKeys.UPDATE_OPS) if update_ops is None else list(update_ops)
    loss = total_loss
    if moves:
        with tf.control_dependencies(list(dict.fromkeys(moves))):
            barrier = tf.no_op(name="update_barrier")
        with tf.control_dependencies([barrier]):
            loss = tf.identity(loss)
    chosen = tf.trainable_variables() if variables_to_train is None else list(variables_to_train)
    pairs = optimizer.compute_gradients(
        loss,
        chosen,
        gate_gradients=gate_gradients,
        aggregation_method=aggregation_method,
        colocate_gradients_with_ops=colocate_gradients_with_ops,
    )
    if gradient_multipliers:
        pairs = multiply_gradients(pairs, gradient_multipliers)
    if clip_gradient_norm > 0:
        pairs = clip_gradient_norms(pairs, clip_gradient_norm)
    if summarize_gradients:
        with tf.name_scope("summarize_grads"):
            add_gradients_summaries(pairs)
    updates = optimizer.apply_gradients(pairs, global_step=step)
    with tf.name_scope("train_op"):
        if check_numerics:
            loss = tf.check_numerics(loss, "LossTensor is inf or nan")
        with tf.control_dependencies([updates]):
            train_op = tf.identity(loss)
    known = tf.get_collection_ref(tf.GraphKeys.TRAIN_OP)
    if train_op not in known:
        known.append(train_op)
    return train_op


def train_step(sess: Any, train_op: Any, global_step: Any, train_step_kwargs: Any) -> tuple[Any, bool]:
    """Run one step; gives the loss, and whether the loop is to end."""
    begun = time.monotonic()
    loss, step = sess.run([train_op, global_step])
    options = train_step_kwargs or {}
    every = options.get("log_every_n_steps", 0)
    if every and step % every == 0:
        tf.logging.info("global step %d: loss = %.4f (%.3f sec/step)", step, loss, time.monotonic() - begun)
    count = options.get("number_of_steps")
    return loss, bool(count is not None and step >= count)


def train(
    train_op: Any,
    logdir: str | None,
    train_step_fn: Any = train_step,
    train_step_kwargs: Any = None,
    log_every_n_steps: int = 1,
    graph: Any = None,
    master: str = "",
    is_chief: bool = True,
    global_step: Any = None,
    number_of_steps: int | None = None,
    init_op: Any = None,
    init_feed_dict: Any = None,
    local_init_op: Any = None,
    init_fn: Any = None,
    ready_op: Any = None,
    summary_op: Any = None,
    save_summaries_secs: float = 600,
    summary_writer: Any = None,
    saver: Any = None,
    save_interval_secs: float = 600,
    session_config: Any = None,
) -> Any:
    """Run a train op until its loop says so, with a `tf.train.Supervisor`; returns the last loss.

    Raises:
        ValueError: the train op is None, or an argument is given for a model that another task initializes.
    """
    if train_op is None:
        raise ValueError("train_op cannot be None.")
    with (graph or tf.get_default_graph()).as_default():
        step = tf.train.get_or_create_global_step() if global_step is None else global_step
        optional: dict[str, Any] = {
            "init_op": init_op,
            "ready_op": ready_op,
            "local_init_op": local_init_op,
            "summary_op": summary_op,
            "summary_writer": summary_writer,
        }
        supervisor = tf.train.Supervisor(
            is_chief=is_chief,
            logdir=logdir,
            init_feed_dict=init_feed_dict,
            init_fn=init_fn,
            global_step=step,
            saver=saver or tf.train.Saver(),
            save_summaries_secs=int(save_summaries_secs),
            save_model_secs=int(save_interval_secs),
            **{name: value for name, value in optional.items() if value is not None},
        )
        given = dict(train_step_kwargs or {})
        given.setdefault("log_every_n_steps", log_every_n_steps)
        given.setdefault("number_of_steps", number_of_steps)
        loss = None
        with supervisor.managed_session(master, config=session_config) as session:
            if is_chief or supervisor.saver is not None:
                tf.train.start_queue_runners(session, coord=supervisor.coord, start=True)
            while not supervisor.should_stop():
                loss, ends = train_step_fn(session, train_op, step, given)
                if ends:
                    supervisor.request_stop()
            if logdir and is_chief:
                supervisor.saver.save(session, supervisor.save_path, global_step=supervisor.global_step)
        return loss
