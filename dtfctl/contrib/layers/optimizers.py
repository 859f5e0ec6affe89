"""`optimize_loss`: a train op from a loss, with decay, clipping and summaries."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime import api as tf

OPTIMIZER_CLS_NAMES = {
    "Adagrad": tf.train.AdagradOptimizer,
    "Adam": tf.train.AdamOptimizer,
    "Ftrl": tf.train.FtrlOptimizer,
    "Momentum": lambda learning_rate: tf.train.MomentumOptimizer(learning_rate, momentum=0.9),
    "RMSProp": tf.train.RMSPropOptimizer,
    "SGD": tf.train.GradientDescentOptimizer,
}

OPTIMIZER_SUMMARIES = ["learning_rate", "loss", "gradients", "gradient_norm", "global_gradient_norm"]


def optimize_loss(
    loss: Any,
    global_step: Any,
    learning_rate: Any,
    optimizer: Any,
    gradient_noise_scale: float | None = None,
    gradient_multipliers: Any = None,
    clip_gradients: Any = None,
    learning_rate_decay_fn: Any = None,
    update_ops: Any = None,
    variables: Any = None,
    name: str | None = None,
    summaries: Any = None,
    colocate_gradients_with_ops: bool = False,
    increment_global_step: bool = True,
) -> Any:
    """Make the op that moves the variables against the loss's gradients; its value is the loss.

    Args:
        loss: a float scalar.
        global_step: counted up with each step; the default graph's when None.
        learning_rate: float, a tensor, or None where the optimizer has one.
        optimizer: a name of OPTIMIZER_CLS_NAMES, a class or function of the rate, or an optimizer.
        gradient_noise_scale: standard deviation of noise added to each gradient.
        gradient_multipliers: factors of gradients by variable, or by the variable's name.
        clip_gradients: the longest that all gradients together may be, or a function of (gradient, variable) pairs.
        learning_rate_decay_fn: called with the rate and the step.
        update_ops: what runs before the step; UPDATE_OPS when None.
        variables: what to train; the trainable ones when None.
        summaries: which of OPTIMIZER_SUMMARIES are written; rate, loss and length of the gradients when None.

    Raises:
        ValueError: an argument is of another kind, or no variable has a gradient.
    """
    loss = tf.convert_to_tensor(loss)
    wanted = ["loss", "learning_rate", "global_gradient_norm"] if summaries is None else list(summaries)
    for kind in wanted:
        if kind not in OPTIMIZER_SUMMARIES:
            raise ValueError(f"Summaries should be one of [{', '.join(OPTIMIZER_SUMMARIES)}], you provided {kind}.")
    step = tf.train.get_global_step() if global_step is None else global_step
    with tf.variable_scope(name, "OptimizeLoss", [loss, step]):
        moves = list(dict.fromkeys(tf.get_collection(tf.GraphKeys.UPDATE_OPS))) if update_ops is None else update_ops
        if moves:
            with tf.control_dependencies(list(moves)):
                loss = tf.identity(loss)
        rate = _rate(learning_rate, learning_rate_decay_fn, step, "learning_rate" in wanted)
        made = _optimizer(optimizer, rate)
        chosen = tf.trainable_variables() if variables is None else variables
        pairs = made.compute_gradients(loss, chosen, colocate_gradients_with_ops=colocate_gradients_with_ops)
        if gradient_noise_scale is not None:
            pairs = [
                (g if g is None else g + tf.truncated_normal(tf.shape(g)) * gradient_noise_scale, v) for g, v in pairs
            ]
        if gradient_multipliers is not None:
            pairs = [(_multiplied(g, v, gradient_multipliers), v) for g, v in pairs]
        if "global_gradient_norm" in wanted or "gradient_norm" in wanted:
            tf.summary.scalar("global_norm/gradient_norm", tf.global_norm([g for g, _ in pairs]))
        if callable(clip_gradients):
            pairs = clip_gradients(pairs)
        elif clip_gradients is not None:
            clipped, _ = tf.clip_by_global_norm([g for g, _ in pairs], clip_gradients)
            pairs = list(zip(clipped, [v for _, v in pairs], strict=True))
        if "loss" in wanted:
            tf.summary.scalar("loss", loss)
        if "gradients" in wanted:
            for g, v in pairs:
                if g is not None:
                    tf.summary.histogram(f"gradients/{v.op.name}", getattr(g, "values", g))
        applied = made.apply_gradients(pairs, global_step=step if increment_global_step else None, name="train")
        with tf.control_dependencies([applied]):
            return tf.identity(loss)


def _rate(learning_rate: Any, decay: Any, step: Any, summarized: bool) -> Any:
    if learning_rate is None:
        return None
    if isinstance(learning_rate, (int, float)):
        if learning_rate < 0:
            raise ValueError(f"Invalid learning_rate {learning_rate}.")
        start = tf.constant_initializer(float(learning_rate))
        learning_rate = tf.get_variable("learning_rate", [], tf.float32, start, trainable=False)
    if decay is not None:
        if step is None:
            raise ValueError("global_step is required for learning_rate_decay_fn.")
        learning_rate = decay(learning_rate, step)
    if summarized:
        tf.summary.scalar("learning_rate", learning_rate)
    return learning_rate


def _optimizer(optimizer: Any, rate: Any) -> Any:
    if isinstance(optimizer, str):
        if optimizer not in OPTIMIZER_CLS_NAMES:
            raise ValueError(
                f"Optimizer name should be one of [{', '.join(OPTIMIZER_CLS_NAMES)}], you provided {optimizer}."
            )
        if rate is None:
            raise ValueError(f"Learning rate is None, but should be specified if optimizer is string ({optimizer}).")
        made: Any = OPTIMIZER_CLS_NAMES[optimizer]
        return made(learning_rate=rate)
    if isinstance(optimizer, tf.train.Optimizer):
        return optimizer
    if callable(optimizer):
        return optimizer() if rate is None else optimizer(rate)
    raise ValueError(
        "Unrecognized optimizer: should be string, subclass of Optimizer, instance of subclass of Optimizer or "
        f"function. Got {optimizer}"
    )


def _multiplied(gradient: Any, variable: Any, factors: Any) -> Any:
    factor = factors.get(variable, factors.get(variable.name))
    return gradient if factor is None or gradient is None else gradient * tf.cast(factor, gradient.dtype)
