"""Loop variables that lead to nothing are taken away, and nothing else is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dtfctl.runtime as tf
from dtfctl.protocol import config_pb2
from dtfctl.runtime.compiler.compile import CompileOptions
from tests.unit.compiler.harness import Cluster

Body = Callable[..., Any]


def variables(fetch: Any, on: bool = True) -> list[int]:
    """How many variables each loop of a step that fetches something has."""
    options = CompileOptions()
    if not on:
        options.graph_options.rewrite_options.loop_optimization = config_pb2.RewriterConfig.OFF
    (part,) = Cluster(fetch.graph.as_graph_def(), options=options).parts([], [fetch.name], []).values()
    return [len(n.inputs) for n in part if n.op in ("While", "StatelessWhile")]


def both(fetch: Any) -> tuple[Any, Any]:
    """A value with the rewrite, and without it."""
    config = tf.ConfigProto()
    config.graph_options.rewrite_options.loop_optimization = config_pb2.RewriterConfig.OFF
    with tf.Session() as session, tf.Session(config=config) as plain:
        return session.run(fetch), plain.run(fetch)


def test_what_leads_to_nothing_is_not_computed() -> None:
    with tf.Graph().as_default():

        def body(n: Any, wanted: Any, helps: Any, idle: Any, idler: Any) -> Any:
            return n + 1, wanted + helps, helps * 2.0, idle * idler, idler + wanted

        _, wanted, _, idle, _ = tf.while_loop(lambda n, *_: n < 4, body, (0, 1.0, 1.0, 1.0, 1.0))
        # A loop counts its iterations besides, for its gradient.
        assert variables(wanted, on=False) == [6]
        assert variables(wanted) == [3]
        assert variables(idle) == [5]
        assert both(wanted) == (16.0, 16.0)
        assert len(set(both(idle))) == 1


def test_what_the_condition_asks_for_stays() -> None:
    with tf.Graph().as_default():
        _, _, wanted = tf.while_loop(
            lambda n, total, _: total < 10.0, lambda n, total, w: (n + 1.0, total + n, w + 2.0), (1.0, 0.0, 0.0)
        )
        assert variables(wanted) == [3]
        assert both(wanted) == (8.0, 8.0)


def test_effects_stay() -> None:
    with tf.Graph().as_default():
        seen = tf.get_variable("seen", initializer=0.0, use_resource=True)

        def body(n: Any, total: Any, told: Any) -> Any:
            with tf.control_dependencies([seen.assign_add(told)]):
                return n + 1, total + 1.0, told + 1.0

        _, wanted, _ = tf.while_loop(lambda n, *_: n < 3, body, (0, 0.0, 1.0))
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            assert session.run(wanted) == 3.0
            assert session.run(seen) == 6.0


def test_a_check_stays() -> None:
    with tf.Graph().as_default():
        _, wanted, _ = tf.while_loop(
            lambda n, *_: n < 3,
            lambda n, total, x: (n + 1, total + 1.0, tf.check_numerics(x / tf.cast(n, tf.float32), "divided")),
            (0, 0.0, 1.0),
        )
        with tf.Session() as session, pytest.raises(tf.errors.InvalidArgumentError, match="divided"):
            session.run(wanted)


def test_gradients_of_loops_are_the_same_without_what_nobody_asks_for() -> None:
    with tf.Graph().as_default():
        x = tf.constant(np.linspace(-1, 1, 30, dtype=np.float32).reshape(5, 2, 3))
        w = tf.constant(np.linspace(0.2, 0.9, 9, dtype=np.float32).reshape(3, 3))
        rows = tf.TensorArray(tf.float32, 5).unstack(x)
        _, state = tf.while_loop(
            lambda n, _: n < 5,
            lambda n, state: (n + 1, tf.tanh(tf.matmul(state + rows.read(n), w))),
            (0, tf.ones([2, 3])),
        )
        by_weights, by_rows = tf.gradients(tf.reduce_sum(state * state), [w, x])
        fewer, all_of_them = variables(by_weights), variables(by_weights, on=False)
        assert len(fewer) == len(all_of_them) == 2 and sum(fewer) < sum(all_of_them)
        assert sum(variables(by_rows)) > sum(fewer) - 2
        for gradient in (by_weights, by_rows):
            got, want = both(gradient)
            np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("is_stateful", [False, True])
def test_one_loop_is_narrowed_for_what_each_step_asks(is_stateful: bool) -> None:
    with tf.Graph().as_default(), tf.Session() as session:

        def body(n: Any, a: Any, b: Any) -> Any:
            more = tf.floor(tf.random.uniform([])) if is_stateful else 0.0
            return n + 1, a + 1.0 + more, b * 2.0

        _, a, b = tf.while_loop(lambda n, *_: n < 3, body, (0, 0.0, 1.0))
        assert session.run(a) == 3.0
        assert session.run(b) == 8.0
        assert session.run([a, b]) == [3.0, 8.0]
        assert session.run(a + 1.0) == 4.0
