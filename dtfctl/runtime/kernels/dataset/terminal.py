"""Ops that consume a dataset or tell something about it."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfctl.runtime.framework.errors import InvalidArgumentError, OutOfRangeError
from dtfctl.runtime.framework.tensor_codec import object_scalar
from dtfctl.runtime.kernels.arguments import text_of
from dtfctl.runtime.kernels.context import StepContext
from dtfctl.runtime.kernels.data_flow.handles import lookup
from dtfctl.runtime.kernels.data_flow.table import HashTable, LookupTable
from dtfctl.runtime.kernels.dataset.core import EndOfSequence, Function, dataset_of, drain, new_pass
from dtfctl.runtime.kernels.dataset.fingerprint import fingerprint
from dtfctl.runtime.kernels.io.records import write_tfrecords
from dtfctl.runtime.kernels.registry import Kernel, KernelBuild, register_kernel


@register_kernel(("DatasetCardinality", "ExperimentalDatasetCardinality"))
def dataset_cardinality(k: KernelBuild) -> Kernel:
    return lambda dataset: np.int64(dataset_of(dataset).cardinality())


@register_kernel("GetOptions")
def get_options(k: KernelBuild) -> Kernel:
    return lambda dataset: object_scalar(dataset_of(dataset).options)


@register_kernel("ReduceDataset", step=True, blocking=True)
def reduce_dataset(k: KernelBuild) -> Kernel:
    count, function = len(k.attr("Tstate")), k.attr("f")

    def run(step: StepContext, dataset: Any, *rest: Any) -> Any:
        state, reduce = tuple(rest[:count]), Function(step, function, rest[count:])
        iteration = new_pass(dataset_of(dataset), step)
        try:
            for element in drain(dataset_of(dataset), iteration):
                state = reduce(iteration, (*state, *element))
        finally:
            iteration.close()
        return state

    return run


@register_kernel("DatasetToSingleElement", step=True, blocking=True)
def dataset_to_single_element(k: KernelBuild) -> Kernel:
    def run(step: StepContext, dataset: Any) -> Any:
        iteration = new_pass(dataset_of(dataset), step)
        try:
            following = dataset_of(dataset).iterate(iteration)
            try:
                element = following()
            except EndOfSequence:
                raise InvalidArgumentError("Dataset was empty.") from None
            try:
                following()
            except EndOfSequence:
                return element
            raise InvalidArgumentError("Dataset had more than one element.")
        finally:
            iteration.close()

    return run


@register_kernel(("DatasetToTFRecord", "ExperimentalDatasetToTFRecord"), step=True, blocking=True)
def dataset_to_tfrecord(k: KernelBuild) -> Kernel:
    def run(step: StepContext, dataset: Any, filename: Any, compression: Any) -> None:
        iteration = new_pass(dataset_of(dataset), step)
        try:
            records = (element[0].reshape(-1)[0] for element in drain(dataset_of(dataset), iteration))
            write_tfrecords(text_of(filename), records, text_of(compression))
        finally:
            iteration.close()

    return run


@register_kernel("InitializeTableFromDataset", step=True, blocking=True)
def initialize_table_from_dataset(k: KernelBuild) -> Kernel:
    def run(step: StepContext, handle: Any, dataset: Any) -> None:
        table = lookup(step, handle, LookupTable)
        if not isinstance(table, HashTable):
            raise InvalidArgumentError(f"Table {table.name} is not initializable")
        iteration = new_pass(dataset_of(dataset), step)
        try:
            elements = drain(dataset_of(dataset), iteration)
            pairs = [(e[0].reshape(-1).tolist(), e[1].reshape(-1).tolist()) for e in elements]
        finally:
            iteration.close()
        table.initialize((key, value) for keys, values in pairs for key, value in zip(keys, values))

    return run


@register_kernel(("WrapDatasetVariant", "UnwrapDatasetVariant"))
def wrap_dataset_variant(k: KernelBuild) -> Kernel:
    return lambda dataset: dataset


@register_kernel("DatasetFingerprint")
def dataset_fingerprint(k: KernelBuild) -> Kernel:
    return lambda dataset: np.array(fingerprint(dataset_of(dataset)), np.uint64)


@register_kernel("GetElementAtIndex", step=True, blocking=True)
def get_element_at_index(k: KernelBuild) -> Kernel:
    def run(step: StepContext, dataset: Any, index: Any) -> Any:
        wanted = int(index)
        iteration = new_pass(dataset_of(dataset), step)
        try:
            for i, element in enumerate(drain(dataset_of(dataset), iteration)):
                if i == wanted:
                    return element
        finally:
            iteration.close()
        raise OutOfRangeError(f"Index out of range [0, {dataset_of(dataset).cardinality()}): {wanted}")

    return run
