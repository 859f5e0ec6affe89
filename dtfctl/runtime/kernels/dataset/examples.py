"""Batches of serialized Example messages as dense, sparse and ragged tensors (parse_example_dataset)."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.framework.tensor_codec import object_array, object_scalar
from dtfctl.runtime.kernels.context import StepContext
from dtfctl.runtime.kernels.data_flow.handles import shape_text, type_text
from dtfctl.runtime.kernels.dataset.buffering import AUTOTUNED, PrefetchDataset
from dtfctl.runtime.kernels.dataset.core import Dataset, Element, Iteration, Next, dataset_of, scalar_of
from dtfctl.runtime.kernels.dataset.registration import register_dataset
from dtfctl.runtime.kernels.io.examples import Ragged, Sparse, Wanted, dense_features, parse_rows
from dtfctl.runtime.kernels.ragged.variant import RaggedTensorVariant
from dtfctl.runtime.kernels.registry import KernelBuild


class ParseExampleDataset(Dataset):
    """A component for each feature, in the order of the features' names."""

    def __init__(self, source: Dataset, wanted: Wanted) -> None:
        self.source, self.wanted = source, wanted
        keys = [*(d.key for d in wanted.dense), *(s.key for s in wanted.sparse), *(r.key for r in wanted.ragged)]
        self._order = sorted(range(len(keys)), key=keys.__getitem__)

    def iterate(self, iteration: Iteration) -> Next:
        following = self.source.iterate(iteration)
        return lambda: self._parse(following()[0])

    def _parse(self, serialized: Any) -> Element:
        if serialized.ndim != 1:
            raise InvalidArgumentError(
                f"Expected a vector of serialized examples, got shape: {shape_text(serialized.shape)}"
            )
        wanted = self.wanted
        out = parse_rows(serialized, wanted)
        s, d, r = len(wanted.sparse), len(wanted.dense), len(wanted.ragged)
        indices, values, shapes = out[:s], out[s : 2 * s], out[2 * s : 3 * s]
        dense, rest = out[3 * s : 3 * s + d], out[3 * s + d :]
        sparse = [object_array(list(parts), (3,)) for parts in zip(indices, values, shapes, strict=True)]
        ragged = [
            object_scalar(RaggedTensorVariant((splits,), flat, feature.dtype))
            for flat, splits, feature in zip(rest[:r], rest[r:], wanted.ragged, strict=True)
        ]
        together = [*dense, *sparse, *ragged]
        return tuple(together[i] for i in self._order)

    def cardinality(self) -> int:
        return self.source.cardinality()


@register_dataset("ParseExampleDataset", "ParseExampleDatasetV2", "ExperimentalParseExampleDataset")
def parse_example_dataset(k: KernelBuild, step: StepContext, source: Any, parallel: Any, *defaults: Any) -> Dataset:
    count = scalar_of(parallel, "num_parallel_calls")
    if count != -1 and count < 1:
        raise InvalidArgumentError("num_parallel_calls must be greater than zero.")
    texts = dataset_of(source)
    if texts.types and tuple(texts.types) != (dtypes.string,):
        raise InvalidArgumentError(
            f"Expected a dataset of a single string component, got: {', '.join(map(type_text, texts.types))}"
        )
    keys = {kind: [key.decode() for key in k.attr(f"{kind}_keys") or ()] for kind in ("sparse", "dense", "ragged")}
    wanted = Wanted(
        [Sparse(key, t) for key, t in zip(keys["sparse"], k.attr("sparse_types"), strict=True)],
        dense_features(keys["dense"], k, defaults),
        [
            Ragged(key, value, split)
            for key, value, split in zip(
                keys["ragged"], k.attr("ragged_value_types") or (), k.attr("ragged_split_types") or (), strict=True
            )
        ],
    )
    return PrefetchDataset(ParseExampleDataset(texts, wanted), AUTOTUNED if count == -1 else count)
