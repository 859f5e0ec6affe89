"""Batch normalization and cross-entropy of large arrays, by loops or in blocks, give what numpy's passes give."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import dtfctl.runtime as tf
from dtfctl.runtime.kernels.compiled import jit, loops
from dtfctl.runtime.kernels.nn import cross_entropy, normalization, softmax

EDGES = [0.0, -0.0, 1e-40, -1e-40, 1e30, -1e30, np.nan, np.inf, -np.inf]
# Without numbers so large that what their sums are depends on the order.
MODERATE = [v for v in EDGES if abs(v) != 1e30]
# Sizes that are large (2 MB and more) and do not fit blocks.
IMAGES = [(17, 31, 33, 31), (9, 120, 65, 8), (600_001, 1, 1, 1)]
LOGITS = [(60_001, 9), (8_201, 64), (8_101, 65), (33, 17_001), (600_001, 1)]
examples = settings(deadline=None, max_examples=8, suppress_health_check=[HealthCheck.too_slow])


def numbers(seed: int, shape: tuple[int, ...], edges: list[float], dtype: str = "f4") -> Any:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape).astype(dtype)
    for value in edges:
        x.reshape(-1)[rng.integers(0, x.size)] = value
    return x


def close(got: Any, want: Any, rows: int) -> None:
    """As close as sums of so many numbers in another order are."""
    for a, b in zip(got, want, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5 + rows * 1e-8)


class Forms:
    """A session that runs ops by loops, and by numpy's passes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.patch = monkeypatch

    def both(self, make: Any, *arrays: Any) -> tuple[list[Any], list[Any]]:
        with tf.Graph().as_default():
            feeds = [tf.placeholder(a.dtype, a.shape) for a in arrays]
            fetches = make(*feeds)
            with tf.Session() as session:
                fast = session.run(fetches, dict(zip(feeds, arrays)))
                with self.patch.context() as patch:
                    patch.setattr(normalization, "compiled", lambda *args: None)
                    patch.setattr(softmax, "is_in_blocks", lambda *args: False)
                    slow = session.run(fetches, dict(zip(feeds, arrays)))
        return fast, slow


@pytest.fixture(scope="module")
def forms() -> Iterator[Forms]:
    with pytest.MonkeyPatch.context() as patch:
        yield Forms(patch)


@pytest.mark.slow
@examples
@given(
    seed=st.integers(0, 99),
    shape=st.sampled_from(IMAGES),
    training=st.booleans(),
    edges=st.lists(st.sampled_from(MODERATE), max_size=3),
)
def test_batch_normalization(forms: Forms, seed: int, shape: Any, training: bool, edges: list[float]) -> None:
    channels = shape[-1]
    rng = np.random.default_rng(seed)
    x = numbers(seed, shape, edges) + np.float32(3)
    scale, offset, mean = (rng.standard_normal(channels).astype("f4") for _ in range(3))
    variance = rng.random(channels).astype("f4") + np.float32(0.5)

    def make(*feeds: Any) -> Any:
        return tf.raw_ops.FusedBatchNormV3(
            x=feeds[0], scale=feeds[1], offset=feeds[2], mean=feeds[3], variance=feeds[4], is_training=training
        )[:5]

    given_mean, given_variance = (mean[:0], variance[:0]) if training else (mean, variance)
    fast, slow = forms.both(make, x, scale, offset, given_mean, given_variance)
    close(fast, slow, x.size // channels)
    if not training:
        np.testing.assert_array_equal(fast[0], slow[0])


@pytest.mark.slow
@examples
@given(
    seed=st.integers(0, 99),
    shape=st.sampled_from(IMAGES),
    training=st.booleans(),
    edges=st.lists(st.sampled_from(MODERATE), max_size=3),
)
def test_its_gradient(forms: Forms, seed: int, shape: Any, training: bool, edges: list[float]) -> None:
    channels = shape[-1]
    rng = np.random.default_rng(seed)
    x, dy = numbers(seed, shape, edges), numbers(seed + 1, shape, [])
    scale, mean = (rng.standard_normal(channels).astype("f4") for _ in range(2))
    variance = rng.random(channels).astype("f4") + np.float32(0.5)

    def make(*feeds: Any) -> Any:
        return tf.raw_ops.FusedBatchNormGradV3(
            y_backprop=feeds[0],
            x=feeds[1],
            scale=feeds[2],
            reserve_space_1=feeds[3],
            reserve_space_2=feeds[4],
            reserve_space_3=feeds[4],
            is_training=training,
        )[:3]

    fast, slow = forms.both(make, dy, x, scale, mean, variance)
    # Sums of many numbers that cancel out differ by what each of them is rounded by.
    rows = x.size // channels
    close(fast[:1], slow[:1], rows)
    close([v / rows for v in fast[1:]], [v / rows for v in slow[1:]], 1)


@pytest.mark.slow
@examples
@given(
    seed=st.integers(0, 99),
    shape=st.sampled_from(LOGITS),
    dtype=st.sampled_from(["f4", "f8"]),
    sparse=st.booleans(),
    edges=st.lists(st.sampled_from(EDGES), max_size=3),
)
def test_cross_entropy(forms: Forms, seed: int, shape: Any, dtype: str, sparse: bool, edges: list[float]) -> None:
    rng = np.random.default_rng(seed)
    logits = numbers(seed, shape, edges, dtype)
    columns = rng.integers(0, shape[1], shape[0])
    if sparse:
        op, labels = tf.raw_ops.SparseSoftmaxCrossEntropyWithLogits, columns
    else:
        op, labels = tf.raw_ops.SoftmaxCrossEntropyWithLogits, rng.random(shape).astype(dtype)
        labels /= labels.sum(1, keepdims=True)
    fast, slow = forms.both(lambda x, y: op(features=x, labels=y), logits, labels)
    for a, b in zip(fast, slow, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6)


def test_labels_for_all_rows_are_spread(forms: Forms) -> None:
    logits = numbers(0, (60_001, 9), [])
    labels = np.eye(9, dtype="f4")[3:4]
    op = tf.raw_ops.SoftmaxCrossEntropyWithLogits
    fast, slow = forms.both(lambda x, y: op(features=x, labels=y), logits, labels)
    for a, b in zip(fast, slow, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6)


def test_small_arrays_are_left_to_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jit, "is_available", lambda: True)
    assert not cross_entropy.is_in_blocks((64, 10), np.dtype("f4"))
    assert not cross_entropy.is_in_blocks((60_001, 9), np.dtype("f2"))
    assert jit.compiled(loops.normalize, np.dtype("f4"), jit.LEAST_BYTES - 1) is None
