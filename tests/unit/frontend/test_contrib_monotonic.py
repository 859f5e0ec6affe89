"""Monotonic attention: what stops where, in three ways of finding it; what its mechanisms train."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dtfctl.runtime as tf
from dtfctl.contrib import seq2seq


def _expected(p: np.ndarray, before: np.ndarray) -> np.ndarray:
    """Go through every place where the step before may have stopped, and every one where this one may."""
    found = np.zeros_like(before)
    for b, start in np.ndindex(*before.shape):
        going = before[b, start]
        for place in range(start, before.shape[1]):
            found[b, place] += going * p[b, place]
            going *= 1 - p[b, place]
    return found


@pytest.mark.parametrize("mode", ["recursive", "parallel"])
def test_attention_goes_on_from_where_it_stopped(mode: str) -> None:
    rng = np.random.RandomState(5)
    p = rng.uniform(0.1, 0.9, [3, 5])
    before = rng.dirichlet(np.ones(5), 3)
    with tf.Graph().as_default(), tf.Session() as session:
        found = session.run(seq2seq.monotonic_attention(tf.constant(p), tf.constant(before), mode))
    np.testing.assert_allclose(found, _expected(p, before), rtol=1e-9)


def test_hard_attention_stops_at_the_first_place_that_is_chosen() -> None:
    p = np.float32([[1, 0, 1, 1], [0, 1, 0, 0], [0, 0, 0, 0]])
    before = np.float32([[0, 1, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0]])
    with tf.Graph().as_default(), tf.Session() as session:
        found = session.run(seq2seq.monotonic_attention(tf.constant(p), tf.constant(before), "hard"))
    assert found.tolist() == [[0, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 0]]


def test_there_is_no_fourth_way() -> None:
    with tf.Graph().as_default(), pytest.raises(ValueError, match="'recursive', 'parallel', or 'hard'"):
        seq2seq.monotonic_attention(tf.ones([1, 2]), tf.ones([1, 2]), "soft")


@pytest.mark.parametrize(
    ("kind", "options", "names"),
    [
        ("Luong", {"scale": True}, ["attention_g", "attention_score_bias"]),
        (
            "Bahdanau",
            {"normalize": True},
            ["query_layer/kernel", "attention_v", "attention_g", "attention_b", "attention_score_bias"],
        ),
    ],
)
def test_a_decoder_learns_with_monotonic_attention(kind: str, options: dict[str, Any], names: list[str]) -> None:
    """The variables have the names of TensorFlow 1.15's, and each has a gradient."""
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(3)
        memory = tf.constant(np.random.RandomState(2).standard_normal([2, 4, 3]).astype(np.float32))
        mechanism = getattr(seq2seq, f"{kind}MonotonicAttention")(
            3, memory, tf.constant([4, 2]), score_bias_init=-0.5, sigmoid_noise=0.1, **options
        )
        cell = seq2seq.AttentionWrapper(tf.nn.rnn_cell.GRUCell(3), mechanism, alignment_history=True)
        outputs, state = tf.nn.dynamic_rnn(
            cell, tf.ones([2, 3, 2]), initial_state=cell.zero_state(2, tf.float32), dtype=tf.float32
        )
        trained = {v.op.name: v for v in tf.trainable_variables()}
        scope = f"rnn/attention_wrapper/{kind.lower()}_monotonic_attention/"
        assert {name for name in trained if name.startswith(scope)} == {scope + name for name in names}
        slopes = tf.gradients(tf.reduce_sum(outputs * outputs), list(trained.values()))
        session.run(tf.global_variables_initializer())
        assert session.run(trained[scope + "attention_score_bias"]) == -0.5
        alignments, found = session.run([state.alignments, slopes])
        assert all(np.abs(slope).sum() > 0 for slope in found)
        assert (alignments.sum(1) <= 1 + 1e-6).all() and (alignments[1, 2:] == 0).all()
