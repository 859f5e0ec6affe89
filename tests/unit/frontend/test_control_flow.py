"""cond, case, while_loop, map_fn, scan, functions, and gradients through all of them."""

from typing import Any

import numpy as np
import pytest

import dtfctl.runtime as tf


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as g:
        yield g


def run(fetches, feeds=None):
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return session.run(fetches, feeds)


@pytest.mark.parametrize(("pred", "want", "slope"), [(True, 8.0, 12.0), (False, 4.0, 2.0)])
def test_cond_takes_one_branch_and_differentiates_it(pred, want, slope) -> None:
    x = tf.placeholder(tf.float32, [])
    p = tf.placeholder(tf.bool, [])
    y = tf.cond(p, lambda: x * x * x, lambda: x + x)
    assert run([y, tf.gradients(y, x)[0]], {x: 2.0, p: pred}) == [want, slope]


def test_only_the_chosen_branch_runs() -> None:
    v = tf.Variable(1.0)
    p = tf.placeholder(tf.bool, [])
    update = tf.cond(p, lambda: v.assign(10.0), lambda: v.assign_add(1.0))
    with tf.Session() as session:
        session.run(v.initializer)
        assert session.run(update, {p: False}) == 2.0
        assert session.run(update, {p: True}) == 10.0
        assert session.run(v) == 10.0


def test_cond_returns_structures_and_refuses_unequal_ones() -> None:
    p = tf.constant(True)
    a, (b,) = tf.cond(p, lambda: (tf.constant(1), [tf.constant(2.0)]), lambda: (tf.constant(3), [tf.constant(4.0)]))
    assert run([a, b]) == [1, 2.0]
    with pytest.raises(ValueError, match="same type"):
        tf.cond(p, lambda: tf.constant(1), lambda: tf.constant(1.0))
    with pytest.raises(ValueError, match="same structure"):
        tf.cond(p, lambda: (tf.constant(1), tf.constant(2)), lambda: tf.constant(1))
    with pytest.raises(TypeError, match="Python bool"):
        tf.cond(True, lambda: 1, lambda: 2)


def test_case_takes_the_first_that_holds() -> None:
    x = tf.placeholder(tf.int32, [])
    y = tf.case([(x < 1, lambda: tf.constant(-1)), (x < 3, lambda: tf.constant(0))], default=lambda: tf.constant(1))
    with tf.Session() as session:
        assert [session.run(y, {x: v}) for v in (0, 2, 5)] == [-1, 0, 1]


def test_exclusive_case_fails_when_two_hold() -> None:
    y = tf.case([(tf.constant(True), lambda: tf.constant(1))] * 2, default=lambda: tf.constant(0), exclusive=True)
    with pytest.raises(tf.errors.InvalidArgumentError):
        run(y)


def test_switch_case_falls_back_to_the_default() -> None:
    i = tf.placeholder(tf.int32, [])
    y = tf.switch_case(i, [lambda: tf.constant(10), lambda: tf.constant(20)], default=lambda: tf.constant(-1))
    with tf.Session() as session:
        assert [session.run(y, {i: v}) for v in (0, 1, 2, -5)] == [10, 20, -1, -1]


def test_while_loop_and_its_first_and_second_derivative() -> None:
    x = tf.placeholder(tf.float32, [])
    _, y = tf.while_loop(lambda i, a: i < 5, lambda i, a: (i + 1, a * x), [tf.constant(0), tf.constant(1.0)])
    (first,) = tf.gradients(y, x)
    (second,) = tf.gradients(first, x)
    assert run([y, first, second], {x: 2.0}) == [32.0, 80.0, 160.0]


def test_nested_loops_differentiate() -> None:
    x = tf.placeholder(tf.float32, [])

    def outer(i, a):
        _, b = tf.while_loop(lambda j, b: j < 2, lambda j, b: (j + 1, b * x), [tf.constant(0), a])
        return i + 1, b

    _, y = tf.while_loop(lambda i, a: i < 2, outer, [tf.constant(0), tf.constant(1.0)])
    assert run([y, tf.gradients(y, x)[0]], {x: 2.0}) == [16.0, 32.0]


def test_loop_with_a_conditional_inside() -> None:
    x = tf.placeholder(tf.float32, [])

    def body(i, a):
        return i + 1, tf.cond(tf.equal(i % 2, 0), lambda: a * x, lambda: a + x)

    _, y = tf.while_loop(lambda i, a: i < 4, body, [tf.constant(0), tf.constant(1.0)])
    value, slope = run([y, tf.gradients(y, x)[0]], {x: 3.0})
    f = lambda v: ((1 * v + v) * v) + v  # noqa: E731
    assert value == f(3.0)
    assert slope == pytest.approx((f(3.001) - f(2.999)) / 0.002, rel=1e-3)


def test_loop_bounds_and_shapes() -> None:
    (y,) = [tf.while_loop(lambda a: True if a is None else a < 100, lambda a: a + 1, [0], maximum_iterations=7)]
    assert run(y) == 7
    with pytest.raises(ValueError, match="shape_invariants"):
        tf.while_loop(lambda a: tf.size(a) < 5, lambda a: tf.concat([a, [1]], 0), [tf.constant([1])])
    grown = tf.while_loop(
        lambda a: tf.size(a) < 5,
        lambda a: tf.concat([a, [1]], 0),
        [tf.constant([1])],
        shape_invariants=[tf.TensorShape([None])],
    )
    np.testing.assert_array_equal(run(grown), [1] * 5)


def test_ragged_and_sparse_tensors_grow_in_loops() -> None:
    ragged, sparse = tf.ragged.constant([[1, 2], [], [3]]), tf.SparseTensor([[0, 0], [1, 1]], [1, 2], [2, 2])

    def loop(grow: Any, start: Any, *invariant: Any) -> Any:
        shapes = {"shape_invariants": (tf.TensorShape([]), *invariant)} if invariant else {}
        return tf.while_loop(lambda i, _: i < 2, lambda i, x: (i + 1, grow(x)), (tf.constant(0), start), **shapes)[1]

    def longer(x: Any) -> Any:
        return tf.concat([x, x], 1)

    def taller(x: Any) -> Any:
        return tf.concat([x, x], 0)

    def wider(x: Any) -> Any:
        return tf.sparse.concat(1, [x, x])

    with pytest.raises(ValueError, match="shape_invariants"):
        loop(taller, ragged)
    with pytest.raises(ValueError, match="not compatible with the initial shape"):
        loop(longer, ragged, tf.TensorShape([5, None]))
    with pytest.raises(ValueError, match="1 shapes for 2 loop variables"):
        tf.while_loop(lambda i, _: i < 2, lambda i, x: (i + 1, x), (0, 1), shape_invariants=(tf.TensorShape([]),))
    with tf.Session() as session:
        assert session.run(loop(longer, ragged)).to_list() == [[1, 2] * 4, [], [3] * 4]
        assert session.run(loop(taller, ragged, tf.TensorShape([None, None]))).to_list() == [[1, 2], [], [3]] * 4
        assert session.run(tf.sparse.to_dense(loop(wider, sparse))).tolist() == [[1, 0] * 4, [0, 2] * 4]
        assert session.run(loop(wider, sparse, tf.TensorShape([2]))).dense_shape.tolist() == [2, 8]


def test_slices_grow_in_loops() -> None:
    def grow(i: Any, x: Any) -> Any:
        return i + 1, tf.IndexedSlices(tf.concat([x.values] * 2, 0), tf.concat([x.indices] * 2, 0), x.dense_shape)

    start = (tf.constant(0), tf.IndexedSlices(tf.ones([1, 3]), tf.constant([1]), tf.constant([2, 3])))
    shapes = (tf.TensorShape([]), tf.TensorShape([None, 3]))
    _, slices = tf.while_loop(lambda i, _: i < 2, grow, start, shape_invariants=shapes)
    with tf.Session() as session:
        assert session.run(tf.convert_to_tensor(slices)).tolist() == [[0, 0, 0], [4, 4, 4]]


def test_map_scan_and_folds() -> None:
    x = tf.placeholder(tf.float32, [])
    squares = tf.map_fn(lambda e: e * e * x, tf.constant([1.0, 2.0, 3.0]))
    assert squares.shape.as_list() == [3]
    (slope,) = tf.gradients(tf.reduce_sum(squares), x)
    products = tf.scan(lambda a, e: a * e, tf.constant([1.0, 2.0, 3.0, 4.0]))
    back = tf.scan(lambda a, e: a + e, tf.constant([1.0, 2.0, 3.0]), initializer=0.0, reverse=True)
    left = tf.foldl(lambda a, e: a - e, tf.constant([1.0, 2.0, 3.0]), initializer=10.0)
    right = tf.foldr(lambda a, e: a - e, tf.constant([1.0, 2.0, 3.0]))
    got = run([squares, slope, products, back, left, right], {x: 2.0})
    for value, want in zip(got, ([2, 8, 18], 14, [1, 2, 6, 24], [6, 5, 3], 4, 0)):
        np.testing.assert_allclose(value, want)


def test_map_over_a_structure_with_other_types() -> None:
    a, b = tf.constant([1, 2]), tf.constant([0.5, 1.5])
    total, product = tf.map_fn(
        lambda e: (tf.cast(e[0], tf.float32) + e[1], e[0] * 10), (a, b), dtype=(tf.float32, tf.int32)
    )
    np.testing.assert_allclose(run(total), [1.5, 3.5])
    np.testing.assert_array_equal(run(product), [10, 20])


def test_tensor_array_in_a_loop_carries_gradients() -> None:
    x = tf.placeholder(tf.float32, [3])
    source = tf.TensorArray(tf.float32, size=3).unstack(x)

    def body(i, out):
        return i + 1, out.write(i, source.read(i) * source.read(i))

    _, out = tf.while_loop(lambda i, _: i < 3, body, [tf.constant(0), tf.TensorArray(tf.float32, size=3)])
    y = out.stack()
    value, slope = run([y, tf.gradients(y, x)[0]], {x: [1.0, 2.0, 3.0]})
    np.testing.assert_allclose(value, [1, 4, 9])
    np.testing.assert_allclose(slope, [2, 4, 6])


def test_functions_capture_and_differentiate() -> None:
    x = tf.placeholder(tf.float32, [])
    w = tf.get_variable("w", initializer=3.0)

    @tf.function
    def f(a, b):
        return a * b * x * w

    y = f(x, tf.constant(2.0))
    slopes = tf.gradients(y, [x, w])
    assert run([y, *slopes], {x: 2.0}) == [24.0, 24.0, 8.0]
    assert y.op.inputs[0].op.type == "PartitionedCall" or y.op.type == "PartitionedCall"


def test_gradients_stop_where_they_must() -> None:
    x = tf.placeholder(tf.float32, [])
    y = tf.stop_gradient(x * x) + x
    assert run(tf.gradients(y, x), {x: 3.0}) == [1.0]
    assert tf.gradients(tf.constant(1.0), x) == [None]
    assert run(tf.gradients(x * x, x, stop_gradients=[x]), {x: 3.0}) == [6.0]
    assert tf.gradients(tf.cast(tf.cast(x, tf.int32), tf.float32), x) == [None]
    with pytest.raises(TypeError, match="floating or complex"):
        tf.gradients(tf.constant(1), x)


def test_a_branch_runs_only_what_the_fetches_need() -> None:
    with tf.Graph().as_default():
        first, second = (tf.get_variable(n, initializer=7, use_resource=True) for n in ("first", "second"))
        chosen = tf.placeholder(tf.bool, ())
        one, two = tf.cond(
            chosen,
            lambda: [first.assign(1).op, second.assign(2).op],
            lambda: [first.assign(10).op, tf.no_op()],
        )
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            sess.run(two, {chosen: True})
            assert sess.run([first, second]) == [7, 2]
            sess.run(one, {chosen: False})
            assert sess.run([first, second]) == [10, 2]
            sess.run([one, two], {chosen: True})
            assert sess.run([first, second]) == [1, 2]


def test_branches_that_give_other_parts_are_refused() -> None:
    """Not an IndexError, nor the value of another place, which a None before it made of it."""
    x, p = tf.constant(1.0), tf.placeholder(tf.bool, [])
    slices = tf.IndexedSlices(tf.ones([1]), tf.constant([0]))
    with pytest.raises(ValueError, match="same structure"):
        tf.cond(p, lambda: tf.IndexedSlices(slices.values, slices.indices, tf.constant([2])), lambda: slices)
    with pytest.raises(ValueError, match="same structure"):
        tf.cond(p, lambda: slices, lambda: x)
    with pytest.raises(ValueError, match="same structure"):
        tf.cond(p, lambda: (None, x), lambda: (x, None))


def test_an_operation_becomes_the_bool_of_its_branch() -> None:
    p = tf.placeholder(tf.bool, [])
    done = tf.cond(p, tf.no_op, tf.no_op)
    assert run(done, {p: True})
    assert not run(done, {p: False})
