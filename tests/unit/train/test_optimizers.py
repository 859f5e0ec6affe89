"""Optimizers against their formulas, dense and sparse, on both kinds of variables."""

import numpy as np
import pytest

import dtfctl.runtime as tf

START = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
GRAD = np.array([[0.1, 0.2], [0.0, 0.0], [-0.3, 0.4]])


def sgd(w, g, s):
    return w - 0.5 * g


def momentum(w, g, s):
    s["a"] = 0.9 * s.get("a", 0) + g
    return w - 0.5 * s["a"]


def nesterov(w, g, s):
    s["a"] = 0.9 * s.get("a", 0) + g
    return w - 0.5 * (g + 0.9 * s["a"])


def adam(w, g, s):
    s["t"] = s.get("t", 0) + 1
    s["m"] = 0.9 * s.get("m", 0) + 0.1 * g
    s["v"] = 0.999 * s.get("v", 0) + 0.001 * g * g
    rate = 0.5 * np.sqrt(1 - 0.999 ** s["t"]) / (1 - 0.9 ** s["t"])
    return w - rate * s["m"] / (np.sqrt(s["v"]) + 1e-8)


def adagrad(w, g, s):
    s["a"] = s.get("a", 0.1) + g * g
    return w - 0.5 * g / np.sqrt(s["a"])


def rmsprop(w, g, s):
    s["r"] = 0.9 * s.get("r", 1.0) + 0.1 * g * g
    return w - 0.5 * g / np.sqrt(s["r"] + 1e-10)


def adadelta(w, g, s):
    s["a"] = 0.95 * s.get("a", 0) + 0.05 * g * g
    step = g * np.sqrt(s.get("u", 0) + 1e-8) / np.sqrt(s["a"] + 1e-8)
    s["u"] = 0.95 * s.get("u", 0) + 0.05 * step * step
    return w - 0.5 * step


CASES = {
    "sgd": (lambda: tf.train.GradientDescentOptimizer(0.5), sgd),
    "momentum": (lambda: tf.train.MomentumOptimizer(0.5, 0.9), momentum),
    "nesterov": (lambda: tf.train.MomentumOptimizer(0.5, 0.9, use_nesterov=True), nesterov),
    "adam": (lambda: tf.train.AdamOptimizer(0.5), adam),
    "adagrad": (lambda: tf.train.AdagradOptimizer(0.5), adagrad),
    "rmsprop": (lambda: tf.train.RMSPropOptimizer(0.5), rmsprop),
    "adadelta": (lambda: tf.train.AdadeltaOptimizer(0.5), adadelta),
}


@pytest.mark.parametrize("use_resource", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_dense_updates(name, use_resource) -> None:
    make, formula = CASES[name]
    with tf.Graph().as_default(), tf.Session() as session:
        w = tf.Variable(START, dtype=tf.float64, use_resource=use_resource)
        step = tf.train.get_or_create_global_step()
        op = make().apply_gradients([(tf.constant(GRAD), w)], step)
        session.run(tf.global_variables_initializer())
        want, state = START, {}
        for _ in range(3):
            session.run(op)
            want = formula(want, GRAD, state)
        # Hyperparameters are float32 constants, as in TensorFlow, whatever the variable is.
        np.testing.assert_allclose(session.run(w), want, rtol=1e-4)
        assert session.run(step) == 3


@pytest.mark.parametrize("use_resource", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_sparse_updates_touch_only_their_rows(name, use_resource) -> None:
    """Rows without a gradient stay; duplicates are added first. (Adam moves all rows once it has momentum.)"""
    make, formula = CASES[name]
    with tf.Graph().as_default(), tf.Session() as session:
        w = tf.Variable(START, dtype=tf.float64, use_resource=use_resource)
        rows = tf.IndexedSlices(tf.constant([GRAD[0] / 2, GRAD[2], GRAD[0] / 2]), tf.constant([0, 2, 0]))
        op = make().apply_gradients([(rows, w)])
        session.run(tf.global_variables_initializer())
        session.run(op)
        want = formula(START, GRAD, {})
        want[1] = START[1]
        np.testing.assert_allclose(session.run(w), want, rtol=1e-6)


def test_minimize_walks_downhill_and_collects_the_op() -> None:
    with tf.Graph().as_default() as graph, tf.Session() as session:
        x = tf.Variable(5.0)
        op = tf.train.GradientDescentOptimizer(0.1).minimize(tf.square(x - 2.0))
        assert graph.get_collection(tf.GraphKeys.TRAIN_OP) == [op]
        session.run(tf.global_variables_initializer())
        for _ in range(50):
            session.run(op)
        assert session.run(x) == pytest.approx(2.0, abs=1e-3)


def test_slots_have_tensorflows_names() -> None:
    with tf.Graph().as_default():
        w = tf.get_variable("w", [2])
        optimizer = tf.train.AdamOptimizer()
        optimizer.minimize(tf.reduce_sum(w))
        names = sorted(v.op.name for v in optimizer.variables())
        assert names == ["beta1_power", "beta2_power", "w/Adam", "w/Adam_1"]
        assert optimizer.get_slot(w, "m").op.name == "w/Adam"
        assert optimizer.get_slot_names() == ["m", "v"]


def test_what_cannot_be_trained_is_refused() -> None:
    with tf.Graph().as_default():
        v = tf.Variable(1.0)
        optimizer = tf.train.GradientDescentOptimizer(0.1)
        with pytest.raises(ValueError, match="No gradients provided for any variable"):
            optimizer.minimize(tf.constant(1.0))
        with pytest.raises(ValueError, match="No variables provided"):
            optimizer.apply_gradients([])
        with pytest.raises(ValueError, match="No gradients provided"):
            optimizer.apply_gradients([(None, v)])
        with pytest.raises(ValueError, match="gate_gradients"):
            optimizer.compute_gradients(v * v, gate_gradients=7)


def test_clipping_by_global_norm() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        clipped, norm = tf.clip_by_global_norm([tf.constant([3.0]), None, tf.constant([4.0])], 1.0)
        assert clipped[1] is None
        a, b, n = session.run([clipped[0], clipped[2], norm])
        np.testing.assert_allclose([a[0], b[0], n], [0.6, 0.8, 5.0], rtol=1e-6)


def test_learning_rate_schedules() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        step = tf.placeholder(tf.int64, [])
        rates = [
            tf.train.exponential_decay(0.1, step, 10, 0.5),
            tf.train.exponential_decay(0.1, step, 10, 0.5, staircase=True),
            tf.train.inverse_time_decay(0.1, step, 10, 0.5),
            tf.train.polynomial_decay(0.1, step, 10, 0.01),
            tf.train.piecewise_constant(step, [3, 12], [1.0, 2.0, 3.0]),
            tf.train.cosine_decay(0.1, step, 10),
        ]
        want = [0.1 * 0.5**0.5, 0.1, 0.1 / 1.25, 0.055, 2.0, 0.05]
        np.testing.assert_allclose(session.run(rates, {step: 5}), want, rtol=1e-5)


def test_moving_average_follows_and_is_restorable() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        v = tf.Variable(10.0, name="v")
        average = tf.train.ExponentialMovingAverage(0.9)
        update = average.apply([v])
        session.run(tf.global_variables_initializer())
        session.run(v.assign(20.0))
        session.run(update)
        assert session.run(average.average(v)) == pytest.approx(11.0)
        assert average.average_name(v) == "v/ExponentialMovingAverage"
        assert average.variables_to_restore() == {"v/ExponentialMovingAverage": v}
