"""`tensorflow.python.data.experimental.ops`: elements of datasets by their places, and all of them in a drawn order."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.data import Dataset
from dtfctl.runtime.framework.convert import convert_to_tensor
from dtfctl.runtime.framework.dtypes import int64
from dtfctl.runtime.framework.graph_keys import get_seed
from dtfctl.runtime.framework.op_builder import apply_op, apply_op_outputs


def at(dataset: Dataset, index: Any) -> Any:
    """Return the element at a place of a dataset whose elements can be had in any order."""
    structure = dataset.structure
    place = convert_to_tensor(index, int64)
    found = apply_op_outputs("GetElementAtIndex", dataset=dataset.variant, index=place, **structure.attrs)
    for tensor, shape in zip(found, structure.shapes):
        tensor.set_shape(shape)
    return structure.pack(found)


def _global_shuffle(
    input_dataset: Dataset, seed: Any = None, reshuffle_each_iteration: bool = True, name: str | None = None
) -> Dataset:
    """Give the elements in a random order of all their places, without a buffer."""
    first, second = get_seed(seed)
    variant = apply_op(
        "GlobalShuffleDataset",
        name,
        input_dataset=input_dataset.variant,
        seed=convert_to_tensor(first or 0, int64),
        seed2=convert_to_tensor(second or 0, int64),
        seed_generator=apply_op("DummySeedGenerator"),
        reshuffle_each_iteration=reshuffle_each_iteration,
        **input_dataset.structure.attrs,
    )
    return Dataset(variant, input_dataset.structure)
