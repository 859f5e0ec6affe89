"""Variables of both kinds, sharing by scope, initializers, partitions."""

from typing import Any

import numpy as np
import pytest

import dtfctl.runtime as tf


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as g:
        yield g


@pytest.fixture
def session():
    with tf.Session() as s:
        yield s


@pytest.mark.parametrize("use_resource", [False, True])
def test_assignments(session, use_resource) -> None:
    v = tf.Variable([1.0, 2.0], name="v", use_resource=use_resource)
    assert v.op.type == ("VarHandleOp" if use_resource else "VariableV2")
    assert v.name == "v:0" and v.shape.as_list() == [2]
    with pytest.raises(tf.errors.FailedPreconditionError):
        session.run(v)
    session.run(v.initializer)
    np.testing.assert_allclose(session.run(v), [1, 2])
    np.testing.assert_allclose(session.run(v.assign_add([1.0, 1.0])), [2, 3])
    np.testing.assert_allclose(session.run(tf.assign_sub(v, [0.5, 0.5])), [1.5, 2.5])
    np.testing.assert_allclose(session.run(v + 1.0), [2.5, 3.5])
    v.load([7.0, 8.0], session)
    np.testing.assert_allclose(session.run(v.read_value()), [7, 8])
    np.testing.assert_allclose(session.run(v[1]), 8)


def test_a_fetched_value_does_not_change_when_the_variable_does(session) -> None:
    v = tf.Variable(np.zeros(3, np.float32))
    session.run(v.initializer)
    before = session.run(v)
    session.run(v.assign_add(np.ones(3)))
    np.testing.assert_array_equal(before, np.zeros(3))


def test_sharing_by_scope() -> None:
    with tf.variable_scope("s"):
        w = tf.get_variable("w", [2])
        assert w.name == "s/w:0"
        with pytest.raises(ValueError, match="already exists, disallowed"):
            tf.get_variable("w", [2])
    with tf.variable_scope("s", reuse=True):
        assert tf.get_variable("w", [2]) is w
        with pytest.raises(ValueError, match="does not exist"):
            tf.get_variable("other", [2])
        with pytest.raises(ValueError, match="specified shape"):
            tf.get_variable("w", [3])
        with pytest.raises(ValueError, match="specified dtype"):
            tf.get_variable("w", [2], tf.float64)
    with tf.variable_scope("s", reuse=tf.AUTO_REUSE):
        assert tf.get_variable("w", [2]) is w
        assert tf.get_variable("x", [1]).name == "s/x:0"


def test_scopes_nest_reset_and_make_default_names() -> None:
    with tf.variable_scope("a") as scope:
        with tf.variable_scope("b"):
            assert tf.get_variable("v", [1]).name == "a/b/v:0"
        with tf.variable_scope(None, "d"):
            assert tf.get_variable("v", [1]).name == "a/d/v:0"
        with tf.variable_scope(None, "d"):
            assert tf.get_variable("v", [1]).name == "a/d_1/v:0"
    with tf.variable_scope("other"), tf.variable_scope(scope):
        assert tf.get_variable("v", [1]).name == "a/v:0"


def test_scope_defaults_and_custom_getter() -> None:
    def getter(inner, name, *args, **kwargs):
        kwargs["trainable"] = False
        return inner(name, *args, **kwargs)

    ones = tf.ones_initializer()
    with tf.variable_scope("s", initializer=ones, custom_getter=getter, use_resource=True, dtype=tf.float64):
        v = tf.get_variable("v", [2])
    assert v.op.type == "VarHandleOp" and v.dtype is tf.float64
    assert tf.trainable_variables() == [] and tf.global_variables() == [v]


def test_regularizers_are_collected(session) -> None:
    tf.get_variable("w", initializer=3.0, regularizer=lambda w: 0.5 * w * w)
    (loss,) = tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)
    session.run(tf.global_variables_initializer())
    assert session.run(loss) == 4.5
    assert session.run(tf.losses.get_regularization_loss()) == 4.5


def test_partitioned_variable_is_one_tensor(session) -> None:
    with tf.variable_scope("p", partitioner=tf.fixed_size_partitioner(3)):
        table = tf.get_variable("t", [7, 2], initializer=tf.random_uniform_initializer())
    assert [p.shape.as_list() for p in table] == [[3, 2], [2, 2], [2, 2]]
    session.run(tf.global_variables_initializer())
    whole = session.run(tf.convert_to_tensor(table))
    assert whole.shape == (7, 2)
    ids = [6, 0, 3, 3]
    rows = session.run(tf.nn.embedding_lookup(table, ids, partition_strategy="div"))
    np.testing.assert_allclose(rows, whole[ids])


@pytest.mark.parametrize(
    "initializer",
    [
        tf.random_normal_initializer(stddev=0.1, seed=1),
        tf.truncated_normal_initializer(stddev=0.1, seed=1),
        tf.glorot_uniform_initializer(seed=1),
        tf.variance_scaling_initializer(seed=1),
        tf.orthogonal_initializer(seed=1),
        tf.constant_initializer(0.25),
    ],
)
def test_initializers_give_their_shape_and_repeat_with_a_seed(session, initializer) -> None:
    a = tf.get_variable("a", [20, 30], initializer=initializer)
    b = tf.get_variable("b", [20, 30], initializer=initializer)
    session.run(tf.global_variables_initializer())
    x, y = session.run([a, b])
    assert x.shape == (20, 30) and np.isfinite(x).all() and np.abs(x).max() < 3
    np.testing.assert_array_equal(x, y)


def test_report_names_what_is_uninitialized(session) -> None:
    a, b = tf.Variable(1, name="a"), tf.Variable(2, name="b")
    report = tf.report_uninitialized_variables()
    assert sorted(session.run(report)) == [b"a", b"b"]
    session.run(a.initializer)
    assert list(session.run(report)) == [b"b"]
    session.run(b.initializer)
    assert session.run(report).size == 0


def test_custom_getters_pass_on_what_they_like() -> None:
    def few(getter: Any, name: str, shape: Any = None, **rest: Any) -> Any:
        return getter(name, shape, dtype=rest["dtype"], initializer=rest["initializer"], reuse=rest["reuse"])

    with tf.Graph().as_default(), tf.variable_scope("s", custom_getter=few):
        v = tf.get_variable("v", [2], initializer=tf.ones_initializer(), custom_getter=few)
        assert (v.name, v.shape.as_list()) == ("s/v:0", [2]) and v in tf.trainable_variables()
        with tf.variable_scope("t", custom_getter=few):
            assert tf.get_variable("w", [3], tf.float64).dtype.base_dtype == tf.float64
