"""Pipelines: training through them ends with the weights of one device that has the whole batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dtfctl.runtime as tf

CPUS = tf.ConfigProto(device_count={"CPU": 4})
RNG = np.random.default_rng(0)
X = RNG.normal(size=(12, 6)).astype(np.float32)
Y = RNG.normal(size=(12, 2)).astype(np.float32)
WIDTHS = (7, 5, 4, 2)

Pipeline = tf.distribute.experimental.Pipeline


def cpus(count: int) -> list[str]:
    return [f"/cpu:{i}" for i in range(count)]


def layer(x: Any, i: int) -> Any:
    start = tf.constant_initializer(np.random.default_rng(i).normal(size=(x.shape[-1].value, WIDTHS[i])) * 0.5)
    return tf.layers.dense(x, WIDTHS[i], activation=tf.nn.tanh if i < 3 else None, kernel_initializer=start)


def model(x: Any, y: Any, stage: Any = lambda i: tf.device(None)) -> Any:
    skipped = None
    for i in range(4):
        with stage(i):
            x = layer(x, i)
            if i == 0:
                skipped = tf.reduce_sum(x, 1, keepdims=True)  # goes past the stages between
            if i == 3:
                return tf.reduce_mean(tf.reduce_sum((x + skipped - y) ** 2, 1))
    raise AssertionError


def trained(build: Any, optimizer: Any, steps: int = 3) -> tuple[list[float], dict[str, Any]]:
    """Train by `build(optimizer, x, y, count)`, which gives an op and a loss; return losses and all variables."""
    with tf.Graph().as_default():
        count = tf.train.get_or_create_global_step()
        train, loss = build(optimizer(), tf.constant(X), tf.constant(Y), count)
        with tf.Session(config=CPUS) as session:
            session.run(tf.global_variables_initializer())
            losses = [session.run([loss, train])[0] for _ in range(steps)]
            return losses, {v.op.name: session.run(v) for v in tf.global_variables()}


def alone(optimizer: Any, x: Any, y: Any, count: Any) -> Any:
    loss = model(x, y)
    return optimizer.minimize(loss, global_step=count), loss


def staged(pipeline: Any, stages: int) -> Any:
    def build(optimizer: Any, x: Any, y: Any, count: Any) -> Any:
        def net(x: Any, y: Any) -> Any:
            return model(x, y, lambda i: pipeline.stage(i * stages // 4))

        return pipeline.minimize(optimizer, net, (x, y), global_step=count)

    return build


def adam() -> Any:
    return tf.train.AdamOptimizer(0.01)


def same(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-5, atol=1e-6)
    assert found[1].keys() == expected[1].keys()
    for name, value in expected[1].items():
        np.testing.assert_allclose(found[1][name], value, rtol=1e-5, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
def test_every_schedule_ends_with_the_weights_of_one_device(schedule: str, recompute: bool) -> None:
    expected = trained(alone, adam)
    for stages in (1, 2, 4):
        for microbatches in (1, 4, 5):
            pipeline = Pipeline(cpus(stages), microbatches, schedule, recompute)
            same(trained(staged(pipeline, stages), adam), expected)


def test_a_batch_that_cannot_be_cut_evenly_counts_by_its_examples() -> None:
    def fed(build: Any) -> Any:
        with tf.Graph().as_default():
            x, y = tf.placeholder(tf.float32, [None, 6]), tf.placeholder(tf.float32, [None, 2])
            train, loss = build(x, y)
            with tf.Session(config=CPUS) as session:
                session.run(tf.global_variables_initializer())
                losses = [session.run([loss, train], {x: X[:n], y: Y[:n]})[0] for n in (12, 7, 3)]
                return losses, {v.op.name: session.run(v) for v in tf.global_variables()}

    def piped(x: Any, y: Any) -> Any:
        pipeline = Pipeline(cpus(2), 3)
        return pipeline.minimize(adam(), lambda x, y: model(x, y, lambda i: pipeline.stage(i // 2)), (x, y))

    def one(x: Any, y: Any) -> Any:
        loss = model(x, y)
        return adam().minimize(loss), loss

    same(fed(piped), fed(one))


def test_uneven_parts_of_float64_count_in_float64() -> None:
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float64, [None])
        pipeline = Pipeline(cpus(2), 3)
        weight = tf.get_variable("weight", [], tf.float64, tf.constant_initializer(2.0))

        def net(x: Any) -> Any:
            with pipeline.stage(0):
                scaled = x * weight
            with pipeline.stage(1):
                return tf.reduce_mean(scaled)

        loss, ((gradient, _),) = pipeline.compute_gradients(net, (x,))
        with tf.Session(config=CPUS) as session:
            session.run(tf.global_variables_initializer())
            batch = np.arange(1.0, 8.0)
            np.testing.assert_allclose(session.run([loss, gradient], {x: batch}), [8.0, 4.0], rtol=1e-14)


def test_a_batch_of_fewer_examples_than_parts_is_refused() -> None:
    with tf.Graph().as_default():
        pipeline = Pipeline(cpus(2), 4)
        x = tf.placeholder(tf.float32, [None, 6])

        def net(x: Any) -> Any:
            return model(x, tf.zeros([2]), lambda i: pipeline.stage(i // 2))

        train, _ = pipeline.minimize(adam(), net, (x,))
        with tf.Session(config=CPUS) as session:
            session.run(tf.global_variables_initializer())
            with pytest.raises(tf.errors.InvalidArgumentError, match="fewer examples than there are micro-batches"):
                session.run(train, {x: X[:3]})
        with pytest.raises(ValueError, match="A batch of 3 examples cannot be cut into 4"):
            pipeline.minimize(adam(), net, (X[:3],))


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
def test_sparse_gradients_tied_variables_and_what_is_outside_of_stages(schedule: str) -> None:
    ids = np.random.default_rng(2).integers(0, 9, (8, 3))

    def net(ids: Any, scale: Any, stage: Any) -> Any:
        with stage(0):
            table = tf.get_variable("table", [9, 4], initializer=tf.constant_initializer(RNG_TABLE))
            hidden = tf.reduce_sum(tf.nn.embedding_lookup(table, ids), 1)
        with stage(1):
            hidden = tf.tanh(hidden * scale)
        # Without a stage: the last one among its inputs; and the table is used by two stages.
        logits = tf.matmul(hidden, table, transpose_b=True)
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=ids[:, 0], logits=logits))

    def run(build: Any) -> Any:
        with tf.Graph().as_default():
            scale = tf.get_variable("scale", initializer=np.float32(1.5)) * 1.0
            train, loss = build(tf.constant(ids), scale)
            with tf.Session(config=CPUS) as session:
                session.run(tf.global_variables_initializer())
                losses = [session.run([loss, train])[0] for _ in range(3)]
                return losses, {v.op.name: session.run(v) for v in tf.global_variables()}

    def one(ids: Any, scale: Any) -> Any:
        loss = net(ids, scale, lambda i: tf.device(None))
        return tf.train.AdagradOptimizer(0.1).minimize(loss), loss

    def piped(ids: Any, scale: Any) -> Any:
        pipeline = Pipeline(cpus(2), 4, schedule)
        optimizer = tf.train.AdagradOptimizer(0.1)
        return pipeline.minimize(optimizer, lambda ids: net(ids, scale, pipeline.stage), (ids,))

    same(run(piped), run(one))


RNG_TABLE = np.random.default_rng(3).normal(size=(9, 4))


@pytest.mark.parametrize("use_resource", [False, True])
def test_a_model_is_cut_by_what_its_ops_take(use_resource: bool) -> None:
    """Of two layers much dearer than the others each stage gets one, in every micro-batch."""
    with tf.Graph().as_default(), tf.variable_scope("m", use_resource=use_resource):

        def net(x: Any, y: Any) -> Any:
            for i in range(6):
                x = tf.nn.relu(tf.layers.dense(x, 1000 if i in (1, 2, 3) else 4, name=f"layer_{i}"))
            return tf.reduce_mean((x - y) ** 2)

        pipeline = Pipeline(cpus(2), 2, cut="measured")
        x, y = np.ones([64, 4], np.float32), np.zeros([64, 4], np.float32)
        train, _ = pipeline.minimize(adam(), net, (x, y))
        graph = tf.get_default_graph()
        for scope in ("m", "m/microbatch_1"):
            devices = [graph.get_operation_by_name(f"{scope}/layer_{i}/MatMul").device[-1] for i in range(6)]
            assert devices[2:4] == ["0", "1"] and devices == sorted(devices)
        kernels = {v.op.name: v.device[-1] for v in tf.trainable_variables()}
        assert (kernels["m/layer_2/kernel"], kernels["m/layer_3/kernel"]) == ("0", "1")
        with tf.Session(config=CPUS) as session:
            session.run(tf.global_variables_initializer())
            session.run(train)


def test_dropout_is_the_same_when_activations_are_computed_again() -> None:
    def run(recompute: bool) -> Any:
        with tf.Graph().as_default():
            tf.set_random_seed(7)
            pipeline = Pipeline(cpus(3), 4, "gpipe", recompute)

            def net(x: Any, y: Any) -> Any:
                for i in range(3):
                    with pipeline.stage(i):
                        x = tf.nn.dropout(layer(x, i), rate=0.5, seed=i + 1)
                return tf.reduce_mean(x**2) + tf.reduce_mean(y)

            train, loss = pipeline.minimize(adam(), net, (tf.constant(X), tf.constant(Y)))
            with tf.Session(config=CPUS) as session:
                session.run(tf.global_variables_initializer())
                losses = [session.run([loss, train])[0] for _ in range(3)]
                return losses, {v.op.name: session.run(v) for v in tf.global_variables()}

    same(run(True), run(False))


def test_what_is_wrong_with_stages_is_said() -> None:
    with tf.Graph().as_default():
        with pytest.raises(ValueError, match="Stages 0 and 1 are on the same device"):
            Pipeline(["/cpu:0", "/job:worker/task:1"], 2)
        with pytest.raises(ValueError, match="no schedule 'zigzag'"):
            Pipeline(cpus(2), 2, "zigzag")
        pipeline = Pipeline(cpus(2), 2)
        with pytest.raises(ValueError, match="There is no stage 2"):
            pipeline.stage(2)

        def backwards(x: Any, y: Any) -> Any:
            with pipeline.stage(1):
                x = layer(x, 0)
            with pipeline.stage(0):
                return tf.reduce_mean(x)

        with pytest.raises(ValueError, match=r"of stage 0 uses .* of stage 1"):
            pipeline.minimize(adam(), backwards, (X, Y))
        with (
            pytest.raises(ValueError, match="Stage 1 of the pipeline has nothing to compute"),
            tf.variable_scope("again"),
        ):
            pipeline.minimize(adam(), lambda x, y: model(x, y, lambda i: pipeline.stage(0)), (X, Y))

        def elsewhere(x: Any, y: Any) -> Any:
            with tf.device("/cpu:3"):
                return tf.reduce_mean(x)

        with pytest.raises(ValueError, match="the device of none of the pipeline's stages"):
            pipeline.minimize(adam(), elsewhere, (X, Y))
        with pytest.raises(ValueError, match="a scalar of a floating type"):
            pipeline.minimize(adam(), lambda x, y: x, (X, Y))
