"""Datasets whose elements are for replicas: each gets its part, and each process reads its share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from dtfctl.runtime.data.dataset import Dataset
from dtfctl.runtime.data.experimental import AutoShardPolicy
from dtfctl.runtime.data.iterator import make_initializable_iterator, make_one_shot_iterator
from dtfctl.runtime.data.structure import AnyDataset
from dtfctl.runtime.framework import context, dtypes, nest
from dtfctl.runtime.framework.convert import convert_to_tensor
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.operation import Operation
from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.ops.grouping import group
from dtfctl.runtime.replication.values import regroup
from dtfctl.runtime.strategies.file_shares import own_files


class InputReplicationMode(Enum):
    """Say for whom an input function is called: once for each process."""

    PER_WORKER = "PER_WORKER"


@dataclass(frozen=True)
class InputContext:
    """What an input function is told.

    Attributes:
        num_input_pipelines: how many processes read, each its share.
        input_pipeline_id: which of them this is, from 0.
        num_replicas_in_sync: how many replicas share a batch.
    """

    num_input_pipelines: int = 1
    input_pipeline_id: int = 0
    num_replicas_in_sync: int = 1

    def get_per_replica_batch_size(self, global_batch_size: int) -> int:
        """Return how many examples of a batch one replica gets.

        Raises:
            ValueError: the batch cannot be divided by the number of replicas.
        """
        if global_batch_size % self.num_replicas_in_sync:
            raise ValueError(
                f"The `global_batch_size` {global_batch_size} is not divisible by `num_replicas_in_sync` "
                f"{self.num_replicas_in_sync}"
            )
        return global_batch_size // self.num_replicas_in_sync


@dataclass(frozen=True)
class ValueContext:
    """What a function that makes a replica's value is told."""

    replica_id_in_sync_group: int = 0
    num_replicas_in_sync: int = 1


class DistributedIterator:
    """An iterator whose `get_next` gives each replica of this process an element, in the order of the dataset."""

    def __init__(self, strategy: Any, source: Any) -> None:
        self._strategy, self._source = strategy, source

    @property
    def initializer(self) -> Operation:
        """The op that begins a pass."""
        return group(*self.initialize())

    def initialize(self) -> list[Operation]:
        """List the ops that begin a pass; none where it begins by itself."""
        return [self._source.initializer] if getattr(self._source, "_initializer", None) is not None else []

    @property
    def output_types(self) -> Any:
        return self._source.output_types

    @property
    def output_shapes(self) -> Any:
        return self._source.output_shapes

    def get_next(self, name: str | None = None) -> Any:
        """Take an element for each replica; OutOfRangeError where one would get none."""
        extended = self._strategy.extended
        graph = context.get_default_graph()
        elements: list[Any] = []
        before: list[Any] = []
        for _ in extended.worker_devices:
            with graph.device(extended.host_device or None), graph.control_dependencies(before):
                element = self._source() if callable(self._source) else self._source.get_next()
            elements.append(element)
            before = [t.op for t in nest.flatten(element, expand_composites=True)][:1]
        return elements[0] if len(elements) == 1 else regroup(elements)


class DistributedDataset:
    """A dataset for the replicas of a strategy, with iterators as others have."""

    def __init__(self, strategy: Any, dataset: Any) -> None:
        self._strategy, self._dataset = strategy, dataset

    @staticmethod
    def of_dataset(strategy: Any, dataset: Any) -> DistributedDataset:
        """Cut each batch into parts for all replicas, of which this process takes its own."""
        with context.get_default_graph().device(strategy.extended.host_device or None):
            return DistributedDataset(strategy, shared_out(dataset, strategy.extended))

    @staticmethod
    def of_function(strategy: Any, dataset_fn: Callable[[InputContext], Any]) -> DistributedDataset:
        """Take what a function gives: an element is one replica's."""
        with context.get_default_graph().device(strategy.extended.host_device or None):
            return DistributedDataset(strategy, dataset_fn(input_context(strategy)))

    @property
    def output_types(self) -> Any:
        return self._dataset.output_types

    @property
    def output_shapes(self) -> Any:
        return self._dataset.output_shapes

    def make_initializable_iterator(self, shared_name: str | None = None) -> DistributedIterator:
        with context.get_default_graph().device(self._strategy.extended.host_device or None):
            return DistributedIterator(self._strategy, make_initializable_iterator(self._dataset, shared_name))

    def make_one_shot_iterator(self) -> DistributedIterator:
        with context.get_default_graph().device(self._strategy.extended.host_device or None):
            return DistributedIterator(self._strategy, make_one_shot_iterator(self._dataset))


def dataset_iterator(strategy: Any, dataset: Any) -> DistributedIterator:
    """Make an iterator over a dataset of whole batches, each cut into parts for all replicas."""
    return DistributedDataset.of_dataset(strategy, dataset).make_initializable_iterator()


def input_fn_iterator(strategy: Any, input_fn: Callable[[InputContext], Any]) -> DistributedIterator:
    """Make an iterator over what `input_fn` gives: a dataset, or a function that gives one element.

    Raises:
        ValueError: it gives something else.
    """
    with context.get_default_graph().device(strategy.extended.host_device or None):
        given = input_fn(input_context(strategy))
    if isinstance(given, AnyDataset):
        return DistributedDataset(strategy, given).make_initializable_iterator()
    if callable(given):
        return DistributedIterator(strategy, given)
    raise ValueError("input_fn must return a tf.data.Dataset or a callable.")


def input_context(strategy: Any) -> InputContext:
    """Make what an input function of this process is told."""
    extended = strategy.extended
    return InputContext(extended.num_input_pipelines, extended.input_pipeline_id, strategy.num_replicas_in_sync)


def shared_out(dataset: Dataset, extended: Any) -> Dataset:
    """Cut each batch into as many parts as there are replicas, and keep those of this process.

    All processes read the whole: elements must come in the same order in all of them (give `shuffle` a seed). With
    AutoShardPolicy.FILE each reads files of its own, and keeps all parts; with OFF it does so whatever the others read.

    Raises:
        ValueError: there are no files, or too few to share out. NotImplementedError: the policy is HINT.
    """
    policy = AutoShardPolicy(dataset.options().experimental_distribute.auto_shard_policy or AutoShardPolicy.AUTO)
    if policy is AutoShardPolicy.HINT and extended.num_input_pipelines > 1:
        raise NotImplementedError(
            "AutoShardPolicy.HINT: a dataset has no hints here. Call shard(...) in a function that you give to "
            "strategy.experimental_distribute_datasets_from_function, or take AutoShardPolicy.DATA"
        )
    if policy is AutoShardPolicy.FILE and extended.num_input_pipelines > 1:
        dataset = own_files(dataset, extended.num_input_pipelines, extended.input_pipeline_id)
    replicas, own = extended.num_replicas_in_sync, len(extended.worker_devices)
    if replicas == 1:
        return dataset
    parts = convert_to_tensor(replicas, dtypes.int64)
    structure = dataset.structure.with_leaves(
        lambda shape: _part_of(shape, replicas), lambda kind: kind.unbatched().batched(None)
    )
    rows = dataset.by_rows().variant
    variant = apply_op("RebatchDataset", input_dataset=rows, num_replicas=parts, **structure.attrs)
    split = Dataset(variant, structure)
    if own == replicas or policy in (AutoShardPolicy.FILE, AutoShardPolicy.OFF):
        return split
    which, processes = extended.input_pipeline_id, extended.num_input_pipelines
    if own == 1:
        return split.shard(processes, which)
    mine = split.enumerate().filter(lambda i, _: _equal(i // own % processes, which))
    return mine.map(lambda _, element: element)


def _equal(x: Any, y: int) -> Any:
    return apply_op("Equal", x=x, y=convert_to_tensor(y, x.dtype))


def _part_of(shape: TensorShape, parts: int) -> TensorShape:
    """Return the shape of a part of a batch."""
    if not shape.rank:
        return shape
    rows, *rest = shape.as_list()
    return TensorShape([rows // parts if rows is not None and rows % parts == 0 else None, *rest])
