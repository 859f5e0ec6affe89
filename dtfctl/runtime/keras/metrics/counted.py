"""Metrics that count labels and predictions on either side of thresholds."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.keras.losses import squeeze_last
from dtfctl.runtime.keras.metrics import accuracies
from dtfctl.runtime.keras.metrics.base import Metric
from dtfctl.runtime.ops import array_ops, math_ops
from dtfctl.runtime.ops.grouping import group


class Counted(Metric):
    """Sums over examples of what is true of labels and predictions, at one threshold or at several."""

    _counts: tuple[str, ...]

    def __init__(self, thresholds: Any = None, name: str | None = None, dtype: Any = None) -> None:
        super().__init__(name=name, dtype=dtype)
        self.thresholds = thresholds
        self.top_k: int | None = None
        self.class_id: int | None = None
        given = [0.5] if thresholds is None else np.ravel(thresholds).tolist()
        if not all(0 <= threshold <= 1 for threshold in given):
            raise ValueError(f"Threshold values must be in [0, 1]. Received: {thresholds}")
        self._thresholds = np.array(given, np.float32)
        for kind in self._counts:
            setattr(self, kind, self.add_weight(kind, (len(given),)))

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        """Make the op that adds a batch."""
        truth = math_ops.cast(math_ops.cast(y_true, dtypes.bool_), self._dtype)
        truth, guess = squeeze_last(truth, math_ops.cast(y_pred, self._dtype))
        if self.top_k is not None:
            guess = accuracies.only_largest(guess, self.top_k)
        if self.class_id is not None:
            truth, guess = (each[..., self.class_id : self.class_id + 1] for each in (truth, guess))
        positive = array_ops.reshape(truth, [1, -1])
        predicted = math_ops.cast(array_ops.reshape(guess, [1, -1]) > self._thresholds[:, None], self._dtype)
        weights: Any = 1.0
        if sample_weight is not None:
            weights = math_ops.cast(sample_weight, self._dtype)
            for _ in range((guess.shape.rank or 0) - (weights.shape.rank or 0)):
                weights = array_ops.expand_dims(weights, -1)
            weights = array_ops.reshape(weights * array_ops.ones_like(guess), [1, -1])
        kinds = {
            "true_positives": lambda: positive * predicted,
            "false_positives": lambda: (1.0 - positive) * predicted,
            "true_negatives": lambda: (1.0 - positive) * (1.0 - predicted),
            "false_negatives": lambda: positive * (1.0 - predicted),
        }
        sums = {kind: math_ops.reduce_sum(kinds[kind]() * weights, axis=1) for kind in self._counts}
        return group(*(getattr(self, kind).assign_add(found).op for kind, found in sums.items()))

    def _one_or_all(self, found: Any) -> Any:
        return found[0] if len(self._thresholds) == 1 else array_ops.identity(found)

    def result(self) -> Any:
        """Compute the number from the variables: one for each threshold where there are several."""
        return array_ops.identity(self._one_or_all(getattr(self, self._counts[0])))

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make it again."""
        return {**super().get_config(), "thresholds": self.thresholds}


class TruePositives(Counted):
    """How many labels are 1 and predicted so."""

    _counts = ("true_positives",)


class FalsePositives(Counted):
    """How many labels are 0 and predicted 1."""

    _counts = ("false_positives",)


class TrueNegatives(Counted):
    """How many labels are 0 and predicted so."""

    _counts = ("true_negatives",)


class FalseNegatives(Counted):
    """How many labels are 1 and predicted 0."""

    _counts = ("false_negatives",)


class Precision(Counted):
    """How many of those that are predicted 1 are 1.

    Args:
        top_k: those that are predicted 1 are the k largest of the last axis, whatever they are without thresholds.
        class_id: the place in the last axis that is looked at.
    """

    _counts = ("true_positives", "false_positives")

    def __init__(
        self,
        thresholds: Any = None,
        top_k: int | None = None,
        class_id: int | None = None,
        name: str | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(thresholds, name, dtype)
        self.top_k, self.class_id = top_k, class_id
        if thresholds is None and top_k is not None:
            self._thresholds = np.array([accuracies.NEVER], np.float32)

    def result(self) -> Any:
        """Compute the number from the variables: one for each threshold where there are several."""
        first, second = (getattr(self, kind) for kind in self._counts)
        return self._one_or_all(math_ops.div_no_nan(first, first + second))

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make it again."""
        return {**super().get_config(), "top_k": self.top_k, "class_id": self.class_id}


class Recall(Precision):
    """How many of those that are 1 are predicted so."""

    _counts = ("true_positives", "false_negatives")
