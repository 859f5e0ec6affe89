"""Einsum of two operands against numpy's, in cases drawn at random."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dtfctl.runtime as tf

SIZES = {"a": 2, "b": 3, "c": 4, "d": 5, "e": 1}
SPREADS: list[list[int]] = [[], [3], [2, 3], [1, 3], [2, 1]]


def einsum(equation: str, *operands: Any) -> Any:
    with tf.Graph().as_default(), tf.Session() as session:
        inputs = [tf.constant(x) for x in operands]
        return session.run(tf.raw_ops.Einsum(inputs=inputs, equation=equation))


def drawn(rng: np.random.Generator) -> tuple[str, list[int], list[int]]:
    """An equation and the shapes of its operands: letters twice or in one place only, ellipses, outer products."""
    left, right = ("".join(rng.choice(list(SIZES), rng.integers(0, 4))) for _ in range(2))
    output = "".join(rng.permutation(sorted(set(left + right))))[: rng.integers(0, 6)]
    shapes = [[SIZES[label] for label in text] for text in (left, right)]
    texts = [left, right, output]
    if rng.random() < 0.5:
        places = [int(rng.integers(0, len(text) + 1)) for text in texts]
        texts = [text[:at] + "..." + text[at:] for text, at in zip(texts, places)]
        for shape, at in zip(shapes, places):
            shape[at:at] = SPREADS[rng.integers(len(SPREADS))]
    return f"{texts[0]},{texts[1]}->{texts[2]}", *shapes


@pytest.mark.parametrize("seed", range(60))
def test_two_operands(seed: int) -> None:
    rng = np.random.default_rng(seed)
    equation, *shapes = drawn(rng)
    dtype = str(rng.choice(["f4", "f8", "i4", "c8"]))
    operands = [rng.integers(-3, 4, shape).astype(dtype) for shape in shapes]
    got, want = einsum(equation, *operands), np.einsum(equation, *operands)
    assert got.dtype == want.dtype and np.array_equal(got, want), equation


def test_nothing_to_sum_over_is_zero() -> None:
    assert (
        einsum("bij,bjk->bik", np.ones((2, 3, 0), "f4"), np.ones((2, 0, 4), "f4")).tolist()
        == np.zeros((2, 3, 4)).tolist()
    )


@pytest.mark.parametrize(("equation", "shape"), [("ij,jk->ik", (2, 3)), ("bi,bi->b", (3, 4))])
def test_sizes_that_differ_are_refused(equation: str, shape: tuple[int, ...]) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        late = tf.placeholder(tf.float32)
        product = tf.raw_ops.Einsum(inputs=[tf.ones([2, 4]), late], equation=equation)
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"Expected dimension [24] at axis 0 of the input"):
            session.run(product, {late: np.ones(shape)})
