"""Products that share a factor or a sum give what they gave one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import dtfctl.runtime as tf
from dtfctl.protocol import config_pb2
from dtfctl.runtime.compiler.passes.products import share_products
from dtfctl.runtime.framework.node_graph import NodeGraph

F = np.float32
STEPS = 6


@pytest.fixture(autouse=True)
def graph() -> Iterator[None]:
    with tf.Graph().as_default():
        yield


def _random(*shape: int, dtype: Any = F) -> Any:
    return np.random.RandomState(sum(shape)).standard_normal(shape).astype(dtype)


def _ops(shared: bool = True) -> dict[str, int]:
    """Count the ops of the graph and of its loops' bodies, as a task has them."""
    found = NodeGraph.from_graph_def(tf.get_default_graph().as_graph_def())
    if shared:
        share_products(found)
    counts: dict[str, int] = {}
    nodes = [n.op for n in found]
    for node in found:
        if node.op in ("While", "StatelessWhile"):
            body = found.library.find(node.raw_attrs["body"].func.name)
            assert body is not None
            nodes += [n.op for n in body.node_def]
    for op in nodes:
        counts[op] = counts.get(op, 0) + 1
    return counts


def _plainly() -> Any:
    """Options by which tasks run nodes as they are."""
    options = config_pb2.ConfigProto()
    options.graph_options.rewrite_options.remapping = 2
    return options


def _same(fetches: Any, feeds: Any, train: Any = None) -> list[Any]:
    """Run steps as they are and with what is shared, and compare; return the last values."""
    found = []
    for config in (_plainly(), None):
        with tf.Session(config=config) as session:
            session.run(tf.global_variables_initializer())
            values = []
            for _ in range(STEPS):
                values.append(session.run(fetches, feeds))
                if train is not None:
                    session.run(train, feeds)
            found.append(values)
    for plain, shared in zip(*found):
        for a, b in zip(plain, shared):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5 * np.abs(a).max())
    return list(found[1][-1])


def _recurrent(rows: int, size: int, units: int, steps: int, dtype: Any = F) -> tuple[Any, Any, Any]:
    """Make a simple net that runs in a loop: what it is fed, its weights and its last state."""
    x = tf.placeholder(dtype, [steps, rows, size])
    w = tf.get_variable("w", initializer=_random(size + units, units, dtype=dtype) / F(np.sqrt(size + units)))
    inputs = tf.TensorArray(dtype, steps).unstack(x)

    def body(n: Any, state: Any) -> Any:
        row = inputs.read(n)
        row.set_shape([rows, size])
        return n + 1, tf.tanh(tf.matmul(tf.concat([row, state], 1), w))

    zeros = tf.zeros([rows, units], dtype)
    _, last = tf.while_loop(lambda n, _: n < steps, body, (0, zeros))
    return x, w, last


@pytest.mark.parametrize("dtype", [F, np.float64])
@pytest.mark.parametrize(("rows", "size", "units"), [(8, 40, 280), (300, 24, 260), (5, 3, 4)])
def test_a_loop_and_its_gradient(rows: int, size: int, units: int, dtype: Any) -> None:
    """Rows are gathered over iterations, in several goes; many at once are multiplied as they come."""
    x, w, last = _recurrent(rows, size, units, 40, dtype)
    loss = tf.reduce_mean(tf.square(last))
    gradient = tf.gradients(loss, w)[0]
    train = tf.train.GradientDescentOptimizer(0.5).minimize(loss)
    _same([loss, gradient, last], {x: _random(40, rows, size, dtype=dtype)}, train)
    ops = _ops()
    # Forward, and by the state in both gradients.
    assert ops["_MatMulByFactor"] == 1 + 2
    assert ops.get("_AddProduct", 0) == (2 if (size + units) * units >= 1 << 16 else 0)


def test_a_loop_of_no_iterations() -> None:
    x = tf.placeholder(F, [4, 300])
    w = tf.get_variable("w", initializer=_random(300, 300))
    count = tf.placeholder(tf.int32, [])
    _, last = tf.while_loop(lambda n, _: n < count, lambda n, s: (n + 1, tf.matmul(s, w)), (0, x))
    gradient = tf.gradients(last, w)[0]
    value = _random(4, 300)
    assert _same([last, gradient], {x: value, count: 0})[1].any() == np.False_
    _same([last, gradient], {x: value, count: 3})
    assert _ops()["_AddProduct"] == 1


def test_a_factor_is_as_it_was_when_the_step_read_it() -> None:
    """Each step updates the weights in place that the next one's products have again."""
    x, w, last = _recurrent(32, 16, 256, 5)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        update = tf.assign_add(w, tf.ones_like(w) * 0.01)
        given = _random(5, 32, 16)
        for _ in range(STEPS):
            weights = session.run(w)
            state = np.zeros((32, 256), F)
            for row in given:
                state = np.tanh(np.concatenate([row, state], 1) @ weights)
            np.testing.assert_allclose(session.run(last, {x: given}), state, rtol=1e-3, atol=1e-4)
            session.run(update)


@pytest.mark.parametrize(("rows", "size"), [(32, 256), (4, 6), (256, 600)])
def test_products_outside_of_loops(rows: int, size: int) -> None:
    x = tf.placeholder(F, [rows, size])
    w = tf.get_variable("w", initializer=_random(size, size) / F(np.sqrt(size)))
    y = x
    for _ in range(4):
        y = tf.tanh(tf.matmul(y, w))
    loss = tf.reduce_sum(tf.square(y))
    gradient = tf.gradients(loss, w)[0]
    train = tf.train.GradientDescentOptimizer(1e-5).minimize(loss)
    _same([loss, gradient], {x: _random(rows, size)}, train)
    ops = _ops()
    assert ops["_Factor"] == 1 and ops["_MatMulByFactor"] == 4 + 4 * 2


@pytest.mark.parametrize("size", [6, 300])
def test_a_factor_whose_rows_do_not_lie_one_after_the_other(size: int) -> None:
    """Libraries are told where it begins, and that is of a copy, which has to stay until it has been read."""
    x = tf.placeholder(F, [64, size])
    w = tf.transpose(tf.get_variable("w", initializer=_random(size, size) / F(np.sqrt(size))))
    found = []
    for transposed in (False, True):
        y = x
        for _ in range(6):
            y = tf.tanh(tf.matmul(y, w, transpose_b=transposed))
        found.append(y)
    _same(found, {x: _random(64, size)})
    assert _ops()["_Factor"] == 1


def test_a_reference_is_no_factor() -> None:
    """It may be another value for each product that reads it."""
    w = tf.get_variable("w", initializer=_random(6, 6), use_resource=False)
    y = x = tf.placeholder(F, [2, 6], name="x")
    for _ in range(6):
        y = tf.matmul(y, w)
    proto = tf.get_default_graph().as_graph_def()
    for node in proto.node:
        if node.op == "MatMul":
            node.input[1] = w.op.name
    with tf.Graph().as_default():
        tf.import_graph_def(proto, name="")
        assert "_Factor" not in _ops()
        with tf.Session() as session:
            session.run(w.initializer.name)
            value = _random(2, 6)
            want = value @ np.linalg.matrix_power(_random(6, 6), 6)
            for _ in range(STEPS):
                np.testing.assert_allclose(session.run(y.name, {x.name: value}), want, rtol=1e-3)


def test_a_factor_of_few_products_stays() -> None:
    x = tf.placeholder(F, [8, 6])
    w = tf.get_variable("w", initializer=_random(6, 6))
    losses = [tf.reduce_sum(tf.tanh(tf.matmul(x * k, w))) for k in (1.0, 2.0)]
    _same([tf.gradients(losses, w)[0]], {x: _random(8, 6)})
    assert "_Factor" not in _ops()


def _swapped(w: Any, v: Any) -> Callable[..., Any]:
    return lambda n, a, b, y: (n + 1, b, a, tf.matmul(y, a))


@pytest.mark.parametrize(
    "body",
    [
        _swapped,
        lambda w, v: lambda n, a, b, y: (n + 1, a, b, tf.matmul(y, a) + a[0]),
        lambda w, v: lambda n, a, b, y: (n + 1, a, b, tf.matmul(tf.matmul(a, a), y)),
        lambda w, v: lambda n, a, b, y: (n + 1, a, b, tf.matmul(y, a, transpose_a=True)),
        lambda w, v: lambda n, a, b, y: (n + 1, a * 0.5, b, tf.matmul(y, a)),
    ],
    ids=["swapped", "read otherwise", "first and second factor", "of what is transposed", "changed"],
)
def test_what_is_no_factor_stays(body: Callable[..., Any]) -> None:
    w, v = (tf.constant(_random(6, 6) * k) for k in (1, 2))
    start = tf.placeholder(F, [6, 6])
    *_, y = tf.while_loop(lambda n, *_: n < 3, body(w, v), (0, w, v, start))
    _same([y], {start: _random(6, 6)})
    assert "_MatMulByFactor" not in _ops()


def test_sums_that_are_looked_at_stay() -> None:
    """What a loop gives of each iteration's sum needs all of it then."""
    x = tf.placeholder(F, [3, 300])

    def body(n: Any, total: Any, seen: Any) -> Any:
        total = tf.add_n([total, tf.matmul(x, x, transpose_a=True)])
        return n + 1, total, seen + total[0, 0]

    _, total, seen = tf.while_loop(lambda n, *_: n < 4, body, (0, tf.zeros([300, 300]), 0.0))
    _same([total, seen], {x: _random(3, 300)})
    assert "_AddProduct" not in _ops()


def test_shapes_that_do_not_fit_are_refused_as_before() -> None:
    x = tf.placeholder(F, [None, None])
    w = tf.get_variable("w", initializer=_random(6, 6))
    y = x
    for _ in range(6):
        y = tf.matmul(y, w)
    assert _ops()["_MatMulByFactor"] == 6
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(STEPS):
            session.run(y, {x: _random(2, 6)})
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"Matrix size-incompatible: In\[0\]: \[2,5\]"):
            session.run(y, {x: _random(2, 5)})
