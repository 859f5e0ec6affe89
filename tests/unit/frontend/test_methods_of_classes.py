"""Methods that TensorFlow's classes have, and programs call, beside the functions of the same effect."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import dtfctl.runtime as tf

START = [8.0, 6.0, 4.0]


@pytest.mark.parametrize("use_resource", [False, True])
@pytest.mark.parametrize(
    ("method", "values", "result"),
    [
        ("scatter_add", [1.0, 2.0], [10.0, 6.0, 5.0]),
        ("scatter_sub", [1.0, 2.0], [6.0, 6.0, 3.0]),
        ("scatter_mul", [3.0, 2.0], [16.0, 6.0, 12.0]),
        ("scatter_div", [2.0, 4.0], [2.0, 6.0, 2.0]),
        ("scatter_min", [5.0, 3.0], [3.0, 6.0, 4.0]),
        ("scatter_max", [5.0, 9.0], [9.0, 6.0, 5.0]),
        ("scatter_update", [1.0, 2.0], [2.0, 6.0, 1.0]),
    ],
)
def test_variables_take_rows_by_their_methods(
    use_resource: bool, method: str, values: list[float], result: list[float]
) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        variable = tf.get_variable("v", initializer=tf.constant(START), use_resource=use_resource)
        session.run(tf.global_variables_initializer())
        changed = getattr(variable, method)(tf.IndexedSlices(tf.constant(values), tf.constant([2, 0])))
        np.testing.assert_array_equal(session.run(changed), result)
        np.testing.assert_array_equal(session.run(variable), result)
        with pytest.raises(TypeError, match="not IndexedSlices"):
            getattr(variable, method)(tf.constant(values))


@pytest.mark.parametrize("use_resource", [False, True])
@pytest.mark.parametrize(
    ("method", "result"),
    [
        ("scatter_nd_add", [[1.0, 7.0], [8.0, 4.0]]),
        ("scatter_nd_sub", [[1.0, -3.0], [-2.0, 4.0]]),
        ("scatter_nd_update", [[1.0, 5.0], [5.0, 4.0]]),
    ],
)
def test_variables_change_at_coordinates_and_are_read_there(
    use_resource: bool, method: str, result: list[list[float]]
) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        variable = tf.get_variable("v", initializer=tf.constant([[1.0, 2.0], [3.0, 4.0]]), use_resource=use_resource)
        session.run(tf.global_variables_initializer())
        changed = getattr(variable, method)([[0, 1], [1, 0]], [5.0, 5.0])
        np.testing.assert_array_equal(session.run(changed), result)
        np.testing.assert_array_equal(session.run(variable.gather_nd([[1, 1], [0, 0]])), [4.0, 1.0])
        np.testing.assert_array_equal(session.run(variable.sparse_read([1])), result[1:])


@pytest.mark.parametrize("use_resource", [False, True])
def test_variables_take_rows_within_batches(use_resource: bool) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        variable = tf.get_variable("v", initializer=tf.zeros([2, 3]), use_resource=use_resource)
        session.run(tf.global_variables_initializer())
        rows = tf.IndexedSlices(tf.constant([[1.0], [2.0]]), tf.constant([[2], [0]]))
        session.run(variable.batch_scatter_update(rows).op)
        np.testing.assert_array_equal(session.run(variable), [[0.0, 0.0, 1.0], [2.0, 0.0, 0.0]])


def test_references_stand_for_one_object() -> None:
    with tf.Graph().as_default():
        one, other = tf.constant(1.0), tf.constant(1.0)
        variable = tf.Variable(one)
        counts = {one.ref(): 1, other.experimental_ref(): 2, variable.ref(): 3}
        assert [counts[each.ref()] for each in (one, other, variable)] == [1, 2, 3]
        assert one.ref().deref() is one
        assert one.ref() != one


def test_operations_give_their_values_and_sparse_tensors_who_uses_them() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        parts = tf.split(tf.constant([1.0, 2.0]), 2)
        assert parts[0].op.values() == tuple(parts)
        sparse = tf.SparseTensor([[0, 1]], [2.0], [1, 2])
        dense = tf.sparse.to_dense(sparse.with_values(sparse.values * 3.0))
        assert {op.type for op in sparse.consumers()} >= {"Mul", "SparseToDense"}
        np.testing.assert_array_equal(session.run(dense), [[0.0, 6.0]])


def test_a_device_is_another_with_one_part_replaced() -> None:
    assert tf.DeviceSpec(job="ps", task=1).replace(task=2).to_string() == "/job:ps/task:2"


def test_a_supervisor_has_its_first_names(tmp_path: Path) -> None:
    with tf.Graph().as_default():
        step = tf.train.get_or_create_global_step()
        count = tf.assign_add(step, 1)
        supervisor = tf.train.Supervisor(logdir=str(tmp_path), save_model_secs=0, save_summaries_secs=0)
        assert (supervisor.save_model_secs, supervisor.init_feed_dict) == (0, None)
        session = supervisor.PrepareSession()
        while not supervisor.ShouldStop():
            if session.run(count) == 3:
                supervisor.RequestStop()
        supervisor.Stop()
        assert session.run(step) == 3


def test_the_end_of_a_supervised_block_tells_what_was_raised(tmp_path: Path) -> None:
    with tf.Graph().as_default():
        supervisor = tf.train.Supervisor(logdir=str(tmp_path))
        with pytest.raises(ZeroDivisionError):
            with supervisor.stop_on_exception():
                raise ZeroDivisionError("in the block")
            supervisor.stop()


def test_a_layer_that_makes_no_bias_has_none() -> None:
    with tf.Graph().as_default():
        plain, full = tf.layers.Dense(3, use_bias=False), tf.layers.Dense(3)
        normal = tf.layers.BatchNormalization(scale=False)
        for layer in (plain, full, normal):
            layer(tf.ones([2, 4]))
        assert plain.bias is None and plain.kernel.shape == (4, 3)
        assert full.bias.shape == (3,)
        assert normal.gamma is None and normal.beta.shape == (4,)
        with pytest.raises(AttributeError, match="no attribute 'other'"):
            _ = plain.other
