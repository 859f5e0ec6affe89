"""Metrics that say how good predictions are at the best threshold that is good enough otherwise."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfctl.runtime.framework.convert import convert_to_tensor
from dtfctl.runtime.keras.metrics.counted import Counted
from dtfctl.runtime.ops import array_ops, math_ops

_RIGHT, _RIGHT_NOT, _WRONG, _WRONG_NOT = "true_positives", "true_negatives", "false_positives", "false_negatives"
_RECALL, _SPECIFICITY, _PRECISION = (_RIGHT, _WRONG_NOT), (_RIGHT_NOT, _WRONG), (_RIGHT, _WRONG)


class OperatingPoint(Counted):
    """Base of metrics that are the largest share at a threshold where another share is at least a value.

    Args:
        value: what the other share has to be.
        num_thresholds: how many thresholds, evenly from 0 to 1.
        class_id: the place in the last axis that is looked at.
    """

    _counts = (_RIGHT, _RIGHT_NOT, _WRONG, _WRONG_NOT)
    _bound: str
    _bounded: tuple[str, str]
    _wanted: tuple[str, str]

    def __init__(
        self,
        value: float,
        num_thresholds: int = 200,
        class_id: int | None = None,
        name: str | None = None,
        dtype: Any = None,
    ) -> None:
        if not 0 <= value <= 1:
            raise ValueError(f"Argument `{self._bound}` must be in the range [0, 1]. Received: {self._bound}={value}")
        if num_thresholds <= 0:
            raise ValueError(
                f"Argument `num_thresholds` must be an integer > 0. Received: num_thresholds={num_thresholds}"
            )
        super().__init__([0.5] if num_thresholds == 1 else np.linspace(0.0, 1.0, num_thresholds), name, dtype)
        self.value, self.num_thresholds, self.class_id = value, num_thresholds, class_id
        self.thresholds = self._thresholds.tolist()
        setattr(self, self._bound, value)

    def result(self) -> Any:
        """Compute the number from the variables; 0 where no threshold is good enough."""
        bounded, wanted = (self._share(*of) for of in (self._bounded, self._wanted))
        enough = math_ops.greater_equal(bounded, self.value)
        return math_ops.reduce_max(array_ops.where(enough, wanted, array_ops.zeros_like(wanted)))

    def _share(self, first: str, second: str) -> Any:
        of, beside = (convert_to_tensor(getattr(self, kind)) for kind in (first, second))
        return math_ops.div_no_nan(of, of + beside)

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make it again."""
        config = super().get_config()
        config.pop("thresholds")
        own = {"class_id": self.class_id, "num_thresholds": self.num_thresholds, self._bound: self.value}
        return {**config, **own}


class SensitivityAtSpecificity(OperatingPoint):
    """How many of those that are 1 are predicted so, where enough of those that are 0 are."""

    _bound, _bounded, _wanted = "specificity", _SPECIFICITY, _RECALL

    def __init__(
        self,
        specificity: float,
        num_thresholds: int = 200,
        class_id: int | None = None,
        name: str | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(specificity, num_thresholds, class_id, name, dtype)


class SpecificityAtSensitivity(OperatingPoint):
    """How many of those that are 0 are predicted so, where enough of those that are 1 are."""

    _bound, _bounded, _wanted = "sensitivity", _RECALL, _SPECIFICITY

    def __init__(
        self,
        sensitivity: float,
        num_thresholds: int = 200,
        class_id: int | None = None,
        name: str | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(sensitivity, num_thresholds, class_id, name, dtype)


class PrecisionAtRecall(OperatingPoint):
    """How many of those that are predicted 1 are, where enough of those that are 1 are predicted so."""

    _bound, _bounded, _wanted = "recall", _RECALL, _PRECISION

    def __init__(
        self,
        recall: float,
        num_thresholds: int = 200,
        class_id: int | None = None,
        name: str | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(recall, num_thresholds, class_id, name, dtype)


class RecallAtPrecision(OperatingPoint):
    """How many of those that are 1 are predicted so, where enough of those that are predicted 1 are."""

    _bound, _bounded, _wanted = "precision", _PRECISION, _RECALL

    def __init__(
        self,
        precision: float,
        num_thresholds: int = 200,
        class_id: int | None = None,
        name: str | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(precision, num_thresholds, class_id, name, dtype)
