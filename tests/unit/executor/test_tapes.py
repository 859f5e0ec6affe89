"""Lines of a plan that are machine code are one call, and give what nodes give one by one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import dtfctl.runtime as tf
from dtfctl.runtime.executor import tapes as executor_tapes
from dtfctl.runtime.kernels.into.registry import Unfit
from dtfctl.runtime.kernels.native import lanes, machine, tape
from dtfctl.runtime.kernels.native.tape import Tape
from tests.unit.executor.test_fusion import node_by_node

if not machine.can_compile():
    pytest.skip("llvmlite is not installed", allow_module_level=True)

from tests.unit.executor.test_regions import at_once, executors_of, plans, same

__all__ = ["at_once"]

F = np.float32


def values(*shape: int, seed: int = 3) -> Any:
    return (np.random.RandomState(seed).standard_normal(shape) / 4).astype(F)


def tapes(session: Any) -> list[Tape]:
    """List the tapes of a session's plans, also of loops in them."""
    found = []
    for executor in executors_of(session):
        plan = getattr(executor.plan, "shaped", None)
        found += [v for v in getattr(plan, "names", {}).values() if isinstance(v, Tape)]
    return found


def unrolled(steps: int, layers: int) -> Any:
    """Make the loss of a recurrent net of some layers, unrolled, and the gradients of its weights."""
    xs = [tf.placeholder(tf.float32, [8, 16], name=f"x{n}") for n in range(steps)]
    weights = [tf.get_variable(f"w{n}", initializer=values(32, 32, seed=n)) for n in range(layers)]
    biases = [tf.get_variable(f"b{n}", initializer=values(32, seed=9 + n)) for n in range(layers)]
    states = [tf.zeros([8, 16])] * layers
    for x in xs:
        given = x
        for n in range(layers):
            both = tf.matmul(tf.concat([given, states[n]], 1), weights[n]) + biases[n]
            gate, new = tf.split(both, 2, 1)
            given = states[n] = tf.sigmoid(gate) * tf.tanh(new) + states[n]
    loss = tf.reduce_mean(tf.square(states[-1]))
    return xs, loss, tf.gradients(loss, weights + biases)


def in_both(make: Any, given: list[dict[str, Any]]) -> tuple[list[Any], list[Any], int]:
    """Run a program's steps node by node and by plans: what each gave, and how many tapes there were."""
    results, count = [], 0
    for config in (node_by_node(), None):
        with tf.Graph().as_default() as graph:
            fetches = make()
            with tf.Session(config=config) as session:
                session.run(tf.global_variables_initializer())
                feeds = [{graph.get_tensor_by_name(k): v for k, v in g.items()} for g in given]
                results.append([session.run(fetches, g) for g in feeds])
                count = len(tapes(session))
    return results[0], results[1], count


def flat(results: list[Any]) -> list[Any]:
    return [x for step in results for x in step]


def feeds(steps: int, count: int) -> list[dict[str, Any]]:
    return [{f"x{n}:0": values(8, 16, seed=10 * k + n) for n in range(steps)} for k in range(count)]


def test_an_unrolled_net_is_some_tapes() -> None:
    def make() -> Any:
        _, loss, gradients = unrolled(4, 2)
        return [loss, *gradients]

    want, got, count = in_both(make, feeds(4, 14))
    same(flat(want), flat(got))
    assert 0 < count <= 12


@pytest.fixture
def in_lanes(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Every tape that can be divided is, and then run in lanes; how many were."""
    monkeypatch.setattr(tape, "granted", lambda: 2)
    monkeypatch.setattr(tape, "LEAST_S", 0.0)
    monkeypatch.setattr(tape, "_CUT_S", 0.0)
    monkeypatch.setattr(lanes, "_MOST_SHARE", 0.99)
    made: list[int] = []

    def together(lanes: Any, alone: Any, count: int, **_: Any) -> Any:
        made.append(count)
        return lanes

    monkeypatch.setattr(tape, "threaded", together)
    yield made


def test_two_layers_are_run_in_lanes(in_lanes: list[int]) -> None:
    def make() -> Any:
        _, loss, gradients = unrolled(6, 3)
        return [loss, *gradients]

    want, got, _ = in_both(make, feeds(6, 30))
    same(flat(want), flat(got))
    assert in_lanes


def test_what_is_fed_may_be_of_another_shape_or_order() -> None:
    def make() -> Any:
        x = tf.placeholder(tf.float32, [None, 16], name="x")
        w = tf.constant(values(16, 16))
        y = tf.tanh(tf.matmul(x, w))
        return [tf.reduce_sum(tf.sigmoid(tf.matmul(tf.exp(y) * y, w)), 0)]

    usual = [values(8, 16, seed=k) for k in range(6)]
    given = [*usual, values(16, 8).T, usual[0], values(5, 16), usual[1], np.repeat(usual[2], 2, 0)[::2], usual[3]]
    want, got, count = in_both(make, [{"x:0": x} for x in given])
    same(flat(want), flat(got))
    assert count


@pytest.mark.parametrize("adds", [False, True])
def test_what_is_the_same_in_each_step_may_be_in_any_order(adds: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    refused: list[Unfit] = []

    class Watched(Tape):
        def __call__(self, *values: Any) -> None:
            try:
                super().__call__(*values)
            except Unfit as e:
                refused.append(e)
                raise

    monkeypatch.setattr(executor_tapes, "Tape", Watched)

    def make() -> Any:
        x = tf.placeholder(tf.float32, [8, 16], name="x")
        w = tf.transpose(tf.constant(values(16, 16)))
        table = tf.transpose(tf.constant(values(16, 8, seed=5)))
        for _ in range(3):
            given = tf.sigmoid(x) * 2 + table if adds else tf.sigmoid(x) * 2
            x = tf.tanh(tf.matmul(given, w)) * 3
        return [x, tf.reduce_sum(x, 0)]

    given = [{"x:0": values(8, 16, seed=k)} for k in range(8)]
    want, _, _ = in_both(make, given)
    as_written = tf.ConfigProto()
    as_written.graph_options.optimizer_options.opt_level = tf.OptimizerOptions.L0
    for config in (None, as_written):
        with tf.Graph().as_default() as graph:
            fetches = make()
            with tf.Session(config=config) as session:
                got = [session.run(fetches, {graph.get_tensor_by_name("x:0"): g["x:0"]}) for g in given]
                assert tapes(session)
        same(flat(want), flat(got))
    assert not refused


def test_constant_weights_of_many_products_are_shared_in_a_tape() -> None:
    def make() -> Any:
        x = tf.placeholder(tf.float32, [64, 96], name="x")
        w = tf.constant(values(96, 96))
        for _ in range(5):
            x = tf.tanh(tf.matmul(tf.sigmoid(x) * 2, w)) * 3
        return [tf.reduce_mean(x, 0)]

    want, got, count = in_both(make, [{"x:0": values(64, 96, seed=k)} for k in range(8)])
    same(flat(want), flat(got), 1e-5)
    assert count


def test_a_variable_that_is_changed_between_products_is_read_where_it_was() -> None:
    def make() -> Any:
        x = tf.placeholder(tf.float32, [8, 16], name="x")
        w = tf.get_variable("w", initializer=values(16, 16))
        first = tf.tanh(tf.matmul(x, w.value()))
        with tf.control_dependencies([first]):
            changed = tf.assign_add(w, tf.ones([16, 16]) / 64)
        with tf.control_dependencies([changed]):
            second = tf.matmul(tf.sigmoid(first), tf.identity(w.read_value()))
        return [tf.reduce_sum(second * 2 + first, 0)]

    want, got, _ = in_both(make, [{"x:0": values(8, 16, seed=k)} for k in range(8)])
    same(flat(want), flat(got))


def test_what_is_kept_of_a_step_stays() -> None:
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [8, 16])
        w = tf.constant(values(16, 16))
        y = tf.tanh(tf.matmul(x, w)) * 2
        z = tf.matmul(y, w) + 1
        with tf.Session() as session:
            kept = [session.run([y, z], {x: values(8, 16, seed=k)}) for k in range(8)]
            again = [session.run([y, z], {x: values(8, 16, seed=k)}) for k in range(8)]
            assert plans(session)
    for (a, b), (c, d) in zip(kept, again):
        same([a, b], [c, d])


def test_a_loop_has_tapes_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []

    class Counted(Tape):
        def __init__(self, steps: Any, code: Any) -> None:
            super().__init__(steps, code)
            made.append(len(steps))

    monkeypatch.setattr(executor_tapes, "Tape", Counted)

    def make() -> Any:
        x = tf.placeholder(tf.float32, [8, 16], name="x")
        w = tf.get_variable("w", initializer=values(16, 16))
        _, y = tf.while_loop(
            lambda n, _: n < 5,
            lambda n, y: (n + 1, tf.tanh(tf.matmul(tf.sigmoid(tf.matmul(y, w) + 1) * 2, w)) - y),
            [0, x],
        )
        loss = tf.reduce_sum(tf.square(y))
        return [loss, *tf.gradients(loss, [w, x])]

    want, got, _ = in_both(make, [{"x:0": values(8, 16, seed=k)} for k in range(10)])
    same(flat(want), flat(got), 2e-5)
    assert made and max(made) >= 3
