"""Mixed precision: factors on losses against TensorFlow 2.21's numbers, the rewrite against its choice of nodes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import dtfctl.runtime as tf
from dtfctl.protocol import config_pb2
from dtfctl.runtime.framework.precision import MIXED
from dtfctl.runtime.kernels.into import low_precision
from dtfctl.runtime.kernels.onednn.find import find_library
from dtfctl.runtime.kernels.onednn.library import multiplies_bfloat16

ON, OFF = config_pb2.RewriterConfig.ON, config_pb2.RewriterConfig.OFF
BFLOAT16, FLOAT16 = "auto_mixed_precision_onednn_bfloat16", "auto_mixed_precision_cpu"


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    with tf.Graph().as_default():
        yield
    MIXED.dtype, MIXED.is_late = None, False


def config(*switches: str) -> Any:
    made = tf.ConfigProto()
    for switch in switches:
        setattr(made.graph_options.rewrite_options, switch, ON)
    return made


# By TensorFlow 2.21: the factor on the input, then the variable, the step, the scale and the good steps after it.
STEPS = [
    (1, 0.90000004, 1, 32768, 1),
    (1, 0.8004126, 2, 32768, 2),
    (1, 0.7015873, 3, 65536, 0),
    (np.inf, 0.7015873, 3, 32768, 0),
    (1, 0.60394037, 4, 32768, 1),
    (np.nan, 0.60394037, 4, 16384, 0),
    (1, 0.5079652, 5, 16384, 1),
    (2, 0.41028404, 6, 16384, 2),
    (3, 0.31108123, 7, 32768, 0),
    (1e36, 0.31108123, 7, 16384, 0),
    (1e36, 0.31108123, 7, 8192, 0),
    (0, 0.22362794, 8, 8192, 1),
    (0, 0.14599258, 9, 8192, 2),
]


@pytest.mark.parametrize("use_resource", [False, True])
def test_steps_are_scaled_and_skipped_as_tensorflow_does(use_resource: bool) -> None:
    x = tf.placeholder(tf.float32, [])
    v = tf.get_variable("v", initializer=np.float32(1.0), use_resource=use_resource)
    scale = tf.train.experimental.DynamicLossScale(increment_period=3)
    optimizer = tf.train.experimental.MixedPrecisionLossScaleOptimizer(tf.train.AdamOptimizer(0.1), scale)
    step = tf.train.get_or_create_global_step()
    train = optimizer.minimize(v * v * x, global_step=step)
    good = next(w for w in tf.global_variables() if w.op.name == "good_steps")
    assert sorted(w.op.name for w in tf.global_variables()) == [
        "cond_1/beta1_power",
        "cond_1/beta2_power",
        "current_loss_scale",
        "global_step",
        "good_steps",
        "v",
        "v/Adam",
        "v/Adam_1",
    ]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for factor, *want in STEPS:
            session.run(train, {x: factor})
            got = session.run([v, step, scale(), good])
            assert got[0] == np.float32(want[0]), factor
            assert got[1:] == want[1:], factor


def test_factors_are_tensorflows() -> None:
    mixed = tf.mixed_precision
    assert mixed.DynamicLossScale().get_config() == {
        "initial_loss_scale": 32768.0,
        "increment_period": 2000,
        "multiplier": 2.0,
    }
    assert mixed.FixedLossScale.from_config(mixed.FixedLossScale(8).get_config()).get_config() == {
        "loss_scale_value": 8.0
    }
    assert mixed.experimental.FixedLossScale is tf.train.experimental.FixedLossScale
    assert tf.compat.v1.mixed_precision.LossScale is mixed.LossScale
    with pytest.raises(ValueError, match="at least 1"):
        mixed.FixedLossScale(0.5)
    with pytest.raises(ValueError, match="int or float"):
        mixed.FixedLossScale("2")
    with pytest.raises(ValueError, match="Could not interpret loss scale identifier: large"):
        mixed.MixedPrecisionLossScaleOptimizer(tf.train.GradientDescentOptimizer(1.0), "large")
    with pytest.raises(ValueError, match="must be an instance of Optimizer"):
        mixed.MixedPrecisionLossScaleOptimizer(object(), "dynamic")


def test_a_scale_at_the_end_of_float32_stays() -> None:
    scale = tf.mixed_precision.DynamicLossScale(2.0**127, increment_period=1)
    update, wanted = scale.update([tf.constant(1.0), None])
    least = tf.mixed_precision.DynamicLossScale(1.0)
    shrink, unwanted = least.update({"a": tf.constant(np.inf)})
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run([update, shrink])
        assert session.run([scale(), wanted, least(), unwanted]) == [2.0**127, True, 1.0, False]


def test_sparse_gradients_are_scaled_back() -> None:
    table = tf.get_variable("table", initializer=np.ones((4, 2), np.float32))
    rows = tf.nn.embedding_lookup(table, [1, 3, 1])
    inner = tf.train.GradientDescentOptimizer(0.5)
    train = tf.mixed_precision.MixedPrecisionLossScaleOptimizer(inner, 1024).minimize(tf.reduce_sum(rows))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(train)
        assert session.run(table).tolist() == [[1, 1], [0, 0], [1, 1], [0.5, 0.5]]


def test_small_gradients_survive_by_the_factor() -> None:
    v = tf.get_variable("v", initializer=np.float32(1.0))
    # What is less than 6e-8 is nothing in float16.
    loss = tf.cast(tf.cast(v, tf.float16) * tf.constant(1e-4, tf.float16), tf.float32) * 1e-6
    plain = tf.train.GradientDescentOptimizer(1.0)
    bare = plain.compute_gradients(loss)[0][0]
    scaled = tf.mixed_precision.MixedPrecisionLossScaleOptimizer(plain, 2**15).compute_gradients(loss)[0][0]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        none, some = session.run([bare, scaled])
    assert none == 0.0
    assert some == pytest.approx(1e-10, rel=0.05)


def test_sessions_made_after_the_switch_have_it(caplog: pytest.LogCaptureFixture) -> None:
    seen = tf.Session()
    assert seen._config.graph_options.rewrite_options.auto_mixed_precision != ON
    optimizer = tf.train.GradientDescentOptimizer(1.0)
    enable = tf.train.experimental.enable_mixed_precision_graph_rewrite
    wrapped = enable(optimizer)
    assert "will not affect these Sessions" in caplog.text
    assert isinstance(wrapped, tf.train.experimental.MixedPrecisionLossScaleOptimizer)
    assert tf.Session()._config.graph_options.rewrite_options.auto_mixed_precision == ON
    own = tf.ConfigProto()
    own.graph_options.rewrite_options.auto_mixed_precision = OFF
    assert tf.Session(config=own)._config.graph_options.rewrite_options.auto_mixed_precision == OFF
    with pytest.raises(ValueError, match="must not already be an instance"):
        enable(wrapped)
    with pytest.raises(ValueError, match=r"must be an instance of a tf\.train\.Optimizer"):
        enable("adam")
    with pytest.raises(ValueError, match="float16 or bfloat16"):
        enable(optimizer, dtype=tf.float64)
    enable(optimizer, 8, tf.bfloat16)
    rewrites = tf.Session()._config.graph_options.rewrite_options
    assert (rewrites.auto_mixed_precision, getattr(rewrites, BFLOAT16)) == (0, ON)
    tf.mixed_precision.disable_mixed_precision_graph_rewrite()
    assert getattr(tf.Session()._config.graph_options.rewrite_options, BFLOAT16) == 0


# Of the graph below, those that TensorFlow 2.21 computes in bfloat16 on a CPU (its fused nodes by their parts).
CHOSEN = """
BiasAdd Conv2D MatMul MatMul_1 MaxPool Neg Relu Reshape Tanh add add_1 gradients/BiasAdd_grad/BiasAddGrad
gradients/Conv2D_grad/Conv2DBackpropFilter gradients/MatMul_1_grad/MatMul gradients/MatMul_1_grad/MatMul_1
gradients/MatMul_grad/MatMul gradients/MatMul_grad/MatMul_1 gradients/MaxPool_grad/MaxPoolGrad
gradients/Relu_grad/ReluGrad gradients/Reshape_grad/Reshape
"""
# TensorFlow's losses of the first steps in bfloat16, and in float32.
LOSSES = [2.3356731, 2.327811, 2.3204069, 2.3138626, 2.3068562, 2.3006823]


def _network() -> tuple[Any, Any, Any]:
    random = np.random.RandomState(0)

    def weights(name: str, *shape: int) -> Any:
        return tf.get_variable(name, initializer=(random.randn(*shape) * 0.1).astype(np.float32))

    x = tf.placeholder(tf.float32, [8, 12, 12, 1], name="x")
    y = tf.constant(np.arange(8) % 10, tf.int64, name="y")
    h = tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(x, weights("k1", 3, 3, 1, 8), [1, 1, 1, 1], "SAME"), weights("b1", 8)))
    h = tf.reshape(tf.nn.max_pool(h, [1, 2, 2, 1], [1, 2, 2, 1], "SAME"), [8, 6 * 6 * 8])
    h = tf.tanh(tf.matmul(h, weights("w1", 288, 32)) + weights("b2", 32))
    h = tf.nn.relu(h * tf.exp(-h))
    logits = tf.matmul(h, weights("w2", 32, 10)) + weights("b3", 10)
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits), name="loss")
    return x, loss, tf.train.GradientDescentOptimizer(0.1).minimize(loss, name="train")


def test_the_same_nodes_are_computed_in_bfloat16_as_by_tensorflow() -> None:
    x, loss, train = _network()
    images = np.random.RandomState(1).rand(8, 12, 12, 1).astype(np.float32)
    options, metadata = tf.RunOptions(output_partition_graphs=True), tf.RunMetadata()
    with tf.Session(config=config(BFLOAT16)) as session:
        session.run(tf.global_variables_initializer())
        first, _ = session.run([loss, train], {x: images}, options=options, run_metadata=metadata)
        losses = [first, *(session.run([loss, train], {x: images})[0] for _ in range(5))]
    low = {
        node.name
        for graph in metadata.partition_graphs
        for node in graph.node
        if node.attr["T"].type == tf.bfloat16.as_datatype_enum and node.op != "Identity"
    }
    assert low == set(CHOSEN.split())
    assert losses[0].dtype == np.float32
    np.testing.assert_allclose(losses, LOSSES, atol=2e-3)


def test_an_op_of_a_program_says_itself_what_less_precision_does() -> None:
    for name, flag in (("PrecisionMoved", "!precision(clear)"), ("PrecisionKept", "!stateful")):
        tf.define_op(f"{name}(x: T) -> (y: T); T: type in {{float, bfloat16}}; {flag}", shape="unchanged")
        tf.register_kernel(name, T=(tf.float32, tf.bfloat16))(lambda build: lambda x: x)
    product = tf.matmul(tf.placeholder_with_default(np.eye(2, dtype=np.float32), [2, 2]), [[1.0, 2.0], [3.0, 4.0]])
    ends = [tf.apply_op(name, x=product, name=name) + 1.0 for name in ("PrecisionMoved", "PrecisionKept")]
    options, metadata = tf.RunOptions(output_partition_graphs=True), tf.RunMetadata()
    with tf.Session(config=config(BFLOAT16)) as session:
        session.run(ends, options=options, run_metadata=metadata)
    types = {node.name: node.attr["T"].type for graph in metadata.partition_graphs for node in graph.node}
    assert types["PrecisionMoved"] == tf.bfloat16.as_datatype_enum
    assert types["PrecisionKept"] == tf.float32.as_datatype_enum


def test_what_is_fetched_keeps_its_type_and_loops_agree() -> None:
    w = tf.constant(np.eye(16, dtype=np.float32) * 1.5)
    x = tf.placeholder(tf.float32, [4, 16])
    product = tf.matmul(x, w)
    _, end = tf.while_loop(lambda i, h: i < 3, lambda i, h: (i + 1, tf.nn.relu(tf.matmul(h, w))), (0, product))
    total = tf.reduce_sum(end)
    with tf.Session(config=config(BFLOAT16)) as session:
        got = session.run([product, end, total], {x: np.ones((4, 16))})
    assert [g.dtype for g in got] == [np.float32] * 3
    np.testing.assert_allclose(got[0], 1.5)
    # Steps of bfloat16 are 2 ** -7 there.
    np.testing.assert_allclose(got[1], 1.5**4, rtol=2**-7)


def test_float16_without_gpus_leaves_steps_as_they_are_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    from dtfctl.runtime.compiler.passes import mixed_precision

    mixed_precision._say_once.cache_clear()
    with tf.device("/cpu:0"):
        x = tf.placeholder(tf.float32, [2, 2])
        y = tf.matmul(x, x)
    for _ in range(2):
        with tf.Session(config=config("auto_mixed_precision")) as session:
            # Float16 has no such numbers.
            assert session.run(y, {x: np.full((2, 2), 300.0)}).max() == 180000.0
    assert caplog.text.count("float16 gains nothing without GPUs") == 1
    with tf.Session(config=config(FLOAT16)) as session:
        assert np.isinf(session.run(y + 0.0, {x: np.full((2, 2), 300.0)})).all()


def _digits_accuracy(*switches: str) -> float:
    from sklearn.datasets import load_digits  # It takes most of a second, and only a nightly test has it.

    digits = load_digits()
    images, labels = (digits.data / 16.0).astype(np.float32), digits.target.astype(np.int64)
    held_out = np.arange(len(labels)) % 5 == 0
    random = np.random.RandomState(3)
    with tf.Graph().as_default():
        x, y = tf.placeholder(tf.float32, [None, 64]), tf.placeholder(tf.int64, [None])
        w1 = tf.get_variable("w1", initializer=(random.randn(64, 128) / 8).astype(np.float32))
        w2 = tf.get_variable("w2", initializer=(random.randn(128, 10) / 11).astype(np.float32))
        b1, b2 = tf.get_variable("b1", [128], initializer=tf.zeros_initializer()), tf.Variable(tf.zeros([10]))
        logits = tf.matmul(tf.nn.relu(tf.matmul(x, w1) + b1), w2) + b2
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
        inner = tf.train.AdamOptimizer(2e-3)
        optimizer = tf.mixed_precision.MixedPrecisionLossScaleOptimizer(inner, "dynamic") if switches else inner
        train = optimizer.minimize(loss)
        right = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(logits, 1), y), tf.float32))
        with tf.Session(config=config(*switches)) as session:
            session.run(tf.global_variables_initializer())
            for _ in range(600):
                batch = random.randint(0, 1437, 64)
                session.run(train, {x: images[~held_out][batch], y: labels[~held_out][batch]})
            return float(session.run(right, {x: images[held_out], y: labels[held_out]}))


@pytest.mark.nightly
def test_digits_are_learned_as_well_with_half_of_the_bits() -> None:
    full = _digits_accuracy()
    assert full > 0.95
    for switch in (BFLOAT16, FLOAT16):
        assert _digits_accuracy(switch) >= full - 0.005, switch


@pytest.mark.skipif(not multiplies_bfloat16() or find_library() is None, reason="needs AVX512-BF16 or AMX, and oneDNN")
@pytest.mark.parametrize("ta", [False, True])
@pytest.mark.parametrize("tb", [False, True])
def test_products_of_bfloat16_are_sums_of_float32_rounded_once(ta: bool, tb: bool) -> None:
    random = np.random.RandomState(0)
    a = random.randn(*((80, 96) if ta else (96, 80))).astype(ml_dtypes.bfloat16)
    b = random.randn(*((112, 80) if tb else (80, 112))).astype(ml_dtypes.bfloat16)
    want = (a.T if ta else a).astype("f4") @ (b.T if tb else b).astype("f4")
    got = low_precision.multiply_bfloat16(a, b, ta, tb)
    assert got is not None and got.dtype == low_precision.BFLOAT16
    np.testing.assert_allclose(got.astype("f4"), want, rtol=2**-8, atol=1e-4)


def test_rounding_to_bfloat16() -> None:
    random = np.random.RandomState(0)
    x = (random.randn(100, 200) * 10.0 ** random.randint(-30, 30, (100, 200))).astype(np.float32)
    x[0, :4] = np.nan, np.inf, 3.4e38, -0.0
    for array in (x, x[::2], x[:, ::2].T, x[:2, :3], np.float32(1.00390625)):
        got, want = low_precision.rounded_to_bfloat16(np.asarray(array)), np.asarray(array).astype(ml_dtypes.bfloat16)
        assert got.shape == want.shape
        np.testing.assert_array_equal(got.view("u2"), want.view("u2"))


def test_where_bfloat16_gains_nothing_that_is_said_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    low_precision._say_once.cache_clear()
    monkeypatch.setattr(low_precision, "multiplies_bfloat16", lambda: False)
    a = np.ones((64, 64), ml_dtypes.bfloat16)
    assert low_precision.multiply_bfloat16(a, a, False, False) is None
    assert low_precision.multiply_bfloat16(a, a, False, False) is None
    assert caplog.text.count("bfloat16 gains nothing here: this CPU has neither AVX512-BF16 nor AMX") == 1
    (tmp_path / "old").write_text("processor : 0\nflags : fpu avx2\n")
    (tmp_path / "new").write_text("processor : 0\nflags\t\t: fpu avx512f amx_bf16 amx_tile\n")
    assert not multiplies_bfloat16(tmp_path / "old")
    assert multiplies_bfloat16(tmp_path / "new")
    assert not multiplies_bfloat16(tmp_path / "none")
