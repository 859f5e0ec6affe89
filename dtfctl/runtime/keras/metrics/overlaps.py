"""Metrics of segmentations: how much of where a class is, or is predicted, is both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dtfctl.runtime.framework.convert import convert_to_tensor
from dtfctl.runtime.keras.metrics.base import Metric
from dtfctl.runtime.ops import array_ops, math_ops
from dtfctl.runtime.ops.sort_ops import confusion_matrix


class IoU(Metric):
    """The mean, over some classes, of intersection over union of where a class is and where it is predicted.

    Args:
        target_class_ids: the classes whose mean it is; those that are nowhere do not count.
        ignore_class: the label of places that do not count.
        sparse_y_true, sparse_y_pred: numbers of classes; else a value for each class along `axis`.
    """

    _given: tuple[str, ...] = (
        *("num_classes", "target_class_ids", "ignore_class", "sparse_y_true", "sparse_y_pred", "axis"),
    )

    def __init__(
        self,
        num_classes: int,
        target_class_ids: Sequence[int],
        name: str | None = None,
        dtype: Any = None,
        ignore_class: int | None = None,
        sparse_y_true: bool = True,
        sparse_y_pred: bool = True,
        axis: int = -1,
    ) -> None:
        super().__init__(name=name, dtype=dtype)
        if max(target_class_ids) >= num_classes:
            raise ValueError(f"Target class id {max(target_class_ids)} is out of range, which is [0, {num_classes}).")
        self.num_classes, self.target_class_ids = num_classes, list(target_class_ids)
        self.ignore_class, self.axis = ignore_class, axis
        self.sparse_y_true, self.sparse_y_pred = sparse_y_true, sparse_y_pred
        self.total_cm = self.add_weight("total_confusion_matrix", (num_classes, num_classes))

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        """Make the op that adds a batch."""
        truth, guess = (
            convert_to_tensor(values) if is_sparse else math_ops.argmax(values, axis=self.axis)
            for values, is_sparse in ((y_true, self.sparse_y_true), (y_pred, self.sparse_y_pred))
        )
        truth, guess = (array_ops.reshape(math_ops.cast(each, self._dtype), [-1]) for each in (truth, guess))
        weights = None
        if sample_weight is not None:
            weights = array_ops.reshape(math_ops.cast(sample_weight, self._dtype), [-1])
        if self.ignore_class is not None:
            counts = math_ops.not_equal(truth, float(self.ignore_class))
            truth, guess = (array_ops.boolean_mask(each, counts) for each in (truth, guess))
            weights = None if weights is None else array_ops.boolean_mask(weights, counts)
        found = confusion_matrix(truth, guess, self.num_classes, dtype=self._dtype, weights=weights)
        return self.total_cm.assign_add(found).op

    def result(self) -> Any:
        """Compute the number from the variables."""
        total = convert_to_tensor(self.total_cm)
        both = array_ops.diag_part(total)
        either = math_ops.reduce_sum(total, axis=0) + math_ops.reduce_sum(total, axis=1) - both
        both, either = (array_ops.gather(each, self.target_class_ids) for each in (both, either))
        anywhere = math_ops.reduce_sum(math_ops.cast(math_ops.not_equal(either, 0.0), self._dtype))
        return math_ops.div_no_nan(math_ops.reduce_sum(math_ops.div_no_nan(both, either)), anywhere)

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make it again."""
        return {**super().get_config(), **{name: getattr(self, name) for name in self._given}}


class BinaryIoU(IoU):
    """Intersection over union of two classes that are told apart by a threshold."""

    _given: tuple[str, ...] = ("target_class_ids", "threshold")

    def __init__(
        self,
        target_class_ids: Sequence[int] = (0, 1),
        threshold: float = 0.5,
        name: str | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(2, target_class_ids, name, dtype)
        self.threshold = threshold

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        """Make the op that adds a batch."""
        over = math_ops.greater_equal(math_ops.cast(y_pred, self._dtype), self.threshold)
        return super().update_state(y_true, math_ops.cast(over, self._dtype), sample_weight)


class MeanIoU(IoU):
    """The mean of intersection over union of all classes."""

    _given: tuple[str, ...] = ("num_classes", "ignore_class", "sparse_y_true", "sparse_y_pred", "axis")

    def __init__(
        self,
        num_classes: int,
        name: str | None = None,
        dtype: Any = None,
        ignore_class: int | None = None,
        sparse_y_true: bool = True,
        sparse_y_pred: bool = True,
        axis: int = -1,
    ) -> None:
        every = range(num_classes)
        super().__init__(num_classes, every, name, dtype, ignore_class, sparse_y_true, sparse_y_pred, axis)


class OneHotIoU(IoU):
    """Intersection over union of some classes, of one-hot labels."""

    _given: tuple[str, ...] = ("num_classes", "target_class_ids", "ignore_class", "sparse_y_pred", "axis")

    def __init__(
        self,
        num_classes: int,
        target_class_ids: Sequence[int],
        name: str | None = None,
        dtype: Any = None,
        ignore_class: int | None = None,
        sparse_y_pred: bool = False,
        axis: int = -1,
    ) -> None:
        super().__init__(num_classes, target_class_ids, name, dtype, ignore_class, False, sparse_y_pred, axis)


class OneHotMeanIoU(MeanIoU):
    """The mean of intersection over union of all classes, of one-hot labels."""

    _given: tuple[str, ...] = ("num_classes", "ignore_class", "sparse_y_pred", "axis")

    def __init__(
        self,
        num_classes: int,
        name: str | None = None,
        dtype: Any = None,
        ignore_class: int | None = None,
        sparse_y_pred: bool = False,
        axis: int = -1,
    ) -> None:
        super().__init__(num_classes, name, dtype, ignore_class, False, sparse_y_pred, axis)
