"""The word vectors: their text, the kinds that Python tells, and neighbours before it has learned."""

from __future__ import annotations

import re
import sys

import numpy as np
import pytest

import dtfctl.runtime as tf
from tests.unit.examples.loading import load

example = load("word_vectors")


def test_python_tells_the_kinds_of_words() -> None:
    told = {
        "ValueError": "exception",
        "dict": "built-in function",
        "len": "built-in function",
        "while": "keyword",
        "__init__": "special name",
        "None": "keyword",
        "the": None,
        "__all": None,
    }
    assert {word: example.kind(word) for word in told} == told


def test_words_are_drawn_with_those_that_stand_near_them() -> None:
    text = np.arange(20_000)
    words, near = next(example.pairs(text, np.ones(20_000), 5000, np.random.default_rng(0)))
    assert set(np.abs(words - near)) == set(range(1, example.WINDOW + 1))


def test_frequent_words_are_drawn_less_often() -> None:
    text = np.where(np.arange(200_000) % 2, 0, np.arange(200_000) % 5000 // 2)
    words, _ = next(example.pairs(text, np.bincount(text), 20_000, np.random.default_rng(0)))
    assert (words == 0).mean() < 0.1 < 0.5 < (text == 0).mean()


def test_neighbours_are_the_words_of_like_direction() -> None:
    vectors = np.array([[1, 0], [10, 1], [0, 1], [-1, 0.1], [0.1, 5]])
    assert example.neighbours(vectors)[:, 0].tolist() == [1, 0, 4, 2, 2]


def test_it_misses_its_target_untrained(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["word_vectors.py", "--steps", "1"])
    with tf.Graph().as_default():
        assert example.main() == 1
    said = re.search(r"own kind: ([0-9.]+)% of .* by chance: ([0-9.]+)%", capsys.readouterr().out)
    assert said is not None and abs(float(said[1]) - float(said[2])) < 10
