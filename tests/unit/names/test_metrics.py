"""`tf.metrics` against stock TensorFlow's values."""

from __future__ import annotations

import pytest

import dtfctl.runtime as tf
from tests.unit.names.metrics_programs import PROGRAMS
from tests.unit.names.programs import check, expected

WANT = expected("metrics")


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_the_metric_has_tensorflows_values(name: str) -> None:
    check(PROGRAMS[name], tf, WANT[name])


def test_weights_that_do_not_fit_are_refused_while_building() -> None:
    with tf.Graph().as_default(), pytest.raises(ValueError, match="weights can not be broadcast"):
        tf.metrics.mean(tf.ones([2, 3]), tf.ones([2, 2]))


def test_weights_of_unknown_shape_that_do_not_fit_fail_the_step() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        weights = tf.placeholder(tf.float32, None)
        update = tf.metrics.mean(tf.ones([2, 3]), weights)[1]
        session.run(tf.local_variables_initializer())
        assert session.run(update, {weights: [[1.0], [0.0]]}) == 1.0
        with pytest.raises(tf.errors.InvalidArgumentError, match="can not be broadcast"):
            session.run(update, {weights: [[1.0, 2.0]]})


def test_probabilities_outside_their_range_fail_the_step() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        guesses = tf.placeholder(tf.float32, [2])
        update = tf.metrics.auc([0, 1], guesses)[1]
        session.run(tf.local_variables_initializer())
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"predictions must be in \[0, 1\]"):
            session.run(update, {guesses: [0.5, 1.5]})


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: tf.metrics.auc([1], [0.5], curve="X"), "Curve must be either ROC or PR"),
        (lambda: tf.metrics.auc([1], [0.5], summation_method="X"), "Invalid summation_method"),
        (lambda: tf.metrics.average_precision_at_k([[1]], [[0.5, 0.2]], 0), "Invalid k=0"),
        (lambda: tf.metrics.sensitivity_at_specificity([1], [0.5], 2.0), "must be in the range"),
        (lambda: tf.metrics.accuracy(tf.ones([2]), tf.ones([3])), "incompatible"),
    ],
)
def test_wrong_arguments_are_refused_while_building(make: object, problem: str) -> None:
    with tf.Graph().as_default(), pytest.raises(ValueError, match=problem):
        make()  # type: ignore[operator]
