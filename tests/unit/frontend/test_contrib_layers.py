"""`dtfctl.contrib.layers` and `slim`: names of variables, values, scoped arguments, loops."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import dtfctl.runtime as tf
from dtfctl.contrib import layers, slim

X = np.linspace(-1, 1, 2 * 6 * 6 * 3).reshape(2, 6, 6, 3).astype(np.float32)


def test_scopes_give_arguments_to_the_functions_they_name() -> None:
    with tf.Graph().as_default():
        x = tf.constant(X)
        with (
            slim.arg_scope([slim.conv2d, slim.fully_connected], activation_fn=None) as outer,
            slim.arg_scope([slim.conv2d], padding="VALID", normalizer_fn=slim.batch_norm),
        ):
            first = slim.conv2d(x, 4, [3, 3], scope="first")
            second = slim.conv2d(x, 4, 3, stride=2, padding="SAME", scope="second", normalizer_fn=None)
        with slim.arg_scope(outer):
            third = slim.conv2d(x, 2, 1, scope="third")
        rectified = slim.conv2d(x, 2, 1, scope="fourth")
        assert [t.shape.as_list() for t in (first, second, third)] == [[2, 4, 4, 4], [2, 3, 3, 4], [2, 6, 6, 2]]
        assert third.op.type == "BiasAdd" and rectified.op.type == "Relu"
        assert [v.op.name for v in slim.get_model_variables()] == [
            "first/weights",
            "first/BatchNorm/beta",
            "first/BatchNorm/moving_mean",
            "first/BatchNorm/moving_variance",
            "second/weights",
            "second/biases",
            "third/weights",
            "third/biases",
            "fourth/weights",
            "fourth/biases",
        ]
        assert "padding" in slim.arg_scoped_arguments(slim.separable_conv2d) and slim.has_arg_scope(layers.conv2d)
        with pytest.raises(ValueError, match="not decorated"), slim.arg_scope([tf.nn.relu], name="x"):
            pass
        with pytest.raises(ValueError, match="kwargs must be empty"), slim.arg_scope(outer, padding="SAME"):
            pass


def test_batch_norm_moves_its_averages_where_it_is_asked_to() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        training = tf.placeholder_with_default(True, [])
        normal = layers.batch_norm(tf.constant(X), decay=0.5, is_training=training, scale=True)
        at_once = layers.batch_norm(tf.constant(X[0, 0]), updates_collections=None, decay=0.5, scope="now")
        moves = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
        assert len(moves) == 2
        session.run(tf.global_variables_initializer())
        mean, variance = X.mean((0, 1, 2)), X.var((0, 1, 2))
        found, *_ = session.run([normal, *moves])
        np.testing.assert_allclose(found, (X - mean) / np.sqrt(variance + 1e-3), rtol=1e-4, atol=1e-4)
        held = {v.op.name: session.run(v) for v in tf.global_variables()}
        np.testing.assert_allclose(held["BatchNorm/moving_mean"], mean * 0.5, rtol=1e-4, atol=1e-6)
        session.run(at_once)
        np.testing.assert_allclose(session.run("now/moving_mean:0"), X[0, 0].mean(0) * 0.5, rtol=1e-4)
        by_averages = session.run(normal, {training: False})
        wanted = (X - held["BatchNorm/moving_mean"]) / np.sqrt(held["BatchNorm/moving_variance"] + 1e-3)
        np.testing.assert_allclose(by_averages, wanted, rtol=1e-4, atol=1e-4)
        with pytest.raises(NotImplementedError, match="renorm"):
            layers.batch_norm(tf.constant(X), renorm=True)


def test_transposed_separable_and_other_layers() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.constant(X)
        ones = tf.ones_initializer()
        grown = layers.conv2d_transpose(x, 5, 3, stride=2, scope="up", outputs_collections="ends")
        deep = layers.separable_conv2d(x, None, 3, depth_multiplier=2, scope="deep", activation_fn=None)
        separable = layers.separable_conv2d(x, 4, 3, scope="both")
        first = layers.conv2d(tf.transpose(x, [0, 3, 1, 2]), 2, 1, data_format="NCHW", weights_initializer=ones)
        last = layers.conv2d(x, 2, 1, weights_initializer=ones, scope="last")
        line = layers.conv1d(x[:, 0], 2, 3, scope="line")
        same = layers.instance_norm(x)
        words = layers.embed_sequence([[1, 2]], 4, 3)
        piled = layers.repeat(x, 2, layers.conv2d, 3, 3, scope="pile")
        stacked = layers.stack(layers.flatten(x), layers.fully_connected, [4, 2], scope="fc")
        session.run(tf.global_variables_initializer())
        tensors = (grown, deep, separable, line, words, piled, stacked)
        shapes = [[2, 12, 12, 5], [2, 6, 6, 6], [2, 6, 6, 4], [2, 6, 2], [1, 2, 3], [2, 6, 6, 3], [2, 2]]
        assert [t.shape.as_list() for t in tensors] == shapes
        assert [list(v.shape) for v in session.run(tensors)] == shapes
        names = {v.op.name for v in tf.global_variables()}
        assert {"up/weights", "deep/depthwise_weights", "both/pointwise_weights", "EmbedSequence/embeddings"} <= names
        assert {"pile/pile_1/weights", "pile/pile_2/biases", "fc/fc_1/weights", "fc/fc_2/biases"} <= names
        a, b, normal = session.run([first, last, same])
        np.testing.assert_allclose(a.transpose(0, 2, 3, 1), b, rtol=1e-5)
        np.testing.assert_allclose(normal.mean((1, 2)), 0, atol=1e-5)
        ends = layers.utils.convert_collection_to_dict("ends")
        assert list(ends) == ["up"] and ends["up"] is grown


def test_a_loss_is_optimized_by_name_and_with_decay(tmp_path: Path) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.get_variable("x", initializer=[3.0, -4.0])
        step = tf.train.get_or_create_global_step()
        train = layers.optimize_loss(
            tf.reduce_sum(tf.square(x)),
            step,
            0.1,
            "SGD",
            clip_gradients=1.0,
            learning_rate_decay_fn=lambda rate, _: rate * 2,
        )
        session.run(tf.global_variables_initializer())
        assert session.run(train) == pytest.approx(25.0)
        np.testing.assert_allclose(session.run(x), [3 - 0.2 * 0.6, -4 + 0.2 * 0.8], rtol=1e-5)
        assert session.run(step) == 1 and "OptimizeLoss/learning_rate" in {v.op.name for v in tf.global_variables()}
        with pytest.raises(ValueError, match="Optimizer name should be one of"):
            layers.optimize_loss(tf.constant(1.0), step, 0.1, "Best")


def test_slim_trains_saves_and_evaluates(tmp_path: Path) -> None:
    def model() -> tuple[object, object]:
        x = tf.constant([[1.0], [2.0], [3.0]])
        out = slim.fully_connected(x, 1, activation_fn=None, scope="out")
        return out, slim.losses.mean_squared_error(2 * x, out)

    with tf.Graph().as_default():
        _, loss = model()
        train_op = slim.learning.create_train_op(loss, tf.train.GradientDescentOptimizer(0.05), clip_gradient_norm=5)
        last = slim.learning.train(
            train_op, str(tmp_path), number_of_steps=30, log_every_n_steps=10, save_summaries_secs=0
        )
        assert last < 0.5
        assert slim.model_analyzer.analyze_vars(slim.get_model_variables()) == (2, 8)
    newest = tf.train.latest_checkpoint(str(tmp_path))
    with tf.Graph().as_default():
        out, loss = model()
        found = slim.evaluation.evaluate_once("", newest, num_evals=1, eval_op=out, final_op=loss)
        assert found == pytest.approx(last, abs=0.2)
    with tf.Graph().as_default(), tf.Session() as session:
        _, loss = model()
        slim.get_or_create_global_step()
        more = tf.get_variable("more", [])
        restore = slim.assign_from_checkpoint_fn(newest, slim.get_variables_to_restore(), ignore_missing_vars=True)
        session.run(more.initializer)
        restore(session)
        assert session.run(loss) == pytest.approx(found)
        with pytest.raises(ValueError, match="missing variable"):
            slim.assign_from_checkpoint(newest, [more])
        op, feed = slim.assign_from_checkpoint(newest, slim.get_variables("out"))
        session.run(op, feed)
        assert session.run(loss) == pytest.approx(found)


def test_slims_losses_and_metrics_take_predictions_before_labels() -> None:
    """They are `tf.contrib`'s: with the arguments of `tf.losses` they gave other numbers in silence."""
    logits, labels = tf.constant([[2.0, -1.0], [0.5, 1.5]]), tf.constant([[1.0, 0.0], [1.0, 0.0]])
    ours = slim.losses.softmax_cross_entropy(logits, labels)
    pairs = [
        (ours, tf.losses.softmax_cross_entropy(labels, logits)),
        (slim.losses.log_loss([0.25, 0.5], [1.0, 0.0]), tf.losses.log_loss([1.0, 0.0], [0.25, 0.5])),
        (slim.losses.cosine_distance(logits, labels, dim=1), tf.losses.cosine_distance(labels, logits, 1)),
        (slim.losses.mean_pairwise_squared_error(logits, 2 * labels, 0.5),
         tf.losses.mean_pairwise_squared_error(2 * labels, logits, 0.5)),
    ]  # fmt: skip
    values, updates = slim.metrics.aggregate_metric_map(
        {
            "recall": slim.metrics.streaming_recall([1, 0, 0], [1, 1, 1]),
            "iou": slim.metrics.streaming_mean_iou([0, 1, 1], [0, 1, 0], 2),
            "less": slim.metrics.streaming_percentage_less([1.0, 2.0, 3.0, 4.0], 2.5),
        }
    )
    with tf.Session() as session:
        session.run(tf.local_variables_initializer())
        for mine, theirs in pairs:
            a, b = session.run([mine, theirs])
            assert a == pytest.approx(b)
        session.run(list(updates.values()))
        assert session.run(values) == pytest.approx({"recall": 1 / 3, "iou": 0.5, "less": 0.5})
