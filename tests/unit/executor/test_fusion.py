"""What nodes of a plan for known shapes do at once has the values of the nodes one by one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import dtfctl.runtime as tf
from dtfctl.protocol import config_pb2
from dtfctl.runtime.executor import shaped, tuner
from dtfctl.runtime.executor.adaptive import Adaptive
from dtfctl.runtime.kernels.compiled import jit, loops
from dtfctl.runtime.kernels.into import parallel, pools, products
from dtfctl.runtime.kernels.nn import conv
from dtfctl.runtime.kernels.onednn import cache, find
from tests.unit.executor.harness import GraphText, Runner, executors_of

F = np.float32


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The first step is observed; everything that can be is in a buffer and, by rows, in parts.

    What other tests left in the default graph is not there: an initializer of all their variables would be the largest.
    """
    monkeypatch.setattr(tuner, "_WARM_UP", 0)
    # What is timed on a busy machine does not choose the plan.
    monkeypatch.setattr(tuner, "worth_running_beside", lambda spent: frozenset())
    monkeypatch.setattr(shaped, "_LEAST_BYTES", 0)
    monkeypatch.setattr(parallel, "LEAST_BYTES", 0)
    monkeypatch.setattr(parallel, "_PART_BYTES", 4096)
    with tf.Graph().as_default():
        yield


def planned(session: Any) -> Any:
    """The plan for known shapes of the largest partition."""
    largest = max(executors_of(session), key=lambda e: len(e.graph))
    assert isinstance(largest.plan, Adaptive)
    return largest.plan.shaped


def done_by_others(plan: Any) -> set[str]:
    return {plan.order[at].op for at, _ in plan.folds}


def network(batch: Any = 8) -> tuple[Any, Any, list[Any], Any]:
    """Images through two convolutions with pooling and a dense layer: (images, labels, variables, train op)."""
    images = tf.placeholder(tf.float32, [batch, 12, 12, 3])
    labels = tf.placeholder(tf.float32, [batch, 5])
    layer, variables = images, []
    rng = np.random.RandomState(0)
    for i, (inputs, outputs) in enumerate([(3, 16), (16, 16)]):
        kernel = tf.Variable(rng.randn(3, 3, inputs, outputs).astype("f4") * 0.2)
        bias = tf.Variable(rng.randn(outputs).astype("f4") * 0.1)
        variables += [kernel, bias]
        layer = tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(layer, kernel, strides=[1, 1, 1, 1], padding="SAME"), bias))
        if i == 0:
            layer = tf.nn.max_pool(layer, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="SAME")
    dense = tf.Variable(rng.randn(6 * 6 * 16, 5).astype("f4") * 0.1)
    logits = tf.matmul(tf.reshape(layer, [-1, 6 * 6 * 16]), dense)
    loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits_v2(labels=labels, logits=logits))
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    return images, labels, [*variables, dense], train


def trained(config: config_pb2.ConfigProto, batches: list[int]) -> tuple[list[Any], set[str]]:
    """The variables after a step on each batch, and the ops that other nodes' lines do."""
    with tf.Graph().as_default():
        images, labels, variables, train = network(None)
        with tf.Session(config=config) as session:
            session.run(tf.global_variables_initializer())
            rng = np.random.default_rng(0)
            for size in batches:
                x = rng.standard_normal((size, 12, 12, 3)).astype(F)
                session.run(train, {images: x, labels: np.eye(5, dtype=F)[rng.integers(0, 5, size)]})
            largest = max(executors_of(session), key=lambda e: len(e.graph))
            plan = largest.plan
            folded = done_by_others(plan.shaped) if isinstance(plan, Adaptive) else set()
            return session.run(variables), folded


def node_by_node() -> config_pb2.ConfigProto:
    config = config_pb2.ConfigProto()
    config.graph_options.rewrite_options.remapping = config_pb2.RewriterConfig.OFF
    return config


def loops_as_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use the loops numba compiles, without compiling them."""
    monkeypatch.setattr(pools, "compiled", lambda loop, *args: loop)


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("batches", [[8] * 6, [8, 8, 8, 4, 8, 8]], ids=["same", "changing"])
@pytest.mark.parametrize("by", ["numpy", "loops", "onednn", "onednn and loops"])
def test_a_network_learns_the_same(monkeypatch: pytest.MonkeyPatch, by: str, batches: list[int]) -> None:
    if "onednn" in by and find.find_library() is None:
        pytest.skip("oneDNN is not installed")
    monkeypatch.setattr(cache, "_LEAST_WORK", 0)
    if "onednn" not in by:
        monkeypatch.setattr(conv, "convolution_for", lambda *args: None)
    want, _ = trained(node_by_node(), batches)
    if "loops" in by:
        loops_as_python(monkeypatch)
    else:
        monkeypatch.setattr(jit, "is_available", lambda: False)
    got, folded = trained(config_pb2.ConfigProto(), batches)
    assert "MatMul" in folded
    assert ({"Conv2D", "BiasAddGrad"} <= folded) == ("onednn" in by)
    assert {"Relu", "MaxPoolGrad"} <= folded
    for a, b in zip(got, want):
        np.testing.assert_allclose(a, b, rtol=2e-3, atol=2e-4)


@pytest.mark.usefixtures("eager")
@pytest.mark.skipif(find.find_library() is None, reason="oneDNN is not installed")
@pytest.mark.parametrize("bias_first", [False, True])
def test_a_product_adds_its_bias(monkeypatch: pytest.MonkeyPatch, bias_first: bool) -> None:
    monkeypatch.setattr(products, "_MOST_ALONE", 0)
    monkeypatch.setattr(products, "_LARGE", 0)
    rng = np.random.default_rng(0)
    x = tf.placeholder(tf.float32, [4, 6])
    w, b = (tf.Variable(rng.standard_normal(shape).astype(F)) for shape in ((6, 5), (5,)))
    product, taken_twice = tf.matmul(x, w), tf.matmul(x * 2.0, w)
    one = b + product if bias_first else product + b
    fetches = [tf.reduce_sum(tf.nn.relu(one), 1), tf.reduce_sum(taken_twice + b, 1), tf.reduce_sum(taken_twice, 1)]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        weights, bias = session.run([w, b])
        for _ in range(6):
            value = rng.standard_normal((4, 6)).astype(F)
            got = session.run(fetches, {x: value})
            plain = value @ weights
            want = [np.maximum(plain + bias, 0).sum(1), (2 * plain + bias).sum(1), 2 * plain.sum(1)]
            for a, wanted in zip(got, want, strict=True):
                np.testing.assert_allclose(a, wanted, rtol=1e-4, atol=1e-5)
        plan = planned(session)
        assert [plan.order[at].name for at, _ in plan.folds if plan.order[at].op == "MatMul"] == [product.op.name]


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("case", ["all", "other rows", "wanted", "not a product", "long"])
def test_products_that_are_added_up_are_one(case: str) -> None:
    """As the gradient of weights that were used several times; not where somebody wants one of them."""
    counts = [300, 300] if case == "long" else [5, 2, 5] if case == "other rows" else [5, 5, 5]
    results = []
    for config in (node_by_node(), None):
        with tf.Graph().as_default():
            rng = np.random.default_rng(0)
            pairs = [[tf.placeholder(tf.float32, [n, size]) for size in (6, 4)] for n in counts]
            feeds = {x: rng.standard_normal(x.shape.as_list()).astype(F) for pair in pairs for x in pair}
            products = [tf.matmul(a * 2.0, b, transpose_a=True) for a, b in pairs]
            total = (
                tf.add_n(
                    [*products, tf.reshape(pairs[0][0], [-1])[:24, None][:6] * tf.ones([6, 4])]
                    if case == "not a product"
                    else products
                )
                * 3.0
            )
            wanted = [total, products[1] + 1.0] if case == "wanted" else [total]
            with tf.Session(config=config) as session:
                for _ in range(4):
                    got = session.run(wanted, feeds)
                if config is None:
                    assert ("MatMul" in done_by_others(planned(session))) is (case in ("all", "other rows"))
            results.append(got)
    for x, y in zip(*results):
        np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-4)


@pytest.mark.usefixtures("eager")
def test_a_rectified_image_that_is_wanted_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    loops_as_python(monkeypatch)
    x = tf.placeholder(tf.float32, [2, 4, 4, 3])
    relu = tf.nn.relu(x)
    pool = tf.nn.max_pool(relu, [1, 2, 2, 1], [1, 2, 2, 1], "SAME")
    gradient = tf.gradients(tf.reduce_sum(pool * pool), x)[0]
    mean = tf.reduce_mean(relu)
    rng = np.random.default_rng(0)
    with tf.Session() as session:
        for _ in range(4):
            image = rng.standard_normal((2, 4, 4, 3)).astype(F)
            image[0, 0, 0, 0] = np.nan
            got_pool, got_gradient, got_mean = session.run([pool, gradient, mean], {x: image})
            rectified = np.maximum(image, 0)
            windows = rectified.reshape(2, 2, 2, 2, 2, 3).transpose(0, 1, 3, 5, 2, 4).reshape(2, 2, 2, 3, 4)
            np.testing.assert_array_equal(got_pool, windows.max(-1))
            assert np.isnan(got_mean)
            finite = np.isfinite(image) & np.isfinite(np.repeat(np.repeat(got_pool, 2, 1), 2, 2))
            largest = rectified == np.repeat(np.repeat(got_pool, 2, 1), 2, 2)
            want = np.where(largest & (image > 0), 2 * rectified, 0)
            np.testing.assert_array_equal(got_gradient[finite], want[finite])


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("wanted", ["nothing", "pool", "relu", "gradient"])
def test_what_a_client_wants_of_a_rectified_pooling(monkeypatch: pytest.MonkeyPatch, wanted: str) -> None:
    loops_as_python(monkeypatch)
    x = tf.placeholder(tf.float32, [3, 4, 6, 5])
    bias = tf.Variable(np.linspace(-1, 1, 5).astype(F))
    relu = tf.nn.relu(tf.nn.bias_add(tf.identity(x) * 1, bias))
    pool = tf.nn.max_pool(relu, [1, 2, 3, 1], [1, 2, 3, 1], "SAME")
    loss = tf.reduce_sum(pool * tf.exp(pool))
    by_bias, by_relu = tf.gradients(loss, [bias, relu])
    fetches = {
        "nothing": [by_bias * 1],
        "pool": [by_bias, pool],
        "relu": [by_bias, relu],
        "gradient": [by_bias, by_relu],
    }
    rng = np.random.default_rng(0)
    images = [rng.integers(-3, 4, (3, 4, 6, 5)).astype(F) for _ in range(4)]
    results = []
    for config in (config_pb2.ConfigProto(), node_by_node()):
        with tf.Session(config=config) as session:
            session.run(tf.global_variables_initializer())
            results.append([session.run(fetches[wanted], {x: image}) for image in images])
            if wanted == "nothing" and len(results) == 1:
                assert {"Relu", "MaxPoolGrad"} <= done_by_others(planned(session))
    for got, want in zip(*results):
        for a, b in zip(got, want):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


def chain(*ops: str) -> GraphText:
    """x through ops of one operand, or of two: the last value and x."""
    g = GraphText()
    g.add("x", "Placeholder", dtype="float32")
    last = "x"
    for i, op in enumerate(ops):
        operands = (last, "x") if op in ("Mul", "AddV2", "Sub", "Maximum") else (last,)
        g.add(f"op{i}", op, *operands, T="float32")
        last = f"op{i}"
    return g


CHAIN = ("Neg", "Exp", "Mul", "Square", "AddV2", "Relu", "Sub", "Maximum", "Tanh")


@pytest.mark.usefixtures("eager")
def test_a_chain_goes_through_in_parts() -> None:
    runner = Runner(chain(*CHAIN).proto)
    rng = np.random.default_rng(0)
    for shape in [(300, 40)] * 3 + [(1, 40), (300, 40), (7, 3), (300, 40)]:
        x = rng.standard_normal(shape).astype(F)
        (got,) = runner.run(["op8:0"], {"x:0": x})
        want = np.maximum(np.square(np.exp(-x) * x) + x, 0) - x
        np.testing.assert_array_equal(got, np.tanh(np.maximum(want, x)))
    plan: Any = runner.executor(["x:0"], ["op8:0"]).plan
    # The last is fetched, so it is not in a buffer; all others are one line.
    assert {plan.shaped.order[at].op for at, _ in plan.shaped.folds} == set(CHAIN[:-2])


@pytest.mark.usefixtures("eager")
def test_a_link_that_is_wanted_before_the_end_ends_the_chain() -> None:
    """The sum is taken of a link between its making and the chain's end; values stay right whatever is merged."""
    g = chain("Neg", "Square", "Mul")
    g.const("axis", np.array([0, 1], np.int32))
    g.add("sum", "Sum", "op1", "axis", T="float32", Tidx="int32", keep_dims=False)
    g.add("scaled", "Mul", "op2", "sum", T="float32")
    g.add("end", "AddV2", "scaled", "op0", T="float32")
    g.add("last", "Neg", "end", T="float32")
    runner = Runner(g.proto)
    rng = np.random.default_rng(0)
    for _ in range(4):
        x = rng.standard_normal((200, 30)).astype(F)
        (got,) = runner.run(["last:0"], {"x:0": x})
        square = np.square(-x)
        np.testing.assert_allclose(got, -(square * x * square.sum() - x), rtol=1e-4, atol=1e-3)


def test_parts_that_cannot_be_cut_are_not() -> None:
    def stage(shape: tuple[int, ...], *inputs: tuple[int, ...]) -> parallel.Stage:
        into = pools.Into(np.add, by_rows=True)
        specs = [pools.Spec(s, np.dtype(F)) for s in inputs]
        return parallel.stage_of(into, specs, [pools.Spec(shape, np.dtype(F))])

    large = (4096, 256)
    assert parallel.in_parts([stage(large, large, (256,)), stage(large, large, (1, 256))]) is not None
    assert parallel.in_parts([stage(large, large, large), stage((2048, 256), large, large)]) is None
    assert parallel.in_parts([stage((1, 1 << 20), (1, 1 << 20))]) is None
    assert parallel.in_parts([stage((8, 8), (8, 8)), stage((8, 8), (8, 8))]) is None


@pytest.mark.skipif(find.find_library() is None, reason="oneDNN is not installed")
@pytest.mark.parametrize("transposed", [(False, False), (True, False), (False, True), (True, True)])
def test_products_by_onednn(transposed: tuple[bool, bool]) -> None:
    found = find.find_library()
    assert found is not None
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((30, 20)).astype(F), rng.standard_normal((20, 7)).astype(F)
    c = rng.standard_normal((30, 7)).astype(F)
    want = c - 0.5 * (a @ b)
    operands = [np.ascontiguousarray(m.T) if t else m for m, t in zip((a, b), transposed)]
    found.add_product(-0.5, *operands, c, *transposed)
    np.testing.assert_allclose(c, want, rtol=1e-4, atol=1e-5)


def test_a_pool_of_what_is_no_number() -> None:
    x = np.array([np.nan, 1, -np.inf, -3, 2, np.nan, -5, -4], F).reshape(1, 2, 4, 1)
    out = np.empty((1, 1, 2, 1), F)
    loops.max_pool(x, out, 2, 2, F(0))
    np.testing.assert_array_equal(out.ravel(), [np.nan, 0])
    loops.max_pool(x[:, :, 2:], out[:, :, 1:], 2, 2, np.finfo(F).min)
    assert out[0, 0, 1, 0] == -3
