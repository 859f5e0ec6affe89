"""Programs over `tf.metrics`: two batches taken in, the value before and after each."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

_RNG = np.random.RandomState(3)
LABELS = _RNG.randint(0, 4, (2, 5, 3)).astype(np.int64)
GUESSES = np.where(_RNG.rand(2, 5, 3) < 0.6, LABELS, _RNG.randint(0, 4, (2, 5, 3))).astype(np.int64)
REALS = _RNG.uniform(-1, 1, (2, 5, 3)).astype(np.float32)
OTHERS = _RNG.uniform(-1, 1, (2, 5, 3)).astype(np.float32)
PROBABILITIES = _RNG.uniform(0, 1, (2, 5, 3)).astype(np.float32)
TRUTHS = (PROBABILITIES + _RNG.uniform(-0.6, 0.6, (2, 5, 3)) > 0.5).astype(np.int32)
WEIGHTS = _RNG.randint(0, 3, (2, 5, 1)).astype(np.float32)
SCORES = _RNG.rand(2, 5, 6).astype(np.float32)
SETS = np.stack([[_RNG.permutation(6)[:2] for _ in range(5)] for _ in range(2)]).astype(np.int64)
POINTS = [0.1, 0.3, 0.5, 0.9]

Program = Callable[[Any], list[Any]]


def _streamed(make: Callable[[Any, Any, Any, Any], Any], labels: Any, guesses: Any, known: bool = True) -> Program:
    def program(tf: Any) -> list[Any]:
        shape = labels.shape[1:] if known else None
        y = tf.placeholder(labels.dtype, shape)
        p = tf.placeholder(guesses.dtype, guesses.shape[1:] if known else None)
        w = tf.placeholder(np.float32, [5, 1] if known else None)
        value, update = make(tf, y, p, w)
        found = []
        with tf.Session() as session:
            session.run(tf.local_variables_initializer())
            for i in range(2):
                found.append(session.run(value))
                found.append(session.run(update, {y: labels[i], p: guesses[i], w: WEIGHTS[i]}))
            found.append(session.run(value))
        names = sorted(v.op.name for v in tf.get_collection(tf.GraphKeys.METRIC_VARIABLES))
        assert names == sorted(v.op.name for v in tf.local_variables())
        return [*found, [re.sub(r"_\d+$", "", name) for name in names]]

    return program


def _both(name: str, labels: Any, guesses: Any, *args: Any, **kwargs: Any) -> dict[str, Program]:
    return {
        f"{name}{suffix}": _streamed(
            lambda tf, y, p, w, on=bool(suffix): getattr(tf.metrics, name)(
                y, p, *args, weights=w if on else None, **kwargs
            ),
            labels,
            guesses,
        )
        for suffix in ("", "_weighted")
    }


def _collections(tf: Any) -> list[Any]:
    value, update = tf.metrics.mean([1.0, 2.0], metrics_collections=["m"], updates_collections=["u"], name="here")
    assert tf.get_collection("m") == [value]
    assert tf.get_collection("u") == [update]
    return [value.name, update.name]


def _sparse_labels(tf: Any) -> list[Any]:
    rows = [[r, c] for r in range(5) for c in range(2)]
    found = []
    with tf.Session() as session:
        for metric in (tf.metrics.recall_at_k, tf.metrics.precision_at_k, tf.metrics.average_precision_at_k):
            labels = tf.SparseTensor(rows, SETS[0].reshape(-1), [5, 2])
            update = metric(labels, SCORES[0], 3)[1]
            session.run(tf.local_variables_initializer())
            found.append(session.run(update))
    return found


def _batches(labels: Any, guesses: Any) -> dict[str, Program]:
    return {
        "vectors_against_columns": _streamed(
            lambda tf, y, p, w: tf.metrics.accuracy(y[:, 0], p[:, :1], w[:, 0]), labels, guesses
        ),
        "unknown_shapes": _streamed(lambda tf, y, p, w: tf.metrics.accuracy(y, p, w), labels, guesses, known=False),
    }


def _column(a: Any) -> Any:
    return a[:, :, :1]


PROGRAMS: dict[str, Program] = {
    "collections": _collections,
    "sparse_labels": _sparse_labels,
    "mean": _streamed(lambda tf, y, p, w: tf.metrics.mean(p), LABELS, REALS),
    "mean_weighted": _streamed(lambda tf, y, p, w: tf.metrics.mean(p, w), LABELS, REALS),
    "mean_scalar_weight": _streamed(lambda tf, y, p, w: tf.metrics.mean(y, 2.0), LABELS, REALS),
    "mean_tensor": _streamed(lambda tf, y, p, w: tf.metrics.mean_tensor(p), LABELS, REALS),
    "mean_tensor_weighted": _streamed(lambda tf, y, p, w: tf.metrics.mean_tensor(p, w), LABELS, REALS),
    "percentage_below": _streamed(lambda tf, y, p, w: tf.metrics.percentage_below(p, 0.2, w), LABELS, REALS),
    **_both("accuracy", LABELS, GUESSES),
    **_batches(LABELS, GUESSES),
    **_both("mean_absolute_error", REALS, OTHERS),
    **_both("mean_squared_error", REALS, OTHERS),
    **_both("root_mean_squared_error", REALS, OTHERS),
    **_both("mean_relative_error", REALS, OTHERS, np.where(REALS[0] > 0, np.abs(REALS[0]), 0).astype(np.float32)),
    **_both("mean_cosine_distance", REALS, OTHERS, 1),
    **_both("mean_per_class_accuracy", _column(LABELS), _column(GUESSES), 5),
    **_both("mean_iou", _column(LABELS), _column(GUESSES), 5),
    **{
        name: program
        for metric in ("true_positives", "false_positives", "true_negatives", "false_negatives", "precision", "recall")
        for name, program in _both(metric, TRUTHS, (PROBABILITIES > 0.5).astype(np.int32)).items()
    },
    **{
        name: program
        for metric in ("true_positives", "false_positives", "true_negatives", "false_negatives", "precision", "recall")
        for name, program in _both(f"{metric}_at_thresholds", TRUTHS, PROBABILITIES, POINTS).items()
    },
    **_both("auc", TRUTHS, PROBABILITIES),
    **{
        f"auc_{curve}_{method}": _streamed(
            lambda tf, y, p, w, c=curve, m=method: tf.metrics.auc(
                y, p, w, num_thresholds=20, curve=c, summation_method=m
            ),
            TRUTHS,
            PROBABILITIES,
        )
        for curve in ("ROC", "PR")
        for method in ("trapezoidal", "careful_interpolation", "minoring", "majoring")
    },
    "auc_thresholds": _streamed(lambda tf, y, p, w: tf.metrics.auc(y, p, thresholds=POINTS), TRUTHS, PROBABILITIES),
    **_both("sensitivity_at_specificity", TRUTHS, PROBABILITIES, 0.7),
    **_both("specificity_at_sensitivity", TRUTHS, PROBABILITIES, 0.7),
    **{
        f"{metric}{'' if class_id is None else '_class'}{'_weighted' if weighted else ''}": _streamed(
            lambda tf, y, p, w, m=metric, c=class_id, on=weighted: getattr(tf.metrics, m)(
                y, p, 3, class_id=c, weights=w[:, 0] if on else None
            ),
            SETS,
            SCORES,
        )
        for metric in ("precision_at_k", "recall_at_k")
        for class_id in (None, 2)
        for weighted in (False, True)
    },
    "precision_at_top_k": _streamed(
        lambda tf, y, p, w: tf.metrics.precision_at_top_k(y, tf.math.top_k(p, 2)[1]), SETS, SCORES
    ),
    "recall_at_top_k": _streamed(
        lambda tf, y, p, w: tf.metrics.recall_at_top_k(y[:, 0], tf.math.top_k(p, 2)[1], k=2), SETS, SCORES
    ),
    "average_precision_at_k": _streamed(lambda tf, y, p, w: tf.metrics.average_precision_at_k(y, p, 3), SETS, SCORES),
    "average_precision_at_k_weighted": _streamed(
        lambda tf, y, p, w: tf.metrics.average_precision_at_k(y, p, 3, w[:, 0]), SETS + 2, SCORES
    ),
    "average_precision_one_label": _streamed(
        lambda tf, y, p, w: tf.metrics.average_precision_at_k(y[:, 0], p, 4, name="ap"), SETS, SCORES
    ),
}
