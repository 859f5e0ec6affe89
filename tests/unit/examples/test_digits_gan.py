"""The painter of digits: what it is judged by, and that nobody learns to read from it before it has learned to draw."""

from __future__ import annotations

import re
import sys

import numpy as np
import pytest

import dtfctl.runtime as tf
from tests.unit.examples.loading import load

example = load("digits_gan")


def test_painter_and_critic_learn_variables_of_their_own() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        digit = tf.constant([3, 4], tf.int64)
        drawn = example.paint(tf.zeros([2, example.CHANCE]), digit)
        first, again = example.judge(drawn, digit), example.judge(drawn, digit)
        painter, critic = tf.trainable_variables("painter"), tf.trainable_variables("critic")
        assert set(tf.trainable_variables()) == {*painter, *critic} and len(painter) == 8
        session.run(tf.global_variables_initializer())
        images, scores, same = session.run([drawn, first, again])
    assert images.shape == (2, 8, 8, 1) and 0 < images.min() <= images.max() < 1
    assert scores.shape == (2,) and (scores == same).all(), "drawn and scanned images are judged by one critic"


def test_what_is_drawn_depends_on_the_digit_and_on_chance() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        chance = np.zeros((3, example.CHANCE), np.float32)
        chance[2] = 1
        drawn = example.paint(tf.constant(chance), tf.constant([3, 4, 3], tf.int64))
        session.run(tf.global_variables_initializer())
        images = session.run(drawn)
    assert np.abs(images[0] - images[1]).max() > 1e-4 and np.abs(images[0] - images[2]).max() > 1e-4


def test_it_misses_its_target_untrained(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["digits_gan.py", "--steps", "1"])
    with tf.Graph().as_default():
        assert example.main() == 1
    said = re.search(r"from drawn ones: ([0-9.]+)%; from real ones: ([0-9.]+)%", capsys.readouterr().out)
    assert said is not None and float(said[1]) < 60 < 95 < float(said[2])
