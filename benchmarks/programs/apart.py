"""A training step over a ps, and what it is made of: its computing alone, with the variables where it computes, and its
transfers alone, the parameters to the worker and as many bytes of gradients back. "ahead" is the step whose parameters
were fetched during the one before, which only our runtime has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.programs import Program
from benchmarks.programs.zoo import Model, dense, numbers, program, randomly
from benchmarks.programs.zoo.models import MODELS

WORKER, PS = "/job:worker/task:0", "/job:ps/task:0"


def build(tf: Any, target: str, model: str, batch: int, part: str) -> Program:
    """Make a part a program.

    Args:
        model: "mlp", "deep", or one of the zoo.
        part: "together", "compute", "transfer" or "ahead".
    """

    def make(tf: Any, batch: int) -> Model:
        # Sessions of one cluster share variables by their names.
        with tf.variable_scope(part):
            made = (OWN.get(model) or MODELS[model])(tf, batch)
        if part == "ahead":
            made = replace(made, begin=_fetched_ahead(tf))
        return _transfers(tf) if part == "transfer" else made

    places = WORKER if part == "compute" else tf.train.replica_device_setter(ps_tasks=1, worker_device=WORKER)
    return program(tf, target, make, batch, places=places)


def _fetched_ahead(tf: Any) -> Callable[[Any], None]:
    """Have the graph's steps fetch the next one's parameters."""
    hook = tf.train.experimental.PrefetchParametersHook()
    hook.begin()
    init = tf.local_variables_initializer()

    def begin(session: Any) -> None:
        session.run(init)
        hook.after_create_session(session, None)

    return begin


def _mlp(tf: Any, batch: int) -> Model:
    """784-2048-10, gradient descent."""
    x = tf.constant(randomly("x", batch, 784))
    labels = tf.constant(np.eye(10, dtype=np.float32)[numbers("labels", 10, batch)])
    logits = dense(tf, dense(tf, x, 2048, "hidden", tf.nn.relu), 10, "output")
    loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits_v2(labels=labels, logits=logits))
    return Model(loss, [tf.train.GradientDescentOptimizer(1e-3).minimize(loss)])


def _deep(tf: Any, batch: int) -> Model:
    """Six layers of 1024, gradient descent: each one's parameters could come while those before it compute."""
    x = tf.constant(randomly("x", batch, 1024))
    for n in range(6):
        x = dense(tf, x, 1024, f"layer{n}", tf.nn.relu)
    loss = tf.reduce_mean(tf.square(x))
    return Model(loss, [tf.train.GradientDescentOptimizer(1e-3).minimize(loss)])


OWN = {"mlp": _mlp, "deep": _deep}


def _transfers(tf: Any) -> Model:
    """All trainable variables to the worker and back."""
    variables = tf.trainable_variables()
    with tf.device(WORKER):
        # Multiplied, so that what goes back is not what has come.
        gradients = [tf.multiply(variable, 0.5) for variable in variables]
    train = tf.train.GradientDescentOptimizer(1e-6).apply_gradients(list(zip(gradients, variables)))
    with tf.device(PS):
        first = tf.reduce_sum(variables[0])
    return Model(first, [train])
