"""Optimizers' updates of rows with repeated indices as one call: values, sizes that change, what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dtfctl.runtime as tf
from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.kernels.into import rows as kernels_of_rows
from tests.unit.executor import test_regions
from tests.unit.executor.test_fusion import node_by_node
from tests.unit.executor.test_regions import F, plans

at_once = test_regions.at_once

ROWS, WIDTH = 11, 3
OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "adagrad": lambda: tf.train.AdagradOptimizer(0.3),
    "momentum": lambda: tf.train.MomentumOptimizer(0.3, 0.9),
    "nesterov": lambda: tf.train.MomentumOptimizer(0.3, 0.9, use_nesterov=True),
    "rms": lambda: tf.train.RMSPropOptimizer(0.1, momentum=0.5),
    "ftrl": lambda: tf.train.FtrlOptimizer(0.3, l1_regularization_strength=0.01, l2_regularization_strength=0.02),
    "ftrl by cubes": lambda: tf.train.FtrlOptimizer(0.3, learning_rate_power=-0.7),
}
# Another number of different ones each time.
STEPS = [np.array(rows, np.int64) for rows in ([3, 3, 3, 3], [1, 2, 3, 4], [10, 0, 10, 0], [5, 5, 6, 5], [7, 8, 9, 0])]


def table(by_handle: bool, width: int = WIDTH, name: str = "table") -> Any:
    first = np.linspace(-1, 1, ROWS * width, dtype=F).reshape(ROWS, width)
    return tf.get_variable(name, initializer=first, use_resource=by_handle)


def trained(config: Any, optimizer: str, by_handle: bool, width: int = WIDTH) -> tuple[list[Any], list[Any]]:
    """What a table is after each step, and the plans that ran them."""
    with tf.Graph().as_default():
        variable, rows = table(by_handle, width), tf.placeholder(tf.int64, [4])
        factors = tf.constant(np.arange(4 * width, dtype=F).reshape(4, width) - 4)
        loss = tf.reduce_sum(tf.square(tf.gather(variable, rows)) * factors)
        train = OPTIMIZERS[optimizer]().minimize(loss)
        with tf.Session(config=config) as session:
            session.run(tf.global_variables_initializer())
            found = []
            for given in [STEPS[0]] * 3 + STEPS:
                session.run(train, {rows: given})
                found.append(session.run(variable.read_value()))
            return found, plans(session)


def updates(found: list[Any]) -> list[Any]:
    """The updates of rows of plans that stand for several nodes."""
    return [p.order[by] for p in found for by in {by for _, by in p.folds} if "SparseApply" in p.order[by].op]


@pytest.mark.parametrize("by_handle", [False, True])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_values_of_each_optimizer(optimizer: str, by_handle: bool) -> None:
    want, _ = trained(node_by_node(), optimizer, by_handle)
    got, found = trained(None, optimizer, by_handle)
    assert updates(found) or optimizer == "ftrl by cubes"
    for x, y in zip(want, got):
        np.testing.assert_allclose(y, x, rtol=2e-6, atol=1e-6)


def test_rows_of_one_number() -> None:
    want, _ = trained(node_by_node(), "adagrad", False, 1)
    got, found = trained(None, "adagrad", False, 1)
    assert updates(found)
    for x, y in zip(want, got):
        np.testing.assert_allclose(y, x, rtol=2e-6, atol=1e-6)


def test_a_plan_stays_while_the_number_of_different_rows_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        first, second = table(False), table(False, 5, "other")
        rows = tf.placeholder(tf.int64, [4])
        loss = tf.reduce_sum(tf.square(tf.gather(first, rows))) + tf.reduce_sum(tf.square(tf.gather(second, rows)))
        train = tf.train.AdagradOptimizer(0.3).minimize(loss)
        session.run(tf.global_variables_initializer())
        for given in [STEPS[0]] * 4:
            session.run(train, {rows: given})
        (plan,) = [p for p in plans(session) if updates([p])]
        # Both are of the same indices.
        assert len(updates([plan])) == 2
        left = []
        attempt = plan.attempt
        monkeypatch.setattr(plan, "attempt", lambda *args: left.append(attempt(*args)) or left[-1])
        for given in STEPS:
            session.run(train, {rows: given})
        assert left == [None] * len(STEPS)


@pytest.mark.parametrize("wrong", [-1, ROWS])
def test_an_index_of_no_row_changes_nothing(wrong: int) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        variable, rows = table(False), tf.placeholder(tf.int64, [4])
        grad = tf.IndexedSlices(tf.constant(np.ones((4, WIDTH), F)), tf.identity(rows), [ROWS, WIDTH])
        train = tf.train.AdagradOptimizer(0.3).apply_gradients([(grad, variable)])
        session.run(tf.global_variables_initializer())
        for _ in range(4):
            session.run(train, {rows: STEPS[0]})
        assert updates(plans(session))
        before = session.run(variable.read_value())
        with pytest.raises(InvalidArgumentError, match="out of range"):
            session.run(train, {rows: np.array([2, wrong, 2, 1])})
        np.testing.assert_array_equal(session.run(variable.read_value()), before)
        session.run(train, {rows: STEPS[1]})
        assert (session.run(variable.read_value())[[1, 2, 3, 4]] < before[[1, 2, 3, 4]]).all()


def test_many_rows_that_share_places_of_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers far apart, and many of them: each is found again."""
    random = np.random.default_rng(5)
    numbers = random.choice(random.integers(0, 1 << 20, 300), 3000)
    values = random.standard_normal((3000, 2)).astype(F)
    with tf.Graph().as_default(), tf.Session() as session:
        variable = tf.get_variable("t", initializer=np.zeros((1 << 20, 2), F))
        grad = tf.IndexedSlices(tf.placeholder(tf.float32, [3000, 2]), tf.placeholder(tf.int64, [3000]), None)
        train = tf.train.MomentumOptimizer(1.0, 0.0).apply_gradients([(grad, variable)])
        session.run(tf.global_variables_initializer())
        for _ in range(4):
            session.run(train, {grad.values: values, grad.indices: numbers})
        assert updates(plans(session))
        want = np.zeros((1 << 20, 2))
        np.add.at(want, numbers, -4.0 * values)
        np.testing.assert_allclose(session.run(variable.read_value()), want, rtol=1e-4, atol=1e-4)


def test_tables_stay_where_they_are() -> None:
    """Nobody else holds them, so nothing is copied."""
    with tf.Graph().as_default(), tf.Session() as session:
        variable, rows = table(False), tf.placeholder(tf.int64, [4])
        optimizer = tf.train.RMSPropOptimizer(0.1, momentum=0.5)
        train = optimizer.minimize(tf.reduce_sum(tf.square(tf.gather(variable, rows))))
        session.run(tf.global_variables_initializer())
        held = [variable, *(optimizer.get_slot(variable, name) for name in optimizer.get_slot_names())]

        def places() -> list[int]:
            return [session.run(v.read_value()).ctypes.data for v in held]

        for _ in range(4):
            session.run(train, {rows: STEPS[0]})
        assert updates(plans(session))
        before = places()
        for given in STEPS:
            session.run(train, {rows: given})
            assert places() == before


def one_after_the_other(first: Any, rows: Any, values: Any) -> Any:
    table = first.copy()
    for row, value in zip(rows, values):
        table[row] += value
    return table


@pytest.mark.parametrize("by_handle", [False, True])
@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("op", ["scatter_add", "scatter_sub"])
def test_rows_are_added_one_after_the_other(
    op: str, scaled: bool, by_handle: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    sign = F(-1 if op == "scatter_sub" else 1)
    with tf.Graph().as_default(), tf.Session() as session:
        variable, rows = table(by_handle), tf.placeholder(tf.int32, [2, 2])
        values = tf.placeholder(tf.float32, [2, 2, WIDTH])
        update = getattr(tf, op)(variable, rows, values * 0.1 if scaled else values)
        session.run(tf.global_variables_initializer())
        now = session.run(variable.read_value())
        given = np.random.default_rng(1).standard_normal((2, 2, WIDTH)).astype(F)
        flat = given.reshape(4, WIDTH) * (F(0.1) if scaled else F(1)) * sign
        for n, chosen in enumerate([STEPS[0]] * 3 + STEPS):
            if n == 3:
                # It is compiled by now.
                monkeypatch.setattr(kernels_of_rows, "scatter_rows", None)
            session.run(update, {rows: chosen.reshape(2, 2), values: given})
            now = one_after_the_other(now, chosen, flat)
            np.testing.assert_array_equal(session.run(variable.read_value()), now)
        monkeypatch.undo()
        for wrong in (-1, ROWS):
            with pytest.raises(InvalidArgumentError, match=r"indices\[0,1\]"):
                session.run(update, {rows: [[2, wrong], [2, 1]], values: given})
            np.testing.assert_array_equal(session.run(variable.read_value()), now)


@pytest.mark.parametrize("by_rows", [False, True])
def test_ftrl_of_what_is_no_number_and_of_what_has_not_begun(by_rows: bool) -> None:
    """Recorded with TensorFlow 2.21, whose update of whole variables makes zero of it; the first row's gradient is no
    number, the last one's was always zero.
    """
    nothing = np.nan if by_rows else 0.0
    want = [[nothing, 0.06285633], [0.06285633, 0.93714374], [nothing, nothing]]
    for config in (node_by_node(), None):
        with tf.Graph().as_default():
            variable = tf.get_variable("v", initializer=np.full((3, 2), 0.5, F))
            given = tf.placeholder(tf.float32, [3, 2])
            gradient = tf.IndexedSlices(given, tf.unique(tf.range(3) + 0)[0], [3, 2]) if by_rows else given
            optimizer = tf.train.FtrlOptimizer(0.1, initial_accumulator_value=0.0)
            train = optimizer.apply_gradients([(gradient, variable)])
            with tf.Session(config=config) as session:
                session.run(tf.global_variables_initializer())
                for _ in range(8):
                    session.run(train, {given: [[np.nan, 1.0], [1.0, -1.0], [0.0, 0.0]]})
                np.testing.assert_allclose(session.run(variable), want, rtol=1e-5)
