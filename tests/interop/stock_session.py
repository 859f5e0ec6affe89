"""Run by the stock TensorFlow client: the calls of a session and their errors, over two tasks."""

from __future__ import annotations

import sys
import threading

import numpy as np
import tensorflow.compat.v1 as tf


def raises(kind: type[Exception], text: str, function: object) -> None:
    try:
        function()  # type: ignore[operator]
    except kind as e:
        assert text in str(e), f"{text!r} not in {e}"
    else:
        raise AssertionError(f"no {kind.__name__}")


def fed_comes_back(session, x, passed, assigned, put, take) -> None:  # type: ignore[no-untyped-def]
    for i in range(2):
        fed = np.arange(1 << 20, dtype=np.float32) + i
        right = fed.copy()
        got = session.run([*passed, assigned, put], {x: fed})[:3]
        for value in (fed, *got):
            np.testing.assert_array_equal(np.ravel(value), right)
            value[...] = -1
        np.testing.assert_array_equal(session.run(take), right)


def main(target: str) -> None:
    tf.disable_v2_behavior()
    a = tf.placeholder(tf.float32, [2, 2], name="a")
    with tf.device("/job:ps/task:0"):
        w = tf.Variable(np.full((2, 2), 2, np.float32), name="w")
        slow = tf.FIFOQueue(10, tf.float32).dequeue()
    with tf.device("/job:worker/task:1"):
        y = tf.matmul(a, w, name="y")
    with tf.device("/job:ps/task:0"):
        x = tf.placeholder(tf.float32, [1 << 20])
        passed = [tf.identity(x), tf.reshape(x, [1 << 10, 1 << 10])]
        assigned = tf.assign(tf.Variable(tf.zeros([1 << 20])), x)
        queue = tf.FIFOQueue(10, tf.float32, [[1 << 20]])
        put, take = queue.enqueue(x), queue.dequeue()
    step = tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_sum(tf.square(y)))
    eye = np.eye(2, dtype=np.float32)

    session = tf.Session(target)
    raises(tf.errors.FailedPreconditionError, "Attempting to use uninitialized value w", lambda: session.run(w))
    session.run(tf.global_variables_initializer())
    np.testing.assert_allclose(session.run(y, {a: eye}), np.full((2, 2), 2))
    for _ in range(3):
        session.run(step, {a: eye})
    np.testing.assert_allclose(session.run(w), np.full((2, 2), 2 * 0.8**3), rtol=1e-6)
    assert len(session.list_devices()) == 3
    np.testing.assert_allclose(session.make_callable(y, [a])(eye), session.run(w))
    with tf.Session(target) as other:
        np.testing.assert_allclose(other.run(w), session.run(w))
    alone = tf.Session(target, config=tf.ConfigProto(isolate_session_state=True))
    raises(tf.errors.FailedPreconditionError, "uninitialized", lambda: alone.run(w))
    alone.close()

    raises(tf.errors.InvalidArgumentError, "You must feed a value for placeholder tensor 'a'", lambda: session.run(y))
    short = tf.RunOptions(timeout_in_ms=300)
    raises(tf.errors.DeadlineExceededError, "", lambda: session.run(slow, options=short))
    metadata = tf.RunMetadata()
    traced = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE, output_partition_graphs=True)
    session.run(y, {a: eye}, options=traced, run_metadata=metadata)
    assert len(metadata.step_stats.dev_stats) >= 2
    assert len(metadata.partition_graphs) == 3
    fed_comes_back(session, x, passed, assigned, put, take)

    waiting: list[BaseException] = []

    def wait() -> None:
        try:
            session.run(slow)
        except tf.errors.OpError as e:
            waiting.append(e)

    thread = threading.Thread(target=wait)
    thread.start()
    thread.join(0.5)
    session.close()
    thread.join(20)
    assert isinstance(waiting[0], tf.errors.CancelledError), waiting
    tf.Session.reset(target)
    with tf.Session(target) as after:
        raises(tf.errors.FailedPreconditionError, "uninitialized", lambda: after.run(w))

    with tf.Graph().as_default(), tf.device("/job:nope/task:3"):
        c = tf.constant(1.0)
        with tf.Session(target) as lost:
            raises(tf.errors.InvalidArgumentError, "was explicitly assigned to /job:nope/task:3", lambda: lost.run(c))
    print("done")


if __name__ == "__main__":
    main(sys.argv[1])
