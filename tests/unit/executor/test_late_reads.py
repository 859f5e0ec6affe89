"""A read of a reference variable is as late as its first user, as it is where reads share the variable's memory."""

import dtfctl.runtime as tf


def test_a_user_ordered_after_an_update_sees_it() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        v = tf.Variable(0)
        update = tf.assign_add(v, 1)
        with tf.control_dependencies([update]):
            tokens = tf.fill([2], v)
        session.run(v.initializer)
        assert [session.run(tokens).tolist() for _ in range(3)] == [[1, 1], [2, 2], [3, 3]]


def test_the_same_beside_a_kernel_that_may_wait() -> None:
    """A queue makes the step run on the frame machine."""
    with tf.Graph().as_default(), tf.Session() as session:
        v = tf.Variable(0)
        queue = tf.FIFOQueue(10, [tf.int32], [[]])
        update = tf.assign_add(v, 1)
        with tf.control_dependencies([update]):
            fill = queue.enqueue_many([tf.fill([2], v)])
        with tf.control_dependencies([fill]):
            token = queue.dequeue()
        session.run(v.initializer)
        assert [int(session.run(token)) for _ in range(3)] == [1, 1, 2]


def test_an_update_ordered_after_the_read_does_not_change_it() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        v = tf.Variable(0)
        old = tf.identity(v.read_value())
        with tf.control_dependencies([old]):
            update = tf.assign_add(v, 1)
        session.run(v.initializer)
        assert [session.run([old, update])[0] for _ in range(2)] == [0, 1]
