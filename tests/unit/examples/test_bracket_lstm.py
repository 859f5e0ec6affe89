"""The LSTM that counts brackets: its data, its cell, and that it does not count before it has learned to."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import dtfctl.runtime as tf
from tests.unit.examples.loading import load

example = load("bracket_lstm")


def test_depths_are_the_open_brackets_less_the_closed_ones() -> None:
    symbols, depths = example.strings(50, 60, np.random.default_rng(3))
    for text, told in zip(symbols, depths):
        written = "".join(example.SYMBOLS[symbol] for symbol in text)
        counted = [written[:end].count("(") - written[:end].count(")") for end in range(1, len(written) + 1)]
        assert counted == told.tolist()
    assert depths.min() == 0 and depths.max() == example.DEEPEST
    assert set(symbols.ravel()) == set(range(len(example.SYMBOLS)))


def test_the_cell_shows_its_output_and_its_memory() -> None:
    """Against LSTMCell's own output and state, with the same weights."""
    with tf.Graph().as_default(), tf.Session() as session:
        inputs = tf.constant(np.random.default_rng(0).normal(size=(2, 5)), tf.float32)
        shown, plain = example.Shown(example.UNITS), tf.nn.rnn_cell.LSTMCell(example.UNITS)
        both, _ = shown(inputs, shown.zero_state(2, tf.float32))
        output, state = plain(inputs, plain.zero_state(2, tf.float32))
        session.run(tf.global_variables_initializer())
        for mine, other in zip(shown.weights, plain.weights):
            session.run(tf.assign(other, mine))
        seen, expected, memory = session.run([both, output, state.c])
    np.testing.assert_allclose(seen[:, : example.UNITS], expected, rtol=1e-5)
    np.testing.assert_allclose(seen[:, example.UNITS :], memory, rtol=1e-5)
    assert np.abs(memory - expected).max() > 0.01


def test_it_misses_its_target_untrained(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["bracket_lstm.py", "--steps", "1"])
    with tf.Graph().as_default():
        assert example.main() == 1
    assert "right depths in strings of 28: " in capsys.readouterr().out
