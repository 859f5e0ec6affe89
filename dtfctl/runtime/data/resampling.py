"""Datasets whose elements are drawn so that classes have other shares than they come with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dtfctl.runtime.data.structure import AnyDataset
from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.constant_value import constant_value
from dtfctl.runtime.framework.convert import convert_to_tensor
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.ops import array_ops, math_ops
from dtfctl.runtime.ops.cond import cond
from dtfctl.runtime.ops.logging_ops import Print
from dtfctl.runtime.ops.random_ops import random_uniform

# Elements that an estimate of the classes' shares holds for, and how often each class counts before the first.
_BATCH, _SMOOTHING = 32, 10


class Resampling(AnyDataset):
    """What a dataset can make of its elements by their classes."""

    def rejection_resample(
        self: Any,
        class_func: Callable[..., Any],
        target_dist: Any,
        initial_dist: Any = None,
        seed: int | None = None,
        name: str | None = None,
    ) -> Any:
        """Leave elements out so that classes have the shares `target_dist`; give (class, element) pairs.

        Args:
            class_func: the class of an element, an int32 scalar.
            initial_dist: the shares that classes have; they are estimated as elements come where it is None.
            seed: of the draws.
        """
        target = math_ops.cast(convert_to_tensor(target_dist, name="target_dist"), dtypes.float32)
        known: float | None = None
        if initial_dist is not None:
            initial = math_ops.cast(convert_to_tensor(initial_dist, name="initial_dist"), dtypes.float32)
            accept, as_they_are = _acceptance(initial, target)
            initials, accepts, originals = (type(self).from_tensors(t).repeat() for t in (initial, accept, as_they_are))
            values = constant_value(initial), constant_value(target)
            if values[0] is not None and values[1] is not None:
                known = float(np.min(values[1] / values[0]))
        else:
            initials = _estimated(self.map(class_func), target)
            both = initials.map(lambda initial: _acceptance(initial, target))
            accepts, originals = both.map(lambda accept, _: accept), both.map(lambda _, original: original)
        chosen = _accepted(self, accepts, initials, class_func, seed).prefetch(3, name=name)
        if known == 0:
            return chosen

        def with_class(*element: Any) -> Any:
            return class_func(*element), element[0] if len(element) == 1 else element

        if known == 1:
            return self.map(with_class, name=name)
        weights = originals.map(lambda share: array_ops.stack([share, 1.0 - share]))
        return type(self).sample_from_datasets([self.map(with_class), chosen], weights, seed, True)


def _acceptance(initial: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Compute how often each class is kept among what is drawn again, and the share that is passed on as it comes."""
    tiny = np.finfo(np.float32).tiny
    ratio = target / math_ops.maximum(initial, array_ops.fill(array_ops.shape(initial), tiny))
    least = math_ops.reduce_min(ratio)
    return (ratio - least) / (math_ops.reduce_max(ratio) - least), least


def _estimated(classes: Any, target: Tensor) -> Any:
    size = target.shape[0].value
    count = array_ops.shape(target)[0] if size is None else size

    def update(seen: Tensor, numbers: Tensor) -> Any:
        found = math_ops.reduce_sum(array_ops.one_hot(numbers, count, dtype=dtypes.int64), 0)
        seen = math_ops.add(seen, found)
        shares = math_ops.cast(math_ops.truediv(seen, math_ops.reduce_sum(seen)), dtypes.float32)
        return seen, array_ops.tile(array_ops.expand_dims(shares, 0), [_BATCH, 1])

    first = array_ops.fill([count], np.int64(_SMOOTHING))
    return classes.batch(_BATCH).scan(first, update).unbatch()


def _accepted(dataset: Any, accepts: Any, initials: Any, class_func: Callable[..., Any], seed: int | None) -> Any:
    def warn(accept: Tensor, initial: Tensor) -> Tensor:
        rejected = math_ops.reduce_sum((1 - accept) * initial)
        warned: Tensor = cond(
            math_ops.less(rejected, 0.5),
            lambda: accept,
            lambda: Print(
                accept,
                [rejected, initial, accept],
                message="Proportion of examples rejected by sampler is high: ",
                summarize=100,
                first_n=10,
            ),
        )
        return warned

    def with_chance(accept: Tensor, element: Any) -> Any:
        kind = class_func(*element) if isinstance(element, tuple) else class_func(element)
        return kind, array_ops.gather(accept, kind), element

    cls = type(dataset)
    chances = cls.zip((accepts, initials)).map(warn)
    drawn = cls.zip((chances, dataset)).map(with_chance)
    kept = drawn.filter(lambda kind, chance, element: random_uniform([], seed=seed, dtype=chance.dtype) < chance)
    return kept.map(lambda kind, chance, element: (kind, element))
