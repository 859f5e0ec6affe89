"""The language model: its text, that it does not look ahead, and what it is measured against."""

from __future__ import annotations

import re
import sys

import numpy as np
import pytest

import dtfctl.runtime as tf
from tests.unit.examples.loading import load

example = load("language_model")


def test_no_paragraph_of_the_held_out_text_is_learned_from() -> None:
    learned, held_out = (bytes(text.astype(np.uint8)).decode("ascii") for text in example.read())
    assert len(learned) > 5 * len(held_out) > 100_000
    paragraphs = [{tuple(re.findall(r"\w+", part)) for part in text.split("\n\n")} for text in (learned, held_out)]
    assert not set.intersection(*paragraphs)


def test_each_character_is_asked_for_from_those_before_it() -> None:
    text = np.arange(500)
    characters, followed = example.windows(text, [0, 7])
    assert characters.shape == followed.shape == (2, example.CONTEXT)
    assert (characters[1] == np.arange(7, 7 + example.CONTEXT)).all() and (followed == characters + 1).all()


@pytest.mark.parametrize(("before", "bits"), [(0, 2.0), (1, 1.0), (2, 0.0)])
def test_bits_of_a_text_whose_law_is_known(before: int, bits: float) -> None:
    """Of four letters in turn each is known from the two before; aabbccdd has two that may follow one."""
    text = np.frombuffer(b"aabbccdd" * 500, np.uint8).astype(np.int64)
    assert example.known_before(text, text, before) == pytest.approx(bits, abs=0.02)


def test_a_character_changes_nothing_that_is_said_before_it() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        text = np.random.default_rng(0).integers(example.SYMBOLS, size=(1, 40))
        other = text.copy()
        other[0, 25] = (other[0, 25] + 1) % example.SYMBOLS
        scores, looks = example.model(tf.constant(np.concatenate([text, other]), tf.int32))
        session.run(tf.global_variables_initializer())
        said, looked = session.run([scores, looks])
    np.testing.assert_allclose(said[0, :25], said[1, :25], atol=1e-5)
    assert (np.abs(said[0, 25:] - said[1, 25:]).max(axis=1) > 1e-6).all()
    for layer in looked:
        assert layer.shape == (2, example.HEADS, 40, 40)
        np.testing.assert_allclose(layer.sum(axis=3), 1, rtol=1e-5)
        assert (layer[:, :, ~np.tri(40, dtype=bool)] == 0).all()


def test_a_place_is_normed_to_mean_0_and_spread_1() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        numbers = np.random.default_rng(0).normal(5, 3, size=(2, 7, example.WIDTH))
        result = example.normed(tf.constant(numbers, tf.float32), "place")
        session.run(tf.global_variables_initializer())
        found = session.run(result)
    np.testing.assert_allclose(found.mean(axis=2), 0, atol=1e-5)
    np.testing.assert_allclose(found.std(axis=2), 1, rtol=1e-4)


@pytest.mark.slow
def test_it_misses_its_target_untrained(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["language_model.py", "--steps", "1"])
    with tf.Graph().as_default():
        assert example.main() == 1
    assert "bits a character of held-out text: " in capsys.readouterr().out
