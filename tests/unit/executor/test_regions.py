"""Regions of a plan as machine code have the values of their nodes one by one."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import dtfctl.runtime as tf
from dtfctl.runtime.executor import adaptive, shaped, tuner
from dtfctl.runtime.executor.adaptive import Adaptive
from dtfctl.runtime.kernels.native import machine, region
from tests.unit.executor.test_fusion import executors, node_by_node

pytestmark = pytest.mark.skipif(not machine.can_compile(), reason="llvmlite is not installed")

F = np.float32
SHAPE = (6, 4)
# So many units in the last place may results of exponentials and the like, one after the other, differ.
CLOSE = 3e-6


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The first step is observed, and from the second on regions are used."""
    monkeypatch.setenv("DTF_NATIVE", "1")
    monkeypatch.setattr(tuner, "_WARM_UP", 0)
    monkeypatch.setattr(tuner, "worth_running_beside", lambda spent: frozenset())
    monkeypatch.setattr(adaptive, "COMPILED_FROM", 1)
    monkeypatch.setattr(adaptive, "NATIVE_FROM", 1)
    monkeypatch.setattr(shaped, "_LEAST_BYTES", 0)
    yield


def plans(session: Any) -> list[Any]:
    return [e.plan.shaped for e in executors(session) if isinstance(e.plan, Adaptive)]


def regions(session: Any) -> list[Any]:
    """The lines of a session that are regions: the ops each of them stands for."""
    found = []
    for plan in plans(session):
        for at in {by for _, by in plan.folds}:
            found.append({plan.order[n].op for n, by in plan.folds if by == at} | {plan.order[at].op})
    return found


def both(
    make: Callable[[], tuple[Any, dict[Any, Any]]], steps: int = 4, expected: bool = True
) -> tuple[list[Any], list[Any]]:
    """Fetch what a program makes, node by node and with regions, in the last of some steps."""
    results = []
    for config in (node_by_node(), None):
        with tf.Graph().as_default():
            fetches, feeds = make()
            with tf.Session(config=config) as session:
                session.run(tf.global_variables_initializer())
                for _ in range(steps):
                    given = session.run(fetches, feeds)
                results.append(given)
                if config is None and expected:
                    assert any(plan.is_shaped for plan in plans(session))
                    assert regions(session)
    return results[0], results[1]


def same(want: Any, got: Any, close: float = CLOSE) -> None:
    for x, y in zip(want, got):
        assert np.asarray(x).dtype == np.asarray(y).dtype
        np.testing.assert_allclose(y, x, rtol=close, atol=close)


# Any program -----------------------------------------------------------------------------------------------------

UNARY: list[Callable[[Any], Any]] = [
    tf.tanh,
    tf.sigmoid,
    tf.exp,
    tf.nn.softplus,
    tf.nn.relu,
    tf.square,
    tf.negative,
    tf.nn.softmax,
    tf.zeros_like,
    lambda x: tf.sqrt(tf.abs(x) + 1.0),
    lambda x: tf.log(tf.abs(x) + 1.0),
    lambda x: tf.rsqrt(tf.square(x) + 0.5),
    lambda x: tf.transpose(tf.reshape(x, [4, 6])),
    lambda x: tf.reshape(tf.transpose(x), SHAPE),
    lambda x: x - tf.reduce_mean(x, 1, keepdims=True),
    lambda x: x / (1.0 + tf.abs(tf.reduce_sum(x, 0, keepdims=True))),
    lambda x: x + tf.reduce_max(x, [0, 1]),
    lambda x: x * tf.reduce_min(x, 0),
    lambda x: tf.concat([x[:, 2:], x[:, :2]], 1),
    lambda x: tf.concat(tf.split(x, 3, 0)[::-1], 0),
    lambda x: tf.stack(tf.unstack(x, axis=1), 1),
    lambda x: tf.cast(x > 0.25, tf.float32),
    lambda x: tf.where(x > 0.0, x * 0.1, tf.exp(-tf.abs(x))),
    lambda x: tf.tile(tf.reduce_sum(x, 1, keepdims=True), [1, 4]),
]
BINARY: list[Callable[[Any, Any], Any]] = [
    tf.add,
    tf.subtract,
    tf.multiply,
    tf.maximum,
    tf.minimum,
    tf.squared_difference,
    lambda x, y: x / (tf.abs(y) + 1.0),
    lambda x, y: tf.add_n([x, y, x]),
    lambda x, y: tf.where(x > y, x, y),
    lambda x, y: tf.concat([x, y], 0)[3:9],
    lambda x, y: x + y[0],
]


@st.composite
def programs(draw: Any) -> list[tuple[Callable[..., Any], list[int]]]:
    """Each step of a program: what is done, and to which values from before."""
    steps: list[tuple[Callable[..., Any], list[int]]] = []
    for n in range(draw(st.integers(2, 9))):
        of = draw(st.sampled_from([UNARY, BINARY]))
        count = 1 if of is UNARY else 2
        steps.append((draw(st.sampled_from(of)), [draw(st.integers(0, n + 1)) for _ in range(count)]))
    return steps


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(programs(), st.integers(0, 9), st.integers(0, 1000))
def test_any_program_has_its_values(program: Any, kept: int, seed: int) -> None:
    def make() -> tuple[Any, dict[Any, Any]]:
        random = np.random.default_rng(seed)
        inputs = [tf.placeholder(tf.float32, SHAPE) for _ in range(2)]
        values = list(inputs)
        for do, operands in program:
            values.append(tf.clip_by_value(do(*(values[n] for n in operands)), -9.0, 9.0))
        fetched = [values[-1], values[min(kept, len(values) - 1)] * 2.0]
        return fetched, {x: random.standard_normal(SHAPE).astype(F) for x in inputs}

    want, got = both(make, expected=False)
    same(want, got, 3e-5)


@pytest.mark.parametrize("n", range(len(UNARY)))
def test_gradients_of_each(n: int) -> None:
    def make() -> tuple[Any, dict[Any, Any]]:
        x = tf.placeholder(tf.float32, SHAPE)
        y = UNARY[n](x * 1.5) * tf.tanh(x)
        return [y, *tf.gradients(tf.reduce_sum(y * y), [x])], {x: np.linspace(-2, 2.1, 24, dtype=F).reshape(SHAPE)}

    same(*both(make), close=1e-5)


# What numbers are ------------------------------------------------------------------------------------------------

EDGES = np.array([0.0, -0.0, 1.0, -1.5, np.nan, np.inf, -np.inf, 1e-40, -1e-40, 3e38, -3e38, 1e-38], F)


def test_edges_of_numbers() -> None:
    """NaN, infinities, zeros of both signs: bit by bit what numpy's passes give, but for the last places."""

    def make() -> tuple[Any, dict[Any, Any]]:
        x, y = tf.placeholder(tf.float32, [12, 1]), tf.placeholder(tf.float32, [12])
        made = [x + y, x * y, tf.maximum(x, y), tf.minimum(y, x), x / y, tf.nn.relu(x) - y, tf.cast(x < y, tf.float32)]
        made += [tf.tanh(x) + 0.0, tf.sigmoid(x) + 0.0, tf.exp(x) + 0.0, tf.log(x) + 0.0, tf.reduce_max(x + y, 1)]
        return made, {x: EDGES[:, None], y: EDGES}

    want, got = both(make)
    for x, y in zip(want, got):
        np.testing.assert_array_equal(np.isnan(x), np.isnan(y))
        normal = np.isfinite(x) & (np.abs(x) > 1e-37)
        np.testing.assert_allclose(y[normal], x[normal], rtol=1e-6)
        np.testing.assert_array_equal(x[np.isinf(x)], y[np.isinf(x)])


@pytest.mark.parametrize("dtype", [tf.float32, tf.float64, tf.int32, tf.int64])
def test_arithmetic_is_numpys_to_the_last_bit(dtype: Any) -> None:
    def make() -> tuple[Any, dict[Any, Any]]:
        x, y = tf.placeholder(dtype, [5, 7]), tf.placeholder(dtype, [7])
        z = (x + y) * x - y
        return [z, tf.maximum(z, x), -z, tf.reduce_sum(z, 0)], {
            x: np.arange(35).reshape(5, 7) * 3 % 11,
            y: np.arange(7) - 3,
        }

    want, got = both(make)
    for x, y in zip(want, got):
        np.testing.assert_array_equal(x, y)


def test_nothing_has_no_elements() -> None:
    def make() -> tuple[Any, dict[Any, Any]]:
        x = tf.placeholder(tf.float32, [0, 3])
        y = tf.tanh(x) * 2.0 + 1.0
        return [y, tf.reduce_sum(y, 0)], {x: np.zeros((0, 3), F)}

    want, got = both(make, expected=False)
    same(want, got)


# Memory -----------------------------------------------------------------------------------------------------------


def cell(x: Any) -> Any:
    return tf.tanh(x * 2.0) * tf.sigmoid(x) + 1.0


def test_what_was_fetched_stays() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, SHAPE)
        y = cell(x)
        z = tf.reduce_sum(cell(y))
        fetched = [session.run([y, z], {x: np.full(SHAPE, n, F)}) for n in range(6)]
        assert regions(session)
        for n, (value, total) in enumerate(fetched):
            want = np.tanh(2 * F(n)) / (1 + np.exp(-F(n))) + 1
            np.testing.assert_allclose(value, np.full(SHAPE, want), rtol=1e-5)
            assert total > 0


def test_one_array_as_several_operands_and_arrays_that_are_not_contiguous() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        x, y = tf.placeholder(tf.float32, [6, 6]), tf.placeholder(tf.float32, [6, 6])
        z = cell(x) * cell(y) - x
        array = np.arange(36, dtype=F).reshape(6, 6) / 36
        for _ in range(3):
            session.run(z, {x: array, y: array})
        want = session.run(z, {x: array.copy(), y: array.T.copy()})
        np.testing.assert_array_equal(session.run(z, {x: array, y: array.T}), want)
        assert regions(session)


def test_other_shapes_are_run_all_the_same() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [None, 3])
        y = cell(x) + tf.cast(tf.shape(x)[0], tf.float32)
        for rows in (4, 4, 4, 2, 4, 1):
            value = np.full((rows, 3), 0.5, F)
            want = np.tanh(F(1)) / (1 + np.exp(-F(0.5))) + 1 + rows
            np.testing.assert_allclose(session.run(y, {x: value}), np.full((rows, 3), want), rtol=1e-6)


def test_variables_learn_the_same() -> None:
    def make() -> tuple[Any, dict[Any, Any]]:
        x = tf.placeholder(tf.float32, [8, 5])
        w = tf.Variable(np.linspace(-1, 1, 20, dtype=F).reshape(5, 4))
        b = tf.Variable(np.zeros(4, F))
        y = tf.tanh(tf.matmul(x, w) + b)
        loss = tf.reduce_mean(tf.square(y - 0.25))
        train = tf.train.AdamOptimizer(0.1).minimize(loss)
        with tf.control_dependencies([train]):
            return [tf.identity(loss), w.read_value(), b.read_value()], {
                x: np.linspace(-2, 2, 40, dtype=F).reshape(8, 5)
            }

    same(*both(make, steps=8), close=2e-5)


def test_loops_learn_the_same() -> None:
    def make() -> tuple[Any, dict[Any, Any]]:
        x = tf.placeholder(tf.float32, [4, 6])
        w = tf.Variable(np.linspace(-1, 1, 36, dtype=F).reshape(6, 6))

        def body(n: Any, state: Any) -> tuple[Any, Any]:
            return n + 1, tf.tanh(tf.matmul(state, w) + x) * tf.sigmoid(state)

        _, state = tf.while_loop(lambda n, _: n < 5, body, (0, x))
        loss = tf.reduce_mean(tf.square(state))
        return [loss, *tf.gradients(loss, [w, x])], {x: np.linspace(-2, 2, 24, dtype=F).reshape(4, 6)}

    same(*both(make, steps=6, expected=False), close=1e-5)


def test_large_regions_are_shared_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(region, "_LEAST_BYTES_SHARED", 0)

    def make() -> tuple[Any, dict[Any, Any]]:
        x = tf.placeholder(tf.float32, [64, 40])
        y = tf.nn.softmax(tf.tanh(x) * 3.0)
        z = y * tf.rsqrt(tf.reduce_mean(tf.square(y), 1, keepdims=True) + 1e-3)
        return [z, tf.reduce_sum(z, 0)], {x: np.random.default_rng(0).standard_normal((64, 40)).astype(F)}

    same(*both(make), close=1e-5)


# What it costs ----------------------------------------------------------------------------------------------------


def test_code_is_kept_and_half_of_it_is_not_run(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    machine._folder.cache_clear()
    try:
        # It returns what it is given as `self`, with a reference of its own.
        text = """define ptr @region(ptr %self, ptr %args, i64 %count) {
  %held = load i64, ptr %self
  %more = add i64 %held, 1
  store i64 %more, ptr %self
  ret ptr %self
}
"""
        first = machine.load(text, "region")
        (kept,) = (tmp_path / "dtfctl" / "native").iterdir()
        assert kept.stat().st_mode & 0o077 == 0
        whole = kept.read_bytes()
        kept.write_bytes(whole[:-9])
        assert machine.load(text, "region")() is not None
        assert kept.read_bytes() == whole
        assert first() is not None
        (tmp_path / "dtfctl" / "native").chmod(0o777)
        machine._folder.cache_clear()
        assert machine._folder() is None
    finally:
        machine._folder.cache_clear()


def test_sessions_let_go_of_their_code() -> None:
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, SHAPE)
        y = cell(x)
        session = tf.Session()
        for _ in range(3):
            session.run(y, {x: np.ones(SHAPE, F)})
        assert regions(session)
        plan = weakref.ref(plans(session)[0])
        session.close()
        del session
    gc.collect()
    assert plan() is None


def test_steps_beside_each_other() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, SHAPE)
        y = tf.reduce_sum(cell(cell(x)), 1)
        wanted = {n: session.run(y, {x: np.full(SHAPE, n, F)}) for n in range(4)}
        wrong: list[Any] = []

        def work(n: int) -> None:
            for _ in range(20):
                got = session.run(y, {x: np.full(SHAPE, n, F)})
                if not np.allclose(got, wanted[n], rtol=1e-5):
                    wrong.append(got)

        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong
