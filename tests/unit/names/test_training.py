"""What TF1 scripts use to build and train models, against stock TensorFlow's values."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dtfctl.runtime as tf
from tests.unit.names.programs import check, expected
from tests.unit.names.training_programs import PROGRAMS

WANT = expected("training")


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_the_program_has_tensorflows_values(name: str) -> None:
    check(PROGRAMS[name], tf, WANT[name])


def test_a_template_that_makes_new_variables_later_is_refused() -> None:
    with tf.Graph().as_default():
        template = tf.make_template("t", lambda: tf.Variable(1.0))
        template()
        with pytest.raises(ValueError, match=r"perhaps you used tf\.Variable"):
            template()


def test_variables_need_a_gradient_function_that_takes_them() -> None:
    with tf.Graph().as_default():

        @tf.custom_gradient
        def scaled(x: Any) -> Any:
            return x * tf.get_variable("w", initializer=3.0, use_resource=True), lambda dy: dy

        with pytest.raises(TypeError, match="must accept keyword argument 'variables'"):
            scaled(tf.constant(1.0))


EAGER = """
import dtfctl.runtime as tf
tf.enable_eager_execution()

@tf.custom_gradient
def scaled(x, factor=2.0):
    def grad(dy, variables=None):
        return (dy * 7.0, None), [dy * 11.0 for v in variables]
    return x * w * factor, grad

w = tf.Variable(3.0)
x = tf.constant(2.0)
with tf.GradientTape() as tape:
    tape.watch(x)
    y = scaled(x, factor=4.0) * 10.0
print([float(v.numpy()) for v in (y, *tape.gradient(y, [x, w]))])

again = tf.recompute_grad(lambda a: a * a * w)
with tf.GradientTape() as tape:
    tape.watch(x)
    y = again(x)
print([float(v.numpy()) for v in tape.gradient(y, [x, w])])
"""


@pytest.mark.slow
def test_gradients_of_ones_own_in_an_eager_program() -> None:
    done = subprocess.run([sys.executable, "-c", EAGER], capture_output=True, text=True, timeout=240, cwd=Path.cwd())
    assert done.stdout.splitlines() == ["[240.0, 70.0, 110.0]", "[12.0, 4.0]"], done.stderr


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    with tf.Graph().as_default(), tf.Session() as session:
        with tf.variable_scope("old"):
            tf.get_variable("a", initializer=np.arange(4, dtype=np.float32).reshape(2, 2))
            tf.get_variable("b", initializer=[5.0])
        session.run(tf.global_variables_initializer())
        return str(tf.train.Saver().save(session, str(tmp_path / "model")))


def _initialized(variables: Any) -> Any:
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return [np.asarray(v).tolist() for v in session.run(variables)]


@pytest.mark.parametrize("resource", [False, True])
def test_variables_start_from_a_checkpoint(checkpoint: str, resource: bool) -> None:
    with tf.Graph().as_default():
        with tf.variable_scope("new", use_resource=resource):
            a = tf.get_variable("a", [2, 2])
            b = tf.get_variable("b", [1])
        other = tf.get_variable("c", [2, 2], use_resource=resource)
        cut = tf.get_variable("cut", [2, 2], partitioner=tf.fixed_size_partitioner(2), use_resource=resource)
        tf.train.init_from_checkpoint(checkpoint, {"old/": "new/"})
        tf.train.init_from_checkpoint(str(Path(checkpoint).parent), {"old/a": "c"})
        tf.train.init_from_checkpoint(checkpoint, [("old/a", cut)])
        assert _initialized([a, b, other, *cut]) == [[[0, 1], [2, 3]], [5], [[0, 1], [2, 3]], [[0, 1]], [[2, 3]]]


@pytest.mark.parametrize(
    ("assignment", "problem"),
    [
        ({"old/x": "a"}, "is not found in"),
        ({"old/b": "a"}, "doesn't match with shape"),
        ({"old/": "nowhere/"}, "no variable in the scope"),
        ({"old/a": "nowhere"}, "is no scope"),
    ],
)
def test_assignments_that_do_not_fit_are_refused(checkpoint: str, assignment: Any, problem: str) -> None:
    with tf.Graph().as_default():
        tf.get_variable("a", [2, 2])
        with pytest.raises(ValueError, match=problem):
            tf.train.init_from_checkpoint(checkpoint, assignment)


def test_checkpoints_come_one_after_the_other(checkpoint: str) -> None:
    found = list(tf.train.checkpoints_iterator(str(Path(checkpoint).parent), timeout=0))
    assert found == [checkpoint]
    asked = []
    following = tf.train.checkpoints_iterator(
        str(Path(checkpoint).parent), timeout=0, timeout_fn=lambda: len(asked) >= 3 or bool(asked.append(1))
    )
    assert list(following) == [checkpoint]
    assert len(asked) == 3


def test_several_readers_fill_one_batch(tmp_path: Path) -> None:
    for name in ("b.txt", "a.txt"):
        (tmp_path / name).write_text("1\n2\n")
    with tf.Graph().as_default(), tf.Session() as session:
        files = tf.train.match_filenames_once(str(tmp_path / "*.txt"))
        sources = [
            [tf.train.range_input_producer(100, shuffle=False).dequeue() + first, tf.constant(float(first))]
            for first in (0, 1000)
        ]
        values, firsts = tf.train.batch_join(sources, 40, capacity=4)
        mixed = tf.train.shuffle_batch_join([{"n": s[0]} for s in sources], 5, 20, 10)["n"]
        session.run(tf.local_variables_initializer())
        assert session.run(files).tolist() == sorted(str(tmp_path / n).encode() for n in ("a.txt", "b.txt"))
        coordinator = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(session, coordinator)
        got, which = session.run([values, firsts])
        assert values.shape.as_list() == [40]
        assert session.run(mixed).shape == (5,)
        coordinator.request_stop()
        coordinator.join(threads)
    assert ((got >= 1000) == (which == 1000)).all()


def test_every_op_is_checked_for_infinities() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [2])
        tf.log(x, name="logarithm")
        check_all = tf.add_check_numerics_ops()
        session.run(check_all, {x: [1.0, 2.0]})
        with pytest.raises(tf.errors.InvalidArgumentError, match="logarithm:0"):
            session.run(check_all, {x: [1.0, 0.0]})


def test_hessians_need_a_known_shape() -> None:
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [None])
        with pytest.raises(ValueError, match="known shape"):
            tf.hessians(tf.reduce_sum(x * x), x)
