"""`tf.keras.metrics.AUC`: areas under curves, by counts at thresholds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.convert import convert_to_tensor
from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.keras.losses import squeeze_last
from dtfctl.runtime.keras.metrics.base import Metric
from dtfctl.runtime.ops import array_ops, math_ops
from dtfctl.runtime.ops.grouping import group

_COUNTS = ("true_positives", "true_negatives", "false_positives", "false_negatives")
_CURVES = ("ROC", "PR", "PR_GAIN")
_WAYS = ("interpolation", "minoring", "majoring")


class AUC(Metric):
    """The area under a curve, by counts at thresholds.

    Args:
        num_thresholds: how many thresholds, evenly from 0 to 1.
        curve: "ROC", "PR" for precision over recall, or "PR_GAIN" for what both gain over the share of positives.
        summation_method: "interpolation", or "minoring" or "majoring" for a bound of the area.
        thresholds: those between 0 and 1, instead of `num_thresholds`.
        multi_label: compute an area for each column, and their mean.
        num_labels: how many columns there are with `multi_label`; None to learn it from the first batch.
        label_weights: what each column counts.
        from_logits: predictions are what a sigmoid makes probabilities of.
    """

    true_positives: Any
    true_negatives: Any
    false_positives: Any
    false_negatives: Any

    def __init__(
        self,
        num_thresholds: int = 200,
        curve: str = "ROC",
        summation_method: str = "interpolation",
        name: str | None = None,
        dtype: Any = None,
        thresholds: Any = None,
        multi_label: bool = False,
        num_labels: int | None = None,
        label_weights: Any = None,
        from_logits: bool = False,
    ) -> None:
        curve = {"PRGAIN": "PR_GAIN"}.get(curve.upper(), curve.upper())
        summation_method = summation_method.lower()
        if curve not in _CURVES:
            raise ValueError(f'Invalid AUC curve value: "{curve}". Expected values are {list(_CURVES)}')
        if summation_method not in _WAYS:
            raise ValueError(
                f'Invalid AUC summation method value: "{summation_method}". Expected values are {list(_WAYS)}'
            )
        if thresholds is None and num_thresholds <= 1:
            raise ValueError(
                f"Argument `num_thresholds` must be an integer > 1. Received: num_thresholds={num_thresholds}"
            )
        if num_labels and not multi_label:
            raise ValueError("`num_labels` is needed only when `multi_label` is True.")
        if label_weights is not None and min(label_weights) < 0:
            raise ValueError("All values of `label_weights` must be non-negative.")
        super().__init__(name=name, dtype=dtype)
        self._given = None if thresholds is None else sorted(float(v) for v in thresholds)
        inner = self._given
        if inner is None:
            inner = [(i + 1) / (num_thresholds - 1) for i in range(num_thresholds - 2)]
        self.num_thresholds, self.curve, self.summation_method = len(inner) + 2, curve, summation_method
        self.multi_label, self.num_labels, self._from_logits = multi_label, num_labels, from_logits
        self.label_weights = None if label_weights is None else np.asarray(label_weights, np.float32)
        self._thresholds = np.array([-1e-7, *inner, 1 + 1e-7], np.float32)
        self._made = False
        if not multi_label or num_labels:
            self._make(num_labels)

    @property
    def thresholds(self) -> list[float]:
        """The thresholds, with one below all predictions and one above."""
        return [float(v) for v in self._thresholds]

    def _make(self, labels: int | None) -> None:
        for kind in _COUNTS:
            setattr(self, kind, self.add_weight(kind, (self.num_thresholds, *([labels] if labels else []))))
        self._made = True

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        """Make the op that adds a batch."""
        truth = math_ops.cast(math_ops.cast(y_true, dtypes.bool_), self._dtype)
        guess = math_ops.cast(y_pred, self._dtype)
        if not self._made:
            self._make(_columns(guess))
        if self._from_logits:
            guess = math_ops.sigmoid(guess)
        if not self.multi_label:
            truth, guess = squeeze_last(truth, guess)
        weights: Any = None
        if sample_weight is not None:
            weights = math_ops.cast(sample_weight, self._dtype)
            for _ in range((guess.shape.rank or 0) - (weights.shape.rank or 0)):
                weights = array_ops.expand_dims(weights, -1)
        if self.label_weights is not None and not self.multi_label:
            weights = self.label_weights if weights is None else weights * self.label_weights
        weights = array_ops.ones_like(guess) if weights is None else weights * array_ops.ones_like(guess)
        columns = [1, -1, guess.shape.as_list()[-1]] if self.multi_label else [1, -1]
        truth, guess, weights = (array_ops.reshape(each, columns) for each in (truth, guess, weights))
        over = math_ops.cast(guess > self._thresholds.reshape([-1, *[1] * (len(columns) - 1)]), self._dtype)
        kinds = (truth * over, (1.0 - truth) * (1.0 - over), (1.0 - truth) * over, truth * (1.0 - over))
        sums = [math_ops.reduce_sum(each * weights, axis=1) for each in kinds]
        return group(*(getattr(self, kind).assign_add(found).op for kind, found in zip(_COUNTS, sums)))

    def result(self) -> Any:
        """Compute the number from the variables."""
        right, right_not, wrong, wrong_not = (convert_to_tensor(getattr(self, kind)) for kind in _COUNTS)
        recall = math_ops.div_no_nan(right, right + wrong_not)
        if self.curve == "PR" and self.summation_method == "interpolation":
            parts = _interpolated(right, wrong, wrong_not)
        elif self.curve == "PR":
            parts = self._strips(recall, math_ops.div_no_nan(right, right + wrong))
        elif self.curve == "ROC":
            parts = self._strips(math_ops.div_no_nan(wrong, wrong + right_not), recall)
        else:
            share = math_ops.div_no_nan(right + wrong_not, wrong + right_not)
            some = math_ops.greater(right, 0.0)
            gains = [1.0 - share * math_ops.div_no_nan(missed, right) for missed in (wrong_not, wrong)]
            x = math_ops.maximum(array_ops.where(some, gains[0], array_ops.zeros_like(right)), 0.0)
            parts = self._strips(x, array_ops.where(some, gains[1], array_ops.ones_like(right)))
        if not self.multi_label:
            return math_ops.reduce_sum(parts)
        areas = math_ops.reduce_sum(parts, axis=0)
        if self.label_weights is None:
            return math_ops.reduce_mean(areas)
        return math_ops.div_no_nan(math_ops.reduce_sum(areas * self.label_weights), float(self.label_weights.sum()))

    def _strips(self, x: Any, y: Any) -> Any:
        """Compute the area under a curve between each two points."""
        ways: dict[str, Callable[[], Any]] = {
            "interpolation": lambda: (y[:-1] + y[1:]) / 2.0,
            "minoring": lambda: math_ops.minimum(y[:-1], y[1:]),
            "majoring": lambda: math_ops.maximum(y[:-1], y[1:]),
        }
        return (x[:-1] - x[1:]) * ways[self.summation_method]()

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make it again."""
        own = {
            "num_thresholds": self.num_thresholds,
            "curve": self.curve,
            "summation_method": self.summation_method,
            "multi_label": self.multi_label,
            "num_labels": self.num_labels,
            "label_weights": None if self.label_weights is None else self.label_weights.tolist(),
            "from_logits": self._from_logits,
        }
        given = {} if self._given is None else {"thresholds": self._given}
        return {**super().get_config(), **own, **given}


def _columns(guess: Any) -> int:
    dims = TensorShape(guess.shape)
    if dims.rank != 2 or dims.as_list()[1] is None:
        raise ValueError(
            f"`y_pred` must have rank 2 when `multi_label=True`. Found rank {dims.rank}. Full shape received for "
            f"`y_pred`: {dims}"
        )
    return int(dims.as_list()[1] or 0)


def _interpolated(right: Any, wrong: Any, wrong_not: Any) -> Any:
    """Compute the areas under precision over recall where the counts go linearly between thresholds.

    As Davis & Goadrich say (2006), in closed form.
    """
    taken = right + wrong
    gained, took = right[:-1] - right[1:], taken[:-1] - taken[1:]
    slope = math_ops.div_no_nan(gained, math_ops.maximum(took, 0.0))
    intercept = right[1:] - slope * taken[1:]
    both = math_ops.logical_and(taken[:-1] > 0, taken[1:] > 0)
    ratio = math_ops.div_no_nan(taken[:-1], math_ops.maximum(taken[1:], 0.0))
    safe = array_ops.where(both, ratio, array_ops.ones_like(taken[1:]))
    found = slope * (gained + intercept * math_ops.log(safe))
    return math_ops.div_no_nan(found, math_ops.maximum(right[1:] + wrong_not[1:], 0.0))
