"""Synchronous training ends when it is done."""

from __future__ import annotations

import threading

import dtfctl.runtime as tf


def test_closing_does_not_wait_for_gradients_that_nobody_sends() -> None:
    """The chief's update waits for the next gradients when training stops; its session closes all the same."""
    with tf.Graph().as_default():
        w = tf.get_variable("w", [], initializer=tf.zeros_initializer())
        step = tf.train.get_or_create_global_step()
        optimizer = tf.train.SyncReplicasOptimizer(tf.train.GradientDescentOptimizer(0.5), 1, 1)
        train = optimizer.minimize(tf.square(w - 1), global_step=step)
        hooks = [optimizer.make_session_run_hook(True), tf.train.StopAtStepHook(last_step=5)]
        session = tf.train.MonitoredTrainingSession(hooks=hooks, stop_grace_period_secs=1000)
        while not session.should_stop():
            session.run(train)
        closing = threading.Thread(target=session.close, daemon=True)
        closing.start()
        closing.join(60.0)
        assert not closing.is_alive()
