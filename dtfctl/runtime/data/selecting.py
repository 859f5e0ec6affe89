"""Transformations of datasets that choose elements, and datasets that others are chosen from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self, TypeVar

import numpy as np

from dtfctl.runtime.data.structure import AnyDataset, Structure, trace
from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.convert import convert_to_tensor
from dtfctl.runtime.framework.graph_keys import get_seed
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.tensor_shape import TensorShape

_D = TypeVar("_D", bound="Selecting")
_SCALARS = Structure(0, (dtypes.int64,), (TensorShape([]),))


class Selecting(AnyDataset):
    """What a dataset can choose of its elements."""

    def take_while(self, predicate: Callable[..., Any], name: str | None = None) -> Self:
        """Keep the elements before the first of which `predicate` is false.

        Raises:
            ValueError: the predicate returns something else than one truth value.
        """
        f = trace(predicate, self.structure)
        if f.output.types != (dtypes.bool_,):
            raise ValueError("`predicate` must return a scalar boolean tensor")
        return self._derived("TakeWhileDataset", name=name, other_arguments=f.captured, predicate=f.attr)

    def unique(self, name: str | None = None) -> Self:
        """Keep each of several equal elements once; elements are one number or text each."""
        return self._derived("UniqueDataset", name=name)

    def ignore_errors(self, log_warning: bool = False, name: str | None = None) -> Self:
        """Leave out elements that cannot be made.

        Args:
            log_warning: say which error it was.
        """
        return self._derived("IgnoreErrorsDataset", name=name, log_warning=log_warning)

    @classmethod
    def random(
        cls, seed: int | None = None, rerandomize_each_iteration: bool | None = None, name: str | None = None
    ) -> Self:
        """Make a dataset without end of random numbers, int64 and not negative.

        Args:
            rerandomize_each_iteration: draw other numbers in each pass.
        """
        seeds = [convert_to_tensor(part or 0, dtypes.int64) for part in get_seed(seed)]
        given: dict[str, Any] = {"seed": seeds[0], "seed2": seeds[1], **_SCALARS.attrs}
        if rerandomize_each_iteration is None:
            return cls(apply_op("RandomDataset", name, **given), _SCALARS)
        given["seed_generator"] = apply_op("DummySeedGenerator")
        again = rerandomize_each_iteration
        return cls(apply_op("RandomDatasetV2", name, rerandomize_each_iteration=again, **given), _SCALARS)

    @staticmethod
    def choose_from_datasets(
        datasets: Sequence[_D], choice_dataset: AnyDataset, stop_on_empty_dataset: bool = True
    ) -> _D:
        """Take the next element each time from the dataset whose number the next element of `choice_dataset` is.

        Args:
            stop_on_empty_dataset: end with the first dataset that has ended; else these are left out.

        Raises:
            TypeError: the choices are no int64 scalars.
            ValueError: there is no dataset, or their elements have different types.
        """
        if not datasets:
            raise ValueError("Invalid `datasets`. `datasets` should not be empty.")
        choices = choice_dataset.structure
        if choices.types != (dtypes.int64,) or choices.shapes[0].rank not in (0, None):
            raise TypeError("`choice_dataset` must be a dataset of scalar `tf.int64` tensors")
        return _directed(datasets, choice_dataset, stop_on_empty_dataset)

    @classmethod
    def sample_from_datasets(
        cls,
        datasets: Sequence[Self],
        weights: Any = None,
        seed: int | None = None,
        stop_on_empty_dataset: bool = False,
        rerandomize_each_iteration: bool | None = None,
    ) -> Self:
        """Take the next element each time from a dataset that is drawn at random.

        Args:
            weights: of the datasets, as many numbers or a dataset of such vectors; all the same where it is None.
            stop_on_empty_dataset: end with the first dataset that has ended; else these are left out.
            rerandomize_each_iteration: None or True; each iterator draws anew where there is no seed.

        Raises:
            ValueError: there is no dataset, or not as many weights; their elements have different types.
        """
        if not datasets:
            raise ValueError("Invalid `datasets`. `datasets` should not be empty.")
        if not isinstance(weights, AnyDataset):
            if weights is None:
                weights = np.full(len(datasets), 1 / len(datasets))
            chances = convert_to_tensor(weights)
            if not chances.shape.is_compatible_with([len(datasets)]):
                raise ValueError(
                    f"Invalid `weights`. The shape of `weights` should be compatible with `[len(datasets)]` "
                    f"but is {chances.shape}."
                )
            drawn = _draws(cls.random(seed), lambda two: (chances, two))
        else:
            pairs: Any = type(datasets[0]).zip((weights, _pairs(cls.random(seed))))  # type: ignore[attr-defined]
            drawn = _draws_of(pairs, lambda given, two: (given, two))
        return _directed(datasets, drawn, stop_on_empty_dataset)


def _pairs(numbers: Any) -> Any:
    return numbers.batch(2, drop_remainder=True)


def _draws(numbers: Any, given: Callable[..., Any]) -> Any:
    return _draws_of(_pairs(numbers), given)


def _draws_of(dataset: Any, given: Callable[..., Any]) -> Any:
    """Draw the number of a dataset for each element, of which `given` makes (weights, two seeds)."""

    def draw(*element: Any) -> Any:
        weights, two = given(*element)
        # Weights of 0 are never drawn: their logarithm is the least there is.
        logits = apply_op("Log", x=apply_op("ExpandDims", input=weights, dim=0))
        drawn = apply_op("StatelessMultinomial", logits=logits, num_samples=1, seed=two, output_dtype=dtypes.int64)
        return apply_op("Squeeze", input=drawn, squeeze_dims=[0, 1])

    return dataset.map(draw)


def _directed(datasets: Sequence[_D], choices: AnyDataset, stop_on_empty: bool) -> _D:
    first = datasets[0].structure
    structure = first
    for i, dataset in enumerate(datasets):
        if dataset.structure.types != first.types:
            raise ValueError(
                f"Invalid `datasets`. `datasets` must have compatible element specs, but dataset {i} has elements of "
                f"{dataset.structure.types}, and the first of {first.types}."
            )
        structure = structure.common(dataset.structure)
    variant = apply_op(
        "DirectedInterleaveDataset",
        selector_input_dataset=choices.variant,
        data_input_datasets=[dataset.variant for dataset in datasets],
        stop_on_empty_dataset=stop_on_empty,
        **structure.attrs,
    )
    return type(datasets[0])(variant, structure)
