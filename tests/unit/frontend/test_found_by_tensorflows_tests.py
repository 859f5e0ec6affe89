"""What TensorFlow's own tests found in this front end."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import numpy as np
import pytest

import dtfctl.runtime as tf
from dtfctl.runtime.programs.counterparts import generated


@pytest.fixture(autouse=True)
def graph() -> Generator[None, None, None]:
    with tf.Graph().as_default():
        yield


def test_errors_are_made_as_in_tensorflow() -> None:
    op = tf.constant(1).op
    error = tf.errors.OutOfRangeError(op.node_def, op, "no more")
    assert (error.message, error.op, error.error_code, str(error)) == ("no more", op, 11, "no more")
    assert tf.errors.OpError(None, None, "text", tf.errors.ABORTED).error_code == tf.errors.ABORTED
    assert tf.errors.AbortedError(None, None, "text").node_def is None


def test_arrays_are_shapes() -> None:
    assert tf.placeholder(tf.float32, np.array([2, 3])).shape.as_list() == [2, 3]
    tf.Dimension(2).assert_is_compatible_with(None)
    with pytest.raises(ValueError, match="not compatible"):
        tf.Dimension(2).assert_is_compatible_with(3)
    assert tf.TensorShape(np.int64(4)).as_list() == [4]


def test_static_shapes_of_sparse_ops_and_pooling_gradients() -> None:
    sparse = tf.SparseTensor([[0, 0], [1, 1]], [1, 2], [2, 2])
    assert tf.sparse_concat(0, [sparse, sparse]).indices.shape.as_list() == [4, 2]
    assert tf.edit_distance(sparse, sparse).shape.as_list() == [2]
    images = tf.ones([1, 4, 4, 1])
    pooled, _, _ = tf.raw_ops.FractionalMaxPool(value=images, pooling_ratio=[1.0, 2.0, 2.0, 1.0])
    assert tf.gradients(pooled, images)[0].shape.as_list() == [1, 4, 4, 1]


def test_indices_of_top_k_have_the_type_that_is_asked_for() -> None:
    assert tf.nn.top_k([1.0, 2.0], index_type=tf.int64).indices.dtype == tf.int64


def test_ranges_of_an_axis_are_vectors() -> None:
    codes = tf.bitcast(tf.constant([[1, 2]], tf.uint8), tf.quint8)
    found = generated.dequantize(codes, [0.0, 0.0], [255.0, 510.0], axis=1)
    with tf.Session() as session:
        assert session.run(found).tolist() == [[1.0, 4.0]]


def test_outputs_of_generated_functions_have_names() -> None:
    found = generated.unique(tf.constant([3, 3, 4]))
    assert found.y is found[0] and found._fields == ("y", "idx")


def test_a_queue_runners_threads_are_named_after_their_ops() -> None:
    queue = tf.FIFOQueue(2, tf.int32)
    runner = tf.train.QueueRunner(queue, [queue.enqueue(1, name="put")])
    with tf.Session() as session:
        names = [thread.name for thread in runner.create_threads(session)]
    assert names == ["QueueRunnerThread-fifo_queue-put"]
    tf.train.add_queue_runner(runner)
    with pytest.raises(TypeError, match="sess must be a"):
        tf.train.start_queue_runners("a session")


def test_tensors_are_not_updated() -> None:
    with pytest.raises(NotImplementedError, match="Trying to update a Tensor"):
        tf.train.GradientDescentOptimizer(1.0).apply_gradients([(tf.constant(1.0), tf.constant(1.0))])


def wrapped(**arguments: Any) -> tf.nn.rnn_cell.DropoutWrapper:
    return tf.nn.rnn_cell.DropoutWrapper(tf.nn.rnn_cell.LSTMCell(50, name="lstm"), seed=3, **arguments)


def run_steps(cell: Any, steps: int = 2) -> list[Any]:
    inputs = tf.random_normal([2, 4], seed=1)
    state = cell.get_initial_state(inputs)
    fetches = []
    with tf.variable_scope("cell", reuse=tf.AUTO_REUSE):
        for _ in range(steps):
            output, state = cell(inputs, state)
            fetches.append((output, state))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return session.run(fetches)  # type: ignore[no-any-return]


def test_dropout_of_states_keeps_an_lstms_cell_state() -> None:
    ((_, state),) = run_steps(wrapped(state_keep_prob=0.5), 1)
    assert np.count_nonzero(state.c) == state.c.size
    assert 0 < np.count_nonzero(state.h) < state.h.size


def test_variational_dropout_drops_the_same_at_each_step_and_in_each_row() -> None:
    (first, _), (second, _) = run_steps(wrapped(output_keep_prob=0.5, variational_recurrent=True, dtype=tf.float32))
    assert 0 < np.count_nonzero(first) < first.size
    np.testing.assert_array_equal(first == 0, second == 0)
    np.testing.assert_array_equal(first[0] == 0, first[1] == 0)
    with pytest.raises(ValueError, match="dtype"):
        wrapped(variational_recurrent=True)


def test_differences_may_have_a_bound_for_each_element() -> None:
    case = tf.test.TestCase()
    case.assertAllClose([1.0, 2.0], [1.05, 2.0], atol=np.array([0.1, 0.0]))
    with pytest.raises(AssertionError, match="Mismatched"):
        case.assertAllClose([1.0, 2.0], [1.0, 2.05], atol=np.array([0.1, 0.0]))
