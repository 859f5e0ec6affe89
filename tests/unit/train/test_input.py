"""Input pipelines of queues, as TF1 programs build them."""

import numpy as np
import pytest

import dtfctl.runtime as tf


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as g:
        yield g


def drain(fetches):
    """Run until the input ends."""
    out = []
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        coord = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(session, coord)
        with pytest.raises(tf.errors.OutOfRangeError):
            while True:
                out.append(session.run(fetches))
        coord.request_stop()
        coord.join(threads)
    return out


def test_names_come_once_an_epoch() -> None:
    queue = tf.train.string_input_producer(["a", "b", "c"], num_epochs=2, seed=1)
    names = drain(queue.dequeue())
    assert sorted(names[:3]) == sorted(names[3:]) == [b"a", b"b", b"c"]


def test_batches_of_slices_and_a_smaller_last_one() -> None:
    images, labels = np.arange(10, dtype=np.float32).reshape(5, 2), np.arange(5)
    image, label = tf.train.slice_input_producer([images, labels], num_epochs=1, shuffle=False)
    batches = drain(tf.train.batch({"x": image, "y": label}, 2, allow_smaller_final_batch=True))
    assert [b["y"].tolist() for b in batches] == [[0, 1], [2, 3], [4]]
    np.testing.assert_array_equal(np.concatenate([b["x"] for b in batches]), images)


def test_shuffled_batches_hold_everything_once() -> None:
    number = tf.train.range_input_producer(20, num_epochs=1, shuffle=False).dequeue()
    batches = drain(tf.train.shuffle_batch([number], 5, capacity=20, min_after_dequeue=10, seed=3))
    seen = np.concatenate(batches)
    assert sorted(seen) == list(range(20)) and list(seen) != list(range(20))


def test_padding_to_the_longest_of_a_batch() -> None:
    number = tf.train.range_input_producer(4, num_epochs=1, shuffle=False).dequeue()
    row = tf.fill(tf.expand_dims(number, 0), number)
    row.set_shape([None])
    batches = drain(tf.train.batch([row], 2, dynamic_pad=True))
    assert [b.tolist() for b in batches] == [[[0], [1]], [[2, 2, 0], [3, 3, 3]]]


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="non-null"):
        tf.train.string_input_producer([])
    with pytest.raises(ValueError, match="num_epochs"):
        tf.train.limit_epochs([1], 0)
    with pytest.raises(ValueError, match="at least one"):
        tf.train.slice_input_producer([])
