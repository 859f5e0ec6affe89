"""Eager programs: tensors, variables, tapes, functions, datasets, and graphs beside them."""

from __future__ import annotations

import gc
import pickle
import threading
import weakref
from typing import Any

import numpy as np
import pytest

import dtfctl.runtime as tf
from dtfctl.runtime.framework import context


def resources() -> list[str]:
    graph: Any = context.get_default_graph()
    return list(graph.kernels.resources.names())


# Turning it on --------------------------------------------------------------------------------------------------------


def test_enabling_is_refused_after_graph_ops_and_harmless_twice() -> None:
    tf.enable_eager_execution()
    assert tf.executing_eagerly()
    tf.disable_eager_execution()
    assert not tf.executing_eagerly()
    tf.constant(1)
    with pytest.raises(ValueError, match="must be called at program startup"):
        tf.enable_eager_execution()
    tf.reset_default_graph()


def test_graphs_and_sessions_work_beside_it() -> None:
    outside = tf.constant(3.0)
    with tf.Graph().as_default() as graph:
        assert not tf.executing_eagerly()
        x = tf.placeholder(tf.float32, [])
        y = x * 2 + tf.Variable(1.0, name="v", use_resource=True)
        with pytest.raises(RuntimeError, match="capture an EagerTensor"):
            tf.add(outside, 1.0)
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            assert session.run(y, {x: 2.0}) == 5.0
    assert len(graph.get_operations()) > 3
    assert tf.executing_eagerly()
    with pytest.raises(TypeError, match="cannot be used where ops run eagerly"):
        tf.add(y, 1.0)


def test_a_thread_runs_eagerly_too() -> None:
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append((tf.executing_eagerly(), (tf.constant(2) + 1).numpy())))
    thread.start()
    thread.join()
    assert found == [(True, 3)]


# Tensors --------------------------------------------------------------------------------------------------------------


def test_tensors_are_values_to_python_and_numpy() -> None:
    x = tf.constant([1.0, 2.0, 3.0])
    assert [float(v) for v in x] == [1.0, 2.0, 3.0]
    assert len(x) == 3
    assert x.shape.as_list() == [3]
    assert x.dtype is tf.float32
    assert x.device.endswith("CPU:0")
    assert bool(tf.constant(True)) and not tf.constant(0)
    assert list(range(tf.constant(2))) == [0, 1]
    assert int(tf.constant(4.5)) == 4
    np.testing.assert_array_equal(np.asarray(x) + np.ones(3), [2, 3, 4])
    np.testing.assert_array_equal(x[::-1], [3, 2, 1])
    assert isinstance(np.ones(3, np.float32) + x, tf.Tensor)
    assert tf.constant("text").numpy() == b"text"
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(x)), x)
    assert repr(tf.constant(1)) == f"<tf.Tensor: shape=(), dtype=int32, numpy={np.int32(1)!r}>"
    assert str(tf.constant(1)) == "tf.Tensor(1, shape=(), dtype=int32)"


def test_tensors_do_not_change_with_the_arrays_they_came_from_or_gave() -> None:
    array = np.zeros(2, np.float32)
    x = tf.constant(array)
    array[0] = 1
    x.numpy()[1] = 1
    np.testing.assert_array_equal(x, [0, 0])


@pytest.mark.parametrize("name", ["op", "graph", "name"])
def test_what_belongs_to_graphs_is_undefined(name: str) -> None:
    x = tf.constant(1.0)
    assert not hasattr(x, name)
    with pytest.raises(AttributeError, match=f"Tensor.{name} is undefined when eager execution is enabled."):
        getattr(x, name)


def test_python_errors() -> None:
    with pytest.raises(TypeError, match="Cannot iterate over a scalar"):
        iter(tf.constant(1))
    with pytest.raises(TypeError, match="len"):
        len(tf.constant(1))
    with pytest.raises(ValueError, match="ambiguous"):
        bool(tf.constant([1, 2]))
    with pytest.raises(RuntimeError, match="placeholder"):
        tf.placeholder(tf.float32)
    with pytest.raises(RuntimeError, match="GradientTape"):
        tf.gradients(tf.constant(1.0), tf.constant(1.0))
    with pytest.raises(NotImplementedError, match="is not supported when eager"):
        tf.constant(1.0).eval()


def test_kernels_errors_are_raised_where_the_op_is_called() -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"In\[0\]: \[2,2\], In\[1\]: \[3,3\].*\[Op:MatMul\]"):
        tf.matmul(tf.ones([2, 2]), tf.ones([3, 3]))
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"indices = 5 is not in \[0, 2\) \[Op:GatherV2\]"):
        tf.gather([1, 2], 5)


def test_the_global_seed_starts_random_ops_again() -> None:
    def draw() -> list[Any]:
        tf.set_random_seed(7)
        return [
            *tf.random_uniform([2]).numpy(),
            *tf.random_uniform([2]).numpy(),
            *tf.random_normal([2], seed=3).numpy(),
        ]

    first = draw()
    assert first == draw()
    assert first[:2] != first[2:4]


# Variables ------------------------------------------------------------------------------------------------------------


def test_variables_have_values_and_free_them() -> None:
    v = tf.Variable([1.0, 2.0])
    before = v.value()
    v.assign_add([1.0, 1.0])
    assert v.assign_sub([0.0, 1.0]) is v
    np.testing.assert_array_equal(v.numpy(), [2, 2])
    np.testing.assert_array_equal(before, [1, 2])
    np.testing.assert_array_equal(v * 2, [4, 4])
    np.testing.assert_array_equal(tf.scatter_update(v, [0], [9.0]).numpy(), [9, 2])
    with pytest.raises(ValueError, match="Shape mismatch"):
        v.assign([1.0])
    assert len(resources()) == 1
    del v
    gc.collect()
    assert resources() == []


def test_get_variable_makes_a_new_variable_each_time_unless_it_is_to_be_reused() -> None:
    first, second = tf.get_variable("a", [2]), tf.get_variable("a", [2])
    assert first is not second
    with tf.variable_scope("", reuse=True):
        assert tf.get_variable("a", [2]) is second


# Tapes ----------------------------------------------------------------------------------------------------------------


def test_trainable_variables_are_watched_when_read() -> None:
    a, b, c = tf.Variable(2.0), tf.Variable(3.0, trainable=False), tf.Variable(1.0)
    with tf.GradientTape() as tape:
        y = a * a * b
    assert tape.watched_variables() == (a,)
    grads = tape.gradient(y, {"a": a, "b": b, "c": c})
    assert grads["a"].numpy() == 12.0
    assert grads["b"] is None and grads["c"] is None
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        y = a * a
    assert tape.gradient(y, a) is None


def test_a_tape_is_used_once_unless_persistent() -> None:
    x = tf.constant(3.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x * x
    assert tape.gradient(y, x).numpy() == 6.0
    with pytest.raises(RuntimeError, match="non-persistent GradientTape"):
        tape.gradient(y, x)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * x
        with tape.stop_recording():
            hidden = x * x
    assert tape.gradient(y, x).numpy() == tape.gradient(y, x).numpy() == 6.0
    assert tape.gradient(hidden, x) is None
    assert tape.gradient(hidden, x, unconnected_gradients=tf.UnconnectedGradients.ZERO).numpy() == 0.0
    assert tape.gradient([y, y], x, output_gradients=[1.0, 2.0]).numpy() == 18.0


def test_only_floats_can_be_watched() -> None:
    with tf.GradientTape() as tape, pytest.raises(TypeError, match="must be floating"):
        tape.watch(tf.constant(1))


def test_jacobian() -> None:
    x = tf.constant([1.0, 2.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.stack([x[0] * x[1], x[0] + x[1], x[1] ** 3])
    np.testing.assert_array_equal(tape.jacobian(y, x), [[2, 1], [1, 1], [0, 12]])


def test_gathers_have_sparse_gradients() -> None:
    table = tf.Variable(np.arange(8, dtype=np.float32).reshape(4, 2))
    with tf.GradientTape() as tape:
        y = tf.reduce_sum(tf.gather(table, [1, 3]) ** 2)
    grad = tape.gradient(y, table)
    assert isinstance(grad, tf.IndexedSlices)
    np.testing.assert_array_equal(grad.indices, [1, 3])
    np.testing.assert_array_equal(grad.values, [[4, 6], [12, 14]])


def test_tensors_do_not_keep_what_they_were_computed_from() -> None:
    x = tf.ones([4])
    known = weakref.ref(x)
    y = tf.function(lambda t: t * t)(x) + x
    with tf.GradientTape() as tape:
        tape.watch(x)
        z = tf.function(lambda t: tf.sin(t) * t)(x)
    del tape
    del x
    gc.collect()
    assert known() is None
    assert len(y) == len(z) == 4


# Functions ------------------------------------------------------------------------------------------------------------


def test_a_function_is_traced_once_and_uses_variables_of_the_program() -> None:
    traces = []
    v, calls = tf.Variable(2.0), tf.Variable(0, trainable=False)

    @tf.function
    def scaled(x: Any, flag: bool = True) -> Any:
        assert not tf.executing_eagerly()
        traces.append(flag)
        calls.assign_add(1)
        return {"y": x * v if flag else x, "x": x}

    assert scaled(tf.constant(3.0))["y"].numpy() == 6.0
    v.assign(5.0)
    with tf.GradientTape() as tape:
        y = scaled(tf.constant(3.0))["y"]
    assert y.numpy() == 15.0
    assert tape.gradient(y, v).numpy() == 3.0
    assert scaled(tf.constant(3.0), flag=False)["y"].numpy() == 3.0
    assert traces == [True, False]
    assert calls.numpy() == 3


def test_a_variable_that_is_given_to_a_function_is_its_value() -> None:
    v = tf.Variable([1.0, 2.0, 3.0])
    first = tf.function(lambda values, factor: tf.gather(values, [0]) * factor)
    assert first(v, tf.constant(2.0)).numpy() == [2.0]
    v.assign([5.0, 2.0, 3.0])
    with tf.GradientTape() as tape:
        y = first(v, tf.constant(2.0))
    assert y.numpy() == [10.0]
    np.testing.assert_array_equal(tf.convert_to_tensor(tape.gradient(y, v)), [2, 0, 0])


def test_second_derivatives_through_a_function() -> None:
    x = tf.constant(3.0)
    cube = tf.function(lambda t: tf.function(lambda u: u * u)(t) * t)
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = cube(x)
        first = tape.gradient(y, x)
    assert first.numpy() == 27.0
    assert outer.gradient(first, x).numpy() == 18.0


def test_a_functions_gradient_is_of_the_very_call() -> None:
    """Random numbers are drawn once, and the gradient sees those of the forward pass."""
    x = tf.ones([64])
    dropped = tf.function(lambda t: tf.nn.dropout(t, keep_prob=0.5))
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = dropped(x)
    np.testing.assert_array_equal(tape.gradient(y, x), y)
    assert 0 < np.count_nonzero(y) < 64


def test_a_tape_inside_a_function() -> None:
    @tf.function
    def slope(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x**3
        return tape.gradient(y, x)

    assert slope(tf.constant(2.0)).numpy() == 12.0


def test_errors_in_functions_name_the_op() -> None:
    f = tf.function(lambda x: tf.reshape(x, [3, 3]), input_signature=[tf.TensorSpec([None])])
    with pytest.raises(tf.errors.InvalidArgumentError, match="4 values, but the requested shape has 9"):
        f(tf.ones([4]))


# Control flow, training, data -----------------------------------------------------------------------------------------


def test_control_flow_is_pythons() -> None:
    seen: list[str] = []
    assert tf.cond(tf.constant(True), lambda: seen.append("yes") or 1, lambda: seen.append("no")) == 1
    assert seen == ["yes"]
    count, total = tf.while_loop(lambda i, t: i < 5, lambda i, t: (i + 1, t + i), [0, 0])
    assert (int(count), int(total)) == (5, 10)
    assert int(tf.while_loop(lambda i: True, lambda i: i + 1, [0], maximum_iterations=4)) == 4
    assert tf.case([(tf.constant(False), lambda: 1), (tf.constant(True), lambda: 2)]) == 2
    assert tf.switch_case(tf.constant(1), [lambda: 1, lambda: 2]) == 2
    with tf.control_dependencies([tf.constant(1)]), tf.device("/cpu:0"), tf.name_scope("s"):
        assert int(tf.identity(3)) == 3


def test_training_by_a_loss_function_and_by_gradients() -> None:
    w, step = tf.Variable([5.0, -3.0]), tf.train.get_or_create_global_step()
    optimizer = tf.train.AdamOptimizer(0.5)
    for _ in range(100):
        optimizer.minimize(lambda: tf.reduce_sum((w - 1.0) ** 2), global_step=step)
    np.testing.assert_allclose(w.numpy(), [1, 1], atol=0.05)
    assert int(step) == 100
    assert tf.train.get_global_step() is step
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(w)
    tf.train.GradientDescentOptimizer(1.0).apply_gradients([(tape.gradient(loss, w), w)])
    np.testing.assert_allclose(w.numpy(), [0, 0], atol=0.05)
    with pytest.raises(RuntimeError, match="should be a function when eager"):
        optimizer.minimize(loss)


def test_datasets_are_iterated() -> None:
    data = tf.data.Dataset.from_tensor_slices((np.arange(5), np.arange(5.0))).map(lambda a, b: (a * 2, b)).batch(2)
    for _ in range(2):
        assert [(a.numpy().tolist(), b.numpy().tolist()) for a, b in data] == [
            ([0, 2], [0.0, 1.0]),
            ([4, 6], [2.0, 3.0]),
            ([8], [4.0]),
        ]
    iterator = tf.data.Dataset.range(2).make_one_shot_iterator()
    assert [int(iterator.get_next()), int(iterator.get_next())] == [0, 1]
    with pytest.raises(tf.errors.OutOfRangeError):
        iterator.get_next()


def test_queues_tables_and_arrays_live_as_long_as_they_are_held() -> None:
    queue = tf.FIFOQueue(3, [tf.float32], shapes=[[]])
    queue.enqueue(1.0)
    queue.enqueue(2.0)
    assert queue.dequeue().numpy() == 1.0 and int(queue.size()) == 1
    table = tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(tf.constant(["a", "b"]), tf.constant([1, 2])), -1
    )
    assert table.lookup(tf.constant(["b", "z"])).numpy().tolist() == [2, -1]
    array = tf.TensorArray(tf.float32, 2).write(0, 1.0).write(1, 2.0)
    assert array.stack().numpy().tolist() == [1.0, 2.0]
    assert tf.py_func(lambda x: x * 2, [2.0], tf.float32).numpy() == 4.0


def test_recurrent_cells_train() -> None:
    tf.set_random_seed(1)
    cell = tf.nn.rnn_cell.BasicLSTMCell(4)
    inputs = tf.constant(np.random.RandomState(0).randn(2, 3, 5).astype(np.float32))
    optimizer = tf.train.GradientDescentOptimizer(0.5)
    losses: list[float] = []

    def loss() -> Any:
        outputs, _ = tf.nn.dynamic_rnn(cell, inputs, dtype=tf.float32)
        value = tf.reduce_mean((outputs - 0.3) ** 2)
        losses.append(float(value))
        return value

    for _ in range(20):
        optimizer.minimize(loss)
    assert losses[-1] < losses[0] / 2
