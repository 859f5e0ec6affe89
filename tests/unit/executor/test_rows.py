"""Rows of tables in plans for known shapes: taken into the memory they are sent from, changed by a product at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import dtfctl.runtime as tf
from dtfctl.runtime.executor import shaped, tuner
from dtfctl.runtime.executor.executor import Executor
from dtfctl.runtime.framework.cancellation import CancellationToken
from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.framework.node_graph import NodeGraph
from dtfctl.runtime.kernels.state import scatter_update
from dtfctl.runtime.memory.shared_memory import common_arena
from tests.unit.executor.harness import GraphText, LocalRendezvous, Runner
from tests.unit.executor.test_fusion import done_by_others, planned

F = np.float32
HEIGHT = 12


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The first step is observed, and everything that can be is in a buffer."""
    monkeypatch.setattr(tuner, "_WARM_UP", 0)
    monkeypatch.setattr(tuner, "worth_running_beside", lambda spent: frozenset())
    monkeypatch.setattr(shaped, "_LEAST_BYTES", 0)
    yield


@pytest.fixture(params=["numpy", "loop"])
def by_loop(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Rows are added and taken by numpy, or by the loops that numba compiles elsewhere."""
    by_loop: bool = request.param == "loop"
    monkeypatch.setattr(scatter_update, "compiled", lambda loop, *args: loop if by_loop else None)
    return by_loop


class Table:
    """A table, a look-up of rows and their update by a gradient."""

    def __init__(self, by_handle: bool, rows: int) -> None:
        self.start = np.random.default_rng(0).standard_normal((HEIGHT, 3)).astype(F)
        self.variable = tf.Variable(self.start, use_resource=by_handle)
        self.ids = tf.placeholder(tf.int32, [rows])
        self.gradient = tf.placeholder(tf.float32, [rows, 3])
        self.found = tf.gather(self.variable, self.ids)
        slices = tf.IndexedSlices(self.gradient, self.ids, dense_shape=[HEIGHT, 3])
        optimizer = tf.train.GradientDescentOptimizer(0.125)
        with tf.control_dependencies([self.found]):
            self.update = optimizer.apply_gradients([(slices, self.variable)])
        self.session = tf.Session()
        self.session.run(tf.global_variables_initializer())

    def step(self, ids: Any, gradient: Any) -> Any:
        return self.session.run([self.found, self.update], {self.ids: ids, self.gradient: gradient})[0]


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("by_handle", [False, True])
def test_a_scaled_update_is_one_pass(by_handle: bool, by_loop: bool) -> None:
    with tf.Graph().as_default():
        table = Table(by_handle, 40)
        rng = np.random.default_rng(1)
        want = table.start.copy()
        for _ in range(5):
            ids = rng.integers(0, HEIGHT, 40).astype(np.int32)
            gradient = rng.standard_normal((40, 3)).astype(F)
            np.testing.assert_array_equal(table.step(ids, gradient), want[ids])
            for row, change in zip(ids, gradient):
                want[row] -= change * F(0.125)
        np.testing.assert_allclose(table.session.run(table.variable), want, rtol=1e-5, atol=1e-6)
        done = done_by_others(planned(table.session))
        assert done == (({"Mul", "Neg"} if by_handle else {"Mul"}) if by_loop else set())
        table.session.close()


@pytest.mark.usefixtures("eager")
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_rows_by_the_loop_and_by_numpy(monkeypatch: pytest.MonkeyPatch, data: st.DataObject) -> None:
    rows = data.draw(st.integers(1, 70))
    by_handle = data.draw(st.booleans())
    steps = data.draw(st.lists(st.lists(st.integers(0, HEIGHT - 1), min_size=rows, max_size=rows), max_size=4))
    results = []
    for by_loop in (False, True):
        monkeypatch.setattr(scatter_update, "compiled", lambda loop, *args, by=by_loop: loop if by else None)
        with tf.Graph().as_default():
            table = Table(by_handle, rows)
            rng = np.random.default_rng(2)
            # Eighths and quarters are summed without rounding, in whatever order.
            found = [table.step(ids, rng.integers(-8, 8, (rows, 3)).astype(F) / 4) for ids in steps]
            results.append([*found, table.session.run(table.variable)])
            table.session.close()
    for a, b in zip(*results):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("by_handle", [False, True])
@pytest.mark.parametrize("bad", [-1, HEIGHT])
def test_indices_out_of_range_change_nothing(by_handle: bool, bad: int, by_loop: bool) -> None:
    with tf.Graph().as_default():
        variable = tf.Variable(np.ones((HEIGHT, 3), F), use_resource=by_handle)
        ids = tf.placeholder(tf.int32, [2])
        update = tf.scatter_sub(variable, ids, tf.constant(np.ones((2, 3), F)) * tf.constant(0.5))
        found = tf.gather(variable, ids)
        with tf.Session() as session:
            session.run(variable.initializer)
            for fetch in (update, found):
                for _ in range(4):
                    session.run(fetch, {ids: [3, 5]})
                before = session.run(variable)
                with pytest.raises(InvalidArgumentError, match=rf"indices\[1\] = {bad} is not in \[0, {HEIGHT}\)"):
                    session.run(fetch, {ids: [3, bad]})
                np.testing.assert_array_equal(session.run(variable), before)
                session.run(fetch, {ids: [0, 1]})


@pytest.mark.usefixtures("eager")
def test_a_table_of_another_shape_is_seen() -> None:
    with tf.Graph().as_default():
        variable = tf.Variable(np.ones((4, 3), F), use_resource=True, validate_shape=False)
        start = tf.placeholder(tf.float32)
        ids = tf.placeholder(tf.int32, [2])
        found, assign = tf.gather(variable, ids), tf.assign(variable, start, validate_shape=False)
        with tf.Session() as session:
            session.run(variable.initializer)
            for _ in range(3):
                session.run(found, {ids: [0, 3]})
            wide = np.arange(20, dtype=F).reshape(4, 5)
            session.run(assign, {start: wide})
            np.testing.assert_array_equal(session.run(found, {ids: [0, 3]}), wide[[0, 3]])
            session.run(assign, {start: np.float32(1)})
            with pytest.raises(InvalidArgumentError, match="at least 1"):
                session.run(found, {ids: [0, 3]})


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("axis", [0, 1])
def test_rows_for_other_tasks_are_taken_where_those_see_them(axis: int) -> None:
    across = {"send_device": "/a", "recv_device": "/b", "send_device_incarnation": -1}
    arena = common_arena()
    g = GraphText()
    g.add("x", "_Recv", tensor_type="float32", tensor_name="x:0", client_terminated=True, **across)
    g.add("ids", "_Recv", tensor_type="int64", tensor_name="ids:0", client_terminated=True, **across)
    g.const("axis", np.int32(axis))
    g.add("y", "GatherV2", "x", "ids", "axis", Tparams="float32", Tindices="int64", Taxis="int32", batch_dims=0)
    g.add("out", "_Send", "y", T="float32", tensor_name="out", **across)
    runner = Runner(GraphText().proto)
    executor = Executor(NodeGraph.from_graph_def(g.proto), runner.device, runner.resources, runner.kernels)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 200)).astype(F)
    ids = [rng.integers(0, 200, 150) for _ in range(4)]
    sent = []
    for given_ids in ids:
        rendezvous, token = LocalRendezvous(), CancellationToken()
        rendezvous.send("client;x:0", x, False)
        rendezvous.send("client;ids:0", given_ids, False)
        executor.run(runner.step(rendezvous, token))
        sent.append(rendezvous.recv(f"/a;{2**64 - 1:016x};/b;out;0:0", token)[0])
    assert [arena.block_of(array) is not None for array in sent] == [False, *[axis == 0] * 3]
    for given_ids, array in zip(ids, sent):
        np.testing.assert_array_equal(array, x.take(given_ids, axis))


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("by_handle", [False, True])
def test_looking_at_a_step_copies_no_table(monkeypatch: pytest.MonkeyPatch, by_handle: bool) -> None:
    """What is noted of a step holds no table, which would then be copied before its rows are changed."""
    shape = (1 << 10, 300)
    copied, copyto = [], np.copyto

    def copy(to: Any, what: Any) -> None:
        copied.append(to.shape)
        copyto(to, what)

    with tf.Graph().as_default(), tf.Session() as session:
        start = tf.placeholder(tf.float32, shape)
        table = tf.Variable(start, use_resource=by_handle)
        ids = tf.placeholder(tf.int32, [3])
        found = tf.reduce_sum(tf.gather(table, ids))
        with tf.control_dependencies([found]):
            update = tf.scatter_add(table, ids, tf.ones([3, 300]))
            # Fetching the table itself would copy it.
            update = tf.group(update)
        session.run(table.initializer, {start: np.zeros(shape, F)})
        # The initial value may be the client's.
        session.run(tf.scatter_add(table, [0], tf.zeros([1, 300])))
        monkeypatch.setattr(np, "copyto", copy)
        for step in range(5):
            session.run([found, update], {ids: [0, 1, step]})
    assert shape not in copied
