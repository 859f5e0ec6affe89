"""Datasets that are read from files: each of several processes gets files of its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dtfctl.protocol import graph_pb2
from dtfctl.runtime.data.dataset import Dataset
from dtfctl.runtime.framework import context, dtypes
from dtfctl.runtime.framework.constant_value import constant_value
from dtfctl.runtime.framework.convert import convert_to_tensor
from dtfctl.runtime.framework.graph import Graph
from dtfctl.runtime.framework.op_builder import apply_op, make_op
from dtfctl.runtime.framework.operation import Operation, Tensor

_READERS = ("TFRecordDataset", "TextLineDataset", "FixedLengthRecordDataset")
# Their elements are those of their only input, in another order at most.
_SAME_ELEMENTS = ("Shuffle", "Prefetch", "Options", "Repeat", "Cache")


def own_files(dataset: Dataset, processes: int, which: int) -> Dataset:
    """Return a dataset that reads every `processes`-th file only, from file `which` on.

    Files are named where they are read, or by a dataset whose elements `interleave` or `flat_map` reads.

    Where it is seen only as it runs that there are fewer files than processes, it fails then, in all of them.

    Raises:
        ValueError: it reads no files, or fewer than there are processes.
    """
    return Dataset(_Shares(processes, which).of(dataset.variant), dataset.structure)


class _Shares:
    def __init__(self, processes: int, which: int) -> None:
        self._processes, self._which = processes, which
        self._graph = context.get_default_graph()
        self._made: dict[Operation, Operation] = {}

    def of(self, variant: Tensor) -> Tensor:
        """Make a dataset once more, from its share of the files."""
        op = variant.op
        if op not in self._made:
            self._made[op] = self._again(op)
        return self._made[op].outputs[variant.value_index]

    def _again(self, op: Operation) -> Operation:
        sources = [i for i, t in enumerate(op.inputs) if t.dtype is dtypes.variant]
        inputs = list(op.inputs)
        if op.type.startswith(_READERS):
            inputs[0] = self._names(op.inputs[0])
        elif not sources:
            raise ValueError(
                f"{op.name} ({op.type}) reads no files, so AutoShardPolicy.FILE has none to share out: take "
                "AutoShardPolicy.DATA"
            )
        elif sources == [0] and _reads_files(op):
            inputs[0] = self._elements(op.inputs[0])
        else:
            for i in sources:
                inputs[i] = self.of(inputs[i])
        made = self._graph.add_op(op.signature, inputs, op.attrs, name=op.name.rpartition("/")[2])
        for old, new in zip(op.outputs, made.outputs, strict=True):
            new.set_shape(old.shape)
        return made

    def _names(self, names: Tensor) -> Tensor:
        """Choose files by their names."""
        known = constant_value(names)
        count = 1 if names.shape.rank == 0 else None if known is None else known.size
        if count is not None and count < self._processes:
            raise ValueError(
                f"AutoShardPolicy.FILE has {count} file{'s' * (count != 1)} to share out to {self._processes} "
                "processes: write more, or take AutoShardPolicy.DATA"
            )
        with self._graph.control_dependencies([] if count is not None else [self._check(names)]):
            share: Tensor = apply_op(
                "StridedSlice", input=names, begin=[self._which], end=[0], strides=[self._processes], end_mask=1
            )
        return share

    def _check(self, names: Tensor) -> Operation:
        """Make what fails in all processes where one would have no file: how many there are is not known before."""
        size: Tensor = apply_op("Size", input=names)
        enough = apply_op("GreaterEqual", x=size, y=convert_to_tensor(self._processes, dtypes.int32))
        text = f"AutoShardPolicy.FILE has fewer files than the {self._processes} processes; files:"
        return make_op("Assert", condition=enough, data=[convert_to_tensor(text), size])

    def _elements(self, names: Tensor) -> Tensor:
        """Choose files among the elements of a dataset of names; before they are shuffled, as each process shuffles."""
        op = names.op
        if op.type.startswith(_SAME_ELEMENTS) and op.inputs[0].dtype is dtypes.variant:
            inputs = [self._elements(op.inputs[0]), *op.inputs[1:]]
            return self._graph.add_op(op.signature, inputs, op.attrs, name=op.type).outputs[names.value_index]
        types = next((op.get_attr(n) for n in ("output_types", "Toutput_types") if n in op.attrs), [dtypes.string])
        shapes: list[Any] = list(op.attrs["output_shapes"].list.shape) if "output_shapes" in op.attrs else [[]]
        shares: Tensor = apply_op(
            "ShardDataset",
            input_dataset=names,
            num_shards=convert_to_tensor(self._processes, dtypes.int64),
            index=convert_to_tensor(self._which, dtypes.int64),
            require_non_empty=True,
            output_types=types,
            output_shapes=shapes,
        )
        return shares


def _reads_files(op: Operation) -> bool:
    """Tell whether the function of an op, or one that it calls, reads files."""
    waiting = [value.func.name for value in op.attrs.values() if value.WhichOneof("value") == "func"]
    seen: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        for node in _nodes(op.graph, name):
            if node.op.startswith(_READERS):
                return True
            waiting += [value.func.name for value in node.attr.values() if value.WhichOneof("value") == "func"]
    return False


def _nodes(graph: Graph, function: str) -> Iterator[graph_pb2.NodeDef]:
    found: Any = graph.library.find(function)
    if found is not None:
        yield from found.node_def
