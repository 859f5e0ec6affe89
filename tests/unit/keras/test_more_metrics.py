"""Metrics at operating points, of segmentations and of whole tensors, against numpy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import dtfctl.runtime as tf

metrics = tf.keras.metrics
TRUTH = np.array([0, 0, 1, 1, 1, 0], np.float32)
GUESS = np.array([0.1, 0.55, 0.35, 0.8, 0.9, 0.3], np.float32)
WEIGHTS = np.array([1, 2, 1, 3, 1, 1], np.float32)


@pytest.fixture(autouse=True)
def session() -> Iterator[Any]:
    with tf.Graph().as_default(), tf.Session() as opened:
        yield opened


def value(metric: Any, *batches: Any) -> Any:
    updates = [metric.update_state(*batch) for batch in batches]
    session = tf.get_default_session()
    session.run([v.initializer for v in metric.weights])
    for update in updates:
        session.run(update)
    return session.run(metric.result())


def shares() -> dict[str, np.ndarray]:
    """At each of 11 thresholds, of the weighted examples."""
    over = np.linspace(0, 1, 11, dtype=np.float32)[:, None] < GUESS
    right, wrong = (over * TRUTH * WEIGHTS).sum(1), (over * (1 - TRUTH) * WEIGHTS).sum(1)
    missed, right_not = (~over * TRUTH * WEIGHTS).sum(1), (~over * (1 - TRUTH) * WEIGHTS).sum(1)
    return {
        "recall": right / (right + missed),
        "specificity": right_not / (right_not + wrong),
        "precision": right / np.maximum(right + wrong, 1e-9),
    }


@pytest.mark.parametrize(
    ("name", "wanted", "bounded", "bound"),
    [
        ("SensitivityAtSpecificity", "recall", "specificity", 0.5),
        ("SensitivityAtSpecificity", "recall", "specificity", 1.0),
        ("SpecificityAtSensitivity", "specificity", "recall", 0.7),
        ("PrecisionAtRecall", "precision", "recall", 0.9),
        ("RecallAtPrecision", "recall", "precision", 0.8),
    ],
)
def test_the_best_share_where_another_is_enough(name: str, wanted: str, bounded: str, bound: float) -> None:
    found = value(getattr(metrics, name)(bound, num_thresholds=11), (TRUTH, GUESS, WEIGHTS))
    of = shares()
    assert found == pytest.approx(of[wanted][of[bounded] >= bound].max())


def test_where_no_threshold_is_enough_it_is_zero() -> None:
    assert value(metrics.RecallAtPrecision(1.0, num_thresholds=3), (1 - TRUTH, GUESS)) == 0.0
    with pytest.raises(ValueError, match=r"`recall` must be in the range \[0, 1\]"):
        metrics.PrecisionAtRecall(1.5)
    config = metrics.SpecificityAtSensitivity(0.5, 7, class_id=1).get_config()
    assert (config["sensitivity"], config["num_thresholds"], config["class_id"]) == (0.5, 7, 1)
    assert metrics.SpecificityAtSensitivity.from_config(config).value == 0.5


def overlap(truth: Any, guess: Any, classes: Any, weights: Any = 1.0) -> float:
    weights = np.broadcast_to(weights, np.shape(truth))
    found = []
    for each in classes:
        both = weights[(truth == each) & (guess == each)].sum()
        either = weights[(truth == each) | (guess == each)].sum()
        if either:
            found.append(both / either)
    return float(np.mean(found))


def test_intersection_over_union() -> None:
    truth, guess = np.array([[0, 1, 2], [2, 2, 0]]), np.array([[0, 2, 2], [1, 2, 0]])
    weights = np.array([[1, 2, 1], [3, 1, 1]], np.float32)
    assert value(metrics.MeanIoU(4), (truth, guess)) == pytest.approx(overlap(truth, guess, range(4)))
    assert value(metrics.IoU(3, [0, 2]), (truth, guess, weights)) == pytest.approx(
        overlap(truth, guess, [0, 2], weights)
    )
    kept = truth != 1
    assert value(metrics.MeanIoU(3, ignore_class=1), (truth, guess)) == pytest.approx(
        overlap(truth[kept], guess[kept], range(3))
    )
    hot, spread = np.eye(3, dtype=np.float32)[truth], np.eye(3, dtype=np.float32)[guess] + 0.25
    assert value(metrics.OneHotMeanIoU(3), (hot, spread)) == pytest.approx(overlap(truth, guess, range(3)))
    assert value(metrics.OneHotIoU(3, [2]), (hot, spread)) == pytest.approx(overlap(truth, guess, [2]))
    sides = value(metrics.BinaryIoU([1], 0.35), (TRUTH, GUESS))
    assert sides == pytest.approx(overlap(TRUTH, (np.float32(0.35) <= GUESS).astype(float), [1]))
    with pytest.raises(ValueError, match="out of range"):
        metrics.IoU(2, [2])


def test_means_of_each_element_and_of_shares() -> None:
    first, second = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[5.0, 2.0], [0.0, 4.0]])
    mean = metrics.MeanTensor()
    np.testing.assert_allclose(value(mean, (first,), (second, np.array([[1.0, 3.0], [1.0, 0.0]]))), [[3, 2], [1.5, 4]])
    with pytest.raises(ValueError, match="always have the same shape"):
        mean.update_state(np.zeros(3))
    with pytest.raises(ValueError, match="does not have any value yet"):
        metrics.MeanTensor().result()
    relative = metrics.MeanRelativeError(normalizer=[1, 3, 0, 2])
    found = value(relative, (np.array([1.0, 3, 2, 3]), np.array([2.0, 4, 6, 8])))
    assert found == pytest.approx(np.mean([1, 1 / 3, 0, 2.5]))


@pytest.mark.parametrize("name", ["binary_crossentropy", "hinge", "kl_divergence", "mean_squared_error", "poisson"])
def test_functions_of_losses_are_metrics_too(name: str) -> None:
    assert getattr(metrics, name) is getattr(tf.keras.losses, name)
